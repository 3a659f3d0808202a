"""The SQLite store when its file is not as it should be: each failure has a cause and a way out, and writes nothing."""

from __future__ import annotations

import os
import resource
import shutil
import sqlite3
import stat
import subprocess
import sys
import tempfile
import tracemalloc
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager
from pathlib import Path
from typing import Any

import pytest

from addendum.canon import canonical, sha256
from addendum.errors import JournalMoved, LeaseLost, NotFound, StoreCorrupt, StoreError, StoreUnavailable
from addendum.ports import Beside, RunHeader
from addendum.records.chain import START, chain
from addendum.records.stored import Entry
from addendum.store import sqlite, sqlite_reading
from addendum.store.sql_store import HEADS
from addendum.store.sqlite import SqliteDatabase, SqliteStore
from addendum.store.statements import load

NOTE = Entry("note", {"text": "hi"})
FIRST = (1 << 32) + 1
"""The key of the first run's first entry."""
REST = f"kind, chain, body FROM entries WHERE key = {FIRST}"
ASK: dict[str, Callable[[SqliteStore], object]] = {
    "header": lambda store: store.header("r"),
    "runs": lambda store: store.runs(),
    "entries": lambda store: list(store.entries("r")),
    "head": lambda store: store.head("r"),
    "blob": lambda store: store.blob(sha256(b"x")),
    "append": lambda store: store.append("r", [NOTE]),
    "acquire": lambda store: store.acquire("r"),
    "create": lambda store: store.create(RunHeader("other", "n", "t")),
}
each_method = pytest.mark.parametrize("ask", ASK.values(), ids=ASK)


@pytest.fixture
def path(tmp_path: Path) -> Path:
    """Return the path of a store with one run of 200 entries and a blob."""
    path = tmp_path / "folder" / "store.db"
    store = SqliteStore(path)
    store.create(RunHeader("r", "n", "t"))
    store.append("r", [Entry("n", {"n": n, "pad": "x" * 500}) for n in range(200)], blobs={sha256(b"x"): b"x"})
    store.close()
    return path


@contextmanager
def _opened(path: Path) -> Iterator[SqliteStore]:
    with closing(SqliteStore(path, busy=0.0)) as store:
        yield store


@contextmanager
def _raw(path: Path, script: str = "") -> Iterator[sqlite3.Connection]:
    with closing(sqlite3.connect(path, isolation_level=None)) as connection:
        connection.executescript(script)
        yield connection


# --- the file -----------------------------------------------------------------------------------------------------


def test_naming_a_store_opens_nothing(tmp_path: Path) -> None:
    """A store object costs nothing until it is used."""
    SqliteStore(tmp_path / "folder" / "store.db").close()

    assert list(tmp_path.iterdir()) == []


def test_a_new_store_is_its_owners_alone(tmp_path: Path) -> None:
    """The folders that had to be made and all files of the store are closed to others, whatever the umask."""
    before = os.umask(0)
    try:
        with _opened(tmp_path / "a" / "b" / "store.db") as store:
            store.runs()
            modes = {each.name: stat.S_IMODE(each.stat().st_mode) for each in tmp_path.rglob("*")}
    finally:
        os.umask(before)

    assert {"a": 0o700, "b": 0o700} | dict.fromkeys(("store.db", "store.db-wal", "store.db-shm"), 0o600) == modes


