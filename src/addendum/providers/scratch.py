"""Folders of jobs in the system's temporary folder: gone at the end of the job, or when the next one starts.

    addendum-agent-XXXXXXXX/lock    held (flock) by the job for as long as it lives, and by whoever inherits it
    addendum-agent-XXXXXXXX/...     what the job puts there

A job that is killed (SIGKILL, a lack of memory, a loss of power) leaves its folder. The next one of the same user
removes what nobody holds. The temporary folder is everybody's, so only a folder that nobody else could have made or
filled is looked at: one of this user that nobody else may write to, and no symbolic link. Without `lock`, it is left
alone.

A job that lives holds its folder. One that was killed may have left somebody at work who doesn't: a command that isn't
confined inherits the lock, and so does what it starts, unless that closes what it inherits; a confined one never has
it, as it lies outside of what that sees. A confined command dies with its job, though a moment later; of any other,
what it started may go on. Their folder is swept beneath them, and nothing is lost: a result is written by the job
alone, so nobody would ever ask for what they do there. What they put there meanwhile stays with the lock, which goes
last, and the next sweep finds it.
"""

from __future__ import annotations

import fcntl
import os
import stat
import subprocess
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Final

PREFIX: Final = "addendum-agent-"
LOCK: Final = "lock"
_FOLDER: Final = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC
_OTHERS: Final = stat.S_IWGRP | stat.S_IWOTH


@contextmanager
def scratch(above: Path | None = None) -> Iterator[tuple[Path, int]]:
    """Make a folder, in the system's temporary folder if `above` is None, and the descriptor that holds it: whoever
    inherits that holds it too. It is gone in the end, whatever was put into it, however deep."""
    root = Path(tempfile.mkdtemp(prefix=PREFIX, dir=above))
    lock = os.open(root / f"{LOCK}.new", os.O_RDWR | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600)
    try:
        fcntl.flock(lock, fcntl.LOCK_EX)
        os.rename(root / f"{LOCK}.new", root / LOCK)  # it is there once it is held: no sweep comes in between
        os.chmod(root, 0o711)  # who is confined is somebody else, and passes through
        yield root, lock
    finally:
        _remove(root)
        os.close(lock)


def sweep(above: Path | None = None) -> None:
    """Remove the folders that jobs of this user left which are gone. What can't be looked at or removed stays."""
    above = Path(tempfile.gettempdir()) if above is None else above
    try:
        if not _safe(above.stat()):
            return
        found = [each.path for each in os.scandir(above) if each.name.startswith(PREFIX)]
    except OSError:
        return
    for path in found:
        try:
            _swept(Path(path))
        except OSError:
            continue  # it is somebody else's, a link, at work, or just gone


def _safe(above: os.stat_result) -> bool:
    """Whether nobody else can put something else in the place of a folder of ours in there."""
    return bool(above.st_mode & stat.S_ISVTX) or (above.st_uid in (0, os.geteuid()) and not above.st_mode & _OTHERS)


def _swept(root: Path) -> None:
    """Remove one folder. Raises `OSError` for one that isn't ours, has no lock, or is held."""
    folder = os.open(root, _FOLDER)
    try:
        looked = os.fstat(folder)
        if looked.st_uid != os.geteuid() or looked.st_mode & _OTHERS:
            return
        lock = os.open(LOCK, os.O_RDWR | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC, dir_fd=folder)
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
            _remove(root)
        finally:
            os.close(lock)
    finally:
        os.close(folder)


def _remove(root: Path) -> None:
    """Remove a folder, the lock last: what is left by a removal that was killed, or during which something was put
    there, is found again."""
    _do("chmod", "-R", "u+rwx", "--", str(root))
    try:
        _do("rm", "-rf", "--", *_beside(root))
        if not _beside(root):
            _do("rm", "-rf", "--", str(root))
    except OSError:
        return  # whoever worked there has removed it


def _beside(root: Path) -> list[str]:
    """Return what lies there beside the lock."""
    return [each.path for each in os.scandir(root) if each.name != LOCK]


def _do(*command: str) -> None:
    subprocess.run(command, stdin=subprocess.DEVNULL, capture_output=True, check=False)
