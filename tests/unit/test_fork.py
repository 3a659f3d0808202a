"""What a fork's child can do with what its parent opened: an error with a name, never a wait, and nothing of it reaches
the parent. Each program is a process of its own, whose child is ended if it hangs."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from addendum.sandbox.confine import bubblewrap

pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(not hasattr(os, "fork"), reason="there is no fork here"),
]

BEGIN = '''
import faulthandler, os, sys, threading
from pathlib import Path
from addendum import *
from addendum.errors import *
from addendum.app import App
from addendum.sandbox.embedded import EmbeddedSandbox
from addendum.store.sqlite import SqliteStore
from addendum.testing import MemoryStore

SCRIPT = """
async def orchestrate(ctx, args):
    return await ctx.run("a.b", {"i": 1})
"""
entered, go_on = threading.Event(), threading.Event()
store, sandbox = Path(sys.argv[1]), sys.argv[2]
app = App(store=store, sandbox=sandbox)

def answer(i: int) -> int:
    entered.set()
    assert go_on.wait(60)
    return i

app.capability("a.b", effect="read")(answer)

def child(act, leave=sys.exit):
    """Fork a child that does something and exits, as a program does; return what came of it, as text."""
    reading, writing = os.pipe()
    number = os.fork()
    if number == 0:
        faulthandler.dump_traceback_later(30, exit=True)
        try:
            said = str(act())
        except AddendumError as error:
            said = f"{type(error).__name__}: {error.message}"
        os.write(writing, said.encode())
        leave(0)
    os.close(writing)
    with open(reading) as came:
        said = came.read()
    code = os.waitstatus_to_exitcode(os.waitpid(number, 0)[1])
    assert code == 0, f"the child ended with {code}"
    return said

def driven():
    """Begin a run in another thread, which goes on once its call is let go; return what ends it."""
    ends = []
    thread = threading.Thread(target=lambda: ends.append(app.run(SCRIPT, run="driven")))
    thread.start()
    assert entered.wait(60)
    def end():
        go_on.set()
        thread.join(60)
        return ends[0]
    return end

APP = "UsageError: This App was opened by the process that forked this one."
'''
HAVE = {
    "monty": pytest.param("monty"),
    "bwrap": pytest.param("bwrap", marks=pytest.mark.skipif(bubblewrap()[0] is None, reason="there is no bubblewrap")),
}
both = pytest.mark.parametrize("sandbox", HAVE.values())


def forked(program: str, folder: Path, sandbox: str = "monty") -> None:
    """Run a program, which asserts by itself."""
    subprocess.run(
        [sys.executable, "-c", BEGIN + program, folder / "store.db", sandbox],
        check=True,
        timeout=120,
        env={**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)},
    )


@both
def test_a_child_has_an_error_and_its_end_leaves_the_parent_as_it_is(tmp_path: Path, sandbox: str) -> None:
    """Whatever it does with the App that its parent used: drive, plan, look, close, or only end."""
    forked(
        """
go_on.set()
done = app.run(SCRIPT, run="r")
assert done.status == "completed"
assert child(lambda: app.run(SCRIPT)) == APP
assert child(lambda: app.resume("r")) == APP
assert child(lambda: app.revise("r", SCRIPT)) == APP
assert child(lambda: app.plan("r", SCRIPT)) == APP
assert child(lambda: app.show("r")) == APP
assert child(lambda: app.runs()) == APP
assert child(lambda: list(app.events(app.run, SCRIPT))) == APP
assert child(lambda: app.close()) == "None"
assert child(lambda: "nothing") == "nothing"
assert [run.run for run in app.runs()] == ["r"]
assert app.run(SCRIPT).status == "completed"
app.close()
""",
        tmp_path,
        sandbox,
    )


@both
def test_a_fork_while_a_run_is_driven_leaves_the_run_alone(tmp_path: Path, sandbox: str) -> None:
    """The lease is the parent's, and so are the workers: neither is given up at the child's end."""
    forked(
        """
end = driven()
assert child(lambda: app.run(SCRIPT)) == APP
assert child(lambda: app.runs()) == APP
assert child(lambda: app.close()) == "None"
with app:
    assert child(lambda: "nothing") == "nothing"
    found = end()
assert (found.status, found.stop) == ("completed", None), found
""",
        tmp_path,
        sandbox,
    )


def test_a_handler_that_forks_finds_the_same(tmp_path: Path) -> None:
    forked(
        """
go_on.set()

@app.capability("c.d", effect="read")
def inside(i: int) -> str:
    return child(lambda: app.run(SCRIPT), os._exit)

found = app.run(SCRIPT.replace("a.b", "c.d"))
assert (found.status, found.result) == ("completed", APP), found
app.close()
""",
        tmp_path,
    )


def test_a_process_of_multiprocessing_finds_the_same(tmp_path: Path) -> None:
    forked(
        """
import multiprocessing

go_on.set()
assert app.run(SCRIPT).status == "completed"

def work(found):
    try:
        app.resume("r")
    except UsageError as error:
        found.put(error.message)

