"""Bytes out: a tree becomes a folder of files, without a git directory, and goes away again.

Blobs are written as they are: there is no checkout, so no filter, no attribute and no hook of the repository runs.
"""

from __future__ import annotations

import os
import stat
import tempfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Final

from addendum.errors import UsageError
from addendum.work.codes import refuse
from addendum.work.objects import EXECUTABLE, GITLINK, LINK, Flat
from addendum.work.paths import shown

_FOLDER: Final = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC
_NEW: Final = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC


@contextmanager
def scratch(name: str) -> Iterator[Path]:
    """Make a folder that is gone in the end, whatever was put into it."""
    root = Path(tempfile.mkdtemp(prefix=f"addendum-{name}-"))
    os.chmod(root, 0o711)  # who runs inside is somebody else, and passes through
    try:
        yield root
    finally:
        remove(root)


def export(flat: Flat, read: Callable[[str], bytes], folder: Path, *, owner: int | None = None) -> None:
    """Write a tree's files into a new folder; `read` returns a blob. `owner`: whose they are to be.

    Raises `Refused` for a tree with a path that leads out of the folder or into a git directory."""
    os.mkdir(folder, 0o755)
    root = os.open(folder, _FOLDER)
    try:
        for path, item in flat.items():
            names = path.split(b"/")
            if any(name in (b"", b".", b"..") or name.lower() == b".git" for name in names):
                raise refuse("path.reserved", shown(path), f"The tree has the path {shown(path)}.")
            parent = _parents(root, names[:-1] if item.mode != GITLINK else names)
            try:
                if item.mode == LINK:
                    os.symlink(read(item.id), names[-1], dir_fd=parent)
                elif item.mode != GITLINK:
                    _write(parent, names[-1], read(item.id), 0o755 if item.mode == EXECUTABLE else 0o644)
            finally:
                os.close(parent)
    finally:
        os.close(root)
    if owner is not None:
        give(folder, owner)


def _parents(root: int, names: list[bytes]) -> int:
    """Open a folder below the root, making what isn't there."""
    descriptor = os.dup(root)
    for name in names:
        try:
            os.mkdir(name, 0o755, dir_fd=descriptor)
        except FileExistsError:
            pass
        try:
            below = os.open(name, _FOLDER, dir_fd=descriptor)
        except OSError:
            raise UsageError(f"The tree has {shown(name)} as a file and as a folder.", hint="Check it.") from None
        finally:
            os.close(descriptor)
        descriptor = below
    return descriptor


def _write(parent: int, name: bytes, data: bytes, mode: int) -> None:
    descriptor = os.open(name, _NEW, mode, dir_fd=parent)
    with os.fdopen(descriptor, "wb") as file:
        file.write(data)
        os.fchmod(descriptor, mode)


def give(folder: Path, owner: int) -> None:
    """Make everything in a folder of our own somebody's."""
    for _, folders, files, descriptor in os.fwalk(folder):
        os.chown(descriptor, owner, owner)
        for name in (*folders, *files):
            os.chown(name, owner, owner, dir_fd=descriptor, follow_symlinks=False)


def size(folder: Path, most_entries: int) -> tuple[int, int]:
    """Return (entries, bytes on disk) of a folder that somebody else is writing into; stops counting at the limit."""
    entries = used = 0
    try:
        for _, folders, files, descriptor in os.fwalk(folder):
            entries += len(folders) + len(files)
            if entries > most_entries:
                break
            for name in files:
                try:
                    used += os.stat(name, dir_fd=descriptor, follow_symlinks=False).st_blocks * 512
                except OSError:
                    continue
    except (OSError, RecursionError):
        return most_entries + 1, used  # deeper than can be walked
    return entries, used


def remove(folder: Path) -> None:
    """Remove a folder with all that is in it, however deep it nests. Nobody writes into it any more."""
    root = os.open(folder, _FOLDER)
    below: list[str] = []
    try:
        while True:
            into = _clear(root)
            if into is not None:
                deeper = os.open(into, _FOLDER, dir_fd=root)
                os.close(root)
                root = deeper
                below.append(into)
                continue
            if not below:
                break
            above = os.open("..", _FOLDER, dir_fd=root)
            os.close(root)
            root = above
            os.rmdir(below.pop(), dir_fd=root)
    finally:
        os.close(root)
    os.rmdir(folder)


def _clear(descriptor: int) -> str | None:
    """Remove a folder's files; return one of its folders, None if it is empty."""
    os.fchmod(descriptor, 0o700)
    with os.scandir(descriptor) as listing:
        for entry in listing:
            found = os.stat(entry.name, dir_fd=descriptor, follow_symlinks=False)
            if stat.S_ISDIR(found.st_mode):
                return _openable(descriptor, entry.name)
            os.unlink(entry.name, dir_fd=descriptor)
    return None


def _openable(descriptor: int, name: str) -> str:
    try:
        os.close(os.open(name, _FOLDER, dir_fd=descriptor))
    except PermissionError:
        os.chmod(name, 0o700, dir_fd=descriptor)
    return name
