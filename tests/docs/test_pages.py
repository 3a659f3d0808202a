"""README and manual are executed: each command in a fresh folder, with an empty home, compared with what is shown."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest
from tests.docs.blocks import Command, File, missing, steps

ROOT = Path(__file__).resolve().parents[2]
PAGES = [
    page
    for page in (ROOT / "README.md", *sorted((ROOT / "docs").rglob("*.md")))
    if "```console" in page.read_text("utf-8") or "<!-- run: " in page.read_text("utf-8")
]

LEFT = 99
STAYS = f'code=$?; [ "$PWD" = "$0" ] || exit {LEFT}; exit $code'
"""A reader types all commands of a page into one shell: none of them may leave its folder."""

pytestmark = pytest.mark.slow


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.relative_to(ROOT).as_posix())
def test_page_does_what_it_shows(page: Path, tmp_path: Path) -> None:
    """Every command of a page prints what the page says."""
    home, work = tmp_path / "home", tmp_path / "work"
    home.mkdir()
    work.mkdir()
    environment = {
        "HOME": str(home),
        "PATH": f"{Path(sys.executable).parent}:{os.environ['PATH']}",
        "LANG": "C.UTF-8",
    }
    for step in steps(page):
        if isinstance(step, File):
            (work / step.name).write_text(step.text, "utf-8")
        command = step.text if isinstance(step, Command) else f"python {step.name}" if step.run else None
        if command is None:
            continue
        done = subprocess.run(
            ["bash", "-c", f"set -o pipefail; {command}\n{STAYS}", str(work)],
            cwd=work,
            env=environment,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            timeout=120,
            check=False,
        )
        assert "Traceback" not in done.stdout, done.stdout
        assert done.returncode != LEFT, f"$ {command}\nleaves the shell in another folder than the next command needs"
        if not step.expected:
            assert done.returncode == 0, f"$ {command}\n{done.stdout}"  # nothing is shown that would tell of a failure
        gone = missing(step.expected, done.stdout)
        assert gone is None, f"$ {command}\n{done.stdout}\nexpected: {gone}"
    assert not list(home.iterdir()), "nothing is written to the home folder"
