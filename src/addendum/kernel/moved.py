"""Rule 2 of the matching (DESIGN section 5): which of the equal records that are vacated belongs to a call.

What is asked of one record is `addendum.kernel.standing`; this compares them with each other. It takes nothing: whoever
asks decides what becomes of the answer.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from operator import attrgetter
from typing import Literal, TypeAlias

from addendum.kernel.calls import Call
from addendum.kernel.equals import Equals, Way
from addendum.kernel.likeness import likeness, numbers, same_way, unlike
from addendum.kernel.sources import Fate
from addendum.kernel.standing import Standing
from addendum.records.history import Record

Some: TypeAlias = tuple[Way, dict[int, Record]]
"""Some records of a way, by seq."""


@dataclass(frozen=True, slots=True)
class Ambiguous:
    """A call that more than one record could belong to. `rule` is the letter of DESIGN section 5, rule 4."""

    rule: Literal["a", "b", "c", "d"]
    call: Call
    records: tuple[Record, ...]


def ways_to(standing: Standing, equals: Equals) -> list[Way]:
    """Return the ways to what is left and vacated. They are looked at again when something was made or written."""
    seen = (len(standing.made), len(standing.widths), standing.sources.history.seq)
    if equals.seen != seen:
        equals.seen = seen
        for record in equals.strays():
            if standing.vacated(record):
                identity, revision = standing.at(record)
                parts = standing.parts(identity or record.origin)
                key = (record.source, revision, identity is None, parts.place)
                equals.walk(record, key, standing.place, parts)
    return [way for way in equals.ways.values() if way.left]


def promised(standing: Standing, equals: Equals, call: Call) -> Record | None:
    """Return the result that is left and vacated, and that rule 3 expects where a call stands: what else stood there is
    another call's, whose wording is gone from there."""
    if standing.relocation != "verified":
        return None
    for way in ways_to(standing, equals):
        if standing.foreseen(way.one, call, numbers=False):
            for record in way.left.values():
                if record.ok and standing.foreseen(record, call):
                    return record
    return None


def _in_use(some: list[Some]) -> list[Some]:
    """Return those that no revision gave up: the others are claimed last, and make nothing ambiguous."""
    kept = [(way, {seq: record for seq, record in records.items() if not record.given_up}) for way, records in some]
    return [(way, records) for way, records in kept if records]


