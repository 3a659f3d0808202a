"""Handlers that misbehave: what they raise, return, hold back or break is the outcome of one call, and no more."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager
from functools import partial
from pathlib import Path
from typing import Any

import pytest
import rig
from rig import OPAQUE, Raw, Work, catalog, context, history, kinds, sound

from addendum.errors import CapabilityError, RunBusy, UnknownOutcome
from addendum.ports import Reply, Request, Sandbox, Store, Usage
from addendum.runs.context import Context
from addendum.runs.operate import reconcile
from addendum.runs.start import resume, start
from addendum.store.sqlite import SqliteStore
from addendum.testing.clock import ManualClock
from addendum.testing.memory_store import MemoryStore

ONE = """
async def orchestrate(ctx, args):
    return await ctx.run("art.make", {"i": 1})
"""
READ = """
async def orchestrate(ctx, args):
    return await ctx.run("text.read", {"i": 1})
"""
CAUGHT = """
async def orchestrate(ctx, args):
    try:
        return await ctx.run("art.make", {"i": 1})
    except CapabilityError as e:
        return {"code": e.code, "message": e.message, "retryable": e.retryable}
"""
PAIR = """
async def one(ctx, i):
    return await ctx.run("art.make", {"i": i})

async def orchestrate(ctx, args):
    return await ctx.parallel([one(ctx, i) for i in range(2)], return_errors=False)
"""


BOTH = """
async def orchestrate(ctx, args):
    return await ctx.parallel([ctx.run("mail.send", {}), ctx.run("art.make", {})])
"""


class Unreadable(Exception):
    """An error whose own text can't be read."""

    def __str__(self) -> str:
        raise RuntimeError("no text")


class Unhelpful(CapabilityError):
    """A failure whose parts are not what they are declared to be."""

    def __init__(self) -> None:
        super().__init__("x")
        self.code = None  # type: ignore[assignment]
        self.message = b"\xff"  # type: ignore[assignment]
        self.retryable = "yes"  # type: ignore[assignment]
        self.cost_usd = "a lot"


def _raising(error: BaseException) -> Callable[[Request], Any]:
    def function(request: Request) -> Any:
        raise error

    return function


@pytest.mark.parametrize(
    "error",
    [
        ValueError("no"),
        SystemExit(3),
        KeyboardInterrupt(),
        GeneratorExit(),
        RecursionError("deep"),
        MemoryError(),
        ExceptionGroup("several", [ValueError("one"), TypeError("two")]),
        BaseExceptionGroup("several", [SystemExit(1)]),
        Unreadable(),
        ValueError("\ud800 half a letter"),
        CapabilityError("no such code", "said"),
        CapabilityError("refused", "\udfff"),
        Unhelpful(),
    ],
    ids=repr,
)
def test_whatever_a_handler_raises_is_a_failure_that_the_script_may_catch(
    error: BaseException, store: MemoryStore, sandbox: Sandbox
) -> None:
    """The run completes with the failure's code in hand, and the journal can be verified."""
    result = start(context(store, Raw(_raising(error)), sandbox), CAUGHT, {}, run="r")
    assert result.status == "completed", result.message
    assert result.result["code"] in ("provider_error", "refused")  # type: ignore[index,call-overload]
    assert isinstance(result.result["message"], str)  # type: ignore[index,call-overload]
    assert (result.dispatched, result.executed) == (1, 0)
    assert sound(store)


@pytest.mark.parametrize("error", [asyncio.CancelledError(), TimeoutError("the socket timed out"), UnknownOutcome()])
def test_a_handler_that_cannot_tell_leaves_a_side_effecting_call_unresolved_with_its_key(
    error: BaseException, store: MemoryStore, sandbox: Sandbox
) -> None:
    """The run stops, the key in the journal is the one that was sent, and no resume sends the call again."""
    provider = Raw(_raising(error))
    result = start(context(store, provider, sandbox), ONE, {}, run="r")
    assert (result.status, result.stop, result.exit_code) == ("stopped", "unresolved", 4)
    (attempt,) = history(store).attempts.values()
    assert attempt.key == provider.requests[0].key == result.details["where"]["key"]
    again = resume(context(store, provider, sandbox), "r")
    assert (again.stop, again.dispatched, len(provider.requests)) == ("unresolved", 0, 1)
    assert sound(store)


