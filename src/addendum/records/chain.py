"""The hash chain over a run's journal: what makes a changed, lost or swapped entry visible (DESIGN section 4)."""

from __future__ import annotations

import hashlib
from typing import Final

from addendum.canon import Digest

START: Final[Digest] = ""
"""The chain's value before the first entry."""


def chain(previous: Digest, kind: str, body: bytes) -> Digest:
    """Return the chain's value at an entry whose body has these canonical bytes.

    SHA-256 over the previous value, a newline, the kind, a newline, and the body. Canonical JSON has no raw newline,
    so the last newline always ends the kind: no two entries have the same text.
    """
    return hashlib.sha256(f"{previous}\n{kind}\n".encode() + body).hexdigest()
