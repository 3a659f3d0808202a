"""Which process is which, and whether it lives: against real processes."""

from __future__ import annotations

import os
import subprocess
import sys
from dataclasses import replace

import pytest

from addendum.store import process

linux = pytest.mark.skipif(not sys.platform.startswith("linux"), reason="reads /proc")


def test_this_process_lives() -> None:
    """A process recognises itself, and finds itself alive."""
    here = process.current()

    assert here == process.current()
    assert os.getpid() == here.pid
    assert not process.gone(here, here)


@linux
@pytest.mark.parametrize("same_pid", [False, True])
def test_a_fork_is_another_process(same_pid: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    """What is remembered of its parent isn't the child's, not even if the child has the parent's pid (a namespace)."""
    here = process.current()
    reads, writes = os.pipe()
    child = os.fork()
    if child == 0:
        try:
            if same_pid:
                monkeypatch.setattr(process, "started", lambda pid: "just now")
                monkeypatch.setattr(os, "getpid", lambda: here.pid)
            found = process.current()
            os.write(writes, f"{found.pid} {found.started}".encode())
        finally:
            os._exit(0)  # whatever happens: the child is no second test session
    started = process.started(child)
    os.close(writes)
    with os.fdopen(reads) as said:
        assert said.read() == (f"{here.pid} just now" if same_pid else f"{child} {started}")
    os.waitpid(child, 0)
    assert process.current() == here


@linux
def test_a_process_that_ended_is_gone() -> None:
    """A child that ended is gone, also before anybody asked how it ended (a zombie)."""
    here = process.current()
    child = subprocess.Popen([sys.executable, "-c", "input()"], stdin=subprocess.PIPE)
    assert child.stdin is not None
    holder = replace(here, pid=child.pid, started=process.started(child.pid))
    assert not process.gone(holder, here)

    child.stdin.close()
    os.waitid(os.P_PID, child.pid, os.WEXITED | os.WNOWAIT)
    assert process.gone(holder, here)
    child.wait()
    assert process.gone(holder, here)


@linux
def test_a_pid_that_was_given_again_is_another_process() -> None:
    """The start time tells the holder from a later process of the same pid; unknown start times don't."""
    here = process.current()

    assert process.gone(replace(here, started="1"), here)
    assert not process.gone(replace(here, started=""), here)


def test_nothing_is_known_of_other_machines() -> None:
    """A pid means nothing on another machine, in another pid namespace or after another boot."""
    here = process.current()

    assert not process.gone(replace(here, machine="elsewhere", pid=2**22 - 1), here)


@linux
def test_others_processes_live() -> None:
    """A process that may not be signalled (the first one) is there."""
    here = process.current()

    assert not process.gone(replace(here, pid=1, started=process.started(1)), here)
    assert not process.gone(replace(here, pid=1, started=""), here)


def test_the_clock_that_is_given_tells_the_time() -> None:
    """Without a clock, the system's tell it."""
    first, second = process.now(None), process.now(None)

    assert first.ticks <= second.ticks
