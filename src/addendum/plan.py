"""The plan: what a revision would do, before anything is paid (DESIGN section 6).

A plan is a value: the gate's verdict, what is replayed, rebound, superseded and orphaned, and the frontier of new
calls with their prices. `draw` makes it from a shadow replay; nothing here sends or writes anything.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal, NamedTuple, TypeAlias

from addendum.authority.envelope import Room
from addendum.authority.money import usd
from addendum.canon import Digest, Json
from addendum.gate import Counterexample, Verdict, judge
from addendum.gate.judge import ambiguous, divergence
from addendum.kernel.calls import Call
from addendum.kernel.claims import Ambiguous
from addendum.kernel.decide import Rule, unresolved
from addendum.kernel.ledger import Finding
from addendum.kernel.loop import Halt
from addendum.kernel.shadow import Shadow
from addendum.ports import Raised, Returned
from addendum.records.entries import Attempt
from addendum.records.history import Record
from addendum.script.report import Flow

PlanStatus: TypeAlias = Literal["planned", "not_admitted", "stopped"]


@dataclass(frozen=True, slots=True, kw_only=True)
class NewCall:
    """A call of the frontier: what it asks for, what it costs at most, and what the ledger says of it. Money in
    nano-dollars. `supersedes` is the seq of the record whose new version it is."""

    identity: str
    capability: str
    payload: Json
    digest: Digest
    price: int
    finding: Finding | None = None
    supersedes: int | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Move:
    """A record that another identity claims. `proof`: `trace` (the shadow met it), `expression` (expected there)."""

    record: int
    capability: str
    old: str
    new: str
    proof: Literal["trace", "expression"]
    cost: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Diverging:
    """A committed call that would ask for something else `now`; `seq` is its record, which says what it asked for."""

    seq: int
    identity: str
    capability: str
    now: Json


class Of(NamedTuple):
    """What a plan is of: the digests of the script and of the args, and one of its `terms`, which are the policy, what
    is allowed, and the catalog that has the prices."""

    revision: Digest
    args_digest: Digest
    terms: Digest


@dataclass(slots=True, kw_only=True)
class Plan:
    """What a revision would do.

    `at` is the run's journal (last seq and chain) that it was made from: it is applied to that one or not at all.
    `verdict` is the gate's. `replayed` are (seq, identity) in the order of hand-over. `end` is how the script would end
    if nothing new is called.
    """

    revision: Digest
    args_digest: Digest
    at: tuple[int, Digest]
    terms: Digest = ""
    verdict: Verdict = field(default_factory=Verdict)
    replayed: list[tuple[int, str]] = field(default_factory=list)
    moves: list[Move] = field(default_factory=list)
    bindings: list[tuple[int, str]] = field(default_factory=list)
    """Every record that another identity has claimed, or its own that is written otherwise, recorded reads too: seq
    and identity."""
    late: set[int] = field(default_factory=set)
    """Those that were claimed when nothing else could go on."""
    frontier: list[NewCall] = field(default_factory=list)
    diverging: list[Diverging] = field(default_factory=list)
    committed: dict[int, Json] = field(default_factory=dict)
    """What the records of diverging calls asked for, by seq; whoever has the store fills it in."""
    stop: Halt | None = None
    starts: bool = False
    """Nothing but attempts without a result stops it, and it reaches each of these calls unchanged: it may start."""
    end: Returned | Raised | None = None
    rooms: tuple[Room, ...] = ()
    """The grant's limits, with what is used of each and what new work adds in its worst case."""
    influence: str = "L0"
    """How far results of calls steer the script, and `flows` where."""
    flows: tuple[Flow, ...] = ()
    new_work: dict[str, int | None] = field(default_factory=dict)
    """The worst case of new calls by capability: the source's own without those that are replayed."""
    new_cost: int | None = 0
    """What these cost at most, in nano-dollars; None for no bound."""
    saved: int = 0
    """Nano-dollars that were paid for what is replayed."""

    @property
    def of(self) -> Of:
        """What it is a plan of."""
        return Of(self.revision, self.args_digest, self.terms)

    @property
    def status(self) -> PlanStatus:
        """`not_admitted` when the gate stops the candidate, `stopped` when a stop is found already, else `planned`."""
        kinds = self.verdict.kinds
        if kinds and kinds != ["divergence"]:
            return "not_admitted"
        return "stopped" if kinds or self.stop is not None else "planned"

    @property
    def applies(self) -> bool:
        """Whether `revise` makes the candidate the run's: nothing stops it, or nothing but what it may start with."""
        unresolved = self.stop is not None and self.stop.kind == "unresolved"
        return self.status == "planned" or (self.starts and unresolved)

    @property
    def gate(self) -> Literal["accepted", "stopped"]:
        """The gate's verdict."""
        return "accepted" if self.verdict.accepted else "stopped"

    @property
    def price(self) -> int:
        """What the frontier costs at most, in nano-dollars."""
        return sum(call.price for call in self.frontier)

    @property
    def rebound(self) -> list[Move]:
        """The moves that are proven."""
        return [move for move in self.moves if move.proof == "trace"]


