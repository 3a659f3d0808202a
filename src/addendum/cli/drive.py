"""run, resume, plan, revise: the commands that drive a run, or say what driving it would do."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from addendum.cli import inputs, opening, options
from addendum.cli.output import Output
from addendum.errors import UsageError

if TYPE_CHECKING:
    from addendum.cli import planfile
    from addendum.cli.progress import Progress
    from addendum.runs.context import Context
    from addendum.runs.result import StepResult
    from addendum.runs.revise import Drawn

CandidateArgument = Annotated[
    str | None,
    typer.Argument(metavar="[SCRIPT]", help="The new script, or `-` for standard input.", show_default=False),
]


def run(
    script: options.Script,
    args: options.Args = None,
    grant: options.Grant = None,
    policy: options.Policy = None,
    relocation: options.Relocation = None,
    name: Annotated[
        str | None,
        typer.Option("--name", metavar="TEXT", help="A label for lists [the script's file name].", show_default=False),
    ] = None,
    identifier: Annotated[
        str, typer.Option("--id", metavar="RUN", help="The run's name [made from date and time].", show_default=False)
    ] = "",
    store: options.Store = None,
    sandbox: options.Sandbox = None,
    provider: options.Provider = None,
    json: options.Json = False,
) -> int:
    """Start a run of a script, and drive it to its end, a stop, or a wait."""
    from addendum.cli.progress import Progress
    from addendum.runs.start import start

    output = Output(json)
    _identifier(identifier)
    source = inputs.script(script)
    given = inputs.args(args, {})
    chosen = inputs.policies(policy, relocation)
    label = name if name is not None else "" if script == "-" else Path(script).name
    progress = Progress(None if json else output.err)
    settings = opening.settings(store=store, sandbox=sandbox, provider=provider, grant=grant)
    with opening.context(settings, progress) as context:
        with _driven(progress) as stop:
            result = start(context, source, given, policy=chosen, name=label, run=identifier, stop=stop)
        return _finish(output, context, result, source=source, path=script)


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
    json: options.Json = False,
) -> int:
    """Go on with a run, with its own script: what is committed is replayed, what failed is tried again."""
    from addendum import wiring
    from addendum.cli.progress import Progress
    from addendum.runs.revise import revise as apply
    from addendum.runs.start import resume as go_on

    output = Output(json)
    chosen = inputs.policies(policy, relocation)
    allowed = inputs.allowances(supersede, retry)
    given = inputs.args(args, None)
    progress = Progress(None if json else output.err)
    with opening.context(opening.settings(store=store, sandbox=sandbox, provider=provider), progress) as context:
        name = opening.resolve(context.store, run)
        wiring.recall(context, name)
        with _driven(progress) as stop:
            if args is None:
                result = go_on(context, name, policy=chosen, allowances=allowed, stop=stop)
            else:
                result = apply(
                    context, name, None, args=given, policy=chosen, allowances=allowed, how="resume", stop=stop
                )
        return _finish(output, context, result)


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

    output = Output(json)
    source = None if script is None else inputs.script(script)
    given = inputs.args(args, None)
    chosen = inputs.policies(policy, relocation)
    allowed = inputs.allowances(supersede, retry, drop, move)
    with opening.context(opening.settings(store=store, sandbox=sandbox, provider=provider)) as context:
        name = opening.resolve(context.store, run)
        candidate = planfile.PlanFile(
            run=name, source=source, has_args=args is not None, args=given, policy=chosen, allowances=allowed
        )
        drawn, result = draw(context, candidate)
        if out is not None:
            if drawn.plan is not None and drawn.plan.status == "planned":
                planfile.write(out, _filled(candidate, result))
            else:
                output.say(f"{out} is not written: this is nothing that could be applied.")
        return _finish(output, context, result, source=source, path=script or "", planned=True)


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
    json: options.Json = False,
) -> int:
    """Submit a new script for a run, and execute it if it is admitted.

    On a terminal the plan is shown and has to be confirmed (exit code 4 if it isn't); elsewhere it is applied at once,
    as with --yes.
    """
    from addendum import wiring
    from addendum.cli import planfile
    from addendum.cli.progress import Progress
    from addendum.runs.revise import UNCHANGED
    from addendum.runs.revise import revise as apply

    output = Output(json)
    if script is None and plan is None:
        raise UsageError(
            "Which script?", hint="Name one, or a plan with --plan; `addendum resume` goes on with the run's own."
        )
    candidate = planfile.PlanFile(
        run="",
        source=None if script is None else inputs.script(script),
        has_args=args is not None,
        args=inputs.args(args, None),
        policy=inputs.policies(policy, relocation),
        allowances=inputs.allowances(supersede, retry, drop, move),
    )
    progress = Progress(None if json else output.err)
    with opening.context(opening.settings(store=store, sandbox=sandbox, provider=provider), progress) as context:
        name = opening.resolve(context.store, run)
        at: tuple[int, str] | None = None
        if plan is not None:
            candidate = _planned_before(planfile.read(plan), candidate, name)
            at = candidate.at
        elif output.interactive and not yes:
            drawn, found = draw(context, candidate, name)
            if drawn.plan is None or drawn.plan.status != "planned":
                return _finish(output, context, found, source=candidate.source, path=script or "", planned=True)
            _present(output, context, found, None, "")
            if not typer.confirm("Apply this plan?", err=True):
                output.say("Not applied; nothing was sent.")
                return 4
            at = drawn.plan.at
        wiring.recall(context, name)
        with _driven(progress) as stop:
            result = apply(
                context,
                name,
                candidate.source,
                args=candidate.args if candidate.has_args else UNCHANGED,
                policy=candidate.policy,
                allowances=candidate.allowances,
                at=at,
                stop=stop,
            )
        return _finish(output, context, result, source=candidate.source, path=script or str(plan or ""))


# --- planning -----------------------------------------------------------------------------------------------------


def draw(context: Context, candidate: planfile.PlanFile, run: str = "") -> tuple[Drawn, StepResult]:
    """Return the plan for a candidate, and what `addendum plan` says of it. Raises `NotFound`."""
    from addendum.runs import query
    from addendum.runs.revise import UNCHANGED, planned
    from addendum.runs.revise import plan as shadowed

    name = run or candidate.run
    drawn = shadowed(
        context,
        name,
        candidate.source,
        args=candidate.args if candidate.has_args else UNCHANGED,
        policy=candidate.policy,
        allowances=candidate.allowances,
    )
    reading = query.read(context.store, name)
    result = planned(name, drawn, reading.history.committed)
    result.total_cost, result.revision = reading.cost, reading.history.revision
    if drawn.plan is not None:
        result.details["worst_case"] = worst_case(drawn.admission.report.facts.worst_case, context)
    return drawn, result


def worst_case(calls: Any, context: Context) -> dict[str, Any]:
    """Return the worst case of a script as JSON: calls per capability, and their price (null: unbounded)."""
    from addendum.authority.envelope import cost
    from addendum.authority.money import usd

    most = cost(calls, context.catalog)
    return {"calls": dict(calls), "cost_usd": None if most is None else usd(most)}


def _filled(candidate: planfile.PlanFile, result: StepResult) -> planfile.PlanFile:
    from dataclasses import replace

    return replace(candidate, plan=result.details["plan"])


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


# --- the end of a step --------------------------------------------------------------------------------------------


@contextmanager
def _driven(progress: Progress) -> Iterator[threading.Event]:
    """Watch a run, and let ^C stop it."""
    from addendum.cli.interrupt import stoppable

    with progress.watching(), stoppable(progress.say, progress.restore) as stop:
        yield stop


def _finish(
    output: Output,
    context: Context,
    result: StepResult,
    *,
    source: str | None = None,
    path: str = "",
    planned: bool = False,
) -> int:
    """Print how a step came out; return the exit code."""
    from addendum.runs.query import certified

    if result.run:
        if result.certificate is None and result.stop != "store_unavailable":
            result.certificate = certified(context.store, result.run)
    if output.json:
        output.value(result.to_json())
    else:
        _present(output, context, result, source, path, planned)
    return result.exit_code


def _present(
    output: Output, context: Context, result: StepResult, source: str | None, path: str, planned: bool = True
) -> None:
    from addendum.cli.views import plan as plan_view
    from addendum.cli.views import report as report_view
    from addendum.cli.views import result as result_view
    from addendum.runs import query

    data = result.to_json()
    refused = data["details"].get("admission")
    drawn = data["details"].get("plan")
    if refused is not None and refused["violations"]:
        output.show(report_view.report(path or "script", source or "", refused["violations"]))
    if drawn is not None and (planned or result.status == "not_admitted" or drawn["status"] == "stopped"):
        records = query.read(context.store, result.run).history.records
        output.show(plan_view.plan(drawn, records, _worst(data["details"].get("worst_case"))))
    if not planned or drawn is None:
        output.show(result_view.result(data, _steps(context, result)))


def _worst(found: Any) -> str:
    if not found or not found["calls"]:
        return ""
    calls = ", ".join(
        f"{name} {'no bound' if most is None else most}" for name, most in sorted(found["calls"].items()) if most != 0
    )
    cost = "no bound" if found["cost_usd"] is None else f"${found['cost_usd']}"
    return f"{cost} for the whole script ({calls})"


def _steps(context: Context, result: StepResult) -> Any:
    from addendum.runs import query

    drawn = result.details.get("plan")
    refused = result.status == "not_admitted" or (drawn is not None and drawn["status"] != "planned")
    if not result.run or refused or result.stop == "store_unavailable":
        return ()
    return query.show(context.store, result.run).advice


def _identifier(given: str) -> None:
    if given == opening.LAST or given.startswith("-") or any(character.isspace() for character in given):
        raise UsageError(f"A run can't be named {given!r}.", hint="Leave --id out, or use letters, digits and dashes.")
