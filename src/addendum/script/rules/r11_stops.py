"""A stop can't be swallowed: no bare `except`, no `BaseException`, no call in `finally`.

## What it does
Refuses handlers that would catch more than errors, `return`, `break`, `continue` and calls in `finally`, and
names in `except` that aren't known exception classes.

## Why is this bad?
A stop (a divergence, a denied call, an exhausted budget, a cancellation) ends the run. A script that catches
it, or makes another call on its way out, would go on without authority.

## Use instead
Catch `CapabilityError`, or the named exception that you expect. Move what stands in `finally` behind the `try`.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator
from typing import Final

from addendum.script.report import Violation
from addendum.script.rules.subject import Subject

ID = "R11"
TITLE = "A stop can't be swallowed"

CATCHABLE: Final = frozenset(
    {
        *("CapabilityError", "Exception", "ValueError", "KeyError", "IndexError", "LookupError", "TypeError"),
        *("RuntimeError", "TimeoutError", "ZeroDivisionError", "ArithmeticError", "AttributeError", "OverflowError"),
        *("AssertionError", "NotImplementedError"),
    }
)
"""Exception classes that a script may catch and raise; they exist on every backend."""

_STOPS: Final = frozenset({"BaseException", "SystemExit", "KeyboardInterrupt", "GeneratorExit", "BaseExceptionGroup"})
_CATCH = "Catch `CapabilityError`, or the named exception that you expect."


def check(subject: Subject) -> Iterator[Violation]:
    """Yield handlers that catch too much, and what may not stand in `finally`."""
    for handler in subject.nodes(ast.ExceptHandler):
        if handler.type is None:
            yield subject.violation(ID, handler, "A bare `except` catches stops as well.", _CATCH, at=handler)
            continue
        for part in handler.type.elts if isinstance(handler.type, ast.Tuple) else [handler.type]:
            yield from _caught(subject, part)
    for node in subject.nodes(ast.Try):
        for statement in node.finalbody:
            yield from _finally(subject, statement)


def _caught(subject: Subject, part: ast.expr) -> Iterator[Violation]:
    if isinstance(part, ast.Name):
        if part.id in _STOPS:
            yield subject.violation(ID, part, "{} catches stops as well.", _CATCH)
        elif part.id not in CATCHABLE and subject.scope.bindings(part) is None:
            yield subject.violation(ID, part, "{} is no exception that every backend has.", _CATCH)
        elif subject.scope.bindings(part) is not None:
            yield subject.violation(
                ID, part, "What {} catches isn't written here.", "Name the exception classes in the `except`."
            )
    elif not (isinstance(part, ast.Attribute) and _library_error(part)):
        yield subject.violation(ID, part, "What {} catches isn't known.", "Name the exception classes in the `except`.")


def _library_error(part: ast.Attribute) -> bool:
    if not isinstance(part.value, ast.Name):
        return False
    return (part.value.id, part.attr) in {("json", "JSONDecodeError"), ("re", "error")}


def _finally(subject: Subject, statement: ast.stmt) -> Iterator[Violation]:
    for node in ast.walk(statement):
        if isinstance(node, ast.Return | ast.Break | ast.Continue):
            yield subject.violation(
                ID, node, "{} in `finally` swallows whatever was raised.", "Move it behind the `try` statement."
            )
        elif isinstance(node, ast.Await) or (isinstance(node, ast.Call) and subject.scope.counted(node)):
            yield subject.violation(
                ID,
                node,
                "{} in `finally` makes a call on the way out of a stop.",
                "Move it behind the `try` statement.",
            )
            return
