"""The source parses, and is within the limits on size and nesting.

## What it does
Compiles the text as Python 3.11 and checks its size (64 KiB, 2,000 lines), the length of its lines, how deep
brackets, blocks and expressions nest, and that no character or number is one that the sandboxes read
differently.

## Why is this bad?
A text that doesn't parse can't run. A text that nests hundreds of levels deep can bring a parser down, and the
interpreters of the sandboxes have lower limits than CPython has.

## Use instead
Shorten the script: move long texts into `args`, and repeated code into a helper. Split deep expressions into
several statements with names.
"""

from __future__ import annotations

import ast
import sys
from collections.abc import Iterator

from addendum.script.report import Violation
from addendum.script.rules.fstrings import reads
from addendum.script.rules.subject import Subject

ID = "R00"
TITLE = "The source parses and is within its limits"


def check(subject: Subject) -> Iterator[Violation]:
    """Yield what parses but is beyond a limit."""
    scope, limits = subject.scope, subject.limits
    if scope.depth > limits.max_depth and scope.deepest is not None:
        yield subject.violation(
            ID,
            scope.deepest,
            f"The code nests {scope.depth} levels deep here; the limit is {limits.max_depth}.",
            "Split the expression, or move the inner blocks into a helper.",
        )
    for node in subject.nodes(ast.Constant):
        value = node.value
        if type(value) is not str and isinstance(value, int) and abs(value) >= 10**limits.max_int_digits:
            yield subject.violation(
                ID, node, f"{{}} has more than {limits.max_int_digits} digits.", "Write it as a string."
            )
    if sys.version_info >= (3, 12):
        # Only here can an f-string stand that Python 3.11 doesn't read; there the parser has refused it.
        for joined in subject.nodes(ast.JoinedStr):
            if not isinstance(subject.scope.parent[joined], ast.FormattedValue) and not reads(_raw(subject, joined)):
                yield subject.violation(
                    ID,
                    joined,
                    "{} is written in a way that Python 3.11 can't read.",
                    "Compute the value before the f-string, or use other quotes inside it.",
                )


def _raw(subject: Subject, node: ast.expr) -> str:
    """The source of a node with its line ends."""
    end = node.end_lineno or node.lineno
    lines = [line.encode() for line in subject.source.lines[node.lineno - 1 : end]]
    lines[-1] = lines[-1][: node.end_col_offset]
    lines[0] = lines[0][node.col_offset :]
    return b"\n".join(lines).decode("utf-8", "replace")
