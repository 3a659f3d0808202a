"""The asynchronous side of the broker: providers run on an event loop, their answers come back through a queue.

A run is driven by one plain thread. It never awaits: it hands a batch of requests to the loop and takes what was
answered from `answers`, in the order in which it came.
"""

from __future__ import annotations

import asyncio
import queue
import threading
import time
from collections.abc import Sequence
from typing import NamedTuple

from addendum.broker import fit
from addendum.errors import CapabilityError, UnknownOutcome
from addendum.ports import Provider, Reply, Request

CLOSING = 1.0
"""Seconds that handlers get to end when the event loop ends. One that doesn't dies with the process."""


class Answered(NamedTuple):
    """What became of a dispatch. `attempt` is its number; exactly one of `reply`, `error` and `unknown` is set.
    `seconds` is the provider's time. `data` are the canonical bytes of the reply's value, None if they weren't made
    yet; `unfit` says why a reply can't be kept, "" if it can."""

    attempt: int
    seconds: float
    reply: Reply | None = None
    error: CapabilityError | None = None
    unknown: str = ""
    data: bytes | None = None
    unfit: str = ""


class Wake:
    """Put into the queue of answers to wake the thread that waits for them."""


class Dispatcher:
    """Runs a provider on an event loop: a given one, or an own one in a thread of its own."""

    def __init__(self, provider: Provider, loop: asyncio.AbstractEventLoop | None = None) -> None:
        self.provider = provider
        self.answers: queue.SimpleQueue[Answered | Wake] = queue.SimpleQueue()
        self._loop = loop
        self._thread: threading.Thread | None = None
        self._tasks: set[asyncio.Task[None]] = set()

    def send(self, requests: Sequence[tuple[Request, float]]) -> None:
        """Dispatch requests, each with its time limit in seconds, and return at once."""
        self._running().call_soon_threadsafe(self._start, requests)

    def lookup(self, capability: str, key: str, timeout: float = 30.0) -> Reply | None:
        """Ask the provider what became of an earlier dispatch; None if it can't say or doesn't answer in time."""
        asked = asyncio.run_coroutine_threadsafe(self._lookup(capability, key, timeout), self._running())
        try:
            found = asked.result(timeout + 1)
        except Exception:  # noqa: BLE001 - no answer is no answer, whatever the reason
            return None
        if found is None:
            return None
        answered, _, unfit = fit.reply(found)
        return None if unfit else answered

    async def _lookup(self, capability: str, key: str, timeout: float) -> Reply | None:
        try:
            async with asyncio.timeout(timeout):
                return await self.provider.lookup(capability, key)
        except BaseException:  # noqa: BLE001 - a SystemExit would end the event loop
            return None

    def wake(self) -> None:
        """Wake the thread that waits for answers."""
        self.answers.put(Wake())

    def close(self) -> None:
        """End an own event loop. Calls in flight are abandoned: their attempts stay unresolved."""
        loop, thread = self._loop, self._thread
        if thread is None or loop is None:
            return
        self._thread = self._loop = None
        loop.call_soon_threadsafe(loop.stop)
        thread.join(CLOSING)

    def _running(self) -> asyncio.AbstractEventLoop:
        if self._loop is None:
            self._loop = asyncio.new_event_loop()
            self._thread = threading.Thread(target=_serve, args=(self._loop,), name="addendum-providers", daemon=True)
            self._thread.start()
        return self._loop

    def _start(self, requests: Sequence[tuple[Request, float]]) -> None:
        """Start calls. A task is kept until it answers. One that is cancelled before its first step never does, and is
        kept as long as the dispatcher, of which nobody has any use then: its loop was ended. Its call gets overdue."""
        loop = asyncio.get_running_loop()
        for request, timeout in requests:
            self._tasks.add(loop.create_task(self._call(request, timeout, loop)))

    async def _call(self, request: Request, timeout: float, loop: asyncio.AbstractEventLoop) -> None:
        """Let the provider do the work of one call. The answer is put into the queue at the very end: the thread that
        waits for it goes on only when this one lets it, so nothing is left to do then, such as a task's callback.

        The timer does what `asyncio.timeout` does for a task that nobody but this call has (ADR 0001)."""
        task = asyncio.current_task(loop)
        assert task is not None
        started = time.perf_counter()
        expired: list[bool] = []
        timer = loop.call_at(loop.time() + timeout, _expire, task, expired)
        reply: Reply | None = None
        error: CapabilityError | None = None
        data: bytes | None = None
        unknown = unfit = ""
        try:
            # What it returned is copied before the handler can go on with it.
            reply, data, unfit = fit.reply(await self.provider.dispatch(request))
        except CapabilityError as failed:
            error = fit.failure(failed)
        except UnknownOutcome as lost:
            unknown = fit.text(lost) or "the provider can't tell"
        except TimeoutError as late:
            unknown = f"no answer within {timeout:g} s" if expired else fit.text(late) or "it timed out"
        except asyncio.CancelledError:
            # Whoever cancelled it, the loop or the provider itself: without an answer, the driver would wait for ever.
            only = expired and task.uncancel() <= 0
            unknown = f"no answer within {timeout:g} s" if only else "the call was cancelled while it was under way"
        except BaseException as broken:  # noqa: BLE001 - whatever a handler raises is the call's failure
            error = fit.broken(broken)
        seconds = time.perf_counter() - started
        timer.cancel()
        self._tasks.discard(task)
        self.answers.put(Answered(request.attempt, seconds, reply, error, unknown, data, unfit))


def _expire(task: asyncio.Task[None], expired: list[bool]) -> None:
    expired.append(True)
    task.cancel()


def _serve(loop: asyncio.AbstractEventLoop) -> None:
    asyncio.set_event_loop(loop)
    while True:
        try:
            loop.run_forever()
            break
        except (SystemExit, KeyboardInterrupt):
            continue  # out of a task of a handler's own: asyncio lets these two through, and the others are under way
    tasks = asyncio.all_tasks(loop)
    for task in tasks:
        task.cancel()
    loop.run_until_complete(asyncio.gather(*tasks, return_exceptions=True))
    loop.close()
