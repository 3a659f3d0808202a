"""A store in memory: the `Store` port without a disk, for tests and for trying things out.

It keeps entries as the same canonical text as the real one, so that what was appended and what is read are never the
same object, and it passes the same suite.
"""

from __future__ import annotations

import os
import threading
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

from addendum.canon import Digest
from addendum.errors import StoreUnavailable
from addendum.ports import LEDGER, Beside, Clock, Lease, RunHeader
from addendum.records.chain import START
from addendum.records.stored import Entry, Stored
from addendum.store import leases, process
from addendum.store.entries import (
    Prepared,
    check_blob,
    check_blobs,
    check_header,
    moved,
    prepare,
    seal,
    taken,
    unknown,
    unseal,
)
from addendum.store.leases import Held, Process

_WHERE = "in memory"


class _Row(NamedTuple):
    seq: int
    kind: str
    chain: Digest
    text: str


@dataclass(slots=True)
class _Run:
    header: RunHeader
    entries: list[_Row] = field(default_factory=list)
    lease: Held | None = None

    def head(self) -> tuple[int, Digest]:
        return (self.entries[-1].seq, self.entries[-1].chain) if self.entries else (0, START)

    def add(self, prepared: list[Prepared]) -> list[Stored]:
        sealed = seal(prepared, *self.head())
        for entry, each in zip(sealed, prepared, strict=True):
            self.entries.append(_Row(entry.seq, entry.kind, entry.chain, each.text))
        return sealed


@dataclass(slots=True)
class _Shared:
    runs: dict[str, _Run] = field(default_factory=dict)
    blobs: dict[Digest, bytes] = field(default_factory=dict)
    lock: threading.RLock = field(default_factory=threading.RLock)


