"""What must hold of a step, whatever was edited: told from the roles, which the code under test doesn't know."""

from __future__ import annotations

import re
from collections import Counter
from dataclasses import dataclass, field
from itertools import takewhile
from typing import Any, TypeAlias

from addendum import canon
from addendum import identity as ids
from addendum.records.history import History, Record
from adversary.programs import Text
from adversary.world import RUN, Sent, Step, World

Class: TypeAlias = tuple[Any, str, str]
"""Trail, capability and digest: calls of one class are interchangeable."""


@dataclass
class Facts:
    """What is known of a step: which call each record was served to, and the classes of both."""

    world: World
    step: Step
    before: History
    after: History
    served: dict[int, str] = field(default_factory=dict)
    used: dict[int, tuple[Text, str]] = field(default_factory=dict)
    """Where records were served before this step, last."""

    def __post_init__(self) -> None:
        self.served = dict(self.step.served)
        for earlier in takewhile(lambda step: step is not self.step, self.world.steps):
            self.used.update((seq, (earlier.text, identity)) for seq, identity in earlier.served)

    def text(self, record: Record) -> Text:
        """Return the text whose commit a record is."""
        revision = self.after.revisions[record.source]
        return self.world.texts[revision.source, revision.args_digest]

    def meant(self, record: Record) -> Class:
        """Return what a record was paid for. One that an earlier step served for other work, as nobody could tell the
        two apart, is that work's from then on."""
        text, identity = self.used.get(record.seq) or (self.text(record), record.origin)
        return (text.work(identity)[0], record.capability, record.digest)

    def asked(self, identity: str, record: Record) -> Class:
        """Return what a call asks for that was served a record."""
        return (self.step.text.work(identity)[0], record.capability, record.digest)

    def sent(self, sent: Sent) -> Class:
        """Return what a dispatch was for."""
        attempt = next(r for r in self._attempts() if r[0] == sent.key)
        return (self.step.text.work(sent.identity)[0], sent.capability, attempt[1])

    def _attempts(self) -> list[tuple[str, str]]:
        found = []
        for entry in self.world.store.entries(RUN):
            if entry.kind == "attempt":
                found.append((entry.body["key"], entry.body["digest"]))
        return found

    def claimable(self, drops: frozenset[int] = frozenset()) -> list[Record]:
        """Return the results that could be served when the step began."""
        return [
            record
            for record in self.before.records.values()
            if record.ok
            and not record.is_read
            and record.seq not in drops
            and not record.given_up
            and (record.identity is not None or not record.superseded)
        ]


def check(world: World, step: Step, before: History, drops: frozenset[int] = frozenset()) -> list[str]:
    """Return what is wrong with a step."""
    facts = Facts(world, step, before, world.history)
    wrong = paid_twice(facts, drops) + served_wrong(facts, drops) + served_replaced(facts) + plan_kept(facts)
    if not world.certified():
        wrong.append("the certificate has differences")
    return wrong


def paid_twice(facts: Facts, drops: frozenset[int]) -> list[str]:
    """Work that has a result is not sent again."""
    wrong = []
    step = facts.step
    ended = facts.after.ended
    done = step.result is not None and step.result.status == "completed" and ended is not None
    unused = set(ended.body["orphans"]) if ended is not None else set()
    records = facts.after.records
    # One that had no identity may have found its call in this very step. A race's loser has its record, though it is
    # handed over to nobody.
    found = set(facts.served) | {seq for seq, record in records.items() if "race#" in (record.identity or "")}
    left = Counter(
        facts.meant(r) for r in facts.claimable(drops) if r.seq in unused or (r.identity is None and r.seq not in found)
    )
    # Equal neighbours that were shifted against each other, as in `served_wrong`.
    shifted = {
        records[seq].call
        for seq, identity in facts.served.items()
        if stayed(facts, seq) and facts.meant(records[seq]) != facts.asked(identity, records[seq])
    }
    repeats = {event["identity"] for event in step.events if event.get("finding") == "repeat"}
    for sent in step.sent:
        own = facts.before.prefix.get(sent.identity)
        kind = facts.sent(sent)
        if own is not None and own.ok and own.seq not in drops and own.call == kind[1:] and own.seq not in facts.served:
            wrong.append(f"paid again: {sent.identity} has a record {own.seq}")
        elif sent.identity in repeats:
            # One more at a place that there was: the ledger says so, and denies it where it has an effect.
            if facts.world.catalog[sent.capability].side_effecting:
                wrong.append(f"a repeat was sent: {sent.identity}")
        elif done and left[kind] and kind[1:] not in shifted and facts.after.policy["relocation"] != "strict":
            wrong.append(f"paid again: {sent.identity} while a record of the same work was not used: {kind}")
    return wrong


