"""The guards, in the order in which they look at a candidate; the first that finds something ends the judgement.

| guard | refuses |
| --- | --- |
| `answer` | what isn't a script with moves; what an operator hasn't allowed to be given up |
| `checker` | what breaks a rule |
| `calls` | a script with fewer calls than the one it mends: a text that was cut off still parses |
| `capabilities` | names outside the grant, a worst case above it |
| `gate` | a committed call that is gone, changed, or can't be told from another |
| `plan` | what diverges, pays again for what is committed, or fails before it comes to new work |

Nothing here sends or writes. A candidate is replayed in shadow only, in the sandbox.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace
from typing import Final

from addendum import identity as ids
from addendum.authority.money import usd
from addendum.broker.journal import Journal
from addendum.canon import Json
from addendum.errors import NotFound
from addendum.kernel.policy import Allowances
from addendum.plan import NewCall, Plan
from addendum.ports import Raised
from addendum.repair import findings
from addendum.repair.answer import Candidate
from addendum.repair.findings import Finding
from addendum.runs.admit import Admission, admit
from addendum.runs.context import Context
from addendum.runs.revise import Drawn
from addendum.runs.revise import plan as shadowed
from addendum.runs.start import granted, policy_of
from addendum.script.program import Program
from addendum.script.report import Facts

KEEP: Final = "Keep every call of the script that you mend; more may come beside them."


@dataclass(frozen=True, slots=True, kw_only=True)
class Options:
    """What whoever asks for a candidate allows. `policy` changes the run's; `allowances.drops` are what the operator
    lets a candidate give up. `fewer_calls`: a script with fewer calls is no reason to refuse it."""

    policy: Mapping[str, object] = field(default_factory=dict)
    allowances: Allowances = field(default_factory=Allowances)
    fewer_calls: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Judgement:
    """`found` is empty for a candidate that is accepted. `drawn` is its plan, None if no guard came so far."""

    found: tuple[Finding, ...] = ()
    drawn: Drawn | None = None
    allowances: Allowances = field(default_factory=Allowances)
    admission: Admission | None = None

    @property
    def accepted(self) -> bool:
        """Whether no guard found anything."""
        return not self.found


def judge(context: Context, journal: Journal, candidate: Candidate, options: Options) -> Judgement:
    """Judge a candidate against a run as it stands. Raises `SandboxMissing`, and `StoreError`."""
    found = list(_given_up(candidate, options.allowances.drops))
    if found:
        return Judgement(found=tuple(found))
    grant = granted(journal)
    admission = admit(candidate.script, context.catalog, grant, revision=True)
    errors = findings.violations(admission.report.violations)
    found = [each for each in errors if each.guard == "checker"]
    if not found:
        before = _facts(context, journal)
        found = [] if before is None else list(_calls(before, admission.report.facts, options))
    if not found:
        found = [*(each for each in errors if each.guard == "capabilities"), *_envelope(admission)]
    if found or admission.program is None:
        return Judgement(found=tuple(found[: findings.SHOWN]), admission=admission)
    return _planned(context, journal, candidate, admission, options)


def _planned(
    context: Context, journal: Journal, candidate: Candidate, admission: Admission, options: Options
) -> Judgement:
    """Let the gate and the plan look at a source that is admitted."""
    history = journal.history
    assert admission.program is not None
    same = bool(history.revisions) and history.current.source == admission.program.revision
    found = list(_moves(journal, candidate.moves, admission.program))
    if same:
        found.append(_unchanged())
    allowances = replace(options.allowances, moves=dict(candidate.moves), drops=candidate.drops)
    if found:
        return Judgement(found=tuple(found), admission=admission)
    try:
        policy = dict(options.policy)
        drawn = shadowed(context, journal.run, candidate.script, policy=policy, allowances=allowances, journal=journal)
    except NotFound as error:
        gone = Finding(guard="answer", kind="nowhere", message=error.message, way_out=error.hint)
        return Judgement(found=(gone,), admission=admission)
    if drawn.plan is None:
        return Judgement(found=tuple(_envelope(drawn.admission)), admission=drawn.admission)
    found = [*_plan(journal, drawn.plan, options), *_payloads(context, journal, drawn.plan)]
    found = [each for each in found if each.guard == "gate"] or found
    return Judgement(
        found=tuple(found[: findings.SHOWN]), drawn=drawn, allowances=allowances, admission=drawn.admission
    )


# --- answer -------------------------------------------------------------------------------------------------------


def _given_up(candidate: Candidate, allowed: tuple[str, ...]) -> Iterator[Finding]:
    """Only an operator can give up what was paid for: a model may use what it was allowed, and no more."""
    for drop in candidate.drops:
        if drop not in allowed:
            yield Finding(
                guard="answer",
                kind="drop",
                message=f"The candidate gives up the committed calls at {drop}, which nobody has allowed.",
                way_out="Keep the call where it is. Only an operator can allow to give it up.",
                facts={"drop": drop},
            )


def _moves(journal: Journal, moves: Mapping[str, str], program: Program) -> Iterator[Finding]:
    """Yield declared moves that can't be: from nowhere, to nowhere, or to another capability."""
    records = journal.history.records.values()
    capabilities = {ids.place(record.identity or record.origin): record.capability for record in records}
    hint = "Write places as the brief does; leave out moves that the script doesn't make."
    for old, new in moves.items():
        site = program.positions.get(new.rpartition(ids.JOIN)[2])
        if old not in capabilities:
            message, kind = f"No committed call stands at {old}.", "nowhere"
        elif any(position not in program.positions for position in new.split(ids.JOIN)):
            message, kind = f"The candidate has no place {new}.", "nowhere"
        elif site is None or site.kind != "site" or site.capability != capabilities[old]:
            what = site.capability if site is not None and site.capability else "no call"
            message, kind = f"{old} is a call of {capabilities[old]}, and at {new} stands {what}.", "other_capability"
        else:
            continue
        yield Finding(guard="answer", kind=kind, message=message, way_out=hint, facts={"old": old, "new": new})


