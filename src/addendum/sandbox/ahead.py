"""One thing that is made before anybody asks for it, in a thread of its own: a session for the script that is still
being read."""

from __future__ import annotations

import contextlib
import threading
import time
from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor
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
    """Makes one thing ahead of time with `make`, and lets go of what nobody took with `drop`."""

    def __init__(self, name: str, make: Callable[[K], T], drop: Callable[[T], None]) -> None:
        self._make = make
        self._drop = drop
        self._lock = threading.Lock()
        self._thread = ThreadPoolExecutor(max_workers=1, thread_name_prefix=f"addendum-{name}-ahead")
        self._made: _Made[K, T] | None = None

    def prepare(self, key: K) -> None:
        """Return at once, and make a thing for the next `take` with this key; nothing if there is one already."""
        with self._lock:
            made = self._made
            if made is not None and time.monotonic() - made.at < STALE:
                return
            try:
                self._made = _Made(key, time.monotonic(), self._thread.submit(self._make, key))
                if made is not None:
                    self._thread.submit(self._let_go, made)
            except RuntimeError:  # closed
                self._made = made

    def take(self, key: K) -> T | None:
        """Return what was made, once it is there. None if there is nothing for this key, or if it couldn't be made:
        whoever makes it without help sees why."""
        with self._lock:
            made, self._made = self._made, None
        if made is None:
            return None
        if made.key == key and time.monotonic() - made.at < STALE:
            return _result(made)
        try:
            self._thread.submit(self._let_go, made)
        except RuntimeError:  # closed
            self._let_go(made)
        return None

    def close(self) -> None:
        """Let go of what is there. What is still being made isn't waited for, and let go of then."""
        with self._lock:
            made, self._made = self._made, None
        self._thread.shutdown(wait=False, cancel_futures=True)
        if made is not None:
            made.future.add_done_callback(lambda _: self._let_go(made))

    def _let_go(self, made: _Made[K, T]) -> None:
        thing = _result(made)
        if thing is not None:
            with contextlib.suppress(Exception):  # what it is made of may have ended before
                self._drop(thing)


def _result(made: _Made[K, T]) -> T | None:
    try:
        return made.future.result()
    except Exception:  # noqa: BLE001 - whoever makes it in earnest meets it again
        return None
