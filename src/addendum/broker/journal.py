"""A run's journal as its driver has it: what is appended is folded in at once, and outcomes are read when needed."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from addendum import canon
from addendum.broker.principal import ENDS, SEVERAL, Ledger, apart, settling
from addendum.canon import Digest, Json
from addendum.errors import JournalMoved, StoreCorrupt
from addendum.ports import Beside, Lease, RunHeader, Store
from addendum.records import entries
from addendum.records.entries import INLINE, Ref
from addendum.records.history import History, Record
from addendum.records.outcome import Outcome, Success
from addendum.records.stored import Entry, Stored

REMEMBERED = 32 * 1024 * 1024
"""Bytes of inline results that are kept from the first reading; the others are read again when they are needed."""
AROUND = 300
"""Bytes that a remembered reference takes up, without its value's text."""
WINDOW = 512
DAMAGED = "Keep the store as it is for a closer look, and restore it from a backup."


class Journal:
    """One run's journal, read once and grown by appending. Not thread-safe."""

    def __init__(self, store: Store, run: str, lease: Lease | None = None) -> None:
        self.store = store
        self.run = run
        self.lease = lease
        self.history = History()
        self.ledger: Ledger | None = None
        """The accounts that this run's calls are held in as well, while they are open here."""
        self._since: int | None = None
        self._room = REMEMBERED
        self._results: dict[int, Mapping[str, Any] | None] = {}
        """References to results as they stand in their entries."""
        self._failures: dict[int, Outcome] = {}

    @classmethod
    def begun(
        cls,
        store: Store,
        header: RunHeader,
        new: Sequence[Entry],
        *,
        blobs: Mapping[Digest, bytes] | None = None,
        beside: Beside | None = None,
    ) -> Journal:
        """Begin a run with its first entries, and return its journal as whoever drives it has it."""
        lease, stored = store.begin(header, new, blobs=blobs, beside=beside)
        journal = cls(store, header.run, lease)
        for entry in stored:
            journal._take(entry)
        journal._since = journal.history.seq
        return journal

    def read(self) -> History:
        """Fold in what the store has and this journal hasn't; return the history."""
        take = self._take
        for stored in self.store.entries(self.run, after=self.history.seq):
            take(stored)
        if self._since is None:
            self._since = self.history.seq
        return self.history

    @property
    def cancelled(self) -> bool:
        """Whether an operator asked for the end of the run since this journal was read first."""
        return self._since is not None and self.history.cancelled > self._since

    def append(
        self,
        *new: Entry,
        blobs: Mapping[Digest, bytes] | None = None,
        beside: Beside | None = None,
        last: bool = False,
    ) -> list[Stored]:
        """Append entries durably and fold them in, with whatever an operator put before them. With the `last` ones of a
        driver its lease is given back.

        What ends an attempt that is held in a principal's accounts settles it there in the same transaction. If those
        of several principals end, which can only be after another grant, there is a transaction for each, in order.
        """
        if beside is not None and beside.run == SEVERAL:
            ended = self.append(*(entry for entry in new if entry.kind in ENDS))
            rest = [entry for entry in new if entry.kind not in ENDS]
            return ended + self._append(rest, blobs, Beside(self.run, own=self.history.seq), last)
        parts: Sequence[Sequence[Entry]] = [new] if beside is not None or len(new) < 2 else apart(self.history, new)
        stored = self._append(parts[0], blobs, beside, last and len(parts) == 1)
        for part in parts[1:]:
            stored += self._append(part, None, None, last and part is parts[-1])
        return stored

    def _append(
        self, new: Sequence[Entry], blobs: Mapping[Digest, bytes] | None, beside: Beside | None, last: bool
    ) -> list[Stored]:
        """Append entries in one transaction. The blobs of all parts go with the first."""
        settled: Ledger | None = None
        if beside is None:
            beside = settling(self.run, self.history, new, self.ledger)
            settled = self.ledger if beside is not None and beside.at is not None else None
        try:
            stored = self.store.append(self.run, new, blobs=blobs, lease=self.lease, beside=beside, last=last)
        except JournalMoved:
            if beside is None or settled is None:
                raise
            # Somebody else wrote there meanwhile: what this settles is read with it later.
            settled, beside = None, Beside(beside.run, beside.entries)
            stored = self.store.append(self.run, new, blobs=blobs, lease=self.lease, beside=beside, last=last)
        if last:
            self.lease = None
        if beside is not None and settled is not None:
            settled.wrote(beside)
        if stored and stored[0].seq != self.history.seq + 1:
            for other in self.store.entries(self.run, after=self.history.seq, upto=stored[0].seq - 1):
                self._take(other)
        for entry in stored:
            self._take(entry)
        return stored

    def news(self) -> bool:
        """Say whether an operator put something into the journal since it was read last, and fold it in."""
        if self.store.head(self.run)[0] == self.history.seq:
            return False
        self.read()
        return True

    def outcome(self, record: Record) -> Outcome:
        """Return a record's outcome, from memory or from the store."""
        seq = record.seq
        self._need(seq)
        failed = self._failures.get(seq)
        return failed if failed is not None else self._success(self._results[seq])

    def spend(self, record: Record) -> tuple[Outcome, int]:
        """Return a record's outcome, and how many bytes of JSON its result is (0 for a failure); and forget it: it is
        handed over."""
        seq = record.seq
        self._need(seq)
        failed = self._failures.pop(seq, None)
        if failed is not None:
            return failed, 0
        result = self._results.pop(seq)
        if result is None:
            return Success(None), 0
        self._room += _weight(result)
        size: int = result["size"]
        return self._success(result), size

    def size(self, record: Record) -> int:
        """Return how many bytes of JSON a record's result is, 0 for a failure."""
        self._need(record.seq)
        result = self._results.get(record.seq)
        size: int = result["size"] if result is not None else 0
        return size

    def value(self, ref: Ref | None) -> Json:
        """Return the value that a reference stands for, a copy of its own each time."""
        if ref is None:
            return None
        if ref.blob is None:
            return ref.value
        data = self.store.blob(ref.blob)
        try:
            return canon.loads(data)
        except ValueError as error:
            raise StoreCorrupt(
                f"The blob {ref.blob[:12]} of run {self.run} is no JSON: {error}.", hint=DAMAGED
            ) from None

    def _success(self, result: Mapping[str, Any] | None) -> Success:
        if result is None:
            return Success(None)
        return Success(canon.doubles(result["value"]) if "value" in result else self.value(entries.ref(result)))

    def _take(self, stored: Stored) -> None:
        self.history.take(stored)
        if stored.kind == "record" and self._room > 0:
            self._remember(stored)

    def _remember(self, stored: Stored) -> None:
        seq, body = stored.seq, stored.body
        if "failure" in body:
            failed = entries.failure(body, body["identity"])
            assert failed is not None
            self._failures[seq] = failed
            return
        result = body.get("result")
        if result is not None and seq not in self._results:
            self._room -= _weight(result)
        self._results[seq] = result

    def _need(self, seq: int) -> None:
        if seq in self._results or seq in self._failures:
            return
        for stored in self.store.entries(self.run, after=seq - 1, upto=seq + WINDOW):
            if stored.kind == "record":
                self._remember(stored)
        if seq not in self._results and seq not in self._failures:
            raise StoreCorrupt(f"Entry {seq} of run {self.run} is no record any more.", hint=DAMAGED)


