"""The workspace as capabilities: what a script wrote is a tree, as on a disk."""

from __future__ import annotations

import asyncio

import pytest

from addendum.errors import CapabilityError
from addendum.ports import Request
from addendum.testing import ScriptedProvider
from addendum.work.files import Files
from addendum.work.objects import FILE, Item, blob_id
from addendum.work.scope import Scope

EVERY = Scope(edits=dict.fromkeys(("create", "modify", "delete"), ("**",)))


def files() -> Files:
    """A workspace with two files."""
    flat = {path: Item(FILE, blob_id(b"x")) for path in (b"docs/a.md", b"plain")}
    return Files(flat, lambda _: b"x", EVERY, ScriptedProvider({}))


def do(there: Files, capability: str, **payload: str) -> None:
    """Call a capability of the workspace."""
    name = f"workspace.{capability}"
    request = Request(capability=name, payload=dict(payload), key="k", run="r", identity="i", attempt=1)
    asyncio.run(there.dispatch(request))


@pytest.mark.parametrize("path", ["plain/x", "docs", "docs/a.md/b/c"])
def test_nothing_is_written_below_a_file_or_in_a_folders_place(path: str) -> None:
    """The call is refused, and the script may catch it: no tree could hold both."""
    there = files()
    with pytest.raises(CapabilityError, match="in the way of") as caught:
        do(there, "write", path=path, text="y")
    assert (caught.value.code, there.changes) == ("invalid_input", {})


def test_what_was_deleted_is_in_nobodys_way() -> None:
    """A file can take the place of a folder whose files are gone, and the other way round."""
    there = files()
    do(there, "delete", path="plain")
    do(there, "write", path="plain/x", text="y")
    do(there, "delete", path="docs/a.md")
    do(there, "write", path="docs", text="y")
    with pytest.raises(CapabilityError, match="plain/x is in the way of plain"):
        do(there, "write", path="plain", text="y")
    assert there.changes == {b"plain": None, b"plain/x": b"y", b"docs/a.md": None, b"docs": b"y"}
