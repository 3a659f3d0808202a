"""The runs that a server drives: each in a thread of its own, which no connection owns.

A client that disconnects, or stops waiting, changes nothing about its run: it goes on to its end, and whoever asks
later sees how it came out. What ends a run early is a cancellation that says so, and the end of the server: both are
clean, so that nothing new is sent and what is in flight lands and is committed.
"""

from __future__ import annotations

import asyncio
import logging
import threading
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass
from typing import Any, Final, TypeAlias

import anyio

from addendum.authority.money import usd
from addendum.errors import Rejected
from addendum.runs.driven import Driven
from addendum.runs.result import StepResult

MOST: Final = 16
"""How many runs one server drives at a time."""
SHOWN: Final = 200
"""Characters of a progress message."""

Job: TypeAlias = Callable[[threading.Event, Callable[[Mapping[str, Any]], None]], StepResult]
"""Drives a run to its end; gets what asks it to stop, and its observer."""
Tell: TypeAlias = Callable[[int, str], Awaitable[None]]
"""Tells a client how far a run is: how many things have happened, and the last of them in words."""
Asker: TypeAlias = tuple[str, str]
"""A request that waits for a run: its session, and its id."""

_log = logging.getLogger("addendum.mcp")


@dataclass(frozen=True, slots=True)
class Progress:
    """How far a run is. `steps` only grows."""

    steps: int = 0
    message: str = ""


class Drive:
    """One run that is driven."""

    def __init__(self, run: str, job: Job) -> None:
        self.run = run
        self.stop = threading.Event()
        self.progress = Progress()
        self._wakes: list[Callable[[], None]] = []
        self.driven: Driven[StepResult] = Driven(lambda: job(self.stop, self._see), self.stop)

    def _see(self, event: Mapping[str, Any]) -> None:
        said = words(event)
        if said is None:
            return
        self.progress = Progress(self.progress.steps + 1, said)
        for wake in tuple(self._wakes):
            wake()

    async def follow(self, tell: Tell, seconds: float | None = None) -> StepResult | None:
        """Wait for the end and return the result, or None after so many seconds; tell what happens meanwhile.

        Raises what the drive raised. Cancelling this stops waiting, and nothing else. A client that reads slowly misses
        what happened in between, and never holds the run up.
        """
        loop, changed = asyncio.get_running_loop(), asyncio.Event()

        def wake() -> None:
            try:
                loop.call_soon_threadsafe(changed.set)
            except RuntimeError:
                return  # the loop is closed: nobody waits any more

        self._wakes.append(wake)
        self.driven.on_end(wake)
        told = Progress()
        try:
            with anyio.move_on_after(seconds):
                while self.driven.running:
                    await changed.wait()
                    changed.clear()
                    if self.progress.steps > told.steps:
                        told = self.progress
                        await tell(told.steps, told.message)
        finally:
            self._wakes.remove(wake)
        return None if self.driven.running else self.driven.wait()


class Drives:
    """All runs that a server drives. Used from its event loop."""

    def __init__(self, most: int = MOST) -> None:
        self._most = most
        self._lock = threading.Lock()
        self._driven: set[Drive] = set()
        self._asked: dict[Asker, Drive] = {}
        self._stopping = False

    def start(self, run: str, job: Job, asker: Asker) -> Drive:
        """Drive a run in a thread. Raises `Rejected` when there are too many, or the server is about to end."""
        with self._lock:
            if self._stopping:
                raise Rejected("The server is about to end.", hint="Ask again once it is back.")
            if len(self._driven) >= self._most:
                raise Rejected(
                    f"This server drives {self._most} runs already.", hint="Wait for one of them, or cancel it."
                )
            drive = Drive(run, job)
            self._driven.add(drive)
            self._asked[asker] = drive
        drive.driven.on_end(lambda: self._ended(drive))
        return drive

    def answered(self, asker: Asker, drive: Drive) -> None:
        """A request has its answer: cancelling it is no business of the run any more."""
        with self._lock:
            if self._asked.get(asker) is drive:
                del self._asked[asker]

    def cancelled(self, asker: Asker) -> None:
        """A client cancelled its request: its run comes to a clean end."""
        with self._lock:
            drive = self._asked.get(asker)
        if drive is not None:
            drive.stop.set()

    def stop(self) -> None:
        """Ask every run to come to a clean end, and start no other."""
        with self._lock:
            self._stopping = True
            driven = tuple(self._driven)
        for drive in driven:
            drive.stop.set()

    async def ended(self) -> None:
        """Wait until every run has come to its clean end."""
        self.stop()
        with self._lock:
            driven = tuple(self._driven)
        for drive in driven:
            await drive.driven.left()

    @property
    def runs(self) -> list[str]:
        """The names of what is driven now."""
        with self._lock:
            return sorted(drive.run for drive in self._driven)

    def _ended(self, drive: Drive) -> None:
        with self._lock:
            self._driven.discard(drive)
            self._asked = {asker: other for asker, other in self._asked.items() if other is not drive}
        try:
            result = drive.driven.wait()
        except BaseException as error:  # noqa: BLE001 - the client that asked may be gone: it is said here as well
            _log.warning("run %s: %s", drive.run, f"{type(error).__name__}: {error}")
        else:
            _log.info("run %s: %s", drive.run, result.status)


def words(event: Mapping[str, Any]) -> str | None:
    """Return what happened in words, None for what a client isn't told. A script's own text is cut and printable."""
    capability = event.get("capability", "")
    match event["event"]:
        case "settled" if event["ok"]:
            said = f"{capability}: done for ${usd(event['cost'])}"
        case "settled":
            failure = event.get("failure") or {}
            said = f"{capability}: failed, {failure.get('code')}: {failure.get('message')}"
        case "dispatched":
            said = f"{capability}: sent"
        case "retry":
            pause = event["in"]
            then = "not sent again, as the run ends" if pause is None else f"again in {pause:.2g} s"
            said = f"{capability}: {event['code']}, {then}"
        case "asked":
            said = f"{capability}: waits for a person"
        case "limit":
            said = f"over a limit: {event['limit']}"
        case "unresolved":
            said = f"{capability}: unresolved, {event['message']}"
        case "replayed":
            said = f"{capability}: replayed"
        case "log" | "phase":
            said = str(event["text"])
        case _:
            return None
    return "".join(character if character.isprintable() else " " for character in said[:SHOWN])
