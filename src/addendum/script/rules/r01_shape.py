"""One top-level `async def orchestrate(ctx, args)`; the top level holds only constants and functions.

## What it does
Looks for exactly one entry function with exactly these two parameters, and refuses statements at the top level
that aren't a docstring, an import, an assignment of a constant, or a function. A constant may be made by a helper,
as long as no capability is called there.

## Why is this bad?
The host calls `orchestrate(ctx, args)`. Code at the top level runs before there is a `ctx`, in every replay,
and outside of all that is recorded.

## Use instead
Move the statements into `orchestrate`, and keep constants such as limits, names and schemas at the top.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator

from addendum.script.report import Violation
from addendum.script.rules.subject import Subject

ID = "R01"
TITLE = "One entry function, and nothing else that runs by itself"

SHAPE = "async def orchestrate(ctx, args)"


def check(subject: Subject) -> Iterator[Violation]:
    """Yield what is wrong with the entry function and the top level."""
    entries = []
    for statement in subject.source.tree.body:
        if isinstance(statement, ast.FunctionDef | ast.AsyncFunctionDef):
            if statement.name == "orchestrate":
                entries.append(statement)
        else:
            yield from _top_level(subject, statement)
    if not entries:
        yield subject.violation(
            ID, subject.source.tree, "There is no entry function.", f"Define `{SHAPE}` at the top level."
        )
    for entry in entries:
        yield from _entry(subject, entry)
    for extra in entries[1:]:
        yield subject.violation(ID, extra, "`orchestrate` is defined twice.", "Keep one.")
    for call in subject.nodes(ast.Call):
        if subject.scope.enclosing(call) is None and subject.scope.counted(call) and not _in_lambda(subject, call):
            yield subject.violation(
                ID, call, "{} is called at the top level, where nothing is recorded.", "Call it in `orchestrate`."
            )


def _entry(subject: Subject, node: ast.FunctionDef | ast.AsyncFunctionDef) -> Iterator[Violation]:
    if isinstance(node, ast.FunctionDef):
        yield subject.violation(ID, node, "`orchestrate` is not async.", f"Write `{SHAPE}`.")
    spec = node.args
    names = [param.arg for param in [*spec.posonlyargs, *spec.args, *spec.kwonlyargs]]
    if names != ["ctx", "args"] or spec.vararg or spec.kwarg or spec.defaults or spec.kwonlyargs or spec.posonlyargs:
        yield subject.violation(
            ID, node, f"`orchestrate` has the parameters ({', '.join(names)}), not (ctx, args).", f"Write `{SHAPE}`."
        )


def _top_level(subject: Subject, statement: ast.stmt) -> Iterator[Violation]:
    if isinstance(statement, ast.Import | ast.ImportFrom | ast.ClassDef | ast.Global):
        return  # R10 says which of these are allowed
    if isinstance(statement, ast.Expr) and isinstance(statement.value, ast.Constant):
        return
    targets: list[ast.expr] = []
    if isinstance(statement, ast.Assign):
        targets = statement.targets
    elif isinstance(statement, ast.AnnAssign):
        targets = [statement.target]
    else:
        yield subject.violation(
            ID,
            statement,
            "{} runs at the top level, which holds only constants and functions.",
            "Move it into `orchestrate`.",
        )
        return
    for target in targets:
        parts = target.elts if isinstance(target, ast.Tuple) else [target]
        if not all(isinstance(part, ast.Name) for part in parts):
            yield subject.violation(
                ID, statement, "{} changes something at the top level.", "Build the constant in one expression."
            )


def _in_lambda(subject: Subject, node: ast.AST) -> bool:
    above = subject.scope.parent.get(node)
    while above is not None:
        if isinstance(above, ast.Lambda):
            return True
        above = subject.scope.parent.get(above)
    return False
