"""How large a JSON value can be by its schema, in bytes of canonical JSON; None when the schema doesn't say.

An upper bound: a character is counted as six bytes (`\\u0000`), a number as 25. What a schema leaves open has no bound,
and the broker's own limit on payloads and results counts.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

CHARACTER: Final = 6
NUMBER: Final = 25
DEPTH: Final = 64


def largest(schema: object, depth: int = 0) -> int | None:
    """Return the most bytes that a value may have which fits a schema."""
    if depth > DEPTH or not isinstance(schema, Mapping):
        return 0 if schema is False else None
    found = [size for size in _each(schema, depth) if size is not None]
    return min(found) if found else None


def _each(schema: Mapping[str, Any], depth: int) -> list[int | None]:
    """Return a bound from each keyword that gives one: all of them hold, so the least counts."""
    found: list[int | None] = [largest(each, depth + 1) for each in schema.get("allOf", ())]
    for keyword in ("anyOf", "oneOf"):
        if schema.get(keyword):
            found.append(_most([largest(each, depth + 1) for each in schema[keyword]]))
    if "const" in schema:
        found.append(_bytes(schema["const"]))
    if isinstance(schema.get("enum"), list | tuple):
        found.append(_most([_bytes(value) for value in schema["enum"]]))
    kinds = schema.get("type")
    if kinds is not None:
        listed = kinds if isinstance(kinds, list | tuple) else [kinds]
        found.append(_most([_kind(schema, kind, depth) for kind in listed]))
    return found


def _most(sizes: list[int | None]) -> int | None:
    known = [size for size in sizes if size is not None]
    return max(known) if known and len(known) == len(sizes) else None


def _kind(schema: Mapping[str, Any], kind: str, depth: int) -> int | None:
    match kind:
        case "null" | "boolean":
            return 5
        case "integer" | "number":
            return NUMBER
        case "string":
            length = schema.get("maxLength")
            return None if length is None else 2 + CHARACTER * int(length)
        case "array":
            items = schema.get("maxItems")
            each = 0 if items == 0 else largest(schema.get("items"), depth + 1)
            return None if items is None or each is None else 2 + int(items) * (each + 1)
        case "object":
            return _object(schema, depth)
        case _:
            return None


def _object(schema: Mapping[str, Any], depth: int) -> int | None:
    if schema.get("additionalProperties") is not False or schema.get("patternProperties"):
        return None
    total = 2
    for name, below in schema.get("properties", {}).items():
        size = largest(below, depth + 1)
        if size is None:
            return None
        total += _bytes(name) + 2 + size
    return total


def _bytes(value: object) -> int:
    from addendum.canon import canonical

    return len(canonical(value))
