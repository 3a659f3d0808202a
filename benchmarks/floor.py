"""The floor: what two durable commits a call cost on this disk, with SQLite alone and nothing around it.

Standard library only, so that both sides measure it in their own process, in turns with their own calls.
"""

from __future__ import annotations

import sqlite3
import time
from pathlib import Path

TEXT = "x" * 600
"""About as long as an entry of ours."""
WARM = 300
"""Commits before the first measurement: by then the log is written over, which is faster than growing it."""


class Floor:
    """A table in a file of its own: write-ahead log, full sync in every commit, a short log (as our store has it)."""

    def __init__(self, folder: Path) -> None:
        self._connection = sqlite3.connect(folder / "floor.db", isolation_level=None)
        for pragma in ("journal_mode = WAL", "synchronous = FULL", "wal_autocheckpoint = 128"):
            self._connection.execute(f"PRAGMA {pragma}")
        self._connection.execute("CREATE TABLE entries (seq INTEGER, body TEXT)")
        self._commits(WARM)

    def seconds(self, calls: int, apart: float = 0.0) -> float:
        """Return how long two commits take for each of so many calls, with `apart` seconds of other work before each
        commit, which aren't counted: a disk that has nothing to do in between answers more slowly."""
        return self._commits(2 * calls, apart)

    def commit(self) -> None:
        """Write one row, durably."""
        self._connection.execute("BEGIN IMMEDIATE")
        self._connection.execute("INSERT INTO entries VALUES (?, ?)", (1, TEXT))
        self._connection.execute("COMMIT")

    def _commits(self, count: int, apart: float = 0.0) -> float:
        taken = 0.0
        for _ in range(count):
            until = time.perf_counter() + apart
            while time.perf_counter() < until:
                pass
            started = time.perf_counter()
            self.commit()
            taken += time.perf_counter() - started
        return taken
