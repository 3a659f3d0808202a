"""The store in one SQLite file: WAL, so that readers and the writer don't wait for each other, and a full sync in
every commit, so that what was returned survives a power cut.

One connection for each store object, guarded by a lock. A transaction takes SQLite's write lock at its start; a
process that finds it taken waits for a short time and then says so.
"""

from __future__ import annotations

import os
import sqlite3
import threading
import time
import weakref
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Final
from urllib.parse import quote

from addendum.errors import StoreUnavailable
from addendum.ports import Clock
from addendum.store import sqlite_reading as reading
from addendum.store.database import Row, Values
from addendum.store.migrations import missing
from addendum.store.sql_store import SqlStore
from addendum.store.sqlite_errors import code, explain
from addendum.store.statements import load, resource

APPLICATION: Final = 0x4164646D
"""The application id of a store's file, "Addm"."""

WAITED: Final = 0.001
"""From how many seconds on a statement may have waited for another process's lock: SQLite sleeps for no less."""

BUSY_SECONDS: Final = 5.0
"""How long to wait for another process's transaction."""

FORK_SECONDS: Final = 1.0
"""How long a fork waits for another thread's statement or transaction."""


class SqliteStore(SqlStore):
    """The `Store` port on one file, made with its folder when first used (readable by its owner only). One that may
    only be read is read, and nothing beside it is made.

    >>> store = SqliteStore(folder / "store.db")
    >>> store.create(RunHeader("r-1", "hello", "2026-01-01T00:00:00Z"))
    """

    def __init__(self, path: str | os.PathLike[str], *, clock: Clock | None = None, busy: float = BUSY_SECONDS) -> None:
        """Name the file; nothing is opened yet. `busy`: seconds to wait while another process writes."""
        super().__init__(SqliteDatabase(Path(path), busy=busy), clock=clock)


