"""What any design of this kind pays for a call, and nothing else: the floor's two commits, a turn of the sandbox's
interpreter, and the way to a provider's thread and back. No identity, no matching, no limits, no records.
"""

from __future__ import annotations

import asyncio
import queue
import threading
import time
from types import TracebackType
from typing import Self

from floor import Floor
from pydantic_monty import FunctionSnapshot, Monty

from addendum.sandbox.confine import MontyLauncher

SCRIPT = """
i = 0
while i < {count}:
    call("run", "orchestrate/bench.step#0", "bench.step", {{"i": i}})
    i += 1
"""


class Parts:
    """A worker of the sandbox, an event loop in a thread of its own, and the floor whose commits are made."""

    def __init__(self, floor: Floor) -> None:
        self._floor = floor
        self._launcher = MontyLauncher.find(require_confined=False)
        self._pool = Monty(binary_path=self._launcher.path, min_processes=1, max_processes=1)
        self._loop = asyncio.new_event_loop()
        self._answers: queue.SimpleQueue[object] = queue.SimpleQueue()
        self._tasks: set[asyncio.Task[None]] = set()

    def __enter__(self) -> Self:
        threading.Thread(target=self._loop.run_forever, daemon=True).start()
        self._pool.__enter__()
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        self._pool.__exit__(None, None, None)
        self._launcher.close()
        self._loop.call_soon_threadsafe(self._loop.stop)

    def seconds(self, calls: int) -> float:
        """Return how long so many calls take."""
        with self._pool.checkout(limits={"max_suspensions": calls + 10}) as session:
            session.feed_run("None")
            started = time.perf_counter()
            snapshot = session.feed_start(SCRIPT.format(count=calls))
            while isinstance(snapshot, FunctionSnapshot):
                self._floor.commit()
                self._loop.call_soon_threadsafe(self._start)
                answer = self._answers.get(timeout=60)
                self._floor.commit()
                snapshot = snapshot.resume({"return_value": answer})
            return time.perf_counter() - started

    def _start(self) -> None:
        self._tasks.add(task := self._loop.create_task(self._call()))
        task.add_done_callback(self._tasks.discard)

    async def _call(self) -> None:
        self._answers.put({"i": 1, "ok": True})
