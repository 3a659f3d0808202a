"""Two processes at one run: exactly one drives it, the other is told who does, and may go on once that one is gone."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import threading
from collections.abc import Iterator
from contextlib import ExitStack, closing
from pathlib import Path
from typing import Any

import pytest
from rig import Work, context, history, kinds, sound

from addendum.errors import RunBusy
from addendum.ports import Sandbox
from addendum.runs.operate import approve, cancel, reconcile
from addendum.runs.start import resume, start
from addendum.store.sqlite import SqliteStore

pytestmark = pytest.mark.slow

CHILD = """
import json, os, sys, threading
sys.path[:0] = sys.argv[2].split(os.pathsep)
import rig
from addendum.errors import AddendumError
from addendum.runs.start import resume, start
from addendum.sandbox.embedded import EmbeddedSandbox
from addendum.store.sqlite import SqliteStore

lock = threading.Lock()
def say(**what):
    with lock:
        print(json.dumps(what), flush=True)

def behave(request, n):
    say(sent=request.payload, capability=request.capability)
    if "hold" in request.payload:
        sys.stdin.readline()

store = SqliteStore(sys.argv[1])
made = rig.context(store, rig.Work(behave), EmbeddedSandbox(look=lambda: (None, "")))
from addendum.clock import SystemClock
made.clock = SystemClock()
say(ready=os.getpid())
for line in sys.stdin:
    order = json.loads(line)
    try:
        if "script" in order:
            result = start(made, order["script"], {}, run="r")
        else:
            result = resume(made, "r")
        say(status=result.status, stop=result.stop, result=result.result, dispatched=result.dispatched)
    except AddendumError as error:
        say(error=error.code, exit=error.exit_code, message=str(error))
"""
HELD = """
async def orchestrate(ctx, args):
    first = await ctx.run("art.make", {"i": 1})
    second = await ctx.run("art.make", {"hold": True})
    third = await ctx.run("mail.send", {"i": 3})
    return [first, second, third]
"""
GATE = """
async def gate(ctx):
    await ctx.run("ask.person", {"question": "Go on?"})
    return await ctx.run("mail.send", {"i": 1})

async def other(ctx):
    return await ctx.run("art.make", {"hold": True})

async def orchestrate(ctx, args):
    return await ctx.parallel([gate(ctx), other(ctx)])
"""


class Child:
    """Another process that drives runs as it is told, and says what it sends."""

    def __init__(self, path: Path) -> None:
        self.process = subprocess.Popen(
            [sys.executable, "-c", CHILD, str(path), os.pathsep.join(sys.path)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )
        self.pid = self.hear()["ready"]

    def say(self, order: Any) -> None:
        assert self.process.stdin is not None
        self.process.stdin.write(json.dumps(order) + "\n")
        self.process.stdin.flush()

    def hear(self) -> Any:
        assert self.process.stdout is not None
        return json.loads(self.process.stdout.readline())

    def kill(self) -> None:
        self.process.send_signal(signal.SIGKILL)
        self.process.communicate()


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "store.db"


@pytest.fixture
def children(path: Path) -> Iterator[list[Child]]:
    with ExitStack() as stack:
        found = [Child(path), Child(path)]
        for child in found:
            stack.callback(child.kill)
        yield found


@pytest.fixture
def sqlite(path: Path) -> Iterator[SqliteStore]:
    with closing(SqliteStore(path)) as found:
        yield found


def test_of_two_that_resume_at_once_exactly_one_drives(
    children: list[Child], sqlite: SqliteStore, sandbox: Sandbox
) -> None:
    """The other gets `run_busy`, exit code 4, with the holder's process; each call is paid once."""
    first, second = children
    first.say({"script": HELD})
    assert first.hear()["sent"] == {"i": 1}
    assert first.hear()["sent"] == {"hold": True}
    second.say({})
    refused = second.hear()
    assert (refused["error"], refused["exit"]) == ("run_busy", 4)
    assert str(first.pid) in refused["message"]
    with pytest.raises(RunBusy) as caught:
        resume(context(sqlite, Work(), sandbox), "r")
    assert caught.value.facts["pid"] == first.pid
    first.say("go on")
    assert first.hear()["sent"] == {"i": 3}
    assert first.hear()["status"] == "completed"
    second.say({})
    assert second.hear() == {
        "status": "completed",
        "stop": None,
        "result": [{"n": 1}, {"n": 2}, {"n": 1}],
        "dispatched": 0,
    }
    assert sound(sqlite)


def test_after_the_holder_is_killed_another_may_go_on_at_once(
    children: list[Child], sqlite: SqliteStore, sandbox: Sandbox
) -> None:
    """A dead process holds nothing; what it had sent is unresolved, and what was committed is replayed."""
    first, second = children
    first.say({"script": HELD})
    first.hear()
    first.hear()
    first.kill()
    second.say({})
    assert second.hear()["stop"] == "unresolved"
    reconcile(context(sqlite, Work(), sandbox), "r", result={"n": 2})
    second.say({})
    assert second.hear()["sent"] == {"i": 3}
    assert second.hear()["result"] == [{"n": 1}, {"n": 2}, {"n": 1}]
    assert sound(sqlite)


def test_two_processes_that_start_at_the_same_moment_pay_once(
    children: list[Child], sqlite: SqliteStore, sandbox: Sandbox
) -> None:
    """Both resume a run that was stopped: whoever loses is told, or finds it done."""
    stop = threading.Event()
    stop.set()
    script = HELD.replace('{"hold": True}', '{"i": 2}')
    start(context(sqlite, Work(), sandbox), script, {}, run="r", stop=stop)
    for child in children:
        child.say({})
    said: list[Any] = []
    for child in children:
        said.append(child.hear())
        while "sent" in said[-1]:
            said.append(child.hear())
    sent = [json.dumps(line["sent"]) for line in said if "sent" in line]
    assert len(sent) == len(set(sent)) == 3
    ends = [line for line in said if "sent" not in line]
    assert [line.get("status", line.get("error")) for line in ends].count("completed") >= 1
    assert {line.get("status", line.get("error")) for line in ends} <= {"completed", "run_busy"}
    assert sound(sqlite)


def test_an_answer_from_another_process_is_picked_up_while_a_call_is_in_flight(
    children: list[Child], sqlite: SqliteStore, sandbox: Sandbox
) -> None:
    """Only that strand goes on; the one in flight is still in flight."""
    child, _ = children
    child.say({"script": GATE})
    assert child.hear()["sent"] == {"hold": True}
    made = context(sqlite, Work(), sandbox)
    # The handler holds the provider's event loop: what the driver commits meanwhile is seen in the journal.
    approve(made, "r", approved=True)
    attempts = 0
    while attempts < 3:
        attempts = kinds(sqlite).count("attempt")
    child.say("go on")
    assert child.hear()["sent"] == {"i": 1}
    assert child.hear()["status"] == "completed"
    assert sound(sqlite)


def test_a_cancellation_from_another_process_stops_the_driver_before_its_next_effect(
    children: list[Child], sqlite: SqliteStore, sandbox: Sandbox
) -> None:
    """The call in flight lands and is committed; the mail is never sent."""
    child, _ = children
    child.say({"script": HELD})
    child.hear()
    child.hear()
    assert cancel(context(sqlite, Work(), sandbox), "r") is True
    child.say("go on")
    assert child.hear() == {"status": "stopped", "stop": "cancelled", "result": None, "dispatched": 2}
    assert history(sqlite).committed == 2
    assert history(sqlite).attempts == {}
