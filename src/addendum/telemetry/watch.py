"""From a run's events to a sink, without the run ever waiting for it."""

from __future__ import annotations

import contextvars
import queue
import threading
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, Final, Protocol

MOST: Final = 100_000
"""Events that wait for a slow sink; more are dropped."""
PATIENCE: Final = 2.0
"""Seconds that an end waits for a sink."""
_HEADS: Final = ("began", "planned", "drafting", "work.attempt")
"""Events that a trace begins with: what is current around them is remembered."""
_HEAVY: Final = ("payload", "text", "message", "result")
"""Keys that hold content: they don't wait in a queue."""


@dataclass(frozen=True, slots=True)
class Noted:
    """An event with the time when it was told, in nanoseconds since 1970. `around` is the caller's context, for events
    that a trace begins with."""

    event: Mapping[str, Any]
    at: int
    around: contextvars.Context | None = None


class Sink(Protocol):
    """Whoever makes something of events. Only ever called from one thread."""

    def take(self, noted: Noted) -> None:
        """Take one event. An exception is dropped."""

    def end(self) -> None:
        """No more events come: let go of what is open."""


class Watch:
    """An `Observer` that hands events to a sink in a thread of its own. `open` makes the sink there, at the first
    event; None is no sink. `dropped` counts the events that found the queue full."""

    def __init__(
        self, open: Callable[[], Sink | None], *, most: int = MOST, now: Callable[[], int] = time.time_ns
    ) -> None:
        self.dropped = 0
        self._open = open
        self._now = now
        self._waiting: queue.Queue[Noted | threading.Event | None] = queue.Queue(most)
        self._lock = threading.Lock()
        self._thread: threading.Thread | None = None
        self._closed = self._ending = False

    def __call__(self, event: Mapping[str, Any]) -> None:
        """Take note of an event. Never waits, never raises."""
        if self._closed:
            return
        around = contextvars.copy_context() if event.get("event") in _HEADS else None
        light = {key: value for key, value in event.items() if key not in _HEAVY}
        if isinstance(failure := light.get("failure"), Mapping):
            light["failure"] = {"code": failure.get("code")}
        self._start()
        try:
            self._waiting.put_nowait(Noted(light, self._now(), around))
        except queue.Full:
            self.dropped += 1

    def flush(self, seconds: float = PATIENCE) -> bool:
        """Wait until the sink has taken everything that was told until now. False if it hasn't by then."""
        if self._thread is None:
            return True
        done = threading.Event()
        until = time.monotonic() + seconds
        try:
            self._waiting.put(done, timeout=seconds)
        except queue.Full:
            return False
        return done.wait(max(0.0, until - time.monotonic()))

    def close(self, seconds: float = PATIENCE) -> bool:
        """End the sink, once it has taken everything. False if that takes too long: it is left to itself."""
        until = time.monotonic() + seconds
        self._closed = True
        thread = self._thread
        if thread is None:
            return True
        if not self._ending:
            try:
                self._waiting.put(None, timeout=seconds)
            except queue.Full:
                return False
            self._ending = True
        thread.join(max(0.0, until - time.monotonic()))
        return not thread.is_alive()

    def _start(self) -> None:
        if self._thread is not None:
            return
        with self._lock:
            if self._thread is None:
                thread = threading.Thread(target=self._work, name="addendum-telemetry", daemon=True)
                thread.start()
                self._thread = thread

    def _work(self) -> None:
        sink: Sink | None = None
        try:
            sink = self._open()
        except Exception:  # noqa: BLE001 - a sink that can't be opened is none
            sink = None
        while (item := self._waiting.get()) is not None:
            if isinstance(item, threading.Event):
                item.set()
            elif sink is not None:
                try:
                    sink.take(item)
                except Exception:  # noqa: BLE001 - what one event does to a sink is no news for the next
                    continue
        if sink is not None:
            try:
                sink.end()
            except Exception:  # noqa: BLE001 - as above
                return


class Watchers:
    """Several observers as one; each of them sees every event, whatever the others do."""

    def __init__(self, watches: tuple[Watch, ...], closing: tuple[Callable[[], None], ...] = ()) -> None:
        self._watches = watches
        self._closing = closing

    def __bool__(self) -> bool:
        return bool(self._watches)

    def __call__(self, event: Mapping[str, Any]) -> None:
        """Tell each of them."""
        for watch in self._watches:
            watch(event)

    def behind(self, observer: Callable[[Mapping[str, Any]], None]) -> Callable[[Mapping[str, Any]], None]:
        """Return one observer that tells another one first; what that raises doesn't hide the event from these."""
        if not self._watches:
            return observer

        def tell(event: Mapping[str, Any]) -> None:
            try:
                observer(event)
            finally:
                self(event)

        return tell

    def flush(self, seconds: float = PATIENCE) -> bool:
        """Wait for each of them, so many seconds in all."""
        until = time.monotonic() + seconds
        return False not in [watch.flush(max(0.0, until - time.monotonic())) for watch in self._watches]

    def close(self, seconds: float = PATIENCE) -> None:
        """End each of them, within so many seconds in all, and close what they wrote to."""
        until = time.monotonic() + seconds
        for watch in self._watches:
            watch.close(0.0)
        for watch in self._watches:
            watch.close(max(0.0, until - time.monotonic()))
        closing, self._closing = self._closing, ()
        for close in closing:
            close()
