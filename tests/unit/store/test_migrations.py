"""Migrations: every database comes to the same tables, and a newer one is left alone."""

from __future__ import annotations

import sqlite3
from contextlib import closing
from pathlib import Path

import pytest

from addendum.errors import StoreUnavailable
from addendum.ports import RunHeader
from addendum.store import sql_store
from addendum.store.migrations import MIGRATIONS, NEWEST, missing
from addendum.store.sqlite import APPLICATION, SqliteStore
from addendum.store.statements import resource

SCRIPTS = Path(sql_store.__file__).parent / "sql" / "sqlite"


def _schema(connection: sqlite3.Connection) -> list[tuple[str, str, str]]:
    rows = connection.execute("SELECT type, name, sql FROM sqlite_master ORDER BY type, name").fetchall()
    return [(kind, name, " ".join((sql or "").split())) for kind, name, sql in rows]


def test_the_schema_is_what_all_migrations_make(tmp_path: Path) -> None:
    """An empty database that went through all migrations equals the one that schema.sql describes."""
    store = SqliteStore(tmp_path / "store.db")
    store.runs()
    store.close()

    with closing(sqlite3.connect(tmp_path / "store.db")) as migrated, closing(sqlite3.connect(":memory:")) as described:
        described.executescript(resource("sqlite/schema.sql"))
        assert _schema(described) == _schema(migrated)
        assert described.execute("PRAGMA application_id").fetchone() == (APPLICATION,)
        assert [(n, name) for n, name in enumerate(MIGRATIONS, 1)] == migrated.execute(
            "SELECT version, name FROM migrations"
        ).fetchall()


def test_every_script_is_listed() -> None:
    """The list names the folder's scripts, numbered without a gap."""
    assert [f"{name}.sql" for name in MIGRATIONS] == sorted(p.name for p in SCRIPTS.glob("[0-9]*.sql"))
    assert list(range(1, NEWEST + 1)) == [int(name[:4]) for name in MIGRATIONS]


def test_only_what_is_missing_is_applied() -> None:
    """A database of some version gets the scripts after it."""
    assert tuple(enumerate(MIGRATIONS, 1)) == missing(0, "x")
    assert missing(NEWEST, "x") == ()


def test_a_newer_database_is_refused(tmp_path: Path) -> None:
    """A database that a newer program wrote is not touched, and the error says what to do."""
    path = tmp_path / "store.db"
    store = SqliteStore(path)
    store.create(RunHeader("r", "n", "t"))
    store.close()
    with closing(sqlite3.connect(path)) as newer, newer:
        newer.execute("INSERT INTO migrations VALUES (?, 'later')", (NEWEST + 1,))
    before = path.read_bytes()

    store = SqliteStore(path)
    with pytest.raises(StoreUnavailable, match="newer addendum") as caught:
        store.runs()
    store.close()

    assert caught.value.facts["version"] == NEWEST + 1
    assert before == path.read_bytes()


def test_a_migration_that_fails_leaves_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A script that breaks off is undone as a whole, and the next start begins it anew."""
    path = tmp_path / "store.db"
    broken = resource("sqlite/0001_journal.sql") + "\nSELECT 1 FROM nowhere;"
    with monkeypatch.context() as patch:
        patch.setattr("addendum.store.sqlite.resource", lambda name: broken)
        store = SqliteStore(path)
        with pytest.raises(Exception, match="nowhere"):
            store.runs()
        store.close()
    with closing(sqlite3.connect(path)) as left:
        assert _schema(left) == []

    store = SqliteStore(path)
    assert store.runs() == []
    store.close()
