"""No iteration whose order is not defined (sets).

## What it does
Refuses to walk a set: in a loop, a comprehension, `list()`, `join` and so on. Testing membership, `len`,
`sorted`, `min` and `max` are fine, as nothing depends on the order there.

## Why is this bad?
The order of a set depends on hashes, and differs between interpreters and runs. Calls would be made in another
order in a replay, and results would be other ones.

## Use instead
`sorted(names)`, or a list without repeats: `list(dict.fromkeys(names))`.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator
from typing import Final

from addendum.script.bounds.machine import MUTATORS
from addendum.script.report import Violation
from addendum.script.rules.subject import Subject
from addendum.script.scope import SHOWN, Function, Parameter

ID = "R04"
TITLE = "Nothing depends on the order of a set"

UNORDERED: Final = frozenset(
    {"sorted", "set", "frozenset", "len", "min", "max", "sum", "any", "all", "bool", "isinstance"}
)
_ORDERED: Final = frozenset({"list", "tuple", "enumerate", "zip", "map", "filter", "iter", "next", "dict", "reversed"})
_WRITES: Final = ("str", "repr", "format", ".format")
_SET_OPS: Final = (ast.BitOr, ast.BitAnd, ast.Sub, ast.BitXor)
_MAKES: Final = frozenset({"union", "intersection", "difference", "symmetric_difference"})
FIX: Final = "Write `sorted(...)` around it, or use `list(dict.fromkeys(...))` instead of a set."


def check(subject: Subject) -> Iterator[Violation]:
    """Yield each place where a set is walked and the order can be seen."""
    kinds = _Kinds(subject)
    if kinds.any:
        yield from _walked(subject, kinds)
    for node in subject.bounds.set_walks:
        above = subject.scope.parent[node]
        if not isinstance(above, ast.comprehension) or not _order_is_lost(subject, subject.scope.parent[above]):
            yield _violation(subject, node)


def _walked(subject: Subject, kinds: _Kinds) -> Iterator[Violation]:
    """What is walked and is a set by its form."""
    for loop in subject.nodes(ast.For):
        if kinds.is_set(loop.iter):
            yield _violation(subject, loop.iter)
    for generator in subject.nodes(ast.comprehension):
        if kinds.is_set(generator.iter) and not _order_is_lost(subject, subject.scope.parent[generator]):
            yield _violation(subject, generator.iter)
    for call in subject.nodes(ast.Call):
        yield from _call(subject, call, kinds)
    for text in _written(subject):
        if kinds.is_set(text) and not _only_shown(subject, text):
            yield _violation(subject, text)
    for star in subject.nodes(ast.Starred):
        if kinds.is_set(star.value) and isinstance(star.ctx, ast.Load):
            if not isinstance(subject.scope.parent[star], ast.Set):
                yield _violation(subject, star.value)
    for assign in subject.nodes(ast.Assign):
        if kinds.is_set(assign.value) and any(isinstance(target, ast.Tuple | ast.List) for target in assign.targets):
            yield _violation(subject, assign.value)


def _written(subject: Subject) -> Iterator[ast.expr]:
    """What becomes part of a text: in an f-string, by `str` and its like, by `format`, by `%`."""
    for value in subject.nodes(ast.FormattedValue):
        yield value.value
    for call in subject.nodes(ast.Call):
        if _called(subject, call) in _WRITES:
            yield from [*call.args, *[keyword.value for keyword in call.keywords]]
    for operation in subject.nodes(ast.BinOp):
        if isinstance(operation.op, ast.Mod):
            yield from operation.right.elts if isinstance(operation.right, ast.Tuple) else [operation.right]


def _called(subject: Subject, call: ast.Call) -> str:
    """The name of a builtin that is called, or of a method with a dot in front."""
    if isinstance(call.func, ast.Attribute):
        return f".{call.func.attr}"
    return call.func.id if isinstance(call.func, ast.Name) and subject.scope.bindings(call.func) is None else ""


def _only_shown(subject: Subject, node: ast.AST | None) -> bool:
    """Whether a text is only shown, by `ctx.log` or `ctx.phase`: no call and no result depends on it. One that is kept
    on the way there, or given to a call or to a function of the script, isn't."""
    while node is not None and not isinstance(node, ast.stmt | ast.NamedExpr | ast.Lambda):
        if isinstance(node, ast.Call):
            made = subject.scope.ctx_call(node)
            if made is not None:
                return made.method in SHOWN
            called = _called(subject, node)
            if not called or called[1:] in MUTATORS:
                return False
        node = subject.scope.parent.get(node)
    return False


