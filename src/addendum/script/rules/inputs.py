"""Whether a payload that is written out fits its capability's input schema (part of R12).

The schema is held against the payload when the call is dispatched, whatever this finds: here only literals are seen,
and only keywords that need no more than one look. So what is found is a warning, early enough to cost nothing.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator, Mapping
from typing import Any, Final

from addendum.script.report import Violation
from addendum.script.rules.subject import Subject

_OPEN: Final = frozenset({"$ref", "$dynamicRef", "allOf", "anyOf", "oneOf", "not", "if", "patternProperties"})
"""Keywords that make more of a schema than what is looked at here."""
_UNKNOWN: Final = object()
_MAX_DEPTH: Final = 20


def check(subject: Subject) -> Iterator[Violation]:
    """Yield what a payload has or lacks against its capability's schema; nothing without schemas."""
    inputs = subject.inputs
    for call in subject.bounds.calls_per_run if inputs else ():
        method = subject.scope.ctx_call(call)
        schema = inputs.get(method.capability or "") if method is not None and inputs else None
        if method is None or schema is None or len(call.args) < 2:
            continue
        for node, problem, path in _value(call.args[1], schema, "#", 0):
            yield subject.violation(
                "R12",
                node,
                f"{{}} doesn't fit the input of `{method.capability}`: {problem} ({path}).",
                f"Write what its schema asks for: `addendum catalog show {method.capability} --json`.",
                severity="warning",
            )


def _value(node: ast.expr, schema: Any, path: str, depth: int) -> Iterator[tuple[ast.expr, str, str]]:
    """Yield (node, what is wrong, where in the schema)."""
    if not isinstance(schema, Mapping) or depth > _MAX_DEPTH or not _OPEN.isdisjoint(schema):
        return
    wanted = schema.get("type")
    kinds = _kinds(node)
    if isinstance(wanted, str | list) and kinds:
        names = [wanted] if isinstance(wanted, str) else wanted
        if kinds.isdisjoint(names):
            yield node, f"it is {_shown(kinds)}, not {' or '.join(map(str, names))}", f"{path}/type"
            return
    value = _literal(node)
    if value is not _UNKNOWN:
        yield from _constant(node, value, schema, path)
    elif isinstance(node, ast.Dict):
        yield from _object(node, schema, path, depth)
    elif isinstance(node, ast.List) and "prefixItems" not in schema:
        for part in node.elts:
            yield from _value(part, schema.get("items"), f"{path}/items", depth + 1)


def _object(node: ast.Dict, schema: Mapping[str, Any], path: str, depth: int) -> Iterator[tuple[ast.expr, str, str]]:
    known = {
        key.value: value
        for key, value in zip(node.keys, node.values, strict=True)
        if isinstance(key, ast.Constant) and isinstance(key.value, str)
    }
    properties = schema.get("properties")
    properties = properties if isinstance(properties, Mapping) else {}
    required = schema.get("required")
    if len(known) == len(node.keys) and isinstance(required, list):
        missing = [name for name in required if name not in known]
        if missing:
            yield node, f"it lacks {', '.join(f'`{name}`' for name in missing)}", f"{path}/required"
    for name, value in known.items():
        if name in properties:
            yield from _value(value, properties[name], f"{path}/properties/{_pointer(name)}", depth + 1)
        elif schema.get("additionalProperties") is False:
            allowed = ", ".join(f"`{each}`" for each in list(properties)[:8])
            yield node, f"`{name}` is none of {allowed or 'its properties'}", f"{path}/additionalProperties"


def _constant(node: ast.expr, value: Any, schema: Mapping[str, Any], path: str) -> Iterator[tuple[ast.expr, str, str]]:
    choices = schema.get("enum")
    if isinstance(choices, list) and not any(_same(value, each) for each in choices):
        shown = ", ".join(f"`{each}`" for each in choices[:8])
        yield node, f"it is none of {shown}", f"{path}/enum"
    if "const" in schema and not _same(value, schema["const"]):
        yield node, f"it isn't `{schema['const']}`", f"{path}/const"
    number: int | float | None = value if isinstance(value, int | float) and not isinstance(value, bool) else None
    size = len(value) if isinstance(value, str) else None
    for keyword, actual, least, word in (
        ("minimum", number, True, "less than"),
        ("maximum", number, False, "more than"),
        ("minLength", size, True, "shorter than"),
        ("maxLength", size, False, "longer than"),
    ):
        limit = schema.get(keyword)
        if actual is None or not isinstance(limit, int | float) or isinstance(limit, bool):
            continue
        if actual < limit if least else actual > limit:
            yield node, f"it is {word} {limit}", f"{path}/{keyword}"


def _kinds(node: ast.expr) -> frozenset[str]:
    """The JSON types that an expression may have; none when that isn't known."""
    value = _literal(node)
    if value is None or isinstance(value, bool):
        return frozenset({"null" if value is None else "boolean"})
    if isinstance(value, int) or (isinstance(value, float) and value.is_integer()):
        return frozenset({"integer", "number"})
    if isinstance(value, float):
        return frozenset({"number"})
    if isinstance(value, str) or isinstance(node, ast.JoinedStr):
        return frozenset({"string"})
    if isinstance(node, ast.Dict | ast.DictComp):
        return frozenset({"object"})
    return frozenset({"array"}) if isinstance(node, ast.List | ast.Tuple | ast.ListComp) else frozenset()


def _shown(kinds: frozenset[str]) -> str:
    return "integer" if "integer" in kinds else next(iter(kinds))


def _literal(node: ast.expr) -> Any:
    """The value of a constant or a negative number; `_UNKNOWN` for anything else."""
    if isinstance(node, ast.UnaryOp) and isinstance(node.op, ast.USub) and isinstance(node.operand, ast.Constant):
        value = node.operand.value
        return -value if isinstance(value, int | float) and not isinstance(value, bool) else _UNKNOWN
    return node.value if isinstance(node, ast.Constant) else _UNKNOWN


def _same(value: Any, other: Any) -> bool:
    """Whether two JSON values are equal: `True` and `1` aren't."""
    return bool(value == other) and isinstance(value, bool) == isinstance(other, bool)


def _pointer(name: str) -> str:
    return name.replace("~", "~0").replace("/", "~1")
