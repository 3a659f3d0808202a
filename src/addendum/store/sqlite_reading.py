"""A store that may only be read: how SQLite has to open it, so that nothing beside it is made or changed.

A reader of a file with a write-ahead log makes two files beside it, FILE-wal and FILE-shm, even if it only reads. So:

| the log | it is opened |
| --- | --- |
| isn't there, or is empty | as a file that doesn't change (`immutable`), and looked at before and after each read |
| has something in it, with its FILE-shm | for reading, with that file as it is (`readonly_shm`) |
| has something in it, without | not at all: without it, the newest entries would be missing |

sqlite.org/wal.html, "Read-Only Databases"; sqlite.org/uri.html.
"""

from __future__ import annotations

import os
from pathlib import Path
from typing import Final, TypeAlias

from addendum.errors import StoreUnavailable

IMMUTABLE: Final = "mode=ro&immutable=1"
BESIDE: Final = "mode=ro&readonly_shm=1"
Look: TypeAlias = "tuple[int, int, int, int]"
"""What tells whether a file was written: its inode, size and time, and its log's size."""


def only_read(path: Path) -> bool:
    """Whether this user may read a store that is there, and may not write all that SQLite would."""
    if not path.is_file() or not _may(path, os.R_OK):
        return False
    if not _may(path, os.W_OK):
        return True
    return not _may(path.parent, os.W_OK) and not all(_may(each, os.W_OK) for each in (_log(path), _memory(path)))


def parameters(path: Path) -> str:
    """Return how to open it, as parameters of its URI. Raises `StoreUnavailable` where that would miss entries."""
    if not _size(_log(path)):
        return IMMUTABLE
    if _memory(path).exists():
        return BESIDE
    raise StoreUnavailable(
        f"The store {path} may only be read here, and its newest entries are still in {_log(path).name}, which SQLite "
        "can't read without writing.",
        hint=f"Copy {path.name} and {_log(path).name} together into a folder of yours and name that with --store, or "
        "have somebody who may write there call `addendum runs`.",
        store=str(path),
    )


def look(path: Path) -> Look:
    """Return what changes when somebody writes. Raises `OSError` for a file that is gone."""
    found = os.stat(path)
    return found.st_ino, found.st_size, found.st_mtime_ns, _size(_log(path))


def unwritable(where: str) -> StoreUnavailable:
    """Return the error for a write to a store that may only be read."""
    return StoreUnavailable(
        f"The store {where} may only be read here: nothing was written.",
        hint="Give this user write permission on the file and its folder, or name another store with --store.",
        store=where,
    )


def outdated(where: str) -> StoreUnavailable:
    """Return the error for one whose tables an older program made."""
    return StoreUnavailable(
        f"The store {where} may only be read here, and has to be brought up to date before it can be.",
        hint="Have somebody who may write there call `addendum runs`.",
        store=where,
    )


def changed(where: str) -> StoreUnavailable:
    """Return the error for one that was written in the middle of a read."""
    return StoreUnavailable(
        f"The store {where} was written while it was read.", hint="Try again; nothing was changed here.", store=where
    )


def _may(path: Path, what: int) -> bool:
    # As this process acts: a file system that is read-only and a file that is immutable count, for root as well.
    return os.access(path, what, effective_ids=os.access in os.supports_effective_ids)


def _log(path: Path) -> Path:
    return path.with_name(f"{path.name}-wal")


def _memory(path: Path) -> Path:
    return path.with_name(f"{path.name}-shm")


def _size(path: Path) -> int:
    try:
        return path.stat().st_size
    except FileNotFoundError:
        return 0
