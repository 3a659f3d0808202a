"""The thread that starts a sandbox's workers.

`--die-with-parent` is what leaves nothing behind when the host is killed, and the kernel means by it the *thread* that
started the worker (PR_SET_PDEATHSIG): a worker that a short-lived thread started would die with that thread.
"""

from __future__ import annotations

from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import TypeVar

T = TypeVar("T")


class Keeper:
    """One thread that lives until `close`."""

    def __init__(self, name: str) -> None:
        self._thread = ThreadPoolExecutor(max_workers=1, thread_name_prefix=f"addendum-{name}")

    def run(self, start: Callable[[], T]) -> T:
        """Return what `start` returns in the keeper's thread, or raise what it raises."""
        return self._thread.submit(start).result()

    def later(self, start: Callable[[], object]) -> None:
        """Have the keeper's thread call `start` when it has time. What it raises is dropped: the next `run` sees it."""
        try:
            self._thread.submit(start)
        except RuntimeError:
            pass  # closed meanwhile

    def close(self) -> None:
        """End the thread, and so every worker that it started."""
        self._thread.shutdown()
