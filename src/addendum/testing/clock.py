"""A clock that moves when it is told to."""

from __future__ import annotations

import hashlib
import threading


class ManualClock:
    """The `Clock` port for tests: time moves by `advance`, and by `tick` seconds at each reading of `monotonic`.

    Random numbers and tokens are a fixed sequence, another one for another `seed`. Safe to use from several threads.

    >>> clock = ManualClock(1_000.0)
    >>> clock.advance(2.5)
    >>> clock.now()
    1002.5
    """

    def __init__(self, now: float = 1_767_225_600.0, *, tick: float = 0.0, seed: int = 0) -> None:
        """Start at 2026-01-01 unless another time is given, in seconds since 1970."""
        self._now = now
        self._monotonic = 0.0
        self._tick = tick
        self._seed = seed
        self._drawn = 0
        self._lock = threading.Lock()

    def advance(self, seconds: float) -> None:
        """Let time pass. Raises `ValueError` for a negative number."""
        if seconds < 0:
            raise ValueError("time goes on; use `set` to turn the wall clock back")
        with self._lock:
            self._now += seconds
            self._monotonic += seconds

    def set(self, now: float) -> None:
        """Turn the wall clock, forwards or back; the monotonic one doesn't follow."""
        with self._lock:
            self._now = now

    def now(self) -> float:
        """Return seconds since 1970, UTC."""
        return self._now

    def monotonic(self) -> float:
        """Return seconds that only grow."""
        with self._lock:
            self._now += self._tick
            self._monotonic += self._tick
            return self._monotonic

    def random(self) -> float:
        """Return the next float in [0, 1)."""
        return int(self._draw()[:13], 16) / 16**13

    def token(self) -> str:
        """Return the next 32 hexadecimal digits. Anybody can guess them."""
        return self._draw()[:32]

    def _draw(self) -> str:
        with self._lock:
            self._drawn += 1
            return hashlib.sha256(f"{self._seed}/{self._drawn}".encode()).hexdigest()
