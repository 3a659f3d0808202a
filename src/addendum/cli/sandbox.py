"""sandbox list, sandbox verify, sandbox build: where scripts can run here."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any

import typer

from addendum.cli import options
from addendum.cli.output import Output
from addendum.errors import SandboxError

app = typer.Typer(no_args_is_help=True, help="Where scripts run: which backends are here, and whether they confine.")


@app.command("list")
def list_(json: options.Json = False) -> int:
    """List the backends, and whether each can run a script here. Exit code 0 if the chosen one can, else 4."""
    from addendum.cli import opening

    settings = opening.settings()
    chosen = settings.sandbox
    found = [_try(name, settings) for name in _names()]
    output = Output(json)
    if json:
        output.value([{**item, "chosen": item["name"] == chosen} for item in found])
    else:
        output.show(_table(found, chosen))
    return 0 if any(item["available"] for item in found if item["name"] == chosen) else 4


@app.command()
def verify(
    names: Annotated[
        list[str] | None,
        typer.Argument(metavar="NAME", help="Backends; every one that is here if none is named.", show_default=False),
    ] = None,
    backend: Annotated[
        list[str] | None, typer.Option("--backend", metavar="NAME", help="The same, as an option.", show_default=False)
    ] = None,
    json: options.Json = False,
) -> int:
    """Run the acceptance checks on backends: what a script that no checker would let pass could reach.

    Exit code 0: every check passes or doesn't apply; 3: one fails; 4: no backend is here. A backend that is named and
    isn't here is an error that says what to install.
    """
    import tempfile

    from addendum import wiring
    from addendum.cli import opening

    output = Output(json)
    settings = opening.settings()
    chosen = [*(names or ()), *(backend or ())]
    if not chosen:
        chosen = [item["name"] for item in (_try(name, settings) for name in _names()) if item["available"]]
    found: dict[str, list[dict[str, str]]] = {}
    for name in chosen:
        _must(name, settings)
        with tempfile.TemporaryDirectory(prefix="addendum-verify-") as folder:
            found[name] = wiring.verify_sandbox(name, Path(folder), settings)
        if not json:
            output.show(_findings(name, found[name]))
    if json:
        output.value(found)
    failed = any(item["verdict"] == "failed" for items in found.values() for item in items)
    return 3 if failed else 0 if found else 4


@app.command()
def build(
    program: Annotated[
        str | None,
        typer.Option(
            "--with",
            metavar="docker|podman",
            help="The engine that gets the image; the chosen sandbox, or docker, if none is named.",
            show_default=False,
        ),
    ] = None,
    base: Annotated[
        str | None,
        typer.Option(
            "--base",
            metavar="IMAGE",
            help="Make it from an image that is here and has Python 3.11 or later, not from this machine's Python.",
            show_default=False,
        ),
    ] = None,
    json: options.Json = False,
) -> int:
    """Make the image that scripts run in with docker or podman. Nothing is pulled.

    Exit code 0: it is there. The image is run by its digest; to pin it, put the digest into the setting `image`.
    """
    from addendum import wiring
    from addendum.cli import opening

    chosen = opening.settings().sandbox
    made = wiring.build_image(program or (chosen if chosen == "podman" else "docker"), base)
    output = Output(json)
    if json:
        output.value(made)
    else:
        output.raw(f"{made['image']}  {made['tag']}, CPython {made['python']}, from {made['base']}")
    return 0


def _names() -> tuple[str, ...]:
    from addendum import wiring

    names: tuple[str, ...] = wiring.SANDBOXES
    return names


def _try(name: str, settings: Any) -> dict[str, Any]:
    """Run a script that does nothing, and say what confined it, or why it couldn't run."""
    try:
        return {"name": name, "available": True, "confinement": _must(name, settings), "why": ""}
    except SandboxError as error:
        return {"name": name, "available": False, "confinement": "", "why": str(error)}


def _must(name: str, settings: Any) -> str:
    """Run a script that does nothing; return what confined it. Raises `SandboxError`."""
    from addendum import wiring
    from addendum.runs.prepare import script
    from addendum.script.program import compile_program

    sandbox = wiring.open_sandbox(name, settings.model_copy(update={"warm": 0}))
    try:
        session = sandbox.open(script(compile_program(NOTHING)), {}, limits=settings.limits(), nonce="0" * 32)
        try:
            session.advance(None)
        finally:
            session.close()
        said: str = sandbox.describe()  # type: ignore[attr-defined]
        return said
    finally:
        sandbox.close()


NOTHING = "async def orchestrate(ctx, args):\n    return None\n"


def _table(found: list[dict[str, Any]], chosen: str) -> Any:
    from rich.text import Text

    from addendum.cli.printable import line
    from addendum.cli.views.words import table

    listed = table("sandbox", "here", "what confines, or why not", fold=("what confines, or why not",))
    for item in found:
        name = Text(item["name"]).append("  (chosen)" if item["name"] == chosen else "", style="dim")
        here = Text("yes", style="green") if item["available"] else Text("no", style="red")
        listed.add_row(name, here, line(item["confinement"] or item["why"]))
    return listed


VERDICTS = {"passed": "green", "failed": "bold red", "not_applicable": "dim"}


def _findings(name: str, found: list[dict[str, str]]) -> Any:
    from rich.console import Group
    from rich.text import Text

    from addendum.cli.printable import line
    from addendum.cli.views.words import table

    listed = table(name, "check", "seen", fold=("seen",))
    for item in found:
        verdict = Text(item["verdict"].replace("_", " "), style=VERDICTS[item["verdict"]])
        listed.add_row(
            verdict, item["check"], Text(line(item["tried"])).append(f"\n{line(item['detail'])}", style="dim")
        )
    passed = sum(1 for item in found if item["verdict"] == "passed")
    failed = sum(1 for item in found if item["verdict"] == "failed")
    rest = len(found) - passed - failed
    style = "bold red" if failed else "green"
    apply = "doesn't apply" if rest == 1 else "don't apply"
    return Group(listed, Text(f"{name}: {passed} passed, {failed} failed, {rest} {apply}\n", style=style))
