"""Delegating while others delegate, reserve and die: what is given and sent is never more than what was granted."""

from __future__ import annotations

import multiprocessing
import os
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from multiprocessing.synchronize import Event
from pathlib import Path
from typing import Any

import pytest

from addendum.authority.accounts import Hold
from addendum.authority.catalog import Capability, Catalog
from addendum.authority.grant import Grant, from_json
from addendum.broker.desk import Desk, open_desk
from addendum.broker.journal import Journal
from addendum.errors import JournalMoved, Rejected
from addendum.kernel.calls import Call
from addendum.ports import Lease, RunHeader, Store
from addendum.records.entries import Attempt, Ref
from addendum.records.stored import Entry, Stored
from addendum.runs import delegate
from addendum.runs.context import Context
from addendum.sandbox.embedded import EmbeddedSandbox
from addendum.store.sqlite import SqliteStore
from addendum.testing.clock import ManualClock
from addendum.testing.demo import DemoProvider

MAIL = Capability(name="mail.send", effect="irreversible", price=10, max_result=100)
AT = "2026-01-01T00:00:00Z"
MOST = 60


def grant(calls: int) -> Grant:
    return from_json({"capabilities": {"mail.send": {}}, "limits": [{"meter": "calls", "max": calls}]})


@contextmanager
def opened(store: Store) -> Iterator[Context]:
    sandbox = EmbeddedSandbox()
    yield Context(
        store=store,
        sandbox=sandbox,
        provider=DemoProvider(),
        catalog=Catalog([MAIL]),
        clock=ManualClock(),
        grant=grant(0),
    )
    sandbox.close()


def parent(store: Store) -> None:
    store.create(RunHeader("p", "", AT))
    store.append("p", [Entry("grant", {"grant": grant(MOST).to_json(), "by": "operator"})])


def desk(context: Context, run: str) -> Desk:
    journal = Journal(context.store, run)
    history = journal.read()
    return open_desk(journal, from_json(history.grant or {}), context.catalog, context.clock)


def send(at: Desk) -> bool:
    """Write an attempt under a hold, as a driver does; False if a limit is in the way."""
    while True:
        at.news()
        call = Call(0, "orchestrate/mail.send#0", "mail.send", {}, b"{}", "d")
        hold = at.reserve(MAIL, call)
        if not isinstance(hold, Hold):
            return False
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
            at=0.0,
        )
        try:
            at.write([Entry("attempt", attempt.body())], {}, [(number, hold)])
        except JournalMoved:
            continue
        return True


def given(context: Context, name: str, calls: int, above: str = "p") -> bool:
    """Give a new run something; False if there is less left."""
    context.store.create(RunHeader(name, "", AT))
    try:
        delegate.give(context, Journal(context.store, name), above, grant(calls))
    except Rejected:
        return False
    return True


def begun(context: Context, name: str, calls: int, above: str = "p") -> bool:
    """Begin a run with something of another's; False if there is less left."""
    try:
        journal = delegate.begin(context, RunHeader(name, "", AT), above, grant(calls), [], {})
    except Rejected:
        return False
    assert journal.lease is not None
    context.store.release(journal.lease)
    return True


def total(store: Store, run: str = "p") -> int:
    """Return how many attempts stand in a family's journals, or are still its living children's to make."""
    history = Journal(store, run).read()
    found = sum(totals.calls for totals in history.totals.values())
    for child, (body, back) in history.children.items():
        share = int(body["grant"]["limits"][0]["max"])
        sent = sum(totals.calls for totals in Journal(store, child).read().totals.values())
        assert sent <= share
        found += share if back is None else sent
    return found


def _race(path: str, index: int, ready: Event) -> None:
    store = SqliteStore(Path(path))
    with opened(store) as context:
        mine = desk(context, "p") if index % 4 == 0 else None
        ready.wait()
        for number in range(12):
            if mine is not None:
                send(mine)
            elif given(context, f"c-{index}-{number}", 3):
                child = desk(context, f"c-{index}-{number}")
                while send(child):
                    pass
    store.close()


