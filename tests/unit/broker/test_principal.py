"""A principal's accounts over runs, processes and crashes: exact, settled in the transaction that settles the run."""

from __future__ import annotations

import multiprocessing
from pathlib import Path

import pytest

from addendum.authority.accounts import Accounts, Hold, Later, Over
from addendum.authority.catalog import Capability, Catalog
from addendum.authority.grant import from_json
from addendum.broker.desk import Desk, open_desk
from addendum.broker.journal import Journal
from addendum.broker.principal import Ledger
from addendum.broker.reconcile import abandoned, answered, unresolved
from addendum.errors import JournalMoved
from addendum.kernel.calls import Call
from addendum.ports import Clock, RunHeader, Store
from addendum.records.entries import Attempt, Ref
from addendum.records.stored import Entry
from addendum.store.sqlite import SqliteStore
from addendum.testing.clock import ManualClock
from addendum.testing.memory_store import MemoryStore

MAIL = Capability(name="mail.send", effect="irreversible", price=10, max_result=100)
CATALOG = Catalog([MAIL])


def desk(store: Store, run: str, clock: Clock | None = None, principal: str = "team", **limits: int) -> Desk:
    """Open a run's accounts, with limits of the principal by meter."""
    found = from_json(
        {
            "capabilities": {"mail.send": {}},
            "principal": principal,
            "limits": [{"meter": meter, "max": most, "scope": "principal"} for meter, most in limits.items()],
        }
    )
    if not any(header.run == run for header in store.runs()):
        store.create(RunHeader(run, "", "2026-01-01T00:00:00Z"))
    journal = Journal(store, run)
    journal.read()
    return open_desk(journal, found, CATALOG, clock or ManualClock())


def send(at: Desk, *voids: Entry) -> Hold | Over:
    """Reserve for a call and write its attempt, with what voids others; when another process was first, look again."""
    while True:
        at.news()
        call = Call(0, "orchestrate/mail.send#0", "mail.send", {}, b"{}", "d")
        hold = at.reserve(MAIL, call)
        if not isinstance(hold, Hold):
            assert isinstance(hold, Over)
            return hold
        number = at.journal.history.attempted + 1
        attempt = Attempt(
            number=number,
            identity=call.identity,
            capability="mail.send",
            effect="irreversible",
            fingerprint="",
            digest="d",
            take=1,
            key=str(number),
            payload=Ref(2, {}),
            revision=1,
            drive=1,
            hold=hold.cost,
            at=at.clock.now(),
            principal=at.grant.principal,
        )
        try:
            at.write([*voids, Entry("attempt", attempt.body())], {}, [(number, hold)])
        except JournalMoved:
            continue
        return hold


def levels(accounts: Accounts) -> list[tuple[int | float, int | float]]:
    return [accounts.level(limit) for limit in accounts.grant.limits]


def test_a_limit_holds_over_the_runs_of_a_principal() -> None:
    """What one run took is gone for the other, and the ledger is no run."""
    store = MemoryStore()
    first, second = desk(store, "one", calls=3), desk(store, "two", calls=3)
    assert isinstance(send(first), Hold)
    assert isinstance(send(second), Hold)
    assert isinstance(send(first), Hold)
    assert isinstance(send(second), Over)
    assert [header.run for header in store.runs()] == ["one", "two"]


def test_an_attempt_without_an_end_stays_held_until_somebody_says() -> None:
    """A crash leaves its hold; a known result settles it to what it was, and abandoning gives it back."""
    store = MemoryStore()
    crashed = desk(store, "one", cost_usd=1)
    send(crashed)
    send(crashed)
    later = desk(store, "two", cost_usd=1)
    assert levels(later.accounts) == [(0, 20)]
    known, lost = unresolved(crashed.journal.history)
    entry, blobs = answered(known, {"id": 1}, "operator", cost=4)
    crashed.journal.append(entry, blobs=blobs)
    later.news()
    assert levels(later.accounts) == [(4, 10)]
    crashed.journal.append(*abandoned([lost], "operator", "it never arrived"))
    later.news()
    assert levels(later.accounts) == [(4, 0)]


def opens(store: Store, *principals: str) -> list[int]:
    """Return how many holds of each are without an end."""
    found = [Ledger(store, principal) for principal in principals]
    for ledger in found:
        ledger.read()
    return [len(ledger.open) for ledger in found]


def test_attempts_of_two_principals_are_settled_where_they_are_held() -> None:
    """Another grant names another principal while attempts of the one before have no end: each has its own accounts,
    and what ends them together ends each where it is held."""
    store = MemoryStore()
    for principal in ("first", "second", "first"):
        assert isinstance(send(desk(store, "one", None, principal, calls=9)), Hold)
    assert opens(store, "first", "second") == [2, 1]
    journal = Journal(store, "one")
    journal.read()
    journal.append(*abandoned(unresolved(journal.history), "operator", "none of them arrived"))
    assert opens(store, "first", "second") == [0, 0]
    assert not unresolved(journal.history)
    assert [entry.kind for entry in store.entries("one")] == ["attempt"] * 3 + ["abandon"] * 3


