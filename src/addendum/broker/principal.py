"""The accounts of a principal, over all its runs: a journal of their own in the store, and its fold.

A reservation is an entry of that journal, written in the same transaction as the attempt it is for, and only if the
journal is still the one that was looked at; whoever is second looks again. So the limits hold exactly over processes
and crashes, and what was granted to whom can be read afterwards like any journal.

| kind | says |
| --- | --- |
| `hold` | a call is about to be sent, with the most that it may take |
| `settle` | what became of one: what it really took |
| `revoke` | no call of this principal is sent any more, until `restore` |

What such a journal comes to is summed up now and then (`addendum.broker.sums`), so that opening the accounts doesn't
take longer the longer they are kept.
"""

from __future__ import annotations

import threading
from collections import OrderedDict, deque
from collections.abc import Iterable, Mapping, Sequence
from math import inf
from typing import Any, Final

from addendum.authority.book import Book, Hold
from addendum.broker.held import Key, hold_entry, hold_from, settle_entry
from addendum.broker.sums import EVERY, Sum, Sums
from addendum.canon import Digest
from addendum.errors import StoreCorrupt, StoreError, UsageError
from addendum.ports import LEDGER, Beside, RunHeader, Store
from addendum.records.history import Dispatch, History, Totals
from addendum.records.stored import Entry

REMEMBERED: Final = 200_000
"""How many dispatches of a principal are remembered for limits in a time window."""
KEPT: Final = 8
"""Of how many principals the accounts are kept for the next run."""
VALUES: Final = 10_000
"""How many different values at pointers, over all capabilities and meters, accounts may know that are kept."""
ENDS: Final = ("record", "retry", "abandon", "drafted")
SEVERAL: Final = f"{LEDGER}several"
"""No journal: what is beside an append in more than one of them."""


def ledger_of(principal: str) -> str:
    """Return the name of the journal of a principal's accounts."""
    return f"{LEDGER}principal/{principal}"