def served_wrong(facts: Facts, drops: frozenset[int]) -> list[str]:
    """No record is served for other work while the work that it was paid for, or the other's own record, is there.

    One thing can't be told by anybody: whether a call that stands where it stood, written as it was, is the old one and
    its equal neighbour the new one, or the other way round. So calls that keep their identity are excused as long as no
    record is left over: `[A]` that becomes `[A, A]`, and `[A, A]` whose results go to variables in the other order. One
    that a run didn't come to, since it ended before, isn't left over. And so are as many equal calls as there are
    results, in the same order: with other names of variables it is the text of an edit that moved them.
    """
    wrong = []
    records = facts.after.records
    step = facts.step
    by_call = {identity: seq for seq, identity in step.handed}
    asked: dict[Class, list[int | None]] = {}
    for identity, seq in by_call.items():
        record = records[seq]
        if not record.is_read:
            asked.setdefault(facts.asked(identity, record), []).append(seq)
    owned: dict[Class, list[int]] = {}
    for record in facts.claimable(drops):
        owned.setdefault(facts.meant(record), []).append(record.seq)
    for seq, identity in facts.served.items():
        record = records[seq]
        if record.is_read or not record.ok:
            continue
        meant, now = facts.meant(record), facts.asked(identity, record)
        if meant == now or in_their_order(facts, record.call, drops):
            continue
        kept = stayed(facts, seq)
        others = [
            r
            for r in owned.get(now, [])
            if (facts.served.get(r) is None or facts.asked(facts.served[r], records[r]) != now)
            and not (kept and (stayed(facts, r) if r in facts.served else accounted_for(facts, r)))
        ]
        if others:
            wrong.append(
                f"{identity} was served record {seq} of {record.origin}, and its own {others} was not used for it"
            )
        deprived = [s for s in asked.get(meant, []) if facts.meant(records[s]) != meant or s not in facts.served]
        if deprived and not kept:
            wrong.append(
                f"{identity} was served record {seq} of {record.origin}, whose own call had to do without: {deprived}"
            )
    return wrong


def served_replaced(facts: Facts) -> list[str]:
    """No result is served that an earlier revision replaced: the same work has a result there with another payload."""
    wrong = []
    history = facts.before
    for seq, identity in facts.served.items():
        record = history.records.get(seq)
        if record is None or record.is_read or not record.ok or record.identity is not None or record.before is None:
            continue
        revision, stood, _ = record.before
        if revision in history.revisions and stood in history.revisions[revision].drops:
            continue  # it was given up, and what was made there is no new version of it
        taken = [
            r
            for r in history.records.values()
            if r.origin == stood
            and r.source >= revision
            and r.call != record.call
            and facts.meant(r)[0] == facts.meant(record)[0]
        ]
        tried = {r.call for r in taken if r.source == revision}
        newer = [r.seq for r in taken if r.ok and r.call in tried and r.source < facts.after.revision]
        if newer:
            wrong.append(f"{identity} was served record {seq}, which {newer} had replaced")
    return wrong


def in_their_order(facts: Facts, call: tuple[str, str], drops: frozenset[int]) -> bool:
    """Whether every result of a call is served, to as many equal calls as there were, in the order that they had. One
    that is tried again where it failed had no result, and is no other."""
    records = [record for record in facts.claimable(drops) if record.call == call]
    failed = {at: record.call for at, record in facts.before.prefix.items() if not record.ok}
    kinds = [(sent.identity, facts.sent(sent)[1:]) for sent in facts.step.sent]
    sent = [kind for at, kind in kinds if failed.get(at) != kind]
    if not records or any(record.seq not in facts.served for record in records) or call in sent:
        return False
    last = facts.before.revisions[max(record.revision for record in records)]
    text = facts.world.texts[last.source, last.args_digest]
    was = [turn(text, record.identity or record.origin) for record in records]
    now = [turn(facts.step.text, facts.served[record.seq]) for record in records]
    if None in was or None in now:
        return False
    return sorted(range(len(records)), key=was.__getitem__) == sorted(range(len(records)), key=now.__getitem__)


