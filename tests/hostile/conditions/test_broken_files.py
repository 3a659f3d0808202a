"""The store's real file in trouble while a run is driven: read-only, full, locked, corrupted, deleted."""

from __future__ import annotations

import os
import sqlite3
import subprocess
import sys
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest
from rig import Work, context, history, kinds, sound

from addendum.errors import StoreCorrupt, StoreError, StoreUnavailable
from addendum.ports import Request, Sandbox
from addendum.runs.operate import reconcile
from addendum.runs.start import resume, start
from addendum.store.sqlite import SqliteStore
from addendum.testing.clock import ManualClock

pytestmark = pytest.mark.slow  # a real file, with a sync in each commit

SCRIPT = """
async def orchestrate(ctx, args):
    found = []
    for i in range(8):
        found.append(await ctx.run("art.make", {"i": i}))
    return found
"""
END = [{"n": i + 1} for i in range(8)]


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "store.db"


@pytest.fixture
def sqlite(path: Path) -> Iterator[SqliteStore]:
    with closing(SqliteStore(path, busy=0.01)) as found:
        yield found


def _and_then(path: Path, work: Work, sandbox: Sandbox) -> Any:
    """Go on with a healthy store in another process's stead, after what was unresolved was written back."""
    later = ManualClock()
    later.advance(1e9)  # the lease of a process that could not give it back has ended
    with closing(SqliteStore(path, clock=later)) as store:
        made = context(store, work, sandbox)
        result = resume(made, "r")
        if result.stop == "unresolved":
            (attempt,) = history(store).attempts.values()
            reconcile(made, "r", result={"n": work.count["art.make"]}, which=[attempt.key])
            result = resume(made, "r")
        assert sound(store)
        return result


def test_a_store_that_turns_read_only_stops_the_run_before_its_next_effect(
    path: Path, sqlite: SqliteStore, sandbox: Sandbox
) -> None:
    """The trouble begins while the third call is in flight: its result is shown, the fourth is never sent."""

    def behave(request: Request, n: int) -> None:
        if n == 3:
            # As a file system that was remounted: this connection can't write any more.
            connection: Any = sqlite._database._open  # type: ignore[attr-defined]
            connection.execute("PRAGMA query_only = ON")

    work = Work(behave)
    result = start(context(sqlite, work, sandbox), SCRIPT, {}, run="r")
    assert (result.status, result.stop, result.exit_code) == ("stopped", "store_unavailable", 1)
    assert [entry["result"] for entry in result.details["unsaved"]] == [{"n": 3}]
    assert len(work.requests) == 3
    sqlite.close()
    final = _and_then(path, work, sandbox)
    assert (final.status, final.result, work.twice) == ("completed", END, [])


def test_a_run_whose_lease_could_not_be_given_back_may_be_resumed_by_the_same_process(
    sqlite: SqliteStore, sandbox: Sandbox
) -> None:
    """The store was in trouble when the step ended; when it answers again, the process isn't shut out by itself."""

    def behave(request: Request, n: int) -> None:
        if n == 3:
            connection: Any = sqlite._database._open  # type: ignore[attr-defined]
            connection.execute("PRAGMA query_only = ON")

    made = context(sqlite, Work(behave), sandbox)
    result = start(made, SCRIPT, {}, run="r")
    assert result.stop == "store_unavailable"
    connection: Any = sqlite._database._open  # type: ignore[attr-defined]
    connection.execute("PRAGMA query_only = OFF")
    reconcile(made, "r", result=result.details["unsaved"][0]["result"])
    final = resume(made, "r")
    assert (final.status, final.result) == ("completed", END)


