"""artifact: the files that results refer to."""

from __future__ import annotations

import os
import sys
from pathlib import Path
from typing import Annotated

import typer

from addendum.cli import opening, options
from addendum.cli.output import Output
from addendum.errors import UsageError

app = typer.Typer(no_args_is_help=True, help="The files that results refer to.")


@app.command("list")
def listed(
    run: Annotated[
        str | None,
        typer.Argument(
            metavar="RUN", help="Only those that this run's results refer to, each checked.", show_default=False
        ),
    ] = None,
    store: options.Store = None,
    json: options.Json = False,
) -> int:
    """List the files that are kept beside the store, or those of a run: kept, missing or damaged.

    Exit code 3 when a file of the run is missing or damaged.
    """
    from addendum import wiring
    from addendum.cli.views.words import state, table
    from addendum.runs import artifacts

    settings, output = opening.settings(store=store), Output(json)
    kept = wiring.open_artifacts(settings)
    if run is None:
        found = list(kept.all())
        if json:
            output.value([each.to_json() for each in found])
            return 0
        if not found:
            output.show("No file is kept beside this store.")
            return 0
        shown = table("artifact", "type", "bytes")
        for each in found:
            shown.add_row(each.reference, each.media_type, f"{each.bytes:,}")
        output.show(shown)
        output.show(f"{len(found)} files, {sum(each.bytes for each in found):,} bytes")
        return 0
    with opening.store(settings) as opened:
        of_run = artifacts.of_run(opened, kept, opening.resolve(opened, run))
    if json:
        output.value([each.to_json() for each in of_run])
    elif not of_run:
        output.show("The results of this run refer to no file.")
    else:
        shown = table("artifact", "type", "bytes", "record", "state")
        for one in of_run:
            shown.add_row(one.reference, one.media_type, f"{one.bytes:,}", f"{one.seq}", state(one.state))
        output.show(shown)
    return 3 if any(one.state != "kept" for one in of_run) else 0


@app.command()
def get(
    reference: Annotated[
        str,
        typer.Argument(
            metavar="REF", help="sha256: and its first digits, 6 at least, as a result has them.", show_default=False
        ),
    ],
    out: Annotated[
        Path | None,
        typer.Option("--out", metavar="FILE", help="Where to; a new file. Else to stdout.", show_default=False),
    ] = None,
    store: options.Store = None,
    json: options.Json = False,
) -> int:
    """Write a file's bytes, once they were held against its reference."""
    from addendum import media, wiring

    kept = wiring.open_artifacts(opening.settings(store=store))
    reference = kept.find(reference)
    data = kept.get(reference)
    if out is None:
        if json or sys.stdout.isatty():
            raise UsageError("The bytes of a file belong into a file.", hint="Name a new one with --out FILE.")
        sys.stdout.buffer.write(data)
        sys.stdout.buffer.flush()
        return 0
    try:
        with os.fdopen(os.open(out, os.O_CREAT | os.O_EXCL | os.O_WRONLY, 0o666), "wb") as file:
            file.write(data)
    except OSError as error:
        raise UsageError(f"{out} can't be written: {error.strerror}.", hint="Name a new file with --out.") from None
    output = Output(json)
    kind = media.kind(data)
    if json:
        output.value({"artifact": reference, "media_type": kind, "bytes": len(data), "out": str(out)})
    else:
        output.show(f"{out}  {kind}  {len(data):,} bytes")
    return 0
