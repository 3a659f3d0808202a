"""author: have a model write the script for a request, within a grant; it is not executed."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from addendum.cli import inputs, opening, options
from addendum.cli.finish import driven
from addendum.cli.output import Output
from addendum.cli.repair import conclude, opened


def author(
    request: Annotated[
        str,
        typer.Argument(
            metavar="REQUEST", help="What the script is for, or `-` for standard input.", show_default=False
        ),
    ],
    args: options.Args = None,
    grant: options.Grant = None,
    parent: options.Parent = None,
    max_attempts: options.Attempts = 3,
    apply: Annotated[bool, typer.Option("--apply", help="Run an accepted script at once.")] = False,
    out: Annotated[
        Path | None,
        typer.Option("--out", metavar="FILE", help="Write an accepted script to a file as well.", show_default=False),
    ] = None,
    model: options.Model = None,
    name: Annotated[str, typer.Option("--name", metavar="TEXT", help="A label for lists.", show_default=False)] = "",
    identifier: Annotated[
        str,
        typer.Option(
            "--id",
            metavar="RUN",
            help="The run's name: letters, digits, dashes, dots, underscores (default: made from date and time).",
            show_default=False,
        ),
    ] = "",
    store: options.Store = None,
    sandbox: options.Sandbox = None,
    provider: options.Provider = None,
    log: options.Log = None,
    json: options.Json = False,
) -> int:
    """Have a model write the script for a request; it is checked and planned, and executed only if you say so.

    A run is made of it at once, since what the model costs is the run's money, within its grant. An accepted script is
    the run's first: it is printed with its facts and its worst case, and `addendum resume` runs it. Where none was
    accepted, `addendum repair RUN` goes on.

    Exit codes as with `addendum repair`.
    """
    from addendum.cli.progress import Progress
    from addendum.repair.author import author as write
    from addendum.repair.guards import Options
    from addendum.repair.loop import Asked

    output = Output(json, store=store, sandbox=sandbox, provider=provider)
    text = inputs.read_text("-", "a request") if request == "-" else request
    given = inputs.args(args, {})
    settings = opening.settings(store=store, sandbox=sandbox, provider=provider, grant=grant, log=log)
    asked = Asked(options=Options(), max_attempts=max_attempts)
    progress = Progress(None if json else output.err)
    with opening.context(settings, progress) as context:
        above, own = opening.share(context, parent, named=bool(settings.grant))
        found, asked = opened(settings, model, asked)
        about = {"name": name, "run": identifier, "parent": above}
        with driven(progress) as stop:
            outcome = write(context, text, found, asked, args=given, grant=own, stop=stop, **about)
        return conclude(output, context, progress, outcome, asked.options, apply=apply, model=model, out=out)
