"""What travels ahead of a script: settled calls of the main strand, in order, so that a replay need not cross the
sandbox's boundary once a call. Every one that the script uses is verified before anything is sent."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import NamedTuple, Protocol

from addendum.identity import on_main_strand
from addendum.ports import Known
from addendum.records.history import Record
from addendum.records.outcome import Outcome

CHUNK = 256
"""Calls in a chunk at most. The first one has `FIRST`, each other twice as many as the one before: the sooner the
script computes, the sooner the host can do something else meanwhile."""
FIRST = 64
CHUNK_BYTES = 1024 * 1024


class Results(Protocol):
    """Where the results of records are read: a run's journal, or what a plan has of it."""

    def spend(self, record: Record) -> tuple[Outcome, int]:
        """Return a record's outcome, which is handed over now, and how many bytes of JSON its result is."""

    def size(self, record: Record) -> int:
        """Return how many bytes of JSON a record's result is, 0 for a failure."""


class Chunk(NamedTuple):
    """Known calls: those of the records from `start` to before `end`."""

    start: int
    end: int
    calls: tuple[Known, ...]


@dataclass(slots=True)
class Feed:
    """Hands out known calls, a chunk at a time."""

    results: Results
    records: list[Record]
    next: int = 0
    _most: int = FIRST
    _fetched: Chunk | None = None

    @property
    def next_record(self) -> Record | None:
        """The first record that didn't travel yet, once anything did; None if there is none."""
        return self.records[self.next] if 0 < self.next < len(self.records) else None

    def chunk(self) -> tuple[Known, ...]:
        """Return the next known calls; empty at the end."""
        fetched, self._fetched = self._fetched, None
        if fetched is None or fetched.start != self.next:
            fetched = self._put_together(self.next)
        self.next = fetched.end
        return fetched.calls

    def fetch(self) -> None:
        """Put the chunk together now, when there is time, that travels with the answer from `next_record`."""
        if self._fetched is None:
            self._fetched = self._put_together(self.next + 1)

    def _put_together(self, start: int) -> Chunk:
        found: list[Known] = []
        room, at, most = CHUNK_BYTES, start, min(self._most, CHUNK)
        self._most = 2 * most
        while at < len(self.records) and len(found) < most and room > 0:
            record = self.records[at]
            if found and self.results.size(record) > room:
                break
            at += 1
            assert record.identity is not None
            outcome, size = self.results.spend(record)
            room -= size
            found.append(Known(record.identity, outcome))
        return Chunk(start, at, tuple(found))

    def after(self, seq: int) -> tuple[Known, ...]:
        """Return the next chunk once the script has used up what it was given before `seq`, without what it has by
        now."""
        if not self.next or seq < self.records[self.next - 1].seq:
            return ()
        while self.next < len(self.records) and self.records[self.next].seq <= seq:
            self.next += 1
        return self.chunk()


def main_strand(records: Iterable[Record]) -> list[Record]:
    """Return the records of the main strand, in order: on it nothing else can run, so an answer may come at once."""
    found = [record for record in records if record.identity is not None and on_main_strand(record.identity)]
    found.sort(key=lambda record: record.seq)
    return found
