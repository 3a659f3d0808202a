"""How far results of calls steer a script: the levels L0, L1, L2, with the flow from a call to a decision.

| level | results of calls |
| --- | --- |
| L0 | decide nothing: the same calls are made whatever they are; payloads may carry them |
| L1 | choose among bounded branches that are in the source: the worst case takes the largest |
| L2 | decide a name, code, or a count without a cap; or a delegate is itself an agent |

A failure is a result. The analysis is a taint of names, blind to the order of statements and generous: what may depend
on a result does. That a delegate is an agent is the catalog's to say, and is added by whoever has it.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator
from typing import Final

from addendum.script.bounds import Bounds
from addendum.script.report import Flow
from addendum.script.scope import CtxCall, Function, Names, Scope

CODE: Final = frozenset({"eval", "exec", "compile"})
CHANGING: Final = frozenset(
    {"append", "extend", "insert", "add", "update", "pop", "remove", "discard", "setdefault", "clear"}
)
MOST: Final = 30
"""Passes over the source at most: each but the last finds a name that depends on a result."""
SHOWN: Final = 80
_LEAVES: Final = (ast.Return, ast.Break, ast.Continue, ast.Raise)
_COMPREHENSIONS: Final = (ast.ListComp, ast.SetComp, ast.DictComp, ast.GeneratorExp)


def analyse(scope: Scope, bounds: Bounds) -> tuple[Flow, ...]:
    """Return every decision that a result of a call may have a part in, in source order."""
    taint = _Taint(scope)
    taint.settle()
    found = {(flow.line, flow.column, flow.decides): flow for flow in _flows(scope, bounds, taint)}
    return tuple(found[key] for key in sorted(found))


class _Taint:
    """Which names and functions may carry what a call returned: each with the call it comes from."""

    def __init__(self, scope: Scope) -> None:
        self.scope = scope
        self.names: dict[tuple[int, str], ast.Call] = {}
        self.returns: dict[Function, ast.Call] = {}
        self.nodes = list(ast.walk(scope.tree))
        self.changed = False
        runs = (each for each in self.nodes if isinstance(each, ast.Call) and scope.ctx_call(each) is not None)
        self.some = next(runs, None)

    def settle(self) -> None:
        """Go over the source, there and back, until nothing more is found."""
        for number in range(MOST):
            self.changed = False
            for node in self.nodes if number % 2 == 0 else reversed(self.nodes):
                self._visit(node)
            if not self.changed:
                return

    def of(self, node: ast.AST | None) -> ast.Call | None:
        """Return a call whose result an expression may depend on. A call that isn't awaited has no result yet, and what
        it asks for decides nothing."""
        waiting = [] if node is None else [node]
        while waiting:
            each = waiting.pop()
            if isinstance(each, ast.Await):
                found = self._awaited(each.value)
                if found is not None:
                    return found
                continue
            if isinstance(each, ast.Call):
                if self.scope.counted(each):
                    continue
                callee = self.scope.callee(each)
                if isinstance(callee, Function) and callee in self.returns:
                    return self.returns[callee]
            elif isinstance(each, ast.Name) and isinstance(each.ctx, ast.Load):
                found = self.names.get(self._key(each))
                if found is not None:
                    return found
            waiting.extend(ast.iter_child_nodes(each))
        return None

    def _awaited(self, value: ast.expr) -> ast.Call | None:
        """Return the call whose result an await gives; any of the script's where it can't be told."""
        if isinstance(value, ast.Call):
            ctx = self.scope.ctx_call(value)
            if ctx is not None:
                return value if ctx.kind in ("run", "fanout") else None
            callee = self.scope.callee(value)
            if isinstance(callee, Function):
                return self.returns.get(callee)
        return self.some

    def control(self, node: ast.AST) -> ast.Call | None:
        """Return a call whose result a statement or expression decides by."""
        match node:
            case ast.If() | ast.While() | ast.IfExp() | ast.Assert():
                return self.of(node.test)
            case ast.For():
                return self.of(node.iter)
            case ast.Match():
                return self.of(node.subject)
            case ast.Try() if node.handlers:
                return next((found for part in node.body if (found := self.of(part)) is not None), None)
            case ast.BoolOp():
                return next((found for value in node.values[:-1] if (found := self.of(value)) is not None), None)
            case _:
                return None

    def _visit(self, node: ast.AST) -> None:
        match node:
            case ast.Assign():
                self._into(node.targets, self.of(node.value))
            case ast.AnnAssign() | ast.AugAssign() | ast.NamedExpr():
                self._into([node.target], self.of(node.value))
            case ast.For() | ast.comprehension():
                self._into([node.target], self.of(node.iter))
            case ast.Return():
                self._returned(node, self.of(node.value))
            case ast.Call():
                self._called(node)
            case _:
                pass
        origin = self.control(node)
        if origin is not None:
            self._under(node, origin)

    def _under(self, node: ast.AST, origin: ast.Call) -> None:
        """What is set or returned beneath a decision depends on it."""
        for each in ast.walk(node):
            if isinstance(each, ast.Name) and isinstance(each.ctx, ast.Store):
                self._mark(self._key(each), origin)
            elif isinstance(each, ast.ExceptHandler) and each.name and each.body:
                frame = self.scope.frames.get(each)
                home = frame.home(each.name) if frame is not None else None
                self._mark((id(home), each.name), origin)
            elif isinstance(each, ast.Return):
                self._returned(each, origin)
            elif isinstance(each, ast.Attribute) and each.attr in CHANGING and isinstance(each.value, ast.Name):
                self._mark(self._key(each.value), origin)

    def _into(self, targets: list[ast.expr], origin: ast.Call | None) -> None:
        if origin is None:
            return
        for target in targets:
            for each in ast.walk(target):
                if isinstance(each, ast.Name):
                    self._mark(self._key(each), origin)

    def _called(self, node: ast.Call) -> None:
        """A result that is handed to a function is in its parameter; one that is put into a list is in the list."""
        if self.scope.ctx_call(node) is not None:
            return
        callee = self.scope.callee(node)
        if isinstance(callee, Function):
            inner = self.scope.inner.get(callee.node)
            given = [*zip(callee.params, node.args, strict=False)]
            given += [(word.arg, word.value) for word in node.keywords if word.arg is not None]
            for name, value in given:
                origin = self.of(value)
                if origin is not None and inner is not None:
                    self._mark((id(inner), name), origin)
        elif isinstance(node.func, ast.Attribute):
            origin = next((o for each in node.args if (o := self.of(each)) is not None), None)
            self._into([node.func.value], origin)

    def _returned(self, node: ast.Return, origin: ast.Call | None) -> None:
        function = self.scope.enclosing(node)
        if origin is not None and function is not None and function not in self.returns:
            self.returns[function] = origin
            self.changed = True

    def _mark(self, key: tuple[int, str], origin: ast.Call) -> None:
        if key not in self.names:
            self.names[key] = origin
            self.changed = True

    def _key(self, name: ast.Name) -> tuple[int, str]:
        frame: Names | None = self.scope.frames.get(name)
        return (id(frame.home(name.id)) if frame is not None else 0, name.id)


def _flows(scope: Scope, bounds: Bounds, taint: _Taint) -> Iterator[Flow]:
    if taint.changed:
        yield _flow(scope, "L2", "what is too involved to tell", taint.some, scope.tree)
        return
    for node in taint.nodes:
        if isinstance(node, ast.Call):
            yield from _of_call(scope, bounds, taint, node)
            continue
        if isinstance(node, _COMPREHENSIONS):
            yield from _of_comprehension(scope, bounds, taint, node)
            continue
        origin = taint.control(node)
        if origin is None or not _matters(scope, node):
            continue
        counts = isinstance(node, ast.For | ast.While)
        uncapped = counts and bounds.loops.get(node) is None
        decides = (
            "how often a loop runs" if counts else "whether a call fails" if isinstance(node, ast.Try) else "a branch"
        )
        yield _flow(scope, "L2" if uncapped else "L1", decides, origin, node)


def _of_call(scope: Scope, bounds: Bounds, taint: _Taint, node: ast.Call) -> Iterator[Flow]:
    ctx: CtxCall | None = scope.ctx_call(node)
    if ctx is None:
        if isinstance(node.func, ast.Name) and node.func.id in CODE and not taint.scope.bindings(node.func):
            yield _flow(scope, "L2", "code", taint.of(node.args[0]) if node.args else None, node)
        return
    if ctx.method == "run" and node.args and ctx.capability is None:
        yield _flow(scope, "L2", "the name of a capability", taint.of(node.args[0]), node.args[0])
    if ctx.method in ("parallel", "pipeline", "dag", "race") and node.args:
        # The branches make calls themselves; what counts is a width that comes from an earlier result.
        origin = next((o for arg in node.args if (o := _width(taint, arg)) is not None), None)
        if origin is not None:
            yield _flow(
                scope, "L1" if bounds.fanouts.get(node) is not None else "L2", "the width of a fan-out", origin, node
            )


def _width(taint: _Taint, argument: ast.expr) -> ast.Call | None:
    if isinstance(argument, ast.Name):
        return taint.names.get(taint._key(argument))
    if isinstance(argument, _COMPREHENSIONS):
        return next((o for each in argument.generators if (o := taint.of(each.iter)) is not None), None)
    return None


def _of_comprehension(
    scope: Scope, bounds: Bounds, taint: _Taint, node: ast.ListComp | ast.SetComp | ast.DictComp | ast.GeneratorExp
) -> Iterator[Flow]:
    if not _matters(scope, node):
        return
    for part in node.generators:
        origin = taint.of(part.iter)
        if origin is not None:
            yield _flow(
                scope, "L1" if bounds.loops.get(node) is not None else "L2", "how often a loop runs", origin, part.iter
            )
        for test in part.ifs:
            chosen = taint.of(test)
            if chosen is not None:
                yield _flow(scope, "L1", "a branch", chosen, test)


def _matters(scope: Scope, node: ast.AST) -> bool:
    """Whether which calls are made can depend on a decision: calls beneath it, or a way out of what goes on."""
    for each in ast.walk(node):
        if isinstance(each, _LEAVES):
            function = scope.enclosing(each)
            if function is not None and function.reaches:
                return True
        if isinstance(each, ast.Call) and scope.counted(each):
            return True
    return False


def _flow(scope: Scope, grade: str, decides: str, origin: ast.Call | None, node: ast.AST) -> Flow:
    ctx = scope.ctx_call(origin) if origin is not None else None
    shown = node
    for name in ("test", "iter", "subject"):
        shown = getattr(node, name, shown) if not isinstance(node, ast.Call) else shown
    text = "" if isinstance(node, ast.Module) else "try" if isinstance(node, ast.Try) else ast.unparse(shown)
    text = " ".join(text.split())
    return Flow(
        level=grade,
        decides=decides,
        source=(ctx.capability or f"ctx.{ctx.method}") if ctx is not None else "",
        source_line=origin.lineno if origin is not None else 0,
        line=getattr(node, "lineno", 1),
        column=getattr(node, "col_offset", 0) + 1,
        expression=text if len(text) <= SHOWN else text[: SHOWN - 1] + "…",
    )
