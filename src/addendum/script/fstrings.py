"""Where the expressions of an f-string stand in the source.

Python 3.11 gives nodes inside an f-string wrong columns (and wrong lines in triple quotes); 3.12 gives right
ones. So the replacement fields are found here by reading the literal, each is parsed alone, and the places are
copied to the nodes of the tree, on every version.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Final

from addendum.errors import UsageError
from addendum.script.edits import Text

_GAP: Final = re.compile(rb"(?:[ \t\f\n]|\\\n|#[^\n]*\n)*")
_OPENING: Final = re.compile(rb"([rRbBuUfF]{0,2})(\"\"\"|'''|\"|')")
_WORD: Final = re.compile(rb"[\w\x80-\xff]+")
_PLACES: Final = ("lineno", "col_offset", "end_lineno", "end_col_offset")


@dataclass(frozen=True, slots=True)
class Field:
    """A replacement field: offsets of its `{`, of the end of its expression, and of what follows it.

    With a `=` behind the expression, `end` is the offset of that `=` and `follows` that of the `!`, `:` or `}`
    behind it; without one the two are the same.
    """

    brace: int
    end: int
    follows: int

    @property
    def shows(self) -> bool:
        """Whether the field shows the text of its expression (`=`)."""
        return self.end != self.follows


def locate(node: ast.JoinedStr, text: Text) -> list[Field]:
    """Correct the places of all nodes in an f-string, in place; return its fields and those of inner f-strings.

    Raises `UsageError` for a literal that it reads otherwise than Python's parser did.
    """
    fields = _Reader(text.data).literals(text.start(node), text.end(node))
    values = list(_values(node))
    if len(fields) != len(values):
        raise UsageError(f"The f-string in line {node.lineno} can't be read.", hint="Name its parts before it.")
    found = list(fields)
    for field, value in zip(fields, values, strict=True):
        _copy(value, field, text)
        for inner in _inner(value):
            found += locate(inner, text)
    return found


def _values(node: ast.JoinedStr) -> Iterator[ast.expr]:
    """Yield the expressions of an f-string as they stand, those of a format's own fields behind its value."""
    for part in node.values:
        if isinstance(part, ast.FormattedValue):
            yield part.value
            if isinstance(part.format_spec, ast.JoinedStr):
                yield from _values(part.format_spec)


def _inner(node: ast.expr) -> Iterator[ast.JoinedStr]:
    """Yield the outermost f-strings in an expression."""
    stack: list[ast.AST] = [node]
    while stack:
        item = stack.pop()
        if isinstance(item, ast.JoinedStr):
            yield item
        else:
            stack += ast.iter_child_nodes(item)


def _copy(value: ast.expr, field: Field, text: Text) -> None:
    """Parse a field's expression alone and give its places to the nodes of the tree."""
    start = field.brace + 1
    source = text.data[start : field.end].decode("utf-8")
    parsed = ast.parse(f"({source}\n)", mode="eval", feature_version=(3, 11)).body
    line = text.line(start)
    shift = start - text.starts[line - 1] - 1
    for old, new in zip(ast.walk(value), ast.walk(parsed), strict=True):
        if not isinstance(new, ast.expr | ast.keyword | ast.arg | ast.pattern):
            continue
        for name in _PLACES:
            at = getattr(new, name)
            if name.endswith("lineno"):
                setattr(old, name, at + line - 1)
            else:
                first = getattr(new, "end_lineno" if name.startswith("end") else "lineno") == 1
                setattr(old, name, at + shift if first else at)


class _Reader:
    """Reads string literals as the tokenizer does, far enough to find the fields of f-strings."""

    def __init__(self, data: bytes) -> None:
        self.data = data
        self.at = 0
        self.fields: list[Field] = []

    def literals(self, start: int, end: int) -> list[Field]:
        """Return the fields of the literals, implicitly concatenated, between two offsets."""
        self.at = start
        while self.at < end:
            self._string()
            gap = _GAP.match(self.data, self.at)
            self.at = gap.end() if gap else self.at
        return self.fields

    def _string(self) -> None:
        opening = _OPENING.match(self.data, self.at)
        if opening is None:
            raise UsageError("An f-string can't be read.", hint="Name its parts before it.")
        prefix, quote = opening[1].lower(), opening[2]
        self.at = opening.end()
        while not self.data.startswith(quote, self.at):
            self._piece(b"f" in prefix, b"r" in prefix, in_format=False)
        self.at += len(quote)

    def _piece(self, formatted: bool, raw: bool, *, in_format: bool) -> None:
        """Pass one character of a literal, an escape, a doubled brace, or a whole field."""
        data, at = self.data, self.at
        two = data[at : at + 2]
        if not two:
            raise UsageError("An f-string can't be read.", hint="Name its parts before it.")
        if two[:1] == b"\\":
            if formatted and not raw and data[at + 1 : at + 3] == b"N{":
                self.at = data.index(b"}", at) + 1
            else:  # a brace behind a backslash still opens a field
                self.at += 1 if formatted and two[1:] in (b"{", b"}") else 2
        elif formatted and two[:1] == b"{" and (in_format or two != b"{{"):
            self._field()
        elif formatted and not in_format and two in (b"{{", b"}}"):
            self.at += 2
        else:
            self.at += 1

    def _field(self) -> None:
        data, brace = self.data, self.at
        self.at += 1
        self._expression()
        end = self.at
        if data[end : end + 1] == b"=":
            self.at += 1
            while data[self.at : self.at + 1].isspace():
                self.at += 1
        self.fields.append(Field(brace, end, self.at))
        while data[self.at : self.at + 1] not in (b":", b"}"):
            self.at += 1  # the conversion
        if data[self.at : self.at + 1] == b":":
            self.at += 1
            while data[self.at : self.at + 1] != b"}":
                self._piece(True, False, in_format=True)
        self.at += 1

    def _expression(self) -> None:
        """Pass an expression; stops at the `=`, `!`, `:` or `}` that ends it."""
        data = self.data
        depth = 0
        while True:
            char, two = data[self.at : self.at + 1], data[self.at : self.at + 2]
            word = _WORD.match(data, self.at)
            if _OPENING.match(data, self.at):
                kept = len(self.fields)
                self._string()
                del self.fields[kept:]  # an inner f-string is located by itself
            elif word:
                self.at = word.end()
            elif char == b"#":
                self.at = data.index(b"\n", self.at)
            elif depth == 0 and two in (b"==", b"!=", b"<=", b">="):
                self.at += 2
            elif depth == 0 and char in (b"=", b"!", b":", b"}"):
                return
            elif not char:
                raise UsageError("An f-string can't be read.", hint="Name its parts before it.")
            else:
                depth += (char in (b"(", b"[", b"{")) - (char in (b")", b"]", b"}"))
                self.at += 1