@pytest.mark.parametrize("error", [asyncio.CancelledError(), TimeoutError(), UnknownOutcome("lost")])
def test_a_read_that_cannot_tell_is_a_timeout_and_is_tried_again(
    error: BaseException, store: MemoryStore, sandbox: Sandbox
) -> None:
    """The host retries it by itself, with a new attempt each time."""

    def behave(request: Request, n: int) -> Any:
        if n < 3:
            raise error
        return {"n": n}

    work = Work(behave)
    result = start(context(store, work, sandbox), READ, {}, run="r")
    assert (result.status, result.result, result.dispatched) == ("completed", {"n": 3}, 3)
    assert len({request.key for request in work.requests}) == 3
    assert kinds(store).count("retry") == 2


def test_a_task_of_a_handler_that_ends_the_interpreter_ends_nothing(store: MemoryStore, sandbox: Sandbox) -> None:
    """A `SystemExit` in a task that the handler started doesn't take the event loop and the other calls with it."""

    async def exits() -> None:
        raise SystemExit(1)

    async def function(request: Request) -> Any:
        with pytest.raises(SystemExit):
            await asyncio.get_running_loop().create_task(exits())
        return Reply({"n": 1})

    result = start(context(store, Raw(function), sandbox), PAIR, {}, run="r")
    assert (result.status, result.dispatched) == ("completed", 2)


def test_a_read_that_hangs_beyond_its_time_is_retried_and_fails_as_a_timeout(
    store: MemoryStore, sandbox: Sandbox
) -> None:
    """Its deadline is the capability's; the script sees `timeout`."""

    async def hang(request: Request) -> Any:
        await asyncio.get_running_loop().create_future()

    quick = catalog(text_read={"timeout": 0.01, "retries": 1})
    provider = Raw(hang)
    result = start(context(store, provider, sandbox, capabilities=quick), READ, {}, run="r")
    assert (result.status, result.error, result.dispatched) == ("failed", "timeout", 2)


def test_a_side_effecting_call_that_hangs_beyond_its_time_is_unresolved(store: MemoryStore, sandbox: Sandbox) -> None:
    """It may still land: it is never sent again by itself, and a person can write its result back."""

    async def hang(request: Request) -> Any:
        await asyncio.get_running_loop().create_future()

    quick = catalog(art_make={"timeout": 0.01})
    provider = Raw(hang)
    result = start(context(store, provider, sandbox, capabilities=quick), ONE, {}, run="r")
    assert (result.stop, result.dispatched) == ("unresolved", 1)
    made = context(store, provider, sandbox, capabilities=quick)
    reconcile(made, "r", result={"n": 7}, reason="seen at the provider's")
    again = resume(made, "r")
    assert (again.status, again.result, again.dispatched) == ("completed", {"n": 7}, 0)


@contextmanager
def _blocked() -> Iterator[Callable[[Request], Any]]:
    """Yield a handler that blocks its event loop's thread until the end of the block."""
    gate = threading.Event()

    def function(request: Request) -> Any:
        gate.wait()
        return Reply({"n": 1})

    try:
        yield function
    finally:
        gate.set()


@pytest.mark.slow
def test_a_handler_that_blocks_the_event_loop_is_given_up_after_its_time(store: MemoryStore, sandbox: Sandbox) -> None:
    """Nobody is left to say that the time is over, so the driver says it."""
    with _blocked() as function:
        provider = Raw(function)
        clock = ManualClock(tick=100.0)
        result = start(context(store, provider, sandbox, clock=clock), ONE, {}, run="r")
        assert (result.stop, result.dispatched) == ("unresolved", 1)
    assert sound(store)