def draw(
    shadow: Shadow,
    rule: Rule,
    plan: Plan,
    dropped: Sequence[Record] = (),
) -> Plan:
    """Fill a plan from a finished shadow: judge what is left, and decide on each call of the frontier."""
    claims = rule.claims
    plan.end = shadow.end
    plan.late = shadow.late
    plan.replayed = [
        (seq, at) for seq, at in claims.handed.items() if not _is_read(claims.sources.history.records, seq)
    ]
    records = claims.sources.history.records
    plan.saved = sum(records[seq].cost for seq, _ in plan.replayed)
    for call, record in shadow.moved:
        plan.bindings.append((record.seq, call.identity))
        if not record.is_read:
            old = record.identity or record.origin
            plan.moves.append(
                Move(
                    record=record.seq,
                    capability=record.capability,
                    old=old,
                    new=call.identity,
                    proof="trace",
                    cost=record.cost,
                )
            )
    # A call that is written otherwise and asks for the same: its record is kept in the terms of the new source.
    plan.bindings.extend(shadow.loop.rewritten())
    plan.verdict = judge(claims, shadow.end is not None, rule.allowances, dropped)
    for seq, place in plan.verdict.expected.items():
        record = records[seq]
        plan.moves.append(
            Move(
                record=seq,
                capability=record.capability,
                old=record.identity or record.origin,
                new=place,
                proof="expression",
                cost=record.cost,
            )
        )
    rule.expected = frozenset(plan.verdict.expected)
    for call, record in shadow.moved:
        # A script that fails doesn't come to what follows: the next revision may.
        found = claims.reachable(call) if record.ok and not isinstance(shadow.end, Returned) else None
        if found is not None:
            _add(plan, ambiguous(claims, found))
    halts = [halt for call in shadow.frontier if (halt := _frontier(plan, rule, call)) is not None]
    replaced = {call.seq for call in plan.diverging} | {call.supersedes for call in plan.frontier}
    plan.verdict.orphans = [record for record in plan.verdict.orphans if record.seq not in replaced]
    missed = _missed(rule.attempts.values(), shadow.frontier)
    if missed is not None and (plan.stop is None or plan.stop.kind != "unresolved"):
        plan.stop = _unreached(missed)
    plan.starts = missed is None and plan.verdict.accepted and {halt.kind for halt in halts} == {"unresolved"}
    return plan


def _is_read(records: Mapping[int, Record], seq: int) -> bool:
    record = records.get(seq)
    return record is None or record.is_read


def _frontier(plan: Plan, rule: Rule, call: Call) -> Halt | None:
    """Decide on one new call, and note it. Returns what stops it."""
    claims = rule.claims
    decision = rule.decide(call)
    capability = rule.catalog.get(call.capability)
    superseded = rule.superseding(call)
    record = claims.diverges(call)
    if record is not None and superseded is None:
        _add(plan, divergence(claims, call, record))
        plan.diverging.append(
            Diverging(seq=record.seq, identity=call.identity, capability=call.capability, now=call.payload)
        )
        return None
    if isinstance(decision, Halt) and "ambiguous" in decision.facts:
        found = claims.moved(call)
        found = found if isinstance(found, Ambiguous) else claims.reachable(call) or claims.twin(call)
        if found is not None:
            _add(plan, ambiguous(claims, found))
    elif isinstance(decision, Halt) and (plan.stop is None or decision.kind == "unresolved"):
        if plan.stop is None or plan.stop.kind != "unresolved":
            plan.stop = decision
    plan.frontier.append(
        NewCall(
            identity=call.identity,
            capability=call.capability,
            payload=call.payload,
            digest=call.digest,
            price=capability.reserve if capability is not None else 0,
            finding=rule.finding(call) if superseded is None else None,
            supersedes=superseded.seq if superseded is not None else None,
        )
    )
    return decision if isinstance(decision, Halt) else None


