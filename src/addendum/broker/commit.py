"""Committing outcomes: result, usage and an alarm in one transaction; what the store didn't take is not forgotten."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, TypeAlias

from addendum.broker.journal import Journal
from addendum.canon import Digest
from addendum.errors import StoreError
from addendum.records.entries import Settled
from addendum.records.history import Record
from addendum.records.outcome import Success
from addendum.records.stored import Entry, Stored

Notice: TypeAlias = "Callable[[dict[str, Any]], None]"
"""Whoever watches a drive is told its events."""
Done: TypeAlias = "tuple[Settled, dict[Digest, bytes]]"
"""An outcome, with the blob that it may need."""


@dataclass(slots=True)
class Tally:
    """What a drive did: dispatches, successes, new versions, ledger findings."""

    dispatched: int = 0
    executed: int = 0
    superseded: int = 0
    repeats: int = 0
    cost: int = 0


@dataclass(slots=True)
class Commits:
    """Writes outcomes to a run's journal. `superseded` are the seqs of records that got a new version; `notice` is None
    if nobody watches."""

    journal: Journal
    notice: Notice | None
    tally: Tally = field(default_factory=Tally)
    superseded: set[int] = field(default_factory=set)
    unwritten: list[Done] = field(default_factory=list)
    """Outcomes that the store didn't take."""

    def commit(self, done: Sequence[Done], alarms: Sequence[Entry] = ()) -> list[Record]:
        """Write outcomes in one transaction, and return their records. `alarms` say that a provider reported more than
        it declares."""
        if not done:
            return []
        blobs: dict[Digest, bytes] = {}
        new: list[Entry] = []
        for settled, some in done:
            blobs.update(some)
            new.append(settled.entry())
        stored = self.write([*new, *alarms], blobs, done)
        for alarm in alarms:
            self.tell({"event": "frozen", **alarm.body})
        known, records = self.journal.history.records, []
        for entry in stored:
            if entry.kind == "record":
                record = known[entry.seq]
                records.append(record)
                if not record.is_read:
                    self._count(record, entry)
        return records

    def tell(self, event: dict[str, Any]) -> None:
        """Tell whoever watches. What every call is told of with looks first whether anybody does: making the event
        takes longer than this."""
        if self.notice is not None:
            self.notice(event)

    def write(self, new: Sequence[Entry], blobs: Mapping[Digest, bytes], done: Sequence[Done] = ()) -> list[Stored]:
        """Append entries. Raises `StoreError`; the outcomes `done` that they hold are then kept here."""
        try:
            return self.journal.append(*new, blobs=blobs)
        except StoreError:
            self.unwritten.extend(done)
            raise

    def save(self) -> None:
        """Try once more to keep what was paid for and couldn't be made durable. Raises `StoreError`."""
        if not self.unwritten:
            return
        self.journal.read()
        kept = [(settled, some) for settled, some in self.unwritten if settled.attempt in self.journal.history.attempts]
        self.unwritten.clear()
        self.commit(kept)

    @property
    def unsaved(self) -> list[dict[str, Any]]:
        """What providers answered and no record holds, so that a person can write it back."""
        return [
            {
                "identity": settled.identity,
                "capability": settled.capability,
                "attempt": settled.attempt,
                **(
                    {"result": settled.outcome.value}
                    if isinstance(settled.outcome, Success)
                    else {"failure": {"code": settled.outcome.code, "message": settled.outcome.message}}
                ),
            }
            for settled, _ in self.unwritten
            if settled.attempt
        ]

    def _count(self, record: Record, entry: Stored) -> None:
        tally, replaced = self.tally, entry.body.get("supersedes")
        tally.executed += record.ok
        tally.cost += record.cost
        if replaced is not None:
            tally.superseded += 1
            self.superseded.add(replaced)
        if self.notice is not None:
            self.tell(
                {
                    "event": "settled",
                    "identity": record.origin,
                    "capability": record.capability,
                    "seq": record.seq,
                    "ok": record.ok,
                    "cost": record.cost,
                    "tokens": entry.body.get("tokens", 0),
                    "failure": entry.body.get("failure"),
                }
            )
