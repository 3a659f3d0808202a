"""Which record belongs to which call of a candidate: the matching of DESIGN section 5, one to one.

The rules, and where they are:

1. A call claims the record at its own identity if they are equal: `own`.
2. Else an equal record whose own identity is *vacated*: `moved`; one of the same place first, elsewhere only if all
   that are left stand in one place. Which one that is, `addendum.kernel.moved` finds.
4. Ambiguous: (b) `moved`, (c) `reachable`, (d) `twin`; what is only seen once more calls were made stands in
   `addendum.kernel.doubt`, and (a) what is only seen from the records that are left over, in `addendum.gate`.
5. A call that claims nothing at an intact identity whose own record nobody claimed: `Verdict.DIVERGENCE` of `judge`.

Rule 3 (expression-matched) is about records that no call has claimed, and stands in `addendum.gate`.

What the candidate says of a record, whoever has it, is `addendum.kernel.standing`; this is who has what. Nothing is
vacated for a moment only, so a claim, once made, holds, whatever comes later. The shadow and the run share this
object's rules; only what they have seen so far differs.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field, replace
from operator import attrgetter

from addendum import identity as ids
from addendum.identity import Frame, Identity
from addendum.kernel.calls import Call
from addendum.kernel.equals import EqualKey, Equals, Index
from addendum.kernel.likeness import along, numbers
from addendum.kernel.moved import Ambiguous, Search, promised, ways_to
from addendum.kernel.sources import Fate, capacity
from addendum.kernel.standing import Relocation, Standing
from addendum.records.history import Record
from addendum.script.program import Program

__all__ = ["Ambiguous", "Claims", "Relocation"]


@dataclass(slots=True, kw_only=True)
class Claims(Standing):
    """The state of a matching. `prefix` is P without what is to be tried again; `records` all that may be claimed."""

    prefix: dict[str, Record]
    records: Iterable[Record]
    failed: dict[str, Record] = field(default_factory=dict)
    """Failures that are tried again, by identity: what stood there is known, and has no result."""
    claimed: dict[int, Call] = field(default_factory=dict)
    moved_calls: dict[EqualKey, list[Record]] = field(default_factory=dict)
    unsure: set[EqualKey] = field(default_factory=set)
    """What was claimed where a record was moved, or was asked for where one had stood, since somebody looked last for
    claims that exclude each other."""
    handed: dict[int, str] = field(default_factory=dict)
    """Records that were handed over in this execution: seq to identity."""
    _left: dict[str, EqualKey] = field(default_factory=dict)
    """Where moved records stood."""
    _equal: Index | None = None

    def see(self, call: Call) -> None:
        """Note that the candidate makes a call."""
        identity = call.identity
        self.made[identity] = call.call
        if self._sites is not None:
            self._sites.setdefault(identity.rpartition(ids.JOIN)[2], []).append(identity)
        if self._branches is not None:
            self._branches.update(self._entered(call.parts))
        if identity in self._left:
            self.unsure.add(self._left[identity])

    def take(self, call: Call, record: Record) -> None:
        """Let a call have a record."""
        self.claimed[record.seq] = call
        if self._equal is not None:
            self._equal.take(record)
        stood = self.stood(record)[0]
        if stood != call.identity:
            self.moved_calls.setdefault(record.call, []).append(record)
            if stood is not None:
                self._left[stood] = record.call
        if record.call in self.moved_calls:
            self.unsure.add(record.call)

    # --- rule 1 ------------------------------------------------------------------------------------------------

    def own(self, call: Call) -> Record | None:
        """Rule 1: the record at the call's own identity, if it is equal and nobody else has it."""
        record = self.prefix.get(call.identity)
        if record is None or record.seq in self.claimed:
            return None
        if record.call == call.call:
            return None if self._promised(call, record) else record
        if not record.is_read or record.capability != call.capability or _other_numbers(self, record, call):
            return None
        return record

    def _promised(self, call: Call, there: Record) -> bool:
        """Whether rule 3 expects an equal result where a call behind new work stands, and what stood there is written
        otherwise. Then that isn't the call's, and its place is another's now."""
        if not self.beyond or there.is_read or self.fate(there) is Fate.SAME:
            return False
        equals = self._index().get(call.call)
        if equals is None or promised(self, equals, call) is None:
            return False
        self._vacant.add(there.seq)
        return True

    # --- rule 2 ------------------------------------------------------------------------------------------------

    def moved(self, call: Call, *, apart: int = 3, here: bool = False) -> Record | Ambiguous | None:
        """Rule 2: an equal record whose own identity is vacated, or why it can't be told which (4b): `Search.find`."""
        if self.relocation == "strict":
            return None
        equals = self._index().get(call.call)
        if equals is None or not equals.left:
            return None
        search = Search(self, self.claimed, self.failed, equals, call)
        return search.find(apart=apart, here=here or self.known(call))

    def known(self, call: Call) -> bool:
        """Whether a call is one that failed and is tried again where it stood: it is no other that has a result."""
        failed = self.failed.get(call.identity)
        return failed is not None and failed.call == call.call and self.fate(failed) is Fate.SAME

    def reachable(self, call: Call) -> Ambiguous | None:
        """Rule 4c: an equal record is unclaimed, and its own call may still come, where it stood or is expected."""
        if call.is_read or self.known(call):
            return None
        equals = self._index().get(call.call)
        if equals is None or not equals.left:
            return None
        exact, place = self._exact(equals, call), call.place
        rest = [
            record
            for way in ways_to(self, equals)
            if self._may_come(way.one, call)
            for every in [self.all_held(way.one, call)]
            for record in way.left.values()
            if record.ok and not record.given_up and record.revision not in exact and (every or self.held(record, call))
        ]
        rest += [
            record
            for record in equals.strays()
            if record.ok
            and not record.given_up
            and record.revision not in exact
            and record.identity is not None
            and record.identity not in self.made
            and (self.relocation != "strict" or not self.had(record, place))
        ]
        return Ambiguous("c", call, tuple(sorted(rest, key=attrgetter("seq")))) if rest else None

    def _exact(self, equals: Equals, call: Call) -> set[int]:
        """Return the revisions whose identities say which call a record is: source and args are the candidate's, and no
        other source has put another result where the call stands."""
        there = self.prefix.get(call.identity)
        if there is not None and there.ok and there.call != call.call:
            return set()
        revisions = {record.revision for record in equals.left.values()}
        return {revision for revision in revisions if self.sources.same(revision)}

    def _may_come(self, record: Record, call: Call) -> bool:
        """Whether a vacated record's call may be expected elsewhere, by its place. At a place that the record's source
        had, a call is one more of those that were always there."""
        return self.relocation != "strict" and self.awaited(record, call) is not None and not self.had_it(record, call)

    def twin(self, call: Call) -> Ambiguous | None:
        """Rule 4d: the call claims nothing at a new place, while an equal record was moved to another call.

        Where the record stood itself is as good as new: what is made there now may be what it was paid for.
        """
        if call.is_read or self.known(call):
            return None
        moved = [record for record in self.moved_calls.get(call.call, ()) if record.ok and not self.given_up(record)]
        own = [record for record in moved if self.stood(record)[0] == call.identity]
        known: dict[tuple[int, str, str], bool] = {}
        rest = [record for record in moved if not self.had_it(record, call) and not self._had_room(record, call, known)]
        rest += [record for record in own if record not in rest]
        return Ambiguous("d", call, tuple(rest)) if rest else None

    def _had_room(self, record: Record, call: Call, known: dict[tuple[int, str, str], bool]) -> bool:
        """Whether a record's source had room for a call. `known` is what was found of others that moved the same."""
        origin, taken = self.parts(record.origin), self.claimed[record.seq]
        key = (record.source, origin.place, taken.place)
        if key not in known:
            known[key] = self._roomy(record, call)
        return known[key] and not (taken.place != call.place and self._stands_in(record, call))

    def _stands_in(self, record: Record, call: Call) -> bool:
        """Whether a call stands where a record stood itself, seen through the record's own move."""
        origin = self.parts(record.origin)
        if origin.occurrence != call.parts.occurrence or numbers(origin) != numbers(call.parts):
            return False
        return self._before(record, call) == origin.place

    def _before(self, record: Record, call: Call) -> str | None:
        """Return the place that a call had in a record's source, seen through the record's own move, if it had one."""
        program, origin, taken = (
            self.sources.program(record.source),
            self.parts(record.origin),
            self.claimed[record.seq],
        )
        place = origin.place if taken.place == call.place else along(program, origin, taken.parts, call.parts)
        if place is None or (place == call.place and not self.had_it(record, call)):
            return None
        if taken.place != call.place and self._used_otherwise(place, program, call):
            return None
        if self._worded(origin, program) == self._worded(taken.parts, self.sources.candidate):
            return self._renumbered(place, origin, program, call)
        return place

    def _used_otherwise(self, place: str, program: Program, call: Call) -> bool:
        """Whether a use on the way to a call has the number that another one had on the way to a place of a program."""
        now = self.sources.candidate.positions
        both = set(place.split(ids.JOIN)[:-1]).intersection(call.parts.positions)
        return any(
            program.positions[at].kind == "call" and program.positions[at].fingerprint != now[at].fingerprint
            for at in both
        )

    def _roomy(self, record: Record, call: Call) -> bool:
        """Whether a record's source had a call's place, seen through the record's own move, with room for one more.

        Then the edit moved the place, and the call is one that it made all along.
        """
        place = self._before(record, call)
        if place is None:
            return False
        room = capacity(ids.parse(place), self.sources.program(record.source))
        if room is None:
            return True
        taken = self.claimed[record.seq]
        places = {call.place, taken.place} if place == self.parts(record.origin).place else {call.place}
        asked = sum(1 for at, key in self.made.items() if key == call.call and ids.place(at) in places)
        return asked <= room

    def _renumbered(self, place: str, origin: Identity, program: Program, call: Call) -> str | None:
        """Return a place with the number that its call had: in its block, the one that is written like a call. A move
        that leaves the wording as it was may leave another call with the number. None if there is none."""
        identity, wording = ids.parse(place), self._worded(call.parts, self.sources.candidate)
        if self._worded(identity, program) == wording:
            return place
        block = program.positions[identity.site.position].block
        like = [at for at, other in program.positions.items() if other.block == block and other.fingerprint == wording]
        if not like:
            return None
        site = next((at for at in like if at != origin.site.position), like[0])
        return str(replace(identity, site=Frame(site)))

    def _worded(self, identity: Identity, program: Program) -> str | None:
        position = program.positions.get(identity.site.position)
        return None if position is None else position.fingerprint

    def diverges(self, call: Call) -> Record | None:
        """Rule 5: the record at the call's own, intact identity that isn't equal and that nobody claimed or gave up."""
        record = self.prefix.get(call.identity)
        if record is None or record.seq in self.claimed or not record.ok or record.is_read or record.given_up:
            return None
        return record if record.call != call.call and self.fate(record) is Fate.SAME else None

    # --- equal records -----------------------------------------------------------------------------------------

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


