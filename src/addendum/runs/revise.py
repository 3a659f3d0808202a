"""Planning a revision, and applying it."""

from __future__ import annotations

import threading
from collections import Counter
from collections.abc import Mapping
from contextlib import closing
from dataclasses import dataclass, replace
from typing import Any

from addendum import canon
from addendum.authority.envelope import cost, rooms
from addendum.authority.money import usd
from addendum.broker.desk import open_desk
from addendum.broker.journal import Journal, Kept
from addendum.broker.relay import Uncounted
from addendum.broker.shortcuts import Shortcuts
from addendum.canon import Json
from addendum.errors import Rejected, SandboxError
from addendum.gate.judge import Verdict, static
from addendum.kernel.decide import Rule
from addendum.kernel.loop import Halt, Loop
from addendum.kernel.policy import Allowances
from addendum.kernel.shadow import Shadow, shadow
from addendum.plan import Of, Plan, draw, to_json
from addendum.records import entries
from addendum.records.stored import Entry
from addendum.runs import advice, delegate
from addendum.runs.admit import Admission, admit, influence, within
from addendum.runs.context import Context
from addendum.runs.execute import Attempt
from addendum.runs.prepare import Scene, named, scene, script
from addendum.runs.result import StepResult
from addendum.runs.start import catalog_changed, current, driving, granted, not_admitted, policy_of, revision_entry
from addendum.script.program import Program

SHOWN = 20
"""For how many diverging calls a plan shows the committed payload beside the new one."""
UNCHANGED: Any = object()
"""Stands for: the run's own args."""


@dataclass(frozen=True, slots=True)
class Drawn:
    """A plan, with what it was drawn from; or the admission that refused the source."""

    journal: Journal
    admission: Admission
    plan: Plan | None = None
    ready: Scene | None = None
    args: Json = None


def plan(
    context: Context,
    run: str,
    source: str | None,
    *,
    args: Json = UNCHANGED,
    policy: Mapping[str, object] | None = None,
    allowances: Allowances | None = None,
    journal: Journal | None = None,
) -> Drawn:
    """Say what a revision would do. Sends and writes nothing; `source` None is the run's own, `journal` the run's as
    its driver has it. A catalog that has changed since the last attempt is a stop, as `revise` would meet it. Raises
    `NotFound`."""
    context.prepare()
    if journal is None:
        context.store.header(run)
        journal = Journal(context.store, run)
        journal.read()
    drawn = _draw(context, journal, source, args, policy, allowances or Allowances())
    changed = catalog_changed(context, journal)
    if changed is not None and drawn.plan is not None:
        drawn.plan.stop = Halt("denied", changed.message, changed.hint, facts=changed.details)
    return drawn


def _draw(
    context: Context,
    journal: Journal,
    source: str | None,
    args: Json,
    policy: Mapping[str, object] | None,
    allowances: Allowances,
) -> Drawn:
    history, begun = journal.history, context.clock.monotonic()
    if source is None:
        source = context.store.blob(current(journal).source).decode("utf-8")
    if args is UNCHANGED:
        unwritten = not history.revisions and history.request is not None
        args = journal.value(history.request_args if unwritten else current(journal).args)
    admission = admit(source, context.catalog, granted(journal), revision=True)
    if admission.program is None:
        return Drawn(journal, admission)
    named(journal.run, history, allowances)
    ready = scene(journal, admission.program, canon.digest(args), policy_of(journal, policy), allowances)
    found = _plan(context, ready, admission.program, args)
    if found.stop is not None:
        found.stop = replace(found.stop, hint=advice.named(found.stop.hint, journal.run))
    accounts = open_desk(journal, granted(journal), context.catalog, context.clock, write=False).accounts
    facts = admission.report.facts
    found.influence, found.flows = influence(facts, context.catalog), facts.flows
    if found.applies:
        replayed = Counter(history.records[seq].capability for seq, _ in found.replayed)
        admission, found.new_work = within(admission, context.catalog, accounts, replayed)
        found.new_cost = cost(found.new_work, context.catalog)
        if admission.program is None:
            return Drawn(journal, admission)
    found.rooms = rooms(found.new_work, context.catalog, accounts.grant, lambda limit: sum(accounts.level(limit)))
    context.tell(
        {
            "run": journal.run,
            "event": "planned",
            "status": found.status,
            "replayed": len(found.replayed),
            "frontier": len(found.frontier),
            "seconds": context.clock.monotonic() - begun,
        }
    )
    return Drawn(journal, admission, found, ready, args)


