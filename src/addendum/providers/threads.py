"""Threads for handlers: one event loop in a thread of its own, and daemon threads for handlers that block.

All are daemon threads on purpose. `concurrent.futures` joins its threads when the interpreter ends, so one handler that
hangs would keep the process alive for ever; here it dies with the process, and its attempt is unresolved as after any
other crash.
"""

from __future__ import annotations

import asyncio
import contextvars
import threading
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any, Final

MOST: Final = 256
"""Handlers that block at the same time; a call beyond them waits for a thread."""
IDLE_SECONDS: Final = 10.0
"""How long a thread without work stays."""
CLOSING: Final = 2.0
"""Seconds that handlers get to end when the event loop ends. One that doesn't dies with the process."""


class NoThread(Exception):
    """A call was given up before a thread was free for it: it never started."""


@dataclass(eq=False, slots=True)
class _Job:
    """A call that waits for a thread or runs in one. What it raised is kept as a value: a `StopIteration` or
    `SystemExit` can't travel through a future."""

    call: Callable[[], Any]
    loop: asyncio.AbstractEventLoop
    done: asyncio.Future[None]
    value: Any = None
    raised: BaseException | None = None

    def run(self) -> None:
        """Run the call."""
        try:
            self.value = self.call()
        except BaseException as error:  # noqa: BLE001 - a handler's SystemExit is its call's failure, not ours
            self.raised = error

    def wake(self) -> None:
        """Wake the one who waits."""
        try:
            self.loop.call_soon_threadsafe(self._wake)
        except RuntimeError:
            return  # the loop is closed: nobody waits any more

    def _wake(self) -> None:
        if not self.done.done():
            self.done.set_result(None)


@dataclass(eq=False, slots=True)
class Threads:
    """Daemon threads that are started when needed, kept for a while, and never joined."""

    most: int = MOST
    idle_seconds: float = IDLE_SECONDS
    _waiting: deque[_Job] = field(default_factory=deque)
    _changed: threading.Condition = field(default_factory=threading.Condition)
    _count: int = 0
    _idle: int = 0

    async def run(self, call: Callable[[], Any]) -> Any:
        """Run a function in a thread and return its value, or raise what it raised.

        Cancelled before a thread took it, raises `NoThread`; cancelled afterwards, the thread goes on alone.
        """
        loop = asyncio.get_running_loop()
        context = contextvars.copy_context()
        job = _Job(lambda: context.run(call), loop, loop.create_future())
        self._put(job)
        try:
            await job.done
        except asyncio.CancelledError:
            if self._withdraw(job):
                raise NoThread from None
            raise
        if job.raised is not None:
            raise job.raised if not isinstance(job.raised, StopIteration) else RuntimeError(repr(job.raised))
        return job.value

    def _put(self, job: _Job) -> None:
        with self._changed:
            self._waiting.append(job)
            if self._idle < len(self._waiting) and self._count < self.most:
                self._count += 1
                threading.Thread(target=self._work, name="addendum-handler", daemon=True).start()
            else:
                self._changed.notify()

    def _withdraw(self, job: _Job) -> bool:
        with self._changed:
            if job in self._waiting:
                self._waiting.remove(job)
                return True
            return False

    def _work(self) -> None:
        job: _Job | None = None
        while True:
            with self._changed:
                self._idle += 1
            if job is not None:
                job.wake()  # after it counts as idle, so that the next call finds it
                job = None  # what it returned isn't kept by a thread without work
            with self._changed:
                self._changed.wait_for(lambda: self._waiting, self.idle_seconds)
                self._idle -= 1
                if not self._waiting:
                    self._count -= 1
                    return
                job = self._waiting.popleft()
            job.run()


class LoopThread:
    """An event loop in a daemon thread, started when it is asked for."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._loop: asyncio.AbstractEventLoop | None = None
        self._thread: threading.Thread | None = None
        self._ends = threading.Event()

    def loop(self) -> asyncio.AbstractEventLoop:
        """Return the loop, running."""
        with self._lock:
            if self._loop is None:
                self._loop, self._ends = asyncio.new_event_loop(), threading.Event()
                serving = (self._loop, self._ends)
                self._thread = threading.Thread(target=_serve, args=serving, name="addendum-loop", daemon=True)
                self._thread.start()
            return self._loop

    def close(self) -> None:
        """End the loop; what still runs on it is cancelled. A handler that doesn't let go is left behind."""
        with self._lock:
            loop, thread = self._loop, self._thread
            self._loop = self._thread = None
            self._ends.set()
        if loop is None or thread is None or thread is threading.current_thread():
            return
        loop.call_soon_threadsafe(loop.stop)
        thread.join(CLOSING)


def _serve(loop: asyncio.AbstractEventLoop, ends: threading.Event) -> None:
    asyncio.set_event_loop(loop)
    while not ends.is_set():
        try:
            loop.run_forever()
        except BaseException:  # noqa: BLE001 - a task's SystemExit leaves through the loop; the others go on
            continue
    tasks = asyncio.all_tasks(loop)
    for task in tasks:
        task.cancel()
    if tasks:
        loop.run_until_complete(asyncio.wait(tasks, timeout=CLOSING / 2))
    loop.close()
