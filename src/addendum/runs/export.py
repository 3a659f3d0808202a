"""A run's certificate for others: an in-toto statement in a DSSE envelope (DESIGN section 4)."""

from __future__ import annotations

import base64
from pathlib import Path
from typing import Any

from addendum import canon, signing
from addendum.records.certificate import Certificate, statement


def enveloped(run: str, found: Certificate, key: str | None) -> dict[str, Any]:
    """Return a DSSE envelope around a certificate's statement, without signatures if no key is named.

    Raises `UsageError` for a key that can't be read, `ConfigError` without the signing library.
    """
    payload = canon.canonical(statement(run, found))
    if key is not None:
        return signing.load(Path(key)).sign(payload, signing.IN_TOTO)
    return {"payload": base64.b64encode(payload).decode(), "payloadType": signing.IN_TOTO, "signatures": []}