@dataclass(frozen=True, slots=True)
class Kept:
    """A journal's results for who only looks: none is forgotten, as a drive may hand it over next. `made_up` are
    results without a record, by the sequence number that stands for one."""

    journal: Journal
    made_up: Mapping[int, Json]

    def spend(self, record: Record) -> tuple[Outcome, int]:
        """Return a record's outcome, and how many bytes of JSON its result is."""
        if record.seq in self.made_up:
            return Success(self.made_up[record.seq]), 0
        return self.journal.outcome(record), self.journal.size(record)

    def size(self, record: Record) -> int:
        """Return how many bytes of JSON a record's result is, 0 for a failure."""
        return 0 if record.seq in self.made_up else self.journal.size(record)


def _weight(result: Mapping[str, Any]) -> int:
    """Return about how many bytes a remembered reference takes up."""
    size: int = result["size"]
    return AROUND if "blob" in result else AROUND + size


def stow(data: bytes, value: Json, blobs: dict[Digest, bytes]) -> Ref:
    """Return a reference to a JSON value with its canonical bytes: inline if small, else as a blob in `blobs`."""
    if len(data) <= INLINE:
        return Ref(len(data), value, None, data)
    digest = canon.sha256(data)
    blobs[digest] = data
    return Ref(len(data), None, digest)
