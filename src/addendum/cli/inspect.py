"""runs, show, diff, certificate, attempts: looking at what is there. Nothing is changed."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from addendum.cli import inputs, opening, options
from addendum.cli.output import Output
from addendum.errors import UsageError

if TYPE_CHECKING:
    from addendum.ports import Store
    from addendum.records.certificate import Certificate

NEWEST = 20


def runs(
    every: Annotated[bool, typer.Option("--all", help=f"All of them, not only the newest {NEWEST}.")] = False,
    store: options.Store = None,
    json: options.Json = False,
) -> int:
    """List the runs of a store, newest first.

    A store that may only be read is read as it is, unless an older program made it; nothing is made beside it.
    """
    from addendum.cli.views import runs as view
    from addendum.runs import query

    output = Output(json)
    settings = opening.settings(store=store)
    found: list[query.Summary] = []
    more = 0
    if opening.exists(settings):
        with opening.store(settings) as opened:
            found = query.listing(opened, newest=0 if every else NEWEST)
            more = len(opened.runs()) - len(found)
    if json:
        output.value([summary.to_json() for summary in found])
    else:
        output.show(view.listing(found, more))
    return 0


def show(
    run: options.Run,
    result: Annotated[bool, typer.Option("--result", help="Print the run's result as JSON, and nothing else.")] = False,
    source: Annotated[
        bool, typer.Option("--source", help="Print the script of the current revision, and nothing else.")
    ] = False,
    call: Annotated[
        str | None,
        typer.Option(
            "--call",
            metavar="IDENTITY",
            help="Print one call with its payload and result, as JSON.",
            show_default=False,
        ),
    ] = None,
    drafts: Annotated[
        bool,
        typer.Option("--drafts", help="Print what models were asked for, with every counterexample, and nothing else."),
    ] = False,
    draft: Annotated[
        int | None,
        typer.Option(
            "--draft",
            metavar="N",
            help="Print the script of a draft, admitted or not, and nothing else.",
            show_default=False,
        ),
    ] = None,
    every: Annotated[bool, typer.Option("--all", help="List failures that were tried again, too.")] = False,
    store: options.Store = None,
    json: options.Json = False,
) -> int:
    """Show a run: its calls, what they cost, why it stopped, and what to do next."""
    from addendum.cli.views import runs as view
    from addendum.runs import query

    output = Output(json or result or call is not None, store=store)
    if sum((result, source, call is not None, drafts, draft is not None)) > 1:
        raise UsageError(
            "--result, --source, --call, --drafts and --draft each print one thing.", hint="Name one of them."
        )
    with opening.store(opening.settings(store=store)) as opened:
        name = opening.resolve(opened, run)
        if result:
            output.value(query.result_of(opened, name))
        elif source:
            text = query.source_of(opened, name)
            output.value({"run": name, "source": text}) if json else output.raw(text)
        elif call is not None:
            output.value(query.call_of(opened, name, call))
        elif drafts or draft is not None:
            _drafts(output, opened, name, draft)
        else:
            found = query.show(opened, name)
            found = replace(found, advice=output.advice(found.advice))
            value = query.value(opened, found.result) if found.result is not None else None
            output.value({**found.to_json(), "result": value}) if json else output.show(view.run(found, value, every))
    return 0


def _drafts(output: Output, opened: Store, run: str, number: int | None) -> None:
    """Print the drafts of a run, or the script of one."""
    from addendum.cli.views import drafts as view
    from addendum.runs import query

    if number is not None:
        draft, text = query.draft_of(opened, run, number)
        output.value({**draft.to_json(), "source": text}) if output.json else output.raw(text)
        return
    listed = [each.to_json() for each in query.show(opened, run).drafts]
    output.value(listed) if output.json else output.show(view.at_length(listed))


def diff(
    run: options.Run,
    old: Annotated[
        int | None,
        typer.Option("--from", metavar="N", help="The older revision (default: the one before).", show_default=False),
    ] = None,
    new: Annotated[
        int | None,
        typer.Option("--to", metavar="N", help="The newer revision (default: the current one).", show_default=False),
    ] = None,
    store: options.Store = None,
    json: options.Json = False,
) -> int:
    """Compare two revisions of a run's script; lines that committed calls stand on are marked with `●`."""
    from addendum.cli.views import difference as view
    from addendum.runs.difference import difference

    output = Output(json)
    with opening.store(opening.settings(store=store)) as opened:
        found = difference(opened, opening.resolve(opened, run), old, new)
    output.value(found.to_json()) if json else output.show(view.difference(found))
    return 0


