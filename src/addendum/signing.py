"""Signatures: DSSE envelopes by local Ed25519 keys.

A key is a PEM file that only its owner can read. Who may sign what is said by whoever verifies, by public keys.
"""

from __future__ import annotations

import copy
import importlib
import os
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

from addendum.errors import ConfigError, UsageError

if TYPE_CHECKING:
    from securesystemslib.signer._crypto_signer import CryptoSigner
    from securesystemslib.signer._key import SSlibKey

IN_TOTO = "application/vnd.in-toto+json"


class BadSignature(Exception):
    """An envelope isn't signed by the key it should be, or isn't an envelope."""


class Key:
    """A private key on this machine."""

    def __init__(self, signer: CryptoSigner) -> None:
        self._signer = signer

    @property
    def public(self) -> str:
        """The public key, as 64 hexadecimal digits."""
        return str(self._signer.public_key.keyval["public"])

    def sign(self, payload: bytes, kind: str) -> dict[str, Any]:
        """Return a DSSE envelope around bytes."""
        from securesystemslib.dsse import Envelope

        envelope = Envelope(payload, kind, {})
        envelope.sign(self._signer)
        found: dict[str, Any] = envelope.to_dict()
        return found


def make(path: Path) -> Key:
    """Make a key file. Raises `UsageError` if there is a file, `ConfigError` without the library."""
    signer = _crypto_signer().generate_ed25519()
    path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
    try:
        descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
    except FileExistsError:
        raise UsageError(f"There is a file {path} already.", hint="Name another one.") from None
    with os.fdopen(descriptor, "wb") as file:
        file.write(signer.private_bytes)
    return Key(signer)


def load(path: Path) -> Key:
    """Read a key file. Raises `ConfigError`."""
    kind = _crypto_signer()
    from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
    from cryptography.hazmat.primitives.serialization import load_pem_private_key

    try:
        private = load_pem_private_key(path.read_bytes(), None)
    except (OSError, ValueError, TypeError) as error:
        why = error.strerror if isinstance(error, OSError) else error
        raise ConfigError(f"The key {path} can't be read: {why}.", hint="Make one: `addendum work key FILE`.") from None
    if not isinstance(private, Ed25519PrivateKey):
        raise ConfigError(f"The key {path} is no Ed25519 key.", hint="Make one: `addendum work key FILE`.")
    return Key(kind(private, _public(private.public_key().public_bytes_raw().hex())))


def local(path: Path) -> Key:
    """Return the key in a file, which is made when first used."""
    _crypto_signer()
    try:
        return load(path) if path.exists() else make(path)
    except UsageError:
        return load(path)  # another process was first


def opened(envelope: Mapping[str, Any], public: str, kind: str) -> bytes:
    """Return what a public key signed. Raises `BadSignature`, `ConfigError` without the library."""
    _crypto_signer()
    from securesystemslib.dsse import Envelope
    from securesystemslib.exceptions import FormatError, VerificationError

    try:
        found = Envelope.from_dict(copy.deepcopy(dict(envelope)))
        found.verify([_public(public)], 1)
    except (VerificationError, FormatError, KeyError, ValueError, TypeError, AttributeError) as error:
        raise BadSignature(str(error)) from None
    if found.payload_type != kind:
        raise BadSignature(f"it is a {found.payload_type}")
    payload: bytes = found.payload
    return payload


def _public(public: str) -> SSlibKey:
    from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PublicKey
    from securesystemslib.signer._key import SSlibKey

    return SSlibKey.from_crypto(Ed25519PublicKey.from_public_bytes(bytes.fromhex(public)))


def _crypto_signer() -> type[CryptoSigner]:
    """Return securesystemslib's signer. It can be imported without cryptography, and then fails when it is used."""
    try:
        importlib.import_module("cryptography")
        from securesystemslib.signer._crypto_signer import CryptoSigner
    except ImportError:
        raise ConfigError(
            "Signing needs securesystemslib and cryptography.", hint="Run: pip install 'addendum[work]'"
        ) from None
    return CryptoSigner
