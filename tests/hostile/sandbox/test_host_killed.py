"""A host that is killed leaves nothing behind: no worker that waits, none that computes, no file."""

from __future__ import annotations

import os
import subprocess
import sys
import time
from pathlib import Path

import pytest

from addendum.sandbox.confine import bubblewrap

HOST = """
import sys, threading, time
from addendum.ports import Limits
from addendum.sandbox.acceptance import innermost
from addendum.sandbox.bwrap import BwrapSandbox
from addendum.sandbox.embedded import EmbeddedSandbox
from addendum.testing.driving import by_hand

waits = by_hand('async def orchestrate(ctx, args):\\n    await ctx.run("", "orchestrate/a.b#0", "a.b", {})\\n')
busy = by_hand('async def orchestrate(ctx, args):\\n    while True: pass\\n')
kept = []
for backend in (EmbeddedSandbox(), BwrapSandbox()):
    session = backend.open(waits, None, limits=Limits(), nonce="n")
    kept.append(session)
    session.advance(None)
    print(innermost(session.pid), flush=True)
    hangs = backend.open(busy, None, limits=Limits(turn_seconds=300, total_seconds=300), nonce="n")
    print(hangs.pid, flush=True)
    threading.Thread(target=hangs.advance, args=(None,), daemon=True).start()
print("ready", flush=True)
time.sleep(300)
"""


def lives(pid: int) -> bool:
    """Say whether a process runs; one that nobody reaped yet doesn't."""
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except OSError:
        return False


@pytest.mark.slow
@pytest.mark.skipif(bubblewrap()[0] is None, reason=bubblewrap()[1] or "bubblewrap is there")
def test_nothing_outlives_a_killed_host(tmp_path: Path) -> None:
    """Workers that wait and workers that compute end with the host, and no file is left."""
    environment = {**os.environ, "TMPDIR": str(tmp_path), "PYTHONPATH": os.pathsep.join(sys.path)}
    with subprocess.Popen([sys.executable, "-c", HOST], stdout=subprocess.PIPE, text=True, env=environment) as host:
        try:
            assert host.stdout is not None
            said = [host.stdout.readline().strip() for _ in range(5)]
            assert said[-1] == "ready"
            workers = [int(pid) for pid in said[:-1]]
            assert [pid for pid in workers if lives(pid)] == workers
        finally:
            host.kill()
    deadline = time.monotonic() + 20
    while any(lives(pid) for pid in workers) and time.monotonic() < deadline:
        os.sched_yield()
    assert not [pid for pid in workers if lives(pid)]
    assert not list(tmp_path.iterdir())
