"""kill -9 at each named point between the reservation and the commit of each call, in every kind of program.

After it: the journal can be verified, every request that left has its attempt in it, a side-effecting call without a
record is unresolved and stays so, and what follows ends as if nothing had happened, with nothing paid twice.
"""

from __future__ import annotations

import itertools
import json
import os
import select
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import ExitStack, closing, suppress
from pathlib import Path
from typing import Any

import pytest
from killing import PROGRAMS, Ledger, do, provider
from rig import Work, context, history, sound

from addendum.errors import UsageError
from addendum.ports import Request, Sandbox
from addendum.records.history import History
from addendum.runs.context import Context
from addendum.runs.operate import approve, reconcile
from addendum.runs.result import StepResult
from addendum.runs.start import resume, start
from addendum.sandbox.embedded import EmbeddedSandbox
from addendum.store.sqlite import SqliteStore
from addendum.testing.clock import ManualClock

pytestmark = pytest.mark.slow

POLICIES = [
    {"relocation": relocation, "ledger": ledger, "orphans": orphans}
    for relocation, ledger, orphans in itertools.product(
        ("verified", "strict", "declared"), ("auto", "deny", "warn", "off"), ("warn", "stop")
    )
]


LEAST_KILLED = 0.75
"""How many of a program's points must be reached a second time; only a race's and a fan-out's may be fewer than all."""


@pytest.fixture(scope="module")
def zygote() -> Iterator[subprocess.Popen[str]]:
    """A process that forks one for each order: it has imported everything, and has no thread."""
    process = subprocess.Popen(
        [sys.executable, str(Path(__file__).with_name("killing.py"))],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
        env={**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)},
    )
    yield process
    process.communicate()
    assert process.returncode == 0


@pytest.fixture(scope="module")
def sandbox() -> Iterator[Sandbox]:
    with closing(EmbeddedSandbox(look=lambda: (None, "not looked for"))) as found:
        yield found


def _order(zygote: subprocess.Popen[str], program: str, folder: Path, point: tuple[str, int] | None) -> Any:
    assert zygote.stdin is not None
    assert zygote.stdout is not None
    folder.mkdir()
    zygote.stdin.write(json.dumps({"program": program, "folder": str(folder), "point": point}) + "\n")
    zygote.stdin.flush()
    return json.loads(zygote.stdout.readline())


def _resolve(made: Context, store: SqliteStore, ledger: Ledger) -> None:
    """Write back what the provider's own ledger says became of each unresolved attempt."""
    known = {line["key"]: line for line in ledger.lines}
    for attempt in list(history(store).attempts.values()):
        if attempt.waits or attempt.effect in ("read", "idempotent"):
            continue
        line = known.get(attempt.key)
        if line is None or line["failed"]:
            reconcile(made, "r", abandon=True, which=[attempt.key], reason="the provider didn't do it")
            continue
        payload = line["payload"]
        done = {"n": 1, "of": payload} if attempt.capability == "art.make" else {"n": len(json.dumps(payload))}
        reconcile(made, "r", result=done, which=[attempt.key], reason="the provider did it")


def _go_on(made: Context, store: SqliteStore, ledger: Ledger, program: str, policy: dict[str, str]) -> StepResult:
    """Do what is left of a program, as an operator would who finds the run as the killed process left it."""
    steps = PROGRAMS[program]
    sources = [step for step in steps if step[1]]
    there = history(store) if any(header.run == "r" for header in store.runs()) else History()
    if not there.revisions:
        return _again(made, store, ledger, program, policy)
    # The last source is put forward once more, whether its revision was applied or not; before its time, the first.
    step: tuple[str, str] = sources[-1] if len(sources) > 1 else ("resume", "")
    if len(sources) > 1 and there.revision == 1 and there.ended is None:
        _until(made, store, ledger, ("resume", ""), policy)
    return _until(made, store, ledger, step, policy)


