"""plan, revise: another script, or other args, for a run that is there."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from addendum.cli import inputs, opening, options
from addendum.cli.finish import driven, finish, present
from addendum.cli.output import Output
from addendum.errors import UsageError

if TYPE_CHECKING:
    from addendum.cli import planfile
    from addendum.cli.progress import Progress
    from addendum.config import Settings
    from addendum.plan import Of
    from addendum.runs.context import Context
    from addendum.runs.result import StepResult
    from addendum.runs.revise import Drawn

CandidateArgument = Annotated[
    str | None,
    typer.Argument(metavar="SCRIPT", help="The new script, or `-` for standard input.", show_default=False),
]


def plan(
    run: options.Run,
    script: CandidateArgument = None,
    args: options.Args = None,
    policy: options.Policy = None,
    relocation: options.Relocation = None,
    supersede: options.Supersede = None,
    retry: options.Retry = "open",
    drop: options.Drop = None,
    move: options.Move = None,
    out: Annotated[
        Path | None,
        typer.Option(
            "--out", metavar="FILE", help="Write the plan to a file, for `addendum revise --plan`.", show_default=False
        ),
    ] = None,
    store: options.Store = None,
    sandbox: options.Sandbox = None,
    provider: options.Provider = None,
    json: options.Json = False,
) -> int:
    """Say what a revision would replay, move, and pay for. Nothing is sent or written.

    Without SCRIPT the run's own one is planned: what would other args, or a new version of a call, cost?
    """
    from addendum.cli import planfile

    output = Output(json, store=store, sandbox=sandbox, provider=provider)
    candidate = _candidate(script, args, inputs.policies(policy, relocation), supersede, retry, drop, move)
    with opening.context(opening.settings(store=store, sandbox=sandbox, provider=provider)) as context:
        drawn, result = draw(context, candidate, opening.resolve(context.store, run))
        if out is not None:
            if drawn.plan is not None and drawn.plan.applies:
                planfile.write(out, replace(candidate, run=result.run, plan=result.details["plan"]))
            else:
                output.say(f"{out} is not written: this is nothing that could be applied.")
        return finish(output, context, result, source=candidate.source, path=script or "", planned=True)


def revise(
    run: options.Run,
    script: CandidateArgument = None,
    plan: Annotated[
        Path | None,
        typer.Option(
            "--plan",
            metavar="FILE",
            help="Apply this plan, made by `addendum plan --out`; refused when the run has changed since.",
            show_default=False,
        ),
    ] = None,
    args: options.Args = None,
    policy: options.Policy = None,
    relocation: options.Relocation = None,
    supersede: options.Supersede = None,
    retry: options.Retry = "open",
    drop: options.Drop = None,
    move: options.Move = None,
    yes: Annotated[
        bool,
        typer.Option("--yes", "-y", help="Don't ask: on a terminal the plan is shown first and has to be confirmed."),
    ] = False,
    store: options.Store = None,
    sandbox: options.Sandbox = None,
    provider: options.Provider = None,
    log: options.Log = None,
    json: options.Json = False,
) -> int:
    """Submit a new script for a run, and execute it if it is admitted.

    On a terminal the plan is shown and has to be confirmed (exit code 4 if it isn't); elsewhere it is applied at once,
    as with --yes.
    """
    if script is None and plan is None:
        raise UsageError(
            "Which script?", hint="Name one, or a plan with --plan; `addendum resume` goes on with the run's own."
        )
    candidate = _candidate(script, args, inputs.policies(policy, relocation), supersede, retry, drop, move)
    settings = opening.settings(store=store, sandbox=sandbox, provider=provider, log=log)
    output = Output(json, store=store, sandbox=sandbox, provider=provider)
    return _revise(output, settings, run, candidate, plan, ask=not yes, path=script or str(plan or ""))


def _candidate(
    script: str | None,
    args: str | None,
    policy: dict[str, object],
    supersede: list[str] | None,
    retry: str,
    drop: list[str] | None,
    move: list[str] | None,
) -> planfile.PlanFile:
    """Read what is asked for. Raises `UsageError`."""
    from addendum.cli import planfile

    return planfile.PlanFile(
        run="",
        source=None if script is None else inputs.script(script),
        name="" if script is None else inputs.label(script),
        has_args=args is not None,
        args=inputs.args(args, None),
        policy=policy,
        allowances=inputs.allowances(supersede, retry, drop, move),
    )


def _revise(
    output: Output,
    settings: Settings,
    run: str,
    candidate: planfile.PlanFile,
    plan: Path | None,
    *,
    ask: bool,
    path: str,
) -> int:
    """Apply a candidate: the one of a plan file, the one that was shown and confirmed, or at once."""
    from addendum.cli import planfile
    from addendum.cli.progress import Progress

    progress = Progress(None if output.json else output.err)
    with opening.context(settings, progress) as context:
        name = opening.resolve(context.store, run)
        at: tuple[int, str] | None = None
        of: Of | None = None
        if plan is not None:
            candidate = _planned_before(planfile.read(plan), candidate, name)
            at, of = candidate.at, candidate.of
        elif ask and output.interactive:
            drawn, found = draw(context, candidate, name)
            if drawn.plan is None or not drawn.plan.applies:
                return finish(output, context, found, source=candidate.source, path=path, planned=True)
            present(output, context, found, None, "")
            if not typer.confirm("Apply this plan?", err=True):
                output.say("Not applied; nothing was sent.")
                return 4
            at, of = drawn.plan.at, drawn.plan.of
        result = _apply(context, progress, name, candidate, at, of)
        return finish(output, context, result, source=candidate.source, path=path)


def _apply(
    context: Context,
    progress: Progress,
    name: str,
    candidate: planfile.PlanFile,
    at: tuple[int, str] | None,
    of: Of | None,
) -> StepResult:
    from addendum import wiring
    from addendum.runs.revise import UNCHANGED, revise

    wiring.recall(context, name)
    with driven(progress) as stop:
        return revise(
            context,
            name,
            candidate.source,
            args=candidate.args if candidate.has_args else UNCHANGED,
            policy=candidate.policy,
            allowances=candidate.allowances,
            at=at,
            name=candidate.name,
            of=of,
            stop=stop,
        )


def draw(context: Context, candidate: planfile.PlanFile, run: str = "") -> tuple[Drawn, StepResult]:
    """Return the plan for a candidate, and what `addendum plan` says of it. Raises `NotFound`."""
    from addendum.runs.revise import UNCHANGED, foresee

    return foresee(
        context,
        run or candidate.run,
        candidate.source,
        args=candidate.args if candidate.has_args else UNCHANGED,
        policy=candidate.policy,
        allowances=candidate.allowances,
    )


def _planned_before(found: planfile.PlanFile, given: planfile.PlanFile, run: str) -> planfile.PlanFile:
    """Return the plan to apply. Raises `UsageError` when it is another run's, or more is asked for beside it."""
    from addendum.kernel.policy import Allowances

    if found.run != run:
        raise UsageError(f"The plan is one for the run {found.run}, not for {run}.", hint="Plan this one.")
    if given.source is not None and given.source != found.source:
        raise UsageError("The script isn't the one that was planned.", hint="Plan it again, or leave SCRIPT out.")
    if given.has_args or given.policy or given.allowances != Allowances():
        raise UsageError(
            "A plan already says args, policies and what is allowed.", hint="Give them to `addendum plan` instead."
        )
    return found
