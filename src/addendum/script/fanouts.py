"""Which functions the branches of a fan-out run: what its fingerprint covers, beside its method (DESIGN section 3).

The list that a fan-out gets may change its length, its order of construction and its iterable without touching
the fingerprint; which functions its branches call may not. So the names are searched through list variables,
appends, comprehensions, wrappers and lambdas, and in the order in which they are first met: branches are told
apart by their index. The nodes of a dag are told apart by name, so there the order doesn't count.
"""

from __future__ import annotations

import ast
from typing import Final

from addendum.script.normal import digest
from addendum.script.scope import COUNTED, Function, Names, Scope

_GROWS: Final = {"append": 0, "extend": 0, "insert": 1, "add": 0, "setdefault": 1, "update": 0}


class Branches:
    """Answers for one script; what its lists grow by is collected at the first question."""

    def __init__(self, scope: Scope) -> None:
        self._scope = scope
        self._grown: dict[tuple[Names, str], list[ast.expr]] | None = None

    def fingerprint(self, call: ast.Call, method: str) -> str:
        """Return the fingerprint of a fan-out."""
        if method == "pipeline":
            names = [",".join(self._names([stage])) for stage in call.args[1:]]
        else:
            names = self._names([*call.args, *[word.value for word in call.keywords if word.arg != "return_errors"]])
        if method == "dag":
            names.sort()
        return digest(f"(fanout {method} [{' '.join(names)}])")

    def _names(self, roots: list[ast.expr]) -> list[str]:
        """Return the names of the functions and capabilities that the branches in some expressions call."""
        found: dict[str, None] = {}
        seen: set[ast.expr] = set()
        stack = roots[::-1]
        while stack:
            node = stack.pop()
            if node in seen:
                continue
            seen.add(node)
            if isinstance(node, ast.Call):
                below = self._call(node, found)
            elif isinstance(node, ast.Name):
                below = self._variable(node, found)
            else:
                below = _below(node)
            stack += below[::-1]
        return list(found)

    def _call(self, node: ast.Call, found: dict[str, None]) -> list[ast.expr]:
        """Note what a call calls; return the expressions whose calls belong to the same branch."""
        args = [*node.args, *[word.value for word in node.keywords]]
        made = self._scope.ctx_call(node)
        if made is not None:
            if made.method in COUNTED:
                found[made.capability or f"ctx.{made.method}"] = None
            return args if made.kind == "fanout" else []
        if isinstance(node.func, ast.Attribute):
            return [node.func.value, *args]
        values = self._scope.values(node.func) or []
        functions = [value for value in values if isinstance(value, Function)]
        for function in functions:
            if function.reaches:
                found[f"{function.name}()"] = None
        lambdas = [value.body for value in values if isinstance(value, ast.Lambda)]
        return lambdas + [arg for arg in args if not functions or self._called(arg)]

    def _called(self, arg: ast.expr) -> bool:
        """Whether an argument of a script function can hold a branch: a call, or a function handed over."""
        return isinstance(arg, ast.Call | ast.Lambda) or (isinstance(arg, ast.Name) and bool(self._scope.values(arg)))

    def _variable(self, name: ast.Name, found: dict[str, None]) -> list[ast.expr]:
        """Note a function that is named; return the expressions that a variable may hold or grow by."""
        home = self._scope.homes[name]
        if home is None:
            return []
        below: list[ast.expr] = []
        for binding in home.bindings[name.id]:
            if isinstance(binding, Function):
                if binding.reaches:
                    found[f"{binding.name}()"] = None
            elif isinstance(binding, ast.expr):
                below.append(binding)
        if self._grown is None:
            self._grown = _growth(self._scope)
        return below + self._grown.get((home, name.id), [])


def _below(node: ast.expr) -> list[ast.expr]:
    """Return the parts of an expression that hold branches: never an iterable, a condition or an await."""
    match node:
        case ast.List() | ast.Tuple() | ast.Set():
            return node.elts
        case ast.Dict():
            return node.values
        case ast.ListComp() | ast.SetComp() | ast.GeneratorExp():
            return [node.elt]
        case ast.DictComp():
            return [node.value]
        case ast.IfExp():
            return [node.body, node.orelse]
        case ast.BoolOp():
            return node.values
        case ast.BinOp():
            return [node.left, node.right]
        case ast.Lambda():
            return [node.body]
        case ast.Starred() | ast.Subscript() | ast.NamedExpr():
            return [node.value]
        case _:
            return []


def _growth(scope: Scope) -> dict[tuple[Names, str], list[ast.expr]]:
    """Return what each list or dict variable grows by: append and its kin, `+=`, `x[key] = value`."""
    grown: dict[tuple[Names, str], list[ast.expr]] = {}

    def note(target: ast.expr, value: ast.expr) -> None:
        if isinstance(target, ast.Name):
            home = scope.homes[target]
            if home is not None:
                grown.setdefault((home, target.id), []).append(value)

    for node in scope.index[ast.Call]:
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute) and node.func.attr in _GROWS:
            for value in node.args[_GROWS[node.func.attr] :]:
                note(node.func.value, value)
    for node in scope.index[ast.AugAssign]:
        if isinstance(node, ast.AugAssign):
            note(node.target, node.value)
    for node in scope.index[ast.Assign]:
        if isinstance(node, ast.Assign):
            for target in node.targets:
                if isinstance(target, ast.Subscript):
                    note(target.value, node.value)
    return grown