@pytest.mark.slow
def test_an_answer_that_comes_after_its_call_was_given_up_is_kept(store: MemoryStore, sandbox: Sandbox) -> None:
    """While the run lands, a late outcome ends the uncertainty: the next attempt replays it."""
    gate = threading.Event()

    async def function(request: Request) -> Any:
        if request.capability == "mail.send":
            gate.wait()  # on the event loop's own thread: both calls are held up
        return Reply({"n": 1})

    def observer(event: Any) -> None:
        if event["event"] == "unresolved":
            gate.set()

    patience = catalog(mail_send={"timeout": 1.0}, art_make={"timeout": 1e9})
    made = context(
        store, Raw(function), sandbox, clock=ManualClock(tick=40.0), capabilities=patience, observer=observer
    )
    result = start(made, BOTH, {}, run="r")
    assert (result.stop, result.details["unresolved"], result.committed) == ("unresolved", [], 2)
    assert history(store).attempts == {}
    again = resume(made, "r")
    assert (again.status, again.dispatched, again.result) == ("completed", 0, [{"n": 1}, {"n": 1}])
    assert sound(store)


@pytest.mark.parametrize(
    "value",
    [
        {"n": float("nan")},
        {"n": float("inf")},
        b"bytes",
        {1, 2},
        OPAQUE,
        {1: "a key that is no text"},
        {"n": 2**60},
        {"n": "\ud800"},
        {"n": "no integer"},
        {},
        None,
        type("N", (int,), {})(3),
    ],
    ids=repr,
)
def test_a_result_that_cannot_be_used_is_a_failure_that_was_charged(
    value: Any, store: MemoryStore, sandbox: Sandbox
) -> None:
    """What JSON can't say and what doesn't fit the schema never reach the script; the money is counted."""
    provider = Raw(lambda request: Reply(value))
    result = start(context(store, provider, sandbox), CAUGHT, {}, run="r")
    assert result.status == "completed"
    assert result.result["code"] == "provider_error"  # type: ignore[index,call-overload]
    assert result.total_cost == 20_000_000
    assert sound(store)


def test_a_cyclic_result_is_a_failure(store: MemoryStore, sandbox: Sandbox) -> None:
    """A list that holds itself is no JSON value."""
    cyclic: list[Any] = []
    cyclic.append(cyclic)
    result = start(context(store, Raw(lambda request: Reply(cyclic)), sandbox), CAUGHT, {}, run="r")
    assert result.result["code"] == "provider_error"  # type: ignore[index,call-overload]


def test_a_result_of_ten_megabytes_is_a_failure_that_names_the_limit(store: MemoryStore, sandbox: Sandbox) -> None:
    """The journal doesn't take it, and the script learns why."""
    big = {"n": 1, "text": "x" * 10_000_000}
    result = start(context(store, Raw(lambda request: Reply(big)), sandbox), CAUGHT, {}, run="r")
    assert result.result["code"] == "provider_error"  # type: ignore[index,call-overload]
    assert "4,194,304" in result.result["message"]  # type: ignore[index,call-overload,operator]


@pytest.mark.parametrize("value", [None, {"n": 1}, 3, "text"])
def test_what_is_no_reply_is_a_failure(value: Any, store: MemoryStore, sandbox: Sandbox) -> None:
    """A provider that forgets the `Reply` around its value doesn't hang the run."""
    result = start(context(store, Raw(lambda request: value), sandbox), CAUGHT, {}, run="r")
    assert result.result["code"] == "provider_error"  # type: ignore[index,call-overload]
    assert "no Reply" in result.result["message"]  # type: ignore[index,call-overload,operator]


def test_a_handler_that_changes_its_payload_changes_nothing_else(store: MemoryStore, sandbox: Sandbox) -> None:
    """Each dispatch gets a copy: the retry sends what the script passed, and so does the journal."""
    seen = []

    def behave(request: Request, n: int) -> Any:
        assert isinstance(request.payload, dict)
        seen.append(dict(request.payload))
        request.payload["i"] = "changed"
        if n == 1:
            raise CapabilityError("rate_limited", "once more", retryable=True)

    result = start(context(store, Work(behave), sandbox), ONE, {}, run="r")
    assert (result.status, seen) == ("completed", [{"i": 1}, {"i": 1}])
    assert sound(store)


