"""Records that are equal to each other, in reach by what tells them apart.

Thousands of equal records are a best-of-many; a fan-out of them that moved is matched one by one, so that what a call
is after has to be found without looking at all of them.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from typing import TypeAlias

from addendum.canon import Digest
from addendum.identity import Identity
from addendum.records.history import Record

EqualKey: TypeAlias = "tuple[str, Digest]"
"""Capability and digest: what makes two calls equal."""
Numbers: TypeAlias = "tuple[int, int | str | None]"
"""A frame's entry and branch."""


@dataclass(slots=True)
class Way:
    """Equal records that stood at one place of one source: they differ in the numbers of their frames alone, so what is
    asked of places is asked once for all of them. `left` are those that no call has and whose identity is vacated."""

    place: str
    """In the names of the candidate."""
    left: dict[int, Record] = field(default_factory=dict)
    _numbers: list[dict[Numbers, list[int]]] = field(default_factory=list)
    """Which records have which numbers, frame by frame."""
    _branches: list[dict[int | str | None, list[int]]] = field(default_factory=list)

    @property
    def one(self) -> Record:
        """Any of those that are left: one that a call has stands elsewhere by now."""
        return next(iter(self.left.values()))

    def add(self, record: Record, parts: Identity) -> None:
        """Put a record in, of this way. Those that are left stay in order."""
        late = self.left and record.seq < next(reversed(self.left))
        self.left[record.seq] = record
        if late:
            self.left = dict(sorted(self.left.items()))
        frames = (*parts.path, parts.site)
        if not self._numbers:
            self._numbers, self._branches = [{} for _ in frames], [{} for _ in frames]
        for known, branches, frame in zip(self._numbers, self._branches, frames, strict=True):
            known.setdefault((frame.entry, frame.branch), []).append(record.seq)
            branches.setdefault(frame.branch, []).append(record.seq)

    def like(self, call: Identity) -> tuple[list[list[int]], set[int]]:
        """Return those that share a number with a call, together where no comparison tells them apart, and all of them.
        The others are alike to it: they share none.

        A frame is compared with the call's frame of its place from outside and of its place from inside.
        """
        frames = (*call.path, call.site)
        inner = len(frames) - len(self._numbers)
        shared: dict[int, int] = {}
        for at, known in enumerate(self._numbers):
            if len(known) < 2:
                continue
            for bit, other in ((1, at), (2, at + inner)):
                if 0 <= other < len(frames):
                    for seq in known.get((frames[other].entry, frames[other].branch), ()):
                        shared[seq] = shared.get(seq, 0) | bit << 2 * at
        found: dict[int, list[int]] = {}
        for seq, bits in shared.items():
            found.setdefault(bits, []).append(seq)
        return list(found.values()), set(shared)

    def near(self, branches: Iterable[int | str]) -> set[int]:
        """Return those that share the number of a branch or an iteration with some, wherever it stands. The others are
        as unlike to a call of these numbers as each other."""
        mine = set(branches)
        found: set[int] = set()
        for known in self._branches:
            for branch in mine if len(known) > 1 else ():
                found.update(known.get(branch, ()))
        return found


@dataclass(slots=True)
class Equals:
    """The records of one capability and digest; `left` are those that no call has, in order."""

    every: list[Record] = field(default_factory=list)
    left: dict[int, Record] = field(default_factory=dict)
    places: Counter[str] = field(default_factory=Counter)
    """How many of those that are left stand at each place, once they are sorted."""
    sorted: bool = False
    taken: list[Record] = field(default_factory=list)
    """Those that a call has and that nobody looked at yet (see `takers`)."""
    takers: dict[str, set[str]] = field(default_factory=dict)
    """Where the calls stand that have one, and where those records stood."""
    ways: dict[object, Way] = field(default_factory=dict)
    seen: object = None
    """What was known when the ways were looked at last."""
    _places: dict[int, str] = field(default_factory=dict)
    _alike: dict[object, list[Record]] = field(default_factory=dict)
    _on: dict[int, tuple[str | None, Way]] = field(default_factory=dict)
    """The way that a record is on, and its identity then: a new version may leave it without one."""

    def add(self, record: Record, *, left: bool) -> None:
        """Put a record in; `left`: no call has it."""
        self.every.append(record)
        if left:
            self.left[record.seq] = record
        else:
            self.taken.append(record)

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

    def walk(self, record: Record, key: object, place: Callable[[Record], str], parts: Identity) -> None:
        """Put a record that is left and vacated on its way."""
        way = self.ways.get(key)
        if way is None:
            way = self.ways[key] = Way(place(record))
        self._on[record.seq] = (record.identity, way)
        way.add(record, parts)

    def strays(self) -> list[Record]:
        """Return what is left and on no way, or on one that it left."""
        found = []
        for seq, record in self.left.items():
            on = self._on.get(seq)
            if on is not None and on[0] != record.identity:
                del on[1].left[seq], self._on[seq]
                on = None
            if on is None:
                found.append(record)
        return found

    def take(self, record: Record) -> None:
        """A call has a record now."""
        if self.left.pop(record.seq, None) is None:
            return
        self.taken.append(record)
        if (on := self._on.pop(record.seq, None)) is not None:
            del on[1].left[record.seq]
        if not self.sorted:
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