def test_a_relative_path_stays_where_it_was(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A process that changes its folder later goes on with the same file. Letters that URIs know are no trouble."""
    folder = path.parent / "odd ?#%20 name"
    folder.mkdir()
    monkeypatch.chdir(folder)
    store = SqliteStore("store.db")
    monkeypatch.chdir("/")
    store.runs()
    store.close()

    assert (folder / "store.db").exists()


def test_a_path_need_not_be_text(path: Path) -> None:
    """A folder whose name is no UTF-8 holds a store like any other."""
    odd = Path(os.fsdecode(os.fsencode(path.parent) + b"\xff")) / "store.db"
    with closing(SqliteStore(odd)) as store:
        assert store.runs() == []
    assert odd.exists()


def test_a_folder_is_no_store(tmp_path: Path) -> None:
    """It says so: there is nothing wrong with its permissions."""
    with closing(SqliteStore(tmp_path)) as store, pytest.raises(StoreUnavailable, match="is a folder") as caught:
        store.runs()
    assert caught.value.hint == "Name a file, as in FOLDER/store.db."


@pytest.mark.parametrize("gone", ["-wal", ""])
def test_a_store_whose_files_are_deleted_takes_nothing_more(path: Path, gone: str) -> None:
    """What is written to a file without a name is lost with the process; for the log it was taken for durable."""
    with closing(SqliteStore(path)) as store:
        store.runs()
        os.unlink(f"{path}{gone}")
        with pytest.raises(StoreUnavailable, match="was deleted or replaced while it was open"):
            store.append("r", [Entry("note", {})])


def test_every_commit_waits_for_the_disk(path: Path) -> None:
    """A connection has WAL, a full sync, foreign keys, and trusts no schema."""
    with closing(SqliteDatabase(path)) as database:
        database.read("runs", {})
        connection = database._open
        assert connection is not None
        found = {
            name: connection.execute(f"PRAGMA {name}").fetchone()[0]
            for name in ("journal_mode", "synchronous", "fullfsync", "foreign_keys", "trusted_schema")
        }

    assert found == {"journal_mode": "wal", "synchronous": 2, "fullfsync": 1, "foreign_keys": 1, "trusted_schema": 0}


@pytest.mark.parametrize("statement", ["entries", "head", "position", "add_entry", "follow", "lease", "blob", "run"])
def test_no_statement_reads_a_whole_table(path: Path, statement: str) -> None:
    """What is asked all the time is looked up by an index: a long journal makes nothing slow."""
    values = dict.fromkeys(("run", "after", "upto", "digest", "seq", "kind", "chain", "body", "before", "token"), 1)
    with _raw(path) as connection:
        plan = connection.execute("EXPLAIN QUERY PLAN " + load("sqlite")[statement], values).fetchall()

    assert [step[3] for step in plan if "SCAN" in step[3] and "CONSTANT ROW" not in step[3]] == []


def _steps(store: SqliteStore, run: str, count: int) -> int:
    """Return how many steps SQLite takes for an append of so many entries."""
    steps = 0

    def step() -> None:
        nonlocal steps
        steps += 1

    assert isinstance(store._database, SqliteDatabase)
    assert store._database._open is not None
    store._database._open.set_progress_handler(step, 1)
    store.append(run, [NOTE] * count)
    store._database._open.set_progress_handler(None, 1)
    return steps


@pytest.mark.parametrize("count", [1, 3])
def test_an_append_takes_as_long_in_a_long_journal(path: Path, count: int) -> None:
    """What the triggers look at is looked up as well, whether the end is remembered or asked for."""
    with _opened(path) as store:
        store.create(RunHeader("short", "n", "t"))
        store.append("short", [NOTE] * 2)
        store._heads.clear()
        for _ in range(2):
            assert _steps(store, "r", count) == _steps(store, "short", count)


# --- only added to ------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ("UPDATE runs SET name = 'x'", "never changed"),
        ("DELETE FROM runs", "never deleted"),
        ("UPDATE entries SET body = '{}'", "never changed"),
        (f"DELETE FROM entries WHERE key = {FIRST + 199}", "never deleted"),
        ("INSERT OR REPLACE INTO entries SELECT key, kind, chain, '{}' FROM entries", "at its end"),
        (f"INSERT OR REPLACE INTO entries SELECT {FIRST + 100}, {REST}", "at its end"),
        (f"INSERT INTO entries SELECT {FIRST + 201}, {REST}", "without a gap"),
        (f"INSERT INTO entries SELECT {FIRST - 1}, {REST}", "at its end"),
        (f"INSERT INTO entries SELECT (2 << 32) + 1, {REST}", "of a run"),
        (f"INSERT INTO entries SELECT 2 << 32, {REST}", "of a run"),
        (f"INSERT INTO entries SELECT -1, {REST}", "of a run"),
        (f"INSERT INTO entries SELECT NULL, {REST}", "of a run"),
        ("INSERT INTO runs VALUES (2147483648, 'x', 'n', 't')", "no room"),
        ("INSERT INTO runs VALUES (0, 'x', 'n', 't')", "no room"),
        ("UPDATE blobs SET data = x'00'", "never changed"),
        ("DELETE FROM blobs", "never deleted"),
    ],
)
def test_what_was_added_stays(path: Path, change: str, words: str) -> None:
    """The database itself refuses to change, delete or replace what a journal holds, whoever asks."""
    with _raw(path) as connection, pytest.raises(sqlite3.IntegrityError, match=words):
        connection.execute(change)


@pytest.mark.parametrize(
    "change",
    [
        "INSERT OR REPLACE INTO blobs SELECT digest, x'00' FROM blobs",
        "INSERT OR REPLACE INTO runs SELECT number, run, 'x', created_at FROM runs",
        "INSERT OR REPLACE INTO runs SELECT number, 'other', 'x', created_at FROM runs",
        f"INSERT OR REPLACE INTO entries SELECT 0, {REST}",
    ],
)
def test_replacing_adds_nothing(path: Path, change: str) -> None:
    """Putting what is there already, with other content, is ignored, and an entry that is put nowhere."""
    with _raw(path) as connection:
        before = connection.execute("SELECT * FROM blobs, runs, entries").fetchall()
        connection.execute(change)
        assert before == connection.execute("SELECT * FROM blobs, runs, entries").fetchall()


# --- files that aren't a store ------------------------------------------------------------------------------------


@each_method
@pytest.mark.parametrize("content", [b"not a database, but long enough to be one\n" * 100, b"short"])
def test_a_file_that_is_no_database(tmp_path: Path, ask: Callable[[SqliteStore], object], content: bytes) -> None:
    """Some other file is refused and left as it is, by reads and writes alike."""
    path = tmp_path / "store.db"
    path.write_bytes(content)

    with _opened(path) as store, pytest.raises(StoreCorrupt, match=r"not a database.*backup"):
        ask(store)

    assert content == path.read_bytes()


def test_a_database_of_another_program(tmp_path: Path) -> None:
    """Another program's database is refused and left as it is, its journal mode too."""
    path = tmp_path / "store.db"
    with _raw(path, "CREATE TABLE runs (run TEXT); INSERT INTO runs VALUES ('mine')"):
        pass
    before = path.read_bytes()

    with _opened(path) as store, pytest.raises(StoreUnavailable, match="another program"):
        store.runs()

    assert before == path.read_bytes()
    assert [each.name for each in tmp_path.iterdir()] == ["store.db"]


@pytest.mark.parametrize("ask", [ASK["entries"], ASK["append"], ASK["head"]], ids=["entries", "append", "head"])
def test_damaged_pages(path: Path, ask: Callable[[SqliteStore], object]) -> None:
    """A file whose pages were overwritten is corrupt, when it is read and when it is added to."""
    content = bytearray(path.read_bytes())
    content[4096:] = b"\xa5" * (len(content) - 4096)
    path.write_bytes(content)

    with _opened(path) as store, pytest.raises(StoreCorrupt, match="damaged"):
        ask(store)

    assert bytes(content) == path.read_bytes()


def test_a_truncated_file(path: Path) -> None:
    """A file that lost its end is corrupt."""
    os.truncate(path, 3 * 4096)

    with _opened(path) as store, pytest.raises(StoreCorrupt):
        list(store.entries("r"))


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ("DELETE FROM entries WHERE key & 255 = 7", "entry 7 is missing"),
        ("DELETE FROM entries WHERE key & 255 <= 3", "entry 1 is missing"),
        ("UPDATE entries SET body = '[]' WHERE key & 255 = 5", "entry 5 is no JSON object"),
        ("UPDATE entries SET body = '{' WHERE key & 255 = 5", "entry 5 is no JSON"),
        ("UPDATE entries SET body = CAST(x'ff' AS TEXT) WHERE key & 255 = 5", "text"),
        ("DROP TABLE entries", "tables"),
    ],
)
def test_a_journal_that_was_tampered_with(path: Path, change: str, words: str) -> None:
    """Whoever takes the triggers away and changes a journal is found out when it is read."""
    with _raw(path, f"DROP TRIGGER entries_no_delete; DROP TRIGGER entries_no_update; {change}"):
        pass

    with _opened(path) as store, pytest.raises(StoreCorrupt, match=words):
        list(store.entries("r"))