def _other_numbers(claims: Claims, record: Record, call: Call) -> bool:
    """Whether a race's branches have other numbers than when its winner was recorded: then that is another's.

    Those that its own source paid for tell it, and those that were moved to where they stood in it. Those that have no
    records yet tell it by asking for what another branch has alone. What was claimed late tells it once it was
    handed over: in the execution that claimed it, nobody had it before.
    """
    if record.capability != "ctx.race":
        return False
    records = claims.sources.history.records
    at, revision = claims.stood(record)
    here = f"{call.identity}["
    for seq, taken in claims.claimed.items():
        other = records.get(seq)
        if other is None or not taken.identity.startswith(here) or (other.late and seq not in claims.handed):
            continue
        number = _number(taken.identity, here)
        if other.source == record.source and _is_another(other.origin, f"{record.origin}[", number):
            return True
        stood, then = claims.stood(other)
        if stood is not None and then == revision and _is_another(stood, f"{at}[", number):
            return True
    return any(_asks_for_anothers(claims, what, made, here) for made, what in claims.made.items())


def _asks_for_anothers(claims: Claims, what: EqualKey, made: str, here: str) -> bool:
    """Whether a call in a race's branch, whose record is of something else, asks for what another branch has and its
    own has not."""
    there = claims.prefix.get(made) if made.startswith(here) else None
    if there is None or there.call == what:
        return False
    left = [other.identity or "" for other in claims.equals(what) if other.seq not in claims.claimed]
    numbers = {_number(at, here) for at in left if at.startswith(here)}
    return bool(numbers) and _number(made, here) not in numbers


def _is_another(identity: str, head: str, number: str) -> bool:
    return identity.startswith(head) and _number(identity, head) != number


def _number(identity: str, head: str) -> str:
    return identity[len(head) :].partition("]")[0]