def turn(text: Text, identity: str) -> tuple[Any, ...] | None:
    """Return what sorts the calls of a text in its order, None for one that isn't written there."""
    places = {at: number for number, at in enumerate(text.program.positions)}
    parts = ids.parse(identity)
    frames = (*parts.path, parts.site)
    if not all(frame.position in places for frame in frames):
        return None
    return tuple((places[frame.position], frame.entry, str(frame.branch)) for frame in frames)


def accounted_for(facts: Facts, seq: int) -> bool:
    """Whether a record that is served to nobody isn't simply left over."""
    return to_come(facts, seq) or lost(facts, seq) or intact(facts, seq)


def intact(facts: Facts, seq: int) -> bool:
    """Whether the place of a record is as it was: the text is that of an edit that only asks for less there."""
    record = facts.before.records[seq]
    if record.identity is None:
        return False
    revision = facts.before.revisions[record.revision]
    old = facts.world.texts[revision.source, revision.args_digest].program.positions
    now = facts.step.text.program.positions
    return all(at in now and old[at].fingerprint == now[at].fingerprint for at in ids.parse(record.identity).positions)


def to_come(facts: Facts, seq: int) -> bool:
    """Whether a run failed or was stopped before it came to the identity of a record."""
    identity = facts.before.records[seq].identity
    ended = facts.step.result is not None and facts.step.result.status in ("failed", "stopped")
    called = {at for _, at in facts.step.handed} | {sent.identity for sent in facts.step.sent}
    return ended and identity is not None and identity not in called


def lost(facts: Facts, seq: int) -> bool:
    """Whether a race's loser has a record where it stood: it is handed to nobody, and not left over."""
    ended, after = facts.after.ended, facts.after.records[seq]
    left = ended is None or seq in ended.body["orphans"]
    return not left and "race#" in (after.identity or "") and after.identity == facts.before.records[seq].identity


def stayed(facts: Facts, seq: int) -> bool:
    """Whether a record was served at the identity that it had, but for the names of functions."""
    before = facts.before.records.get(seq)
    if before is None or before.identity is None or seq not in facts.served:
        return False
    return nameless(before.identity) == nameless(facts.served[seq])


def nameless(identity: str) -> str:
    """Return an identity without the names of functions."""
    parts = [re.sub(r"^[^/]*/", "/", part) for part in ids.parts(identity)]
    return ids.JOIN.join(re.sub(r"[^/]*\(\)#", "()#", part) for part in parts)


def plan_kept(facts: Facts) -> list[str]:
    """What a plan says is what the revision does."""
    step = facts.step
    if step.plan is None or step.plan.plan is None or step.crashed or step.result is None:
        return []
    plan, result = step.plan.plan, step.result
    wrong = []
    if plan.status != "planned":
        if step.sent or facts.after.seq != facts.before.seq:
            wrong.append("a plan that stops was acted upon")
        if result.status != plan.status:
            wrong.append(f"planned {plan.status}, was {result.status}")
        return wrong
    if result.status == "not_admitted":
        return ["planned, but not admitted"]
    served = [seq for seq, _ in step.served if not facts.after.records[seq].is_read]
    planned = [seq for seq, _ in plan.replayed]
    complete = result.status in ("completed", "failed")
    if complete and not set(planned) <= set(served):
        wrong.append(f"planned to replay {planned}, replayed {served}")
    for seq, identity in plan.replayed:
        if facts.served.get(seq, identity) != identity:
            wrong.append(f"record {seq} was planned at {identity}, and served at {facts.served[seq]}")
    wrong += moves_kept(facts)
    reads = any(record.is_read and record.drive == facts.after.drives for record in facts.after.records.values())
    # What a race's loser asks for is only known when the race isn't over at once.
    lost = "race#" in (result.message or "")
    if result.stop == "divergence" and not step.sent and not reads and not lost:
        wrong.append(f"what the plan admitted diverged before anything was paid: {result.message}")
    stops = {None, "divergence", "repeat", "orphans", *step.disturbed}
    if result.stop not in stops:
        wrong.append(f"what the plan admitted was stopped: {result.stop} {result.message}")
    # A race that is won before they were sent leaves its losers' calls unsent.
    frontier = {call.identity for call in plan.frontier if "race#" not in call.identity}
    dispatched = {sent.identity for sent in step.sent}
    if complete and frontier - dispatched:
        wrong.append(f"of the frontier, not dispatched: {sorted(frontier - dispatched)}")
    if complete and step.sent and not frontier and plan.end is not None:
        wrong.append("new work behind an end that was planned")
    return wrong