def test_a_blob_that_was_tampered_with(path: Path) -> None:
    """A blob with other bytes than its digest says is corrupt."""
    with _raw(path, "DROP TRIGGER blobs_no_update; UPDATE blobs SET data = x'00'"):
        pass

    with _opened(path) as store, pytest.raises(StoreCorrupt, match="other bytes"):
        store.blob(sha256(b"x"))


# --- a store that doesn't answer ----------------------------------------------------------------------------------


@contextmanager
def _without_privileges() -> Iterator[Path]:
    """Become somebody whom permissions bind, in a folder that he can reach."""
    folder = Path(tempfile.mkdtemp(prefix="addendum-"))
    folder.chmod(0o755)
    privileged = os.geteuid() == 0
    try:
        if privileged:
            os.chown(folder, 65534, 65534)
            os.seteuid(65534)
        yield folder
    finally:
        if privileged:
            os.seteuid(0)
        for each in (folder, *folder.rglob("*")):
            each.chmod(0o700)
        shutil.rmtree(folder)


READS = ("header", "runs", "entries", "head", "blob")
WRITES = ("append", "acquire", "create")


def _files(folder: Path) -> dict[str, bytes]:
    """Return what is in a folder."""
    return {each.name: each.read_bytes() for each in folder.iterdir()}


