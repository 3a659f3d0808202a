"""Rule 2 of the matching (DESIGN section 5): which of the equal records that are vacated belongs to a call.

What is asked of one record is `addendum.kernel.standing`; this compares them with each other. It takes nothing: whoever
asks decides what becomes of the answer.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Literal

from addendum.kernel.calls import Call
from addendum.kernel.equals import Equals
from addendum.kernel.likeness import likeness, numbers, same_way, unlike
from addendum.kernel.sources import Fate
from addendum.kernel.standing import Standing
from addendum.records.history import Record


@dataclass(frozen=True, slots=True)
class Ambiguous:
    """A call that more than one record could belong to. `rule` is the letter of DESIGN section 5, rule 4."""

    rule: Literal["a", "b", "c", "d"]
    call: Call
    records: tuple[Record, ...]


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
        """
        standing, equals, call = self.standing, self.equals, self.call
        equals.sort(standing.place, self._numbers)
        found = self._exactly(here)
        if found is not None or (here and call.place not in equals.places):
            return found
        vacated = [r for r in equals.left.values() if standing.vacated(r) and standing.is_declared(r, call)]
        if not vacated:
            return None
        place = call.place
        rest = [record for record in vacated if standing.place(record) == place]
        if not rest and not here:
            rest = self._nearest([record for record in vacated if standing.elsewhere(record, call)])
            rest = self._own_place(rest)
            results = [record for record in rest if record.ok]
            places = {standing.place(record) for record in results}
            if len(places) > 1 and not call.is_read:
                return Ambiguous("b", call, tuple(results))
            rest = [record for record in rest if not places or standing.place(record) in places]
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

    def _nearest(self, records: list[Record]) -> list[Record]:
        """Return, of records at several places, those whose way to the call is most like the call's own.

        A helper that is written otherwise inside moves the records of all its uses at once, a try around a fan-out
        those of all its branches; each use still tells its own apart. A use that is gone leaves its record over, which
        stops the candidate.

        Where the nearest came another way, and what is on it still stands there, written otherwise, its call may be the
        one that is made there now: one that came the call's own way is as near.
        """
        standing, call = self.standing, self.call
        if len({standing.place(record) for record in records}) < 2:
            return records
        likeness = {record.seq: self._like(record) for record in records}
        most = max(likeness.values())
        nearest = [record for record in records if likeness[record.seq] == most]
        if any(standing.fate(record) is not Fate.CHANGED for record in nearest):
            return nearest
        came = {
            record.seq
            for record in records
            if record.identity is not None
            and same_way(standing.sources, standing.terms(record), standing.parts(record.identity), call.parts)
        }
        if any(record.seq in came for record in nearest):
            return nearest
        return [record for record in records if likeness[record.seq] == most or record.seq in came]

    def _own_place(self, records: list[Record]) -> list[Record]:
        """Return, of records that stood elsewhere, those that may belong to a call at a place whose other calls have
        records already: what they have says which place this one was, and one more call there is new work."""
        if not records:
            return records
        equals = self.equals
        if equals.takers[0] != (taken := len(equals.every) - len(equals.left)):
            equals.takers = (taken, self._takers())
        mine = equals.takers[1].get(self.call.place)
        if not mine:
            return records
        return [record for record in records if self._stood(record.identity or record.origin) in mine]

    def _takers(self) -> dict[str, set[str]]:
        """Return where the calls stand that have equal records, and where those stood."""
        found: dict[str, set[str]] = {}
        for record in self.equals.every:
            if record.seq in self.claimed:
                stood = self._stood(self.standing.stood(record)[0] or record.origin)
                found.setdefault(self.claimed[record.seq].place, set()).add(stood)
        return found

    def _stood(self, identity: str) -> str:
        return self.standing.parts(identity).place

    def _numbers(self, record: Record) -> tuple[int | str, ...] | None:
        return numbers(self.standing.parts(record.identity)) if record.identity else None

    def _like(self, record: Record) -> int:
        if record.identity is None:
            return 0
        standing = self.standing
        return likeness(standing.sources, standing.terms(record), standing.parts(record.identity), self.call.parts)

    def _preference(self, record: Record) -> tuple[int, int, int, int]:
        return (self._unlike(record), not record.ok, record.identity is None, record.seq)

    def _unlike(self, record: Record) -> int:
        return 2 if record.identity is None else unlike(self.standing.parts(record.identity), self.call.parts)

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
