"""An entry of a run's journal, as it is appended and as the store keeps it."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final, NamedTuple

from addendum.canon import Digest

ENVELOPE: Final = 8
"""How many levels an entry's own structure may add around a payload or a result that is as deep as it may be."""


class Entry(NamedTuple):
    """What is to be appended to a run's journal: a kind and a JSON object. `data` are the body's canonical bytes, if
    whoever made the entry has them already."""

    kind: str
    body: Mapping[str, Any]
    data: bytes | None = None


class Stored(NamedTuple):
    """An entry as the store keeps it: `seq` counts from 1 without a gap in its run, `chain` is the hash chain's
    value at this entry: SHA-256 over the previous entry's chain (64 hex digits; "" before the first), a newline, the
    kind, a newline, and the canonical bytes of the body."""

    seq: int
    kind: str
    body: Mapping[str, Any]
    chain: Digest