def _again(made: Context, store: SqliteStore, ledger: Ledger, program: str, policy: dict[str, str]) -> StepResult:
    """The run never started: nothing was sent. It is started in a store of its own."""
    assert ledger.lines == []
    if any(header.run == "r" for header in store.runs()):
        with pytest.raises(UsageError, match="never started"):
            do(made, ("resume", ""))
    result = None
    with closing(SqliteStore(ledger.path.with_name("again.db"))) as fresh:
        made.store = fresh
        for step in PROGRAMS[program]:
            result = do(made, step, policy) or result
    assert result is not None
    return result


def _until(
    made: Context, store: SqliteStore, ledger: Ledger, step: tuple[str, str], policy: dict[str, str]
) -> StepResult:
    for _ in range(4):
        sent = len(ledger.lines)
        open_calls = {
            (attempt.capability, attempt.digest)
            for attempt in history(store).attempts.values()
            if not attempt.waits and attempt.effect not in ("read", "idempotent")
        }
        result = do(made, step, policy)
        assert result is not None
        if open_calls:
            assert (result.status, result.stop) == ("stopped", "unresolved"), result.message
            assert not [line for line in ledger.lines[sent:] if line["capability"] in ("art.make", "mail.send")]
            _resolve(made, store, ledger)
        elif result.status == "waiting":
            approve(made, "r", approved=True)
        else:
            return result
    raise AssertionError("it doesn't come to an end")


def _end(result: StepResult) -> Any:
    """Return what a run came to, without what time and chance decide."""
    if isinstance(result.result, list) and len(result.result) == 4 and isinstance(result.result[1], float):
        return "read"
    return result.status, result.result


@pytest.fixture
def folder() -> Iterator[Path]:
    """A folder in memory where there is one: SIGKILL takes nothing from a file that was written but not synced."""
    memory = "/dev/shm" if os.access("/dev/shm", os.W_OK) else None
    with tempfile.TemporaryDirectory(dir=memory) as found:
        yield Path(found)


@pytest.mark.parametrize("program", PROGRAMS)
def test_a_run_that_is_killed_at_any_point_ends_as_the_undisturbed_one_and_pays_nothing_twice(
    program: str, zygote: subprocess.Popen[str], sandbox: Sandbox, folder: Path
) -> None:
    """Every point of the program, each under another policy; the process is really killed."""
    counts = _order(zygote, program, folder / "undisturbed", None)
    with closing(SqliteStore(folder / "undisturbed" / "store.db")) as store:
        made = context(store, provider(Ledger(folder / "undisturbed" / "ledger")), sandbox)
        end = _end(_last(made))
    # What a revised program does first is what "sequence" does: it is killed in its second step only.
    skipped = counts[0] if program in ("supersede", "rebind") else {}
    points = [(name, time) for name, times in counts[-1].items() for time in range(skipped.get(name, 0) + 1, times + 1)]
    assert len(points) >= 12
    killed = []
    for index, point in enumerate(points):
        here = folder / str(index)
        ended = _order(zygote, program, here, point)
        # How many answers are committed together, and how far a race's loser comes, is up to the threads.
        assert ended == {"signal": signal.SIGKILL} or program in ("race", "fan-out"), (point, ended)
        killed += [point] if ended == {"signal": signal.SIGKILL} else []
        ledger = Ledger(here / "ledger")
        with closing(SqliteStore(here / "store.db")) as store:
            made = context(store, provider(ledger), sandbox, clock=ManualClock(tick=4.0))
            read = _recorded(store)
            if _is_there(store):
                assert sound(store), point
                kept = {entry.body["key"] for entry in store.entries("r") if entry.kind == "attempt"}
                assert {line["key"] for line in ledger.lines} <= kept, point
            policy = POLICIES[index % len(POLICIES)]
            if program == "rebind":
                policy = {**policy, "relocation": "verified"}  # the others admit no call that was moved
            result = _go_on(made, store, ledger, program, policy)
            assert result.status == "completed", (point, result.message)
            assert _end(result) == end or program == "race", point
            assert ledger.paid_twice == [], point
            if _is_there(store):
                assert sound(store), point
                assert _questions(store) <= 1, point
                assert {seq: _recorded(store)[seq] for seq in read} == read, point
    assert len(killed) >= LEAST_KILLED * len(points), (killed, points)
    assert {name for name, _ in killed} == {name for name, _ in points}


