"""Git's objects and refs, and nothing else of git: no index, no attributes, no filters, no hooks.

The repository is the operator's; whatever an executor wrote comes in as bytes (`intake`) and becomes objects here. A
tree is handled flat, as a mapping of full paths to items.
"""

from __future__ import annotations

import hashlib
import os
import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, TypeAlias

from addendum import canon
from addendum.canon import Digest
from addendum.errors import ConfigError, StoreCorrupt, UsageError

if TYPE_CHECKING:
    from dulwich.repo import Repo

FILE: Final = 0o100644
EXECUTABLE: Final = 0o100755
LINK: Final = 0o120000
GITLINK: Final = 0o160000
FOLDER: Final = 0o040000
KINDS: Final = {FILE: "file", EXECUTABLE: "file", LINK: "link", GITLINK: "submodule"}
COMMIT_ID: Final = re.compile(r"[0-9a-f]{40}")
MAX_ENTRIES: Final = 200_000


@dataclass(frozen=True, slots=True)
class Item:
    """What stands at a path: its mode, and the id of its object."""

    mode: int
    id: str

    @property
    def kind(self) -> str:
        """`file`, `link` or `submodule`."""
        return KINDS.get(self.mode, "file")


Flat: TypeAlias = Mapping[bytes, Item]


def blob_id(data: bytes) -> str:
    """Return the id that git gives a file's bytes."""
    return hashlib.sha1(b"blob %d\0" % len(data) + data, usedforsecurity=False).hexdigest()


