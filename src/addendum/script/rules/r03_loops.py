"""Every loop, comprehension and recursion that can reach a capability call has a bound that follows from the
source.

## What it does
Follows the script on all paths and works out how often each loop body can run. A loop that makes no call needs
no bound: the sandbox's limits on time and memory hold it.

## Why is this bad?
Each iteration may cost money. With a bound the worst case is known before the first call is paid; without one
it depends on data that nobody has seen yet.

## Use instead
Cut the list (`items[:10]`), loop over a literal `range`, use `min(n, 10)`, a constant list, or a counter that
rises on every path and is compared with a constant. What is derived from such a thing is bounded too:
`enumerate`, `zip`, `sorted`, a filter, a helper's argument, a list that only bounded loops append to.

An end of a slice must not be negative, as it would count from the back: `items[:min(n, 10)]` is an error at run time
when `n` is -1. Write `items[:max(0, min(n, 10))]` where that can happen.

A function that nothing calls is only worth a warning: it never runs, and no bound was looked for in it.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator
from typing import Final

from addendum.script.report import Violation
from addendum.script.rules.subject import Subject
from addendum.script.scope import COMPREHENSIONS

ID = "R03"
TITLE = "Loops that reach a call are bounded"

_LOOPS: Final = (ast.For, ast.While, *COMPREHENSIONS)
_FUNCTIONS: Final = (ast.FunctionDef, ast.AsyncFunctionDef)

_INVOLVED: Final = {
    "calls": (
        "too many functions call each other.",
        "Make fewer helpers call helpers, and give recursive ones a small constant depth.",
    ),
    "loop": (
        "too much changes from round to round in this loop.",
        "Change less in it: bound it by `range` or one counter, and let a helper return what it would change.",
    ),
    "steps": (
        "it branches, loops and calls helpers too often.",
        "Make it shorter, with fewer loops in loops and fewer helpers that call helpers.",
    ),
}


def check(subject: Subject) -> Iterator[Violation]:
    """Yield each loop, comprehension and recursion that costs calls and has no bound."""
    for problem in subject.bounds.problems:
        node = problem.node
        if problem.kind == "recursion":
            yield subject.violation(
                ID,
                node,
                "{} calls its own function again, makes calls, and nothing in the source ends it.",
                "Pass a depth, add 1 to it in each call, and return when it reaches a constant.",
            )
        elif problem.kind == "involved":
            message, fix = _INVOLVED[problem.why]
            yield subject.violation(ID, node, f"The bounds of this script can't be followed: {message}", fix)
        elif problem.why == "huge" and problem.kind in ("loop", "comprehension"):
            yield subject.violation(
                ID,
                _subject_of(node),
                f"{{}} allows more than {subject.limits.max_bound:,} rounds with a call, which is as good as no bound.",
                "Use a bound that somebody could pay for.",
                at=node,
            )
        elif problem.why == "grows":
            yield subject.violation(
                ID,
                _subject_of(node),
                "{} gets longer while it is walked, and each element makes a call.",
                "Walk a copy with a constant length, such as `items[:10]`, or use a counter.",
                at=node,
            )
        elif isinstance(node, ast.While):
            yield subject.violation(
                ID,
                node.test,
                "Nothing bounds how often `while {}` runs, and each round makes a call.".replace(
                    "`while {}`", "while {}"
                ),
                "Add a counter that rises on every path and is compared with a constant, or use `for _ in range(N)`.",
                at=node,
            )
        elif problem.kind in ("loop", "comprehension"):
            yield subject.violation(
                ID,
                _subject_of(node),
                "The length of {} doesn't follow from the source, and each element makes a call.",
                "Cut it with a constant, such as `[:10]`, before the loop.",
                at=node,
            )
    yield from _never_entered(subject)


def _never_entered(subject: Subject) -> Iterator[Violation]:
    """A function that nothing calls runs no loop, so it isn't wrong; but no bound was looked for in it."""
    scope, entered = subject.scope, subject.bounds.entered
    if not entered:
        return  # the entry function is missing, or too much is involved: other rules say so
    idle = {function for function in scope.functions if function.reaches and function.node not in entered}
    for call in subject.nodes(ast.Call) if idle else ():
        function = scope.enclosing(call)
        loop = _loop_around(subject, call) if function in idle and scope.counted(call) else None
        if function is not None and loop is not None:
            idle.discard(function)
            yield subject.violation(
                ID,
                _subject_of(loop),
                f"Nothing that runs calls `{function.name}`, so no bound was looked for where it loops over {{}}.",
                "Call the function, or leave it out.",
                severity="warning",
                at=loop,
            )


def _loop_around(subject: Subject, node: ast.AST) -> ast.AST | None:
    """The innermost loop or comprehension around a node, in its function."""
    above = subject.scope.parent.get(node)
    while above is not None and not isinstance(above, _FUNCTIONS):
        if isinstance(above, _LOOPS):
            return above
        above = subject.scope.parent.get(above)
    return None


def _subject_of(node: ast.AST) -> ast.AST:
    """What a loop walks."""
    if isinstance(node, ast.For):
        return node.iter
    if isinstance(node, ast.While):
        return node.test
    if isinstance(node, COMPREHENSIONS):
        return node.generators[0].iter
    return node
