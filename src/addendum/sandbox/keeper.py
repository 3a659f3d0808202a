"""The thread that starts a sandbox's workers.

`--die-with-parent` is what leaves nothing behind when the host is killed, and the kernel means by it the *thread* that
started the worker (PR_SET_PDEATHSIG): a worker that a short-lived thread started would die with that thread.
"""

from __future__ import annotations

from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import TypeVar

from addendum.errors import SandboxCrashed

T = TypeVar("T")


def closed() -> SandboxCrashed:
    """Return what whoever still wanted something of a sandbox is told when another thread has closed it."""
    return SandboxCrashed("The sandbox was closed.", hint="Run it again; the run goes on where it was.")


class Keeper:
    """One thread that lives until `close`."""

    def __init__(self, name: str) -> None:
        self._thread = ThreadPoolExecutor(max_workers=1, thread_name_prefix=f"addendum-{name}")

    def run(self, start: Callable[[], T]) -> T:
        """Return what `start` returns in the keeper's thread, or raise what it raises; `SandboxCrashed` once closed."""
        try:
            begun = self._thread.submit(start)
        except RuntimeError:
            raise closed() from None
        return begun.result()

    def later(self, start: Callable[[], object]) -> None:
        """Have the keeper's thread call `start` when it has time. What it raises is dropped: the next `run` sees it."""
        try:
            self._thread.submit(start)
        except RuntimeError:
            pass  # closed meanwhile

    def close(self) -> None:
        """End the thread, and so every worker that it started."""
        self._thread.shutdown()
