"""The text that an expression of literals is: a literal, a constant, a sum of them (part of R10)."""

from __future__ import annotations

import ast
from typing import Final

from addendum.script.rules.subject import Subject

_DEPTH: Final = 20
"""How many names and sums a text that is put together may go through."""


def text_of(subject: Subject, node: ast.expr, unknown: str | None = None, depth: int = 0) -> str | None:
    """Return the text that an expression is, None if it may be another one.

    With `unknown`, the parts of an f-string or a sum that may be anything are replaced by it.
    """
    if depth > _DEPTH:
        return None
    if isinstance(node, ast.Constant):
        return node.value if isinstance(node.value, str) else None
    if isinstance(node, ast.Name):
        bound = subject.scope.bindings(node)
        only = bound[0] if bound is not None and len(bound) == 1 else None
        kinds = ast.Constant | ast.BinOp | ast.Call | ast.JoinedStr
        return text_of(subject, only, unknown, depth + 1) if isinstance(only, kinds) else None
    if isinstance(node, ast.BinOp) and isinstance(node.op, ast.Add):
        start, end = [text_of(subject, part, unknown, depth + 1) for part in (node.left, node.right)]
        if start is None and end is None:
            return None
        start, end = (unknown if start is None else start), (unknown if end is None else end)
        return None if start is None or end is None else start + end
    if isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute) and node.func.attr == "strip":
        return None if node.args or node.keywords else text_of(subject, node.func.value, unknown, depth + 1)
    if isinstance(node, ast.JoinedStr) and unknown is not None:
        return "".join(
            text_of(subject, part) or "" if isinstance(part, ast.Constant) else unknown for part in node.values
        )
    return None
