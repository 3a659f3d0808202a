"""Generator expressions and lazy iterators only where they are consumed at once (part of R10).

The embedded interpreter makes lists of them, CPython makes them lazy: once one is kept, the two differ.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator
from typing import Final

from addendum.script.report import Violation
from addendum.script.rules.subject import Subject
from addendum.script.scope import Function

CONSUMERS: Final = frozenset({"sum", "any", "all", "min", "max", "list", "set", "tuple", "dict", "sorted", "frozenset"})
METHODS: Final = frozenset({"join", "extend", "update", "fromkeys"})
LAZY: Final = frozenset({"zip", "map", "filter", "enumerate", "reversed"})
_LIST = "Write a list comprehension in brackets."


def check(subject: Subject) -> Iterator[Violation]:
    """Yield each generator expression and lazy iterator that isn't consumed where it stands."""
    for node in subject.nodes(ast.GeneratorExp):
        yield from _generator(subject, node)
    for call in subject.nodes(ast.Call):
        func = call.func
        if isinstance(func, ast.Name) and func.id in LAZY and subject.scope.bindings(func) is None:
            if not _consumed(subject, call):
                yield subject.violation(
                    "R10",
                    call,
                    "{} is an iterator that isn't consumed where it stands.",
                    f"Write `list({func.id}(...))`.",
                )


def _generator(subject: Subject, node: ast.GeneratorExp) -> Iterator[Violation]:
    parent = subject.scope.parent[node]
    consumer = _consumer(subject, parent, node)
    if consumer is None:
        fix = _LIST
        if isinstance(parent, ast.Call) and isinstance(parent.func, ast.Name) and parent.func.id == "next":
            fix = "Write `next(iter([...]), None)` with a list comprehension, or a `for` loop."
        yield subject.violation("R10", node, "The generator {} isn't consumed where it stands.", fix)
        return
    for part in ast.walk(node):
        if isinstance(part, ast.Await):
            yield subject.violation("R10", node, "The generator {} awaits.", _LIST)
            return
        if consumer in ("any", "all") and isinstance(part, ast.Call) and _has_effects(subject, part):
            yield subject.violation(
                "R10",
                part,
                f"{{}} changes something while `{consumer}` may stop early, which not every backend does.",
                "Build a list first.",
            )


def _consumer(subject: Subject, parent: ast.AST, node: ast.AST) -> str | None:
    """The name of what consumes an expression at once."""
    if isinstance(parent, ast.Call) and node in parent.args[:1]:
        func = parent.func
        if isinstance(func, ast.Name) and func.id in CONSUMERS and subject.scope.bindings(func) is None:
            return func.id
        if isinstance(func, ast.Attribute) and func.attr in METHODS:
            return func.attr
    return None


def _consumed(subject: Subject, call: ast.expr) -> bool:
    parent = subject.scope.parent[call]
    if isinstance(parent, ast.For | ast.comprehension):
        return parent.iter is call
    if isinstance(parent, ast.Starred):
        return True
    if isinstance(parent, ast.Assign):
        if all(isinstance(target, ast.Tuple | ast.List) for target in parent.targets):
            return True
        return parent.value is call and _kept_for_the_next(subject, parent)
    if isinstance(parent, ast.Compare):
        return parent.left is not call and isinstance(parent.ops[-1], ast.In | ast.NotIn)
    if isinstance(parent, ast.Call) and call in parent.args:
        func = parent.func
        if isinstance(func, ast.Attribute):
            return func.attr in METHODS
        if isinstance(func, ast.Name) and subject.scope.bindings(func) is None:
            return func.id in CONSUMERS | LAZY | {"iter"}
    return False


def _kept_for_the_next(subject: Subject, assign: ast.Assign) -> bool:
    """Whether an iterator gets a name only for the statement after it, which consumes it once.

    Nothing can run in between, so it doesn't matter when its elements are made.
    """
    target = assign.targets[0]
    if len(assign.targets) != 1 or not isinstance(target, ast.Name):
        return False
    home = subject.scope.homes[target]
    every = [name for name in subject.scope.names[target.id] if subject.scope.homes[name] is home]
    if len(every) != 2:
        return False
    use = every[1] if every[0] is target else every[0]
    after = _next(subject, assign)
    node: ast.AST = use
    while node is not after:
        above = subject.scope.parent.get(node)
        # Whatever may run its parts more than once, or later, consumes more or less than once.
        if above is None or isinstance(above, ast.Lambda | ast.FunctionDef | ast.AsyncFunctionDef | ast.While):
            return False
        if isinstance(above, ast.For) and above.iter is not node:
            return False
        if isinstance(above, ast.comprehension) and above.iter is not node:
            return False
        if isinstance(above, ast.ListComp | ast.SetComp | ast.DictComp | ast.GeneratorExp):
            if node is not above.generators[0]:
                return False
        node = above
    return _consumed(subject, use)


def _next(subject: Subject, statement: ast.stmt) -> ast.AST | None:
    """Return the statement after one, in its block."""
    above = subject.scope.parent[statement]
    for field in ("body", "orelse", "finalbody"):
        block = getattr(above, field, None)
        if isinstance(block, list) and statement in block:
            index = block.index(statement) + 1
            return block[index] if index < len(block) else None
    return None


def _has_effects(subject: Subject, call: ast.Call) -> bool:
    """Whether a call may log, change something or reach a capability."""
    if subject.scope.counted(call) or subject.scope.ctx_call(call) is not None:
        return True
    callee = subject.scope.callee(call)
    if not isinstance(callee, Function):
        return False
    return any(
        isinstance(part, ast.Call)
        and isinstance(part.func, ast.Attribute)
        and (part.func.attr in ("append", "log", "phase", "extend", "add", "pop", "update", "setdefault"))
        and not _own(subject, part.func.value, callee)
        for part in ast.walk(callee.node)
    )


def _own(subject: Subject, receiver: ast.expr, function: Function) -> bool:
    """Whether a change stays within the function: its receiver is a variable of its own, not a parameter."""
    while isinstance(receiver, ast.Subscript | ast.Attribute):
        receiver = receiver.value
    if not isinstance(receiver, ast.Name) or receiver.id in function.params or receiver.id == "ctx":
        return False
    home = subject.scope.homes[receiver]
    return home is not None and home.function is function
