"""The workspace as capabilities, for slices that a workflow script executes: read, list, write and delete files.

Nothing is on disk: what a script wrote is what its run's records say, so a retried slice gets the same files back and
pays for nothing twice. What its slice doesn't grant is refused at the call; the gate judges it all the same.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, Final

from addendum.authority.catalog import Capability, Catalog
from addendum.broker.journal import Journal
from addendum.canon import Json
from addendum.errors import CapabilityError
from addendum.ports import Provider, Reply, Request, Store
from addendum.records import entries
from addendum.work.objects import Flat
from addendum.work.paths import fault, folders, granted, shown
from addendum.work.scope import Scope

MAX_TEXT: Final = 1_000_000


def _schema(**properties: Json) -> dict[str, Json]:
    return {"type": "object", "properties": properties, "required": [*properties], "additionalProperties": False}


_PATH: Final[dict[str, Json]] = {"type": "string", "maxLength": 4096}
_TEXT: Final[dict[str, Json]] = {"type": "string", "maxLength": MAX_TEXT}
READ, LIST, WRITE, DELETE = "workspace.read", "workspace.list", "workspace.write", "workspace.delete"
CAPABILITIES: Final = (
    Capability(name=READ, effect="read", input=_schema(path=_PATH), about="Read a file of the workspace."),
    Capability(
        name=LIST, effect="read", input=_schema(under=_PATH), about="List the workspace's files under a folder."
    ),
    Capability(
        name=WRITE, effect="idempotent", input=_schema(path=_PATH, text=_TEXT), about="Write a file of the workspace."
    ),
    Capability(name=DELETE, effect="idempotent", input=_schema(path=_PATH), about="Delete a file of the workspace."),
)
NAMES: Final = frozenset(each.name for each in CAPABILITIES)


def with_files(catalog: Catalog) -> Catalog:
    """Return a catalog with the workspace's capabilities beside its own."""
    return Catalog([*catalog.values(), *(each for each in CAPABILITIES if each.name not in catalog)])


class Files:
    """The `Provider` port for the workspace's capabilities; what else is asked for goes to `rest`."""

    def __init__(self, flat: Flat, read: Callable[[str], bytes], scope: Scope, rest: Provider) -> None:
        self._flat = flat
        self._read = read
        self._scope = scope
        self._rest = rest
        self.changes: dict[bytes, bytes | None] = {}

    async def dispatch(self, request: Request) -> Reply:
        """Do the work."""
        if request.capability not in NAMES:
            return await self._rest.dispatch(request)
        payload = request.payload
        assert isinstance(payload, dict)  # the input schema says so
        if request.capability == LIST:
            return Reply({"files": self._list(str(payload["under"]))})
        path = str(payload["path"]).encode("utf-8")
        if request.capability == READ:
            return Reply({"text": self._text(path)})
        self._allowed(path, delete=request.capability == DELETE)
        self.changes[path] = None if request.capability == DELETE else str(payload["text"]).encode("utf-8")
        return Reply({"path": shown(path)})

    async def lookup(self, capability: str, key: str) -> Reply | None:
        """Return what became of an earlier dispatch; a file's can be done again."""
        return None if capability in NAMES else await self._rest.lookup(capability, key)

    def _there(self, path: bytes) -> bool:
        if path in self.changes:
            return self.changes[path] is not None
        return path in self._flat and self._flat[path].kind == "file"

    def _list(self, under: str) -> list[Json]:
        prefix = under.strip("/").encode("utf-8")
        start = prefix + b"/" if prefix else b""
        return [
            shown(path) for path in sorted({*self._flat, *self.changes}) if path.startswith(start) and self._there(path)
        ]

    def _text(self, path: bytes) -> str:
        if not self._there(path):
            raise CapabilityError("invalid_input", f"There is no file {shown(path)}.")
        data = self.changes.get(path)
        try:
            return (self._read(self._flat[path].id) if data is None else data).decode("utf-8")
        except UnicodeDecodeError:
            raise CapabilityError("invalid_input", f"{shown(path)} is no UTF-8 text.") from None

    def _allowed(self, path: bytes, *, delete: bool) -> None:
        wrong = fault(path)
        if wrong is not None:
            raise CapabilityError("invalid_input", f"{shown(path)} can't be: {wrong[1]}.")
        verb = "delete" if delete else "modify" if path in self._flat else "create"
        if granted(self._scope.protected, path) or not granted(self._scope.edits.get(verb, ()), path):
            raise CapabilityError("refused", f"This slice may not {verb} {shown(path)}.")
        if delete and not self._there(path):
            raise CapabilityError("invalid_input", f"There is no file {shown(path)}.")
        if not delete:
            self._free(path)

    def _free(self, path: bytes) -> None:
        """Refuse to write below a file, and in a folder's place."""
        above, below = {*folders(path)}, path + b"/"
        for other in {*self._flat, *self.changes}:
            there = self.changes.get(other, b"") is not None
            if there and (other in above or other.startswith(below)):
                raise CapabilityError("invalid_input", f"{shown(other)} is in the way of {shown(path)}.")


def written(store: Store, run: str, without: frozenset[str] = frozenset()) -> dict[bytes, bytes | None]:
    """Return what a run's records say about files, in their order. `without` are identities that don't count: calls of
    an earlier source that the present one doesn't make."""
    journal = Journal(store, run)
    history = journal.read()
    attempts: dict[int, Mapping[str, Any]] = {
        stored.seq: stored.body for stored in store.entries(run) if stored.kind == "attempt"
    }
    found: dict[bytes, bytes | None] = {}
    for record in sorted(history.prefix.values(), key=lambda each: each.seq):
        if record.capability not in (WRITE, DELETE) or not record.ok or record.identity in without:
            continue
        payload = journal.value(entries.ref(attempts[record.attempt]["payload"]))
        assert isinstance(payload, dict)
        path = str(payload["path"]).encode("utf-8")
        found.pop(path, None)
        found[path] = None if record.capability == DELETE else str(payload["text"]).encode("utf-8")
    return found
