"""Git's objects in and out."""

from __future__ import annotations

import os
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from addendum.errors import StoreCorrupt, UsageError
from addendum.work import intake, workspace
from addendum.work.objects import Item, Repository, blob_id


@pytest.fixture
def repository(tmp_path: Path) -> Iterator[Repository]:
    """An empty bare repository."""
    subprocess.run(["git", "init", "-q", "--bare", str(tmp_path / "r.git")], check=True)
    with Repository(tmp_path / "r.git") as opened:
        yield opened


def files(folder: Path) -> Path:
    """Write some files, one of them executable."""
    (folder / "a" / "b").mkdir(parents=True)
    (folder / "a" / "b" / "c.txt").write_bytes(b"c\n")
    (folder / "a.txt").write_bytes(b"a")
    (folder / "a-").write_bytes(b"")
    (folder / "run").write_bytes(b"#!/bin/sh\n")
    os.chmod(folder / "run", 0o755)
    return folder


def test_a_tree_has_the_id_that_git_gives_it(repository: Repository, tmp_path: Path) -> None:
    """What comes in through bytes is the tree that `git write-tree` writes, and git finds nothing wrong with it."""
    folder = files(tmp_path / "w")
    taken = intake.take(folder, {}, intake.Bounds())
    tree = repository.write(taken.flat, taken.blobs.values())
    env = {"PATH": os.environ["PATH"], "GIT_DIR": str(repository.path), "GIT_WORK_TREE": str(folder)}
    subprocess.run(["git", "add", "-A"], check=True, env=env, cwd=folder)
    assert subprocess.check_output(["git", "write-tree"], env=env, text=True).strip() == tree
    subprocess.run(["git", "fsck", "--strict"], check=True, env=env)


def test_what_goes_out_comes_in_the_same(repository: Repository, tmp_path: Path) -> None:
    """Export and import are inverse, modes and links of the base too."""
    folder = files(tmp_path / "w")
    taken = intake.take(folder, {}, intake.Bounds())
    blobs = {**taken.blobs, blob_id(b"a.txt"): b"a.txt"}
    flat = {**taken.flat, b"link": Item(0o120000, blob_id(b"a.txt")), b"sub": Item(0o160000, "1" * 40)}
    tree = repository.write(flat, blobs.values())
    base = repository.flat(tree)
    workspace.export(base, repository.data, tmp_path / "out")
    again = intake.take(tmp_path / "out", base, intake.Bounds())
    assert again.flat == base
    assert not again.blobs


def test_a26_a_kept_attempt_survives_garbage_collection(repository: Repository, tmp_path: Path) -> None:
    """A ref holds an attempt's commit, so that `git gc --prune=now` keeps its tree."""
    taken = intake.take(files(tmp_path / "w"), {}, intake.Bounds())
    tree = repository.write(taken.flat, taken.blobs.values())
    lost = repository.write({b"x": Item(0o100644, blob_id(b"lost"))}, [b"lost"])
    repository.keep("refs/addendum/attempts/1", repository.commit(tree, [], "attempt", 0))
    subprocess.run(["git", "-C", str(repository.path), "gc", "-q", "--prune=now"], check=True)
    with Repository(repository.path) as again:
        assert again.manifest(again.flat(tree))
        assert not again.has_tree(lost)


def test_a_ref_moves_only_from_where_it_was(repository: Repository) -> None:
    """The new value is set if the old one is still there."""
    tree = repository.write({}, [])
    first, second = (repository.commit(tree, [], text, 0) for text in "ab")
    assert repository.move("refs/heads/main", "0" * 40, first)
    assert not repository.move("refs/heads/main", "0" * 40, second)
    assert repository.move("refs/heads/main", first, second)
    assert repository.ref("refs/heads/main") == second


def test_a_manifest_sees_what_sha1_might_not(repository: Repository, tmp_path: Path) -> None:
    """The manifest is over contents by SHA-256, and a damaged object is named."""
    tree = repository.write({b"x": Item(0o100644, blob_id(b"one"))}, [b"one"])
    flat = repository.flat(tree)
    other = repository.flat(repository.write({b"x": Item(0o100755, blob_id(b"one"))}, [b"one"]))
    assert repository.manifest(flat) != repository.manifest(other)
    with pytest.raises(StoreCorrupt):
        repository.manifest({b"x": Item(0o100644, "f" * 40)})


def test_a_folder_with_anything_in_it_goes_away(tmp_path: Path) -> None:
    """Deep, unreadable and linked things are removed, and nothing outside."""
    keep = tmp_path / "keep"
    keep.mkdir()
    (keep / "x").write_text("x")
    with workspace.scratch("test") as folder:
        at = os.open(folder, os.O_RDONLY)
        for _ in range(3000):
            os.mkdir("d", dir_fd=at)
            below = os.open("d", os.O_RDONLY, dir_fd=at)
            os.close(at)
            at = below
        os.symlink(keep, "link", dir_fd=at)
        os.close(at)
        (folder / "shut").mkdir()
        os.chmod(folder / "shut", 0)
    assert not folder.exists()
    assert (keep / "x").exists()


def test_a_tree_that_is_not_one_is_refused(repository: Repository) -> None:
    """A path can't be a file and a folder."""
    with pytest.raises(UsageError):
        repository.write({b"a": Item(0o100644, blob_id(b"")), b"a/b": Item(0o100644, blob_id(b""))}, [b""])
