"""A certificate for others: an in-toto statement in a DSSE envelope."""

from __future__ import annotations

import base64
import json
from pathlib import Path

import pytest

from addendum import signing
from addendum.records.certificate import Certificate
from addendum.runs.export import enveloped

FOUND = Certificate(head="ab" * 32, entries=3, records=1, cost=20_000_000)


def test_an_envelope_without_a_key_has_no_signature() -> None:
    """It says what it is about: the run's journal, by the chain's value at its end."""
    envelope = enveloped("story", FOUND, None)

    said = json.loads(base64.b64decode(envelope["payload"]))
    assert envelope["signatures"] == []
    assert said["subject"] == [{"name": "story", "digest": {"sha256": "ab" * 32}}]
    assert said["predicate"]["entries"] == 3


def test_a_signed_envelope_opens_with_the_public_key_and_no_other(tmp_path: Path) -> None:
    """A changed payload, and another key, are bad signatures."""
    pytest.importorskip("securesystemslib")
    key, other = signing.make(tmp_path / "a.pem"), signing.make(tmp_path / "b.pem")

    envelope = enveloped("story", FOUND, str(tmp_path / "a.pem"))

    assert json.loads(signing.opened(envelope, key.public, signing.IN_TOTO))["predicate"]["verdict"] == "ok"
    with pytest.raises(signing.BadSignature):
        signing.opened(envelope, other.public, signing.IN_TOTO)
    changed = json.loads(base64.b64decode(envelope["payload"]))
    changed["predicate"]["cost"] = 0
    envelope["payload"] = base64.b64encode(json.dumps(changed).encode()).decode()
    with pytest.raises(signing.BadSignature):
        signing.opened(envelope, key.public, signing.IN_TOTO)