def test_a_result_that_is_changed_after_it_was_returned_stays_what_it_was(store: MemoryStore, sandbox: Sandbox) -> None:
    """Two calls that return one object, changed in between, get two results, and a replay serves the same."""
    shared: dict[str, Any] = {}

    def behave(request: Request, n: int) -> Any:
        shared["n"] = n
        return Reply(shared)

    work = Work(behave)
    result = start(context(store, work, sandbox), PAIR, {}, run="r")
    assert result.result == [{"n": 1}, {"n": 2}]
    shared["n"] = 99
    assert resume(context(store, work, sandbox), "r").result == [{"n": 1}, {"n": 2}]


@pytest.mark.parametrize("cost", [-1, float("nan"), float("inf"), 0.5, "1", True, 10**30, OPAQUE], ids=repr)
def test_a_reported_cost_that_is_no_amount_counts_as_the_price(cost: Any, store: MemoryStore, sandbox: Sandbox) -> None:
    """A paid result isn't lost for it, and no account goes down."""
    provider = Raw(lambda request: Reply({"n": 1}, Usage(cost=cost, tokens=cost)))
    result = start(context(store, provider, sandbox), ONE, {}, run="r")
    assert (result.status, result.total_cost) == ("completed", 20_000_000)
    assert history(store).totals["art.make"].tokens == 0
    assert sound(store)


ABSURD = ["1e20", "1e999989", "1e9999999", "9" * 5000, "9007199.254740993", 10**400]
"""More than a journal can hold, or than anybody can write down in a minute."""


@pytest.mark.parametrize(
    "cost", ["-1", "a lot", None, "NaN", "Infinity", 3.5, *ABSURD], ids=lambda cost: str(type(cost))
)
def test_a_failure_whose_charge_is_no_amount_costs_nothing(cost: Any, store: MemoryStore, sandbox: Sandbox) -> None:
    """The failure is an ordinary one."""
    provider = Raw(_raising(CapabilityError("refused", "no", cost_usd=cost)))
    result = start(context(store, provider, sandbox), CAUGHT, {}, run="r")
    assert (result.result["code"], result.total_cost) == ("refused", 0)  # type: ignore[index,call-overload]


@pytest.mark.parametrize("pause", [0.0, -5, float("nan"), "soon", None, True, [1]], ids=repr)
def test_a_retryable_failure_with_a_strange_pause_is_retried_all_the_same(
    pause: Any, store: MemoryStore, sandbox: Sandbox
) -> None:
    """`retry_after` is a hint, not a way to stop the driver."""

    def behave(request: Request, n: int) -> Any:
        if n == 1:
            raise CapabilityError("rate_limited", "later", retryable=True, retry_after=pause)

    result = start(context(store, Work(behave), sandbox), ONE, {}, run="r")
    assert (result.status, result.dispatched) == ("completed", 2)


def test_a_pause_that_a_provider_asks_for_is_kept(store: MemoryStore, sandbox: Sandbox) -> None:
    """The retry leaves no earlier than `retry_after` says, by the clock that only grows."""
    clock = ManualClock(tick=30.0)
    times = []

    def behave(request: Request, n: int) -> Any:
        times.append(clock.now())
        if n == 1:
            raise CapabilityError("rate_limited", "later", retryable=True, retry_after=20.0)

    heard = rig.Heard()
    result = start(context(store, Work(behave), sandbox, clock=clock, observer=heard), ONE, {}, run="r")
    assert result.status == "completed"
    assert times[1] - times[0] >= 20.0
    assert [event["in"] for event in heard.of("retry")] == [20.0]


def test_a_schema_that_is_none_stops_before_anything_is_sent(store: MemoryStore, sandbox: Sandbox) -> None:
    """An output schema is compiled before its capability is called, not when the money is spent."""
    from addendum.errors import ConfigError

    broken = catalog(art_make={"output": {"type": "no such type"}})
    provider = Raw(lambda request: Reply({"n": 1}))
    with pytest.raises(ConfigError, match="no JSON Schema"):
        start(context(store, provider, sandbox, capabilities=broken), ONE, {}, run="r")
    assert provider.requests == []