@each_method
def test_a_file_that_may_not_be_read(ask: Callable[[SqliteStore], object]) -> None:
    """Neither for reads nor for writes is there anything to be had, and that is said."""
    with _without_privileges() as place:
        path = place / "folder" / "store.db"
        with _opened(path) as store:
            store.create(RunHeader("r", "n", "t"))
        path.chmod(0o000)
        with _opened(path) as store, pytest.raises(StoreUnavailable, match=r"may read and write"):
            ask(store)


@pytest.mark.parametrize(("file", "folder"), [(0o600, 0o500), (0o400, 0o500), (0o400, 0o700)])
def test_a_store_that_may_only_be_read(file: int, folder: int) -> None:
    """It is read, with nothing made or changed beside it; writes say why they aren't done."""
    with _without_privileges() as place:
        path = place / "folder" / "store.db"
        with _opened(path) as store:
            store.create(RunHeader("r", "n", "t"))
            store.append("r", [NOTE], blobs={sha256(b"x"): b"x"})
        before = _files(path.parent)
        path.chmod(file)
        path.parent.chmod(folder)
        with _opened(path) as store:
            for name in READS:
                ASK[name](store)
            assert [entry.body for entry in store.entries("r")] == [NOTE.body]
            for name in WRITES:
                with pytest.raises(StoreUnavailable, match=r"may only be read here.* write permission"):
                    ASK[name](store)
        assert _files(path.parent) == before