def _violation(subject: Subject, node: ast.AST) -> Violation:
    return subject.violation(ID, node, "{} is a set, and the order in which it is walked isn't defined.", FIX)


def _order_is_lost(subject: Subject, comprehension: ast.AST) -> bool:
    """Whether a comprehension's order can't be seen: it makes a set, or is consumed by `sorted` and its like."""
    if isinstance(comprehension, ast.SetComp):
        return True
    parent = subject.scope.parent.get(comprehension)
    if isinstance(parent, ast.Call) and isinstance(parent.func, ast.Name) and comprehension in parent.args:
        if parent.func.id in ("min", "max", "sorted") and parent.keywords and parent.func.id != "sorted":
            return False
        return parent.func.id in UNORDERED
    return False


def _call(subject: Subject, call: ast.Call, kinds: _Kinds) -> Iterator[Violation]:
    func = call.func
    if isinstance(func, ast.Name):
        keyed = any(keyword.arg == "key" for keyword in call.keywords)
        if func.id in _ORDERED or (func.id in ("min", "max", "sorted") and keyed):
            for part in call.args:
                if kinds.is_set(part):
                    yield _violation(subject, part)
    elif isinstance(func, ast.Attribute):
        if func.attr in ("join", "extend", "fromkeys"):
            for part in call.args:
                if kinds.is_set(part):
                    yield _violation(subject, part)
        elif func.attr == "pop" and kinds.is_set(func.value):
            yield _violation(subject, func.value)


class _Kinds:
    """Which expressions are sets, by their form and through variables that are nothing else."""

    def __init__(self, subject: Subject) -> None:
        self.scope = subject.scope
        self._open: set[str] = set()
        self.any = bool(
            subject.scope.index.get(ast.Set)
            or subject.scope.index.get(ast.SetComp)
            or "set" in subject.scope.names
            or "frozenset" in subject.scope.names
            or self._views(subject)
        )

    @staticmethod
    def _views(subject: Subject) -> bool:
        """Whether a dict's keys or entries may be made a set."""
        attributes = {attribute.attr for attribute in subject.nodes(ast.Attribute)}
        if attributes.isdisjoint(("keys", "items")):
            return False
        return not attributes.isdisjoint(_MAKES) or any(isinstance(n.op, _SET_OPS) for n in subject.nodes(ast.BinOp))

    def is_set(self, node: ast.expr) -> bool:
        """Whether an expression is certainly a set."""
        if not self.any:
            return False
        if isinstance(node, ast.Set | ast.SetComp):
            return True
        if isinstance(node, ast.Call):
            func = node.func
            if isinstance(func, ast.Name):
                return func.id in ("set", "frozenset") and self.scope.bindings(func) is None
            return isinstance(func, ast.Attribute) and (
                func.attr in _MAKES or (func.attr == "copy" and self.is_set(func.value))
            )
        if isinstance(node, ast.BinOp) and isinstance(node.op, _SET_OPS):
            return self.is_set(node.left) or self.is_set(node.right) or self._view(node.left) or self._view(node.right)
        if isinstance(node, ast.IfExp):
            return self.is_set(node.body) or self.is_set(node.orelse)
        if isinstance(node, ast.BoolOp):
            return any(self.is_set(part) for part in node.values)
        if isinstance(node, ast.NamedExpr):
            return self.is_set(node.value)
        if isinstance(node, ast.Name) and node.id not in self._open:
            bound = self.scope.bindings(node)
            self._open.add(node.id)
            try:
                values = [b for b in bound or () if not isinstance(b, Function | Parameter)]
                return any(value is not None and self.is_set(value) for value in values)
            finally:
                self._open.discard(node.id)
        return False

    def _view(self, node: ast.expr) -> bool:
        return (
            isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute) and node.func.attr in ("keys", "items")
        )
