"""Sums of a principal's accounts: less is read, and nothing is different; one that doesn't fit is not used."""

from __future__ import annotations

from typing import Any

import pytest
from tests.counting import Counting

from addendum.authority.book import Hold
from addendum.authority.grant import Limit
from addendum.broker.principal import Ledger
from addendum.broker.sums import EVERY, Sums
from addendum.errors import StoreCorrupt, StoreUnavailable
from addendum.ports import RunHeader
from addendum.records.stored import Entry
from addendum.testing.memory_store import MemoryStore

COUNT = EVERY * 3
WINDOW = Limit("calls", 10**9, 100.0, None, True)


def filled(store: MemoryStore, count: int = COUNT, *, rest: bool = True) -> Ledger:
    """Return accounts with so many dispatches, one a second, the last ten of them without an end."""
    ledger = Ledger(store, "team")
    ledger.prepare("2026-01-01T00:00:00Z")
    for number in range(count):
        hold = Hold("a.b", 10, 3, 5, targets={"distinct:/to": f"{number % 7}"} if number % 5 else {})
        beside = ledger.beside([(("r", number), hold)], float(number))
        ledger.book.take(hold, float(number))
        new = list(beside.entries)
        if number < count - 10:
            new.append(Entry("settle", {"run": "r", "attempt": number, "cost": 4}))
        store.append(ledger.name, new)
        ledger.read()
        if rest:
            ledger.rest()
    return ledger


def seen(ledger: Ledger) -> dict[str, int]:
    return {value: sums[0] for value, sums in ledger.book.seen[("a.b", "distinct:/to")].items()}


def test_accounts_that_were_summed_up_are_the_same_and_less_is_read() -> None:
    """Totals, holds, windows and values; without a window or values only what came after the last sum is read."""
    store = Counting()
    mine = filled(store)
    whole, summed = Ledger(store, "team", sums=False), Ledger(store, "team")
    whole.read()
    summed.read()
    assert whole.state == summed.state == mine.state
    assert list(whole.recent) == list(summed.recent) == list(mine.recent)
    assert seen(whole) == seen(summed) == seen(mine)
    assert [each.book.level(WINDOW) for each in (whole, summed)] == [mine.book.level(WINDOW)] * 2
    summed.verify()
    store.read = 0
    short = Ledger(store, "team", since=float(COUNT - 50), values=False)
    short.read()
    assert store.read <= EVERY + 5
    assert short.state == whole.state
    assert [each for each in short.recent if each.at > COUNT - 50] == [e for e in whole.recent if e.at > COUNT - 50]


def test_a_sum_of_another_journal_is_not_used() -> None:
    """Its entry isn't the one that it was made from: the whole journal is read."""
    store = MemoryStore()
    filled(store)
    other = MemoryStore()
    filled(other, EVERY, rest=False)
    name = Sums(store, Ledger(store, "team").name).name
    forged = {**next(store.entries(name)).body, "chain": "0" * 64}
    store.append(name, [Entry("sum", forged)])
    found = Ledger(store, "team")
    found.read()
    whole = Ledger(store, "team", sums=False)
    whole.read()
    assert found.state == whole.state


def test_a_sum_that_says_something_else_is_found_out() -> None:
    """Its chain is right and its totals aren't: used at first, and told by a verification."""
    store = MemoryStore()
    filled(store)
    name = Sums(store, Ledger(store, "team").name).name
    (last,) = store.entries(name, after=store.head(name)[0] - 1)
    store.append(name, [Entry("sum", {**last.body, "totals": {}, "open": []})])
    with pytest.raises(StoreCorrupt, match="sums"):
        Ledger(store, "team").verify()


def test_what_a_window_needs_is_read_though_the_clock_was_set_back() -> None:
    """Sums aren't in the order of time then: an old one in between doesn't say that those before it are old."""
    store = Counting()
    ledger = Ledger(store, "team")
    ledger.prepare("2026-01-01T00:00:00Z")
    day, calls = 86_400.0, 0
    for at in (0.0, day, 0.0, 0.0):
        for number in range(EVERY):
            calls += 1
            hold = Hold("a.b", 10, 3)
            ledger.book.take(hold, at + number / 100)
            beside = ledger.beside([(("r", calls), hold)], at + number / 100)
            store.append(ledger.name, beside.entries)
            ledger.wrote(beside)
        ledger.rest()
    found = Ledger(store, "team", since=day - 90.0, values=False)
    found.read()
    assert sum(each.at >= day for each in found.recent) == EVERY
    assert len(found.recent) == 3 * EVERY
    found.verify()
    store.read = 0
    late = Ledger(store, "team", since=day + 90.0, values=False)
    late.read()
    assert (len(late.recent), store.read) == (EVERY, 2)


def test_two_processes_sum_up_beside_each_other() -> None:
    """Each goes on from the sum that it knew; whichever is last is right."""
    store = MemoryStore()
    first = filled(store, EVERY, rest=False)
    second = Ledger(store, "team")
    second.read()
    second.rest()
    first.rest()
    third = Ledger(store, "team")
    third.verify()
    assert len(third.recent) == EVERY


def test_sums_that_an_older_program_wrote_are_read() -> None:
    """Theirs have a row for each dispatch where there are lists now; and they go on with ours."""
    store = MemoryStore()
    mine = filled(store)
    name = Sums(store, mine.name).name
    store.create(RunHeader("old", "", "2026-01-01T00:00:00Z"))
    for seq in range(1, store.head(name)[0] + 1):
        (part,) = store.entries(name, after=seq - 1, upto=seq)
        body: dict[str, Any] = dict(part.body)
        columns = zip(body.pop("at_ms"), body.pop("of"), body.pop("cost"), body.pop("bytes_out"), strict=True)
        del body["earlier_ms"]
        (meter, values), *none = body.pop("targets").items()
        assert not none
        body["sent"] = [
            [*row, *([{meter: value}] if value else [])] for row, value in zip(columns, values, strict=True)
        ]
        store.append("old", [Entry("sum", body)])
    assert store._data is not None
    store._data.runs[name].entries = store._data.runs["old"].entries
    old, whole = Ledger(store, "team"), Ledger(store, "team", sums=False)
    old.read()
    whole.read()
    assert old.state == whole.state == mine.state
    assert list(old.recent) == list(whole.recent)
    assert seen(old) == seen(whole)
    short = Ledger(store, "team", since=float(COUNT - 50), values=False)
    short.read()
    assert list(short.recent) == list(whole.recent)
    store.append(old.name, [Entry("restore", {})] * EVERY)
    old.read()
    old.rest()
    again = Ledger(store, "team")
    again.verify()
    assert list(again.recent) == list(whole.recent)
    *before, new = (each.body for each in store.entries(name))
    assert new["earlier_ms"] == max(row[0] for part in before for row in part["sent"])


class Full(MemoryStore):
    """A store that takes no sums."""

    def append(self, run: str, entries: Any, **more: Any) -> Any:
        if run.endswith("/sums"):
            raise StoreUnavailable("full")
        return super().append(run, entries, **more)


def test_a_store_that_takes_no_sum_stops_nothing() -> None:
    """An attempt was written just before, and has to leave; what wasn't summed up is summed up later."""
    store = Full()
    mine = filled(store, EVERY)
    mine.rest()
    again = Ledger(store, "team")
    again.read()
    assert again.state == mine.state
    assert store.head(Sums(store, mine.name).name)[0] == 0
