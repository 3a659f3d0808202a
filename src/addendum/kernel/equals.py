"""Records that are equal to each other, in reach by what tells them apart.

Thousands of equal records are a best-of-many; a fan-out of them that moved is matched one by one, so that what a call
is after has to be found without looking at all of them.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field

from addendum.records.history import Record


@dataclass(slots=True)
class Equals:
    """The records of one capability and digest; `left` are those that no call has, in order."""

    every: list[Record] = field(default_factory=list)
    left: dict[int, Record] = field(default_factory=dict)
    places: Counter[str] = field(default_factory=Counter)
    """How many of those that are left stand at each place, once they are sorted."""
    sorted: bool = False
    _places: dict[int, str] = field(default_factory=dict)
    _alike: dict[object, list[Record]] = field(default_factory=dict)

    def add(self, record: Record) -> None:
        """Put a record in."""
        self.every.append(record)
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


def index(records: Iterable[Record], claimed: Mapping[int, object]) -> dict[tuple[str, str], Equals]:
    """Sort records by capability and digest."""
    found: dict[tuple[str, str], Equals] = {}
    for record in records:
        equals = found.setdefault(record.call, Equals())
        if record.seq in claimed:
            equals.every.append(record)
        else:
            equals.add(record)
    return found
