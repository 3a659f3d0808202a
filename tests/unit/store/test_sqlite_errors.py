"""What SQLite's errors become: each has a cause and a way out."""

from __future__ import annotations

import sqlite3

import pytest

from addendum.errors import StoreCorrupt, StoreError, StoreUnavailable
from addendum.store.sqlite_errors import explain


def _error(number: int) -> sqlite3.Error:
    error = sqlite3.OperationalError("reason")
    error.sqlite_errorcode = number
    error.sqlite_errorname = "NAME"
    return error


@pytest.mark.parametrize(
    ("number", "kind", "words"),
    [
        (sqlite3.SQLITE_BUSY, StoreUnavailable, "locked"),
        (sqlite3.SQLITE_BUSY_SNAPSHOT, StoreUnavailable, "locked"),
        (sqlite3.SQLITE_FULL, StoreUnavailable, "disk is full"),
        (sqlite3.SQLITE_READONLY_DIRECTORY, StoreUnavailable, "permission"),
        (sqlite3.SQLITE_CANTOPEN, StoreUnavailable, "folder"),
        (sqlite3.SQLITE_IOERR_FSYNC, StoreUnavailable, "disk"),
        (sqlite3.SQLITE_INTERNAL, StoreUnavailable, "didn't answer"),
        (sqlite3.SQLITE_CORRUPT_INDEX, StoreCorrupt, "damaged"),
        (sqlite3.SQLITE_NOTADB, StoreCorrupt, "not a database"),
        (sqlite3.SQLITE_ERROR, StoreCorrupt, "tables"),
        (sqlite3.SQLITE_CONSTRAINT_TRIGGER, StoreCorrupt, "contradicts"),
    ],
)
def test_every_error_is_explained(number: int, kind: type[StoreError], words: str) -> None:
    """Primary and extended codes lead to the same class, with the store, the cause and what to do."""
    explained_error = explain(_error(number), "/data/store.db")

    assert type(explained_error) is kind
    assert words in str(explained_error)
    assert "/data/store.db" in explained_error.message
    assert explained_error.hint.endswith(".")
    assert explained_error.facts == {"store": "/data/store.db", "cause": "NAME"}


def test_errors_without_a_code() -> None:
    """Text that can't be decoded is corruption; what the driver refuses by itself is unavailability."""
    undecodable = sqlite3.OperationalError("Could not decode to UTF-8 column 'body'")

    assert isinstance(explain(undecodable, "x"), StoreCorrupt)
    assert isinstance(explain(sqlite3.ProgrammingError("Cannot operate on a closed database."), "x"), StoreUnavailable)


def test_errors_of_the_file_system() -> None:
    """An `OSError` is unavailability, with its reason."""
    error = explain(FileNotFoundError(2, "No such file or directory"), "x")

    assert isinstance(error, StoreUnavailable)
    assert "No such file" in error.message
    assert error.facts["cause"] == "FileNotFoundError"
