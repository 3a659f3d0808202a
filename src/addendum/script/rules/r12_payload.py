"""Payloads and results are JSON values; payloads are within the size limit.

## What it does
Looks at the second argument of `ctx.run` and at what `orchestrate` returns, and refuses what can't be JSON
wherever that shows in the source: sets, bytes, lambdas, keys that aren't text, NaN and infinities, integers
beyond 2^53. Where the schemas of the capabilities are known, what is written out of a payload is held against its
own: a key that is missing or that it doesn't have, a type, a value that isn't one of a list. That is a warning; the
whole payload is held against the schema when the call is made.

## Why is this bad?
A payload is compared with the recorded one by the digest of its JSON. What JSON can't say can't be recorded,
compared or served again.

## Use instead
A dict with string keys, made of dicts, lists, texts, numbers, booleans and None. Send a set as `sorted(names)`,
a large number as text.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator

from addendum.script.report import Violation
from addendum.script.rules import inputs
from addendum.script.rules.subject import Subject
from addendum.script.scope import Function

ID = "R12"
TITLE = "Payloads and results are JSON"

MAX_INT = 2**53 - 1
_NO_DICT = (
    ast.List,
    ast.Tuple,
    ast.Set,
    ast.ListComp,
    ast.SetComp,
    ast.GeneratorExp,
    ast.Lambda,
    ast.JoinedStr,
    ast.Constant,
)
_NOT_JSON: dict[type[ast.AST], tuple[str, str]] = {
    ast.Set: ("a set", "Write `sorted(...)` or a list."),
    ast.SetComp: ("a set", "Write a list comprehension."),
    ast.Lambda: ("a function", "Send a value."),
    ast.GeneratorExp: ("a generator", "Write a list comprehension."),
}
_MAKERS = {
    "set": ("a set", "Write `sorted(...)` instead."),
    "frozenset": ("a set", "Write `sorted(...)` instead."),
    "range": ("a range", "Write `list(range(...))`."),
    **dict.fromkeys(
        ("map", "filter", "zip", "enumerate", "reversed", "iter"), ("an iterator", "Write `list(...)` around it.")
    ),
}


def check(subject: Subject) -> Iterator[Violation]:
    """Yield what can't be JSON in payloads and in what `orchestrate` returns."""
    for call in subject.bounds.calls_per_run:
        if len(call.args) > 1:
            yield from _payload(subject, call.args[1])
    for node in subject.nodes(ast.Return):
        function = subject.scope.enclosing(node)
        if function is not None and function is subject.scope.orchestrate and node.value is not None:
            yield from _value(subject, node.value, "result")
    yield from inputs.check(subject)


def _payload(subject: Subject, node: ast.expr) -> Iterator[Violation]:
    seen = _behind(subject, node)
    if isinstance(seen, _NO_DICT) or _sure_list(seen):
        yield subject.violation(
            ID, node, "The payload {} is no JSON object.", 'Write a dict with string keys, such as `{"prompt": text}`.'
        )
        return
    size = _literal_size(seen)
    if size > subject.limits.max_payload_bytes:
        yield subject.violation(
            ID,
            node,
            f"The payload {{}} has {size:,} bytes of literal text; the limit is {subject.limits.max_payload_bytes:,}.",
            "Shorten it, or send a reference.",
        )
    yield from _value(subject, seen, "payload")


def _behind(subject: Subject, node: ast.expr) -> ast.expr:
    """The display that a name stands for, when that is its only value."""
    if isinstance(node, ast.Name):
        bound = subject.scope.bindings(node)
        if bound is not None and len(bound) == 1 and isinstance(bound[0], ast.expr):
            return bound[0]
    return node


def _sure_list(node: ast.expr) -> bool:
    return (
        isinstance(node, ast.Call)
        and isinstance(node.func, ast.Name)
        and node.func.id in ("list", "sorted", "str", "int", "len")
    )


def _integer(node: ast.expr) -> int | None:
    """The value of a small integer expression of constants."""
    if isinstance(node, ast.Constant) and isinstance(node.value, int):
        return node.value
    if isinstance(node, ast.BinOp) and isinstance(node.op, ast.Pow | ast.Mult):
        left, right = _integer(node.left), _integer(node.right)
        if left is not None and right is not None and abs(left) <= 10**6 and 0 <= right <= (64 if left > 1 else 10**6):
            return left**right if isinstance(node.op, ast.Pow) else left * right
    return None


def _literal_size(node: ast.expr) -> int:
    """The bytes that an expression has as JSON at least, as far as its literal text and displays say."""
    if isinstance(node, ast.Dict):
        parts = [*[key for key in node.keys if key is not None], *node.values]
        return sum(_literal_size(part) for part in parts) + 2
    inside = _inside(node)
    return inside + 2 if inside or isinstance(node, ast.List | ast.Tuple | ast.JoinedStr) else 0


