"""kill -9 while a model is asked: what it may have cost stays held, is shown, and is counted by the next loop."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from contextlib import closing
from pathlib import Path

import pytest
from tests.repairing import FILM, MENDED, MOST, World, granted, model

from addendum.records.certificate import certificate
from addendum.runs import meters, query
from addendum.sandbox.embedded import EmbeddedSandbox
from addendum.store.sqlite import SqliteStore
from addendum.testing import DEMO_CATALOG

pytestmark = pytest.mark.slow  # starts processes

ROOT = Path(__file__).parents[2]
ASK = """
import os, sys
from pathlib import Path
from tests.repairing import World, granted, MOST
from addendum.sandbox.embedded import EmbeddedSandbox
from addendum.store.sqlite import SqliteStore
from addendum.testing.scripted_model import ScriptedModel

def ask(prompt):
    print("asked", flush=True)
    sys.stdin.read()  # never answers: the parent kills this process

world = World(EmbeddedSandbox(), SqliteStore(Path(sys.argv[1])))
world.repair(ScriptedModel([ask], most=MOST, most_tokens=1000))
"""


def test_a_process_that_is_killed_while_the_model_is_asked_leaves_its_hold(tmp_path: Path) -> None:
    """Nothing was lost but money that nobody can spend twice; the run is free at once, and mended by the next one."""
    path = tmp_path / "store.db"
    sandbox = EmbeddedSandbox()
    try:
        with closing(SqliteStore(path)) as store:
            World(sandbox, store, granted(limits=[{"meter": "cost_usd", "max": "1"}])).failed(FILM)
        child = subprocess.Popen(
            [sys.executable, "-c", ASK, str(path)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
            cwd=ROOT,
            env={**os.environ, "PYTHONPATH": str(ROOT)},
        )
        assert child.stdout is not None
        assert child.stdin is not None
        assert child.stdout.readline() == "asked\n"
        child.send_signal(signal.SIGKILL)
        child.wait()
        child.stdin.close()
        child.stdout.close()

        with closing(SqliteStore(path)) as store:
            world = World(sandbox, store)
            shown = query.show(store, "r")
            level = meters.of_run(store, "r", DEMO_CATALOG, world.context.clock)[1][0]
            assert (shown.summary.status, shown.drafts[0].state) == ("failed", "lost")
            assert (level.used, level.held) == (50_000_000, MOST)

            outcome = world.repair(model(MENDED))

            assert (outcome.status, outcome.lost) == ("accepted", 1)
            assert world.history().totals["repair.write"].cost == MOST + 3_000_000
            assert world.history().drafts == {}
            assert certificate(store.entries("r"), store.blob).differences == []
    finally:
        sandbox.close()
