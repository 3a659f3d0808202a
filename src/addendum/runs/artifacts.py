"""The files that a run's results refer to: which there are, and whether they are still what they were."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Literal

from addendum.errors import NotFound, StoreCorrupt
from addendum.ports import Artifacts, Store
from addendum.records.certificate import certificate

State = Literal["kept", "missing", "damaged"]


@dataclass(frozen=True, slots=True)
class Named:
    """A file that a result refers to. `seq` is the first record that does; `bytes` is what the record says."""

    reference: str
    media_type: str
    bytes: int
    seq: int
    state: State

    def to_json(self) -> dict[str, Any]:
        """Return it as JSON."""
        return {
            "artifact": self.reference,
            "media_type": self.media_type,
            "bytes": self.bytes,
            "seq": self.seq,
            "state": self.state,
        }


def of_run(store: Store, artifacts: Artifacts, run: str) -> list[Named]:
    """Return what a run's results refer to, in the order of its records, each read and held against its digest.

    Raises `NotFound` for an unknown run, `StoreError` when the store or the folder doesn't answer."""
    store.header(run)
    found = certificate(store.entries(run), store.blob, sites=False).artifacts
    return [
        Named(name, each["media_type"], each["bytes"], each["seq"], _state(artifacts, name))
        for name, each in found.items()
    ]


def _state(artifacts: Artifacts, reference: str) -> State:
    try:
        artifacts.get(reference)
    except NotFound:
        return "missing"
    except StoreCorrupt:
        return "damaged"
    return "kept"
