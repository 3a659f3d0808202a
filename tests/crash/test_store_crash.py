"""The SQLite store across processes: killed in the middle, racing for a run, shut out by a newer driver.

Children are told what to do and say what they did over pipes: nothing waits for time to pass.
"""

from __future__ import annotations

import os
import random
import sqlite3
import subprocess
import sys
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import pytest

from addendum.canon import canonical, sha256
from addendum.errors import RunBusy
from addendum.ports import RunHeader
from addendum.records.chain import START, chain
from addendum.records.stored import Entry
from addendum.store.sqlite import SqliteStore

pytestmark = pytest.mark.slow  # each starts processes

PRELUDE = """
import sys
from addendum.canon import sha256
from addendum.errors import AddendumError
from addendum.ports import Lease, RunHeader
from addendum.records.stored import Entry
from addendum.store.sqlite import SqliteStore
store = SqliteStore(sys.argv[1])
def say(*words):
    print(*words, flush=True)
def told():
    return sys.stdin.readline().split()
"""

APPEND = """
lease = store.acquire("r")
n = int(sys.argv[2])
while True:
    n += 1
    size = (n * 7919) % 40_000 if n % 5 == 0 else 200
    blob = b"%d" % n * size
    entries = [Entry("n", {"n": n, "part": part, "pad": "x" * size}) for part in range(n % 4 + 1)]
    stored = store.append("r", entries, blobs={sha256(blob): blob}, lease=lease)
    say(stored[-1].seq, sha256(blob))
"""

SERVE = """
say("ready")
lease = None
while words := told():
    try:
        if words[0] == "acquire":
            lease = store.acquire("r")
            say("took", lease.token)
        elif words[0] == "append":
            say("appended", store.append("r", [Entry("child", {})], lease=lease)[0].seq)
        elif words[0] == "create":
            store.create(RunHeader("made", words[1], "t"))
            say("created")
    except AddendumError as error:
        say(type(error).__name__, error)
"""


class Child:
    """A child process that runs a program on a store; `ask` says a line and returns the answer."""

    def __init__(self, path: Path, program: str, *args: str) -> None:
        self.process = subprocess.Popen(
            [sys.executable, "-c", PRELUDE + program, str(path), *args],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
            env={**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)},
        )
        assert self.process.stdin is not None
        assert self.process.stdout is not None
        self.stdin, self.stdout = self.process.stdin, self.process.stdout

    def say(self, line: str) -> None:
        self.stdin.write(line + "\n")
        self.stdin.flush()

    def hear(self) -> str:
        return self.stdout.readline().strip()

    def ask(self, line: str) -> str:
        self.say(line)
        return self.hear()

    def kill(self) -> list[str]:
        """Kill it as `kill -9` does and return the whole lines that it still said."""
        self.process.kill()
        rest = self.stdout.read()
        self.process.wait()
        self.stdin.close()
        self.stdout.close()
        return rest.splitlines() if rest.endswith("\n") else rest.splitlines()[:-1]


@pytest.fixture
def path(tmp_path: Path) -> Path:
    path = tmp_path / "store.db"
    with closing(SqliteStore(path)) as store:
        store.create(RunHeader("r", "n", "t"))
    return path


@pytest.fixture
def pair(path: Path) -> Iterator[tuple[Child, Child]]:
    children = Child(path, SERVE), Child(path, SERVE)
    assert [child.hear() for child in children] == ["ready", "ready"]
    yield children
    for child in children:
        if child.process.poll() is None:
            child.kill()


def _verify(store: SqliteStore) -> int:
    """Check that the journal has no gap, no half append and a true chain; return its length."""
    previous, seq, parts = START, 0, dict[int, int]()
    for stored in store.entries("r"):
        seq += 1
        previous = chain(previous, stored.kind, canonical(stored.body))
        assert (seq, previous) == (stored.seq, stored.chain)
        number = stored.body["n"]
        assert parts.get(number, 0) == stored.body["part"]
        parts[number] = stored.body["part"] + 1
    assert all(count == number % 4 + 1 for number, count in parts.items())
    return seq


