"""The JSON Schema of an answer as models take it, and the answer held against it.

Providers want an object at the top (OpenAI, structured outputs; function parameters everywhere), so any other schema is
wrapped in one and its answer taken out again. A schema may come from a script: its references are never fetched.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any, Final

import jsonschema
from referencing import Registry

from addendum.canon import Json
from addendum.errors import CapabilityError

WRAPPED: Final = "value"


def form(schema: Mapping[str, Json]) -> dict[str, Any]:
    """Return the schema that a model is given. Raises `CapabilityError` (`invalid_input`) for what is no schema."""
    try:
        jsonschema.Draft202012Validator.check_schema(dict(schema))
    except jsonschema.SchemaError as error:
        raise CapabilityError("invalid_input", f"the answer's schema is none: {error.message[:200]}") from None
    if wraps(schema):
        rest = {name: value for name, value in schema.items() if name not in ("$defs", "definitions", "$schema")}
        found: dict[str, Any] = {
            "type": "object",
            "properties": {WRAPPED: rest},
            "required": [WRAPPED],
            "additionalProperties": False,
        }
        return found | {name: schema[name] for name in ("$defs", "definitions") if name in schema}
    return dict(schema)


def wraps(schema: Mapping[str, Json]) -> bool:
    """Whether a schema has something else than an object at the top."""
    return schema.get("type") != "object"


def taken(said: object, schema: Mapping[str, Json]) -> Json:
    """Return the value in a model's answer: a text, or what was said as JSON (a parsed value, or its text).

    Raises `ValueError` with one sentence when it is no JSON or doesn't fit its schema.
    """
    value: Any = _parsed(said) if schema and isinstance(said, str) else said
    if schema and wraps(schema):
        if not isinstance(value, dict) or set(value) != {WRAPPED}:
            raise ValueError("the answer isn't wrapped as it was asked to be")
        value = value[WRAPPED]
    return fitting(value, schema)


def fitting(value: Json, schema: Mapping[str, Json]) -> Json:
    """Return a value that fits a schema, a text where there is none. Raises `ValueError` with one sentence."""
    if not schema:
        if isinstance(value, str):
            return value
        raise ValueError("the answer is no text")
    validator = jsonschema.Draft202012Validator(dict(schema), registry=Registry())
    try:
        error = jsonschema.exceptions.best_match(validator.iter_errors(value))
    except Exception as broken:  # noqa: BLE001 - a reference that leads nowhere, a pattern that is none
        raise ValueError(f"the answer can't be held against its schema ({type(broken).__name__})") from None
    if error is not None:
        where = "/".join(str(part) for part in error.absolute_path) or "the top"
        raise ValueError(f"the answer doesn't fit its schema at {where}: {error.message[:200]}")
    return value


def _parsed(text: str) -> Any:
    """Models put a fence around JSON, whatever they are told."""
    body = text.strip()
    if body.startswith("```") and body.endswith("```"):
        body = body.removesuffix("```").partition("\n")[2]
    try:
        return json.loads(body)
    except (ValueError, RecursionError):
        raise ValueError("the answer is no JSON") from None