context = multiprocessing.get_context("fork")
found = context.Queue()
process = context.Process(target=work, args=(found,))
process.start()
assert APP.endswith(found.get(timeout=30))
process.join(30)
assert process.exitcode == 0
assert app.run(SCRIPT).status == "completed"
app.close()
""",
        tmp_path,
    )


def test_an_app_that_nothing_was_done_with_yet_is_the_child_s(tmp_path: Path) -> None:
    """As servers do it that load their program, and fork for each worker."""
    forked(
        """
go_on.set()
assert child(lambda: app.run(SCRIPT, run="r").status) == "completed"
assert [run.run for run in app.runs()] == ["r"]
assert app.run(SCRIPT).status == "completed"
app.close()
""",
        tmp_path,
    )


def test_a_child_s_own_app_works_where_its_sandbox_can(tmp_path: Path) -> None:
    """Monty's library has threads of its own, which aren't there: that is said at once. Looking at runs needs none."""
    forked(
        """
def another(use):
    own = App(store=store, sandbox="monty")
    own.capability("a.b", effect="read")(answer)
    with own:
        return use(own)

go_on.set()
assert app.run(SCRIPT, run="r").status == "completed"
assert child(lambda: another(lambda own: own.runs()[0].run)) == "r"
monty = "SandboxMissing: Monty was opened by the process that forked this one."
assert child(lambda: another(lambda own: own.run(SCRIPT))) == monty
assert child(lambda: another(lambda own: own.resume("r", retry="all"))) == monty
app.close()
""",
        tmp_path,
    )


@both
def test_a_sandbox_that_was_passed_is_its_owner_s_only(tmp_path: Path, sandbox: str) -> None:
    forked(
        """
from addendum import wiring
given = wiring.open_sandbox(sandbox)
first = App(store=store, sandbox=given)
go_on.set()
first.capability("a.b", effect="read")(answer)
assert first.run(SCRIPT).status == "completed"

def another():
    own = App(store=store, sandbox=given)
    own.capability("a.b", effect="read")(answer)
    with own:
        return own.run(SCRIPT)

assert child(another).startswith("SandboxMissing: ")
assert child(given.close) == "None"
assert first.run(SCRIPT).status == "completed"
first.close()
given.close()
""",
        tmp_path,
        sandbox,
    )


def test_who_iterates_over_events_and_forks_isn_t_waited_for(tmp_path: Path) -> None:
    """Neither a child that leaves the iteration, nor one that goes on with it."""
    forked(
        """
def leave(iteration):
    iteration.close()
    return "left"
iteration = app.events(app.run, SCRIPT)
next(iteration)
assert entered.wait(60)
assert child(lambda: leave(iteration)) == "left"
assert child(lambda: next(iteration)) == "UsageError: This run is driven by another process."
go_on.set()
assert list(iteration)[-1]["result"].status == "completed"
app.close()
""",
        tmp_path,
    )


def test_a_store_goes_on_in_the_child_whatever_its_parent_s_threads_do(tmp_path: Path) -> None:
    """It reads while a transaction is open in another thread, which had the lock; it writes while none is."""
    forked(
        """
from addendum.ports import RunHeader
from addendum.records.stored import Entry
opened = SqliteStore(store)
opened.create(RunHeader("r", "", "t"))
opened.append("r", [Entry("parent", {})])
inside, leave = threading.Event(), threading.Event()

def hold():
    with opened._database.transaction():
        inside.set()
        leave.wait(60)

thread = threading.Thread(target=hold)
thread.start()
assert inside.wait(60)
assert child(lambda: opened.head("r")[0]) == "1"
assert child(lambda: SqliteStore(store).head("r")[0]) == "1"
leave.set()
thread.join()

stop = threading.Event()
def write():
    while not stop.is_set():
        opened.append("r", [Entry("parent", {})])
        opened.head("r")
threads = [threading.Thread(target=write) for _ in range(2)]
for each in threads:
    each.start()
for number in range(20):
    assert child(lambda: opened.append("r", [Entry("child", {})])[0].kind) == "child"
stop.set()
for each in threads:
    each.join()
kinds = [entry.kind for entry in opened.entries("r")]
assert kinds.count("child") == 20
opened.close()
""",
        tmp_path,
    )


def test_a_lease_stays_with_the_process_that_took_it(tmp_path: Path) -> None:
    forked(
        """
from addendum.ports import RunHeader
from addendum.records.stored import Entry
opened = SqliteStore(store)
opened.create(RunHeader("r", "", "t"))
lease = opened.acquire("r")
assert child(opened.close) == "None"
assert child(lambda: opened.acquire("r")).startswith("RunBusy: ")
opened.append("r", [Entry("mine", {})], lease=lease)
opened.close()
assert child(lambda: SqliteStore(store).acquire("r").run) == "r"
""",
        tmp_path,
    )


def test_a_store_in_memory_is_of_one_process(tmp_path: Path) -> None:
    forked(
        """
opened = MemoryStore()
said = "StoreUnavailable: This store is in the memory of another process."
assert child(opened.runs) == said
assert child(lambda: opened.head("r")) == said
assert child(opened.close) == "None"
assert opened.runs() == []
""",
        tmp_path,
    )
