"""A drive in a thread of its own, and three ways to wait for it: block, await, or look at its events.

Whoever stops waiting (^C, a cancelled task, an iteration that is left) asks for a clean end: nothing new is sent, and
what is in flight lands and is committed, before the interruption goes on its way. The thread is a daemon: a process
that ends all the same leaves what a crash leaves, and the next drive knows how to go on from that.
"""

from __future__ import annotations

import asyncio
import contextvars
import os
import queue
import threading
from collections.abc import AsyncGenerator, Callable, Generator, Mapping
from concurrent.futures import Future
from typing import Any, Final, Generic, TypeVar

from addendum.errors import UsageError

T = TypeVar("T")
Seen = Mapping[str, Any]

_ENDED: Final = None
"""Put behind the last event."""


class Driven(Generic[T]):
    """A function that runs in a thread from here on. `stop` is the event that asks it to end."""

    def __init__(self, function: Callable[[], T], stop: threading.Event) -> None:
        self.stop = stop
        self._function = function
        self._future: Future[T] = Future()
        self._pid = os.getpid()
        self._context = contextvars.copy_context()
        threading.Thread(target=self._run, name="addendum-run", daemon=True).start()

    def _run(self) -> None:
        try:
            value = self._context.run(self._function)
        except BaseException as error:  # noqa: BLE001 - it is raised where somebody waits
            self._future.set_exception(error)
        else:
            self._future.set_result(value)

    @property
    def running(self) -> bool:
        """Whether it hasn't ended yet. In a fork's child there is nothing that runs."""
        return self._pid == os.getpid() and not self._future.done()

    def check(self) -> None:
        """Raise `UsageError` in a fork's child: nobody there drives it, and waiting for it would never end."""
        if self._pid != os.getpid():
            raise UsageError(
                "This run is driven by another process.", hint="A process that was forked can look at it in the store."
            )

    def on_end(self, callback: Callable[[], None]) -> None:
        """Call a function once it has ended, in its thread; at once if it has."""
        self._future.add_done_callback(lambda _: callback())

    def wait(self) -> T:
        """Block until it has ended. An interrupt asks for a clean end and is raised after it; a second one at once."""
        try:
            return self._future.result()
        except KeyboardInterrupt:
            self.leave()
            raise

    def leave(self) -> None:
        """Ask for a clean end, and block until it has come."""
        self.stop.set()
        ended = threading.Event()
        self.on_end(ended.set)
        ended.wait()

    async def ended(self) -> T:
        """Await its end. A cancellation asks for a clean end and is raised after it."""
        done = self._landing()
        try:
            await asyncio.shield(done)
        except asyncio.CancelledError:
            await self.left()
            raise
        return self._future.result()

    async def left(self) -> None:
        """Ask for a clean end, and await it, however often this task is cancelled meanwhile."""
        self.stop.set()
        done = self._landing()
        while not done.done():
            try:
                await asyncio.wait([done])
            except asyncio.CancelledError:
                continue

    def _landing(self) -> asyncio.Future[None]:
        loop = asyncio.get_running_loop()
        done: asyncio.Future[None] = loop.create_future()
        self.on_end(lambda: _call(loop, lambda: None if done.done() else done.set_result(None)))
        return done


def events(
    start: Callable[[Callable[[Seen], None]], Driven[T]], last: Callable[[T], Seen]
) -> Generator[Seen, None, None]:
    """Start a drive with an observer, and yield what it sees; at last what `last` makes of the result.

    What the drive raises is raised behind the events. An iteration that is left asks for a clean end and waits for it.
    """
    seen: queue.SimpleQueue[Seen | None] = queue.SimpleQueue()
    driven = start(seen.put)
    driven.on_end(lambda: seen.put(_ENDED))
    try:
        while (event := seen.get()) is not _ENDED:
            yield event
            driven.check()
    finally:
        if driven.running:
            driven.leave()
    yield last(driven.wait())


async def events_ahead(
    start: Callable[[Callable[[Seen], None]], Driven[T]], last: Callable[[T], Seen]
) -> AsyncGenerator[Seen, None]:
    """As `events`, for `async for`."""
    loop = asyncio.get_running_loop()
    seen: asyncio.Queue[Seen | None] = asyncio.Queue()
    driven = start(lambda event: _call(loop, lambda: seen.put_nowait(event)))
    driven.on_end(lambda: _call(loop, lambda: seen.put_nowait(_ENDED)))
    try:
        while (event := await seen.get()) is not _ENDED:
            yield event
            driven.check()
    finally:
        if driven.running:
            await driven.left()
    yield last(await driven.ended())


def _call(loop: asyncio.AbstractEventLoop, callback: Callable[[], None]) -> None:
    try:
        loop.call_soon_threadsafe(callback)
    except RuntimeError:
        return  # the loop is closed: nobody looks any more
