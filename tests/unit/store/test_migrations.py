"""Migrations: every database comes to the same tables, and a newer one is left alone."""

from __future__ import annotations

import sqlite3
from contextlib import closing
from pathlib import Path

import pytest

from addendum.canon import canonical, sha256
from addendum.errors import LeaseLost, StoreCorrupt, StoreUnavailable
from addendum.ports import Lease, RunHeader
from addendum.records.chain import START, chain
from addendum.records.stored import Entry
from addendum.store import sql_store, sqlite_reading
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


# --- 0002: entries under one number each --------------------------------------------------------------------------

ENTRY = "INSERT INTO entries VALUES (?, ?, ?, ?, ?)"
LENGTHS = {"r-2": 300, "r-1": 7, "@books": 40, "empty": 0}
"""How many entries each run has, in the order in which they were created."""


@pytest.fixture
def first(tmp_path: Path) -> Path:
    """Return the path of a store as the first version of its tables had it: runs, whose entries were written in turns,
    a blob, and a lease."""
    path = tmp_path / "store.db"
    with closing(sqlite3.connect(path)) as old, old:
        old.executescript(resource("sqlite/0001_journal.sql"))
        old.execute("PRAGMA journal_mode = WAL")
        old.execute("INSERT INTO migrations VALUES (1, '0001_journal')")
        old.executemany("INSERT INTO runs (run, name, created_at) VALUES (?, 'n', 't')", [(run,) for run in LENGTHS])
        heads = dict.fromkeys(LENGTHS, START)
        for seq in range(1, max(LENGTHS.values()) + 1):
            for run in [run for run, length in LENGTHS.items() if seq <= length]:
                body = canonical({"run": run, "pad": "ä" * (seq * 97 % 5000)})
                heads[run] = chain(heads[run], f"kind {seq % 3}", body)
                old.execute(ENTRY, (run, seq, f"kind {seq % 3}", heads[run], body.decode()))
        old.execute("INSERT INTO blobs VALUES (?, ?)", (sha256(b"x"), b"x"))
        old.execute("INSERT INTO leases VALUES ('r-1', 'token', 'm', 'b', 'h', 1, '', 0, 0, 0)")
    return path


def _rows(path: Path, query: str) -> list[tuple[object, ...]]:
    with closing(sqlite3.connect(path)) as connection:
        return connection.execute(query).fetchall()


def test_every_entry_is_brought_over_as_it_is(first: Path) -> None:
    """Seqs, kinds, chains and bodies are the same, text for text; journals go on, and leases and blobs are there."""
    before = _rows(first, "SELECT run, seq, kind, chain, body FROM entries ORDER BY run, seq")
    others = "SELECT * FROM runs, blobs, leases"
    beside = _rows(first, others)
    with closing(SqliteStore(first)) as store:
        assert [header.run for header in store.runs()] == [run for run in LENGTHS if run[0] != "@"]
        for run, length in LENGTHS.items():
            head = START
            for seq, each in enumerate(store.entries(run), 1):
                head = chain(head, each.kind, canonical(each.body))
                assert (each.seq, each.chain, each.body["run"]) == (seq, head, run)
            assert store.head(run) == (length, head)
        assert store.blob(sha256(b"x")) == b"x"
        now = "SELECT run, key & 4294967295, kind, chain, body FROM entries, runs WHERE number = key >> 32"
        assert _rows(first, f"{now} ORDER BY run, key") == before
        assert _rows(first, others) == beside
        with pytest.raises(LeaseLost):
            store.append("r-1", [Entry("note", {})], lease=Lease("r-1", "other"))
        assert store.append("r-1", [Entry("note", {})], lease=Lease("r-1", "token"))[0].seq == 8
        assert store.append("empty", [Entry("note", {})])[0].seq == 1


def test_a_damaged_journal_is_brought_over_as_it_is(first: Path) -> None:
    """An entry that somebody took away is still missing, where it was, and the other journals are whole."""
    with closing(sqlite3.connect(first)) as old, old:
        old.executescript("DROP TRIGGER entries_no_delete; DELETE FROM entries WHERE run = 'r-2' AND seq = 9")
        old.executescript("CREATE TRIGGER entries_no_delete BEFORE DELETE ON entries BEGIN SELECT 1; END")
    with closing(SqliteStore(first)) as store:
        with pytest.raises(StoreCorrupt, match="entry 9 is missing"):
            list(store.entries("r-2"))
        assert len(list(store.entries("r-1"))) == 7
        assert store.head("r-2")[0] == 300


def test_an_entry_that_a_damaged_index_leaves_out_is_brought_over(tmp_path: Path) -> None:
    """What a query through the former index doesn't see is there all the same, and isn't dropped with the table."""
    path = tmp_path / "store.db"
    with closing(sqlite3.connect(path)) as old, old:
        old.executescript(resource("sqlite/0001_journal.sql"))
        old.execute("INSERT INTO migrations VALUES (1, '0001_journal')")
        old.execute("INSERT INTO runs (run, name, created_at) VALUES ('r', 'n', 't')")
        old.executemany(ENTRY, [("r", seq, "note", "chain", "{}") for seq in range(1, 21)])
        ((root,),) = old.execute("SELECT rootpage FROM sqlite_master WHERE name = 'sqlite_autoindex_entries_1'")
        ((size,),) = old.execute("PRAGMA page_size")
    page = bytearray(path.read_bytes())
    at = (root - 1) * size + 3  # a b-tree page's header: its kind, two bytes, and how many cells it has
    assert page[at - 3] == 0x0A
    page[at : at + 2] = (int.from_bytes(page[at : at + 2], "big") - 1).to_bytes(2, "big")
    path.write_bytes(page)
    assert _rows(path, "SELECT max(seq) FROM entries WHERE run = 'r'") == [(19,)]

    with closing(SqliteStore(path)) as store:
        assert [entry.seq for entry in store.entries("r")] == list(range(1, 21))


@pytest.mark.parametrize(
    "row",
    [("no such run", 1), ("empty", 0), ("empty", -1), ("empty", 2**32), ("far", 1)],
    ids=["of no run", "seq 0", "before it", "too many", "of a run that is too many"],
)
def test_what_has_no_key_stops_the_migration(first: Path, row: tuple[str, int]) -> None:
    """An entry that can't be brought over isn't lost: everything stays as it was."""
    with closing(sqlite3.connect(first)) as old, old:
        old.execute("DROP TRIGGER entries_only_added")
        old.execute("INSERT INTO runs VALUES (?, 'far', 'n', 't')", (2**31,))
        old.execute(ENTRY, (*row, "kind", "chain", "{}"))
        old.execute("CREATE TRIGGER entries_only_added BEFORE INSERT ON entries BEGIN SELECT 1; END")
    before = _rows(first, "SELECT * FROM entries")
    with closing(SqliteStore(first)) as store, pytest.raises(StoreCorrupt, match=r"contradicts itself.*backup"):
        store.runs()
    assert _rows(first, "SELECT * FROM entries") == before
    assert _rows(first, "SELECT version FROM migrations") == [(1,)]


def test_the_first_version_in_a_store_that_may_only_be_read(first: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """It can't be brought up to date there, and is told from a damaged one."""
    before = first.read_bytes()
    monkeypatch.setattr(sqlite_reading, "only_read", lambda path: True)
    with closing(SqliteStore(first)) as store, pytest.raises(StoreUnavailable, match="brought up to date"):
        store.runs()
    assert first.read_bytes() == before
