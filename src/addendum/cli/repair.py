"""repair: have a model mend the script of a run that failed; it stops at the plan."""

from __future__ import annotations

import shlex
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from addendum.cli import inputs, opening, options
from addendum.cli.finish import driven, finish, present
from addendum.cli.output import Output
from addendum.errors import ConfigError, UsageError

if TYPE_CHECKING:
    from addendum.cli.progress import Progress
    from addendum.config import Settings
    from addendum.ports import Model
    from addendum.repair.guards import Options
    from addendum.repair.loop import Asked
    from addendum.repair.outcome import Outcome
    from addendum.runs.context import Context


def repair(
    run: options.Run,
    show_brief: Annotated[
        bool, typer.Option("--show-brief", help="Print what the model would be told, and ask nobody.")
    ] = False,
    max_attempts: options.Attempts = 3,
    relocation: options.Relocation = None,
    policy: options.Policy = None,
    supersede: options.Supersede = None,
    drop: Annotated[
        list[str] | None,
        typer.Option(
            "--drop",
            metavar="IDENTITY|PLACE",
            help="Let the candidate give up the committed calls at an identity, or at a site with its static path.",
            show_default=False,
        ),
    ] = None,
    fewer_calls: Annotated[
        bool, typer.Option("--fewer-calls", help="Allow a script with fewer calls than the one that it mends.")
    ] = False,
    again: Annotated[
        bool, typer.Option("--again", help="Ask the model though an accepted candidate waits to be applied.")
    ] = False,
    apply: Annotated[
        bool, typer.Option("--apply", help="Execute an accepted candidate at once, without asking anybody.")
    ] = False,
    model: options.Model = None,
    store: options.Store = None,
    sandbox: options.Sandbox = None,
    provider: options.Provider = None,
    log: options.Log = None,
    json: options.Json = False,
) -> int:
    """Have a model mend the script of a run that failed; it is checked, planned, and executed only if you say so.

    The model gets the run's brief: request, script, the calls that are paid for, the failure, the rules. What it
    answers passes every guard or goes back to it with counterexamples. On a terminal the plan is shown and has to be
    confirmed; elsewhere nothing is executed without --apply. An accepted candidate is kept: the next command with
    --apply executes it without asking the model again. What the model costs is the run's money, within its grant.

    Exit code 0: a candidate was accepted, and came to a good end if it was executed; 3: none was, or the model failed;
    4: undecided (a limit of the grant, an open approval, an unresolved call, a plan that wasn't confirmed).
    """
    from addendum.repair.guards import Options
    from addendum.repair.loop import Asked

    allowed = Options(
        policy=inputs.policies(policy, relocation),
        allowances=inputs.allowances(supersede, "open", drop),
        fewer_calls=fewer_calls,
    )
    asked = Asked(options=allowed, max_attempts=max_attempts, again=again)
    output = Output(json, store=store, sandbox=sandbox, provider=provider)
    settings = opening.settings(store=store, sandbox=sandbox, provider=provider, log=log)
    return _repair(output, settings, run, model, asked, show_brief=show_brief, apply=apply)


def _repair(
    output: Output, settings: Settings, run: str, model: str | None, asked: Asked, *, show_brief: bool, apply: bool
) -> int:
    from addendum.cli.progress import Progress

    progress = Progress(None if output.json else output.err)
    with opening.context(settings, progress) as context:
        name = opening.resolve(context.store, run)
        if show_brief:
            return _brief(output, context, name, asked.options)
        found = _repaired(context, settings, progress, name, model, asked)
        return conclude(output, context, progress, found, asked.options, apply=apply, model=model)


def _brief(output: Output, context: Context, run: str, allowed: Options) -> int:
    from addendum.repair.loop import brief
    from addendum.repair.text import readable

    found = brief(context, run, allowed)
    if output.json:
        output.value(found.to_json())
        return 0
    output.raw(readable(found))
    output.say("The model gets the rules and the capabilities before it: `addendum guide` prints those.")
    return 0


def _repaired(
    context: Context, settings: Settings, progress: Progress, run: str, model: str | None, asked: Asked
) -> Outcome:
    from addendum import wiring
    from addendum.repair.loop import repair as mend

    wiring.recall(context, run)
    found, asked = opened(settings, model, asked, needed=not _pending(context, run))
    with driven(progress) as stop:
        return mend(context, run, found, asked, stop=stop)


def _pending(context: Context, run: str) -> bool:
    from addendum.records.history import fold

    return bool(fold(context.store.entries(run)).pending)


