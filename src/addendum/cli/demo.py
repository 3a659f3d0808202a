"""demo: the episode that Addendum is for, in a minute and without a provider."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from addendum.cli import episode, options
from addendum.cli.output import Output
from addendum.errors import UsageError

if TYPE_CHECKING:
    from addendum.cli.progress import Progress
    from addendum.runs.context import Context
    from addendum.runs.result import StepResult

RUN = "demo"


def demo(
    seconds: Annotated[
        float, typer.Option("--seconds", metavar="S", min=0.0, help="How long each call of the local provider takes.")
    ] = 0.4,
    keep: Annotated[
        Path | None,
        typer.Option(
            "--keep",
            metavar="FOLDER",
            help="Keep the scripts and the store in this folder, to look at them.",
            show_default=False,
        ),
    ] = None,
    json: options.Json = False,
) -> int:
    """Show the episode: four images in a fan-out, one fails, a model rewrites the script, one image is paid for.

    Everything is local: the embedded sandbox and store, and a provider that makes nothing and charges nothing.
    """
    from addendum import wiring
    from addendum.cli.progress import Progress

    output = Output(json)
    progress = Progress(None if json else output.out)
    with _folder(keep) as folder:
        context = wiring.demonstration(folder, *episode.FAILING, seconds, progress)
        try:
            data = _play(output, context, progress)
        finally:
            context.sandbox.close()
            context.store.close()
        if keep is not None:
            _keep(output, folder)
    if json:
        output.value(data)
    return 0 if data["revise"]["status"] == "completed" and data["certificate"]["verdict"] == "ok" else 3


@contextmanager
def _folder(keep: Path | None) -> Iterator[Path]:
    if keep is not None:
        try:
            keep.mkdir(parents=True, exist_ok=True)
        except OSError as error:
            raise UsageError(
                f"The folder {keep} can't be made: {error.strerror}.", hint="Name another one with --keep."
            ) from None
        yield keep
        return
    import tempfile

    with tempfile.TemporaryDirectory(prefix="addendum-demo-") as folder:
        yield Path(folder)


def _play(output: Output, context: Context, progress: Progress) -> dict[str, Any]:
    """Play the episode; return everything that was seen."""
    from addendum.cli.planfile import PlanFile
    from addendum.cli.revising import draw
    from addendum.cli.views import demo as view
    from addendum.runs import query
    from addendum.runs.difference import difference
    from addendum.runs.revise import revise
    from addendum.runs.start import start

    _tell(output, view.opening(episode.FIRST))
    with progress.watching():
        first = start(context, episode.FIRST, dict(episode.ARGS), run=_name(context), name="first.py")
    run = first.run
    _tell(output, view.failed(first.to_json()))

    drawn, planned = draw(context, PlanFile(run=run, source=episode.SECOND))
    _tell(output, view.rewritten(episode.SECOND))
    _tell(output, view.planned(planned.to_json(), query.read(context.store, run).history.records))

    _tell(output, view.applying())
    with progress.watching():
        second = revise(context, run, episode.SECOND, at=drawn.plan.at if drawn.plan is not None else None)
    money = _money(context, first, second)
    certificate = query.certify(context.store, run)
    changed = difference(context.store, run) if second.revision > 1 else None
    _tell(output, view.ended(second.to_json(), money, certificate.to_json()))
    return {
        "run": first.to_json(),
        "plan": planned.to_json(),
        "revise": second.to_json(),
        "diff": changed.to_json() if changed is not None else None,
        "money": money,
        "certificate": certificate.to_json(),
    }


def _tell(output: Output, part: Any) -> None:
    if not output.json:
        output.show(part)


def _name(context: Context) -> str:
    """Return the run's name; a folder that was kept may have older ones."""
    names = {header.run for header in context.store.runs()}
    return next(name for name in (RUN, *(f"{RUN}-{n}" for n in range(2, len(names) + 3))) if name not in names)


def _money(context: Context, first: StepResult, second: StepResult) -> dict[str, Any]:
    """Compare with running the corrected script from the start, which pays again for every call it makes."""
    from addendum.authority.money import usd
    from addendum.runs import query

    used = [call for call in query.show(context.store, first.run).calls if call.state == "committed"]
    again = sum(call.cost for call in used)
    return {
        "first": {"calls": first.dispatched, "cost_usd": usd(first.cost)},
        "revision": {"calls": second.dispatched, "cost_usd": usd(second.cost)},
        "together": {"calls": first.dispatched + second.dispatched, "cost_usd": usd(first.cost + second.cost)},
        "full_rerun": {"calls": len(used), "cost_usd": usd(again)},
        "with_full_rerun": {"calls": first.dispatched + len(used), "cost_usd": usd(first.cost + again)},
        "saved": {"calls": len(used) - second.dispatched, "cost_usd": usd(again - second.cost)},
    }


def _keep(output: Output, folder: Path) -> None:
    (folder / "first.py").write_text(episode.FIRST, "utf-8")
    (folder / "second.py").write_text(episode.SECOND, "utf-8")
    _tell(
        output,
        f"Kept in {folder}: first.py, second.py, store.db. Look with: addendum show last --store {folder / 'store.db'}",
    )