class SqliteDatabase:
    """The `Database` seam on one file."""

    def __init__(self, path: Path, *, busy: float = BUSY_SECONDS) -> None:
        self._path = Path(os.path.abspath(path))
        self.where = str(self._path)
        self._busy = busy
        self._sql = load("sqlite")
        self._lock = threading.RLock()
        self._open: sqlite3.Connection | None = None
        self._inside: sqlite3.Connection | None = None
        self._log_path = f"{self.where}-wal"
        self._file: tuple[int, int] | None = None
        self._log: tuple[int, int] | None = None
        """Which files the store and its log are; None for a log that isn't there yet."""
        self._pid = 0
        self._only_read = False
        self._seen: reading.Look | None = None
        """Of a file that was opened as one that doesn't change: how it looked."""
        self._inherited: list[sqlite3.Connection] = []
        self._closed = False
        _DATABASES[id(self)] = self

    def read(self, statement: str, values: Values, *, budget: int | None = None) -> list[Row]:
        with self._lock:
            try:
                cursor = (self._inside or self._ready()).execute(self._sql[statement], values)
                rows = cursor.fetchall() if budget is None else _within(cursor, budget)
                if self._seen is not None and self._seen != reading.look(self._path):
                    raise reading.changed(self.where)
                return rows
            except (sqlite3.Error, OSError) as error:
                raise explain(error, self.where) from error

    def transaction(self) -> _Transaction:
        return _Transaction(self)

    def write(self, statement: str, values: Values) -> int:
        assert self._inside is not None, "inside a transaction only"
        return self._inside.execute(self._sql[statement], values).rowcount

    def write_all(self, statement: str, rows: Iterable[Values]) -> None:
        assert self._inside is not None, "inside a transaction only"
        self._inside.executemany(self._sql[statement], rows)

    def write_alone(self, statement: str, values: Values) -> int:
        with self._lock:
            assert self._inside is None, "outside of a transaction only"
            try:
                connection = self._ready()
                if self._only_read:
                    raise reading.unwritable(self.where)
                began = time.monotonic()
                changed = connection.execute(self._sql[statement], values).rowcount  # takes SQLite's lock, and commits
                if time.monotonic() - began >= WAITED:
                    self._still_there()  # the file may have been replaced while it waited
                return changed
            except (sqlite3.Error, OSError) as error:
                raise explain(error, self.where) from error

    def close(self) -> None:
        with self._lock:
            self._closed = True
            connection, self._open = self._open, None
            if connection is not None and self._pid == os.getpid():
                try:
                    connection.close()
                except sqlite3.Error as error:
                    raise explain(error, self.where) from error

    def _forked(self) -> None:
        """Begin anew in a fork's child: whoever had the lock isn't there, nor what it was doing."""
        self._lock, self._inside = threading.RLock(), None

    def _ready(self, *, check: bool = True) -> sqlite3.Connection:
        if self._closed:
            raise StoreUnavailable(f"The store {self.where} is closed.", hint="Open it again.", store=self.where)
        if self._open is not None and self._pid != os.getpid():
            # A fork's child must not touch its parent's connection, nor close it: that would drop the parent's locks.
            self._inherited.append(self._open)
            self._open = None
        if self._open is not None and self._inside is None:
            # What was begun when its thread was interrupted (^C while it waited for SQLite's lock) is nobody's: what is
            # written next would be part of it, and never be committed.
            self._roll_back(self._open)
        if self._open is None:
            self._open = self._connect()
            self._pid = os.getpid()
        elif check:
            self._still_there()
            if self._seen is not None and self._seen != reading.look(self._path):
                self._open.close()
                self._open = self._connect()
        return self._open

    def _still_there(self) -> None:
        """Raise if the file or its log was deleted or replaced: SQLite would go on writing to what nobody can open any
        more."""
        if _which(self.where) != self._file:
            raise StoreUnavailable(
                f"The store {self.where} was deleted or replaced while it was open.",
                hint="Nothing more is written. Put the file back, or start over with a new store.",
                store=self.where,
            )
        if self._log is not None and _which(self._log_path) != self._log:
            raise StoreUnavailable(
                f"The log of the store, {self._log_path}, was deleted or replaced while it was open.",
                hint="Nothing more is written. Leave the files beside a store alone while it is open, and go on.",
                store=self.where,
            )

    def _begin(self) -> None:
        self._lock.acquire()
        try:
            connection = self._ready(check=False)  # the file is looked at before the commit
            if self._only_read:
                raise reading.unwritable(self.where)
            connection.execute(self._sql["begin"])
            self._inside = connection
        except (sqlite3.Error, OSError) as error:
            self._lock.release()
            raise explain(error, self.where) from error
        except BaseException:
            self._inside = None
            if self._open is not None:
                self._roll_back(self._open)
            self._lock.release()
            raise

    def _end(self, error: BaseException | None) -> None:
        connection = self._inside
        assert connection is not None
        try:
            if error is None:
                try:
                    self._still_there()
                    connection.execute(self._sql["commit"])
                except BaseException:
                    self._roll_back(connection)
                    raise
            else:
                self._roll_back(connection)
        except (sqlite3.Error, OSError) as failed:
            raise explain(failed, self.where) from failed
        finally:
            self._inside = None
            self._lock.release()
        if isinstance(error, sqlite3.Error | OSError):
            raise explain(error, self.where) from error

    def _roll_back(self, connection: sqlite3.Connection) -> None:
        try:
            if connection.in_transaction:
                connection.execute(self._sql["roll_back"])
        except sqlite3.Error:  # what led here is the error to tell; SQLite rolls back when the file is opened next
            self._open = None
            connection.close()

    # --- opening --------------------------------------------------------------------------------------------------

    def _connect(self) -> sqlite3.Connection:
        if self._path.is_dir():
            raise StoreUnavailable(
                f"The store {self.where} is a folder.", hint="Name a file, as in FOLDER/store.db.", store=self.where
            )
        how = "mode=rw"  # never an empty file in place of one that was just deleted
        self._only_read, self._seen = reading.only_read(self._path), None
        if self._only_read:
            self._seen = reading.look(self._path)
            how = reading.parameters(self._path)
            self._seen = self._seen if how == reading.IMMUTABLE else None
        else:
            _make(self._path)
        self._file, self._log = _which(self.where), None
        deadline = time.monotonic() + self._busy
        while True:
            connection = sqlite3.connect(
                f"file:{quote(os.fsencode(self._path))}?{how}",
                uri=True,
                timeout=self._busy,
                isolation_level=None,
                check_same_thread=False,
            )
            try:
                self._prepare(connection)
                if not self._only_read:
                    self._log = _which(self._log_path)
                return connection
            except sqlite3.OperationalError as error:
                connection.close()
                # Two processes that turn one new file to WAL can lock each other out; SQLite tells both at once.
                if code(error) != sqlite3.SQLITE_BUSY or time.monotonic() >= deadline:
                    raise
                time.sleep(0.005)
            except BaseException:
                connection.close()
                raise

    def _prepare(self, connection: sqlite3.Connection) -> None:
        """Set a new connection up and bring the file's tables up to date; a foreign file stays as it is."""
        tables = self._one(connection, "tables")
        # Asked second: another process may be making the same store, and sets both in one transaction.
        application = self._one(connection, "application")
        if application != APPLICATION and (application != 0 or tables != 0):
            raise StoreUnavailable(
                f"The file {self.where} is a database of another program.",
                hint="Name another file for the store.",
                store=self.where,
            )
        mode = "wal" if self._only_read else self._one(connection, "journal_mode")
        if mode != "wal":
            raise StoreUnavailable(
                f"The store {self.where} can't have a write-ahead log (its journal mode stays {mode!r}).",
                hint="Put it on a local disk: SQLite needs shared memory, which network file systems don't offer.",
                store=self.where,
            )
        for setting in ("synchronous", "checkpoint", "fullfsync", "foreign_keys", "cell_size_check", "trusted_schema"):
            connection.execute(self._sql[setting])
        if missing(self._version(connection), self.where):
            if self._only_read:
                raise reading.outdated(self.where)
            self._migrate(connection)

    def _migrate(self, connection: sqlite3.Connection) -> None:
        connection.execute(self._sql["begin"])
        try:
            # Asked again, as another process may have been first.
            for version, name in missing(self._version(connection), self.where):
                for statement in _statements(resource(f"sqlite/{name}.sql")):
                    connection.execute(statement)
                connection.execute(self._sql["add_migration"], {"version": version, "name": name})
            connection.execute(self._sql["commit"])
        except BaseException:
            self._roll_back(connection)
            raise

    def _version(self, connection: sqlite3.Connection) -> int:
        if self._one(connection, "application") == 0:
            return 0
        return int(str(self._one(connection, "version") or 0))

    def _one(self, connection: sqlite3.Connection, statement: str) -> object:
        row = connection.execute(self._sql[statement]).fetchone()
        return row[0] if row else None


