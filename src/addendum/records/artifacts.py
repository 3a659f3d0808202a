"""References to artifacts: what a result says of a file that is kept beside the store, by the SHA-256 of its bytes.

    {"artifact": "sha256:…", "media_type": "image/png", "bytes": 51200}

They are ordinary values of a result, so a replay serves the same ones; the file's own bytes are held against them.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Final

from addendum.canon import Digest, Json

PREFIX: Final = "sha256:"
MARK: Final = b'"artifact":"sha256:'
"""Stands in the canonical JSON of every value that has a reference."""
_DIGEST: Final = re.compile(r"[0-9a-f]{64}")


def digest_of(reference: str) -> Digest | None:
    """Return the digest of a reference, None for what is none."""
    digest = reference.removeprefix(PREFIX)
    return digest if reference.startswith(PREFIX) and _DIGEST.fullmatch(digest) else None


def named(value: Json) -> Iterator[dict[str, Json]]:
    """Yield every reference that stands in a JSON value, in its order: `artifact`, and `media_type` and `bytes` as far
    as they are said."""
    if isinstance(value, dict):
        found = value.get("artifact")
        if isinstance(found, str) and digest_of(found) is not None:
            kind, size = value.get("media_type"), value.get("bytes")
            yield {
                "artifact": found,
                "media_type": kind if isinstance(kind, str) else "",
                "bytes": size if isinstance(size, int) and not isinstance(size, bool) else 0,
            }
        for each in value.values():
            yield from named(each)
    elif isinstance(value, list | tuple):
        for each in value:
            yield from named(each)