def _inside(node: ast.expr) -> int:
    """The same without the quotes or brackets, which a text or a list has once, however it is put together."""
    if isinstance(node, ast.List | ast.Tuple):
        return sum(_literal_size(part) + 1 for part in node.elts)
    if isinstance(node, ast.Constant) and isinstance(node.value, str):
        return len(node.value.encode("utf-8", "surrogatepass"))
    if isinstance(node, ast.BinOp) and isinstance(node.op, ast.Mult):
        for text, times in ((node.left, node.right), (node.right, node.left)):
            count = _integer(times)
            if count is not None:
                return _inside(text) * max(0, count)
    if isinstance(node, ast.BinOp) and isinstance(node.op, ast.Add):
        return _inside(node.left) + _inside(node.right)
    if isinstance(node, ast.JoinedStr):
        return sum(_inside(part) for part in node.values)
    return 0


def _value(subject: Subject, node: ast.expr, where: str) -> Iterator[Violation]:
    """Walk displays, arms and values; what is computed otherwise is checked at the call."""
    problem = _problem(subject, node)
    if problem is not None:
        what, fix = problem
        yield subject.violation(ID, node, f"{{}} in a {where} is {what}, which JSON can't say.", fix)
        return
    if isinstance(node, ast.Dict):
        for key, value in zip(node.keys, node.values, strict=True):
            if key is not None and _bad_key(key):
                yield subject.violation(
                    ID, key, f"The key {{}} in a {where} is no text.", "Write it as a string, or as `str(key)`."
                )
            yield from _value(subject, value, where)
    elif isinstance(node, ast.List | ast.Tuple):
        for part in node.elts:
            yield from _value(subject, part, where)
    elif isinstance(node, ast.IfExp):
        yield from _value(subject, node.body, where)
        yield from _value(subject, node.orelse, where)
    elif isinstance(node, ast.BoolOp):
        for part in node.values:
            yield from _value(subject, part, where)
    elif isinstance(node, ast.ListComp):
        yield from _value(subject, node.elt, where)
    elif isinstance(node, ast.DictComp):
        if _bad_key(node.key):
            yield subject.violation(ID, node.key, f"The key {{}} in a {where} is no text.", "Write `str(key)`.")
        yield from _value(subject, node.value, where)
    elif isinstance(node, ast.Starred):
        yield from _value(subject, node.value, where)


def _problem(subject: Subject, node: ast.expr) -> tuple[str, str] | None:
    found = _NOT_JSON.get(type(node))
    if found is not None:
        return found
    if isinstance(node, ast.Constant):
        value = node.value
        if isinstance(value, bytes):
            return "bytes", "Write text without the `b`."
        if isinstance(value, complex) or value is ...:
            return "no JSON value", "Write a number or None."
        if isinstance(value, int) and not isinstance(value, bool) and abs(value) > MAX_INT:
            return "beyond 2^53", "Write it as a string."
        if isinstance(value, float) and (value != value or value in (float("inf"), float("-inf"))):
            return "no finite number", "Write None or a string."
    if isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and subject.scope.bindings(node.func) is None:
        if node.func.id in _MAKERS:
            return _MAKERS[node.func.id]
        if node.func.id == "float" and node.args and isinstance(node.args[0], ast.Constant):
            text = str(node.args[0].value).strip().lower().lstrip("+-")
            if text in ("nan", "inf", "infinity"):
                return "no finite number", "Write None or a string."
    if isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute) and node.func.attr == "encode":
        return "bytes", "Send the text itself."
    if isinstance(node, ast.Attribute) and isinstance(node.value, ast.Name) and node.value.id == "math":
        if node.attr in ("nan", "inf"):
            return "no finite number", "Write None or a string."
    if isinstance(node, ast.UnaryOp):
        return _problem(subject, node.operand)
    if isinstance(node, ast.Name):
        bound = subject.scope.bindings(node)
        if bound and all(isinstance(value, Function | ast.Lambda) for value in bound):
            return "a function", "Send a value."
        if bound and len(bound) == 1 and isinstance(bound[0], ast.Set | ast.SetComp):
            return "a set", "Write `sorted(...)` around it."
        if node.id == "ctx":
            return "the context", "Send a value."
    return None


def _bad_key(node: ast.expr) -> bool:
    if isinstance(node, ast.Constant):
        return not isinstance(node.value, str)
    return isinstance(node, ast.Tuple | ast.List | ast.Lambda | ast.Dict | ast.Set) or (
        isinstance(node, ast.UnaryOp) and not isinstance(node.op, ast.Not)
    )