class _Transaction:
    """One transaction of a database; a class, since a generator's context manager takes longer than the commit's own
    statements."""

    __slots__ = ("_database",)

    def __init__(self, database: SqliteDatabase) -> None:
        self._database = database

    def __enter__(self) -> None:
        self._database._begin()

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: object) -> None:
        self._database._end(error)


def _within(cursor: sqlite3.Cursor, budget: int) -> list[Row]:
    rows: list[Row] = []
    for row in cursor:
        rows.append(row)
        budget -= len(row[-1])
        if budget < 0:
            break
    cursor.close()
    return rows


def _statements(script: str) -> Iterator[str]:
    """Yield the statements of a script; a trigger's body is part of its statement."""
    text = ""
    for line in script.splitlines(keepends=True):
        text += line
        if sqlite3.complete_statement(text):
            yield text
            text = ""
    if text.strip():
        yield text


def _which(path: str) -> tuple[int, int] | None:
    """Return which file has a name now, None if none has."""
    try:
        found = os.stat(path)
    except FileNotFoundError:
        return None
    return found.st_dev, found.st_ino


def _make(path: Path) -> None:
    """Make an empty file with its folders, for its owner's eyes only; leave what is there as it is."""
    folders = [folder for folder in reversed(path.parents) if not folder.exists()]
    for folder in folders:
        folder.mkdir(mode=0o700, exist_ok=True)
    try:
        os.close(os.open(path, os.O_CREAT | os.O_EXCL | os.O_RDWR, 0o600))
    except FileExistsError:
        return
    for folder in {path.parent, *(made.parent for made in folders)}:
        _sync(folder)


def _sync(folder: Path) -> None:
    """Make a folder's list of names durable, where the system can."""
    try:
        descriptor = os.open(folder, os.O_RDONLY)
    except OSError:
        return
    try:
        os.fsync(descriptor)
    except OSError:
        pass  # not every file system can; SQLite lives with it too
    finally:
        os.close(descriptor)


# --- forks ------------------------------------------------------------------------------------------------------------

_DATABASES: Final[weakref.WeakValueDictionary[int, SqliteDatabase]] = weakref.WeakValueDictionary()
"""Those of this process."""
_HELD: Final[list[SqliteDatabase]] = []
"""Those whose locks the thread has that forks."""


def _databases() -> list[SqliteDatabase]:
    found = (reference() for reference in _DATABASES.valuerefs())
    return sorted((database for database in found if database is not None), key=id)


def _before_fork() -> None:
    """Have no other thread inside SQLite: its own locks, and what it knows of those on the file, are copied as they
    are, for whatever connection the child opens."""
    _HELD[:] = [database for database in _databases() if database._lock.acquire(timeout=FORK_SECONDS)]


def _after_fork() -> None:
    held = _HELD.copy()
    _HELD.clear()
    for database in held:
        database._lock.release()


def _in_child() -> None:
    _HELD.clear()
    for database in _databases():
        database._forked()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(before=_before_fork, after_in_parent=_after_fork, after_in_child=_in_child)
