"""Coroutines that are dropped, or used as if they were their result (part of R02).

A *maker* is a call whose value is a coroutine: of a ctx method, of an async function of the script, or of a sync
function or lambda that returns one. Its value has to be awaited, or go where coroutines are kept: a list, a variable
that is used that way, a script function, a fan-out.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator

from addendum.script.report import Violation
from addendum.script.rules.subject import Subject
from addendum.script.scope import COUNTED, Function, Names

KEEPERS = frozenset({"append", "extend", "insert", "add", "setdefault", "update"})
_TAKERS = (ast.Await, ast.List, ast.Tuple, ast.ListComp, ast.GeneratorExp, ast.DictComp)
AWAIT = "Write `await` in front of it."
ALONE = "{} is one coroutine, not a list of them."
LIST = "Put it into a list: `[...]`."


def dropped(subject: Subject) -> Iterator[Violation]:
    """Yield each maker whose coroutine nobody awaits."""
    finder = _Finder(subject)
    told = set()
    for call in subject.nodes(ast.Call):
        if finder.makes(call):
            for violation in finder.verdict(call):
                told.add(call)
                yield violation
    for call in subject.bounds.misused:
        if call not in told:
            told.add(call)
            yield subject.violation("R02", call, "What {} gives is used as data before it is awaited.", AWAIT)
    for call in subject.bounds.unawaited:
        if call not in told:
            yield subject.violation("R02", call, "{} is never awaited on any path, so it never runs.", AWAIT)


class _Finder:
    def __init__(self, subject: Subject) -> None:
        self.subject = subject
        self.scope = subject.scope
        self._open: set[tuple[Names, str]] = set()
        self._returns: dict[ast.AST, bool] = {}

    def makes(self, call: ast.Call) -> bool:
        """Whether a call's value is a coroutine."""
        method = self.scope.ctx_call(call)
        if method is not None:
            return method.method in COUNTED
        if isinstance(call.func, ast.Attribute):
            return False
        if isinstance(call.func, ast.Name) and self.scope.homes[call.func] is None:
            return False
        values = self.scope.values(call.func)
        return bool(values) and all(self._gives(value) for value in values or ())

    def _gives(self, value: object) -> bool:
        """Whether calling a function gives a coroutine."""
        if isinstance(value, Function):
            return value.is_async or self._returns_coroutine(value.node)
        if isinstance(value, ast.Lambda):
            return isinstance(value.body, ast.Call) and self._guarded(value, [value.body])
        return False

    def _returns_coroutine(self, node: ast.AST) -> bool:
        found = [
            part.value
            for part in self.subject.nodes(ast.Return)
            if part.value is not None and self._owner(part) is node
        ]
        return self._guarded(node, found)

    def _owner(self, node: ast.AST) -> ast.AST | None:
        function = self.scope.enclosing(node)
        return None if function is None else function.node

    def _guarded(self, node: ast.AST, returned: list[ast.expr]) -> bool:
        known = self._returns.get(node)
        if known is None:
            self._returns[node] = False
            known = bool(returned) and all(isinstance(part, ast.Call) and self.makes(part) for part in returned)
            self._returns[node] = known
        return known

    def verdict(self, call: ast.Call) -> Iterator[Violation]:
        """Yield a violation unless the coroutine goes somewhere."""
        wrong = self._wrong(call)
        if wrong is not None:
            yield self.subject.violation("R02", call, wrong, LIST if wrong == ALONE else AWAIT)

    def _wrong(self, node: ast.expr) -> str | None:
        """What is wrong with where a coroutine goes, None if nothing is."""
        parent = self.scope.parent[node]
        if isinstance(parent, _TAKERS):
            return None
        if isinstance(parent, ast.IfExp | ast.BoolOp | ast.Starred | ast.NamedExpr):
            if isinstance(parent, ast.IfExp) and node is parent.test:
                return "{} is never awaited, so it is always true."
            if isinstance(parent, ast.NamedExpr):
                return self._wrong_variable(parent.target) or self._wrong(parent)
            return self._wrong(parent)
        if isinstance(parent, ast.Expr):
            return "{} is never awaited, so it never runs."
        if isinstance(parent, ast.Call):
            return self._wrong_argument(parent)
        if isinstance(parent, ast.keyword):
            above = self.scope.parent[parent]
            return self._wrong_argument(above) if isinstance(above, ast.Call) else None
        if isinstance(parent, ast.Return):
            owner = self.scope.enclosing(parent)
            if owner is not None and owner.is_async:
                return "{} is returned without being awaited."
            return None
        if isinstance(parent, ast.Assign):
            wrong = [self._wrong_variable(target) for target in parent.targets if isinstance(target, ast.Name)]
            if any(isinstance(target, ast.Tuple | ast.List) for target in parent.targets):
                return "{} is not awaited, so it can't be unpacked."
            return next((message for message in wrong if message), None)
        if isinstance(parent, ast.AnnAssign) and isinstance(parent.target, ast.Name):
            return self._wrong_variable(parent.target)
        if isinstance(parent, ast.Lambda | ast.AnnAssign | ast.Dict):
            return self._wrong_payload(parent) if isinstance(parent, ast.Dict) else None
        return "{} is used without being awaited."

    def _wrong_payload(self, node: ast.Dict) -> str | None:
        above: ast.AST = node
        while isinstance(above, ast.Dict | ast.List):
            above = self.scope.parent[above]
        method = self.scope.ctx_call(above)
        if method is not None and method.method == "run":
            return "{} is in a payload without being awaited."
        owner = self.scope.enclosing(node)
        if isinstance(above, ast.Return) and owner is not None and owner.is_async:
            return "{} is returned without being awaited."
        return None

    def _wrong_argument(self, call: ast.Call) -> str | None:
        method = self.scope.ctx_call(call)
        if method is not None:
            if method.method in ("parallel", "race"):
                return ALONE if isinstance(call.args[0], ast.Call) else None
            return "{} is passed to `ctx." + method.method + "` without being awaited."
        if isinstance(call.func, ast.Attribute):
            return None if call.func.attr in KEEPERS else "{} is used without being awaited."
        if isinstance(call.func, ast.Name) and self.scope.bindings(call.func) is None:
            return "{} is used without being awaited."
        return None

    def _wrong_variable(self, target: ast.Name) -> str | None:
        """A variable that holds a coroutine has to be awaited, or kept, somewhere."""
        home = self.scope.homes[target]
        if home is None:
            return None
        loads = [
            name
            for name in self.scope.names[target.id]
            if self.scope.homes[name] is home and isinstance(name.ctx, ast.Load)
        ]
        if not loads:
            return "{} is never awaited, so it never runs."
        if (home, target.id) in self._open:
            return None
        self._open.add((home, target.id))
        uses = [self._use(name) for name in loads]
        self._open.discard((home, target.id))
        if True in uses or False not in uses:
            return None
        return "{} is used through `" + target.id + "` without being awaited."

    def _use(self, name: ast.Name) -> bool | None:
        """Whether a use of a variable leads its coroutine to an `await`: yes, no, or it doesn't matter (None)."""
        parent = self.scope.parent[name]
        if isinstance(parent, ast.Compare | ast.If | ast.While | ast.UnaryOp | ast.Dict):
            return None if not isinstance(parent, ast.Dict) or self._wrong_payload(parent) is None else False
        return self._wrong(name) is None
