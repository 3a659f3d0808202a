"""The public API as mypy and pyright see it: what is right passes, and what is marked as wrong is."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
FILE = "tests/typing/public.py"


@pytest.mark.slow
def test_mypy() -> None:
    """mypy accepts the file in its strict mode, and finds each error that it marks."""
    command = [sys.executable, "-m", "mypy", "--strict", "--warn-unused-ignores", FILE]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout


@pytest.mark.slow
def test_pyright(tmp_path: Path) -> None:
    """pyright accepts the file, and finds each error that it marks."""
    settings = {
        "include": [str(ROOT / FILE)],
        "extraPaths": [str(ROOT / "src")],
        "pythonVersion": "3.11",
        "typeCheckingMode": "standard",
        "reportReturnType": False,
        "reportUnnecessaryTypeIgnoreComment": "error",
        "enableTypeIgnoreComments": False,
    }
    (tmp_path / "pyrightconfig.json").write_text(json.dumps(settings), "utf-8")
    program = Path(sys.executable).with_name("basedpyright")
    command = [str(program), "--pythonpath", sys.executable, "--project", str(tmp_path)]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
