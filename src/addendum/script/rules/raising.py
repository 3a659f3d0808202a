"""What is raised: a known exception with at most one text (part of R10).

The embedded interpreter keeps only a text of an exception, so more would be lost there.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator

from addendum.script.report import Violation
from addendum.script.rules.r11_stops import CATCHABLE
from addendum.script.rules.subject import Subject

_TEXT = 'Pass one text: `raise ValueError(f"...")`.'
_NO_TEXT = (ast.Dict, ast.List, ast.Tuple, ast.Set, ast.Lambda, ast.ListComp, ast.DictComp, ast.SetComp)


def check(subject: Subject) -> Iterator[Violation]:
    """Yield exceptions that are made or raised in a way that only one backend knows."""
    for call in subject.nodes(ast.Call):
        func = call.func
        if isinstance(func, ast.Name) and func.id in CATCHABLE and subject.scope.bindings(func) is None:
            yield from _made(subject, call, func.id)
    for compare in subject.nodes(ast.Compare) if "type" in subject.scope.names else ():
        yield from _compared(subject, compare)
    for node in subject.nodes(ast.Raise):
        exc = node.exc
        if isinstance(exc, ast.Constant | ast.JoinedStr | ast.Dict | ast.Tuple | ast.List):
            yield subject.violation("R10", exc, "{} is no exception.", _TEXT)
        elif isinstance(exc, ast.Name) and exc.id == "CapabilityError":
            yield subject.violation(
                "R10", exc, "{} is raised without a code and a message.", 'Write `CapabilityError("refused", "why")`.'
            )


def _compared(subject: Subject, node: ast.Compare) -> Iterator[Violation]:
    """`type(error) == KeyError`: only `isinstance` is the same on every backend."""
    sides = [node.left, *node.comparators]
    asked = any(isinstance(s, ast.Call) and isinstance(s.func, ast.Name) and s.func.id == "type" for s in sides)
    parts = [part for side in sides for part in (side.elts if isinstance(side, ast.Tuple | ast.List) else [side])]
    if asked and any(isinstance(part, ast.Name) and part.id in CATCHABLE for part in parts):
        yield subject.violation(
            "R10", node, "{} compares the type of an exception.", "Write `isinstance(error, KeyError)`."
        )


def _made(subject: Subject, call: ast.Call, name: str) -> Iterator[Violation]:
    if name == "CapabilityError":
        if len(call.args) > 3 or any(isinstance(part, ast.Starred) for part in call.args):
            yield subject.violation(
                "R10", call, "{} has too many arguments.", "Write `CapabilityError(code, message)`."
            )
        elif len(call.args) + len(call.keywords) < 2:
            yield subject.violation(
                "R10", call, "{} has no code and message.", 'Write `CapabilityError("refused", "why")`.'
            )
        return
    if call.keywords or len(call.args) > 1 or any(isinstance(part, ast.Starred) for part in call.args):
        yield subject.violation("R10", call, "{} has more than one text.", _TEXT)
    elif call.args and not _may_be_text(subject, call.args[0]):
        yield subject.violation("R10", call.args[0], "{} is not a text.", _TEXT)


def _may_be_text(subject: Subject, node: ast.expr) -> bool:
    if isinstance(node, ast.Constant):
        return isinstance(node.value, str)
    if isinstance(node, _NO_TEXT):
        return False
    if isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and subject.scope.bindings(node.func) is None:
        return node.func.id not in (
            "len",
            "int",
            "float",
            "sum",
            "list",
            "dict",
            "sorted",
            "round",
            "abs",
            "set",
            "bool",
        )
    if isinstance(node, ast.Name):
        bound = subject.scope.bindings(node) or []
        return not (len(bound) == 1 and isinstance(bound[0], _NO_TEXT))
    if isinstance(node, ast.IfExp):
        return _may_be_text(subject, node.body) and _may_be_text(subject, node.orelse)
    return True