def test_a_store_that_may_only_be_read_while_it_is_written(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Another process has it open and has entries in its log: they are read too, as far as they are committed."""
    with _opened(path) as writer:
        writer.append("r", [NOTE])
        before = _files(path.parent)
        assert before["store.db-wal"]
        monkeypatch.setattr(sqlite_reading, "only_read", lambda path: True)
        with _opened(path) as reader:
            assert reader.head("r")[0] == 201
            writer.append("r", [NOTE])
            assert reader.head("r")[0] == 202
    assert set(before) == {"store.db", "store.db-wal", "store.db-shm"}


def test_a_store_that_may_only_be_read_is_looked_at_again_once_it_was_written(
    path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It was opened as a file that doesn't change: when it does, between two reads, the second one sees it."""
    real = sqlite_reading.only_read
    monkeypatch.setattr(sqlite_reading, "only_read", lambda path: True)
    with _opened(path) as reader:
        assert reader.head("r")[0] == 200
        monkeypatch.setattr(sqlite_reading, "only_read", real)
        with _opened(path) as writer:
            writer.append("r", [NOTE])
            monkeypatch.setattr(sqlite_reading, "only_read", lambda path: True)
            assert reader.head("r")[0] == 201
        assert reader.head("r")[0] == 201


def test_a_read_that_a_write_came_into_is_no_answer(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Of a file that was opened as one that doesn't change, nobody knows what a read mixed."""
    monkeypatch.setattr(sqlite_reading, "only_read", lambda path: True)
    looks = iter([(1, 1, 1, 0), (1, 1, 2, 0)])
    monkeypatch.setattr(sqlite_reading, "look", lambda path: next(looks))
    with _opened(path) as reader, pytest.raises(StoreUnavailable, match=r"written while it was read.*Try again"):
        reader.head("r")


def test_a_log_that_cant_be_read_without_writing_is_not_left_out(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A copy without its third file: the entries in its log would be missing, so it says what to do."""
    with _opened(path) as store:
        store.append("r", [NOTE])
        copy = path.parent.parent / "copy"
        copy.mkdir()
        for name in ("store.db", "store.db-wal"):
            shutil.copy(path.parent / name, copy)
    before = _files(copy)
    monkeypatch.setattr(sqlite_reading, "only_read", lambda path: True)
    with (
        _opened(copy / "store.db") as store,
        pytest.raises(StoreUnavailable, match=r"store\.db-wal.*Copy store\.db and"),
    ):
        store.runs()
    assert _files(copy) == before


def test_tables_of_an_older_program_in_a_store_that_may_only_be_read(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """They can't be brought up to date, so nothing is read from them."""
    (tmp_path / "store.db").touch()
    monkeypatch.setattr(sqlite_reading, "only_read", lambda path: True)
    with _opened(tmp_path / "store.db") as store, pytest.raises(StoreUnavailable, match="brought up to date"):
        store.runs()
    assert _files(tmp_path) == {"store.db": b""}


def test_a_folder_in_which_nothing_can_be_made() -> None:
    """A new store in a folder that may not be written says which and why."""
    with _without_privileges() as place:
        place.chmod(0o500)
        for path in (place / "store.db", place / "deep" / "store.db"):
            with _opened(path) as store, pytest.raises(StoreUnavailable, match="Permission denied"):
                store.runs()


@pytest.mark.parametrize("make", [Path.mkdir, Path.touch], ids=["folder", "file"])
def test_a_path_that_leads_nowhere(tmp_path: Path, make: Callable[[Path], None]) -> None:
    """A folder in the file's place, or a file in a folder's, makes the store unavailable."""
    make(tmp_path / "it")
    path = tmp_path / "it" if (tmp_path / "it").is_dir() else tmp_path / "it" / "store.db"

    with _opened(path) as store, pytest.raises(StoreUnavailable, match="folder"):
        store.runs()


@each_method
@pytest.mark.parametrize("way", ["folder deleted", "file deleted", "file replaced"])
def test_a_store_that_is_deleted_while_open(path: Path, ask: Callable[[SqliteStore], object], way: str) -> None:
    """A file that nobody can open any more is neither read nor written to, and isn't made anew in silence."""
    with _opened(path) as store:
        store.head("r")
        if way == "folder deleted":
            shutil.rmtree(path.parent)
        else:
            path.unlink()
        if way == "file replaced":
            path.touch()
        for _ in range(2):
            with pytest.raises(StoreUnavailable, match="deleted or replaced"):
                ask(store)
        assert (way == "file replaced") is path.exists()


def test_another_process_writes_for_too_long(path: Path) -> None:
    """A write that can't begin says that the store is locked; reads go on, and so do writes once it is free."""
    with _opened(path) as store, _raw(path) as other:
        other.execute("BEGIN IMMEDIATE")
        for name in ("append", "acquire", "create"):
            with pytest.raises(StoreUnavailable, match=r"locked by another process.*Try again"):
                ASK[name](store)
        assert len(list(store.entries("r"))) == 200
        other.execute("ROLLBACK")
        assert store.append("r", [NOTE])[0].seq == 201


def test_a_store_that_is_locked_before_it_is_opened(path: Path) -> None:
    """A file that another program holds for itself alone is locked, also for reads."""
    with _opened(path) as store:
        with _raw(path) as other:
            for statement in ("PRAGMA locking_mode = EXCLUSIVE", "BEGIN EXCLUSIVE", "DELETE FROM leases", "COMMIT"):
                other.execute(statement)
            with pytest.raises(StoreUnavailable, match="locked"):
                store.runs()
        assert len(store.runs()) == 1


def test_a_full_disk(path: Path) -> None:
    """Of an append that the disk has no room for nothing is left; what fits goes in afterwards."""
    database = SqliteDatabase(path)
    store = SqliteStore(path)
    store._database = database
    before = store.head("r")
    connection = database._open
    assert connection is not None
    connection.execute("PRAGMA max_page_count = 60")
    big = b"y" * 1_000_000
    with pytest.raises(StoreUnavailable, match=r"disk is full.*Make room"):
        store.append("r", [NOTE] * 3, blobs={sha256(big): big})

    assert before == store.head("r")
    assert store.append("r", [NOTE])[0].seq == 201
    connection.execute("PRAGMA max_page_count = 100000")
    assert store.append("r", [NOTE], blobs={sha256(big): big})[0].seq == 202
    store.close()


def test_a_write_that_fails_in_the_middle(path: Path) -> None:
    """A file that may not grow (a quota) makes the store unavailable, and the journal stays whole."""
    big = b"y" * 1_000_000
    with _opened(path) as store:
        before = store.head("r")
        soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
        resource.setrlimit(resource.RLIMIT_FSIZE, (400_000, hard))
        try:
            with pytest.raises(StoreUnavailable, match="space"):
                store.append("r", [NOTE] * 3, blobs={sha256(big): big})
            assert before == store.head("r")
        finally:
            resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))
        assert store.append("r", [NOTE], blobs={sha256(big): big})[0].seq == 201
    with _opened(path) as store:
        assert list(range(1, 202)) == [stored.seq for stored in store.entries("r")]
        assert big == store.blob(sha256(big))


def test_a_file_system_without_shared_memory(path: Path) -> None:
    """Where SQLite can't have a write-ahead log, the store says so instead of promising less."""
    with closing(SqliteDatabase(path)) as database:
        database._sql = {**load("sqlite"), "journal_mode": "PRAGMA journal_mode = DELETE"}
        with pytest.raises(StoreUnavailable, match="local disk"):
            database.read("runs", {})


# --- connection ---------------------------------------------------------------------------------------------------


def _interrupted(database: SqliteDatabase) -> None:
    with database.transaction():
        database.write("add_run", {"run": "x", "name": "n", "created_at": "t"})
        raise KeyboardInterrupt


def _broken(database: SqliteDatabase) -> None:
    with database.transaction():
        assert database._open is not None
        database._open.close()
        database.read("runs", {})


def test_an_interrupted_transaction_is_undone(path: Path) -> None:
    """Whatever breaks a transaction off, it leaves nothing, and the next one begins."""
    with closing(SqliteDatabase(path)) as database:
        with pytest.raises(KeyboardInterrupt):
            _interrupted(database)
        assert database.read("run", {"run": "x"}) == []
        with database.transaction():
            assert database.write("add_run", {"run": "x", "name": "n", "created_at": "t"}) == 1


class _Interrupts:
    """A connection at which ^C arrives right after a statement."""

    def __init__(self, connection: sqlite3.Connection, after: str) -> None:
        self._connection, self._after = connection, after

    def __getattr__(self, name: str) -> Any:
        return getattr(self._connection, name)

    def execute(self, statement: str, *values: Any) -> sqlite3.Cursor:
        found = self._connection.execute(statement, *values)
        if statement.startswith(self._after):
            self._after = "nothing more"
            raise KeyboardInterrupt
        return found


@pytest.mark.parametrize("append", [[NOTE], [NOTE, NOTE]], ids=["alone", "in a transaction"])
@pytest.mark.parametrize("rolled_back", [True, False])
def test_nothing_is_written_into_a_transaction_that_was_interrupted(
    path: Path, monkeypatch: pytest.MonkeyPatch, append: list[Entry], rolled_back: bool
) -> None:
    """^C right after a transaction was begun, also where it can't be undone at once: what is appended next is durable,
    and others can write."""
    with _opened(path) as store, _raw(path) as other:
        store.append("r", [NOTE])
        database = store._database
        assert isinstance(database, SqliteDatabase)
        assert database._open is not None
        with monkeypatch.context() as patch:
            patch.setattr(database, "_open", _Interrupts(database._open, "BEGIN"))
            if not rolled_back:
                patch.setattr(database, "_roll_back", lambda connection: None)
            with pytest.raises(KeyboardInterrupt):
                store.append("r", [NOTE, NOTE])
        assert store.append("r", append)[0].seq == 202
        assert other.execute("SELECT count(*) FROM entries").fetchone() == (201 + len(append),)
        other.execute("BEGIN IMMEDIATE")
        other.execute("ROLLBACK")


def test_a_connection_that_broke_is_opened_anew(path: Path) -> None:
    """An error of the driver that can't even be rolled back costs the connection, not the store."""
    with closing(SqliteDatabase(path)) as database:
        with pytest.raises(StoreError):
            _broken(database)
        assert len(database.read("runs", {})) == 1


def test_a_child_that_was_forked_has_a_connection_of_its_own(path: Path) -> None:
    """After a fork, both processes read and write; the child's end takes nothing from its parent."""
    program = """
import os, sys
from pathlib import Path
from typing import Any
from addendum.records.stored import Entry
from addendum.store import sqlite_reading
from addendum.store.sqlite import SqliteStore
store = SqliteStore(Path(sys.argv[1]))
store.append("r", [Entry("parent", {})])
child = os.fork()
store.append("r", [Entry("either", {})])
if child:
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
    store.append("r", [Entry("parent", {})])
store.close()
"""
    subprocess.run(
        [sys.executable, "-c", program, path], check=True, env={**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)}
    )

    with _opened(path) as store:
        kinds = [stored.kind for stored in store.entries("r", after=200)]
        assert kinds == ["parent", "either", "either", "parent"]


