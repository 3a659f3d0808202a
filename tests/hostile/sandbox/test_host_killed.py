"""A host that is killed leaves nothing behind: no worker that waits, none that computes or sleeps, no container, no
mount, no file."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

import pytest
from tests.sandboxes import CONFINED, CONTAINERS, containers, need

from addendum.sandbox.engine import OWNER, Engine

ROOT = Path(__file__).resolve().parents[3]
HOST = """
import sys, threading, time
from addendum.ports import Limits
from addendum.sandbox.acceptance import GUEST, innermost
from addendum.testing.driving import by_hand
from tests.sandboxes import OPEN

waits = by_hand('async def orchestrate(ctx, args):\\n    await ctx.run("", "orchestrate/a.b#0", "a.b", {})\\n')
busy = by_hand('async def orchestrate(ctx, args):\\n    while True: pass\\n')
backend = OPEN[sys.argv[1]](1)
long = Limits(turn_seconds=300, total_seconds=300)
hostile = [(busy, None)]
if backend.interpreter == "cpython":
    # It sleeps, takes no notice of signals, and keeps its own end of the pipe open.
    code = "import os, signal, time; [signal.signal(n, signal.SIG_IGN) for n in (1, 2, 13, 15)]; time.sleep(300)"
    hostile.append((by_hand(GUEST), code))

def worker(session):
    deadline = time.monotonic() + 30
    while (pid := session.pid) is None and time.monotonic() < deadline:
        time.sleep(0.05)
    return innermost(pid)

kept = [backend.open(waits, None, limits=Limits(), nonce="n")]
kept[0].advance(None)
print(worker(kept[0]), flush=True)
for script, args in hostile:
    session = backend.open(script, args, limits=long, nonce="n")
    kept.append(session)
    threading.Thread(target=session.advance, args=(None,), daemon=True).start()
    print(worker(session), flush=True)
print("ready", flush=True)
time.sleep(300)
"""


def lives(pid: int) -> bool:
    """Say whether a process runs; one that nobody reaped yet doesn't."""
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except OSError:
        return False


def until(holds: Callable[[], bool], seconds: float) -> bool:
    """Wait for something to hold."""
    deadline = time.monotonic() + seconds
    while not holds():
        if time.monotonic() > deadline:
            return False
        os.sched_yield()
    return True


@pytest.mark.slow
@pytest.mark.parametrize("name", CONFINED)
def test_nothing_outlives_a_killed_host(name: str, tmp_path: Path) -> None:
    """Workers that wait, compute or sleep end with the host; no container, no mount and no file is left."""
    need("bwrap")
    need(name)
    environment = {**os.environ, "TMPDIR": str(tmp_path), "PYTHONPATH": os.pathsep.join([str(ROOT), *sys.path])}
    command = [sys.executable, "-c", HOST, name]
    mounts: list[str] = []
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True, env=environment) as host:
        try:
            assert host.stdout is not None
            said = [host.stdout.readline().strip()]
            while said[-1] not in ("ready", ""):
                said.append(host.stdout.readline().strip())
            assert said[-1] == "ready"
            workers = [int(pid) for pid in said[:-1]]
            assert [pid for pid in workers if lives(pid)] == workers
            started = containers(name, host.pid)
            assert len(started) >= (len(workers) if name in CONTAINERS else 0)
            mounts = [place for one in started for place in _mounts(name, one)]
        finally:
            host.kill()
    assert until(lambda: not any(lives(pid) for pid in workers), 30)
    if name in CONTAINERS:
        engine = Engine.find(CONTAINERS[name])
        assert until(lambda: not [one for one in started if one in _listed(engine)], 30)
        seen = Path("/proc/self/mountinfo").read_text()
        assert until(lambda: not [place for place in mounts if place in seen], 1)
    assert not list(tmp_path.iterdir())


@pytest.mark.slow
@pytest.mark.parametrize("name", CONTAINERS)
def test_a_container_of_a_host_that_is_gone_is_removed_by_the_next(name: str) -> None:
    """One that was killed between making a container and starting it can't clean up: the next start does."""
    need(name)
    engine = Engine.find(CONTAINERS[name])
    from addendum.sandbox.image import find

    with subprocess.Popen([sys.executable, "-c", "input()"], stdin=subprocess.PIPE) as gone:
        label = engine.label(gone.pid)
        gone.send_signal(signal.SIGKILL)
    left = engine.ask("create", "--pull", "never", "--label", label, find(engine, "").identity).decode().strip()
    mine = engine.ask("create", "--pull", "never", "--label", engine.label(), find(engine, "").identity)
    try:
        engine.sweep()
        listed = _listed(engine)
        assert left not in listed
        assert mine.decode().strip() in listed
    finally:
        engine.remove(mine.decode().strip())


def _listed(engine: Engine) -> str:
    return engine.ask("ps", "--all", "--no-trunc", "--format", "{{.ID}}", "--filter", f"label={OWNER}").decode()


def _mounts(name: str, container: str) -> list[str]:
    place = Engine.find(CONTAINERS[name]).ask("inspect", "--format", "{{.GraphDriver.Data.MergedDir}}", container)
    return [place.decode().strip()]
