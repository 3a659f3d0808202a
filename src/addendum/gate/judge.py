"""The verdict on a candidate: what the matching left unclaimed, and which new calls stand in its way.

Under `strict` the frozen sites are compared first and a candidate that fails there isn't replayed; otherwise the
shadow's claims come first, because a record that a call claimed is safe wherever it stands now.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field

from addendum.gate.counterexample import ADMITTED, Counterexample, Kind
from addendum.kernel.calls import Call
from addendum.kernel.claims import Ambiguous, Claims
from addendum.kernel.doubt import exchanged
from addendum.kernel.equals import EqualKey
from addendum.kernel.policy import Allowances
from addendum.kernel.sources import Fate
from addendum.records.history import Record


@dataclass(slots=True)
class Verdict:
    """`counterexamples` stop the candidate. `expected` are records that are expression-matched: seq to the place where
    their call is expected. `orphans` are paid and no longer used; `possible` ones weren't reached."""

    counterexamples: list[Counterexample] = field(default_factory=list)
    expected: dict[int, str] = field(default_factory=dict)
    orphans: list[Record] = field(default_factory=list)
    possible: list[Record] = field(default_factory=list)

    @property
    def accepted(self) -> bool:
        """Whether nothing stands in the way."""
        return not self.counterexamples

    @property
    def kinds(self) -> list[str]:
        """The kinds that were found, each once, sorted."""
        return sorted({example.kind for example in self.counterexamples})


def frozen(claims: Claims) -> Iterable[Record]:
    """Yield the records whose sites and frames are frozen: committed results that have an identity, and that no earlier
    revision gave up."""
    for record in claims.records:
        if record.ok and not record.is_read and record.identity is not None and not record.given_up:
            yield record


def static(claims: Claims, allowances: Allowances) -> list[Counterexample]:
    """Compare the frozen sites with the candidate, as the gate does under `strict`."""
    gone: list[Record] = [r for r in frozen(claims) if claims.fate(r) is not Fate.SAME]
    return _examples(claims, _without_superseded(claims, gone, allowances))


def judge(
    claims: Claims,
    ended: bool,
    allowances: Allowances,
    dropped: Sequence[Record] = (),
) -> Verdict:
    """Return the verdict after a shadow replay that came to its end (`ended`), or stopped at new calls."""
    verdict = Verdict()
    lost: list[Record] = []
    for record in claims.records:
        if record.seq in claims.claimed or not record.ok or record.is_read or record.superseded:
            continue
        if record.identity is None:
            continue
        if claims.fate(record) is Fate.SAME or record.given_up:
            # Behind the frontier a call at another place may have what can't be reached at its own any more.
            over = ended or (claims.relocation == "strict" and claims.vacated(record))
            (verdict.orphans if over else verdict.possible).append(record)
            continue
        place = None if ended or claims.relocation == "strict" else claims.expected(record)
        if place is not None:
            verdict.expected[record.seq] = place
        else:
            lost.append(record)
    verdict.orphans.extend(record for record in dropped if record.ok and not record.is_read)
    for record in _given_up(claims, lost, allowances):
        message = f"What stood at {record.identity} is gone: the call there now has another one's result."
        verdict.counterexamples.append(_example(claims, "removed", [record], message))
    lost = _without_superseded(claims, lost, allowances)
    behind, gone = _left_behind(claims, lost)
    verdict.counterexamples.extend(_left(claims, record, call) for record, call in behind)
    verdict.counterexamples.extend(_examples(claims, gone))
    verdict.counterexamples.extend(ambiguous(claims, found) for found in exchanged(claims))
    return verdict


def _without_superseded(claims: Claims, lost: list[Record], allowances: Allowances) -> list[Record]:
    """A changed expression is a new version if the operator allows it; one that is gone is not."""
    return [record for record in lost if not _superseded(claims, record, allowances)]


def _superseded(claims: Claims, record: Record, allowances: Allowances) -> bool:
    return claims.fate(record) is Fate.CHANGED and allowances.may_supersede(record.identity or "")


def _given_up(claims: Claims, lost: list[Record], allowances: Allowances) -> list[Record]:
    """Return those whose new version is allowed, and where nothing new stands: the call that is there now has a result
    of its own, which was another call's. What they were paid for is gone."""
    lost = [record for record in lost if _superseded(claims, record, allowances)]
    served = {call.identity for call in claims.claimed.values()} if lost else set()
    return [record for record in lost if record.identity in served]


def _left_behind(claims: Claims, lost: list[Record]) -> tuple[list[tuple[Record, Call]], list[Record]]:
    """Rule 4a, seen from the records that are left over: those that may be what an equal call took, and the others."""
    behind: list[tuple[Record, Call]] = []
    gone: list[Record] = []
    takers: dict[EqualKey, list[Call]] = {}
    for record in lost:
        call = None
        if claims.relocation != "strict" and claims.fate(record) is Fate.GONE:
            if record.call not in takers:
                takers[record.call] = _takers(claims, record.call)
            place = claims.place(record)
            call = next((taker for taker in takers[record.call] if taker.place != place), None)
        if call is None:
            gone.append(record)
        else:
            behind.append((record, call))
    return behind, gone


