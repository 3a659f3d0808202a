"""Dispatches: what becomes of a call whose time is over, or that is cancelled, whatever its handler makes of it."""

from __future__ import annotations

import asyncio
import contextvars
from collections.abc import Awaitable, Callable, Iterator

import pytest

from addendum.broker.dispatch import Answered, Dispatcher
from addendum.ports import Reply, Request

SECONDS = 0.02
LONG = 60.0
"""The time limit where something else comes first, on a busy machine too."""
SEEN: contextvars.ContextVar[int] = contextvars.ContextVar("seen", default=0)


class Scripted:
    """A provider of one handler."""

    def __init__(self, handler: Callable[[Request], Awaitable[Reply]]) -> None:
        self.handler = handler

    async def dispatch(self, request: Request) -> Reply:
        return await self.handler(request)

    async def lookup(self, capability: str, key: str) -> Reply | None:
        return None


@pytest.fixture
def made() -> Iterator[Callable[[Callable[[Request], Awaitable[Reply]]], Dispatcher]]:
    dispatchers: list[Dispatcher] = []

    def make(handler: Callable[[Request], Awaitable[Reply]]) -> Dispatcher:
        dispatchers.append(Dispatcher(Scripted(handler)))
        return dispatchers[-1]

    yield make
    for each in dispatchers:
        each.close()


def request(number: int = 1) -> Request:
    return Request(capability="a.b", payload={}, key="k", run="r", identity="orchestrate/a.b#0", attempt=number)


def answer(dispatcher: Dispatcher, seconds: float) -> Answered:
    dispatcher.send([(request(), seconds)])
    found = dispatcher.answers.get(timeout=10)
    assert isinstance(found, Answered)
    return found


async def sleeps(_: Request) -> Reply:
    await asyncio.sleep(60)
    return Reply(1)


async def says_it_all_the_same(_: Request) -> Reply:
    try:
        await asyncio.sleep(60)
    except asyncio.CancelledError:
        return Reply("late")
    return Reply("early")


async def times_out_by_itself(_: Request) -> Reply:
    raise TimeoutError("the other side is slow")


async def a_timeout_of_its_own_is_over_first(_: Request) -> Reply:
    async with asyncio.timeout(0):
        await asyncio.sleep(60)
    return Reply(1)


async def fails_when_it_is_cancelled(_: Request) -> Reply:
    try:
        await asyncio.sleep(60)
    except asyncio.CancelledError:
        raise TimeoutError("it gave up") from None
    return Reply(1)


async def cancels_itself(_: Request) -> Reply:
    task = asyncio.current_task()
    assert task is not None
    task.cancel()
    await asyncio.sleep(60)
    return Reply(1)


async def cancels_itself_when_its_time_is_over(_: Request) -> Reply:
    task = asyncio.current_task()
    assert task is not None
    try:
        await asyncio.sleep(60)
    except asyncio.CancelledError:
        task.cancel()
        raise
    return Reply(1)


async def by_asyncio(handler: Callable[[Request], Awaitable[Reply]], seconds: float, said: list[str]) -> None:
    """Say what `asyncio.timeout` makes of a handler."""
    try:
        async with asyncio.timeout(seconds) as limit:
            said.append(repr((await handler(request())).value))
    except TimeoutError as late:
        said.append(f"no answer within {seconds:g} s" if limit.expired() else str(late) or "it timed out")
    except asyncio.CancelledError:
        said.append("the call was cancelled while it was under way")


@pytest.mark.parametrize(
    ("handler", "seconds", "said"),
    [
        (sleeps, SECONDS, "no answer within 0.02 s"),
        (says_it_all_the_same, SECONDS, "'late'"),
        (times_out_by_itself, LONG, "the other side is slow"),
        (a_timeout_of_its_own_is_over_first, LONG, "it timed out"),
        (fails_when_it_is_cancelled, SECONDS, "no answer within 0.02 s"),
        (cancels_itself, LONG, "the call was cancelled while it was under way"),
        (cancels_itself_when_its_time_is_over, SECONDS, "the call was cancelled while it was under way"),
    ],
)
def test_a_time_limit_is_what_asyncio_makes_of_one(
    handler: Callable[[Request], Awaitable[Reply]], seconds: float, said: str, made: Callable[..., Dispatcher]
) -> None:
    found = answer(made(handler), seconds)
    assert (found.unknown or repr(found.reply.value if found.reply else None)) == said

    theirs: list[str] = []

    async def run() -> None:
        await asyncio.gather(asyncio.create_task(by_asyncio(handler, seconds, theirs)), return_exceptions=True)

    asyncio.run(run())
    assert theirs == [said]


def test_nothing_is_kept_of_a_call_that_is_answered(made: Callable[..., Dispatcher]) -> None:
    async def counts(asked: Request) -> Reply:
        return Reply(asked.attempt)

    dispatcher = made(counts)
    dispatcher.send([(request(number), 60.0) for number in range(5)])
    found = [dispatcher.answers.get(timeout=10) for _ in range(5)]
    assert [each.attempt for each in found if isinstance(each, Answered)] == [0, 1, 2, 3, 4]
    assert not dispatcher._tasks


def test_each_call_has_a_context_of_its_own(made: Callable[..., Dispatcher]) -> None:
    async def counts(asked: Request) -> Reply:
        SEEN.set(SEEN.get() + 1)
        await asyncio.sleep(0)
        return Reply(SEEN.get())

    dispatcher = made(counts)
    dispatcher.send([(request(number), 60.0) for number in range(3)])
    found = [dispatcher.answers.get(timeout=10) for _ in range(3)]
    assert [each.reply.value for each in found if isinstance(each, Answered) and each.reply is not None] == [1, 1, 1]
