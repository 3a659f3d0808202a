"""run, resume: the commands that drive a run with its own script."""

from __future__ import annotations

from typing import Annotated

import typer

from addendum.cli import inputs, opening, options
from addendum.cli.finish import driven, finish
from addendum.cli.output import Output
from addendum.runs import names


def run(
    script: options.Script,
    args: options.Args = None,
    grant: options.Grant = None,
    policy: options.Policy = None,
    relocation: options.Relocation = None,
    name: Annotated[
        str | None,
        typer.Option(
            "--name", metavar="TEXT", help="A label for lists (default: the script's file name).", show_default=False
        ),
    ] = None,
    identifier: Annotated[
        str,
        typer.Option(
            "--id",
            metavar="RUN",
            help="The run's name: letters, digits, dashes, dots, underscores (default: made from date and time).",
            show_default=False,
        ),
    ] = "",
    request: options.Request = "",
    parent: options.Parent = None,
    store: options.Store = None,
    sandbox: options.Sandbox = None,
    provider: options.Provider = None,
    log: options.Log = None,
    json: options.Json = False,
) -> int:
    """Start a run of a script, and drive it to its end, a stop, or a wait.

    Ctrl-C asks for a clean end: nothing new is sent, calls in flight are finished and kept, and `addendum resume` goes
    on. A second one says for how many calls it waits, a third one kills.
    """
    from addendum.cli.progress import Progress
    from addendum.runs.start import start

    output = Output(json, store=store, sandbox=sandbox, provider=provider)
    names.check(identifier)
    source = inputs.script(script)
    given = inputs.args(args, {})
    chosen = inputs.policies(policy, relocation)
    label = name if name is not None else inputs.label(script)
    progress = Progress(None if json else output.err)
    settings = opening.settings(store=store, sandbox=sandbox, provider=provider, grant=grant, log=log)
    with opening.context(settings, progress) as context:
        above, own = opening.share(context, parent, named=bool(settings.grant))
        about = {"name": label, "run": identifier, "request": request, "parent": above}
        with driven(progress) as stop:
            result = start(context, source, given, grant=own, policy=chosen, stop=stop, **about)
        return finish(output, context, result, source=source, path=script)


def resume(
    run: options.Run,
    args: options.Args = None,
    policy: options.Policy = None,
    relocation: options.Relocation = None,
    supersede: options.Supersede = None,
    retry: options.Retry = "open",
    store: options.Store = None,
    sandbox: options.Sandbox = None,
    provider: options.Provider = None,
    log: options.Log = None,
    json: options.Json = False,
) -> int:
    """Go on with a run, with its own script: what is committed is replayed, what failed is tried again."""
    from addendum import wiring
    from addendum.cli.progress import Progress
    from addendum.runs.revise import revise as apply
    from addendum.runs.start import resume as go_on

    output = Output(json, store=store, sandbox=sandbox, provider=provider)
    chosen = inputs.policies(policy, relocation)
    allowed = inputs.allowances(supersede, retry)
    given = inputs.args(args, None)
    progress = Progress(None if json else output.err)
    settings = opening.settings(store=store, sandbox=sandbox, provider=provider, log=log)
    with opening.context(settings, progress) as context:
        name = opening.resolve(context.store, run)
        wiring.recall(context, name)
        with driven(progress) as stop:
            if args is None:
                result = go_on(context, name, policy=chosen, allowances=allowed, stop=stop)
            else:
                result = apply(
                    context, name, None, args=given, policy=chosen, allowances=allowed, how="resume", stop=stop
                )
        return finish(output, context, result)