def test_reading_takes_memory_for_a_page_only(path: Path) -> None:
    """A long journal is read piece by piece."""
    with _opened(path) as store:
        for _ in range(20):
            store.append("r", [Entry("n", {"pad": "x" * 10_000}) for _ in range(50)])
        tracemalloc.start()
        try:
            assert sum(1 for _ in store.entries("r")) == 1200
            peak = tracemalloc.get_traced_memory()[1]
        finally:
            tracemalloc.stop()

    assert peak < 3_000_000 < 20 * 50 * 10_000


def _copy(source: Path, target: Path) -> None:
    """Copy a database into another file as SQLite's own backup does, while stores have both open."""
    with closing(sqlite3.connect(source)) as before, closing(sqlite3.connect(target)) as after:
        before.backup(after)


@pytest.mark.parametrize("others", [0, 1, 2])
def test_an_entry_beside_follows_a_journal_that_was_restored_while_open(path: Path, others: int) -> None:
    """After so many entries of another process, the journal ends before, at or after the number that is remembered, and
    with another entry in any case."""
    with _opened(path) as store, _opened(path) as other:
        store.create(RunHeader("@books", "", "t"))
        store.append("r", [NOTE], beside=Beside("@books", [Entry("hold", {"n": 1})]))
        _copy(path, path.with_name("backup.db"))
        store.append("r", [NOTE], beside=Beside("@books", [Entry("hold", {"n": 2})]))
        _copy(path.with_name("backup.db"), path)
        for number in range(others):
            other.append("r", [NOTE], beside=Beside("@books", [Entry("hold", {"other": number})]))
        store.append("r", [NOTE], beside=Beside("@books", [Entry("hold", {"n": 3})]))
        store.append("r", [NOTE], beside=Beside("@books", [Entry("hold", {"n": 4})]))
        head = START
        for each in other.entries("@books"):
            head = chain(head, each.kind, canonical(each.body))
            assert each.chain == head
        assert store.head("@books") == (3 + others, head)