@pytest.mark.parametrize("seed", range(4))
def test_kill_nine_loses_nothing_that_was_reported(path: Path, seed: int) -> None:
    """Killed again and again in the middle of appends, a journal stays whole and has all that was reported durable;
    the next process drives at once."""
    draw = random.Random(seed)
    reported, blobs, last = 0, list[str](), 0
    for _ in range(6):
        child = Child(path, APPEND, str(last))
        lines = [child.hear() for _ in range(draw.randrange(1, 40))]
        # The child goes on meanwhile: where the signal meets it is the kernel's choice, and any place must do.
        for _ in range(draw.randrange(0, 20_000)):
            pass
        lines += child.kill()
        for line in lines:
            seq, digest = line.split()
            reported = int(seq)
            blobs.append(digest)
        with closing(SqliteStore(path)) as store:
            assert _verify(store) >= reported
            assert all(sha256(store.blob(digest)) == digest for digest in blobs)
            last = max(stored.body["n"] for stored in store.entries("r"))
            store.release(store.acquire("r"))


def test_two_processes_race_for_a_run(path: Path, pair: tuple[Child, Child]) -> None:
    """Of two processes that want a run at the same moment exactly one gets it; the other learns who has it."""
    for child in pair:
        child.say("acquire")
    answers = [child.hear() for child in pair]

    winner = next(child for child, answer in zip(pair, answers, strict=True) if answer.startswith("took"))
    loser = next(answer for answer in answers if not answer.startswith("took"))
    assert loser.startswith("RunBusy")
    assert f"process {winner.process.pid} " in loser


def test_a_killed_driver_is_replaced_at_once(path: Path, pair: tuple[Child, Child]) -> None:
    """The lease of a process that is gone ends with it, with no minute to wait, reaped or not."""
    first, second = pair
    first.ask("acquire")
    assert second.ask("acquire").startswith("RunBusy")

    first.process.kill()
    os.waitid(os.P_PID, first.process.pid, os.WEXITED | os.WNOWAIT)
    assert second.ask("acquire").startswith("took")
    assert second.ask("append") == "appended 1"
    first.kill()


def test_a_driver_that_was_cut_off_is_shut_out(path: Path, pair: tuple[Child, Child]) -> None:
    """A process whose lease ran out and was taken by another writes nothing any more, however alive it is."""
    first, second = pair
    first.ask("acquire")
    assert first.ask("append") == "appended 1"
    _age_lease(path)
    assert second.ask("acquire").startswith("took")

    assert first.ask("append").startswith("LeaseLost")
    assert second.ask("append") == "appended 2"
    with closing(SqliteStore(path)) as store, pytest.raises(RunBusy, match=f"process {second.process.pid} "):
        store.acquire("r")


def _age_lease(path: Path) -> None:
    """Make the run's lease look as if it hadn't been renewed for a minute."""
    with closing(sqlite3.connect(path)) as connection, connection:
        connection.execute("UPDATE leases SET ticks = ticks - 60, renewed = renewed - 60")


def test_processes_and_threads_share_a_file(path: Path, pair: tuple[Child, Child]) -> None:
    """Operators in other processes append beside a driver; nobody's entry is lost or doubled."""
    with closing(SqliteStore(path)) as store:
        lease = store.acquire("r")
        for _ in range(20):
            for child in pair:
                child.say("append")
            store.append("r", [Entry("driver", {})], lease=lease)
        answers = [child.hear() for _ in range(20) for child in pair]
        kinds = [stored.kind for stored in store.entries("r")]

    assert (kinds.count("child"), kinds.count("driver"), len(kinds)) == (40, 20, 60)
    assert len(set(answers)) == 40


def test_many_processes_make_one_store(tmp_path: Path) -> None:
    """Processes that find no store make one together, and exactly one of them creates a run of some name."""
    path = tmp_path / "new" / "store.db"
    children = [Child(path, SERVE) for _ in range(6)]
    assert [child.hear() for child in children] == ["ready"] * 6
    for number, child in enumerate(children):
        child.say(f"create {number}")
    answers = [child.hear() for child in children]
    for child in children:
        child.kill()

    assert sorted(each.split()[0] for each in answers) == sorted(["created"] + ["UsageError"] * 5)