def certificate(
    run: options.Run,
    verify: Annotated[
        bool, typer.Option("--verify", help="Recompute it from the store, and list every difference.")
    ] = False,
    against: Annotated[
        str | None,
        typer.Option(
            "--against",
            metavar="FILE",
            help="Compare with a certificate that was written before: is it the beginning of this one?",
            show_default=False,
        ),
    ] = None,
    out: options.Out = None,
    envelope: Annotated[
        Path | None,
        typer.Option(
            "--envelope",
            metavar="FILE",
            help="Write it as an in-toto statement in a DSSE envelope, signed when --key names a key.",
            show_default=False,
        ),
    ] = None,
    key: Annotated[
        str | None,
        typer.Option(
            "--key",
            metavar="FILE",
            help="The private key to sign with; `addendum work key` makes one.",
            show_default=False,
        ),
    ] = None,
    store: options.Store = None,
    json: options.Json = False,
) -> int:
    """Print a run's certificate: the hash chain over everything in its journal, with the frozen sites.

    Exit code 3 when --verify or --against finds a difference.
    """
    from addendum.authority.money import usd
    from addendum.cli.views import certificate as view
    from addendum.runs import query

    output = Output(json)
    with opening.store(opening.settings(store=store)) as opened:
        name = opening.resolve(opened, run)
        found = query.certify(opened, name)
        if against is not None:
            before = _certificate(against)
            found.differences.extend(query.beginning(opened, name, before["head"], before["entries"]))
    data: dict[str, Any] = {"run": name, **found.to_json(), "cost_usd": usd(found.cost)}
    if out is not None:
        _write(out, data, "--out")
    _export(name, found, envelope, key)
    output.value(data) if json else output.show(view.certificate(data, verify or against is not None))
    return 3 if found.differences and (verify or against is not None) else 0


def _export(run: str, found: Certificate, envelope: Path | None, key: str | None) -> None:
    """Write the certificate's envelope, if one is asked for."""
    from addendum.runs.export import enveloped

    if envelope is not None:
        _write(envelope, enveloped(run, found, key), "--envelope")
    elif key is not None:
        raise UsageError("A key signs an envelope.", hint="Say where to put it with --envelope FILE.")


def attempts(
    run: options.Run,
    open_only: Annotated[bool, typer.Option("--open", help="Only those without a result.")] = False,
    store: options.Store = None,
    json: options.Json = False,
) -> int:
    """List what was sent: every dispatch with its idempotency key, and what became of it."""
    from addendum.cli.views import runs as view
    from addendum.runs import query

    output = Output(json)
    with opening.store(opening.settings(store=store)) as opened:
        found = query.attempts(opened, opening.resolve(opened, run), open_only=open_only)
    output.value([attempt.to_json() for attempt in found]) if json else output.show(view.attempts(found))
    return 0


def _certificate(path: str) -> dict[str, Any]:
    data = inputs.parsed(path, inputs.read_text(path, "a certificate"))
    if not isinstance(data, dict) or not isinstance(data.get("head"), str) or not isinstance(data.get("entries"), int):
        raise UsageError(f"{path} is no certificate.", hint="Write one with `addendum certificate RUN --out FILE`.")
    return data


def _write(path: Path, data: dict[str, Any], option: str) -> None:
    import json

    try:
        path.write_text(json.dumps(data, ensure_ascii=False, indent=2) + "\n", "utf-8")
    except OSError as error:
        raise UsageError(
            f"{path} can't be written: {error.strerror}.", hint=f"Name another file with {option}."
        ) from None