def _last(made: Context) -> StepResult:
    """Look at the end of the undisturbed run, by replaying it."""
    result = do(made, ("resume", ""))
    assert result is not None
    assert (result.status, result.dispatched) == ("completed", 0)
    return result


def _is_there(store: SqliteStore) -> bool:
    return any(header.run == "r" for header in store.runs())


def _recorded(store: SqliteStore) -> dict[int, Any]:
    """Return what the recorded reads and races of a run were settled with."""
    if not _is_there(store):
        return {}
    return {
        entry.seq: entry.body["result"]
        for entry in store.entries("r")
        if entry.kind == "record" and entry.body["capability"].startswith("ctx.")
    }


def _questions(store: SqliteStore) -> int:
    return sum(1 for entry in store.entries("r") if entry.kind == "attempt" and entry.body.get("waits"))


WORKER = """
async def orchestrate(ctx, args):
    found = []
    for i in range(3):
        found.append(await ctx.run("art.make", {"i": i}))
    return found
"""


def test_a_run_whose_sandbox_worker_is_killed_stops_and_goes_on_with_another(tmp_path: Path) -> None:
    """The call in flight lands and is committed; the next attempt replays it in a new worker."""
    before, alive = _descendants(), set[int]()

    def behave(request: Request, n: int) -> None:
        if n == 2:
            alive.update(_kill(_descendants() - before))

    with closing(EmbeddedSandbox()) as own, closing(SqliteStore(tmp_path / "store.db")) as store:
        work = Work(behave)
        result = start(context(store, work, own), WORKER, {}, run="r")
        assert not alive, f"processes that were killed still live {DEATH:g} s later: {sorted(alive)}"
        assert (result.status, result.stop, result.committed) == ("stopped", "sandbox", 2)
        final = resume(context(store, work, own), "r")
        assert (final.status, final.result) == ("completed", [{"n": 1}, {"n": 2}, {"n": 3}])
        assert (final.dispatched, work.twice) == (1, [])
        assert sound(store)


DEATH = 10.0
"""Seconds that killed processes have to be gone, all of them."""


def _kill(pids: set[int]) -> set[int]:
    """Kill processes, and wait for their ends: bubblewrap's death reaches the worker beneath it a moment later. Returns
    those that still live after `DEATH` seconds."""
    deadline = time.monotonic() + DEATH
    with ExitStack() as stack:
        held = {}
        for pid in pids:
            with suppress(ProcessLookupError):
                held[pid] = os.pidfd_open(pid)
                stack.callback(os.close, held[pid])
        for descriptor in held.values():
            with suppress(ProcessLookupError):
                signal.pidfd_send_signal(descriptor, signal.SIGKILL)
        # A process's descriptor can be read from once it has ended.
        return {
            pid
            for pid, each in held.items()
            if not select.select([each], [], [], max(0.0, deadline - time.monotonic()))[0]
        }


def _descendants() -> set[int]:
    """Return the processes that this one has started, those that they have started, and so on, that live."""
    parents = {}
    for stat in Path("/proc").glob("[0-9]*/stat"):
        try:
            fields = stat.read_text().rpartition(")")[2].split()
        except OSError:
            continue
        if fields[0] not in "ZX":
            parents[int(stat.parent.name)] = int(fields[1])
    found, more = set[int](), {os.getpid()}
    while more:
        more = {pid for pid, parent in parents.items() if parent in more}
        found |= more
    return found