@pytest.mark.parametrize("others", [0, 1, 2])
@pytest.mark.parametrize("several", [1, 2])
def test_a_driver_follows_its_journal_that_was_restored_while_open(path: Path, others: int, several: int) -> None:
    """The journal itself likewise, with the lease that is in the copy too."""
    with _opened(path) as store, _opened(path) as other:
        lease = store.acquire("r")
        store.append("r", [Entry("mine", {"n": 1})], lease=lease)
        _copy(path, path.with_name("backup.db"))
        store.append("r", [Entry("mine", {"n": 2})], lease=lease)
        _copy(path.with_name("backup.db"), path)
        for number in range(others):
            other.append("r", [Entry("other", {"n": number})])
        for number in range(3, 5):
            store.append("r", [Entry("mine", {"n": number})] * several, lease=lease)
        head = START
        for each in other.entries("r"):
            head = chain(head, each.kind, canonical(each.body))
            assert each.chain == head
        assert store.head("r") == (201 + others + 2 * several, head)


def test_a_journal_of_another_run_of_the_same_number_is_not_followed(path: Path) -> None:
    """Another store was copied over this one, whose first run has the same entries and another name."""
    with _opened(path) as store, _opened(path.with_name("second.db")) as second:
        for each, run in ((store, "mine"), (second, "filler"), (second, "other")):
            each.create(RunHeader(run, "n", "t"))
            each.append(run, [NOTE])
        _copy(path.with_name("second.db"), path)
        assert [header.run for header in store.runs()] == ["filler", "other"]
        for entries in ([NOTE], [NOTE, NOTE]):
            with pytest.raises(NotFound):
                store.append("mine", entries)
        assert store.head("other")[0] == store.head("filler")[0] == 1


