"""The facts of a report: callsites, loops and fan-outs with their bounds, the worst case per capability."""

from __future__ import annotations

import ast
from functools import cache

from addendum.script.bounds import Bounds
from addendum.script.influence import analyse
from addendum.script.report import Bounded, Callsite, Facts
from addendum.script.scope import Scope

_LOOPS = (ast.For, ast.While, ast.ListComp, ast.SetComp, ast.DictComp, ast.GeneratorExp)
_KINDS: dict[type[ast.AST], str] = {ast.For: "for", ast.While: "while"}


def gather(scope: Scope, bounds: Bounds) -> Facts:
    """Return the facts in source order. A loop is pure when nothing in it is a counted call."""
    sites = []
    for call, worst in bounds.calls_per_run.items():
        method = scope.ctx_call(call)
        if method is not None and method.capability is not None:
            sites.append(Callsite(method.capability, call.lineno, call.col_offset + 1, worst))
    counted = _around_calls(scope)
    loops = []
    fanouts = []
    for kind in _LOOPS:
        for node in scope.index.get(kind, ()):
            pure = node not in counted
            if pure and kind not in _KINDS:
                continue  # a pure comprehension is no loop that anyone asks for
            name = _KINDS.get(kind, "comprehension")
            line, column = node.lineno, node.col_offset + 1  # type: ignore[attr-defined]
            loops.append(Bounded(name, line, column, bounds.loops.get(node), pure))
    for call, width in bounds.fanouts.items():
        method = scope.ctx_call(call)
        name = method.method if method is not None else "parallel"
        fanouts.append(Bounded(name, call.lineno, call.col_offset + 1, width))
    loops.sort(key=lambda loop: (loop.line, loop.column))
    fanouts.sort(key=lambda fanout: (fanout.line, fanout.column))
    sites.sort(key=lambda site: (site.line, site.column))
    # Most checks never ask how results steer the script, and the answer costs as much as all the rules.
    flows = cache(lambda: analyse(scope, bounds))
    return Facts(tuple(sites), tuple(loops), tuple(fanouts), dict(sorted(bounds.worst_case.items())), flows)


def _around_calls(scope: Scope) -> set[ast.AST]:
    """Every node that has a counted call in it."""
    found: set[ast.AST] = set()
    for call in scope.index.get(ast.Call, ()):
        if isinstance(call, ast.Call) and scope.counted(call):
            node: ast.AST | None = call
            while node is not None and node not in found:
                found.add(node)
                node = scope.parent.get(node)
    return found
