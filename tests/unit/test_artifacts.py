"""Files beside the store: where they lie, what a broken disk does, and which names lead nowhere."""

from __future__ import annotations

import os
import stat
from pathlib import Path

import pytest

from addendum.artifacts import FileArtifacts
from addendum.canon import sha256
from addendum.errors import NotFound, StoreUnavailable, UsageError


def test_a_file_lies_at_its_digest_for_its_owner_only(tmp_path: Path) -> None:
    """Two digits for the folder, the rest for the file; nothing else is left."""
    FileArtifacts(tmp_path / "deep" / "artifacts").put(b"hello", "text/plain")
    digest = sha256(b"hello")
    path = tmp_path / "deep" / "artifacts" / digest[:2] / digest[2:]
    assert path.read_bytes() == b"hello"
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    assert stat.S_IMODE(path.parent.stat().st_mode) == 0o700
    assert [each.name for each in (tmp_path / "deep" / "artifacts").iterdir()] == [digest[:2]]


def test_a_damaged_file_is_written_anew(tmp_path: Path) -> None:
    """The same bytes that are paid for once more mend it."""
    kept = FileArtifacts(tmp_path)
    name = str(kept.put(b"hello", "text/plain")["artifact"])
    (tmp_path / name[7:9] / name[9:]).write_bytes(b"")
    kept.put(b"hello", "text/plain")
    assert kept.get(name) == b"hello"


@pytest.mark.parametrize(
    "reference", ["", "sha256:", "sha256:../../etc/passwd", "sha256:" + "A" * 64, "a" * 64, "sha256:" + "a" * 63]
)
def test_no_path_is_made_of_what_is_no_reference(tmp_path: Path, reference: str) -> None:
    """A result is data: whatever it says leads into the folder or nowhere."""
    with pytest.raises(UsageError, match="no artifact's reference"):
        FileArtifacts(tmp_path).get(reference)


def test_a_link_is_not_followed(tmp_path: Path) -> None:
    """Whoever can put a link into the folder gets nothing else read."""
    secret = tmp_path / "secret"
    secret.write_bytes(b"secret")
    digest = sha256(b"secret")
    folder = tmp_path / "artifacts"
    (folder / digest[:2]).mkdir(parents=True)
    (folder / digest[:2] / digest[2:]).symlink_to(secret)
    with pytest.raises(StoreUnavailable, match="can't be read"):
        FileArtifacts(folder).get(f"sha256:{digest}")
    assert list(FileArtifacts(folder).all()) == []


def test_a_folder_that_cannot_be_made(tmp_path: Path) -> None:
    """A file stands in its place: an error with a way out, for the question and for the answer."""
    (tmp_path / "artifacts").write_bytes(b"")
    kept = FileArtifacts(tmp_path / "artifacts")
    for action in (lambda: kept.ready(1), lambda: kept.put(b"a", "text/plain")):
        with pytest.raises(StoreUnavailable, match="can't be written to") as caught:
            action()
        assert "disk" in caught.value.hint


def test_a_disk_without_room(tmp_path: Path) -> None:
    """More than is free is refused before anything is paid for."""
    with pytest.raises(StoreUnavailable, match="has no room"):
        FileArtifacts(tmp_path).ready(2**62)


def test_a_write_that_breaks_leaves_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A disk that is full in the middle of a file: nothing is found under its name, and no rest of it lies about."""
    kept = FileArtifacts(tmp_path)
    kept.ready(1)

    def full(descriptor: int) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(os, "fsync", full)
    with pytest.raises(StoreUnavailable, match="No space left"):
        kept.put(b"hello", "text/plain")
    monkeypatch.undo()
    assert list(kept.all()) == []
    assert not list(tmp_path.rglob(".new-*"))
    with pytest.raises(NotFound):
        kept.get(f"sha256:{sha256(b'hello')}")


def test_a_file_that_was_there_is_durable_too(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Whoever put it there may have been killed before the folders that name it were on the disk."""
    kept = FileArtifacts(tmp_path)
    kept.put(b"hello", "text/plain")
    synced: list[int] = []
    monkeypatch.setattr(os, "fsync", lambda descriptor: synced.append(os.fstat(descriptor).st_ino))
    kept.put(b"hello", "text/plain")
    assert synced == [folder.stat().st_ino for folder in (tmp_path / sha256(b"hello")[:2], tmp_path)]


def test_a_file_that_cannot_be_read_is_said(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A list without it would say that it was never kept. One that is gone meanwhile isn't there."""
    kept = FileArtifacts(tmp_path)
    kept.put(b"hello", "text/plain")
    for error, listed in ((OSError(5, "Input/output error"), False), (FileNotFoundError(), True)):

        def broken(path: object, flags: int, error: OSError = error) -> int:
            raise error

        with monkeypatch.context() as patched:
            patched.setattr(os, "open", broken)
            if listed:
                assert list(kept.all()) == []
            else:
                with pytest.raises(StoreUnavailable, match="Input/output error"):
                    list(kept.all())


def test_a_reference_is_found_by_its_beginning(tmp_path: Path) -> None:
    """Six digits are enough when they are one file's."""
    kept = FileArtifacts(tmp_path)
    first = str(kept.put(b"1", "text/plain")["artifact"])
    kept.put(b"2", "text/plain")
    assert kept.find(first[:13]) == first
    assert kept.find(first.removeprefix("sha256:")[:8].upper()) == first
    with pytest.raises(NotFound, match="There is no artifact"):
        kept.find("sha256:000000")
    with pytest.raises(UsageError, match="6 at least"):
        kept.find("sha256:00")
    with pytest.raises(UsageError, match="no artifact's reference"):
        kept.find("sha256:../../..")


def test_an_ambiguous_beginning(tmp_path: Path) -> None:
    """It is said how many there are."""
    kept = FileArtifacts(tmp_path)
    digits = "abcdef"
    for number in range(2):
        (tmp_path / digits[:2]).mkdir(exist_ok=True)
        (tmp_path / digits[:2] / (digits[2:] + str(number) * 58)).write_bytes(b"x")
    with pytest.raises(UsageError, match="beginning of 2 artifacts"):
        kept.find(digits)


def test_what_is_kept_is_listed_in_order(tmp_path: Path) -> None:
    """With size and type; what is no artifact is left out."""
    kept = FileArtifacts(tmp_path)
    names = sorted(str(kept.put(data, "x")["artifact"]) for data in (b"one", b"two", b"\x89PNG\r\n\x1a\n"))
    (tmp_path / "notes.txt").write_bytes(b"")
    (tmp_path / "ab").mkdir(exist_ok=True)
    (tmp_path / "ab" / "short").write_bytes(b"")
    found = list(kept.all())
    assert [each.reference for each in found] == names
    assert {each.media_type for each in found} == {"text/plain", "image/png"}
    assert list(FileArtifacts(tmp_path / "none").all()) == []