def test_an_append_that_was_not_committed_is_not_followed(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """What an append of several entries that failed at its commit would have written is no end of the journal."""
    with _opened(path) as store:
        store.append("r", [NOTE])
        with monkeypatch.context() as patched:
            patched.setattr(SqliteDatabase, "_still_there", _gone)
            for entries in ([NOTE], [NOTE, NOTE]):
                with pytest.raises(StoreUnavailable):
                    store.append("r", entries)
        store.append("r", [NOTE, NOTE])
        (before, *after) = store.entries("r", after=200)
        for each in after:
            assert (each.kind, each.chain) == ("note", chain(before.chain, "note", canonical(each.body)))
            before = each
        assert before.seq == 203


@pytest.mark.parametrize("entries", [[NOTE], [NOTE, NOTE]], ids=["one", "two"])
def test_an_append_that_waited_while_the_file_was_replaced_has_failed(
    path: Path, monkeypatch: pytest.MonkeyPatch, entries: list[Entry]
) -> None:
    """Another process has the lock when the append begins, and the file is another one when it is let go: what is in
    a file that nobody can open is not durable. (Nobody sleeps here, so that no time counts as having waited.)"""
    monkeypatch.setattr(sqlite, "WAITED", 0.0)
    with closing(SqliteStore(path)) as store, closing(sqlite3.connect(path, isolation_level=None)) as other:
        store.append("r", [NOTE])
        assert isinstance(store._database, SqliteDatabase)
        assert store._database._open is not None
        begun: list[str] = []

        def replace(statement: str) -> None:
            """What happens once the append's first statement has begun, which is before it asks for the lock."""
            if not begun:
                begun.append(statement)
                shutil.copy(path, path.with_name("copy"))
                path.with_name("copy").replace(path)
                other.execute("ROLLBACK")

        other.execute("BEGIN IMMEDIATE")
        store._database._open.set_trace_callback(replace)
        with pytest.raises(StoreUnavailable, match="deleted or replaced"):
            store.append("r", entries)
        assert begun
        assert not other.in_transaction


def test_the_next_entry_of_a_journal_is_one_statement(path: Path) -> None:
    """A driver's, an operator's, and one that goes in only at a place: nothing is asked before, nothing after."""
    said: list[str] = []
    with _opened(path) as store:
        lease = store.acquire("r")
        store.append("r", [NOTE], lease=lease)
        assert isinstance(store._database, SqliteDatabase)
        assert store._database._open is not None
        store._database._open.set_trace_callback(said.append)
        store.append("r", [NOTE], lease=lease)
        store.append("r", [NOTE])
        store.append("r", [NOTE], lease=lease, beside=Beside("r", own=203))
        assert {line.split()[0] for line in said} == {"INSERT"}  # no BEGIN, no SELECT, no COMMIT


@pytest.mark.parametrize("at", [True, False], ids=["looked at", "wherever it ends"])
def test_two_entries_in_two_journals_are_one_statement_and_all_or_nothing(path: Path, at: bool) -> None:
    """An entry of a run's journal and one beside it, with both ends known. Where somebody else wrote to either, or has
    the run's lease now, what is asked for is looked up: both are written, or neither."""
    with _opened(path) as store, _opened(path) as other:
        store.create(RunHeader("@books", "n", "t"))
        lease = store.acquire("r")

        def both() -> list[str]:
            beside = Beside("@books", [Entry("hold", {})], books if at else None, own=own)
            return [entry.kind for entry in store.append("r", [Entry("attempt", {})], lease=lease, beside=beside)]

        def ends() -> tuple[int, int]:
            return other.head("r")[0], other.head("@books")[0]

        own, books = 200, 0
        statements: list[str] = []
        for number in range(1, 4):
            assert both() == ["attempt"]
            assert ends() == (own + 1, books + 1)
            own, books = ends()
            if number == 2:
                database = store._database
                assert isinstance(database, SqliteDatabase)
                assert database._open is not None
                database._open.set_trace_callback(statements.append)
        assert {line.split()[0] for line in statements} == {"INSERT"}  # no BEGIN, no SELECT, no COMMIT

        other.append("@books", [NOTE])  # another process of the principal
        if at:
            with pytest.raises(JournalMoved):
                both()
            assert ends() == (own, books + 1)
            books += 1
        assert both() == ["attempt"]
        own, books = ends()

        other.append("r", [NOTE])  # an operator
        with pytest.raises(JournalMoved):
            both()
        assert ends() == (own + 1, books)
        own += 1
        assert both() == ["attempt"]
        own, books = ends()

        store.release(lease)
        other.acquire("r")
        with pytest.raises(LeaseLost):
            both()
        assert ends() == (own, books)
        for run in ("r", "@books"):
            head = START
            for each in other.entries(run):
                head = chain(head, each.kind, canonical(each.body))
                assert each.chain == head


def test_an_entry_beside_that_was_not_committed_is_not_followed(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """What an append that failed at its commit would have written is no end of the journal."""
    with _opened(path) as store:
        store.create(RunHeader("@books", "", "t"))
        store.append("r", [NOTE], beside=Beside("@books", [NOTE]))
        with monkeypatch.context() as patched:
            patched.setattr(SqliteDatabase, "_still_there", _gone)
            with pytest.raises(StoreUnavailable):
                store.append("r", [NOTE], beside=Beside("@books", [Entry("hold", {})]))
        store.append("r", [NOTE], beside=Beside("@books", [NOTE]))
        first, second = store.entries("@books")
        assert (second.kind, second.chain) == ("note", chain(first.chain, "note", canonical(second.body)))


def _gone(database: SqliteDatabase) -> None:
    raise StoreUnavailable("gone")


def test_where_a_few_journals_end_is_remembered(path: Path) -> None:
    """A store that serves many runs and principals doesn't grow with them."""
    with _opened(path) as store:
        for number in range(HEADS + 3):
            store.create(RunHeader(f"@{number}", "", "t"))
            store.append("r", [NOTE], beside=Beside(f"@{number}", [NOTE]))
            store.append("r", [NOTE], beside=Beside("@0", [NOTE], number + 1))
        assert list(store._heads) == [*(f"@{number}" for number in range(5, HEADS + 3)), "r", "@0"]