def moves_kept(facts: Facts) -> list[str]:
    """The moves that a plan shows are those that are written, and nothing else is moved before something new is known.

    A read that the script makes for the first time is such a thing: nobody pays for it, and what stands behind it waits
    for it as for a call of the frontier. Results that move there, before a call is paid, are those that the plan has as
    expected or not reached.
    """
    step = facts.step
    plan = step.plan.plan if step.plan is not None else None
    if plan is None or plan.status != "planned":
        return []
    written = list(facts.world.store.entries(RUN, after=facts.before.seq))
    last = facts.after.seq
    known = next((entry.seq for entry in written if entry.kind in ("attempt", "record")), last)
    paid = next((entry.seq for entry in written if entry.kind == "attempt"), last)
    rebinds = [(entry.seq, entry.body["record"], entry.body["identity"]) for entry in written if entry.kind == "rebind"]
    wrong = []
    first = {(record, at) for seq, record, at in rebinds if seq < known}
    if first != set(plan.bindings):
        wrong.append(
            f"the plan and the revision don't move the same: {sorted(first.symmetric_difference(plan.bindings))}"
        )
    # What is written otherwise where it stands is kept in other words, and moves nowhere.
    behind_known = [(facts.before.records[record], at) for seq, record, at in rebinds if known < seq < paid]
    moved = [record for record, at in behind_known if record.identity != at]
    # What has no identity is nobody's, so that a plan doesn't say that it may be left over.
    behind = {record.seq for record in moved if record.ok and not record.is_read and record.identity is not None}
    unforeseen = behind - {*plan.verdict.expected, *(record.seq for record in plan.verdict.possible)}
    if unforeseen:
        wrong.append(f"moved behind a new read, and not foreseen: {sorted(unforeseen)}")
    return wrong


def told_apart(facts: Facts) -> list[str]:
    """What stopped a step although nobody could take its calls for each other, when no edit changed what they are for.

    Equal calls of several roles can be beyond telling apart when an edit moves one of them, and so can a call whose
    number went to another one that is written alike and hasn't been made: nobody knows what that will ask for. The gate
    says then that it is ambiguous; but a call that is made where an equal one failed is that one, tried again, and the
    result that it is after is left over.
    """
    step, records = facts.step, facts.after.records
    plan = step.plan.plan if step.plan is not None else None
    assert plan is not None
    assert step.result is not None
    stops = [(found.kind, found.call, found.seqs) for found in plan.verdict.counterexamples]
    where = step.result.details.get("where", {})
    if "ambiguous" in where:
        stops.append(("ambiguous", where["identity"], tuple(where["records"])))
    if any(kind == "ambiguous" for kind, *_ in stops):
        stops = [stop for stop in stops if stop[0] == "ambiguous"]  # the others are behind
    again = {records[seq].call for seq in facts.before.open_failures}
    wrong = [] if stops else [f"stopped: {step.result.message}"]
    for kind, at, seqs in stops:
        for call in {records[seq].call for seq in seqs}:
            equal = [record for record in facts.before.records.values() if record.call == call]
            calls = [new.identity for new in plan.frontier if (new.capability, new.digest) == call]
            calls += [record.identity for record in equal if record.identity and turn(step.text, record.identity)]
            calls += [at] if at else []
            roles = {facts.meant(record)[0] for record in equal} | {step.text.work(identity)[0] for identity in calls}
            if len(roles) < 2:
                wrong.append(f"{kind}, and no other call is equal: {seqs} {at}")
            elif kind != "ambiguous" and call not in again:
                wrong.append(f"{kind}, and not ambiguous: {seqs} {at}: {step.result.message}")
    return wrong


def same_json(left: object, right: object) -> bool:
    """Whether two JSON values are the same."""
    return canon.digest(left) == canon.digest(right)