class MemoryStore:
    """The `Store` port in memory. Each object plays a process of its own; `another()` opens the same data once more.

    >>> store = MemoryStore()
    >>> store.create(RunHeader("r-1", "hello", "2026-01-01T00:00:00Z"))
    >>> store.append("r-1", [Entry("note", {"text": "hi"})])[0].seq
    1
    """

    def __init__(self, *, clock: Clock | None = None) -> None:
        self._clock = clock
        self._data: _Shared | None = _Shared()
        identity = f"memory-{os.urandom(8).hex()}"
        self._here = Process(machine=identity, boot="memory", host=process.current().host, pid=os.getpid(), started="")

    def another(self, *, clock: Clock | None = None) -> MemoryStore:
        """Return a store over the same data, as another process would have it."""
        other = MemoryStore(clock=clock or self._clock)
        other._data = self._shared()
        return other

    def create(self, header: RunHeader) -> None:
        check_header(header)
        shared = self._shared()
        with shared.lock:
            if header.run in shared.runs:
                raise taken(header.run, _WHERE)
            shared.runs[header.run] = _Run(header)

    def begin(
        self,
        header: RunHeader,
        entries: Sequence[Entry],
        *,
        blobs: Mapping[Digest, bytes] | None = None,
        beside: Beside | None = None,
    ) -> tuple[Lease, list[Stored]]:
        run, prepared, shared = header.run, prepare(entries), self._shared()
        check_blobs(blobs or {})
        with shared.lock:
            self.create(header)
            try:
                lease = self.acquire(run)
                return lease, self._append(run, prepared, blobs or {}, lease, beside)
            except BaseException:
                del shared.runs[run]
                raise

    def header(self, run: str) -> RunHeader:
        return self._run(run).header

    def runs(self) -> list[RunHeader]:
        shared = self._shared()
        with shared.lock:
            return [each.header for each in shared.runs.values() if not each.header.run.startswith(LEDGER)]

    def acquire(self, run: str) -> Lease:
        lease = Lease(run, os.urandom(16).hex())
        with self._shared().lock:
            kept, now = self._run(run), process.now(self._clock)
            held = kept.lease
            if held is not None and not leases.ended(held, self._here, now, gone=False):
                if leases.idle(held, self._here, now) < 0:  # see leases: a clock was set back
                    kept.lease = Held(held.token, held.holder, held.since, now)
                raise leases.busy(run, held)
            kept.lease = Held(lease.token, self._here, now.wall, now)
        return lease

    def driven(self, run: str) -> bool:
        held = self._run(run).lease
        return held is not None and not leases.ended(held, self._here, process.now(self._clock), gone=False)

    def renew(self, lease: Lease) -> None:
        with self._shared().lock:
            kept = self._run(lease.run)
            held = kept.lease
            if held is None or held.token != lease.token:
                raise leases.lost(lease.run, held)
            kept.lease = Held(held.token, held.holder, held.since, process.now(self._clock))

    def release(self, lease: Lease) -> None:
        shared = self._shared()
        with shared.lock:
            kept = shared.runs.get(lease.run)
            if kept is not None and kept.lease is not None and kept.lease.token == lease.token:
                kept.lease = None

    def append(
        self,
        run: str,
        entries: Sequence[Entry],
        *,
        blobs: Mapping[Digest, bytes] | None = None,
        lease: Lease | None = None,
        beside: Beside | None = None,
        last: bool = False,
    ) -> list[Stored]:
        prepared, shared = prepare(entries), self._shared()
        check_blobs(blobs or {})
        with shared.lock:
            added = self._append(run, prepared, blobs or {}, lease, beside)
            if lease is not None and last:
                self._run(run).lease = None
        return added

    def _append(
        self,
        run: str,
        prepared: list[Prepared],
        blobs: Mapping[Digest, bytes],
        lease: Lease | None,
        beside: Beside | None,
    ) -> list[Stored]:
        kept, shared = self._run(run), self._shared()
        other = prepare(beside.entries) if beside is not None else []
        token = kept.lease.token if kept.lease else None
        if lease is not None and (lease.run != run or lease.token != token):
            raise leases.lost(run, kept.lease)
        if beside is not None and beside.own not in (None, len(kept.entries)):
            raise moved(run, _WHERE)
        if beside is not None and (other or beside.at is not None):
            ledger = self._run(beside.run)
            if beside.at is not None and beside.at != len(ledger.entries):
                raise moved(beside.run, _WHERE)
            ledger.add(other)
        added = kept.add(prepared)
        for digest, data in blobs.items():
            shared.blobs.setdefault(digest, bytes(data))
        return added

    def entries(self, run: str, *, after: int = 0, upto: int | None = None) -> Iterator[Stored]:
        """As the port says; without `upto`, what is appended after this call isn't yielded. Raises `NotFound` for an
        unknown run."""
        kept = self._run(run)
        end = len(kept.entries) if upto is None else upto

        def stretch(seq: int) -> Iterator[Stored]:
            while seq < min(end, len(kept.entries)):
                self._shared()
                yield unseal(kept.entries[seq], run, _WHERE)
                seq += 1

        return stretch(max(after, 0))

    def head(self, run: str) -> tuple[int, Digest]:
        kept = self._run(run)
        with self._shared().lock:
            return kept.head()

    def blob(self, digest: Digest) -> bytes:
        return check_blob(self._shared().blobs.get(digest), digest, _WHERE)

    def close(self) -> None:
        """Give back the leases that were taken with this object; a closed store raises `StoreUnavailable`."""
        if self._data is None:
            return
        with self._data.lock:
            for kept in self._data.runs.values():
                if kept.lease is not None and kept.lease.holder == self._here:
                    kept.lease = None
        self._data = None

    def _shared(self) -> _Shared:
        if self._here.pid != os.getpid():
            raise StoreUnavailable("This store is in the memory of another process.", hint="Name a path for a store.")
        if self._data is None:
            raise StoreUnavailable("The store in memory is closed.", hint="Open it again.")
        return self._data

    def _run(self, run: str) -> _Run:
        kept = self._shared().runs.get(run)
        if kept is None:
            raise unknown(run, _WHERE)
        return kept
