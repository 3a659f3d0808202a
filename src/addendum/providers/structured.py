"""The kind `structured`: a language model answers with a value of one form, which the services file describes.

    [capability."facts.extract"]
    kind = "structured"
    model = "openai:gpt-5-mini"
    output = "schemas/facts.json"          # or the JSON Schema itself, as a table
    system = "Extract the facts of a text. Invent nothing."

`{"prompt": "…"}` gives a value that fits the schema: the result is the value itself.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Literal

import jsonschema
from pydantic import Field

from addendum.canon import Json
from addendum.errors import ConfigError
from addendum.ports import Message, Reply, Request
from addendum.providers import asking
from addendum.providers.asking import ModelService, ModelSpec
from addendum.providers.service import Service, Tools

LARGEST = 256 * 1024
"""Bytes of a schema's file."""


class Spec(ModelSpec):
    """What the services file says of a structured service."""

    kind: Literal["structured"] = Field(description="`structured`.")
    output: str | dict[str, Any] = Field(description="The answer's JSON Schema: a table, or a file beside this one.")


class Structured(ModelService):
    """The service."""

    def __init__(self, name: str, spec: Spec, tools: Tools) -> None:
        self._schema = schema_of(name, spec.output, tools.folder)
        super().__init__(
            name,
            spec,
            tools,
            input={
                "type": "object",
                "properties": {"prompt": {"type": "string", "minLength": 1, "maxLength": spec.max_input}},
                "required": ["prompt"],
                "additionalProperties": False,
            },
            output=dict(self._schema),
            about="Answer in a given form.",
        )

    async def dispatch(self, request: Request) -> Reply:
        """Ask the model once."""
        messages = [Message("user", asking.payload(request)["prompt"])]
        return await self._asker.ask(request, messages, schema=self._schema)


def open(name: str, spec: Spec, tools: Tools) -> Service:
    """Open a structured service. Raises `ConfigError`."""
    return Structured(name, spec, tools)


def schema_of(name: str, given: str | Mapping[str, Any], folder: Path) -> Mapping[str, Json]:
    """Return a schema that stands in the file or in one beside it. Raises `ConfigError` for what is none."""
    found: Any = given
    if isinstance(given, str):
        try:
            found = json.loads((folder / given).read_bytes()[:LARGEST])
        except (OSError, ValueError) as error:
            raise ConfigError(
                f"{name}: the schema {given} can't be read: {error}.", hint="It is a file of JSON beside this one."
            ) from None
    try:
        jsonschema.Draft202012Validator.check_schema(found)
    except jsonschema.SchemaError as error:
        raise ConfigError(f"{name}: output is no JSON Schema: {error.message[:200]}.", hint="Mend it.") from None
    if not isinstance(found, Mapping) or not found:
        raise ConfigError(f"{name}: output describes nothing.", hint="Write a JSON Schema of type object.")
    return found