def test_a_store_that_another_process_locks_longer_than_it_is_waited_for_stops_the_run(
    path: Path, sqlite: SqliteStore, sandbox: Sandbox
) -> None:
    """Another writer holds the file; what was paid meanwhile is saved at the end if the lock is gone by then."""
    other: list[sqlite3.Connection] = []

    def behave(request: Request, n: int) -> None:
        if n == 2:
            other.append(sqlite3.connect(path, check_same_thread=False, isolation_level=None))
            other[0].execute("BEGIN IMMEDIATE")

    work = Work(behave)
    result = start(context(sqlite, work, sandbox), SCRIPT, {}, run="r")
    other[0].execute("ROLLBACK")
    other[0].close()
    assert (result.stop, len(work.requests)) == ("store_unavailable", 2)
    assert [entry["result"] for entry in result.details["unsaved"]] == [{"n": 2}]
    sqlite.close()
    final = _and_then(path, work, sandbox)
    assert (final.status, final.result, work.twice) == ("completed", END, [])


@pytest.mark.parametrize("n", [1, 4, 8])
def test_a_store_whose_file_is_deleted_stops_the_run_before_its_next_effect(
    n: int, path: Path, sqlite: SqliteStore, sandbox: Sandbox, tmp_path: Path
) -> None:
    """Nothing is written to a file that nobody can open any more; put back, it goes on."""
    aside = tmp_path / "aside.db"

    def behave(request: Request, times: int) -> None:
        if times == n:
            path.rename(aside)

    work = Work(behave)
    result = start(context(sqlite, work, sandbox), SCRIPT, {}, run="r")
    assert (result.stop, len(work.requests)) == ("store_unavailable", n)
    for suffix in ("", "-wal", "-shm"):
        old = Path(f"{aside if not suffix else path}{suffix}")
        if old.exists():
            old.rename(f"{path}{suffix}")
    sqlite.close()
    final = _and_then(path, work, sandbox)
    assert (final.status, final.result, work.twice) == ("completed", END, [])


FULL = """
import asyncio, os, resource, signal, sys
sys.path[:0] = sys.argv[2].split(os.pathsep)
import rig
from addendum.runs.start import start
from addendum.sandbox.embedded import EmbeddedSandbox
from addendum.store.sqlite import SqliteStore
signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
path = sys.argv[1]
def behave(request, n):
    os.write(int(sys.argv[3]), b"%d\\n" % n)
    if n == 3:
        size = max(os.path.getsize(path), os.path.getsize(path + "-wal"))
        resource.setrlimit(resource.RLIMIT_FSIZE, (size, resource.RLIM_INFINITY))
store = SqliteStore(path)
sandbox = EmbeddedSandbox()
result = start(rig.context(store, rig.Work(behave), sandbox), sys.stdin.read(), {}, run="r")
print(result.stop, result.exit_code, [entry["result"] for entry in result.details["unsaved"]])
sandbox.close()
"""


def test_a_full_disk_stops_the_run_before_its_next_effect(path: Path, sandbox: Sandbox, tmp_path: Path) -> None:
    """For real: the kernel refuses to let the file grow while the third call is in flight."""
    reads, writes = os.pipe()
    done = subprocess.run(
        [sys.executable, "-c", FULL, str(path), os.pathsep.join(sys.path), str(writes)],
        input=SCRIPT,
        capture_output=True,
        text=True,
        pass_fds=(writes,),
        check=False,
    )
    os.close(writes)
    sent = os.read(reads, 1000).split()
    os.close(reads)
    assert done.stdout.split(maxsplit=2) == ["store_unavailable", "1", "[{'n': 3}]\n"], done.stderr
    assert len(sent) == 3
    work = Work(lambda request, n: {"n": n + 3})
    with closing(SqliteStore(path)) as store:
        made = context(store, work, sandbox)
        assert resume(made, "r").stop == "unresolved"
        reconcile(made, "r", result={"n": 3})
        final = resume(made, "r")
        assert (final.status, final.result) == ("completed", END)
        assert len(work.requests) == 5
        assert sound(store)


