"""What SQLite's errors mean, and the way out: the one place where they become `StoreError`s.

The numbers are SQLite's primary result codes (sqlite.org/rescode.html), the low byte of every extended one.
"""

from __future__ import annotations

import sqlite3
from typing import Final

from addendum.errors import StoreCorrupt, StoreError, StoreUnavailable

_CORRUPT: Final = {
    sqlite3.SQLITE_CORRUPT: "is damaged",
    sqlite3.SQLITE_NOTADB: "is not a database",
    sqlite3.SQLITE_ERROR: "doesn't have the tables that it should have",
    sqlite3.SQLITE_CONSTRAINT: "contradicts itself",
    sqlite3.SQLITE_MISMATCH: "holds values of another type than was written",
}
_UNAVAILABLE: Final = {
    sqlite3.SQLITE_BUSY: ("is locked by another process", "Try again; if it stays so, see what holds it open."),
    sqlite3.SQLITE_LOCKED: ("is locked by another process", "Try again; if it stays so, see what holds it open."),
    sqlite3.SQLITE_FULL: ("can't grow: the disk is full", "Make room on the disk and go on."),
    sqlite3.SQLITE_READONLY: ("can't be written to", "Give this user write permission on the file and its folder."),
    sqlite3.SQLITE_CANTOPEN: (
        "can't be opened",
        "Check that its folder is there and that this user may read and write it and the file.",
    ),
    sqlite3.SQLITE_PERM: ("can't be opened", "Give this user read and write permission on the file and its folder."),
    sqlite3.SQLITE_AUTH: ("can't be opened", "Give this user read and write permission on the file and its folder."),
    sqlite3.SQLITE_IOERR: ("can't be read or written", "Check the disk (space, quota, health) and go on."),
    sqlite3.SQLITE_NOLFS: ("is too large for this disk", "Put it on another file system."),
    sqlite3.SQLITE_TOOBIG: ("can't take a value of this size", "Keep large data elsewhere and refer to it."),
    sqlite3.SQLITE_NOMEM: ("can't be read: there is no memory left", "Free memory and go on."),
    sqlite3.SQLITE_PROTOCOL: ("is locked by another process", "Try again; if it stays so, see what holds it open."),
}


def code(error: BaseException) -> int:
    """Return the primary result code of an error; 0 if it has none."""
    return int(getattr(error, "sqlite_errorcode", 0)) & 0xFF


def explain(error: sqlite3.Error | OSError, where: str) -> StoreError:
    """Return what an error of the driver, or of the file system, means for the store at `where`."""
    if isinstance(error, OSError):
        return StoreUnavailable(
            f"The store {where} can't be opened ({error.strerror or error}).",
            hint="Check that its folder is there and that this user may read and write it and the file.",
            store=where,
            cause=type(error).__name__,
        )
    number = code(error)
    facts: dict[str, object] = {"store": where, "cause": getattr(error, "sqlite_errorname", type(error).__name__)}
    undecodable = not number and isinstance(error, sqlite3.OperationalError) and "decode" in str(error)
    if number in _CORRUPT or undecodable:
        what = _CORRUPT.get(number, "holds text that is none")
        hint = "Nothing was written. Keep the file as it is for a closer look, and restore it from a backup."
        return StoreCorrupt(f"The store {where} {what} ({error}).", hint=hint, **facts)
    what, hint = _UNAVAILABLE.get(number, ("didn't answer", "Check the file and its disk, and go on."))
    return StoreUnavailable(f"The store {where} {what} ({error}).", hint=hint, **facts)
