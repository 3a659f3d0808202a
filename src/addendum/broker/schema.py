"""Checking payloads and results against a capability's JSON Schema, without remote references."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final, TypeAlias

import jsonschema
from jsonschema.protocols import Validator
from referencing import Registry

from addendum.errors import ConfigError

Schema = Mapping[str, Any]
_OBJECT: Final = frozenset({"properties", "required", "additionalProperties"})
_KNOWN: Final = _OBJECT | {"type", "title", "description", "default"}
_PLAIN: Final[Mapping[str, tuple[type, ...]]] = {
    "string": (str,),
    "integer": (int,),
    "number": (int, float),
    "boolean": (bool,),
}


@dataclass(frozen=True, slots=True)
class Shape:
    """An object of plain values without other constraints, as a function's annotations make it: its properties, each
    with what it is looked at by, and whether there may be `more` of them."""

    properties: Mapping[str, Look]
    required: tuple[str, ...]
    more: bool


Look: TypeAlias = "tuple[type, ...] | Shape | None"
"""What the values of a schema are looked at by, before the validator, which is slow: the types that they may have, or
their shape; None for what only the validator knows."""


class Schemas:
    """Compiled schemas by identity of their mapping. One that is no schema is `ConfigError` when it is compiled."""

    def __init__(self) -> None:
        self._compiled: dict[int, tuple[Schema, Validator, Look]] = {}

    def problem(self, schema: Schema, value: Any) -> str:
        """Return what is wrong with a value in one sentence, "" if nothing is."""
        if not schema:
            return ""
        _, validator, known = self._compiled.get(id(schema)) or self._compile(schema)
        if fits(known, value):
            return ""
        try:
            error = jsonschema.exceptions.best_match(validator.iter_errors(value))
        except Exception as broken:  # noqa: BLE001 - a reference that leads nowhere, a pattern that is none
            return f"it can't be held against its schema ({type(broken).__name__}: {broken})"[:300]
        if error is None:
            return ""
        where = "/".join(str(part) for part in error.absolute_path)
        message = error.message if len(error.message) <= 300 else error.message[:300] + "…"
        return f"at {where or 'the top'}: {message}"

    def compile(self, schema: Schema) -> None:
        """Raise `ConfigError` for what is no schema: before a call is sent, not when its result is there."""
        if schema and id(schema) not in self._compiled:
            self._compile(schema)

    def _compile(self, schema: Schema) -> tuple[Schema, Validator, Look]:
        kind = jsonschema.validators.validator_for(schema, default=jsonschema.Draft202012Validator)
        try:
            kind.check_schema(dict(schema))
        except jsonschema.SchemaError as error:
            raise ConfigError(
                f"This is no JSON Schema: {error.message}.", hint="Mend the capability's schema."
            ) from None
        # An empty registry that retrieves nothing: a remote reference is an error, never a request.
        found = self._compiled[id(schema)] = (schema, kind(schema, registry=Registry()), look(schema))
        return found


def look(schema: object) -> Look:
    """Return what values of a schema, which has to be one, are looked at by."""
    if not isinstance(schema, Mapping) or not _KNOWN.issuperset(schema):
        return None
    kind = schema.get("type")
    if kind != "object":
        return _PLAIN.get(kind) if isinstance(kind, str) and _OBJECT.isdisjoint(schema) else None
    properties = {name: look(each) for name, each in schema.get("properties", {}).items()}
    return Shape(properties, tuple(schema.get("required", ())), schema.get("additionalProperties", True) is True)


def fits(known: Look, value: object) -> bool:
    """Whether a value surely fits a schema; False leaves it to the validator."""
    if type(known) is tuple:
        return type(value) in known
    if type(known) is not Shape or type(value) is not dict:
        return False
    properties = known.properties
    for name in known.required:
        if name not in value:
            return False
    for name, item in value.items():
        if name in properties:
            if not fits(properties[name], item):
                return False
        elif not known.more:
            return False
    return True