def _unchanged() -> Finding:
    return Finding(
        guard="answer",
        kind="unchanged",
        message="This is the script that the run has: nothing is mended.",
        way_out="Change what made it fail.",
    )


# --- calls and capabilities ---------------------------------------------------------------------------------------


def _facts(context: Context, journal: Journal) -> Facts | None:
    """Return the facts of the run's present script, None if it has none."""
    if not journal.history.revisions:
        return None
    source = context.store.blob(journal.history.current.source).decode("utf-8")
    return admit(source, context.catalog, granted(journal), revision=True).report.facts


def _calls(before: Facts, now: Facts, options: Options) -> Iterator[Finding]:
    """A script that was cut off still parses: it has fewer calls, in its text and in its worst case."""
    if options.fewer_calls:
        return
    written = len(before.callsites), len(now.callsites)
    made = _total(before), _total(now)
    if written[1] < written[0] and (made[0] is None or (made[1] is not None and made[1] < made[0])):
        facts: dict[str, Json] = {"calls_before": written[0], "calls_now": written[1]}
        yield Finding(
            guard="calls",
            kind="fewer_calls",
            message=f"The script has {written[1]} calls of capabilities where the one that it mends has {written[0]}, "
            f"and makes fewer at most ({made[1]}, not {'unbounded' if made[0] is None else made[0]}).",
            way_out=KEEP,
            facts=facts,
        )


def _total(facts: Facts) -> int | None:
    counts = list(facts.worst_case.values())
    return None if None in counts else sum(count or 0 for count in counts)


def _envelope(admission: Admission) -> Iterator[Finding]:
    """Yield what the grant has against a script: its worst case, and what the grant can't be admitted for."""
    for excess in admission.excesses:
        yield Finding(
            guard="capabilities",
            kind="R09",
            message=str(excess),
            way_out="Lower the constants that bound loops and fan-outs, until the worst case is within the limit.",
            facts={"limit": str(excess.limit)},
        )
    for objection in admission.objections:
        yield Finding(
            guard="capabilities",
            kind=objection.code,
            message=objection.message,
            way_out="Do without what the message names, or decide it by args or constants.",
            facts={"capabilities": list(objection.names)},
        )


# --- gate and plan ------------------------------------------------------------------------------------------------


def _plan(journal: Journal, plan: Plan, options: Options) -> Iterator[Finding]:
    policy = policy_of(journal, options.policy)
    yield from (findings.counterexample(each, plan, policy.relocation) for each in plan.verdict.counterexamples)
    paid_again = [call for call in plan.frontier if call.finding is not None]
    for call in paid_again if policy.ledger == "auto" else [c for c in paid_again if c.finding and c.finding.denied]:
        yield _again(call)
    if plan.stop is not None and plan.stop.kind != "repeat" and not plan.applies:
        yield Finding(
            guard="plan",
            kind=plan.stop.kind,
            message=plan.stop.message,
            way_out="Let the script come to this call as it did, or do without it.",
        )
    if policy.orphans == "stop":
        for record in plan.verdict.orphans:
            yield Finding(
                guard="plan",
                kind="orphan",
                message=f"The committed call {record.identity or record.origin} is no longer used.",
                way_out="Use its result; the run's policy says that nothing that was paid for is left unused.",
                facts={"identity": record.identity or record.origin, "cost_usd": usd(record.cost)},
            )
    if isinstance(plan.end, Raised):
        yield _raised(plan.end)


def _payloads(context: Context, journal: Journal, plan: Plan) -> Iterator[Finding]:
    """Yield new calls that would fail, or be denied, for what they ask: nothing would be sent for them."""
    where = granted(journal).where
    for call in plan.frontier:
        capability = context.catalog.get(call.capability)
        facts: dict[str, Json] = {"call": call.identity, "payload": call.payload}
        problem = context.schemas.problem(capability.input, call.payload) if capability is not None else ""
        narrowed = where.get(call.capability)
        if problem:
            yield Finding(
                guard="plan",
                kind="invalid_input",
                message=f"The call {call.identity} asks {call.capability} for what it doesn't take: {problem}.",
                way_out="Write the payload as the list of capabilities says.",
                facts=facts,
            )
        elif narrowed and (problem := context.schemas.problem(narrowed, call.payload)):
            yield Finding(
                guard="plan",
                kind="outside",
                message=f"The call {call.identity} of {call.capability} is outside the grant: {problem}.",
                way_out="Ask for what the grant admits, or do without the call.",
                facts=facts,
            )


def _again(call: NewCall) -> Finding:
    found = call.finding
    assert found is not None
    return Finding(
        guard="plan",
        kind="paid_again",
        message=f"The call {call.identity} would pay again for what {found.record.origin} paid for: "
        f"a {found.kind} of {call.capability}.",
        way_out="Use the committed call's result, or write take=2 in the call if a second artifact is really wanted.",
        facts={
            "call": call.identity,
            "committed": found.record.identity or found.record.origin,
            "capability": call.capability,
            "payload": call.payload,
            "cost_usd": usd(found.record.cost),
        },
    )


def _raised(end: Raised) -> Finding:
    line = end.frames[-1][0] if end.frames else 0
    return Finding(
        guard="plan",
        kind="fails",
        message=f"The script ends with {end.type}: {end.message}, before it comes to new work.",
        way_out="Let it go on from what is committed.",
        line=line,
        facts={"frames": [[at, name] for at, name in end.frames]},
    )
