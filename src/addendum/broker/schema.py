"""Checking payloads and results against a capability's JSON Schema, without remote references."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

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


class Schemas:
    """Compiled schemas by identity of their mapping. One that is no schema is `ConfigError` when it is compiled."""

    def __init__(self) -> None:
        self._compiled: dict[int, tuple[Schema, Validator]] = {}

    def problem(self, schema: Schema, value: Any) -> str:
        """Return what is wrong with a value in one sentence, "" if nothing is."""
        if not schema:
            return ""
        validator = self._validator(schema)
        if fits(schema, value):
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
        if schema:
            self._validator(schema)

    def _validator(self, schema: Schema) -> Validator:
        found = self._compiled.get(id(schema))
        if found is None:
            kind = jsonschema.validators.validator_for(schema, default=jsonschema.Draft202012Validator)
            try:
                kind.check_schema(dict(schema))
            except jsonschema.SchemaError as error:
                raise ConfigError(
                    f"This is no JSON Schema: {error.message}.", hint="Mend the capability's schema."
                ) from None
            # An empty registry that retrieves nothing: a remote reference is an error, never a request.
            found = self._compiled[id(schema)] = (schema, kind(schema, registry=Registry()))
        return found[1]


def fits(schema: object, value: object) -> bool:
    """Whether a value surely fits a schema of the most frequent kind; False leaves it to the validator, which is slow.

    That is an object of plain values without other constraints, as a function's annotations make it.
    """
    if not isinstance(schema, Mapping) or not _KNOWN.issuperset(schema):
        return False
    kind = schema.get("type")
    if kind != "object":
        return isinstance(kind, str) and type(value) in _PLAIN.get(kind, ()) and _OBJECT.isdisjoint(schema)
    if type(value) is not dict:
        return False
    properties = schema.get("properties", {})
    if schema.get("additionalProperties", True) is not True and not properties.keys() >= value.keys():
        return False
    if not all(name in value for name in schema.get("required", ())):
        return False
    return all(name not in properties or fits(properties[name], item) for name, item in value.items())
