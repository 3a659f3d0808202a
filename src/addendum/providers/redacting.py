"""Artifacts without secrets: a service that echoes its key can't put it into a file either."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from addendum.canon import Json
from addendum.ports import Artifacts


@dataclass(frozen=True, slots=True)
class RedactedArtifacts:
    """The `Artifacts` port over another one: what is put there is redacted first."""

    rest: Artifacts
    redact: Callable[[bytes], bytes]

    def ready(self, room: int) -> None:
        """Check that there is room."""
        self.rest.ready(room)

    def put(self, data: bytes, media_type: str) -> dict[str, Json]:
        """Keep bytes without the secrets in them."""
        return self.rest.put(self.redact(data), media_type)

    def get(self, reference: str) -> bytes:
        """Return the bytes."""
        return self.rest.get(reference)