@pytest.mark.parametrize("principal", ["first", "second", "third", ""])
@pytest.mark.parametrize("turned", [False, True])
def test_attempts_of_two_principals_that_a_resume_voids_are_settled(principal: str, turned: bool) -> None:
    """With the attempts that follow them, of one of the two, of a third one, or of none."""
    store = MemoryStore()
    for each in ("first", "second"):
        send(desk(store, "one", None, each, calls=9))
    at = desk(store, "one", None, principal, **({"calls": 9} if principal else {}))
    voids = abandoned(unresolved(at.journal.history), "host", "it may be retried by itself")
    assert isinstance(send(at, *(reversed(voids) if turned else voids)), Hold)
    assert opens(store, "first", "second") == [int(principal == "first"), int(principal == "second")]
    assert [attempt.number for attempt in unresolved(at.journal.history)] == [3]


def test_a_process_that_looked_too_early_looks_again() -> None:
    """Two processes see room for one call; the second to write finds the journal moved and is told of the limit."""
    store = MemoryStore()
    first, second = desk(store, "one", calls=1), desk(store, "two", calls=1)
    second.news()
    call = Call(0, "orchestrate/mail.send#0", "mail.send", {}, b"{}", "d")
    seen = second.reserve(MAIL, call)
    assert isinstance(seen, Hold)
    send(first)
    try:
        second.write([Entry("note", {})], {}, [(1, seen)])
        raise AssertionError("written")
    except JournalMoved:
        pass
    assert second.journal.store.head("two") == (0, "")
    assert isinstance(send(second), Over)


def test_a_revoked_principal_sends_nothing_more() -> None:
    """The next reservation of any run says so; restoring gives it back."""
    store = MemoryStore()
    one = desk(store, "one", calls=9)
    send(one)
    assert one.ledger is not None
    store.append(one.ledger.name, [Entry("revoke", {"by": "operator"})])
    found = send(one)
    assert isinstance(found, Over)
    assert found.limit.meter == "principal_revoked"
    store.append(one.ledger.name, [Entry("restore", {"by": "operator"})])
    assert isinstance(send(one), Hold)


def test_a_lifetime_ends_slow_and_low_use() -> None:
    """One call an hour, each in a run of its own, stops at the lifetime's cap."""
    store, clock, sent = MemoryStore(), ManualClock(), 0
    for hour in range(30):
        sent += isinstance(send(desk(store, f"run-{hour}", clock, calls=20)), Hold)
        clock.advance(3600)
    assert sent == 20


def _race(path: str, index: int, ready: multiprocessing.synchronize.Event) -> None:
    store = SqliteStore(Path(path))
    mine = desk(store, f"run-{index}", calls=30, cost_usd=1)
    ready.wait()
    for _ in range(50):
        if isinstance(send(mine), Over):
            break
    store.close()


def test_eight_processes_grant_exactly_the_tighter_limit(tmp_path: Path) -> None:
    """Eight processes race for 400 reservations on two meters: exactly as many as the tighter one are granted."""
    path = tmp_path / "store.db"
    store = SqliteStore(path)
    desk(store, "seed", calls=30, cost_usd=1)
    context = multiprocessing.get_context("fork")
    ready = context.Event()
    racers = [context.Process(target=_race, args=(str(path), index, ready)) for index in range(8)]
    for racer in racers:
        racer.start()
    ready.set()
    for racer in racers:
        racer.join(60)
        assert racer.exitcode == 0
    ledger = Ledger(store, "team")
    ledger.read()
    assert ledger.totals["mail.send"].calls == 30
    assert sum(1 for header in store.runs() for entry in store.entries(header.run) if entry.kind == "attempt") == 30
    store.close()


def test_calls_at_the_same_time_are_counted_over_runs() -> None:
    """Two runs of a principal have two calls under way between them, and the third waits until one has its end."""
    store = MemoryStore()
    first, second = desk(store, "one", in_flight=2), desk(store, "two", in_flight=2)
    send(first)
    send(second)
    call = Call(0, "orchestrate/mail.send#0", "mail.send", {}, b"{}", "d")
    second.news()
    assert isinstance(second.reserve(MAIL, call), Later)
    (under_way,) = unresolved(first.journal.history)
    entry, blobs = answered(under_way, {"id": 1}, "provider", cost=4)
    first.journal.append(entry, blobs=blobs)
    second.news()
    assert isinstance(second.reserve(MAIL, call), Hold)
