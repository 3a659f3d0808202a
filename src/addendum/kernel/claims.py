"""Which record belongs to which call of a candidate: the matching of DESIGN section 5, one to one.

The rules, and where they are here:

1. A call claims the record at its own identity if they are equal: `own`.
2. Else an equal record whose own identity is *vacated*: `moved`; one of the same place first, elsewhere only if all
   that are left stand in one place.
4. Ambiguous: (a) `left_behind`, (b) `moved`, (c) `reachable`, (d) `twin`.
5. A call that claims nothing at an intact identity whose own record nobody claimed: `Verdict.DIVERGENCE` of `judge`.

Rule 3 (expression-matched) is about records that no call has claimed, and stands in `addendum.gate`.

Nothing is vacated for a moment only: a position that is gone stays gone, another digest that stands at an identity
stays there. So a claim, once made, holds, whatever comes later. The shadow and the run share this object's rules;
only what they have seen so far differs.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Final, Literal, TypeAlias

from addendum import identity as ids
from addendum.canon import Digest
from addendum.identity import Identity
from addendum.kernel.calls import Call
from addendum.kernel.equals import Equals, index
from addendum.kernel.expression import declared, expected, reaches
from addendum.kernel.likeness import along, in_turn, likeness, numbers, unlike
from addendum.kernel.sources import Fate, Sources, capacity, entered_often
from addendum.records.history import Record

Relocation: TypeAlias = Literal["strict", "declared", "verified"]
EqualKey: TypeAlias = "tuple[str, Digest]"


CROSSED: Final = 100
"""How many equal records after one are compared with it: enough for any script that a person wrote."""


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
    fresh: bool = False
    """Source and args are those of the run's last revision: no edit can have moved a call."""
    claimed: dict[int, Call] = field(default_factory=dict)
    made: dict[str, EqualKey] = field(default_factory=dict)
    """Every identity that the candidate has called so far, with what it asked for."""
    widths: dict[str, int | tuple[str, ...]] = field(default_factory=dict)
    moved_calls: dict[EqualKey, list[Record]] = field(default_factory=dict)
    _equal: dict[EqualKey, Equals] | None = None
    _parsed: dict[str, Identity] = field(default_factory=dict)
    _vacant: set[int] = field(default_factory=set)
    """What was found vacated: it stays so."""
    _expected: dict[tuple[int, bool], Identity | None] = field(default_factory=dict)

    # --- what is seen ------------------------------------------------------------------------------------------

    def see(self, call: Call) -> None:
        """Note that the candidate makes a call."""
        self.made[call.identity] = call.call

    def see_width(self, frame: str, branches: int | tuple[str, ...]) -> None:
        """Note how wide a fan-out really is."""
        self.widths[frame] = branches

    def take(self, call: Call, record: Record) -> None:
        """Let a call have a record."""
        self.claimed[record.seq] = call
        if self._equal is not None and record.call in self._equal:
            self._equal[record.call].take(record)
        moved = record.moved and record.revision == self.revision and record.origin != call.identity
        if moved or record.identity != call.identity:
            self.moved_calls.setdefault(record.call, []).append(record)

    # --- rule 1 ------------------------------------------------------------------------------------------------

    def own(self, call: Call) -> Record | None:
        """Rule 1: the record at the call's own identity, if it is equal and nobody else has it."""
        record = self.prefix.get(call.identity)
        if record is None or record.seq in self.claimed:
            return None
        if record.call == call.call:
            return record
        if not record.is_read or record.capability != call.capability or self._renumbered(record, call):
            return None
        return record

    def _renumbered(self, record: Record, call: Call) -> bool:
        """Whether a race's branches have other numbers than when its winner was recorded: then that is another's."""
        if record.capability != "ctx.race":
            return False
        records = self.sources.history.records
        there, here = f"{record.origin}[", f"{call.identity}["
        for seq, taken in self.claimed.items():
            other = records.get(seq)
            if other is None or other.source != record.source or not taken.identity.startswith(here):
                continue
            if other.origin.startswith(there) and _number(other.origin, there) != _number(taken.identity, here):
                return True
        return False

    def left_behind(self, call: Call, record: Record) -> Ambiguous | None:
        """Rule 4a: the call took its own record while an equal one of a gone identity is left over."""
        if self.relocation == "strict" or record.is_read or not record.ok:
            return None
        place = call.place
        rest = [
            other
            for other in self._unclaimed(call)
            if other is not record and other.ok and self.fate(other) is Fate.GONE and self._place(other) != place
        ]
        return Ambiguous("a", call, (record, *rest)) if rest else None

    def exchanged(self) -> list[Ambiguous]:
        """Rule 4a, seen from the end: equal calls that may have taken each other's records, one of them moved.

        A call that keeps its identity though it is written otherwise is suspect, and so are two that come one after the
        other in another order than their records: it can't be told whether what stands at an identity now is what
        stood there, or its neighbour that took its number.
        """
        found: list[Ambiguous] = []
        for key, moved in self.moved_calls.items():
            pairs = [(r, self.claimed[r.seq]) for r in self._index()[key].every if r.ok and r.seq in self.claimed]
            results = [record for record in moved if record.ok]
            if not results or results[0].is_read:
                continue
            for record, call in pairs:
                others = [other for other in results if self.claimed[other.seq].place != call.place]
                if others and record.identity == call.identity and self._rewritten(record, call):
                    found.append(Ambiguous("a", call, (record, *others)))
            found.extend(self._crossed(pairs))
        return found

    def _rewritten(self, record: Record, call: Call) -> bool:
        """Whether a call or a use on the way is written otherwise; a fan-out with other branches is the same one."""
        return any(
            self.sources.fate(record.revision, position) is Fate.CHANGED
            and (now := self.sources.at(position)) is not None
            and now.kind != "fanout"
            for position in call.parts.positions
        )

    def _crossed(self, pairs: list[tuple[Record, Call]]) -> list[Ambiguous]:
        pairs = sorted(pairs, key=lambda pair: pair[0].attempt or pair[0].seq)
        made = [call.number for _, call in pairs]
        if made == sorted(made):
            return []
        # Those of one place are interchangeable: whichever order they have among themselves says nothing.
        places = [(self._place(record), call.place) for record, call in pairs]
        groups: dict[tuple[str, str], list[int]] = {}
        for place, number in zip(places, made, strict=True):
            groups.setdefault(place, []).append(number)
        rest = {place: iter(sorted(group)) for place, group in groups.items()}
        made = [next(rest[place]) for place in places]
        found: list[Ambiguous] = []
        for first in range(len(pairs)):
            for second in range(first + 1, min(len(pairs), first + CROSSED)):
                (one, call), (two, other) = pairs[first], pairs[second]
                if made[first] < made[second] or places[first] == places[second] or one.source != two.source:
                    continue
                there = (self.parts(one.identity or one.origin), self.parts(two.identity or two.origin))
                if in_turn(*there) and in_turn(call.parts, other.parts):
                    found.append(Ambiguous("a", call, (one, two)))
        return found

    # --- rule 2 ------------------------------------------------------------------------------------------------

    def moved(self, call: Call, *, apart: int = 2, here: bool = False) -> Record | Ambiguous | None:
        """Rule 2: an equal record whose own identity is vacated, or why it can't be told which (4b).

        Among records of one place, one comes first whose branches and iterations are the call's, a failure too: calls
        of one place are interchangeable, but what the script made of them stands where it stood. `apart` says how
        unlike they may be at most (see `unlike`); `here`: only records of the call's own place.
        """
        if self.relocation == "strict":
            return None
        equals = self._index().get(call.call)
        if equals is None or not equals.left:
            return None
        equals.sort(self._place, lambda record: numbers(self.parts(record.identity)) if record.identity else None)
        found = self._exactly(equals, call, here)
        if found is not None or (here and call.place not in equals.places):
            return found
        vacated = [record for record in self._unclaimed(call) if self.vacated(record) and self._declared(record, call)]
        if not vacated:
            return None
        place = call.place
        rest = [record for record in vacated if self._place(record) == place]
        if not rest and not here:
            rest = self._nearest([record for record in vacated if self._elsewhere(record, call)], call)
            results = [record for record in rest if record.ok]
            places = {self._place(record) for record in results}
            if len(places) > 1 and not call.is_read:
                return Ambiguous("b", call, tuple(results))
            rest = [record for record in rest if not places or self._place(record) in places]
        rest = [record for record in rest if self._unlike(record, call) <= apart]
        return min(rest, key=lambda record: self._preference(record, call), default=None)

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
        return self._free(record, call)

    def _free(self, record: Record, call: Call) -> bool:
        """Whether a record isn't expected at another place, where its call is still to come."""
        if self.relocation == "declared" or record.identity is None:
            return True
        there = self._expectation(record, self.parts(record.identity), True)
        return there is None or reaches(call.parts, there, numbers=False) or self._reached(there)

    def _nearest(self, records: list[Record], call: Call) -> list[Record]:
        """Return, of records at several places, those whose way to the call is most like the call's own.

        A helper that is written otherwise inside moves the records of all its uses at once, a try around a fan-out
        those of all its branches; each use still tells its own apart. A use that is gone leaves its record over, which
        stops the candidate.
        """
        if len({self._place(record) for record in records}) < 2:
            return records
        likeness = {record.seq: self._like(record, call) for record in records}
        most = max(likeness.values())
        return [record for record in records if likeness[record.seq] == most]

    def _like(self, record: Record, call: Call) -> int:
        if record.identity is None:
            return 0
        return likeness(self.sources, record.revision, self.parts(record.identity), call.parts)

    def _preference(self, record: Record, call: Call) -> tuple[int, int, int, int]:
        unlike = self._unlike(record, call)
        return (unlike, not record.ok, record.identity is None, record.seq)

    def _unlike(self, record: Record, call: Call) -> int:
        return 2 if record.identity is None else unlike(self.parts(record.identity), call.parts)

    def reachable(self, call: Call) -> Ambiguous | None:
        """Rule 4c: an equal record is unclaimed, not vacated, and its own call may still come."""
        if call.is_read:
            return None
        place = call.place
        rest = [
            record
            for record in self._unclaimed(call)
            if record.seq not in self._vacant
            and record.ok
            and record.identity is not None
            and not self.sources.same(record.revision)
            and record.identity not in self.made
            and not self.vacated(record)
            and (self.relocation != "strict" or not self.had(record, place))
        ]
        return Ambiguous("c", call, tuple(rest)) if rest else None

    def twin(self, call: Call) -> Ambiguous | None:
        """Rule 4d: the call claims nothing at a new place, while an equal record was moved to another call."""
        if call.is_read:
            return None
        place = call.place
        moved = self.moved_calls.get(call.call, ())
        rest = [record for record in moved if record.ok and not self.had(record, place)]
        rest = [record for record in rest if not self._roomy(record, call)]
        return Ambiguous("d", call, tuple(rest)) if rest else None

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
        if place is None:
            return False
        room = capacity(ids.parse(place), program)
        if room is None:
            return True
        asked = sum(1 for at, key in self.made.items() if key == call.call and ids.place(at) == call.place)
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
            gone = self.fate(record) is not Fate.SAME or self._beyond(self.parts(record.identity))
        if gone:
            self._vacant.add(record.seq)
        return gone

    def expected(self, record: Record) -> str | None:
        """Where a record's call is still to come although its own identity is vacated (rule 3), None if unknown."""
        identity = self.parts(record.identity or record.origin)
        if self.relocation == "declared":
            return declared(self.sources, self.moves, identity.place)
        there = self._expectation(record, identity, False)
        # What was made already isn't still to come: another record, or another payload, stands there.
        return None if there is None or self._reached(there) else str(there)

    def _expectation(self, record: Record, identity: Identity, fans: bool) -> Identity | None:
        key = (record.seq, fans)
        if key not in self._expected:
            self._expected[key] = expected(self.sources, record.revision, identity, fans=fans)
        return self._expected[key]

    def _reached(self, there: Identity) -> bool:
        return str(there) in self.made or any(
            reaches(self.parts(at), there) for at in self.made if at.endswith(str(there.site))
        )

    def had(self, record: Record, place: str) -> bool:
        """Whether the source of a record's own commit had a place."""
        return self.sources.has_place(record.source, place)

    def parts(self, identity: str) -> Identity:
        """Return an identity's parts."""
        found = self._parsed.get(identity)
        if found is None:
            found = self._parsed[identity] = ids.parse(identity)
        return found

    def _beyond(self, identity: Identity) -> bool:
        """Whether an identity lies beyond the candidate's bounds or a fan-out's actual width."""
        prefix = ""
        shared = entered_often(identity, self.sources.candidate)
        for number, frame in enumerate(identity.path):
            position = self.sources.at(frame.position)
            bound = position.bound if position is not None else None
            if frame.kind == "loop":
                if bound is not None and isinstance(frame.branch, int) and frame.branch >= bound:
                    return True
            elif frame.kind == "branch":
                head = f"{prefix}{frame.position}" + (f":{frame.entry}" if frame.entry else "")
                width = self.widths.get(head)
                if isinstance(width, tuple):
                    if frame.branch not in width:
                        return True
                elif isinstance(frame.branch, int):
                    known = width if width is not None else bound
                    if known is not None and frame.branch >= known:
                        return True
            elif bound is not None and frame.entry >= bound and number not in shared:
                return True
            prefix = f"{prefix}{frame}{ids.JOIN}"
        last = self.sources.at(identity.site.position)
        if last is None or last.bound is None or len(identity.path) in shared:
            return False
        return identity.site.entry >= last.bound

    def _place(self, record: Record) -> str:
        """Return a record's place, in the names of the candidate."""
        if record.identity is not None:
            return self.sources.renamed(record.revision, self.parts(record.identity).place)
        return self.sources.renamed(record.source, self.parts(record.origin).place)

    def _declared(self, record: Record, call: Call) -> bool:
        if self.relocation != "declared":
            return True
        old = self.parts(record.identity or record.origin).place
        return self.moves.get(old) == call.place

    def equal(self, call: Call) -> list[Record]:
        """Return every record that is equal to a call, claimed or not."""
        equals = self._index().get(call.call)
        return equals.every if equals is not None else []

    def equal_to(self, record: Record) -> list[Record]:
        """Return every record that is equal to a record, itself too."""
        equals = self._index().get(record.call)
        return equals.every if equals is not None else []

    def _index(self) -> dict[EqualKey, Equals]:
        if self._equal is None:
            self._equal = index(self.records, self.claimed)
        return self._equal

    def _unclaimed(self, call: Call) -> list[Record]:
        """Return the records that are equal to a call and that nobody has."""
        equals = self._index().get(call.call)
        return list(equals.left.values()) if equals is not None else []


def _number(identity: str, head: str) -> str:
    return identity[len(head) :].partition("]")[0]
