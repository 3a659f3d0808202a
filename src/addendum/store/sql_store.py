"""The `Store` port over any SQL database: what is done, in named statements; the seam `Database` says how."""

from __future__ import annotations

import os
from collections import OrderedDict
from collections.abc import Callable, Iterator, Mapping, Sequence
from itertools import repeat
from typing import Any, Final, TypeAlias

from addendum.canon import Digest
from addendum.errors import StoreError
from addendum.ports import Beside, Clock, Lease, RunHeader
from addendum.records.chain import START
from addendum.records.stored import Entry, Stored
from addendum.store import leases, process
from addendum.store.database import Database, Row, Values
from addendum.store.entries import (
    Prepared,
    check_blob,
    check_blobs,
    check_header,
    damaged,
    moved,
    prepare,
    seal,
    taken,
    unknown,
    unseal_all,
)
from addendum.store.leases import Held, Process, Stamp

Head: TypeAlias = "tuple[int, Digest]"
"""Where a journal ends: the last entry's seq and chain."""
PAGE: Final = 200_000
"""About how many characters of entries are read at a time. Less costs a query more often, more costs memory that isn't
in the processor's cache when it is read once more."""
HEADS: Final = 64
"""Of how many journals it is remembered where they ended."""


class SqlStore:
    """The `Store` port (see there). Closing gives back the leases that were taken with this object."""

    def __init__(self, database: Database, *, clock: Clock | None = None) -> None:
        self._database = database
        self._clock = clock
        self._leases: set[Lease] = set()
        self._pid = os.getpid()
        """Whose leases these are: a fork's child drives none of its parent's runs."""
        self._heads: OrderedDict[str, Head] = OrderedDict()
        """Where the journals ended that were written to last, `HEADS` of them. It may be wrong by now, or was never
        committed: an entry that is sealed after such a head is inserted only if the journal ends with its chain. It is
        written inside the transaction, which other threads wait for, but after a statement that is a transaction by
        itself: of two threads, the one that appended first may write last, and the next append asks for the end."""
        self._returned: set[str] = set()
        """Tokens that were given back while the database didn't answer: whoever asks here may have the run."""

    def create(self, header: RunHeader) -> None:
        check_header(header)
        with self._database.transaction():
            self._create(header)

    def begin(
        self,
        header: RunHeader,
        entries: Sequence[Entry],
        *,
        blobs: Mapping[Digest, bytes] | None = None,
        beside: Beside | None = None,
    ) -> tuple[Lease, list[Stored]]:
        check_header(header)
        run, new, other = header.run, prepare(entries), _beside(beside)
        check_blobs(blobs or {})
        lease = Lease(run, os.urandom(16).hex())
        try:
            with self._database.transaction():
                self._create(header)
                self._database.write("take_lease", _lease_row(lease, process.current(), process.now(self._clock)))
                added = self._put(run, new, beside.own if beside is not None else None, lease)
                self._put_rest(blobs, beside, other)
        except (StoreError, KeyboardInterrupt):
            self._returned.add(lease.token)  # if it was committed after all, nobody drives it
            raise
        self._leases.add(lease)
        return lease, added

    def _create(self, header: RunHeader) -> None:
        values = {"run": header.run, "name": header.name, "created_at": header.created_at}
        if not self._database.write("add_run", values):
            raise taken(header.run, self._database.where)

    def header(self, run: str) -> RunHeader:
        rows = self._database.read("run", {"run": run})
        if not rows:
            raise unknown(run, self._database.where)
        return RunHeader(*rows[0])

    def runs(self) -> list[RunHeader]:
        return [RunHeader(*row) for row in self._database.read("runs", {})]

    # --- leases ---------------------------------------------------------------------------------------------------

    def acquire(self, run: str) -> Lease:
        here, lease = process.current(), Lease(run, os.urandom(16).hex())
        with self._database.transaction():
            now = process.now(self._clock)
            held = self._held(run)
            free = held is None or self._free(held, here, now)
            if free:
                self._database.write("take_lease", _lease_row(lease, here, now))
            elif held is not None and leases.idle(held, here, now) < 0:  # see leases: a clock was set back
                self._database.write("renew_lease", _stamp_row(run, held.token, now))
        if held is not None and not free:
            raise leases.busy(run, held)
        self._leases.add(lease)
        return lease

    def renew(self, lease: Lease) -> None:
        with self._database.transaction():
            stamp = _stamp_row(lease.run, lease.token, process.now(self._clock))
            if not self._database.write("renew_lease", stamp):
                raise leases.lost(lease.run, self._held(lease.run))

    def release(self, lease: Lease) -> None:
        self._returned.add(lease.token)
        with self._database.transaction():
            self._drop(lease)
        self._returned.discard(lease.token)
        self._leases.discard(lease)

    def _drop(self, lease: Lease) -> None:
        self._database.write("drop_lease", {"run": lease.run, "token": lease.token})

    def driven(self, run: str) -> bool:
        held = self._held(run)
        return held is not None and not self._free(held, process.current(), process.now(self._clock))

    def _free(self, held: Held, here: Process, now: Stamp) -> bool:
        return held.token in self._returned or leases.ended(held, here, now, gone=process.gone(held.holder, here))

    def _held(self, run: str) -> Held | None:
        rows = self._database.read("lease", {"run": run})
        if not rows:
            raise unknown(run, self._database.where)
        token, machine, boot, host, pid, started, since, renewed, ticks = rows[0]
        if token is None:
            return None
        return Held(token, Process(machine, boot, host, pid, started), since, Stamp(renewed, ticks))

    # --- journal --------------------------------------------------------------------------------------------------

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
        new, other = prepare(entries), _beside(beside)
        own, at = (beside.own, beside.at) if beside is not None else (None, None)
        if len(new) == 1 and len(other) < 2 and not blobs and not last:
            # What every call writes, and where it has accounts, there: one statement, which is its own transaction.
            if beside is not None and other:
                added = self._follow_both(run, new, lease, beside, other)
            elif at is None:
                added = self._follow(run, new, own, lease, self._database.write_alone)
            else:
                added = []
            if added:
                return added
        check_blobs(blobs or {})
        with self._database.transaction():
            added = self._put(run, new, own, lease)
            self._put_rest(blobs, beside, other)
            if lease is not None and last:
                self._drop(lease)
        if lease is not None and last:
            self._leases.discard(lease)
        return added

    def _put_rest(self, blobs: Mapping[Digest, bytes] | None, beside: Beside | None, other: list[Prepared]) -> None:
        """Put what goes in with entries: blobs, and what is beside them."""
        if blobs:
            self._database.write_all("add_blob", ({"digest": name, "data": data} for name, data in blobs.items()))
        if beside is not None and (other or beside.at is not None):
            self._put(beside.run, other, beside.at)

    def _put(self, run: str, new: list[Prepared], at: int | None, lease: Lease | None = None) -> list[Stored]:
        """Put entries at the end of a journal, which is at `at` if that is given, as the driver with this lease, inside
        a transaction. Raises `NotFound`, `LeaseLost`, `JournalMoved`."""
        added = self._follow(run, new, at, lease, self._database.write)
        if not added:
            added = seal(new, *self._end(run, at, lease))
            self._add(run, added, new)
            self._remember(run, added)
        return added

    def _known(self, run: str, at: int | None) -> Head | None:
        """Return where this object remembers the end of a journal; None if it doesn't, or if that isn't `at`."""
        known = self._heads.get(run)
        return known if known is not None and at in (None, known[0]) else None

    def _follow(
        self, run: str, new: list[Prepared], at: int | None, lease: Lease | None, write: Callable[[str, Values], int]
    ) -> list[Stored]:
        """Put entries where this object remembers the end of a journal, without asking for it first: that it is still
        the end, and that the lease is still the run's, are conditions of the insert. Return none if they don't hold."""
        known = self._known(run, at)
        if known is None or not new or (lease is not None and lease.run != run):
            return []
        added = seal(new, *known)
        row = _entry_row(run, added[0], new[0])
        row["before"], row["token"] = known[1], lease.token if lease is not None else None
        if not write("follow", row):
            return []
        self._add(run, added[1:], new[1:])
        self._remember(run, added)
        return added

    def _follow_both(
        self, run: str, new: list[Prepared], lease: Lease | None, beside: Beside, other: list[Prepared]
    ) -> list[Stored]:
        """What `_follow` does, for an entry in each of two journals."""
        known, theirs = self._known(run, beside.own), self._known(beside.run, beside.at)
        if known is None or theirs is None or beside.run == run or (lease is not None and lease.run != run):
            return []
        added, others = seal(new, *known), seal(other, *theirs)
        (seq, kind, _, link), (their_seq, their_kind, _, their_link) = added[0], others[0]
        row: dict[str, str | int | None] = {
            "run": run,
            "seq": seq,
            "kind": kind,
            "chain": link,
            "body": new[0].text,
            "before": known[1],
            "token": lease.token if lease is not None else None,
            "their_run": beside.run,
            "their_seq": their_seq,
            "their_kind": their_kind,
            "their_chain": their_link,
            "their_body": other[0].text,
            "their_before": theirs[1],
        }
        if not self._database.write_alone("follow_both", row):
            return []
        self._remember(run, added)
        self._remember(beside.run, others)
        return added

    def _end(self, run: str, at: int | None, lease: Lease | None) -> Head:
        """Return where a journal ends, if that is at `at` and the lease is the run's."""
        rows = self._database.read("position", {"run": run})
        if not rows:
            raise unknown(run, self._database.where)
        token, seq, head = rows[0]
        if lease is not None and (lease.run != run or lease.token != token):
            raise leases.lost(run, self._held(run))
        if at not in (None, seq or 0):
            raise moved(run, self._database.where)
        return seq or 0, head or START

    def _add(self, run: str, added: list[Stored], new: list[Prepared]) -> None:
        """Put entries at the end of a journal."""
        if added:
            self._database.write_all("add_entry", map(_entry_row, repeat(run), added, new))

    def _remember(self, run: str, added: list[Stored]) -> None:
        """Remember where a journal ends to which these entries were added."""
        if added:
            self._heads.pop(run, None)
            self._heads[run] = (added[-1].seq, added[-1].chain)
            if len(self._heads) > HEADS:
                self._heads.popitem(last=False)

    def entries(self, run: str, *, after: int = 0, upto: int | None = None) -> Iterator[Stored]:
        """As the port says; without `upto`, what is appended after this call isn't yielded. Raises `NotFound` for an
        unknown run, and `StoreCorrupt` where an entry is missing or its body can't be read."""
        after = max(after, 0)
        if upto is None:
            upto = self.head(run)[0]
        rows = self._page(run, after, upto)
        if not rows:
            self.header(run)
        return self._entries(run, after, upto, rows)

    def _entries(self, run: str, after: int, upto: int, rows: list[Row]) -> Iterator[Stored]:
        where = self._database.where
        while rows:
            yield from unseal_all(rows, after, run, where)
            after += len(rows)
            rows = self._page(run, after, upto)

    def _page(self, run: str, after: int, upto: int) -> list[Row]:
        if after >= upto:
            return []
        rows = self._database.read("entries", {"run": run, "after": after, "upto": upto}, budget=PAGE)
        if not rows and self.head(run)[0] > after:
            raise damaged(run, self._database.where, f"entry {after + 1} is missing")
        return rows

    def head(self, run: str) -> tuple[int, Digest]:
        rows = self._database.read("head", {"run": run})
        if rows:
            return rows[0][0], rows[0][1]
        self.header(run)
        return 0, START

    def blob(self, digest: Digest) -> bytes:
        rows = self._database.read("blob", {"digest": digest})
        return check_blob(rows[0][0] if rows else None, digest, self._database.where)

    def close(self) -> None:
        for lease in tuple(self._leases) if self._pid == os.getpid() else ():
            try:
                self.release(lease)
            except StoreError:
                pass  # a store that doesn't answer: the lease ends by itself
        self._leases.clear()
        self._database.close()


def _beside(beside: Beside | None) -> list[Prepared]:
    """Return another journal's entries as they will be kept."""
    return prepare(beside.entries, back=False) if beside is not None else []


def _entry_row(run: str, entry: Stored, prepared: Prepared) -> dict[str, Any]:
    seq, kind, _, link = entry
    return {"run": run, "seq": seq, "kind": kind, "chain": link, "body": prepared.text}


def _lease_row(lease: Lease, holder: Process, now: Stamp) -> dict[str, Any]:
    return {
        **_stamp_row(lease.run, lease.token, now),
        "machine": holder.machine,
        "boot": holder.boot,
        "host": holder.host,
        "pid": holder.pid,
        "started": holder.started,
        "since": now.wall,
    }


def _stamp_row(run: str, token: str, now: Stamp) -> dict[str, Any]:
    return {"run": run, "token": token, "renewed": now.wall, "ticks": now.ticks}
