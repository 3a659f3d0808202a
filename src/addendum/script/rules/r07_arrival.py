"""The width and order of a fan-out don't depend on arrival order; a branch that changes outer state is a warning.

## What it does
Looks for branches of a fan-out that change a list, dict or variable outside themselves. That alone is a
warning. It is an error when such a list, unsorted, decides over the width or the order of another fan-out.

## Why is this bad?
Branches end in an order that nobody chose. A replay repeats the recorded order, but a revision or a look at the
source can't: which call is the third branch then depends on who was first.

## Use instead
Return values from the branches; `ctx.parallel` gives them back in the order of the branches. Or sort before the
next fan-out.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator

from addendum.script.report import Violation
from addendum.script.rules.subject import Subject
from addendum.script.scope import FANOUTS, Function, Names

ID = "R07"
TITLE = "Fan-outs don't depend on arrival order"

_ARRIVAL = frozenset({"append", "extend", "insert", "pop", "add", "setdefault", "update", "remove", "popitem"})
_FIX = "Return values from the branches, and use the list that `ctx.parallel` gives back."


def check(subject: Subject) -> Iterator[Violation]:
    """Yield changes of outer state in branches, and fan-outs that depend on them."""
    branches = _branch_functions(subject)
    if not branches:
        return
    tainted: dict[tuple[Names, str], ast.AST] = {}
    for node, root, ordered in _changes(subject):
        function = subject.scope.enclosing(node)
        home = subject.scope.homes[root]
        if function not in branches or home is None or home.function is None:
            continue
        if home.function is function or home.kind != "f" or _inside(home.function, function):
            continue
        yield subject.violation(
            ID,
            node,
            f"A branch changes `{root.id}` outside itself with {{}}, in the order of arrival.",
            _FIX,
            severity="warning",
        )
        if ordered:
            tainted[(home, root.id)] = node
    if tainted:
        for call in subject.nodes(ast.Call):
            method = subject.scope.ctx_call(call)
            if method is not None and method.method in FANOUTS and call.args:
                yield from _dependent(subject, call, tainted)


def _inside(outer: Function, inner: Function | None) -> bool:
    """Whether `outer` is a branch's own nested function."""
    while outer.parent is not None:
        outer = outer.parent
        if outer is inner:
            return True
    return False


def _branch_functions(subject: Subject) -> set[Function]:
    """The functions that run in branches, and those that they call."""
    scope = subject.scope
    todo: list[Function] = []
    for call in subject.nodes(ast.Call):
        method = scope.ctx_call(call)
        if method is not None and method.method in ("pipeline", "dag"):
            todo += _mentioned(subject, call)
        callee = scope.callee(call)
        if isinstance(callee, Function) and callee.is_async and not isinstance(scope.parent[call], ast.Await):
            todo.append(callee)
    found: set[Function] = set()
    texts = {function.name for function in scope.functions} if todo else set()
    names = [name for text in texts for name in scope.names.get(text, ())]
    while todo:
        function = todo.pop()
        if function in found:
            continue
        found.add(function)
        for name in names:
            if scope.enclosing(name) is function and isinstance(name.ctx, ast.Load):
                todo += [value for value in scope.bindings(name) or () if isinstance(value, Function)]
    return found


def _mentioned(subject: Subject, node: ast.AST) -> list[Function]:
    out: list[Function] = []
    for part in ast.walk(node):
        if isinstance(part, ast.Name) and part in subject.scope.frames:
            out += [value for value in subject.scope.bindings(part) or () if isinstance(value, Function)]
    return out


def _changes(subject: Subject) -> Iterator[tuple[ast.AST, ast.Name, bool]]:
    """Each change of something under a name: where, the name, and whether the order of changes can be seen."""
    for call in subject.nodes(ast.Call):
        func = call.func
        if isinstance(func, ast.Attribute) and func.attr in _ARRIVAL:
            root = _root(func.value)
            if root is not None:
                yield call, root, isinstance(func.value, ast.Name)
    for node in subject.nodes(ast.Subscript):
        if isinstance(node.ctx, ast.Store):
            root = _root(node.value)
            if root is not None:
                yield node, root, isinstance(node.value, ast.Name) and _is_dict(subject, root)
    for augmented in subject.nodes(ast.AugAssign):
        if isinstance(augmented.target, ast.Name):
            yield augmented, augmented.target, True
    for assign in subject.nodes(ast.Assign):
        for target in assign.targets:
            if isinstance(target, ast.Name) and target.id in subject.scope.frames[target].outer:
                yield assign, target, True


def _root(node: ast.expr) -> ast.Name | None:
    while isinstance(node, ast.Subscript | ast.Attribute):
        node = node.value
    return node if isinstance(node, ast.Name) else None


def _is_dict(subject: Subject, name: ast.Name) -> bool:
    bound = subject.scope.bindings(name) or []
    return not any(isinstance(value, ast.List | ast.ListComp | ast.BinOp) for value in bound)


def _dependent(subject: Subject, call: ast.Call, tainted: dict[tuple[Names, str], ast.AST]) -> Iterator[Violation]:
    """A fan-out whose branches are made by walking a tainted name, without sorting it."""
    seen: set[tuple[Names, str]] = set()
    todo: list[ast.expr] = [call.args[0]]
    while todo:
        node = todo.pop()
        if isinstance(node, ast.Name):
            home = subject.scope.homes[node]
            if home is None or (home, node.id) in seen:
                continue
            seen.add((home, node.id))
            if (home, node.id) in tainted and subject.scope.enclosing(call) is home.function:
                yield subject.violation(
                    ID,
                    call,
                    f"The branches of {{}} come from `{node.id}`, which other branches filled in the order of arrival.",
                    f"Write `sorted({node.id}, key=...)`, or return the values from the branches.",
                )
                return
            todo += [value for value in home.bindings[node.id] if isinstance(value, ast.expr)]
        elif isinstance(node, ast.ListComp | ast.GeneratorExp | ast.DictComp):
            todo += [generator.iter for generator in node.generators]
        elif isinstance(node, ast.Subscript):
            todo.append(node.value)
        elif isinstance(node, ast.Call):
            if isinstance(node.func, ast.Name) and node.func.id in (
                "list",
                "tuple",
                "enumerate",
                "zip",
                "reversed",
                "dict",
            ):
                todo += node.args
            elif isinstance(node.func, ast.Attribute) and node.func.attr in ("items", "keys", "values", "copy"):
                todo.append(node.func.value)
        elif isinstance(node, ast.BinOp):
            todo += [node.left, node.right]
        elif isinstance(node, ast.Starred):
            todo.append(node.value)
        elif isinstance(node, ast.List | ast.Tuple):
            todo += [part for part in node.elts if isinstance(part, ast.Starred)]
        elif isinstance(node, ast.IfExp):
            todo += [node.body, node.orelse]