def _takers(claims: Claims, equal: EqualKey) -> list[Call]:
    """The first two calls that stand at different places and took the record of their own identity among equal ones.

    Which of them a lost record may be that of is a question of its place alone, and one of two isn't there.
    """
    found: list[Call] = []
    for record in claims.equals(equal):
        call = claims.claimed.get(record.seq)
        if call is None or record.identity != call.identity or call.call != equal or record.is_read or not record.ok:
            continue
        if not found or call.place != found[0].place:
            found.append(call)
            if len(found) == 2:
                break
    return found


def _left(claims: Claims, record: Record, call: Call) -> Counterexample:
    return _example(
        claims,
        "ambiguous",
        [record],
        f"The call {call.identity} is equal to two committed calls, and the place of {record.identity} is gone: "
        "it can't be told whose result it should be served.",
        call=call,
    )


def ambiguous(claims: Claims, found: Ambiguous) -> Counterexample:
    """Return the counterexample for a new call that more than one record could belong to."""
    why = {
        "a": "equal committed calls were moved, and may have changed places with it",
        "b": "several committed calls at different places are equal to it, and their places are gone or changed",
        "c": "an equal committed call isn't reached yet, and may still be",
        "d": "an equal committed call was moved to another place already",
    }.get(found.rule, "it is equal to two committed calls")
    return _example(
        claims,
        "ambiguous",
        list(found.records),
        f"It can't be told whether the call {found.call.identity} is one that was paid for: {why}.",
        call=found.call,
    )


def divergence(claims: Claims, call: Call, record: Record) -> Counterexample:
    """Return the counterexample for a call whose committed payload was another one."""
    return _example(
        claims,
        "divergence",
        [record],
        f"The call {call.identity} was committed with another payload; what was paid for would be stale.",
        call=call,
    )


def _examples(claims: Claims, lost: list[Record]) -> list[Counterexample]:
    """Group lost records by the place they stood at, and name what became of it."""
    groups: dict[tuple[str, str], list[Record]] = {}
    for record in lost:
        identity = claims.parts(record.identity or record.origin)
        groups.setdefault((identity.place, record.capability), []).append(record)
    found = []
    for records in groups.values():
        kind, message = _kind(claims, records[0])
        found.append(_example(claims, kind, records, message))
    return found


def _kind(claims: Claims, record: Record) -> tuple[Kind, str]:
    position = fault(claims, record)
    if claims.sources.fate(record.revision, position) is Fate.CHANGED:
        return "call_changed", f"The call at {position} is written otherwise now."
    other = _other_capability(claims, record)
    if other:
        return "capability_changed", f"Where {position} stood, {other} is called now."
    return "removed", f"The place {position} is gone from the source."


def fault(claims: Claims, record: Record) -> str:
    """Return the first position of a record's identity that is gone, else the first that is changed."""
    positions = claims.parts(record.identity or record.origin).positions
    for wanted in (Fate.GONE, Fate.CHANGED):
        for position in reversed(positions):
            if claims.sources.fate(record.revision, position) is wanted:
                return position
    return positions[-1]


def _other_capability(claims: Claims, record: Record) -> str:
    """Return the capability of a new site in the block where a record's site is gone."""
    sources = claims.sources
    site = claims.parts(record.identity or record.origin).site.position
    if sources.at(site) is not None:
        return ""
    old = sources.program(record.revision)
    block = site.rpartition("/")[0]
    # In the names of the candidate: the function may only have been renamed.
    block = sources.renamed(record.revision, block) if "/" in block else block
    for position in sources.candidate.positions.values():
        if position.kind == "site" and position.block == block and position.text not in old.positions:
            if position.capability != record.capability and not (position.capability or "ctx.").startswith("ctx."):
                return position.capability or ""
    return ""


def _example(
    claims: Claims, kind: Kind, records: list[Record], message: str, call: Call | None = None
) -> Counterexample:
    first = records[0]
    identity = claims.parts(first.identity or first.origin)
    at_fault = (
        fault(claims, first) if kind in ("removed", "call_changed", "capability_changed") else identity.site.position
    )
    before = claims.sources.program(first.revision).positions.get(at_fault)
    now = claims.sources.at(at_fault) if call is None else claims.sources.at(call.parts.site.position)
    return Counterexample(
        kind=kind,
        place=identity.place,
        position=at_fault,
        capability=first.capability,
        identities=tuple(record.identity or record.origin for record in records),
        committed=(before.expression, before.line) if before else ("", 0),
        now=(now.expression, now.line) if now else ("", 0),
        records=len(records),
        cost=sum(record.cost for record in records),
        admitted=ADMITTED[kind].format(place=identity.place),
        message=message,
        seqs=tuple(record.seq for record in records),
        call=call.identity if call else "",
        digests=(first.digest, call.digest) if call else ("", ""),
    )
