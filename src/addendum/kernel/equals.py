"""Records that are equal to each other, in reach by what tells them apart.

Thousands of equal records are a best-of-many; a fan-out of them that moved is matched one by one, so that what a call
is after has to be found without looking at all of them.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import TypeAlias

from addendum.canon import Digest
from addendum.records.history import Record

EqualKey: TypeAlias = "tuple[str, Digest]"
"""Capability and digest: what makes two calls equal."""


@dataclass(slots=True)
class Equals:
    """The records of one capability and digest; `left` are those that no call has, in order."""

    every: list[Record] = field(default_factory=list)
    left: dict[int, Record] = field(default_factory=dict)
    places: Counter[str] = field(default_factory=Counter)
    """How many of those that are left stand at each place, once they are sorted."""
    sorted: bool = False
    takers: tuple[int, dict[str, set[str]]] = field(default=(0, {}))
    """How many had calls when this was made; where the calls stand, where the records did."""
    _places: dict[int, str] = field(default_factory=dict)
    _alike: dict[object, list[Record]] = field(default_factory=dict)

    def add(self, record: Record, *, left: bool) -> None:
        """Put a record in; `left`: no call has it."""
        self.every.append(record)
        if left:
            self.left[record.seq] = record

    def sort(self, place: Callable[[Record], str], numbers: Callable[[Record], object]) -> None:
        """Sort what is left by place, and by the numbers of branches and iterations, once."""
        if self.sorted:
            return
        self.sorted = True
        self._places = {seq: place(record) for seq, record in self.left.items()}
        self.places = Counter(self._places.values())
        for record in self.left.values():
            self._alike.setdefault(numbers(record), []).append(record)

    def alike(self, numbers: object) -> list[Record]:
        """Return the records that are left and have the same numbers: results first, then in order."""
        found = [record for record in self._alike.get(numbers, ()) if record.seq in self.left]
        return sorted(found, key=lambda record: (not record.ok, record.seq))

    def place(self, record: Record) -> str:
        """Return a record's place."""
        return self._places[record.seq]

    def take(self, record: Record) -> None:
        """A call has a record now."""
        if self.left.pop(record.seq, None) is None or not self.sorted:
            return
        at = self._places[record.seq]
        self.places[at] -= 1
        if not self.places[at]:
            del self.places[at]


@dataclass(slots=True)
class Index:
    """Records by capability and digest. Most are equal to no other, and cost no more than a place in a table here."""

    claimed: Mapping[int, object]
    _by_digest: dict[Digest, Record | list[Record]] = field(default_factory=dict)
    _equals: dict[EqualKey, Equals] = field(default_factory=dict)

    def add(self, record: Record) -> None:
        """Put a record in."""
        there = self._by_digest.setdefault(record.digest, record)
        if there is record:
            return
        if isinstance(there, Record):
            self._by_digest[record.digest] = there = [there]
        there.append(record)

    def get(self, call: EqualKey) -> Equals | None:
        """Return the records that are equal to a call, None if there is none."""
        there = self._by_digest.get(call[1])
        if there is None or (isinstance(there, Record) and there.capability != call[0]):
            return None
        found = self._equals.get(call)
        if found is not None:
            return found
        found = Equals()
        for record in (there,) if isinstance(there, Record) else there:
            if record.capability == call[0]:
                found.add(record, left=record.seq not in self.claimed)
        if not found.every:
            return None
        if len(found.every) > 1:
            self._equals[call] = found
        return found

    def take(self, record: Record) -> None:
        """A call has a record now."""
        found = self._equals.get(record.call)
        if found is not None:
            found.take(record)
