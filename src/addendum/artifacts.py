"""Files that results refer to, content-addressed, in a folder beside the run store.

    .addendum/artifacts/ab/cdef…          SHA-256 ab cdef… of the bytes, for its owner's eyes only

A file is written beside its place, made durable, and then put there in one step, so that whoever finds it finds all of
it, also after a power cut. What is read is held against its name. Nothing is ever changed or overwritten.
"""

from __future__ import annotations

import contextlib
import os
import re
import secrets
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Final, NoReturn

from addendum import media
from addendum.canon import Digest, Json, sha256
from addendum.errors import NotFound, StoreCorrupt, StoreUnavailable, UsageError
from addendum.records.artifacts import PREFIX, digest_of

FOLDER: Final = "artifacts"
LARGEST: Final = 1024 * 1024 * 1024
"""Bytes of one artifact."""
_START: Final = re.compile(r"[0-9a-f]{6,64}")


@dataclass(frozen=True, slots=True)
class Artifact:
    """A kept file. `bytes` is its size; `media_type` is what it begins like."""

    reference: str
    bytes: int
    media_type: str

    def to_json(self) -> dict[str, Json]:
        """Return it as a result refers to it."""
        return {"artifact": self.reference, "media_type": self.media_type, "bytes": self.bytes}


class FileArtifacts:
    """The `Artifacts` port on a folder, which is made when something is put into it."""

    def __init__(self, folder: Path) -> None:
        self._folder = Path(os.path.abspath(folder))

    def ready(self, room: int) -> None:
        """Check that `room` bytes could be kept now. Raises `StoreUnavailable`."""
        try:
            self._make(self._folder)
            found = os.statvfs(self._folder)
            free = found.f_bavail * found.f_frsize
            if free < room:
                raise StoreUnavailable(
                    f"The artifact store {self._folder} has no room: {free:,} bytes are free, {room:,} are needed.",
                    hint="Make room on the disk and go on.",
                )
            beside = self._beside()
            try:
                os.close(os.open(beside, os.O_CREAT | os.O_EXCL | os.O_WRONLY | os.O_CLOEXEC, 0o600))
            finally:
                beside.unlink(missing_ok=True)
        except OSError as error:
            self._unavailable(error, "written to")

    def put(self, data: bytes, media_type: str) -> dict[str, Json]:
        """Keep bytes, durable on return; return the reference. Raises `StoreUnavailable`."""
        digest = sha256(data)
        path = self._path(digest)
        try:
            if not self._is_there(path, data):
                self._write(path, data)
            # Also for a file that was there: whoever put it there may have been killed before its name was durable.
            for folder in (path.parent, self._folder):
                _sync(folder)
        except OSError as error:
            self._unavailable(error, "written to")
        return Artifact(PREFIX + digest, len(data), media_type).to_json()

    def get(self, reference: str) -> bytes:
        """Return the bytes. Raises `UsageError` for what is no reference, `NotFound`, `StoreCorrupt`."""
        digest = _digest(reference)
        try:
            data = _read(self._path(digest))
        except FileNotFoundError:
            raise NotFound(
                f"There is no artifact {reference} in {self._folder}.",
                hint="`addendum artifact list` lists those that are there.",
                artifact=reference,
            ) from None
        except OSError as error:
            self._unavailable(error, "read")
        if sha256(data) != digest:
            raise StoreCorrupt(
                f"The artifact {reference} in {self._folder} has other bytes than were kept.",
                hint="Restore the file from a backup; its name is the SHA-256 of its bytes.",
                artifact=reference,
            )
        return data

    def find(self, start: str) -> str:
        """Return the reference that begins so, of 6 digits at least. Raises `NotFound`, `UsageError`."""
        digits = start.removeprefix(PREFIX).lower()
        if not _START.fullmatch(digits):
            raise UsageError(
                f"{start!r} is no artifact's reference.", hint="Write sha256: and the first digits of it, 6 at least."
            )
        found = [each.reference for each in self.all(digits) if each.reference.startswith(PREFIX + digits)]
        if len(found) > 1:
            raise UsageError(f"{start!r} is the beginning of {len(found)} artifacts.", hint="Write more of it.")
        if not found:
            raise NotFound(
                f"There is no artifact {start!r} in {self._folder}.", hint="`addendum artifact list` lists them."
            )
        return found[0]

    def all(self, start: str = "") -> Iterator[Artifact]:
        """Yield what is kept, in order of the references; only those whose first two digits are `start`'s."""
        folders = [self._folder / start[:2]] if start else sorted(self._listed(self._folder))
        for folder in folders:
            for path in sorted(self._listed(folder)):
                reference = PREFIX + folder.name + path.name
                found = self._seen(path, reference) if digest_of(reference) else None
                if found is not None:
                    yield found

    def _seen(self, path: Path, reference: str) -> Artifact | None:
        """Return what a file is, None for what is none (any more)."""
        try:
            if not path.is_file() or path.is_symlink():
                return None
            return Artifact(reference, path.stat().st_size, media.kind(_read(path, 4096)))
        except FileNotFoundError:
            return None
        except OSError as error:
            self._unavailable(error, "read")

    def _listed(self, folder: Path) -> list[Path]:
        try:
            return list(folder.iterdir())
        except (FileNotFoundError, NotADirectoryError):
            return []
        except OSError as error:
            self._unavailable(error, "read")

    def _path(self, digest: Digest) -> Path:
        return self._folder / digest[:2] / digest[2:]

    def _beside(self) -> Path:
        return self._folder / f".new-{secrets.token_hex(16)}"

    def _is_there(self, path: Path, data: bytes) -> bool:
        """Whether a file is kept already. One that a failing disk has damaged is written anew."""
        try:
            return _read(path) == data
        except FileNotFoundError:
            return False

    def _write(self, path: Path, data: bytes) -> None:
        self._make(path.parent)
        beside = self._beside()
        try:
            descriptor = os.open(beside, os.O_CREAT | os.O_EXCL | os.O_WRONLY | os.O_CLOEXEC, 0o600)
            with os.fdopen(descriptor, "wb") as file:
                file.write(data)
                file.flush()
                os.fsync(file.fileno())
            os.replace(beside, path)
        except BaseException:
            with contextlib.suppress(OSError):
                beside.unlink(missing_ok=True)
            raise

    def _make(self, folder: Path) -> None:
        """Make a folder with those above it, durable, for its owner's eyes only."""
        missing = [each for each in (folder, *folder.parents) if not each.exists()]
        for each in reversed(missing):
            each.mkdir(mode=0o700, exist_ok=True)
            _sync(each.parent)

    def _unavailable(self, error: OSError, what: str) -> NoReturn:
        raise StoreUnavailable(
            f"The artifact store {self._folder} can't be {what} ({error.strerror or error}).",
            hint="Check its disk (space, quota, permissions) and go on.",
            cause=type(error).__name__,
        ) from None


def _digest(reference: str) -> Digest:
    """Return the digest of a reference. Raises `UsageError` for what is none: no path can be made of it."""
    digest = digest_of(reference)
    if digest is None:
        raise UsageError(f"{reference[:100]!r} is no artifact's reference.", hint="It is sha256: and 64 digits.")
    return digest


def _read(path: Path, most: int = LARGEST) -> bytes:
    descriptor = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_CLOEXEC | os.O_NONBLOCK)
    with os.fdopen(descriptor, "rb") as file:
        return file.read(most)


def _sync(folder: Path) -> None:
    """Make a folder's list of names durable, where the system can."""
    descriptor = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        os.fsync(descriptor)
    except OSError:
        pass  # not every file system can
    finally:
        os.close(descriptor)
