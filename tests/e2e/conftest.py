"""The real command, in a folder and with a home of its own."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

COMMAND = Path(sys.executable).parent / "addendum"


@dataclass(frozen=True, slots=True)
class Done:
    """How a command ended."""

    code: int
    out: str
    err: str

    @property
    def json(self) -> Any:
        """What it printed on stdout, as JSON: one value, and nothing else."""
        return json.loads(self.out)

    @property
    def error(self) -> Any:
        """What it printed on stderr, as JSON: one line, and nothing else."""
        (line,) = self.err.splitlines()
        return json.loads(line)


@dataclass(frozen=True, slots=True)
class Cli:
    """Runs `addendum` in `folder`."""

    folder: Path
    environment: dict[str, str]

    def __call__(self, *arguments: str, stdin: str = "", **environment: str) -> Done:
        """Run a command to its end. No traceback is ever shown."""
        done = subprocess.run(
            [str(COMMAND), *arguments],
            cwd=self.folder,
            env=self.environment | environment,
            input=stdin,
            capture_output=True,
            text=True,
            timeout=120,
            check=False,
        )
        assert "Traceback" not in done.stderr, done.stderr
        return Done(done.returncode, done.stdout, done.stderr)

    def write(self, name: str, text: str) -> str:
        """Put a file into the folder, and return its name."""
        (self.folder / name).write_text(text, "utf-8")
        return name


@pytest.fixture
def cli(tmp_path: Path) -> Cli:
    """The command in an empty folder."""
    home, work = tmp_path / "home", tmp_path / "work"
    home.mkdir()
    work.mkdir()
    inherited = {name: os.environ[name] for name in ("PATH", "PYTHONPATH") if name in os.environ}
    environment = {"HOME": str(home), "LANG": "C.UTF-8", **inherited}
    return Cli(work, environment)
