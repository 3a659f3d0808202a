"""A server's schemas as we use them: bounded where they are open, and never dearer to check than a value is large.

A server writes both its output schema and its results, so a schema is a program that it has us run. What can take long
isn't checked here: regular expressions, uniqueness, recursion, more alternatives than `NODES`. The server checks those.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from addendum.canon import Json

NODES: Final = 5000
"""Parts of a schema with its references written out: the most that one part of a value is held against."""
_VALUES: Final = frozenset({"const", "enum", "default", "examples", "required", "type", "title", "description"})
_ALONE: Final = frozenset({"properties", "items", "prefixItems"})
_NAMED: Final = frozenset({"properties", "patternProperties", "$defs", "definitions", "dependentSchemas"})
_OPEN: Final = frozenset(
    {"additionalProperties", "unevaluatedProperties", "patternProperties", "allOf", "anyOf", "oneOf", "if", "$ref"}
)
_DEAR: Final = frozenset({"pattern", "patternProperties", "propertyNames", "uniqueItems", "contains", "$dynamicRef"})
_CLOSING: Final = frozenset({"additionalProperties", "unevaluatedProperties"})


def bounded(schema: Mapping[str, Any], most: int) -> dict[str, Json]:
    """Return an input schema that bounds every text and list, where it didn't, by what a payload of `most` bytes can
    hold; and that takes no other properties than it names, where it names some and doesn't say."""
    found: Any = _bounded(checked(schema), most, True)
    return {"type": "object", **found}


def checked(schema: Mapping[str, Any]) -> dict[str, Json]:
    """Return a schema with only what is quick to check; an empty one, that takes anything, where it recurs or is too
    large with its references written out."""
    found: Any = _quick(dict(schema))
    return found if _nodes(found, found, ()) <= NODES else {}


def _quick(value: Any, named: bool = False) -> Any:
    if isinstance(value, list):
        return [_quick(each) for each in value]
    if not isinstance(value, Mapping):
        return value
    if named:  # the keys are names, not keywords
        return {name: _quick(each) for name, each in value.items()}
    dropped = _DEAR | (_CLOSING if "patternProperties" in value else frozenset())
    return {
        key: each if key in _VALUES else _quick(each, key in _NAMED)
        for key, each in value.items()
        if key not in dropped
    }


def _nodes(value: Any, root: Any, inside: tuple[str, ...]) -> int:
    """Count the parts of a schema, a reference as what it refers to. More than `NODES` for one that recurs."""
    count = 1
    parts = value.items() if isinstance(value, Mapping) else enumerate(value) if isinstance(value, list) else ()
    for key, each in parts:
        if key == "$ref" and isinstance(each, str):
            if each in inside or len(inside) > NODES:
                return NODES + 1
            count += _nodes(_at(root, each), root, (*inside, each))
        elif key not in _VALUES and key not in ("$defs", "definitions"):
            count += _nodes(each, root, inside)
        if count > NODES:
            return count
    return count


def _at(root: Any, reference: str) -> Any:
    """Return what a reference of the form `#/$defs/NAME` refers to; the root for `#`, and for any other form."""
    found = root
    for part in reference.removeprefix("#").split("/")[1:]:
        key = part.replace("~1", "/").replace("~0", "~")
        if not isinstance(found, Mapping) or key not in found:
            return root
        found = found[key]
    return found


def _bounded(value: Any, most: int, closing: bool) -> Any:
    """`closing` is whether this schema alone says what an object may have: not so inside of `allOf` and the like."""
    if isinstance(value, list):
        return [_bounded(each, most, closing) for each in value]
    if not isinstance(value, Mapping):
        return value
    found = {
        key: each if key in _VALUES else _below(key, each, most, closing and key in _ALONE)
        for key, each in value.items()
    }
    kinds = found.get("type")
    kinds = kinds if isinstance(kinds, list) else [kinds]
    if "string" in kinds and not {"maxLength", "enum", "const"} & set(found):
        found["maxLength"] = most
    if "array" in kinds and "maxItems" not in found:
        found["maxItems"] = most // 2
    if closing and "object" in kinds and "properties" in found and not _OPEN & set(found):
        found["additionalProperties"] = False
    return found


def _below(key: str, value: Any, most: int, closing: bool) -> Any:
    if key in _NAMED and isinstance(value, Mapping):
        return {name: _bounded(each, most, closing) for name, each in value.items()}
    return _bounded(value, most, closing)
