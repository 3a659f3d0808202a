"""Whether Python 3.11 reads an f-string that a later version read (part of R00; PEP 701 lifted these limits).

Up to 3.11 an f-string is first cut out like any other string: it ends at its own quote, whatever stands in braces, and
a single-quoted one ends with the line. Its expressions have no backslash and no comment.
"""

from __future__ import annotations

import re
from typing import Final

_STRING: Final = re.compile(
    r"(?P<prefix>[A-Za-z]{0,2})(?:\"\"\"(?P<d3>(?:[^\\\"]|\\.|\"(?!\"\"))*)\"\"\"|'''(?P<s3>(?:[^\\']|\\.|'(?!''))*)'''"
    r"|\"(?P<d1>(?:[^\"\\\n]|\\.)*)\"|'(?P<s1>(?:[^'\\\n]|\\.)*)')",
    re.DOTALL,
)
_BETWEEN: Final = re.compile(r"(?:\s|\\\n|#[^\n]*)*", re.DOTALL)


def reads(segment: str) -> bool:
    """Whether 3.11 reads the source of an f-string, or of several strings side by side, as later versions do."""
    at = 0
    while at < len(segment):
        match = _STRING.match(segment, at)
        if match is None:
            return False
        body = next(part for part in match.group("d3", "s3", "d1", "s1") if part is not None)
        if "f" in match["prefix"].lower() and not _fields(body, "r" in match["prefix"].lower()):
            return False
        between = _BETWEEN.match(segment, match.end())
        at = between.end() if between is not None else match.end()
    return True


def _fields(body: str, raw: bool) -> bool:
    """Whether the replacement fields of a string's body end within it, and hold no backslash and no comment."""
    at = 0
    while at < len(body):
        if body.startswith(("{{", "}}"), at):
            at += 2
        elif body[at] == "{":
            end = _field(body, at + 1)
            if end is None:
                return False
            at = end
        elif body[at] == "\\" and not raw:
            # `\N{...}` is a character and no field.
            at = body.find("}", at) + 1 if body.startswith("\\N{", at) and "}" in body[at:] else at + 2
        else:
            at += 1
    return True


def _field(body: str, at: int) -> int | None:
    """The place behind a replacement field that begins at `at`; None if 3.11 doesn't read it."""
    depth = 0
    while at < len(body):
        char = body[at]
        if char in "\\#":
            return None
        if char in "\"'":
            quote = body[at : at + 3] if body.startswith(char * 3, at) else char
            end = body.find(quote, at + len(quote))
            if end < 0 or "\\" in body[at:end]:
                return None
            at = end + len(quote)
            continue
        if char in "([{":
            depth += 1
        elif char in ")]" or (char == "}" and depth):
            depth -= 1
        elif char == "}":
            return at + 1
        elif char == ":" and not depth:
            return _spec(body, at + 1)
        at += 1
    return None


def _spec(body: str, at: int) -> int | None:
    """The place behind the field whose format specification begins at `at`."""
    while at < len(body):
        if body[at] == "}":
            return at + 1
        if body[at] == "{":
            end = _field(body, at + 1)
            if end is None:
                return None
            at = end
        else:
            at += 1
    return None
