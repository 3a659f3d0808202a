"""Which trees certainly compile, so that the compiler, which costs as much as the parser, isn't asked.

`compile()` finds what the grammar doesn't: a `return` outside a function, a `nonlocal` without a binding, two
parameters of one name. `certain` knows none of these errors; it knows the plain forms in which none of them can
stand. It is true only for trees made of those, and whoever gets False has to ask the compiler.
"""

from __future__ import annotations

import ast
from typing import Final

from addendum.script.scope import Names, Scope

MAX_DEPTH: Final = 60
"""Deeper trees are the compiler's business: it has limits on recursion, and on blocks that nest."""
MAX_BLOCKS: Final = 6
"""CPython's compiler nests up to 20 blocks; a `try` takes up to three, a loop one."""

_PLAIN: Final[frozenset[type[ast.AST]]] = frozenset(
    {
        *(ast.FunctionDef, ast.AsyncFunctionDef, ast.Lambda, ast.arg, ast.Return, ast.Assign, ast.AugAssign),
        *(ast.AnnAssign, ast.For, ast.While, ast.If, ast.Try, ast.ExceptHandler, ast.Raise, ast.Assert, ast.Expr),
        *(ast.Pass, ast.Break, ast.Continue, ast.Import, ast.alias, ast.BoolOp, ast.BinOp, ast.UnaryOp, ast.IfExp),
        *(ast.Dict, ast.Set, ast.ListComp, ast.SetComp, ast.DictComp, ast.GeneratorExp, ast.comprehension),
        *(ast.Await, ast.Compare, ast.Call, ast.keyword, ast.FormattedValue, ast.JoinedStr, ast.Constant),
        *(ast.Attribute, ast.Subscript, ast.Starred, ast.Name, ast.List, ast.Tuple, ast.Slice),
    }
)
_ANNOTATIONS: Final = (ast.Name, ast.Constant, ast.Subscript, ast.Attribute, ast.BinOp, ast.BitOr, ast.Tuple, ast.Load)
_FUNCTIONS: Final = (ast.FunctionDef, ast.AsyncFunctionDef, ast.Lambda)
_BLOCKS: Final = (ast.For, ast.While, ast.Try)


def certain(scope: Scope, text: str) -> bool:
    """Whether a tree that the parser made certainly compiles; False when that isn't known."""
    index = scope.index
    return (
        scope.depth <= MAX_DEPTH
        and index.keys() <= _PLAIN
        and not _debug(scope, text)
        and _functions(scope)
        and all(_awaits(scope.frames[node], node, scope) for node in index.get(ast.Await, ()))
        and all(scope.frames[node].kind == "f" for node in index.get(ast.Return, ()))
        and all(_in_loop(scope, node) for kind in (ast.Break, ast.Continue) for node in index.get(kind, ()))
        and all(_distinct(node) for node in index.get(ast.Call, ()))
        and all(_spreads(scope, node) for node in index.get(ast.Starred, ()))
        and all(node.type is not None for node in index.get(ast.ExceptHandler, ()))  # type: ignore[attr-defined]
        and all(not node.is_async for node in index.get(ast.comprehension, ()))  # type: ignore[attr-defined]
        and all(_annotation(node.annotation) for node in index.get(ast.AnnAssign, ()))  # type: ignore[attr-defined]
        and all(_annotation(node.annotation) for node in index.get(ast.arg, ()))  # type: ignore[attr-defined]
        and _blocks(scope)
    )


def _debug(scope: Scope, text: str) -> bool:
    """Whether `__debug__`, which nothing may bind, is named, also in letters that are read as those."""
    if text.isascii():
        return "__debug__" in text
    bound = [frame.bindings for frame in (scope.module, *scope.inner.values())]
    attributes = [node.attr for node in scope.index.get(ast.Attribute, ())]  # type: ignore[attr-defined]
    words = [node.arg for node in scope.index.get(ast.keyword, ())]  # type: ignore[attr-defined]
    return "__debug__" in scope.names or any("__debug__" in names for names in (*bound, attributes, words))


def _functions(scope: Scope) -> bool:
    """No two parameters of one name, and annotations that are types."""
    for function in scope.functions:
        if len(set(function.params)) != len(function.params) or not _annotation(function.node.returns):
            return False
        if getattr(function.node, "type_params", None):
            return False
    for node in scope.index.get(ast.Lambda, ()):
        spec: ast.arguments = node.args  # type: ignore[attr-defined]
        params = [*spec.posonlyargs, *spec.args, *spec.kwonlyargs, *filter(None, (spec.vararg, spec.kwarg))]
        if len({param.arg for param in params}) != len(params):
            return False
    return True


def _annotation(node: ast.expr | None) -> bool:
    return node is None or type(node) is ast.Name or all(isinstance(part, _ANNOTATIONS) for part in ast.walk(node))


def _awaits(frame: Names, node: ast.AST, scope: Scope) -> bool:
    """Whether an await stands in an async function itself, or in a list, set or dict comprehension of one."""
    if frame.kind == "c" and frame.parent is not None and not isinstance(frame.node, ast.GeneratorExp):
        frame = frame.parent
    return frame.kind == "f" and isinstance(frame.node, ast.AsyncFunctionDef)


def _in_loop(scope: Scope, node: ast.AST) -> bool:
    """Whether a loop's body is around a `break` or `continue`, in the same function."""
    above = scope.parent.get(node)
    while above is not None and not isinstance(above, _FUNCTIONS):
        if isinstance(above, ast.For | ast.While) and node in above.body:
            return True
        node, above = above, scope.parent.get(above)
    return False


def _distinct(node: ast.AST) -> bool:
    """Whether no keyword of a call is repeated."""
    words = node.keywords  # type: ignore[attr-defined]
    return len(words) < 2 or len({word.arg for word in words}) == len(words)


def _spreads(scope: Scope, node: ast.AST) -> bool:
    """Whether a star spreads something into a call or a display; where it is a target it has more rules."""
    return isinstance(node.ctx, ast.Load) and isinstance(  # type: ignore[attr-defined]
        scope.parent[node], ast.Call | ast.List | ast.Tuple | ast.Set
    )


def _blocks(scope: Scope) -> bool:
    """Whether loops and `try` statements nest less deeply than any compiler allows."""
    for kind in _BLOCKS:
        for node in scope.index.get(kind, ()):
            count = 0
            above: ast.AST | None = node
            while above is not None and not isinstance(above, _FUNCTIONS):
                count += isinstance(above, _BLOCKS)
                above = scope.parent.get(above)
            if count > MAX_BLOCKS:
                return False
    return True
