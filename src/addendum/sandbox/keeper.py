"""The thread that starts a sandbox's workers.

`--die-with-parent` is what leaves nothing behind when the host is killed, and the kernel means by it the *thread* that
started the worker (PR_SET_PDEATHSIG): a worker that a short-lived thread started would die with that thread.
"""

from __future__ import annotations

import os
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import TypeVar

from addendum.errors import SandboxCrashed, SandboxMissing

T = TypeVar("T")


def closed() -> SandboxCrashed:
    """Return what whoever still wanted something of a sandbox is told when another thread has closed it."""
    return SandboxCrashed("The sandbox was closed.", hint="Run it again; the run goes on where it was.")


class OneProcess:
    """Says which process something is of: the one that used it first. A fork's child has none of its threads, may not
    touch its workers, and would wait for ever for a lock that one of these threads held."""

    def __init__(self, what: str = "This sandbox", hint: str = "Open one in this process.") -> None:
        self._what = what
        self._hint = hint
        self._pid = 0

    def use(self) -> None:
        """Raise `SandboxMissing` if this process was forked from the one that it is of."""
        if self.elsewhere:
            raise SandboxMissing(f"{self._what} was opened by the process that forked this one.", hint=self._hint)
        self._pid = os.getpid()

    @property
    def elsewhere(self) -> bool:
        """Whether it is of another process."""
        return self._pid not in (0, os.getpid())


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
