"""Which record belongs to which call of a candidate: the matching of DESIGN section 5, one to one.

The rules, and where they are here:

1. A call claims the record at its own identity if they are equal: `own`.
2. Else an equal record whose own identity is *vacated*: `moved`; one of the same place first, elsewhere only if all
   that are left stand in one place.
4. Ambiguous: (a) `left_behind`, (b) `moved`, (c) `reachable`, (d) `twin`; what is only seen once more calls were made
   stands in `addendum.kernel.doubt`.
5. A call that claims nothing at an intact identity whose own record nobody claimed: `Verdict.DIVERGENCE` of `judge`.

Rule 3 (expression-matched) is about records that no call has claimed, and stands in `addendum.gate`.

Nothing is vacated for a moment only: a position that is gone stays gone, another digest that stands at an identity
stays there. So a claim, once made, holds, whatever comes later. The shadow and the run share this object's rules;
only what they have seen so far differs.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Literal, TypeAlias

from addendum import identity as ids
from addendum.identity import Identity
from addendum.kernel.calls import Call
from addendum.kernel.equals import EqualKey, Equals, Index
from addendum.kernel.expression import declared, expected, reaches
from addendum.kernel.likeness import along, likeness, numbers, order, same_way, unlike
from addendum.kernel.sources import Fate, Sources, beyond, capacity
from addendum.records.history import Record

Relocation: TypeAlias = Literal["strict", "declared", "verified"]


@dataclass(frozen=True, slots=True)
class Ambiguous:
    """A call that more than one record could belong to. `rule` is the letter of DESIGN section 5, rule 4."""

    rule: Literal["a", "b", "c", "d"]
    call: Call
    records: tuple[Record, ...]


@dataclass(slots=True)
class Claims:
    """The state of a matching. `prefix` is P without what is to be tried again; `records` all that may be claimed."""

    prefix: dict[str, Record]
    records: Iterable[Record]
    sources: Sources
    relocation: Relocation
    moves: dict[str, str] = field(default_factory=dict)
    revision: int = 0
    """The number of the candidate's revision, 0 while it has none (a plan)."""
    failed: dict[str, Record] = field(default_factory=dict)
    """Failures that are tried again, by identity: what stood there is known, and has no result."""
    claimed: dict[int, Call] = field(default_factory=dict)
    made: dict[str, EqualKey] = field(default_factory=dict)
    """Every identity that the candidate has called so far, with what it asked for."""
    widths: dict[str, int | tuple[str, ...]] = field(default_factory=dict)
    moved_calls: dict[EqualKey, list[Record]] = field(default_factory=dict)
    unsure: set[EqualKey] = field(default_factory=set)
    """What was claimed since somebody looked last for claims that exclude each other, where a record was moved."""
    _equal: Index | None = None
    _parsed: dict[str, Identity] = field(default_factory=dict)
    _vacant: set[int] = field(default_factory=set)
    """What was found vacated: it stays so."""
    _expected: dict[int, Identity | None] = field(default_factory=dict)
    _takers: dict[EqualKey, tuple[int, dict[str, set[str]]]] = field(default_factory=dict)
    """How many of some equal records were claimed when this was made; where the calls stand, where the records did."""
    _sites: dict[str, list[str]] | None = None
    """Every identity of `made` by its last frame, once somebody asked."""

    # --- what is seen ------------------------------------------------------------------------------------------

    def see(self, call: Call) -> None:
        """Note that the candidate makes a call."""
        self.made[call.identity] = call.call
        if self._sites is not None:
            self._sites.setdefault(call.identity.rpartition(ids.JOIN)[2], []).append(call.identity)

    def see_width(self, frame: str, branches: int | tuple[str, ...]) -> None:
        """Note how wide a fan-out really is."""
        self.widths[frame] = branches

    def take(self, call: Call, record: Record) -> None:
        """Let a call have a record."""
        self.claimed[record.seq] = call
        if self._equal is not None:
            self._equal.take(record)
        if self.stood(record)[0] != call.identity:
            self.moved_calls.setdefault(record.call, []).append(record)
        if record.call in self.moved_calls:
            self.unsure.add(record.call)

    # --- rule 1 ------------------------------------------------------------------------------------------------

    def own(self, call: Call) -> Record | None:
        """Rule 1: the record at the call's own identity, if it is equal and nobody else has it."""
        record = self.prefix.get(call.identity)
        if record is None or record.seq in self.claimed:
            return None
        if record.call == call.call:
            return record
        if not record.is_read or record.capability != call.capability or _renumbered(self, record, call):
            return None
        return record

    def left_behind(self, call: Call, record: Record) -> Ambiguous | None:
        """Rule 4a: the call took its own record while an equal one of a gone identity is left over."""
        if self.relocation == "strict" or record.is_read or not record.ok:
            return None
        place = call.place
        rest = [
            other
            for other in self._unclaimed(call)
            if other is not record and other.ok and self.fate(other) is Fate.GONE and self.place(other) != place
        ]
        return Ambiguous("a", call, (record, *rest)) if rest else None

    # --- rule 2 ------------------------------------------------------------------------------------------------

    def moved(self, call: Call, *, apart: int = 3, here: bool = False) -> Record | Ambiguous | None:
        """Rule 2: an equal record whose own identity is vacated, or why it can't be told which (4b).

        Among records of one place, one comes first whose branches and iterations are the call's, a failure too: calls
        of one place are interchangeable, but what the script made of them stands where it stood. `apart` says how
        unlike they may be at most (see `unlike`), 3 is for a call that rather is one that failed and is tried again;
        `here`: only records of the call's own place.
        """
        if self.relocation == "strict":
            return None
        equals = self._index().get(call.call)
        if equals is None or not equals.left:
            return None
        here = here or self.known(call)
        equals.sort(self.place, lambda record: numbers(self.parts(record.identity)) if record.identity else None)
        found = self._exactly(equals, call, here)
        if found is not None or (here and call.place not in equals.places):
            return found
        vacated = [record for record in self._unclaimed(call) if self.vacated(record) and self._declared(record, call)]
        if not vacated:
            return None
        place = call.place
        rest = [record for record in vacated if self.place(record) == place]
        if not rest and not here:
            rest = self._nearest([record for record in vacated if self._elsewhere(record, call)], call)
            rest = self._own_place(rest, call)
            results = [record for record in rest if record.ok]
            places = {self.place(record) for record in results}
            if len(places) > 1 and not call.is_read:
                return Ambiguous("b", call, tuple(results))
            rest = [record for record in rest if not places or self.place(record) in places]
        rest = [record for record in rest if _apart(self, record, call) <= apart]
        return min(rest, key=lambda record: self._preference(record, call), default=None)

    def known(self, call: Call) -> bool:
        """Whether a call is one that failed and is tried again where it stood: it is no other that has a result."""
        failed = self.failed.get(call.identity)
        return failed is not None and failed.call == call.call and self.fate(failed) is Fate.SAME

    def _exactly(self, equals: Equals, call: Call, here: bool) -> Record | None:
        """What `moved` finds, without looking at every equal record: one of the same numbers, at the call's own place
        or at the only one that any has."""
        place = call.place
        alike = [r for r in equals.alike(numbers(call.parts)) if self.vacated(r) and self._declared(r, call)]
        for record in alike:
            if equals.place(record) == place:
                return record
        if here or place in equals.places or len(equals.places) != 1:
            return None
        return next((record for record in alike if self._elsewhere(record, call)), None)

    def _elsewhere(self, record: Record, call: Call) -> bool:
        """Whether a vacated record may belong to a call at another place."""
        if record.is_read:
            return True
        # One that was left without identity is judged by where it was made: nothing need be gone there.
        fate = self.fate(record)
        if record.identity is None:
            fate = self.sources.fates(record.source, self.parts(record.origin).positions)
        if self.had(record, call.place) and fate is Fate.SAME:
            return False
        return not self._held(record, call)

    def _held(self, record: Record, call: Call) -> bool:
        """Whether a record is expected at another place than a call's, where its own call is still to come.

        What is written otherwise where it stood is expected nowhere: should it ask for the same all the same, it is a
        twin of the call that took its record (rule 4d).
        """
        if self.relocation == "declared" or record.identity is None:
            return False
        there = self._expectation(record, self.parts(record.identity))
        if there is None or reaches(call.parts, there, numbers=False) or self._reached(there):
            return False
        return order(there, call.parts, self.sources.order(self.sources.candidate)) >= 0

    def _nearest(self, records: list[Record], call: Call) -> list[Record]:
        """Return, of records at several places, those whose way to the call is most like the call's own.

        A helper that is written otherwise inside moves the records of all its uses at once, a try around a fan-out
        those of all its branches; each use still tells its own apart. A use that is gone leaves its record over, which
        stops the candidate.

        Where the nearest came another way, and what is on it still stands there, written otherwise, its call may be the
        one that is made there now: one that came the call's own way is as near.
        """
        if len({self.place(record) for record in records}) < 2:
            return records
        likeness = {record.seq: self._like(record, call) for record in records}
        most = max(likeness.values())
        nearest = [record for record in records if likeness[record.seq] == most]
        if any(self.fate(record) is not Fate.CHANGED for record in nearest):
            return nearest
        sources, parts = self.sources, self.parts
        came = {
            r.seq for r in records if r.identity and same_way(sources, self.terms(r), parts(r.identity), call.parts)
        }
        if any(record.seq in came for record in nearest):
            return nearest
        return [record for record in records if likeness[record.seq] == most or record.seq in came]

    def _own_place(self, records: list[Record], call: Call) -> list[Record]:
        """Return, of records that stood elsewhere, those that may belong to a call at a place whose other calls have
        records already: what they have says which place this one was, and one more call there is new work."""
        if not records:
            return records
        equals = self.equals(call.call)
        taken = sum(1 for record in equals if record.seq in self.claimed)
        known = self._takers.get(call.call)
        if known is None or known[0] != taken:
            known = self._takers[call.call] = (taken, {})
            for record in equals:
                if record.seq in self.claimed:
                    stood = self.parts(self.stood(record)[0] or record.origin).place
                    known[1].setdefault(self.claimed[record.seq].place, set()).add(stood)
        mine = known[1].get(call.place)
        if not mine:
            return records
        return [record for record in records if self.parts(record.identity or record.origin).place in mine]

    def _like(self, record: Record, call: Call) -> int:
        if record.identity is None:
            return 0
        return likeness(self.sources, self.terms(record), self.parts(record.identity), call.parts)

    def _preference(self, record: Record, call: Call) -> tuple[int, int, int, int]:
        unlike = self._unlike(record, call)
        return (unlike, not record.ok, record.identity is None, record.seq)

    def _unlike(self, record: Record, call: Call) -> int:
        return 2 if record.identity is None else unlike(self.parts(record.identity), call.parts)

    def reachable(self, call: Call) -> Ambiguous | None:
        """Rule 4c: an equal record is unclaimed, and its own call may still come, where it stood or is expected."""
        if call.is_read or self.known(call):
            return None
        rest = [
            record
            for record in self._unclaimed(call)
            if record.ok
            and record.identity is not None
            and not self._exact(record, call)
            and self._to_come(record, call)
        ]
        return Ambiguous("c", call, tuple(rest)) if rest else None

    def _exact(self, record: Record, call: Call) -> bool:
        """Whether the identity says which call a record is: source and args are its own, and no other source has put
        another result where the call stands."""
        there = self.prefix.get(call.identity)
        return self.sources.same(record.revision) and (there is None or not there.ok or there.call == call.call)

    def _to_come(self, record: Record, call: Call) -> bool:
        if record.seq in self._vacant or self.vacated(record):
            # At a place that the record's source had, a call is one more of those that were always there.
            return self.relocation != "strict" and not self._had_it(record, call) and self._held(record, call)
        return record.identity not in self.made and (self.relocation != "strict" or not self.had(record, call.place))

    def twin(self, call: Call) -> Ambiguous | None:
        """Rule 4d: the call claims nothing at a new place, while an equal record was moved to another call.

        Where the record stood itself is as good as new: what is made there now may be what it was paid for.
        """
        if call.is_read or self.known(call):
            return None
        moved = [record for record in self.moved_calls.get(call.call, ()) if record.ok]
        own = [record for record in moved if self.stood(record)[0] == call.identity]
        rest = [record for record in moved if not self._had_it(record, call) and not self._roomy(record, call)]
        rest += [record for record in own if record not in rest]
        return Ambiguous("d", call, tuple(rest)) if rest else None

    def _had_it(self, record: Record, call: Call) -> bool:
        """Whether the source of a record's own commit had a call where one stands now, written like it."""
        return self.sources.had_written(record.source, call.place)

    def _roomy(self, record: Record, call: Call) -> bool:
        """Whether a record's source had a call's place, seen through the record's own move, with room for one more.

        Then the edit moved the place, and the call is one that it made all along.
        """
        program, origin, taken = (
            self.sources.program(record.source),
            self.parts(record.origin),
            self.claimed[record.seq],
        )
        place = origin.place if taken.place == call.place else along(program, origin, taken.parts, call.parts)
        if place is None or (place == call.place and not self._had_it(record, call)):
            return False
        room = capacity(ids.parse(place), program)
        if room is None:
            return True
        places = {call.place, taken.place} if place == origin.place else {call.place}
        asked = sum(1 for at, key in self.made.items() if key == call.call and ids.place(at) in places)
        return asked <= room

    def diverges(self, call: Call) -> Record | None:
        """Rule 5: the record at the call's own, intact identity that isn't equal and that nobody claimed."""
        record = self.prefix.get(call.identity)
        if record is None or record.seq in self.claimed or not record.ok or record.is_read:
            return None
        return record if record.call != call.call and self.fate(record) is Fate.SAME else None

    # --- about records -----------------------------------------------------------------------------------------

    def unclaimed(self) -> list[Record]:
        """Return the records that no call has, in order."""
        return [record for record in self.records if record.seq not in self.claimed]

    def fate(self, record: Record) -> Fate:
        """What became of a record's site and frames in the candidate."""
        if record.identity is None:
            return Fate.GONE
        if self.sources.history.revisions[record.revision].source == self.sources.candidate.revision:
            return Fate.SAME
        return self.sources.fates(record.revision, self.parts(record.identity).positions)

    def vacated(self, record: Record) -> bool:
        """Whether no call of the candidate can stand at a record's own identity with its payload any more."""
        if record.identity is None:
            return not record.superseded or record.superseded == self.revision
        if record.seq in self._vacant:
            return True
        asked = self.made.get(record.identity)
        if asked is not None:
            gone = asked != record.call
        else:
            gone = self.fate(record) is not Fate.SAME or beyond(
                self.parts(record.identity), self.sources.candidate, self.widths
            )
        if gone:
            self._vacant.add(record.seq)
        return gone

    def expected(self, record: Record) -> str | None:
        """Where a record's call is still to come although its own identity is vacated (rule 3), None if unknown."""
        identity = self.parts(record.identity or record.origin)
        if self.relocation == "declared":
            return declared(self.sources, self.moves, identity.place)
        there = self._expectation(record, identity)
        # What was made already isn't still to come: another record, or another payload, stands there.
        return None if there is None or self._reached(there) else str(there)

    def foreseen(self, record: Record, call: Call) -> bool:
        """Whether a call stands where a record's was expected (rule 3)."""
        identity, revision = self.stood(record)
        if identity is None:
            return False
        there = expected(self.sources, revision, self.parts(identity))
        return there is not None and reaches(call.parts, there)

    def _expectation(self, record: Record, identity: Identity) -> Identity | None:
        if record.seq not in self._expected:
            self._expected[record.seq] = expected(self.sources, self.terms(record), identity)
        return self._expected[record.seq]

    def _reached(self, there: Identity) -> bool:
        if str(there) in self.made:
            return True
        if self._sites is None:
            self._sites = {}
            for at in self.made:
                self._sites.setdefault(at.rpartition(ids.JOIN)[2], []).append(at)
        return any(reaches(self.parts(at), there) for at in self._sites.get(str(there.site), ()))

    def stood(self, record: Record) -> tuple[str | None, int]:
        """Return where a record stood before the candidate, and the revision in whose terms that is."""
        if self.revision and record.before is not None and record.before[0] == self.revision:
            return record.before[1:]
        return record.identity, record.revision

    def terms(self, record: Record) -> int:
        """Return the last revision before the candidate in whose terms a record's identity is, its source if none.

        A record is kept in the terms of the source that wrote its call last; those that left it as it was had it too.
        """
        if record.identity is None:
            return record.source
        last = self.revision - 1 if self.revision else self.sources.history.revision
        if record.revision >= last:
            return record.revision
        return self.sources.latest(record.revision, self.parts(record.identity).positions, last)

    def had(self, record: Record, place: str) -> bool:
        """Whether the source of a record's own commit had a place."""
        return self.sources.has_place(record.source, place)

    def parts(self, identity: str) -> Identity:
        """Return an identity's parts."""
        found = self._parsed.get(identity)
        if found is None:
            found = self._parsed[identity] = ids.parse(identity)
        return found

    def place(self, record: Record) -> str:
        """Return a record's place, in the names of the candidate."""
        if record.identity is not None:
            return self.sources.renamed(self.terms(record), self.parts(record.identity).place)
        return self.sources.renamed(record.source, self.parts(record.origin).place)

    def _declared(self, record: Record, call: Call) -> bool:
        if self.relocation != "declared":
            return True
        old = self.parts(record.identity or record.origin).place
        return self.moves.get(old) == call.place

    def equals(self, call: EqualKey) -> list[Record]:
        """Return every record that has a call's capability and digest, claimed or not."""
        equals = self._index().get(call)
        return equals.every if equals is not None else []

    def _index(self) -> Index:
        if self._equal is None:
            self._equal = Index(self.claimed)
            for record in self.records:
                self._equal.add(record)
        return self._equal

    def _unclaimed(self, call: Call) -> list[Record]:
        """Return the records that are equal to a call and that nobody has."""
        equals = self._index().get(call.call)
        return list(equals.left.values()) if equals is not None else []


def _renumbered(claims: Claims, record: Record, call: Call) -> bool:
    """Whether a race's branches have other numbers than when its winner was recorded: then that is another's."""
    if record.capability != "ctx.race":
        return False
    records = claims.sources.history.records
    there, here = f"{record.origin}[", f"{call.identity}["
    for seq, taken in claims.claimed.items():
        other = records.get(seq)
        if other is None or other.source != record.source or not taken.identity.startswith(here):
            continue
        if other.origin.startswith(there) and _number(other.origin, there) != _number(taken.identity, here):
            return True
    return False


def _number(identity: str, head: str) -> str:
    return identity[len(head) :].partition("]")[0]


def _apart(claims: Claims, record: Record, call: Call) -> int:
    """How unlike a record and a call are, 3 where the way to a call that failed, its branches and iterations are more
    like this one's: then another call is the record's, should one come."""
    found = claims._unlike(record, call)
    if found and any(
        failed.call == call.call
        and claims._unlike(failed, call) < found
        and claims._like(failed, call) >= claims._like(record, call)
        and claims.vacated(failed)
        for failed in claims.failed.values()
    ):
        return 3
    return found
