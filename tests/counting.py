"""A store that says how much was read of it."""

from __future__ import annotations

from typing import Any

from addendum.testing.memory_store import MemoryStore


class Counting(MemoryStore):
    """A store that counts the entries that are read."""

    read = 0

    def entries(self, run: str, **more: Any) -> Any:
        for stored in super().entries(run, **more):
            self.read += 1
            yield stored
