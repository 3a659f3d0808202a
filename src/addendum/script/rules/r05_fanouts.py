"""Every fan-out has a width bound that follows from the source.

## What it does
Works out how many branches each `ctx.parallel`, `ctx.pipeline`, `ctx.dag` and `ctx.race` can have: directly,
through a list variable, a helper, a star argument or a comprehension.

## Why is this bad?
All branches start at once. A width that comes from data can spend a whole budget in one step, before any result
could stop it.

## Use instead
Cut the list that the branches are made from: `[one(x) for x in items[:10]]`. A list that only bounded loops
append to is bounded as well.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator

from addendum.script.report import Violation
from addendum.script.rules.subject import Subject

ID = "R05"
TITLE = "Fan-outs have a width that follows from the source"


def check(subject: Subject) -> Iterator[Violation]:
    """Yield each fan-out without a bound on its width."""
    for problem in subject.bounds.problems:
        if problem.kind == "fanout" and isinstance(problem.node, ast.Call):
            node = problem.node
            method = node.func.attr if isinstance(node.func, ast.Attribute) else "parallel"
            yield subject.violation(
                ID,
                node.args[0] if node.args else node,
                f"How many branches `ctx.{method}` starts with {{}} doesn't follow from the source.",
                "Cut the list that the branches are made from with a constant, such as `items[:10]`.",
                at=node,
            )
