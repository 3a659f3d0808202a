"""Folders of jobs: gone at the end, gone after a kill, and never anybody else's."""

from __future__ import annotations

import fcntl
import os
import subprocess
import sys
from pathlib import Path

import pytest

from addendum.providers import scratch as scratching
from addendum.providers.scratch import LOCK, PREFIX, scratch, sweep

CHILD = """
import os, signal, sys
from pathlib import Path
from addendum.providers.scratch import scratch
with scratch(Path(sys.argv[1])) as (root, held):
    (root / "work" / "deep").mkdir(parents=True)
    (root / "work" / "deep" / "file").write_text("x")
    os.chmod(root / "work", 0o500)
    os.kill(os.getpid(), signal.SIGKILL)
"""


@pytest.fixture
def above(tmp_path: Path) -> Path:
    """A folder like the system's temporary one: everybody's, and sticky."""
    folder = tmp_path / "above"
    folder.mkdir()
    folder.chmod(0o1777)
    return folder


def left(above: Path, name: str = "left", *, lock: bool = True) -> Path:
    """Make what a job that was killed leaves."""
    root = above / f"{PREFIX}{name}"
    root.mkdir(mode=0o711)
    (root / "file").write_text("x")
    if lock:
        (root / LOCK).touch(0o600)
    return root


def test_a_folder_is_gone_at_the_end(above: Path) -> None:
    """Whatever was put into it, and whatever rights that has."""
    with scratch(above) as (root, _):
        (root / "work" / "deep").mkdir(parents=True)
        (root / "work" / "deep" / "file").write_text("x")
        (root / "work").chmod(0o500)
    assert list(above.iterdir()) == []


def test_the_folder_of_a_killed_job_is_gone_once_the_next_one_starts(above: Path) -> None:
    """SIGKILL lets nobody clean up; the next start does."""
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)}
    done = subprocess.run([sys.executable, "-c", CHILD, str(above)], env=environment, check=False)
    assert done.returncode < 0
    assert len(list(above.iterdir())) == 1
    sweep(above)
    assert list(above.iterdir()) == []


def test_a_job_at_work_keeps_its_folder(above: Path) -> None:
    """A sweep beside it takes what is left, and nothing of it."""
    with scratch(above) as (root, _):
        gone = left(above)
        sweep(above)
        assert (root / LOCK).exists()
        assert not gone.exists()


def test_what_a_job_started_keeps_its_folder(above: Path) -> None:
    """A process that inherited the lock may still write there, though its job is gone."""
    root = left(above)
    with (root / LOCK).open("r+") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        child = subprocess.Popen(["/bin/cat"], stdin=subprocess.PIPE, pass_fds=[lock.fileno()])
    try:
        sweep(above)
        assert (root / "file").exists()
    finally:
        child.communicate()
    sweep(above)
    assert not root.exists()


def test_what_is_put_there_during_a_sweep_is_left_with_its_lock(above: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A process that outlived its job, and hasn't got the lock, may still be at work: the next sweep finds the rest."""
    root = left(above)
    real, late = scratching._do, iter([root / "late"])

    def do(*command: str) -> None:
        real(*command)
        if command[0] == "rm":
            for path in late:
                path.mkdir()
                path.chmod(0o500)

    monkeypatch.setattr(scratching, "_do", do)
    sweep(above)
    assert sorted(path.name for path in root.iterdir()) == ["late", LOCK]
    sweep(above)
    assert not root.exists()


def test_a_folder_without_a_lock_is_left_alone(above: Path) -> None:
    """Nobody knows whose it is: a job that has just begun, or something that only has such a name."""
    root = left(above, lock=False)
    sweep(above)
    assert (root / "file").exists()


def test_a_link_is_not_followed(above: Path, tmp_path: Path) -> None:
    """Neither as the folder, nor as its lock, nor within: what it leads to stays as it was."""
    target = left(tmp_path, "target")
    (above / f"{PREFIX}link").symlink_to(target)
    other = left(above, "other", lock=False)
    (other / LOCK).symlink_to(target / LOCK)
    within = left(above, "within")
    (within / "link").symlink_to(target)
    mode = (target / "file").stat().st_mode
    sweep(above)
    assert (target / "file").stat().st_mode == mode
    assert (target / LOCK).exists()
    assert (other / "file").exists()
    assert not within.exists()


@pytest.mark.parametrize("mode", [0o731, 0o713, 0o777])
def test_a_folder_that_others_write_to_is_left_alone(above: Path, mode: int) -> None:
    """Others could have filled it."""
    root = left(above)
    root.chmod(mode)
    sweep(above)
    assert (root / "file").exists()


def test_a_folder_of_somebody_else_is_left_alone(above: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Also where this user could remove it, as root can."""
    root = left(above)
    other = os.geteuid() + 1
    monkeypatch.setattr(os, "geteuid", lambda: other)
    sweep(above)
    assert (root / "file").exists()


def test_nothing_is_removed_where_others_may_replace_it(above: Path) -> None:
    """A folder of everybody's that isn't sticky: between a look and the removal, another folder could stand there."""
    root = left(above)
    above.chmod(0o777)
    sweep(above)
    assert (root / "file").exists()


def test_without_a_temporary_folder_nothing_happens(tmp_path: Path) -> None:
    """The sweep is a courtesy: no job fails for it."""
    sweep(tmp_path / "none")
    assert not (tmp_path / "none").exists()
