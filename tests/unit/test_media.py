"""What bytes are, by the bytes alone."""

from __future__ import annotations

import struct

import pytest
from hypothesis import given
from hypothesis import strategies as st

from addendum import media
from addendum.testing.openai_answers import picture

GIF = b"GIF89a" + struct.pack("<HH", 7, 9) + b"\0\0\0"
JPEG = (
    b"\xff\xd8"
    + b"\xff\xe0\x00\x10JFIF\0\x01\x01\0\0\x01\0\x01\0\0"  # a segment that is gone over
    + b"\xff\xff\xc0\x00\x0b\x08"  # a fill byte, then the frame header
    + struct.pack(">HH", 11, 13)
    + b"\x01\x01\x11\0"
)
WEBP_LOSSLESS = b"RIFF\0\0\0\0WEBPVP8L\0\0\0\0\x2f" + (4 | 5 << 14).to_bytes(4, "little")
WEBP_LOSSY = b"RIFF\0\0\0\0WEBPVP8 \0\0\0\0" + b"\0" * 6 + struct.pack("<HH", 21, 22)
WEBP_EXTENDED = b"RIFF\0\0\0\0WEBPVP8X\0\0\0\0" + b"\0" * 4 + (30).to_bytes(3, "little") + (31).to_bytes(3, "little")


@pytest.mark.parametrize(
    ("data", "kind", "size"),
    [
        (picture("a"), "image/png", (8, 8)),
        (GIF, "image/gif", (7, 9)),
        (JPEG, "image/jpeg", (13, 11)),
        (WEBP_LOSSLESS, "image/webp", (5, 6)),
        (WEBP_LOSSY, "image/webp", (21, 22)),
        (WEBP_EXTENDED, "image/webp", (31, 32)),
        (b"%PDF-1.7", "application/pdf", None),
        (b"ein Text", "text/plain", None),
        ("ein Text mit ä".encode()[:-1], "text/plain", None),
        (b"<svg onload='alert(1)'/>", "text/plain", None),
        (b"<!doctype html>", "text/plain", None),
        (b"\x00\x01", media.UNKNOWN, None),
        (b"\xfe\xfe", media.UNKNOWN, None),
        (b"", "text/plain", None),
        (b"\x89PNG\r\n\x1a\n", "image/png", None),
        (b"\xff\xd8\xff\xe0\x00\x00", "image/jpeg", None),
    ],
)
def test_type_and_size(data: bytes, kind: str, size: tuple[int, int] | None) -> None:
    """A type is read from the beginning, a size from the header; a page or a drawing with scripts is no image."""
    assert media.kind(data) == kind
    assert media.dimensions(data) == size


@given(st.sampled_from([picture("a"), GIF, JPEG, WEBP_LOSSLESS, WEBP_LOSSY, WEBP_EXTENDED]), st.data())
def test_a_damaged_header_has_no_size_or_another_one(data: bytes, chance: st.DataObject) -> None:
    """Whatever the bytes are, the answer is a size or none, and comes at once."""
    at = chance.draw(st.integers(0, len(data) - 1))
    broken = (
        data[:at] + bytes([chance.draw(st.integers(0, 255))]) + data[at + 1 : chance.draw(st.integers(at, len(data)))]
    )
    found = media.dimensions(broken)
    assert found is None or (found[0] > 0 and found[1] > 0)
