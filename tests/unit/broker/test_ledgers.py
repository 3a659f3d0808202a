"""Accounts that are kept for the next run: what it finds is what it would find in the whole journal, with less read."""

from __future__ import annotations

import random
from typing import Any

import pytest
from tests.counting import Counting

from addendum.authority.book import Hold, Later
from addendum.authority.grant import Limit
from addendum.broker.held import hold_entry, settle_entry
from addendum.broker.principal import KEPT, VALUES, Ledger, Ledgers
from addendum.broker.sums import EVERY
from addendum.canon import digest
from addendum.errors import StoreUnavailable
from addendum.records.stored import Entry
from addendum.testing.memory_store import MemoryStore

HOUR = Limit("bytes_out", 10**9, 3600.0, None, True)
AGENTS = frozenset[str]()


def took(ledger: Ledger, number: int, at: float, *, out: int = 3) -> None:
    """Write one hold as a run does that has the accounts open."""
    hold = Hold("a.b", 10, out)
    ledger.book.take(hold, at)
    beside = ledger.beside([(("mine", number), hold)], at)
    ledger.store.append(ledger.name, beside.entries)
    ledger.wrote(beside)


def others(store: MemoryStore, number: int, at: float, *, settled: bool = True) -> None:
    """Write one hold as another process does, and its end."""
    ledger = Ledger(store, "team")
    new = [hold_entry(("theirs", number), Hold("c.d", 7, 5), at)]
    store.append(ledger.name, [*new, *([settle_entry(("theirs", number), 6, 0, 0, 0)] if settled else [])])


def take(ledgers: Ledgers, store: MemoryStore, since: float | None = 0.0, *, values: bool = False) -> Ledger:
    ledger = ledgers.take(store, "team", AGENTS, since, values)
    ledger.prepare("2026-01-01T00:00:00Z")
    ledger.read()
    return ledger


def kept(store: MemoryStore, count: int = 10) -> tuple[Ledgers, Ledger]:
    """Return accounts that were open for a run of so many calls, one a second, and were given back."""
    ledgers = Ledgers()
    ledger = take(ledgers, store)
    for number in range(count):
        took(ledger, number, float(number))
    ledger.book.level(HOUR)
    ledgers.keep(ledger, 0.0)
    return ledgers, ledger


def test_the_next_run_reads_what_was_written_since() -> None:
    """Of a journal of a hundred entries, the last one of those that are known and three that are new."""
    store = Counting()
    ledgers, before = kept(store, 100)
    others(store, 1, 100.0)
    others(store, 2, 101.0, settled=False)
    store.read = 0
    after = take(ledgers, store)
    assert after is before
    assert store.read == 4
    whole = Ledger(store, "team", sums=False)
    whole.read()
    assert after.state == whole.state
    assert after.book.level(HOUR) == whole.book.level(HOUR) == (310, 0)


def test_accounts_are_one_runs_at_a_time() -> None:
    """Two runs at once have accounts of their own, and what the one reserves the other has to read."""
    store = MemoryStore()
    ledgers, before = kept(store)
    first, second = take(ledgers, store), take(ledgers, store)
    assert first is before
    assert second is not first
    took(first, 10, 10.0)
    assert (first.totals["a.b"].calls, second.totals["a.b"].calls) == (11, 10)
    second.read()
    assert second.state == first.state


def test_what_was_not_written_is_not_kept() -> None:
    """A hold whose append failed with the store is held by nobody once the run is over."""
    store = MemoryStore()
    ledgers, ledger = kept(store)
    ledger = take(ledgers, store)
    hold = Hold("a.b", 10, 3)
    ledger.book.take(hold, 50.0)
    ledger.beside([(("mine", 50), hold)], 50.0)
    ledgers.keep(ledger, 0.0)
    after = take(ledgers, store)
    assert after is not ledger
    assert after.book.level(Limit("calls", 99, "lifetime", None, True)) == (10, 0)


def test_a_longer_window_reads_what_was_dropped() -> None:
    """Accounts know the dispatches that their own windows reach: a longer one, or a clock that was set back, asks for
    those before, and values at pointers have to be known too."""
    for since, values, same in ((5.0, False, True), (None, False, False), (4.0, False, False), (5.0, True, False)):
        store = MemoryStore()
        ledgers, _ = kept(store)
        ledger = take(ledgers, store)
        ledgers.keep(ledger, 5.0)
        assert [each.at for each in ledger.recent if each.at < 5.0] == []
        after = take(ledgers, store, since, values=values)
        assert (after is ledger) is same
        assert len(after.recent) >= 5


def test_accounts_that_were_opened_with_a_clock_ahead_know_no_more_when_it_is_right() -> None:
    """What they didn't read they don't know, whatever the clock says when they are given back."""
    store = MemoryStore()
    filled = Ledger(store, "team")
    filled.prepare("2026-01-01T00:00:00Z")
    for number in range(EVERY):
        took(filled, number, float(number))
    filled.rest()
    ledgers, day = Ledgers(), 86_400.0
    ahead = take(ledgers, store, day - 3600.0)
    took(ahead, EVERY, day)
    assert ahead.book.level(HOUR, day) == (3, 0)
    room = ahead.book.check(HOUR, Hold("a.b", 10, 3), 510.0)
    assert isinstance(room, Later)
    assert room.at == day
    ledgers.keep(ahead, 510.0 - 3600.0)
    again = take(ledgers, store, 520.0 - 3600.0)
    assert again is not ahead
    assert again.book.level(HOUR, 520.0) == (3 * EVERY + 3, 0)


