"""The command is killed while an agent works: the agent is paid for once, and its result is the run's."""

from __future__ import annotations

import json
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest
from tests.repositories import repository

COMMAND = Path(sys.executable).parent / "addendum"
SCRIPT = """
async def orchestrate(ctx, args):
    found = await ctx.run("agent.run", {"task": "work"})
    return [found["stdout"], found["changed"]]
"""
AGENT = "echo started >> {folder}/count; while [ ! -e {folder}/go ]; do sleep 0.05; done; echo done; echo x > new.txt"

pytestmark = pytest.mark.slow


def test_killed_while_an_agent_works(tmp_path: Path) -> None:
    """After kill -9, `resume` waits for the agent that still works, takes its result, and starts no second one."""
    repository(tmp_path / "repo")
    (tmp_path / "script.py").write_text(SCRIPT, "utf-8")
    agent = ["/bin/sh", "-c", AGENT.format(folder=tmp_path)]
    (tmp_path / "services.toml").write_text(
        f'[capability."agent.run"]\nkind = "agent"\nrepository = "repo"\ncommand = {json.dumps(agent)}\n'
        'environment = { PATH = "/usr/bin:/bin" }\n',
        "utf-8",
    )
    (tmp_path / "addendum.toml").write_text('provider = "services.toml"\n', "utf-8")
    started = subprocess.Popen(
        [COMMAND, "run", "script.py", "--id", "one"], cwd=tmp_path, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL
    )
    until = time.monotonic() + 60
    while not (tmp_path / "count").exists() and time.monotonic() < until:
        time.sleep(0.02)
    started.send_signal(signal.SIGKILL)
    started.wait()
    shown = subprocess.run(
        [COMMAND, "show", "one", "--json"], cwd=tmp_path, capture_output=True, text=True, check=False
    )
    assert json.loads(shown.stdout)["status"] != "completed"
    (tmp_path / "go").touch()
    done = subprocess.run(
        [COMMAND, "resume", "one", "--json"], cwd=tmp_path, capture_output=True, text=True, check=False
    )
    found = json.loads(done.stdout)
    assert (found["status"], found["result"]) == (
        "completed",
        ["done\n", [{"path": "new.txt", "status": "added"}]],
    ), done.stderr
    assert (tmp_path / "count").read_text() == "started\n"
