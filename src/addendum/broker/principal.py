"""The accounts of a principal, over all its runs: a journal of their own in the store, and its fold.

A reservation is an entry of that journal, written in the same transaction as the attempt it is for, and only if the
journal is still the one that was looked at; whoever is second looks again. So the limits hold exactly over processes
and crashes, and what was granted to whom can be read afterwards like any journal.

| kind | says |
| --- | --- |
| `hold` | a call is about to be sent, with the most that it may take |
| `settle` | what became of one: what it really took |
| `revoke` | no call of this principal is sent any more, until `restore` |
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Final

from addendum.authority.book import Book, Hold
from addendum.errors import UsageError
from addendum.ports import LEDGER, Beside, RunHeader, Store
from addendum.records.history import Dispatch, History, Totals
from addendum.records.stored import Entry, Stored

REMEMBERED: Final = 200_000
"""How many dispatches of a principal are remembered for limits in a time window."""
ENDS: Final = ("record", "retry", "abandon", "drafted")
Key = tuple[str, int]
"""A run and the number of one of its attempts."""


def ledger_of(principal: str) -> str:
    """Return the name of the journal of a principal's accounts."""
    return f"{LEDGER}principal/{principal}"


class Ledger:
    """One principal's accounts as one process has them. `book` has what this process took and what it read."""

    def __init__(self, store: Store, principal: str, agents: frozenset[str] = frozenset()) -> None:
        self.store = store
        self.principal = principal
        self.name = ledger_of(principal)
        self.seq = 0
        self.revoked = False
        self.totals: dict[str, Totals] = {}
        self.recent: deque[Dispatch] = deque(maxlen=REMEMBERED)
        self.book = Book(self.totals, self.recent, agents, REMEMBERED)
        self.open: dict[Key, Hold] = {}
        self._mine: set[Key] = set()

    def prepare(self, created_at: str) -> None:
        """Make the journal if it isn't there. Raises `StoreError`."""
        try:
            self.store.create(RunHeader(self.name, self.principal, created_at))
        except UsageError:
            return  # it is there already

    def read(self) -> None:
        """Fold in what any process wrote since."""
        if self.store.head(self.name)[0] == self.seq:
            return
        for stored in self.store.entries(self.name, after=self.seq):
            self._take(stored)

    def beside(self, taken: Iterable[tuple[Key, Hold]], at: float) -> Beside:
        """Return the entries for reservations that were taken in the book; they are this process's own."""
        new = []
        for key, hold in taken:
            self._mine.add(key)
            new.append(Entry("hold", _body(key, hold, at)))
        return Beside(self.name, new, self.seq)

    def lost(self, keys: Iterable[Key]) -> None:
        """The reservations of an append that failed weren't written."""
        self._mine.difference_update(keys)

    def _take(self, stored: Stored) -> None:
        body = stored.body
        self.seq = stored.seq
        match stored.kind:
            case "hold":
                self._hold(body)
            case "settle":
                self._settle(body)
            case "revoke" | "restore":
                self.revoked = stored.kind == "revoke"
            case _:
                pass  # of a newer program

    def _hold(self, body: Mapping[str, Any]) -> None:
        key, hold = (body["run"], body["attempt"]), _hold(body)
        dispatch = Dispatch(body["at_ms"] / 1000, hold.capability, hold.cost, hold.bytes_out)
        self.open[key] = hold
        totals = self.totals.setdefault(hold.capability, Totals())
        totals.calls += 1
        totals.bytes_out += hold.bytes_out
        if key in self._mine:
            self._mine.discard(key)
            self.book.unwritten.remove(hold)
            self.book.target(hold.capability, hold.targets)
        else:
            self.book.carry(hold)
            self.book.in_flight[hold.capability] += 1
            self.book.target(hold.capability, hold.targets)
            self.book.sent(dispatch)
        self.recent.append(dispatch)

    def _settle(self, body: Mapping[str, Any]) -> None:
        hold = self.open.pop((body["run"], body["attempt"]), None)
        if hold is None:
            return  # settled already: the first word counts
        self.book.settle(hold)
        totals = self.totals[hold.capability]
        totals.cost += body["cost"]
        totals.tokens += body["tokens"]
        totals.bytes_in += body["bytes_in"]
        totals.seconds += body["micros"] / 1_000_000


def settling(run: str, history: History, new: Sequence[Entry]) -> Beside | None:
    """Return what entries of a run's journal settle in its principal's accounts; None if they settle nothing."""
    found: list[Entry] = []
    principal = ""
    for entry in new:
        held = history.held_by(entry.body["attempt"]) if entry.kind in ENDS else None
        if held is None:
            continue
        principal, number = held
        body = entry.body
        found.append(
            Entry(
                "settle",
                {
                    "run": run,
                    "attempt": number,
                    "cost": body.get("cost", 0),
                    "tokens": body.get("tokens", 0),
                    "bytes_in": body["result"]["size"] if "result" in body else 0,
                    "micros": body.get("micros", 0),
                },
            )
        )
    return Beside(ledger_of(principal), found) if found else None


def _body(key: Key, hold: Hold, at: float) -> dict[str, Any]:
    return {
        "run": key[0],
        "attempt": key[1],
        "capability": hold.capability,
        "cost": hold.cost,
        "bytes_out": hold.bytes_out,
        "bytes_in": hold.bytes_in,
        "tokens": hold.tokens,
        "micros": round(hold.seconds * 1_000_000),
        "agentic": hold.agentic,
        "targets": dict(hold.targets),
        "at_ms": round(at * 1000),
    }


def _hold(body: Mapping[str, Any]) -> Hold:
    return Hold(
        body["capability"],
        body["cost"],
        body["bytes_out"],
        body["bytes_in"],
        body["tokens"],
        body["micros"] / 1_000_000,
        body["agentic"],
        dict(body["targets"]),
    )