class Repository:
    """A git repository's objects and refs. Raises `ConfigError` where there is none, or dulwich is missing."""

    def __init__(self, path: str | os.PathLike[str]) -> None:
        try:
            from dulwich.errors import NotGitRepository
            from dulwich.repo import Repo
        except ImportError:
            raise ConfigError(
                "Work contracts need dulwich.", hint="Install it: `pip install 'addendum[work]'`."
            ) from None
        self.path = Path(os.path.abspath(path))
        self._sums: dict[str, Digest] = {}
        try:
            self._repo: Repo = Repo(self.path)
        except (NotGitRepository, OSError, ValueError, KeyError) as error:
            raise ConfigError(
                f"{path} is no git repository: {error}.", hint="Name its folder, or a bare one."
            ) from None

    def close(self) -> None:
        """Let go of the repository's files."""
        self._repo.close()

    def __enter__(self) -> Repository:
        """Close it in the end."""
        return self

    def __exit__(self, *_: object) -> None:
        """Close it."""
        self.close()

    # --- reading --------------------------------------------------------------------------------------------------

    def tree_of(self, commit: str) -> str | None:
        """Return a commit's tree, None if there is no such commit."""
        found = self._get(commit, "commit")
        return None if found is None else found.tree.decode("ascii")

    def has_tree(self, tree: str) -> bool:
        """Whether there is such a tree."""
        return self._get(tree, "tree") is not None

    def flat(self, tree: str) -> dict[bytes, Item]:
        """Return everything in a tree by its full path. Raises `UsageError` for an unknown or a malformed one."""
        found: dict[bytes, Item] = {}
        queue: list[tuple[bytes, str]] = [(b"", tree)]
        while queue:
            prefix, name = queue.pop()
            node = self._get(name, "tree")
            if node is None:
                raise UsageError(f"There is no tree {name}.", hint="Fetch it into the repository.", tree=name)
            for entry in node.iteritems():
                path = prefix + entry.path
                if entry.mode == FOLDER:
                    queue.append((path + b"/", entry.sha.decode("ascii")))
                    continue
                if path in found or len(found) >= MAX_ENTRIES:
                    raise UsageError(f"The tree {tree} has a path twice, or too many.", hint="Check it with git fsck.")
                found[path] = Item(entry.mode, entry.sha.decode("ascii"))
        return dict(sorted(found.items()))

    def data(self, name: str) -> bytes:
        """Return a blob's bytes, checked against its id. Raises `StoreCorrupt`."""
        found = self._get(name, "blob")
        raw: bytes | None = None if found is None else found.data
        if raw is None or blob_id(raw) != name:
            raise StoreCorrupt(f"The git object {name} is missing or damaged.", hint="Restore it from another copy.")
        return raw

    def manifest(self, flat: Flat) -> Digest:
        """Return the SHA-256 of a tree's paths, modes and contents: SHA-1 alone is no evidence against tampering."""
        lines = []
        for path, item in sorted(flat.items()):
            if item.id not in self._sums:
                self._sums[item.id] = item.id if item.mode == GITLINK else canon.sha256(self.data(item.id))
            content = self._sums[item.id]
            lines.append([path.hex(), f"{item.mode:o}", content])
        return canon.digest(lines)

    def ref(self, name: str) -> str | None:
        """Return what a ref points to, None if it isn't there."""
        value = self._repo.refs.read_ref(_ref(name))
        return None if value is None else value.decode("ascii")

    def refs(self, under: str) -> list[str]:
        """Return the refs under a prefix."""
        base = under.encode("ascii")
        return sorted(name.decode("utf-8") for name in self._repo.refs.allkeys() if name.startswith(base))

    def checked_out(self, name: str) -> bool:
        """Whether a working copy shows this ref."""
        if self._repo.bare:
            return False
        return bool(self._repo.refs.get_symrefs().get(_ref("HEAD")) == _ref(name))

    def _get(self, name: str, kind: str) -> Any:
        if not COMMIT_ID.fullmatch(name):
            return None
        try:
            found = self._repo.object_store[name.encode("ascii")]  # type: ignore[index]
        except (KeyError, OSError, ValueError, AssertionError):
            return None
        return found if found.type_name == kind.encode("ascii") else None

    # --- writing --------------------------------------------------------------------------------------------------

    def write(self, flat: Flat, blobs: Iterable[bytes]) -> str:
        """Write blobs, and the tree of a flat mapping; return the tree's id."""
        from dulwich.objects import Blob, ShaFile

        new: dict[bytes, ShaFile] = {}
        for data in blobs:
            blob = Blob.from_string(data)
            new[blob.id] = blob
        root = _trees(flat, new)
        self._add(new.values())
        return root

    def commit(self, tree: str, parents: Iterable[str], message: str, at: int) -> str:
        """Write a commit by the program itself; return its id. `at` in seconds since 1970."""
        from dulwich.objects import Commit

        found: Any = Commit()
        found.tree = tree.encode("ascii")
        found.parents = [parent.encode("ascii") for parent in parents]
        found.author = found.committer = b"Addendum <addendum@localhost>"
        found.author_time = found.commit_time = at
        found.author_timezone = found.commit_timezone = 0
        found.encoding = b"UTF-8"
        found.message = message.encode("utf-8")
        self._add([found])
        return str(found.id.decode("ascii"))

    def keep(self, name: str, commit: str) -> None:
        """Make a ref that holds a commit for ever; one that is there already stays. Raises `StoreCorrupt`."""
        if not self._repo.refs.add_if_new(_ref(name), commit.encode("ascii")) and self.ref(name) != commit:  # type: ignore[arg-type]
            raise StoreCorrupt(f"The ref {name} points elsewhere.", hint="Keep the repository for a closer look.")

    def move(self, name: str, old: str, new: str) -> bool:
        """Move a ref if it is still at `old` (40 zeros: not there). Return whether it was moved."""
        return bool(self._repo.refs.set_if_equals(_ref(name), old.encode("ascii"), new.encode("ascii")))  # type: ignore[arg-type]

    def _add(self, objects: Iterable[Any]) -> None:
        store = self._repo.object_store
        new = [(each, None) for each in objects if each.id not in store]
        if new:
            store.add_objects(new)


def _ref(name: str) -> Any:
    return name.encode("utf-8")


def _trees(flat: Flat, new: dict[bytes, Any]) -> str:
    """Add the tree objects of a flat mapping to `new`; return the root's id."""
    from dulwich.objects import Tree

    nested: dict[bytes, Any] = {}
    for path, item in flat.items():
        node = nested
        *folders, name = path.split(b"/")
        for folder in folders:
            node = node.setdefault(folder, {})
            if not isinstance(node, dict):
                raise UsageError(f"{path!r} lies below a file.", hint="A path is a file or a folder.")
        if name in node:
            raise UsageError(f"{path!r} is a file and a folder.", hint="A path is a file or a folder.")
        node[name] = item

    def build(node: dict[bytes, Any]) -> bytes:
        tree: Any = Tree()
        for name, child in node.items():
            if isinstance(child, Item):
                tree.add(name, child.mode, child.id.encode("ascii"))
            else:
                tree.add(name, FOLDER, build(child))
        new[tree.id] = tree
        return bytes(tree.id)

    return build(nested).decode("ascii")


def changed(base: Flat, other: Flat) -> Iterator[tuple[bytes, Item | None, Item | None]]:
    """Yield (path, before, after) for every path that differs, in order; renames are not looked for."""
    for path in sorted({*base, *other}):
        before, after = base.get(path), other.get(path)
        if before != after:
            yield path, before, after
