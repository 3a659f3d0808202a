"""The provider of registered functions, without a run around it."""

from __future__ import annotations

import asyncio
import threading
from typing import Any

import pytest

from addendum.authority.declare import declare
from addendum.errors import CapabilityError
from addendum.ports import Reply, Request
from addendum.providers.local import LocalProvider
from addendum.providers.threads import Threads


def request(payload: Any = None, capability: str = "work.do") -> Request:
    """Return a dispatch."""
    return Request(capability=capability, payload=payload or {}, key="k-1", run="r", identity="i", attempt=1)


def registered(function: Any, **more: Any) -> LocalProvider:
    """Return a provider with one handler."""
    provider = LocalProvider()
    provider.register(declare("work.do", effect="read"), function, scope={}, **more)
    return provider


class Waits:
    """A callable object that is awaited."""

    async def __call__(self, n: int) -> int:
        """Count on."""
        await asyncio.sleep(0)
        return n + 1


def test_what_can_be_called() -> None:
    """A function runs in a thread; a coroutine function, an object like one, and an awaitable result are awaited."""

    async def coroutine(n: int) -> int:
        assert threading.current_thread() is threading.main_thread()
        return n + 1

    def function(n: int) -> int:
        assert threading.current_thread() is not threading.main_thread()
        return n + 1

    for handler in (coroutine, function, Waits(), lambda n: coroutine(n)):
        assert asyncio.run(registered(handler).dispatch(request({"n": 1}))) == Reply(2)


def test_nobody_does_it() -> None:
    """A capability without a handler fails, unless there is another provider behind."""
    provider = LocalProvider()
    with pytest.raises(CapabilityError, match="nobody does the work"):
        asyncio.run(provider.dispatch(request()))
    behind = LocalProvider(rest=registered(lambda: "behind"))
    assert asyncio.run(behind.dispatch(request())) == Reply("behind")
    assert asyncio.run(behind.lookup("work.do", "k")) is None


def test_no_thread_in_time() -> None:
    """A call that never got a thread is a failure that is certain, so that it can be tried again."""
    provider = registered(lambda: None)
    provider._threads = Threads(most=0)

    async def main() -> None:
        async with asyncio.timeout(0.001):
            await provider.dispatch(request())

    with pytest.raises(CapabilityError, match="nothing was done") as caught:
        asyncio.run(main())
    assert (caught.value.code, caught.value.retryable) == ("rate_limited", True)


def test_lookup_gives_a_reply() -> None:
    """A lookup may return a value or a `Reply`; None means that it can't say."""
    for found, expected in ((None, None), ("done", Reply("done")), (Reply(None), Reply(None))):
        provider = registered(lambda: None, lookup=lambda key, found=found: found)
        assert asyncio.run(provider.lookup("work.do", "k")) == expected
    assert asyncio.run(registered(lambda: None).lookup("work.do", "k")) is None


def test_what_cannot_be_written_stays() -> None:
    """A model that can't be written is left as it is, for the broker to refuse."""
    from pydantic import BaseModel

    class Odd(BaseModel):
        value: Any

    odd = Odd(value=object())
    assert asyncio.run(registered(lambda: odd).dispatch(request())) == Reply(odd)
