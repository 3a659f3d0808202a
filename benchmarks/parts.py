"""What any design of this kind pays for a call, and nothing else: the floor's two commits, a turn of the sandbox's
interpreter, and the way to a provider's thread and back. No identity, no matching, no limits, no records.

And the other way round, what the driver takes by itself: the same calls with a store in memory and a session that
answers at once, so that nothing is waited for but the provider's thread.
"""

from __future__ import annotations

import asyncio
import queue
import threading
import time
from collections.abc import Sequence
from types import TracebackType
from typing import Self

from floor import Floor
from pydantic_monty import FunctionSnapshot, Monty

from addendum.canon import Json
from addendum.ports import Answer, Issued, Known, Limits, Returned, Script, Turn
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


class Here:
    """A sandbox that runs no script: its sessions say at once what the benchmark's sequence of so many calls says."""

    name = "here"

    def __init__(self, calls: int) -> None:
        self._calls = calls

    def open(self, script: Script, args: Json, *, limits: Limits, nonce: str) -> Saying:
        """Return a session."""
        return Saying(self._calls)

    def close(self) -> None:
        """Nothing is open."""


class Saying:
    """A session of `Here`."""

    def __init__(self, calls: int) -> None:
        self._calls = calls
        self._made = 0

    def advance(self, answer: Answer | None, ahead: Sequence[Known] = ()) -> Turn:
        """Make the next call, or end."""
        i = self._made
        self._made += 1
        if i == self._calls:
            return Turn((), Returned(i))
        identity = f"orchestrate/for.0[{i}] > orchestrate/for.0/bench.step#0"
        return Turn((Issued(i + 1, identity, "bench.step", {"i": i}),))

    def close(self) -> None:
        """Nothing is left."""