def opened(settings: Settings, model: str | None, asked: Asked, *, needed: bool = True) -> tuple[Model | None, Asked]:
    """Open the model that was named, or the one of the services file. One that isn't `needed` may be missing."""
    from addendum import wiring

    try:
        found, said = wiring.open_author(settings, model)
    except ConfigError:
        if needed or model is not None:
            raise
        return None, asked
    return found, replace(asked, max_tokens=said.max_tokens, timeout=said.timeout, retries=said.retries)


def conclude(
    output: Output,
    context: Context,
    progress: Progress,
    found: Outcome,
    allowed: Options,
    *,
    apply: bool,
    model: str | None = None,
    out: Path | None = None,
) -> int:
    """Print how a loop came out, ask on a terminal whether to go on, and execute the candidate if that is said.

    `model` is the one that the command was given: the command that asks again is given it too."""
    if out is not None and found.candidate is not None:
        _write(out, found.candidate)
    ask = found.candidate is not None and found.purpose == "repair" and not apply and output.interactive
    if not output.json:
        _shown(output, context, found, allowed)
        if not apply and not ask:
            _next(output, found, allowed, model)
    at = found.drawn.plan.at if found.drawn is not None and found.drawn.plan is not None else None
    if ask:
        if not typer.confirm("Apply this plan?", err=True):
            again = output.exact(f"addendum repair {found.run}{_options(allowed)} --apply")
            output.say(f"Not applied; nothing was sent. The candidate is kept: {again}")
            return 4
        apply = True
    if not apply or found.candidate is None:
        if output.json:
            output.value(found.to_json())
        return found.exit_code
    return _applied(output, context, progress, found, allowed, at if ask else None)


def _applied(
    output: Output,
    context: Context,
    progress: Progress,
    found: Outcome,
    allowed: Options,
    at: tuple[int, str] | None,
) -> int:
    from addendum.repair.author import apply
    from addendum.runs.query import certified

    with driven(progress) as stop:
        found = apply(context, found, allowed, at=at, stop=stop)
    assert found.applied is not None
    if not output.json:
        return finish(output, context, found.applied, source=found.candidate)
    if found.applied.run and found.applied.stop != "store_unavailable":
        found.applied.certificate = certified(context.store, found.applied.run)
    output.value(found.to_json())
    return found.exit_code


def _shown(output: Output, context: Context, found: Outcome, allowed: Options) -> None:
    from addendum.cli.printable import printable
    from addendum.cli.views import drafts as view
    from addendum.cli.views import report

    output.show(view.outcome(found.to_json()))
    if found.candidate is None or found.drawn is None:
        return
    if found.purpose == "author":
        most: Any = found.worst_case["cost_usd"]
        output.show("")
        output.raw(printable(found.candidate))
        output.show("")
        output.show(
            report.facts(found.drawn.admission.report.facts.to_json(), "no bound" if most is None else f"${most}")
        )
        return
    _plan(output, context, found, allowed)


def _plan(output: Output, context: Context, found: Outcome, allowed: Options) -> None:
    """Show the plan of an accepted candidate, as it is now."""
    from addendum.runs.revise import foresee

    allowances = replace(allowed.allowances, moves=dict(found.moves), drops=found.drops)
    drawn, result = foresee(context, found.run, found.candidate, policy=dict(allowed.policy), allowances=allowances)
    found.drawn = drawn
    present(output, context, result, found.candidate, "")


def _next(output: Output, found: Outcome, allowed: Options, model: str | None) -> None:
    """Say what a person can do now, where the hint of the outcome doesn't say it."""
    again = f"addendum repair {found.run}{_options(allowed)}"
    if found.candidate is not None and found.purpose == "author":
        output.show(f"next  {output.exact(f'addendum resume {found.run}')}  runs it")
    elif found.candidate is not None:
        output.show(f"next  {output.exact(f'{again} --apply')}  executes it")
    elif found.attempts and found.status in ("refused", "failed", "stopped"):
        named = f" --model {shlex.quote(model)}" if model is not None else ""
        output.show(f"next  {output.exact(again)}{named}  asks again")


def _options(allowed: Options) -> str:
    """Return what was allowed as options: it isn't kept, so whoever applies the candidate says it again."""
    words = [f" --policy {shlex.quote(f'{name}={value}')}" for name, value in allowed.policy.items()]
    supersede = allowed.allowances.supersede
    named = (["changed"] if supersede else []) if isinstance(supersede, bool) else sorted(supersede)
    words += [f" --supersede {shlex.quote(each)}" for each in named]
    words += [f" --drop {shlex.quote(each)}" for each in allowed.allowances.drops]
    return "".join([*words, " --fewer-calls" if allowed.fewer_calls else ""])


def _write(path: Path, text: str) -> None:
    try:
        path.write_text(text if text.endswith("\n") else text + "\n", "utf-8")
    except OSError as error:
        raise UsageError(f"{path} can't be written: {error.strerror}.", hint="Name another file with --out.") from None
