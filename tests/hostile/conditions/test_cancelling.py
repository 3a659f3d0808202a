"""Stopping in the middle: calls in flight land and are committed, nothing new is sent, and a resume goes on."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Mapping
from typing import Any

import pytest
from rig import Faulty, Heard, Work, context, history, kinds, sound, until

from addendum.canon import Json
from addendum.cli.progress import Progress
from addendum.errors import CapabilityError, StoreUnavailable, UnknownOutcome
from addendum.ports import Request, Sandbox
from addendum.runs.operate import cancel
from addendum.runs.start import resume, start
from addendum.testing.memory_store import MemoryStore

ROW = """
async def orchestrate(ctx, args):
    found = []
    for i in range(4):
        found.append(await ctx.run("art.make", {"i": i}))
    return found
"""
WIDE = """
async def one(ctx, i):
    first = await ctx.run("art.make", {"i": i})
    return await ctx.run("mail.send", {"i": i})

async def orchestrate(ctx, args):
    return await ctx.parallel([one(ctx, i) for i in range(4)])
"""


class Stop(threading.Event):
    """A request to stop that knows whether it was seen."""

    def __init__(self) -> None:
        super().__init__()
        self.seen = threading.Event()

    def is_set(self) -> bool:
        found = super().is_set()
        if found:
            self.seen.set()
        return found

    async def asked(self) -> None:
        """Ask for the stop, and go on when it was seen."""
        self.set()
        await until(self.seen)


def test_a_stop_lets_the_call_in_flight_land_and_sends_nothing_more(store: MemoryStore, sandbox: Sandbox) -> None:
    """The second call was under way when the stop came: it is paid, so it is kept."""
    stop = threading.Event()

    def behave(request: Request, n: int) -> None:
        if n == 2:
            stop.set()

    work = Work(behave)
    result = start(context(store, work, sandbox), ROW, {}, run="r", stop=stop)
    assert (result.status, result.stop, result.committed) == ("stopped", "cancelled", 2)
    final = resume(context(store, work, sandbox), "r")
    assert (final.status, final.replayed, final.dispatched, work.twice) == ("completed", 2, 2, [])
    assert sound(store)


def test_a_stop_in_a_fan_out_lands_all_its_branches(store: MemoryStore, sandbox: Sandbox) -> None:
    """Four are in flight: all four are committed, none of their next calls is sent."""
    stop = threading.Event()
    release = asyncio.Event()

    async def held(request: Request) -> None:
        if request.payload == {"i": 3}:
            stop.set()
            release.set()
        await release.wait()

    work = Work(lambda request, n: held(request))
    result = start(context(store, work, sandbox), WIDE, {}, run="r", stop=stop)
    assert (result.stop, result.committed, work.count["art.make"]) == ("cancelled", 4, 4)
    assert work.count["mail.send"] == 0
    work.behave = None
    final = resume(context(store, work, sandbox), "r")
    assert (final.status, work.count, work.twice) == ("completed", {"art.make": 4, "mail.send": 4}, [])


def test_a_stop_before_the_start_sends_nothing(store: MemoryStore, sandbox: Sandbox) -> None:
    """It is looked at before the first call too."""
    stop = threading.Event()
    stop.set()
    work = Work()
    result = start(context(store, work, sandbox), ROW, {}, run="r", stop=stop)
    assert (result.stop, work.requests) == ("cancelled", [])
    assert resume(context(store, work, sandbox), "r").status == "completed"


def test_a_failure_that_would_pass_is_no_record_when_it_comes_in_while_landing(
    store: MemoryStore, sandbox: Sandbox
) -> None:
    """Nobody retries it now; the next attempt tries it anew, with all its retries, and the script sees no failure."""
    stop = threading.Event()

    def behave(request: Request, n: int) -> Any:
        if n == 1:
            stop.set()
        if n <= 3:
            raise CapabilityError("rate_limited", "later", retryable=True)
        return {"n": n}

    work = Work(behave)
    result = start(context(store, work, sandbox), ROW, {}, run="r", stop=stop)
    assert (result.stop, result.dispatched) == ("cancelled", 1)
    assert (history(store).attempts, kinds(store).count("record")) == ({}, 0)
    final = resume(context(store, work, sandbox), "r")
    assert (final.status, final.result[0]) == ("completed", {"n": 4})  # type: ignore[index,call-overload]


def test_a_call_that_fails_while_landing_is_no_longer_in_flight(store: MemoryStore, sandbox: Sandbox) -> None:
    """The one that would pass another time comes back first: who presses ^C again is told of the other one alone, and
    of none at the end."""
    progress, heard, counts, stop = Progress(None), Heard(), [], Stop()
    back = heard.flag(lambda event: event["event"] == "retry")

    def observe(event: Mapping[str, Json]) -> None:
        progress(event)
        heard(event)

    async def behave(request: Request) -> Any:
        if request.payload == {"i": 0}:
            await stop.asked()
            raise CapabilityError("rate_limited", "later", retryable=True)
        if request.payload == {"i": 1}:
            async with asyncio.timeout(10):
                await until(back)
            counts.append(progress.flying)

    script = """