def _add(plan: Plan, example: Counterexample) -> None:
    """Add a counterexample; further calls of one place are the same counterexample with more records."""
    found = plan.verdict.counterexamples
    for index, other in enumerate(found):
        if (other.kind, other.place, other.capability) == (example.kind, example.place, example.capability):
            if not set(example.seqs) <= set(other.seqs):
                found[index] = other.joined(example)
            return
    found.append(example)


def _missed(attempts: Iterable[Attempt], frontier: Sequence[Call]) -> Attempt | None:
    """While a side-effecting attempt is unresolved, no revision starts unless it reaches that very call unchanged.
    Return one that it doesn't reach."""
    reached = {(call.identity, *call.call) for call in frontier}
    for attempt in attempts:
        if attempt.waits or not attempt.side_effecting:
            continue
        if (attempt.identity, attempt.capability, attempt.digest) not in reached:
            return attempt
    return None


def _unreached(attempt: Attempt) -> Halt:
    lost = Call(0, attempt.identity, attempt.capability, None, b"", attempt.digest)
    halt = unresolved(lost, attempt)
    return Halt(
        "unresolved",
        f"The attempt of {attempt.capability} at {attempt.identity} was sent and has no result, "
        "and this revision doesn't reach that very call unchanged.",
        halt.hint,
        None,
        halt.facts,
    )


def to_json(plan: Plan) -> dict[str, Any]:
    """Return a plan as JSON: the keys of a run's result, and the details beneath."""
    stop = plan.stop
    diverges = any(example.kind == "divergence" for example in plan.verdict.counterexamples)
    kind = stop.kind if stop is not None else "divergence" if diverges and plan.status == "stopped" else None
    return {
        "status": plan.status,
        "stop": kind if plan.status == "stopped" else None,
        "applies": plan.applies,
        "gate": plan.gate,
        "counterexamples": plan.verdict.kinds,
        "dispatched": 0,
        "replayed": len(plan.replayed),
        "rebound": len(plan.rebound),
        "superseded": sum(1 for call in plan.frontier if call.supersedes is not None),
        "orphans": len(plan.verdict.orphans),
        "repeats": sum(1 for call in plan.frontier if call.finding is not None),
        "frontier": len(plan.frontier),
        "price_usd": usd(plan.price),
        "saved_usd": usd(plan.saved),
        "message": stop.message if stop is not None else None,
        "hint": stop.hint if stop is not None else None,
        "revision": plan.revision,
        "args_digest": plan.args_digest,
        "at": {"seq": plan.at[0], "chain": plan.at[1], **plan.of._asdict()},
        "details": _details(plan),
    }


def _details(plan: Plan) -> dict[str, Any]:
    return {
        "counterexamples": [example.to_json() for example in plan.verdict.counterexamples],
        "replayed": [{"seq": seq, "identity": identity} for seq, identity in plan.replayed],
        "moves": [
            {
                "seq": m.record,
                "capability": m.capability,
                "from": m.old,
                "to": m.new,
                "proof": m.proof,
                "cost_usd": usd(m.cost),
            }
            for m in plan.moves
        ],
        "orphans": [_record(record) for record in plan.verdict.orphans],
        "possible_orphans": [_record(record) for record in plan.verdict.possible],
        "diverging": [
            {
                "seq": call.seq,
                "identity": call.identity,
                "capability": call.capability,
                "committed": plan.committed.get(call.seq),
                "now": call.now,
            }
            for call in plan.diverging
        ],
        "frontier": [
            {
                "identity": call.identity,
                "capability": call.capability,
                "payload": call.payload,
                "price_usd": usd(call.price),
                "supersedes": call.supersedes,
                "finding": None
                if call.finding is None
                else {"kind": call.finding.kind, "of": call.finding.record.origin, "denied": call.finding.denied},
            }
            for call in plan.frontier
        ],
        "new_work": plan.new_work,
        "new_work_usd": None if plan.new_cost is None else usd(plan.new_cost),
        "left": {str(room.limit): room.to_json() for room in plan.rooms},
        "influence": plan.influence,
        "flows": [flow.to_json() for flow in plan.flows],
    }


def _record(record: Record) -> dict[str, Any]:
    return {
        "seq": record.seq,
        "identity": record.identity or record.origin,
        "capability": record.capability,
        "cost_usd": usd(record.cost),
    }