def _plan(context: Context, ready: Scene, program: Program, args: Json) -> Plan:
    journal = ready.journal
    history = journal.history
    allowed = {**ready.allowances.to_json(), "drops": sorted(ready.allowances.drops)}
    terms: Any = [ready.policy.to_json(), allowed, context.catalog.digest]
    found = Plan(
        revision=program.revision,
        args_digest=ready.args_digest,
        at=(history.seq, history.chain),
        terms=canon.digest(canon.freeze(terms)),
    )
    if ready.policy.relocation == "strict":
        examples = static(ready.claims(0), ready.allowances)
        if examples:
            found.verdict = Verdict(counterexamples=examples)
            return found
    replayed = _replay(context, ready, program, args)
    if isinstance(replayed, Halt):
        found.stop = replayed
        return found
    rule = Rule(
        claims=replayed.loop.claims,
        catalog=context.catalog,
        grant=granted(journal),
        policy=ready.policy,
        allowances=ready.allowances,
        drive=history.drives + 1,
        attempts=dict(history.attempts),
    )
    draw(replayed, rule, found, ready.dropped)
    for call in found.diverging[:SHOWN]:
        found.committed[call.seq] = _asked(journal, call.seq)
    return found


def _replay(context: Context, ready: Scene, program: Program, args: Json) -> Shadow | Halt:
    """Replay a candidate, and once more if a shortcut led it astray."""
    made_up: dict[int, Json] = {}
    shortcuts = Shortcuts(Kept(ready.journal, made_up), context.clock)
    while True:
        loop = Loop(ready.claims(0), max_payload=context.max_payload)
        opened = context.sandbox.open(
            script(program), canon.plain(args), limits=context.limits, nonce=context.clock.token()
        )
        with closing(opened) as session:
            try:
                found = shadow(loop, shortcuts.relay(session, loop, Uncounted()), made_up)
                if isinstance(found, Shadow):
                    return found
                shortcuts.without(found)
            except SandboxError as error:
                return Halt("sandbox", error.message, error.hint)
        made_up.clear()


def _asked(journal: Journal, seq: int) -> Json:
    """Return the payload that a record's call asked for."""
    attempt = journal.history.records[seq].attempt
    for stored in journal.store.entries(journal.run, after=attempt - 1, upto=attempt):
        return journal.value(entries.ref(stored.body["payload"]))
    return None


def _unchanged(journal: Journal, at: tuple[int, str] | None) -> None:
    """Raise `Rejected` for a plan that was made from another state of the run."""
    history = journal.history
    if at is not None and at != (history.seq, history.chain):
        raise Rejected(
            f"The run {journal.run} has changed since the plan was made (entry {at[0]} then, {history.seq} now).",
            hint="Plan again, and look at what is different.",
        )


def _the_same(plan: Plan, of: Of | None) -> None:
    """Raise `Rejected` for a plan of something else than what was looked at."""
    if of is None or of == plan.of:
        return
    if of[:2] != plan.of[:2]:
        message = "The plan is of another script, or of other args."
    else:
        message = "The plan was made under another policy, with something else allowed, or by another catalog."
    raise Rejected(message, hint="Plan this one, and look at what is different.")


def revise(
    context: Context,
    run: str,
    source: str | None,
    *,
    args: Json = UNCHANGED,
    policy: Mapping[str, object] | None = None,
    allowances: Allowances | None = None,
    at: tuple[int, str] | None = None,
    of: Of | None = None,
    how: str = "revise",
    name: str = "",
    stop: threading.Event | None = None,
) -> StepResult:
    """Plan a revision, and apply the plan if it is admitted.

    `at` is the journal that a plan shown before was made from (`Plan.at`): if the run's has changed since, nothing is
    done. `of` is what that plan was of (`Plan.of`): nor is it for anything else. One that only an unresolved call stops
    (`Plan.starts`) becomes the run's, and stops there. `name` is what the script is called, as a rule its file. Raises
    `Rejected` for a change, `NotFound`, `RunBusy`, `ConfigError`.
    """
    allowances = allowances or Allowances()
    context.prepare()
    with driving(context, run) as journal:
        history = journal.history
        _unchanged(journal, at)
        changed = catalog_changed(context, journal)
        if changed is not None:
            return changed
        drawn = _draw(context, journal, source, args, policy, allowances)
        if drawn.plan is None or drawn.ready is None or drawn.admission.program is None:
            return not_admitted(run, drawn.admission, history.committed)
        _the_same(drawn.plan, of)
        if not drawn.plan.applies:
            return refused(run, drawn.plan, journal)
        context.prepare(granted(journal), history.computed)  # the plan used the first one
        delegate.again(context, journal)
        rebound = adopt(journal, drawn, allowances, name)
        ready = scene(journal, drawn.admission.program, drawn.ready.args_digest, drawn.ready.policy, _kept(allowances))
        ready.dropped = [journal.history.records[record.seq] for record in drawn.ready.dropped]
        ready.start = drawn.ready.start
        attempt = Attempt(
            context,
            ready,
            how,
            drawn.args,
            expected=frozenset(drawn.plan.verdict.expected),
            rebound=rebound,
            stop=stop or threading.Event(),
        )
        for move in drawn.plan.rebound:
            attempt.notice(
                {"event": "rebound", "identity": move.new, "seq": move.record, "capability": move.capability}
            )
        result = attempt.run()
        result.gate = drawn.plan.gate
        result.frontier = len(drawn.plan.frontier)
        result.details["plan"] = to_json(drawn.plan)
        return result


