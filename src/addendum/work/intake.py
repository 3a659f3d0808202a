"""Bytes in: what an executor left in a folder becomes a flat tree. The trusted side runs no git on it.

Folders and files are opened by descriptor, without following a link and without waiting for a pipe; each file is read
once, so that what is judged is what was read. The executor's processes have ended before this starts; should one
still write, nothing outside the folder can be reached.
"""

from __future__ import annotations

import os
import stat
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Final

from addendum.work.codes import Finding, Refused
from addendum.work.objects import EXECUTABLE, FILE, GITLINK, LINK, Flat, Item, blob_id
from addendum.work.paths import MAX_DEPTH, fault, folders, shown

MOST_FINDINGS: Final = 20
_FOLDER: Final = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC
_FILE: Final = os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC | os.O_NOCTTY
_CHUNK: Final = 1 << 20


@dataclass(frozen=True, slots=True)
class Bounds:
    """How much may come in: entries (folders too), bytes of one file, and bytes of all files that differ from the
    base's."""

    entries: int = 50_000
    file_bytes: int = 10_000_000
    bytes: int = 100_000_000


@dataclass(slots=True)
class Taken:
    """What was in the folder. `blobs` has the bytes of what the base doesn't have, by id."""

    flat: dict[bytes, Item] = field(default_factory=dict)
    blobs: dict[str, bytes] = field(default_factory=dict)


def take(folder: str | os.PathLike[str], base: Flat, bounds: Bounds, *, overlay: bool = False) -> Taken:
    """Read a folder. With `overlay`, what it has is laid over the base, else it is the whole tree.

    Raises `Untakable` with what was found (`path.*`, `file.*`, `scope.size`) and the rest, which is evidence only."""
    reader = _Reader(base, bounds)
    root = os.open(folder, _FOLDER)
    try:
        reader.folder(root, b"", 0)
    finally:
        os.close(root)
    taken = reader.taken
    if overlay:
        taken.flat = over(base, taken.flat)
    taken.flat = dict(sorted(taken.flat.items()))
    if reader.findings:
        raise Untakable(taken, reader.findings)
    return taken


class Untakable(Refused):
    """A folder with something in it that no tree may have; `rest` is what else was there."""

    def __init__(self, rest: Taken, findings: list[Finding]) -> None:
        super().__init__(*findings)
        self.rest = rest


class _Full(Exception):
    """Too much came in; the finding is noted."""