class Ledger:
    """One principal's accounts as one process has them. `book` has what this process took and what it read.

    `since` is the time from which dispatches are needed for windows, None for all; `values` says whether values at
    pointers are. Less is read for less. Without `sums` the journal is read whole.
    """

    def __init__(
        self,
        store: Store,
        principal: str,
        agents: frozenset[str] = frozenset(),
        *,
        since: float | None = None,
        values: bool = True,
        sums: bool = True,
    ) -> None:
        self.store = store
        self.principal = principal
        self.name = ledger_of(principal)
        self.seq = 0
        self.revoked = False
        self.totals: dict[str, Totals] = {}
        self.recent: deque[Dispatch] = deque(maxlen=REMEMBERED)
        self.book = Book(self.totals, self.recent, agents, REMEMBERED, -inf if since is None else since)
        self.open: dict[Key, Hold] = {}
        self._mine: dict[Key, Hold] = {}
        self._need = (since, values)
        self._sums = Sums(store, self.name) if sums else None
        self._new: list[tuple[Dispatch, Hold]] = []
        """What was sent since the last sum."""

    def prepare(self, created_at: str) -> None:
        """Make the journals if they aren't there. Raises `StoreError`."""
        if self.seq:
            return
        for name in (self.name, Sums(self.store, self.name).name):
            try:
                self.store.create(RunHeader(name, self.principal, created_at))
            except UsageError:
                pass  # it is there already

    def read(self) -> None:
        """Fold in what any process wrote since. Raises `NotFound` for accounts that aren't there."""
        if self.store.head(self.name)[0] == self.seq:
            return
        if self.seq == 0 and self._sums is not None:
            self._open(*self._sums.read(*self._need))
        for stored in self.store.entries(self.name, after=self.seq):
            self._take(stored.kind, stored.body)

    def rest(self) -> None:
        """Sum up what there is, if much was written since the last sum. A store that doesn't take it now takes it some
        other time: an attempt may have been written just before, and has to leave."""
        if self._sums is None or self.seq - self._sums.upto < EVERY:
            return
        found = Sum(self.seq, self.totals, self.open, self.revoked)
        try:
            self._sums.write(found, self._new)
        except StoreError:
            return
        self._new.clear()

    def verify(self) -> None:
        """Raise `StoreCorrupt` if the accounts aren't what the whole journal comes to."""
        whole = Ledger(self.store, self.principal, self.book.agents, sums=False)
        whole.read()
        self.read()
        if whole.state != self.state:
            raise StoreCorrupt(
                f"The sums of the accounts of {self.principal} aren't what their journal says.",
                hint="Keep the store as it is for a closer look, and restore it from a backup.",
            )

    @property
    def state(self) -> dict[str, Any]:
        """What the accounts come to, as a sum says it."""
        return Sum(self.seq, self.totals, self.open, self.revoked).body()

    def serves(self, agents: frozenset[str], since: float | None, values: bool) -> bool:
        """Whether everything is known that accounts opened with these would know."""
        mine, all_values = self._need
        long_enough = mine is None or (since is not None and mine <= since)
        return self.book.agents == agents and long_enough and (all_values or not values)

    def forget(self, since: float) -> None:
        """Drop the dispatches before a time, which no window reaches. Without a window that is open, none is left. If
        the clock was set back, fewer are known than from that time on."""
        self.book.since = max(since, self.book.since)
        self._need = (self.book.since, self._need[1])
        while self.recent and self.recent[0].at < since:
            self.recent.popleft()

    @property
    def settled(self) -> bool:
        """Whether they are what their journal says, without anything that isn't written."""
        return not self._mine and not self.book.unwritten

    def chain(self) -> Digest:
        """Return the chain of the entry that they go up to, "" if it isn't there."""
        return next((each.chain for each in self.store.entries(self.name, after=self.seq - 1, upto=self.seq)), "")

    def beside(self, taken: Iterable[tuple[Key, Hold]], at: float, own: int | None = None) -> Beside:
        """Return the entries for reservations that were taken in the book; they are this process's own. `own` is the
        last entry's seq of the run that they are of."""
        new = []
        for key, hold in taken:
            self._mine[key] = hold
            new.append(hold_entry(key, hold, at))
        return Beside(self.name, new, self.seq, own)

    def wrote(self, beside: Beside) -> None:
        """Fold in what was just written at the end that was looked at."""
        for kind, body, _ in beside.entries:
            self._take(kind, body)

    def lost(self, keys: Iterable[Key]) -> None:
        """The reservations of an append that failed weren't written."""
        for key in keys:
            self._mine.pop(key, None)

    def _open(self, found: Sum | None, sent: Iterable[Dispatch], pointed: Iterable[Hold]) -> None:
        """Begin with a sum, and with as much of what was before it as is needed."""
        if found is None:
            return
        self.seq, self.revoked = found.upto, found.revoked
        self.totals.update(found.totals)
        self.recent.extend(sent)
        for hold in pointed:
            self.book.target(hold)
        for key, hold in found.open.items():
            self.open[key] = hold
            self.book.carry(hold)
            self.book.in_flight[hold.capability] += 1

    def _take(self, kind: str, body: Mapping[str, Any]) -> None:
        self.seq += 1
        match kind:
            case "hold":
                self._hold(body)
            case "settle":
                self._settle(body)
            case "revoke" | "restore":
                self.revoked = kind == "revoke"
            case _:
                pass  # of a newer program

    def _hold(self, body: Mapping[str, Any]) -> None:
        key = (body["run"], body["attempt"])
        mine = self._mine.pop(key, None)
        hold = mine or hold_from(body)
        name, cost, out = hold[:3]
        at = body["at_ms"] / 1000
        dispatch = Dispatch(at, name, cost, out)
        self.open[key] = hold
        totals = self.totals.get(name)
        if totals is None:
            totals = self.totals[name] = Totals()
        totals.calls += 1
        totals.bytes_out += out
        if mine is not None:
            self.book.wrote(mine, at)
        else:
            self.book.carry(hold)
            self.book.in_flight[name] += 1
            self.book.sent(dispatch)
        if hold.targets and self._need[1]:
            self.book.target(hold)
        self.recent.append(dispatch)
        if self._sums is not None:
            self._new.append((dispatch, hold))

    def _settle(self, body: Mapping[str, Any]) -> None:
        hold = self.open.pop((body["run"], body["attempt"]), None)
        if hold is None:
            return  # settled already: the first word counts
        self.book.settle(hold)
        totals = self.totals[hold.capability]
        totals.cost += body.get("cost", 0)
        totals.tokens += body.get("tokens", 0)
        totals.bytes_in += body.get("bytes_in", 0)
        totals.seconds += body.get("micros", 0) / 1_000_000