async def orchestrate(ctx, args):
    return await ctx.parallel([ctx.run("art.make", {"i": i}) for i in range(2)])
"""
    work = Work(lambda request, n: behave(request))
    result = start(context(store, work, sandbox, observer=observe), script, {}, run="r", stop=stop)
    assert (result.stop, result.dispatched, result.committed) == ("cancelled", 2, 1)
    assert (counts, progress.flying) == ([1], 0)
    (told,) = heard.of("retry")
    assert (told["code"], told["in"]) == ("rate_limited", None)


def test_a_failure_that_is_certain_is_kept_when_it_comes_in_while_landing(store: MemoryStore, sandbox: Sandbox) -> None:
    """It is an outcome: a resume hands it over, and the script may handle it."""
    stop = Stop()
    script = """
async def orchestrate(ctx, args):
    try:
        return await ctx.run("art.make", {"i": 1})
    except CapabilityError as e:
        return e.code
"""

    async def behave(request: Request) -> Any:
        await stop.asked()
        raise CapabilityError("refused", "no")

    work = Work(lambda request, n: behave(request))
    assert start(context(store, work, sandbox), script, {}, run="r", stop=stop).stop == "cancelled"
    final = resume(context(store, work, sandbox), "r")
    assert (final.status, final.result, len(work.requests)) == ("completed", "refused", 1)


def test_an_outcome_that_is_lost_while_landing_is_named(store: MemoryStore, sandbox: Sandbox) -> None:
    """The run is cancelled, and the result says which call is unresolved."""
    stop = Stop()

    async def behave(request: Request) -> Any:
        await stop.asked()
        raise UnknownOutcome("lost")

    work = Work(lambda request, n: behave(request))
    result = start(context(store, work, sandbox), ROW, {}, run="r", stop=stop)
    assert result.stop == "cancelled"
    assert result.details["unresolved"] == ["orchestrate/for.0[0] > orchestrate/for.0/art.make#0"]


@pytest.mark.parametrize("at", range(1, 5))
def test_a_cancellation_by_an_operator_comes_before_the_next_effect(
    at: int, store: MemoryStore, sandbox: Sandbox
) -> None:
    """It is written beside the driver while a call is in flight: no later call ever leaves, however quick the run."""
    operator = store.another()

    def behave(request: Request, n: int) -> Any:
        if n == at:
            assert cancel(context(operator, Work(), sandbox), "r") is True

    work = Work(behave)
    result = start(context(store, work, sandbox), ROW, {}, run="r")
    assert len(work.requests) == at
    if at < 4:
        assert (result.status, result.stop) == ("stopped", "cancelled")
    assert history(store).attempts == {}
    final = resume(context(store, work, sandbox), "r")
    assert (final.status, len(work.requests), work.twice) == ("completed", 4, [])
    assert sound(store)


def test_a_cancellation_between_the_lease_and_the_first_step_counts(store: MemoryStore, sandbox: Sandbox) -> None:
    """The operator was told that a process drives the run: then it has to stop it, a new run and one that goes on."""
    operator = store.another()
    heard = []

    class Between(Faulty):
        """A store in which an operator is just quicker than what the driver does once it has the lease."""

        def begin(self, *args: Any, **more: Any) -> Any:
            begun = super().begin(*args, **more)
            heard.append(cancel(context(operator, Work(), sandbox), "r"))
            return begun

        def append(self, run: str, entries: Any, **more: Any) -> Any:
            if entries[0].kind == "drive":
                heard.append(cancel(context(operator, Work(), sandbox), "r"))
            return super().append(run, entries, **more)

    work = Work()
    between = context(Between(store), work, sandbox)
    result = start(between, ROW, {}, run="r")
    assert heard == [True]
    assert (result.stop, work.requests) == ("cancelled", [])
    again = resume(between, "r")
    assert heard == [True, True]
    assert (again.stop, work.requests) == ("cancelled", [])


def test_a_cancellation_of_a_run_that_nobody_drives_says_so_and_stops_no_later_attempt(
    store: MemoryStore, sandbox: Sandbox
) -> None:
    """There is nothing to end."""
    stop = threading.Event()
    stop.set()
    work = Work()
    start(context(store, work, sandbox), ROW, {}, run="r", stop=stop)
    assert cancel(context(store, work, sandbox), "r") is False
    assert resume(context(store, work, sandbox), "r").status == "completed"


def test_a_cancellation_that_a_dead_driver_never_saw_stops_no_later_attempt(
    store: MemoryStore, sandbox: Sandbox
) -> None:
    """Whoever resumes a run wants it to go on."""
    dead = store.another()
    operator = store.another()
    stop = threading.Event()
    stop.set()
    work = Work()
    start(context(store, work, sandbox), ROW, {}, run="r", stop=stop)
    dead.acquire("r")
    assert cancel(context(operator, work, sandbox), "r") is True
    dead.close()
    assert resume(context(store, work, sandbox), "r").status == "completed"


def test_an_error_of_our_own_lets_calls_in_flight_land(store: MemoryStore, sandbox: Sandbox) -> None:
    """Whatever ends a drive, what was paid for is committed first."""
    release = threading.Event()

    class Broken(Exception):
        """Something that nobody expected."""

    class Clock:
        """A clock that breaks once a call is in flight."""

        def __init__(self, inner: Any) -> None:
            self.inner, self.broken = inner, False

        def __getattr__(self, name: str) -> Any:
            return getattr(self.inner, name)

        def monotonic(self) -> float:
            if self.broken:
                self.broken = False
                release.set()
                raise Broken
            return float(self.inner.monotonic())

    from addendum.testing.clock import ManualClock

    clock = Clock(ManualClock())
    heard = Heard()

    async def behave(request: Request) -> None:
        clock.broken = True
        await until(release)

    work = Work(lambda request, n: behave(request))
    with pytest.raises(Broken):
        start(context(store, work, sandbox, clock=clock, observer=heard), ROW, {}, run="r")  # type: ignore[arg-type]
    assert history(store).committed == 1
    work.behave = None
    final = resume(context(store, work, sandbox), "r")
    assert (final.status, work.twice) == ("completed", [])


def test_a_lease_that_was_lost_stops_the_run_and_the_next_driver_finds_what_was_sent(
    store: MemoryStore, sandbox: Sandbox
) -> None:
    """A driver that was taken for dead can't write any more; its call is unresolved for the one who took over."""
    other = store.another()

    class Fenced(Faulty):
        """A store that another process takes over while the second call is in flight."""

        def append(self, run: str, entries: Any, **more: Any) -> Any:
            if taken == [None] and entries[0].kind == "record":
                store.release(more["lease"])
                taken.append(other.acquire(run))
            return super().append(run, entries, **more)

    taken: list[Any] = []

    def behave(request: Request, n: int) -> None:
        if n == 2:
            taken.append(None)

    work = Work(behave)
    result = start(context(Fenced(store), work, sandbox), ROW, {}, run="r")
    assert (result.stop, len(work.requests)) == ("store_unavailable", 2)
    assert [entry["result"] for entry in result.details["unsaved"]] == [{"n": 2}]
    other.close()
    assert resume(context(store, work, sandbox), "r").stop == "unresolved"


def test_a_store_that_fails_while_landing_shows_what_was_paid(store: MemoryStore, sandbox: Sandbox) -> None:
    """Cancelled, and then the disk is full: every result that came in is in the step's result."""
    stop = threading.Event()

    class Full(Faulty):
        """A store that takes no record once the run is stopped."""

        def append(self, run: str, entries: Any, **more: Any) -> Any:
            if stop.is_set():
                raise StoreUnavailable("full")
            return super().append(run, entries, **more)

    def behave(request: Request, n: int) -> None:
        if n == 4:
            stop.set()

    work = Work(behave)
    result = start(context(Full(store), work, sandbox), WIDE, {}, run="r", stop=stop)
    assert result.stop in ("cancelled", "store_unavailable")
    assert 4 in [entry["result"]["n"] for entry in result.details["unsaved"]]
    assert len(result.details["unsaved"]) == len(history(store).attempts)