@pytest.mark.parametrize("damage", ["pages", "body", "gap"])
def test_a_file_that_was_corrupted_is_a_typed_error_with_a_way_out(
    damage: str, path: Path, sqlite: SqliteStore, sandbox: Sandbox
) -> None:
    """Resume sends nothing: it says what is broken and what to do."""
    work = Work(lambda request, n: {"n": n, "pad": "x" * 2000})
    assert start(context(sqlite, work, sandbox), SCRIPT, {}, run="r").status == "completed"
    before = len(work.requests)
    sqlite.close()
    with closing(sqlite3.connect(path)) as connection:
        connection.execute("PRAGMA wal_checkpoint(TRUNCATE)")
        if damage != "pages":
            (table,) = next(iter(connection.execute("SELECT name FROM sqlite_master WHERE sql LIKE '%chain%'")))
            for (trigger,) in list(connection.execute("SELECT name FROM sqlite_master WHERE type = 'trigger'")):
                connection.execute(f"DROP TRIGGER {trigger}")
            change = "SET body = 'no json'" if damage == "body" else ""
            sixth = "WHERE key & 4294967295 = 6"
            connection.execute(f"UPDATE {table} {change} {sixth}" if change else f"DELETE FROM {table} {sixth}")
            connection.commit()
    if damage == "pages":
        data = bytearray(path.read_bytes())
        for page in range(len(data) // 4096 // 2, len(data) // 4096):
            data[page * 4096 : page * 4096 + 4096] = b"\xa5" * 4096
        path.write_bytes(data)
    with closing(SqliteStore(path)) as store:
        with pytest.raises(StoreCorrupt) as caught:
            resume(context(store, work, sandbox), "r")
        assert caught.value.hint
        assert caught.value.exit_code == 1
    assert len(work.requests) == before


def test_a_record_that_was_changed_by_hand_is_a_difference_of_the_certificate(
    path: Path, sqlite: SqliteStore, sandbox: Sandbox
) -> None:
    """A body that still is JSON reads well, and the hash chain says that it isn't what was written."""
    start(context(sqlite, Work(), sandbox), SCRIPT, {}, run="r")
    sqlite.close()
    with closing(sqlite3.connect(path)) as connection:
        (table,) = next(iter(connection.execute("SELECT name FROM sqlite_master WHERE sql LIKE '%chain%'")))
        for (trigger,) in list(connection.execute("SELECT name FROM sqlite_master WHERE type = 'trigger'")):
            connection.execute(f"DROP TRIGGER {trigger}")
        connection.execute(f"""UPDATE {table} SET body = replace(body, '"n":1', '"n":9') WHERE kind = 'record'""")
        connection.commit()
    with closing(SqliteStore(path)) as store:
        assert not sound(store)


def test_a_store_in_a_folder_that_cannot_be_made_is_a_typed_error(sandbox: Sandbox, tmp_path: Path) -> None:
    """A file stands where a folder is needed: nothing is sent."""
    (tmp_path / "file").write_text("x")
    work = Work()
    with closing(SqliteStore(tmp_path / "file" / "store.db")) as store, pytest.raises(StoreError) as caught:
        start(context(store, work, sandbox), SCRIPT, {}, run="r")
    assert isinstance(caught.value, StoreUnavailable)
    assert caught.value.hint
    assert work.requests == []


def test_a_closed_store_stops_the_run_before_its_next_effect(path: Path, sqlite: SqliteStore, sandbox: Sandbox) -> None:
    """Whoever closes it while a run is driven gets a typed stop."""

    def behave(request: Request, n: int) -> None:
        if n == 2:
            sqlite.close()

    work = Work(behave)
    result = start(context(sqlite, work, sandbox), SCRIPT, {}, run="r")
    assert (result.stop, len(work.requests)) == ("store_unavailable", 2)
    final = _and_then(path, work, sandbox)
    assert (final.status, final.result, work.twice) == ("completed", END, [])
    with closing(SqliteStore(path)) as store:
        assert kinds(store).count("attempt") == 8
