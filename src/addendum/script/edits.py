"""A source as bytes with the offsets of its lines, and edits on it.

AST columns count UTF-8 bytes, so edits do too. Line ends become line feeds, as Python's own reader has them; a
text with other ones would mean something else inside triple quotes on another backend.
"""

from __future__ import annotations

import ast
import bisect
from itertools import accumulate


class Text:
    """A source text as one run of bytes."""

    __slots__ = ("data", "starts")

    def __init__(self, text: str) -> None:
        self.data = text.replace("\r\n", "\n").replace("\r", "\n").encode("utf-8")
        self.starts = list(accumulate([len(line) + 1 for line in self.data.split(b"\n")[:-1]], initial=0))

    def offset(self, line: int, column: int) -> int:
        """Return the offset of an AST position (line from 1, column in bytes from 0)."""
        return self.starts[line - 1] + column

    def line(self, offset: int) -> int:
        """Return the line (from 1) of an offset."""
        return bisect.bisect_right(self.starts, offset)

    def start(self, node: ast.expr | ast.stmt) -> int:
        """Return the offset of a node's first byte."""
        return self.starts[node.lineno - 1] + node.col_offset

    def end(self, node: ast.expr | ast.stmt) -> int:
        """Return the offset behind a node's last byte."""
        assert node.end_lineno is not None
        assert node.end_col_offset is not None
        return self.starts[node.end_lineno - 1] + node.end_col_offset

    def column(self, node: ast.expr | ast.stmt) -> int:
        """Return a node's column in characters, from 1."""
        start = self.starts[node.lineno - 1]
        return len(self.data[start : start + node.col_offset].decode("utf-8", "replace")) + 1

    def excerpt(self, node: ast.expr, limit: int) -> str:
        """Return a node's source on one line, cut at `limit` characters."""
        text = self.data[self.start(node) : self.end(node)].decode("utf-8", "replace")
        if "\n" in text:
            if "#" in text:
                text = ast.unparse(node)  # a comment would hide the rest of the line
            text = " ".join([line.removesuffix("\\").strip() for line in text.split("\n")])
        return text if len(text) <= limit else text[: limit - 1] + "…"


class Edits:
    """Insertions and replacements, applied in one go. At one offset the earlier one stands first."""

    __slots__ = ("_edits", "_lines", "text")

    def __init__(self, text: Text) -> None:
        self.text = text
        self._edits: list[tuple[int, int, int, str]] = []
        self._lines: dict[int, int] = {}

    def insert(self, offset: int, added: str, *, instead_of: int = 0) -> None:
        """Insert text at an offset, instead of that many bytes. A new line needs `insert_line`."""
        self._edits.append((offset, len(self._edits), instead_of, added))

    def insert_line(self, line: int, lead: bytes, added: str) -> None:
        """Insert a line before a line (from 1), behind a lead: its indentation."""
        text = f"{lead.decode('utf-8')}{added}\n"
        self._lines[line] = self._lines.get(line, 0) + text.count("\n")
        self.insert(self.text.starts[line - 1], text)

    def apply(self, tail: list[str]) -> tuple[str, tuple[int, ...]]:
        """Return the text with all edits and the lines of `tail` behind it, and for each of its lines the source
        line that it stands for."""
        data = self.text.data
        parts: list[str] = []
        at = 0
        # What is inserted where a replacement begins stands before it.
        for offset, _, instead_of, added in sorted(self._edits, key=lambda edit: (edit[0], edit[2] > 0, edit[1])):
            parts.append(data[at:offset].decode("utf-8"))
            parts.append(added)
            at = offset + instead_of
        parts.append(data[at:].decode("utf-8"))
        last = len(self.text.starts)
        lines: list[int] = []
        for line in range(1, last + 1):
            lines += [line] * (1 + self._lines.get(line, 0))
        if tail:
            if data and not data.endswith(b"\n"):
                parts.append("\n")
                lines.append(last)
            parts += [f"{line}\n" for line in tail]
            lines += [last] * len(tail)
        return "".join(parts), tuple(lines)