class Ledgers:
    """Accounts that were open here, kept for the next run of their principal, which reads what was written since. Any
    thread may ask; accounts that a run has are nobody else's until it gives them back."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._kept: OrderedDict[str, tuple[Ledger, Digest]] = OrderedDict()
        self._closed = False

    def take(self, store: Store, principal: str, agents: frozenset[str], since: float | None, values: bool) -> Ledger:
        """Return accounts that know what these need: those that were kept, if their journal is the same and not much
        was written since, else new ones. They have to be read. Raises `StoreError`."""
        with self._lock:
            ledger, chain = self._kept.pop(principal, (None, ""))
        if (
            ledger is not None
            and ledger.store is store
            and ledger.serves(agents, since, values)
            and store.head(ledger.name)[0] - ledger.seq <= EVERY
            and ledger.chain() == chain
        ):
            return ledger
        return Ledger(store, principal, agents, since=since, values=values)

    def keep(self, ledger: Ledger, since: float) -> None:
        """Give accounts back, with the dispatches since a time. Those that hold what isn't written are dropped, and
        those that know more than `VALUES` values, which the next run reads anew."""
        if not ledger.seq or not ledger.settled or ledger.book.values > VALUES:
            return
        ledger.forget(since)
        try:
            chain = ledger.chain()
        except StoreError:
            return
        with self._lock:
            if self._closed:
                return
            self._kept[ledger.principal] = (ledger, chain)
            self._kept.move_to_end(ledger.principal)
            if len(self._kept) > KEPT:
                self._kept.popitem(last=False)

    def close(self) -> None:
        """Let go of all accounts, and of their store; none are kept any more. `take` goes on with new ones."""
        with self._lock:
            self._closed = True
            self._kept.clear()


def settling(run: str, history: History, new: Sequence[Entry], ledger: Ledger | None = None) -> Beside | None:
    """Return what entries of a run's journal settle in its principal's accounts; None if they settle nothing. If those
    are `ledger`, only as long as nobody else wrote there. Entries that settle in the accounts of several principals are
    for `SEVERAL`: they can't be written at once."""
    found: list[Entry] = []
    name = ""
    for entry in new:
        held = _held(history, entry) if entry.kind in ENDS else None
        if held is None:
            continue
        body, (principal, number) = entry.body, held
        theirs = ledger_of(principal)
        name = theirs if name in ("", theirs) else SEVERAL
        result, get = body.get("result"), body.get
        back = result["size"] if result else 0
        found.append(settle_entry((run, number), get("cost", 0), get("tokens", 0), back, get("micros", 0)))
    if not found:
        return None
    return Beside(name, found, ledger.seq if ledger is not None and ledger.name == name else None)


def apart(history: History, new: Sequence[Entry]) -> list[list[Entry]]:
    """Return entries of a run's journal in their order, in parts that settle in one principal's accounts each."""
    parts: list[list[Entry]] = [[]]
    principal = ""
    for entry in new:
        held = _held(history, entry) if entry.kind in ENDS else None
        if held is not None:
            if principal and held[0] != principal:
                parts.append([])
            principal = held[0]
        parts[-1].append(entry)
    return parts


def _held(history: History, entry: Entry) -> tuple[str, int] | None:
    """Return in whose accounts the attempt is held that an entry ends, and its number."""
    return history.held_by(entry.body["attempt"])
