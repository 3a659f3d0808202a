"""What every artifact store has to do: one suite over each of them."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from addendum.artifacts import FileArtifacts
from addendum.canon import sha256
from addendum.errors import NotFound, StoreCorrupt
from addendum.ports import Artifacts
from addendum.testing.memory_artifacts import MemoryArtifacts


@pytest.fixture(params=["file", "memory"])
def artifacts(request: pytest.FixtureRequest, tmp_path: Path) -> Artifacts:
    """One store after the other."""
    return FileArtifacts(tmp_path / "artifacts") if request.param == "file" else MemoryArtifacts()


def test_what_is_put_is_got(artifacts: Artifacts) -> None:
    """A reference says type and size, and leads to the same bytes, also to none and to many."""
    for data in (b"", b"hello", b"\0" * 300_000):
        found = artifacts.put(data, "image/png")
        assert found == {"artifact": f"sha256:{sha256(data)}", "media_type": "image/png", "bytes": len(data)}
        assert artifacts.get(str(found["artifact"])) == data


def test_the_same_bytes_are_one_file(artifacts: Artifacts) -> None:
    """Whoever puts them."""
    assert artifacts.put(b"a", "text/plain") == artifacts.put(b"a", "text/plain")


def test_what_was_never_kept_is_not_found(artifacts: Artifacts) -> None:
    """The error names it."""
    with pytest.raises(NotFound, match="There is no artifact"):
        artifacts.get(f"sha256:{sha256(b'other')}")


def test_a_changed_file_is_found_out(tmp_path: Path) -> None:
    """What is read is held against its name."""
    breaks: list[tuple[Artifacts, Callable[[str], object]]] = []
    kept = FileArtifacts(tmp_path)
    memory = MemoryArtifacts()
    breaks.append((kept, lambda name: (tmp_path / name[7:9] / name[9:]).write_bytes(b"other")))
    breaks.append((memory, lambda name: memory.kept.update({name: b"other"})))
    for store, harm in breaks:
        name = str(store.put(b"hello", "text/plain")["artifact"])
        harm(name)
        with pytest.raises(StoreCorrupt, match="other bytes"):
            store.get(name)


def test_room_is_asked_for_ahead(artifacts: Artifacts) -> None:
    """A store that can be written to says so, and nothing of the question is left behind."""
    artifacts.ready(1000)
    assert not isinstance(artifacts, FileArtifacts) or list(artifacts.all()) == []