def _kept(allowances: Allowances) -> Allowances:
    """The drops were taken by the plan; a record that was rebound stands elsewhere by now."""
    return Allowances(supersede=allowances.supersede, retry=allowances.retry, drops=(), moves=allowances.moves)


def adopt(journal: Journal, drawn: Drawn, allowances: Allowances, name: str = "") -> int:
    """Make a planned candidate the run's current revision, with every claim that the shadow proved. One transaction.

    Returns how many calls were rebound."""
    found, program = drawn.plan, drawn.admission.program
    assert found is not None
    assert program is not None
    number = max(journal.history.revisions, default=0) + 1
    entry, blobs, _ = revision_entry(number, program.source, drawn.args, allowances, name=name)
    rebinds = [
        Entry(
            "rebind",
            {"record": seq, "identity": identity, "revision": number, "proof": "trace", "late": seq in found.late},
        )
        for seq, identity in found.bindings
    ]
    journal.append(entry, *rebinds, blobs=blobs)
    return len(found.rebound)


def refused(run: str, found: Plan, journal: Journal) -> StepResult:
    """Return the result of a revision that the plan already stops: nothing was done."""
    data = to_json(found)
    message, hint = explain(found)
    return StepResult(
        run=run,
        status=found.status,
        stop=data["stop"],
        message=message,
        hint=hint,
        committed=journal.history.committed,
        repeats=data["repeats"],
        gate=found.gate,
        counterexamples=found.verdict.kinds,
        frontier=len(found.frontier),
        total_cost=sum(totals.cost for totals in journal.history.totals.values()),
        revision=journal.history.revision,
        details={"plan": data},
    )


def explain(found: Plan) -> tuple[str, str]:
    """Say why a plan stops, and the way out."""
    examples = found.verdict.counterexamples
    if examples:
        more = f" ({len(examples) - 1} more)" if len(examples) > 1 else ""
        return examples[0].message + more, examples[0].admitted
    if found.stop is not None:
        return found.stop.message, found.stop.hint
    return "", ""


def planned(drawn: Drawn) -> StepResult:
    """Return a plan as the result of a step that only plans."""
    run, committed = drawn.journal.run, drawn.journal.history.committed
    if drawn.plan is None:
        return not_admitted(run, drawn.admission, committed)
    data = to_json(drawn.plan)
    message, hint = explain(drawn.plan)
    return StepResult(
        run=run,
        status=drawn.plan.status,
        stop=data["stop"],
        message=message,
        hint=hint,
        replayed=data["replayed"],
        rebound=data["rebound"],
        superseded=data["superseded"],
        orphans=data["orphans"],
        repeats=data["repeats"],
        committed=committed,
        gate=drawn.plan.gate,
        counterexamples=drawn.plan.verdict.kinds,
        frontier=len(drawn.plan.frontier),
        details={"plan": data},
    )


def foresee(context: Context, run: str, source: str | None, **asked: Any) -> tuple[Drawn, StepResult]:
    """Plan as `plan` does, and return what is said of it too: with the run's cost and revision, and the worst case of
    the whole script (calls per capability, and their price as decimal text; None for no bound). Raises `NotFound`."""
    drawn = plan(context, run, source, **asked)
    history = drawn.journal.history
    result = planned(drawn)
    result.total_cost = sum(totals.cost for totals in history.totals.values())
    result.revision = history.revision
    if drawn.plan is not None:
        calls = drawn.admission.report.facts.worst_case
        most = cost(calls, context.catalog)
        result.details["worst_case"] = {"calls": dict(calls), "cost_usd": None if most is None else usd(most)}
    return drawn, result


__all__ = ["UNCHANGED", "Drawn", "adopt", "explain", "foresee", "plan", "planned", "refused", "revise"]
