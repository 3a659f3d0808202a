"""Old identities are the same for ever, and on every Python (DESIGN section 3)."""

from __future__ import annotations

import os
import runpy
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

SCRIPT = Path(__file__).parent / "identity_vectors.py"
TOOL = runpy.run_path(str(SCRIPT))
VECTORS = TOOL["vectors"]()


def interpreter(version: str) -> str | None:
    """Return the path of an interpreter of a version, on PATH or among pyenv's, None if there is none that runs."""
    roots = Path(os.environ.get("PYENV_ROOT") or Path.home() / ".pyenv") / "versions"
    names = [shutil.which(f"python{version}"), *sorted(roots.glob(f"{version}.*/bin/python3"))]
    for name in filter(None, names):
        asked = [str(name), "-c", "import sys; print('%d.%d' % sys.version_info[:2])"]
        answer = subprocess.run(asked, capture_output=True, text=True, check=False)  # a shim may stand for nothing
        if answer.returncode == 0 and answer.stdout.strip() == version:
            return str(name)
    return None


@pytest.mark.parametrize("name", VECTORS)
def test_a_vector_is_what_it_was(name: str) -> None:
    """Positions, fingerprints, hashes of functions and the annotated text."""
    assert TOOL["differences"](VECTORS[name]) == []


@pytest.mark.slow
@pytest.mark.parametrize("version", ["3.11", "3.12", "3.13"])
def test_a_vector_is_the_same_on_every_python(version: str) -> None:
    """Another interpreter, with nothing installed, computes the same."""
    python = interpreter(version)
    if python is None:
        pytest.skip(f"no python{version} on PATH or among pyenv's")
    command = [python, "-I", "-B", "-X", "utf8", str(SCRIPT)]
    answer = subprocess.run(command, capture_output=True, text=True, encoding="utf-8", check=False)
    assert answer.returncode == 0, answer.stdout + answer.stderr
    assert f"{len(VECTORS)} vectors, Python {version}." in answer.stdout


def test_there_are_vectors() -> None:
    """A wrong path would pass every other test."""
    assert len(VECTORS) >= 35
    assert sys.version_info >= (3, 11)
