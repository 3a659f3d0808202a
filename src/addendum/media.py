"""What bytes are: the media type and the size of images, read from the bytes themselves.

A server's word on a type is a claim; a page of HTML that says that it is an image isn't one. Nothing is decoded here:
only headers are read, each within its bounds.
"""

from __future__ import annotations

import codecs
import struct
from typing import Final

UNKNOWN: Final = "application/octet-stream"
IMAGES: Final = ("image/png", "image/jpeg", "image/webp", "image/gif")
"""What counts as an image. No SVG: it is a program."""
_FRAMES: Final = frozenset(range(0xC0, 0xD0)) - {0xC4, 0xC8, 0xCC}
"""Markers of a JPEG's frame header (ITU-T T.81, table B.1)."""


def kind(data: bytes) -> str:
    """Return the media type of bytes by how they begin, `application/octet-stream` if nothing is known of it."""
    if data.startswith(b"\x89PNG\r\n\x1a\n"):
        return "image/png"
    if data.startswith(b"\xff\xd8\xff"):
        return "image/jpeg"
    if data[:4] == b"RIFF" and data[8:12] == b"WEBP":
        return "image/webp"
    if data[:6] in (b"GIF87a", b"GIF89a"):
        return "image/gif"
    if data.startswith(b"%PDF-"):
        return "application/pdf"
    if b"\0" in data:
        return UNKNOWN
    try:
        codecs.getincrementaldecoder("utf-8")().decode(data)  # what is only the beginning of a text is one, too
    except UnicodeDecodeError:
        return UNKNOWN
    return "text/plain"


def dimensions(data: bytes) -> tuple[int, int] | None:
    """Return an image's width and height in pixels, None if its header doesn't say."""
    try:
        match kind(data):
            case "image/png":
                width, height = struct.unpack(">II", data[16:24])
            case "image/gif":
                width, height = struct.unpack("<HH", data[6:10])
            case "image/webp":
                width, height = _webp(data)
            case "image/jpeg":
                width, height = _jpeg(data)
            case _:
                return None
    except (struct.error, ValueError):
        return None
    return (width, height) if width and height else None


def _webp(data: bytes) -> tuple[int, int]:
    """Read the first chunk of a WebP file (RFC 9649)."""
    match data[12:16]:
        case b"VP8X":
            return 1 + int.from_bytes(data[24:27], "little"), 1 + int.from_bytes(data[27:30], "little")
        case b"VP8L":
            bits = int.from_bytes(data[21:25], "little")
            return 1 + (bits & 0x3FFF), 1 + (bits >> 14 & 0x3FFF)
        case b"VP8 ":
            width, height = struct.unpack("<HH", data[26:30])
            return width & 0x3FFF, height & 0x3FFF
        case other:
            raise ValueError(other)


def _jpeg(data: bytes) -> tuple[int, int]:
    """Go from marker to marker to the frame header."""
    at = 2
    while at + 4 <= len(data):
        marker, code = data[at], data[at + 1]
        if marker != 0xFF:
            raise ValueError(marker)
        if code == 0xFF:  # a fill byte
            at += 1
            continue
        if code in _FRAMES:
            height, width = struct.unpack(">HH", data[at + 5 : at + 9])
            return width, height
        if code == 0x01 or 0xD0 <= code <= 0xD8:  # markers without a length
            at += 2
            continue
        (length,) = struct.unpack(">H", data[at + 2 : at + 4])
        if length < 2:
            raise ValueError(length)
        at += 2 + length
    raise ValueError("no frame")