def test_a_hold_counts_from_the_time_in_its_entry() -> None:
    """It was reserved a little before it was written, and others only see the latter."""
    store = MemoryStore()
    _, ledger = kept(store, 1)
    hold = Hold("a.b", 10, 3)
    ledger.book.take(hold, 100.0)
    beside = ledger.beside([(("mine", 1), hold)], 100.006)
    store.append(ledger.name, beside.entries)
    ledger.wrote(beside)
    assert ledger.book.level(HOUR, 3700.004) == (3, 0)
    assert ledger.book.level(HOUR, 3700.007) == (0, 0)


def test_accounts_of_other_agents_are_not_used() -> None:
    """What counts as an agent's call is a matter of the catalog, which may have changed."""
    store = MemoryStore()
    ledgers, before = kept(store)
    assert ledgers.take(store, "team", frozenset({"a.b"}), 0.0, False) is not before


def test_accounts_of_another_journal_are_not_used() -> None:
    """Another store, or a journal in which another entry stands where they ended."""
    store, other = MemoryStore(), MemoryStore()
    ledgers, before = kept(store)
    kept(other, 20)
    assert take(ledgers, other).totals["a.b"].calls == 20
    ledgers, before = kept(store, 3)
    assert store._data is not None
    run = store._data.runs[before.name]
    run.entries[-1] = run.entries[-1]._replace(chain="0" * 64)
    assert take(ledgers, store) is not before


def test_much_that_is_new_is_read_by_the_sums() -> None:
    """When other processes wrote more than a sum takes, opening anew is quicker than reading on."""
    store = MemoryStore()
    ledgers, before = kept(store)
    for number in range(EVERY):
        others(store, number, 20.0)
    assert take(ledgers, store) is not before


class Broken(MemoryStore):
    """A store that doesn't answer once it is told to."""

    broken = False

    def entries(self, run: str, **more: Any) -> Any:
        if self.broken:
            raise StoreUnavailable("gone")
        return super().entries(run, **more)


def test_a_store_that_does_not_answer_keeps_nothing() -> None:
    """Giving accounts back never ends a run in an error."""
    store = Broken()
    ledgers, _ = kept(store)
    ledger = take(ledgers, store)
    store.broken = True
    ledgers.keep(ledger, 0.0)
    store.broken = False
    assert take(ledgers, store) is not ledger


def test_the_accounts_of_a_few_principals_are_kept() -> None:
    """Those that were used last."""
    store, ledgers = MemoryStore(), Ledgers()
    opened = []
    for number in range(KEPT + 1):
        ledger = Ledger(store, f"p{number}")
        ledger.prepare("2026-01-01T00:00:00Z")
        store.append(ledger.name, [Entry("restore", {})])
        ledger.read()
        ledgers.keep(ledger, 0.0)
        opened.append(ledger)
    found = [ledgers.take(store, f"p{number}", AGENTS, 0.0, True) is opened[number] for number in range(KEPT + 1)]
    assert found == [False] + [True] * KEPT


def test_accounts_with_many_values_are_not_kept() -> None:
    """Values at pointers are never forgotten: there is a most of them that stays in memory between runs."""
    for count, same in ((VALUES, True), (VALUES + 1, False)):
        store = MemoryStore()
        ledgers, _ = kept(store)
        ledger = take(ledgers, store)
        for number in range(count):
            name = "a.b" if number % 2 else "c.d"
            ledger.book.target(Hold(name, 1, 1, targets={"distinct:/to": digest(number)}))
        ledgers.keep(ledger, 0.0)
        assert (take(ledgers, store) is ledger) is same


def test_closed_ledgers_keep_nothing() -> None:
    """Nor what a run gives back that ends later; it can still open accounts."""
    store = MemoryStore()
    ledgers, before = kept(store)
    ledgers.close()
    after = take(ledgers, store)
    assert after is not before
    ledgers.keep(after, 0.0)
    assert take(ledgers, store) is not after


@pytest.mark.parametrize("seed", range(30))
def test_kept_accounts_are_those_of_the_journal(seed: int) -> None:
    """Whatever runs and other processes write in between: totals, holds, windows and dispatches are the same."""
    chance, store, now = random.Random(seed), MemoryStore(), 0.0
    ledgers, under_way = Ledgers(), list[int]()
    number = 0
    for _ in range(8):
        ledger = take(ledgers, store, now - 3600.0)
        ledger.book.level(HOUR)
        for _ in range(chance.randint(0, 12)):
            now += chance.choice((0.0, 1.0, 900.0))
            number += 1
            match chance.randrange(4):
                case 0:
                    others(store, number, now, settled=chance.random() < 0.5)
                    ledger.read()
                case 1 if under_way:
                    done = settle_entry(("mine", under_way.pop()), 4, 0, 2, 1)
                    store.append(ledger.name, [done])
                    ledger.read()
                case _:
                    took(ledger, number, now, out=number)
                    under_way.append(number)
        whole = Ledger(store, "team", sums=False)
        whole.read()
        assert ledger.state == whole.state
        assert [ledger.book.windows[HOUR.key].room(1, 10**9, now), ledger.book.level(HOUR)] == [None, level(whole, now)]
        assert [each for each in ledger.recent if each.at >= now - 3600.0] == [
            each for each in whole.recent if each.at >= now - 3600.0
        ]
        ledgers.keep(ledger, now - 3600.0)


def level(whole: Ledger, now: float) -> tuple[int | float, int | float]:
    """Return the plain definition of the window's level."""
    return sum(each.bytes_out for each in whole.recent if each.at > now - 3600.0), 0