class _Reader:
    def __init__(self, base: Flat, bounds: Bounds) -> None:
        self._base = base
        self._bounds = bounds
        self._known = {item.id for item in base.values()}
        self._entries = 0
        self._bytes = 0
        self.taken = Taken()
        self.findings: list[Finding] = []

    def folder(self, descriptor: int, prefix: bytes, depth: int) -> None:
        """Read one folder and those below it; at the top, end quietly once there is enough to say."""
        try:
            self._folder(descriptor, prefix, depth)
        except _Full:
            pass

    def _folder(self, descriptor: int, prefix: bytes, depth: int) -> None:
        names: list[bytes] = []
        with os.scandir(descriptor) as listing:
            for entry in listing:
                self._entries += 1
                if self._entries > self._bounds.entries:
                    self._note("scope.size", prefix or b".", f"There are more than {self._bounds.entries:,} entries.")
                    raise _Full
                names.append(os.fsencode(entry.name))
        for name in sorted(names):
            self._entry(descriptor, name, prefix + name, depth)

    def _entry(self, parent: int, name: bytes, path: bytes, depth: int) -> None:
        wrong = None if path in self._base else fault(path)
        if wrong is not None:
            self._note(wrong[0], path, f"{wrong[1]}.")
            return  # nothing below a name like this is looked at
        try:
            found = os.stat(name, dir_fd=parent, follow_symlinks=False)
        except OSError as error:
            self._note("file.special", path, f"It can't be looked at: {error.strerror}.")
            return
        if stat.S_ISDIR(found.st_mode):
            self._below(parent, name, path, depth)
        elif stat.S_ISLNK(found.st_mode):
            self._link(parent, name, path)
        elif stat.S_ISREG(found.st_mode):
            self._file(parent, name, path)
        else:
            self._note("file.special", path, "It is a pipe, a socket or a device.")

    def _below(self, parent: int, name: bytes, path: bytes, depth: int) -> None:
        if depth + 1 >= MAX_DEPTH:
            self._note("scope.size", path[:200], f"Folders nest more than {MAX_DEPTH} deep.")
            raise _Full
        before = len(self.taken.flat)
        try:
            descriptor = os.open(name, _FOLDER, dir_fd=parent)
        except OSError as error:
            self._note("file.special", path, f"The folder can't be opened: {error.strerror}.")
            return
        try:
            self._folder(descriptor, path + b"/", depth + 1)
        finally:
            os.close(descriptor)
        known = self._base.get(path)
        if known is not None and known.mode == GITLINK and len(self.taken.flat) == before:
            self.taken.flat[path] = known  # exported as an empty folder, and left as one

    def _link(self, parent: int, name: bytes, path: bytes) -> None:
        known = self._base.get(path)
        try:
            target = os.readlink(name, dir_fd=parent)
        except OSError:
            target = b""
        if known is None or known.mode != LINK or blob_id(target) != known.id:
            self._note("file.symlink", path, "It is a link that the base doesn't have.")
            return
        self.taken.flat[path] = known

    def _file(self, parent: int, name: bytes, path: bytes) -> None:
        try:
            descriptor = os.open(name, _FILE, dir_fd=parent)
        except OSError as error:
            self._note("file.symlink", path, f"It can't be opened as a file: {error.strerror}.")
            return
        try:
            found = os.fstat(descriptor)
            if not stat.S_ISREG(found.st_mode):
                self._note("file.special", path, "It is no regular file.")
            elif found.st_nlink != 1:
                self._note("file.hardlink", path, f"It has {found.st_nlink} names.")
            elif found.st_size > self._bounds.file_bytes:
                self._too_large(path, found.st_size)
            else:
                self._content(descriptor, path, found.st_mode)
        finally:
            os.close(descriptor)

    def _content(self, descriptor: int, path: bytes, mode: int) -> None:
        pieces: list[bytes] = []
        size = 0
        while piece := os.read(descriptor, _CHUNK):
            size += len(piece)
            if size > self._bounds.file_bytes:
                self._too_large(path, size)
                return
            pieces.append(piece)
        data = b"".join(pieces)
        name = blob_id(data)
        if name not in self._known and name not in self.taken.blobs:
            self._bytes += size
            if self._bytes > self._bounds.bytes:
                self._note("scope.size", path, f"More than {self._bounds.bytes:,} bytes were changed.")
                raise _Full
            self.taken.blobs[name] = data
        self.taken.flat[path] = Item(EXECUTABLE if mode & stat.S_IXUSR else FILE, name)

    def _too_large(self, path: bytes, size: int) -> None:
        limit = self._bounds.file_bytes
        self._note("file.size", path, f"It has {size:,} bytes; the limit is {limit:,}.", size=size, limit=limit)

    def _note(self, code: str, path: bytes, why: str, **evidence: int) -> None:
        text = shown(path)
        self.findings.append(Finding(code, text, f"{text}: {why}", dict(evidence)))
        if len(self.findings) >= MOST_FINDINGS:
            raise _Full


def lay(base: Flat, changes: Mapping[bytes, bytes | None]) -> Taken:
    """Return the base with files written (bytes) or deleted (None): what a script did through its capabilities."""
    taken, new = Taken(dict(base)), dict[bytes, Item]()
    for path, data in changes.items():
        if data is None:
            taken.flat.pop(path, None)
            continue
        name = blob_id(data)
        taken.blobs[name] = data
        known = base.get(path)
        mode = known.mode if known is not None and known.kind == "file" else FILE
        new = over(new, {path: Item(mode, name)})
    taken.flat = dict(sorted(over(taken.flat, new).items()))
    return taken


def over(base: Flat, new: Flat) -> dict[bytes, Item]:
    """Lay files over a tree. One takes a folder's place, and its folders a file's: a gate sees what is gone."""
    above = {folder for path in new for folder in folders(path)}
    kept = {
        path: item
        for path, item in base.items()
        if path not in above and not any(folder in new for folder in folders(path))
    }
    return {**kept, **new}
