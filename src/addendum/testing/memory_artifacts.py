"""Artifacts that end with the process, and that can be made to fail."""

from __future__ import annotations

from addendum.canon import Json, sha256
from addendum.errors import NotFound, StoreCorrupt, StoreUnavailable


class MemoryArtifacts:
    """The `Artifacts` port in memory. `full` lets it take nothing more; `kept` are the bytes by reference."""

    def __init__(self) -> None:
        self.kept: dict[str, bytes] = {}
        self.full = False

    def ready(self, room: int) -> None:
        """Raise `StoreUnavailable` when it is full."""
        if self.full:
            raise StoreUnavailable("The artifact store has no room.", hint="Make room and go on.")

    def put(self, data: bytes, media_type: str) -> dict[str, Json]:
        """Keep bytes. Raises `StoreUnavailable` when it is full."""
        self.ready(len(data))
        reference = f"sha256:{sha256(data)}"
        self.kept[reference] = bytes(data)
        return {"artifact": reference, "media_type": media_type, "bytes": len(data)}

    def get(self, reference: str) -> bytes:
        """Return the bytes. Raises `NotFound`, and `StoreCorrupt` when somebody changed them."""
        if reference not in self.kept:
            raise NotFound(f"There is no artifact {reference}.", hint="It was never kept here.")
        data = self.kept[reference]
        if f"sha256:{sha256(data)}" != reference:
            raise StoreCorrupt(f"The artifact {reference} has other bytes than were kept.", hint="Restore it.")
        return data
