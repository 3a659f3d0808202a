"""Envelopes that are what was signed, and by whom."""

from __future__ import annotations

import copy
import os
import sys
from pathlib import Path

import pytest

from addendum import signing
from addendum.errors import ConfigError, UsageError
from addendum.signing import IN_TOTO, BadSignature


def test_what_was_signed_comes_out_again(tmp_path: Path) -> None:
    """The payload is opened with the public key, and with no other."""
    mine, other = signing.make(tmp_path / "a.pem"), signing.make(tmp_path / "b.pem")
    envelope = mine.sign(b'{"x":1}', IN_TOTO)
    assert signing.opened(envelope, mine.public, IN_TOTO) == b'{"x":1}'
    with pytest.raises(BadSignature):
        signing.opened(envelope, other.public, IN_TOTO)
    with pytest.raises(BadSignature):
        signing.opened(envelope, mine.public, "application/other")


@pytest.mark.parametrize("field", ["payload", "payloadType", "signatures"])
def test_a_changed_envelope_does_not_open(tmp_path: Path, field: str) -> None:
    """A changed payload, type or signature, a missing part and nonsense are all no signature."""
    key = signing.make(tmp_path / "a.pem")
    envelope = key.sign(b"text", IN_TOTO)
    changed = copy.deepcopy(envelope)
    if field == "signatures":
        changed[field][0]["sig"] = "AAAA" + changed[field][0]["sig"][4:]
    else:
        changed[field] = "AAAA" + changed[field][4:]
    without = {name: value for name, value in envelope.items() if name != field}
    for bad in (changed, without, {}, {**envelope, "signatures": []}, {**envelope, "signatures": None}):
        with pytest.raises(BadSignature):
            signing.opened(bad, key.public, IN_TOTO)


def test_a_key_is_for_its_owner_only_and_made_once(tmp_path: Path) -> None:
    """The file can be read by its owner only, is the same key when read again, and is never written over."""
    path = tmp_path / "keys" / "runner.pem"
    key = signing.local(path)
    assert os.stat(path).st_mode & 0o777 == 0o600
    assert signing.local(path).public == key.public
    with pytest.raises(UsageError):
        signing.make(path)


def test_what_is_no_key_is_an_error(tmp_path: Path) -> None:
    """A file with something else in it, and one that isn't there, are named."""
    (tmp_path / "x.pem").write_text("no key")
    for name in ("x.pem", "y.pem"):
        with pytest.raises(ConfigError, match=name):
            signing.load(tmp_path / name)


def test_without_its_library_signing_says_what_to_install(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """securesystemslib alone can be imported and can't sign: each way to use a key names the extra that has both."""
    path = tmp_path / "a.pem"
    envelope = signing.make(path).sign(b"text", IN_TOTO)
    public = signing.load(path).public
    monkeypatch.setitem(sys.modules, "cryptography", None)
    for use in (
        lambda: signing.make(tmp_path / "b.pem"),
        lambda: signing.load(path),
        lambda: signing.local(path),
        lambda: signing.opened(envelope, public, IN_TOTO),
    ):
        with pytest.raises(ConfigError, match="cryptography") as caught:
            use()
        assert "addendum[work]" in caught.value.hint
