"""Where an error came from, as every interpreter can say it.

Monty forgets where an error was when it passes a `try` on its way out, or leaves a handler: it then names whatever was
compiled last there (the statement before a bare `raise`, the end of a handler or of the `finally`). CPython knows. A
report has to be the same on both, so an error that passed a `try`, or may have, is said to come from that `try`
statement, without the frames beneath it. A `raise X` at the end of a handler is known on both.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator, Sequence
from typing import TypeAlias

Frame: TypeAlias = tuple[int, str]
_DEFINITIONS = (ast.FunctionDef, ast.AsyncFunctionDef, ast.Lambda)


def known(source: str, frames: Sequence[Frame], kind: str) -> tuple[Frame, ...]:
    """Return the frames (line of the source, function), outermost first, up to the first that an error of class `kind`
    passed a `try` in; that one with the line of the `try`."""
    try:
        tree = ast.parse(source)
    except (SyntaxError, ValueError, RecursionError):
        return tuple(frames)
    found: list[Frame] = []
    for line, function in frames:
        passed = next((node for node in _tries(tree, line) if _blurs(node, line, kind)), None)
        if passed is not None:
            return (*found, (passed.lineno, function))
        found.append((line, function))
    return tuple(found)


def _tries(tree: ast.AST, line: int) -> Iterator[ast.Try]:
    """Yield the `try` statements around a line in its innermost function, outermost first."""
    around: list[ast.Try] = []
    todo: list[ast.AST] = [tree]
    while todo:
        for child in ast.iter_child_nodes(todo.pop()):
            if not isinstance(child, (ast.stmt, ast.ExceptHandler, ast.match_case)) or not _holds(child, line):
                continue
            if isinstance(child, _DEFINITIONS):
                around.clear()
            if isinstance(child, ast.Try):
                around.append(child)
            todo.append(child)
    yield from around


def _holds(node: ast.AST, line: int) -> bool:
    if isinstance(node, ast.match_case):
        return _inside(node.body, line)
    return node.lineno <= line <= (node.end_lineno or node.lineno)  # type: ignore[attr-defined, no-any-return]


def _inside(statements: Sequence[ast.stmt], line: int) -> bool:
    return bool(statements) and statements[0].lineno <= line <= (statements[-1].end_lineno or 0)


def _blurs(node: ast.Try, line: int, kind: str) -> bool:
    """Say whether an error at a line within a `try` may have come there from elsewhere, or goes on from there to where
    Monty forgets it."""
    if node.finalbody or _inside(node.body, line) or _inside(node.orelse, line):
        return True
    handler = next((each for each in node.handlers if _holds(each, line)), None)
    if handler is None:
        return True
    last = _last(handler.body)
    return not isinstance(last, ast.Raise) or not _holds(last, line) or not _raises(last, kind)


def _raises(statement: ast.Raise, kind: str) -> bool:
    """Say whether an explicit `raise` can be the one that raised an error of a class."""
    raised = statement.exc
    while isinstance(raised, ast.Call) and isinstance(raised.func, ast.Name) and raised.func.id == "_wf_exc":
        raised = raised.args[0]  # in a text that was annotated by hand
    if isinstance(raised, ast.Call) and isinstance(raised.func, ast.Name):
        return raised.func.id == kind
    return raised is not None


def _last(statements: Sequence[ast.stmt]) -> ast.stmt:
    """Return the innermost last statement of a block."""
    last = statements[-1]
    while isinstance(last, (ast.If, ast.For, ast.While)):
        last = (last.orelse or last.body)[-1]
    return last