def test_eight_processes_delegate_and_send_at_once(tmp_path: Path) -> None:
    """Two send for the parent and six give to children that use all of theirs: exactly what was granted is used."""
    path = tmp_path / "store.db"
    store = SqliteStore(path)
    parent(store)
    forked = multiprocessing.get_context("fork")
    ready = forked.Event()
    racers = [forked.Process(target=_race, args=(str(path), index, ready)) for index in range(8)]
    for racer in racers:
        racer.start()
    ready.set()
    for racer in racers:
        racer.join(120)
        assert racer.exitcode == 0
    runs = [header.run for header in store.runs()]
    attempts = sum(1 for run in runs for entry in store.entries(run) if entry.kind == "attempt")
    assert MOST - 3 < attempts <= MOST
    assert total(store) == attempts
    store.close()


class Dying(SqliteStore):
    """A store whose process is gone in the middle of the n-th append, or right after it."""

    left = 0
    after = False

    def append(self, run: str, entries: Sequence[Entry], **more: Any) -> list[Stored]:
        self.left -= 1
        if self.left == 0 and not self.after:
            os._exit(9)
        found = super().append(run, entries, **more)
        if self.left == 0:
            os._exit(9)
        return found

    def begin(self, header: RunHeader, entries: Sequence[Entry], **more: Any) -> tuple[Lease, list[Stored]]:
        self.left -= 1
        if self.left == 0 and not self.after:
            os._exit(9)
        found = super().begin(header, entries, **more)
        if self.left == 0:
            os._exit(9)
        return found


def _die(path: str, left: int, after: bool, give: Callable[..., bool]) -> None:
    store = Dying(Path(path))
    store.left, store.after = left, after
    with opened(store) as context:
        give(context, "c", 40)
        child = desk(context, "c")
        send(child)
        give(context, "g", 30, "c")
        delegate.bring_back(context, Journal(store, "g"))


@pytest.mark.parametrize("give", [given, begun])
def test_a_process_that_dies_while_it_delegates_leaves_nothing_given_twice(
    tmp_path: Path, give: Callable[..., bool]
) -> None:
    """Killed before or after each of its writes: the child has its share and the parent hasn't, or the reverse."""
    forked = multiprocessing.get_context("fork")
    for left in range(1, 4):
        for after in (False, True):
            path = tmp_path / f"{left}-{after}.db"
            store = SqliteStore(path)
            parent(store)
            store.close()
            process = forked.Process(target=_die, args=(str(path), left, after, give))
            process.start()
            process.join(60)
            assert process.exitcode == 9
            store = SqliteStore(path)
            with opened(store) as context:
                wrote = left + after > 1
                assert give is given or wrote == any(header.run == "c" for header in store.runs())
                assert given(context, "other", 20 if wrote else MOST)
                assert not given(context, "more", 1)
                assert total(store) == MOST
                if wrote:
                    assert total(store, "c") <= 40
            store.close()


def test_a_run_that_gets_no_share_is_not_begun(tmp_path: Path) -> None:
    """Nothing of it is there, and nothing of the parent's grant is gone."""
    store = SqliteStore(tmp_path / "store.db")
    parent(store)
    with opened(store) as context:
        assert begun(context, "c", MOST)
        assert not begun(context, "more", 1)
        assert [header.run for header in store.runs()] == ["p", "c"]
        assert total(store) == MOST


def test_a_parents_driver_that_looked_too_early_looks_again(tmp_path: Path) -> None:
    """It saw room, and a child got it before the attempt was written: nothing is written."""
    store = SqliteStore(tmp_path / "store.db")
    parent(store)
    with opened(store) as context:
        mine = desk(context, "p")
        mine.news()
        seen = mine.reserve(MAIL, Call(0, "orchestrate/mail.send#0", "mail.send", {}, b"{}", "d"))
        assert isinstance(seen, Hold)
        assert given(context, "c", MOST)
        try:
            mine.write([Entry("attempt", {})], {}, [(1, seen)])
            raise AssertionError("written")
        except JournalMoved:
            pass
        assert not send(mine)
        assert total(store) == MOST
    store.close()