def test_a_schema_that_refers_to_another_machine_is_never_fetched(store: MemoryStore, sandbox: Sandbox) -> None:
    """The call fails before it is sent, and says that the schema leads nowhere."""
    remote = catalog(art_make={"input": {"$ref": "https://schemas.invalid/x.json"}})
    provider = Raw(lambda request: Reply({"n": 1}))
    result = start(context(store, provider, sandbox, capabilities=remote), CAUGHT, {}, run="r")
    assert result.result["code"] == "invalid_input"  # type: ignore[index,call-overload]
    assert provider.requests == []


def test_a_lookup_that_misbehaves_leaves_the_attempt_unresolved(store: MemoryStore, sandbox: Sandbox) -> None:
    """Whatever it raises or returns, the event loop lives and nothing is taken for a result."""
    with_lookup = catalog(art_make={"lookup": True})
    provider = Raw(_raising(UnknownOutcome("lost")))
    start(context(store, provider, sandbox, capabilities=with_lookup), ONE, {}, run="r")

    class Liar(Raw):
        found: Any = None

        async def lookup(self, capability: str, key: str) -> Any:
            if isinstance(self.found, BaseException):
                raise self.found
            return self.found

    liar = Liar(lambda request: Reply({"n": 5}))
    for found in (SystemExit(1), asyncio.CancelledError(), ValueError(), {"n": 1}, Reply(OPAQUE), None):
        liar.found = found
        result = resume(context(store, liar, sandbox, capabilities=with_lookup), "r")
        assert (result.stop, result.dispatched) == ("unresolved", 0), found
    liar.found = Reply({"n": 5}, Usage(cost=-3))
    result = resume(context(store, liar, sandbox, capabilities=with_lookup), "r")
    assert (result.status, result.result, result.dispatched) == ("completed", {"n": 5}, 0)
    assert result.total_cost == 20_000_000


THREE = """
async def orchestrate(ctx, args):
    return await ctx.parallel([ctx.run("art.make", {"n": n}) for n in range(3)])
"""


def _three_lost(store: Store, clock: ManualClock, sandbox: Sandbox) -> Callable[[Any], Context]:
    """Leave three calls unresolved that can be looked up; return what puts a provider before them."""
    with_lookup = catalog(art_make={"lookup": True})
    made = partial(context, store, sandbox=sandbox, capabilities=with_lookup, clock=clock)
    assert start(made(Raw(_raising(UnknownOutcome("lost")))), THREE, {}, run="r").stop == "unresolved"
    return made


def test_lookups_that_take_long_do_not_cost_the_lease(tmp_path: Path, sandbox: Sandbox) -> None:
    """Each may take half a minute: a driver that asks for three was taken for one that is cut off."""
    clock = ManualClock()
    with closing(SqliteStore(tmp_path / "store.db", clock=clock)) as store:
        made = _three_lost(store, clock, sandbox)

        class Late(Work):
            async def lookup(self, capability: str, key: str) -> Reply | None:
                clock.advance(40)
                with closing(SqliteStore(tmp_path / "store.db", clock=clock)) as other, pytest.raises(RunBusy):
                    other.acquire("r")
                return Reply({"n": 7})

        result = resume(made(Late()), "r")
        assert (result.status, result.result, result.dispatched) == ("completed", [{"n": 7}] * 3, 0)
        assert sound(store)


def test_a_stop_waits_for_one_lookup_at_most(tmp_path: Path, sandbox: Sandbox) -> None:
    """^C while providers are asked what became of calls: the others aren't asked."""
    clock, stop, asked = ManualClock(), threading.Event(), []
    with closing(SqliteStore(tmp_path / "store.db", clock=clock)) as store:
        made = _three_lost(store, clock, sandbox)

        class Stopping(Work):
            async def lookup(self, capability: str, key: str) -> Reply | None:
                asked.append(key)
                stop.set()
                return None

        result = resume(made(Stopping()), "r", stop=stop)
        assert (result.status, result.dispatched, len(asked)) == ("stopped", 0, 1)


def test_an_observer_that_raises_or_changes_what_it_hears_changes_nothing(store: MemoryStore, sandbox: Sandbox) -> None:
    """Whoever watches can't change the run."""

    def observer(event: Any) -> None:
        event.clear()
        raise RuntimeError("no")

    result = start(context(store, Work(), sandbox, observer=observer), PAIR, {}, run="r")
    assert result.result == [{"n": 1}, {"n": 2}]
