"""Text of others on a terminal: no script, provider or model may move the cursor or hide what it says."""

from __future__ import annotations

import re
from typing import Final

# C0 but for newline and tab, DEL, C1, line and paragraph separators, and what turns the direction of text.
_CONTROL: Final = re.compile(
    "[\x00-\x08\x0b-\x1f\x7f-\x9f\u061c\u200b\u200e\u200f\u2028-\u202e\u2060-\u2069\ufeff]|[\ud800-\udfff]"
)


def printable(text: str) -> str:
    """Return a text with every control character written out, as in `\\x1b`; newlines and tabs stay."""
    return _CONTROL.sub(lambda found: found[0].encode("unicode_escape").decode("ascii"), text.replace("\r\n", "\n"))


def escaped(text: str) -> str:
    """Return JSON text in which these characters are escapes: the same value, and nothing that a terminal obeys."""
    return _CONTROL.sub(lambda found: f"\\u{ord(found[0]):04x}", text)


def line(text: str, width: int = 0) -> str:
    """Return a text as one printable line; cut in the middle to `width` characters if that is given."""
    flat = " ".join(printable(text).split())
    if not width or len(flat) <= width:
        return flat
    head = (width - 1) // 2
    return f"{flat[:head]}…{flat[len(flat) - (width - 1 - head) :]}"