@dataclass(frozen=True, slots=True)
class Search:
    """What looks for the record of one call among those that are equal to it. `claimed` are those that calls have, by
    seq; `failed` the failures that are tried again, by identity."""

    standing: Standing
    claimed: Mapping[int, Call]
    failed: Mapping[str, Record]
    equals: Equals
    call: Call

    def find(self, *, apart: int, here: bool) -> Record | Ambiguous | None:
        """Rule 2: an equal record whose own identity is vacated, or why it can't be told which (4b).

        Among records of one place, one comes first whose branches and iterations are the call's, a failure too: calls
        of one place are interchangeable, but what the script made of them stands where it stood. `apart` says how
        unlike they may be at most (see `unlike`), 3 is for a call that rather is one that failed and is tried again;
        `here`: only records of the call's own place.

        Behind new work, what stood there and is written otherwise, or was left without identity, gives way to what
        rule 3 expects there.
        """
        found = self._find(apart=apart, here=here)
        if isinstance(found, Record) and not found.is_read and self._gives_way(found):
            return promised(self.standing, self.equals, self.call) or found
        return found

    def _gives_way(self, record: Record) -> bool:
        standing = self.standing
        if not standing.beyond:
            return False
        return standing.at(record)[0] is None or (
            standing.place(record) == self.call.place and standing.fate(record) is Fate.CHANGED
        )

    def _find(self, *, apart: int, here: bool) -> Record | Ambiguous | None:
        standing, equals, call = self.standing, self.equals, self.call
        equals.sort(standing.place, self._numbers)
        found = self._exactly(here)
        if found is not None or (here and call.place not in equals.places):
            return found
        place = call.place
        ways = [way for way in ways_to(standing, equals) if standing.is_declared(way.one, call)]
        some = [(way, way.left) for way in ways if way.place == place]
        if not some and not here:
            some = [(way, records) for way in ways if (records := self._elsewhere(way))]
            some = _in_use(some) or some
            some = self._own_place(self._nearest(some))
            # A way that is as near by a failure alone counts for the results on it: a retry's first try, say.
            places = {
                way.place for way, _ in some if any(record.ok and not record.given_up for record in way.left.values())
            }
            if len(places) > 1 and not call.is_read:
                every = [record for _, records in some for record in records.values() if record.ok]
                return Ambiguous("b", call, tuple(sorted(every, key=attrgetter("seq"))))
            if places:
                some = [(way, records) for way, records in some if way.place in places]
        rest = [record for way, records in some for record in self._best(way, records)]
        rest = [record for record in rest if self._apart(record) <= apart]
        return min(rest, key=self._preference, default=None)

    def _exactly(self, here: bool) -> Record | None:
        """What `find` finds, without looking at every equal record: one of the same numbers, at the call's own place
        or at the only one that any has."""
        standing, equals, call = self.standing, self.equals, self.call
        place = call.place
        alike = equals.alike(numbers(call.parts))
        alike = [record for record in alike if standing.vacated(record) and standing.is_declared(record, call)]
        for record in alike:
            if equals.place(record) == place:
                return record
        if here or place in equals.places or len(equals.places) != 1:
            return None
        return next((record for record in alike if standing.elsewhere(record, call)), None)

    def _elsewhere(self, way: Way) -> dict[int, Record]:
        """Return the records of a way that may belong to the call, which stands at another place."""
        free = self.standing.free(way.one, self.call)
        if free is None and self.standing.all_held(way.one, self.call):
            return {}
        if free is None:
            return {seq: record for seq, record in way.left.items() if not self.standing.held(record, self.call)}
        return way.left if free else {}

    def _nearest(self, some: list[Some]) -> list[Some]:
        """Return, of records at several places, those whose way to the call is most like the call's own.

        A helper that is written otherwise inside moves the records of all its uses at once, a try around a fan-out
        those of all its branches; each use still tells its own apart. A use that is gone leaves its record over, which
        stops the candidate.

        Where the nearest came another way, and what is on it still stands there, written otherwise, its call may be the
        one that is made there now: one that came the call's own way is as near.
        """
        standing = self.standing
        if len({way.place for way, _ in some}) < 2:
            return some
        like = [found for way, records in some for found in self._alike(way, records)]
        most = max(how for how, *_ in like)
        nearest = [(way, records) for how, way, records in like if how == most]
        if any(standing.fate(way.one) is not Fate.CHANGED for way, _ in nearest):
            return nearest
        came = [(way, records) for way, records in some if self._came(way.one)]
        if any(way is other for way, _ in nearest for other, _ in came):
            return nearest
        return [*nearest, *came]

    def _alike(self, way: Way, records: dict[int, Record]) -> list[tuple[int, Way, dict[int, Record]]]:
        """Return records of a way with how like the call's way theirs is: one is asked for all that are alike."""
        groups, shared = way.like(self.call.parts)
        found = [{seq: records[seq] for seq in group if seq in records} for group in groups]
        if len(records) > sum(map(len, found)):
            found.append({seq: record for seq, record in records.items() if seq not in shared})
        return [(self._like(next(iter(group.values()))), way, group) for group in found if group]

    def _came(self, record: Record) -> bool:
        """Whether a record's call was reached by the same frames as the call, whatever their numbers."""
        standing = self.standing
        identity = standing.at(record)[0]
        if identity is None:
            return False
        return same_way(standing.sources, standing.terms(record), standing.parts(identity), self.call.parts)

    def _best(self, way: Way, records: dict[int, Record]) -> Iterable[Record]:
        """Return the records of a way that may be the best: of those that have no number of the call's the first."""
        if self.failed:
            return records.values()
        near = way.near(numbers(self.call.parts))
        found = [records[seq] for seq in near if seq in records]
        if others := [record for seq, record in records.items() if seq not in near]:
            found.append(next((record for record in others if record.ok), others[0]))
        return found

    def _own_place(self, some: list[Some]) -> list[Some]:
        """Return, of records that stood elsewhere, those that may belong to a call at a place whose other calls have
        records already: what they have says which place this one was, and one more call there is new work."""
        mine = self._takers().get(self.call.place)
        if not mine:
            return some
        return [(way, records) for way, records in some if self._left(way.one) in mine]

    def _takers(self) -> dict[str, set[str]]:
        """Return where the calls stand that have equal records, and where those stood."""
        equals = self.equals
        for record in equals.taken:
            equals.takers.setdefault(self.claimed[record.seq].place, set()).add(self._left(record))
        equals.taken.clear()
        return equals.takers

    def _left(self, record: Record) -> str:
        """Return the place where a record stood before the candidate, also if a call that came there since has left it
        without identity."""
        return self.standing.parts(self.standing.stood(record)[0] or record.origin).place

    def _numbers(self, record: Record) -> tuple[int | str, ...] | None:
        identity = self.standing.at(record)[0]
        return numbers(self.standing.parts(identity)) if identity is not None else None

    def _like(self, record: Record) -> int:
        standing = self.standing
        identity = standing.at(record)[0]
        if identity is None:
            return 0
        return likeness(standing.sources, standing.terms(record), standing.parts(identity), self.call.parts)

    def _preference(self, record: Record) -> tuple[int, int, int, int]:
        return (self._unlike(record), not record.ok, self.standing.at(record)[0] is None, record.seq)

    def _unlike(self, record: Record) -> int:
        identity = self.standing.at(record)[0]
        return 2 if identity is None else unlike(self.standing.parts(identity), self.call.parts)

    def _apart(self, record: Record) -> int:
        """How unlike a record and a call are, 3 where the way to a call that failed, its branches and iterations are
        more like this one's: then another call is the record's, should one come."""
        found = self._unlike(record)
        if found and any(
            failed.call == self.call.call
            and self._unlike(failed) < found
            and self._like(failed) >= self._like(record)
            and self.standing.vacated(failed)
            for failed in self.failed.values()
        ):
            return 3
        return found
