"""The example of running the whole with Docker does what it says."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
from tests.sandboxes import containers, need

EXAMPLE = Path(__file__).resolve().parents[2] / "examples" / "docker"


@pytest.mark.slow
def test_the_docker_example_runs(tmp_path: Path) -> None:
    """Image, acceptance checks, run and certificate; nothing is left."""
    need("docker")
    place = tmp_path / "docker"
    shutil.copytree(EXAMPLE, place, ignore=shutil.ignore_patterns(".addendum"))
    done = subprocess.run(
        ["bash", str(place / "run.sh")],
        env={**os.environ, "PATH": f"{Path(sys.executable).parent}:{os.environ['PATH']}"},
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        timeout=300,
        check=False,
    )
    assert done.returncode == 0, done.stdout
    assert " 0 failed, 0 don't apply" in done.stdout
    assert "a lighthouse" in done.stdout
    assert "Verified" in done.stdout
    assert not containers("docker", os.getpid())
