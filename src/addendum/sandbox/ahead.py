"""One thing that is made before anybody asks for it, in another thread: a session for the script that is still being
read."""

from __future__ import annotations

import contextlib
import threading
import time
from collections.abc import Callable
from concurrent.futures import Executor, Future
from typing import Final, Generic, NamedTuple, TypeVar

K = TypeVar("K")
T = TypeVar("T")

STALE: Final = 10.0
"""Seconds after which what was made isn't used any more: nobody knows what became of it meanwhile."""


class _Made(NamedTuple, Generic[K, T]):
    key: K
    at: float
    """When it was asked for, in seconds of the monotonic clock."""
    future: Future[T]


class Ahead(Generic[K, T]):
    """Makes one thing ahead of time with `make`, in a thread of `threads`, and lets go of what nobody took with
    `drop`. It takes up one thread at most, however long the making takes."""

    def __init__(self, threads: Executor, make: Callable[[K], T], drop: Callable[[T], None]) -> None:
        self._make = make
        self._drop = drop
        self._lock = threading.Lock()
        self._threads = threads
        self._made: _Made[K, T] | None = None
        self._last: Future[T] | None = None
        """What was begun last, whoever took it."""
        self._closed = False

    def prepare(self, key: K) -> None:
        """Return at once, and make a thing for the next `take` with this key; nothing if there is one already, or while
        one is still being made."""
        with self._lock:
            old = self._made
            if self._closed or (old is not None and time.monotonic() - old.at < STALE):
                return
            if self._last is not None and not self._last.done():
                return
            self._last = self._threads.submit(self._make, key)
            self._made = _Made(key, time.monotonic(), self._last)
        self._let_go(old)

    def take(self, key: K) -> T | None:
        """Return what was made, once it is there. None if there is nothing for this key, or if it couldn't be made:
        whoever makes it without help sees why."""
        with self._lock:
            made, self._made = self._made, None
        if made is not None and made.key == key and time.monotonic() - made.at < STALE:
            return _result(made)
        self._let_go(made)
        return None

    def close(self) -> None:
        """Let go of what is there. What is still being made isn't waited for, and let go of then."""
        with self._lock:
            made, self._made = self._made, None
            self._closed = True
        self._let_go(made)

    def _let_go(self, made: _Made[K, T] | None) -> None:
        """Drop what was made as soon as it is there, without waiting for it."""
        if made is not None:
            made.future.add_done_callback(self._dropped)

    def _dropped(self, future: Future[T]) -> None:
        if not future.cancelled() and future.exception() is None:
            with contextlib.suppress(Exception):  # what it is made of may have ended before
                self._drop(future.result())


def _result(made: _Made[K, T]) -> T | None:
    try:
        return made.future.result()
    except Exception:  # noqa: BLE001 - whoever makes it in earnest meets it again
        return None
