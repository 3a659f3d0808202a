"""A call that another thread waits for: a sandbox's library has blocking calls only."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from concurrent.futures import Executor
from typing import Generic, TypeVar

T = TypeVar("T")


class Away(Generic[T]):
    """A blocking call in a thread of `executor`. There is one once that thread is about to make the call: whoever goes
    on then would otherwise keep it from beginning, as it has Python's lock."""

    def __init__(self, executor: Executor, call: Callable[[], T]) -> None:
        self.seconds = 0.0
        """How long the call took, once it is over."""
        self._call = call
        self._begun = threading.Event()
        self._result = executor.submit(self._run)
        self._begun.wait()

    def result(self) -> T:
        """Return what the call returns, or raise what it raises."""
        return self._result.result()

    def wait(self) -> None:
        """Wait for the end of the call, whatever it is."""
        self._result.exception()

    def _run(self) -> T:
        started = time.monotonic()
        self._begun.set()
        try:
            return self._call()
        finally:
            self.seconds = time.monotonic() - started
