"""What a rule looks at: one script, its names and its bounds; and how it words a violation."""

from __future__ import annotations

import ast
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any, Final, TypeVar

from addendum.script.bounds import Bounds
from addendum.script.report import Severity, Violation
from addendum.script.scope import Scope
from addendum.script.source import Limits, Source

SHOWN: Final = 60
"""How many characters of an expression a message quotes."""

Node = TypeVar("Node", bound=ast.AST)


@dataclass(frozen=True, slots=True)
class Subject:
    """A script under check. `granted` are the capabilities of the grant, None when there is none to compare with;
    `inputs` the JSON Schemas of payloads by capability, as far as they are known."""

    source: Source
    scope: Scope
    bounds: Bounds
    limits: Limits
    granted: frozenset[str] | None = None
    inputs: Mapping[str, Mapping[str, Any]] | None = None

    def nodes(self, kind: type[Node]) -> Iterator[Node]:
        """The script's nodes of one type, in source order."""
        return iter(self.scope.index.get(kind, ()))  # type: ignore[arg-type]

    def text(self, node: ast.AST) -> str:
        """The source of a node on one line, cut after `SHOWN` characters."""
        line = getattr(node, "lineno", 0)
        end = getattr(node, "end_lineno", None) or line
        if not line:
            return ""
        lines = self.source.lines[line - 1 : end]
        encoded = [part.encode() for part in lines]
        if end == line:
            piece = encoded[0][node.col_offset : node.end_col_offset]  # type: ignore[attr-defined]
        else:
            encoded[0] = encoded[0][node.col_offset :]  # type: ignore[attr-defined]
            encoded[-1] = encoded[-1][: node.end_col_offset]  # type: ignore[attr-defined]
            piece = b" ".join(part.strip() for part in encoded[:4])
        return _short(piece.decode("utf-8", "replace"))

    def _f_string(self, node: ast.AST) -> ast.JoinedStr | None:
        """The outermost f-string around a node."""
        found = None
        above = self.scope.parent.get(node)
        while above is not None and not isinstance(above, ast.stmt):
            if isinstance(above, ast.JoinedStr):
                found = above
            above = self.scope.parent.get(above)
        return found

    def violation(
        self, rule: str, node: ast.AST, message: str, fix: str, severity: Severity = "error", at: ast.AST | None = None
    ) -> Violation:
        """A violation at a node. `{}` in the message stands for the node's source, in backquotes."""
        place: Any = at if at is not None else node
        shown = self.text(node)
        around = self._f_string(place)
        if around is not None:
            # Positions inside an f-string are only right from Python 3.12 on, so all versions show the whole.
            place = around
        if self._f_string(node) is not None:
            shown = _short(ast.unparse(node))
        line = getattr(place, "lineno", 1)
        column = getattr(place, "col_offset", 0)
        if 0 < line <= len(self.source.lines):
            column = len(self.source.lines[line - 1].encode()[:column].decode("utf-8", "replace"))
        return Violation(
            rule=rule,
            line=line,
            column=column + 1,
            message=message.replace("{}", f"`{shown}`"),
            fix=fix,
            severity=severity,
            expression=shown,
        )


def _short(text: str) -> str:
    found = " ".join(text.split())
    return found if len(found) <= SHOWN else found[: SHOWN - 1] + "…"
