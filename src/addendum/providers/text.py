"""The kind `text`: a language model writes a text, or a value that a JSON Schema in the payload describes.

    [capability."text.generate"]
    kind = "text"
    model = "openai:gpt-5-mini"
    secret = "openai"

`{"prompt": "…", "system": "…", "max_tokens": 500, "schema": {…}}` gives `{"text": "…", "data": …}`: `data` is the value
where a schema was given, and `text` its JSON; null without one. The answer is held against the schema.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final, Literal

from pydantic import Field

from addendum import canon
from addendum.canon import Json
from addendum.ports import Message, Reply, Request
from addendum.providers import asking
from addendum.providers.asking import ModelService, ModelSpec
from addendum.providers.service import Service, Tools

SYSTEM: Final = 20_000
"""Characters of a payload's own instructions."""
SCHEMA: Final = 64 * 1024
"""Bytes of a payload's schema."""


class Spec(ModelSpec):
    """What the services file says of a text service."""

    kind: Literal["text"] = Field(description="`text`.")
    schemas: bool = Field(default=True, description="A payload may have a JSON Schema that the answer has to fit.")


class Text(ModelService):
    """The service. It keeps nothing between calls but the model's connections."""

    def __init__(self, name: str, spec: Spec, tools: Tools) -> None:
        super().__init__(
            name,
            spec,
            tools,
            input=_input(spec),
            output=_output(spec),
            about="Write a text.",
            max_payload=6 * (spec.max_input + SYSTEM) + SCHEMA,
        )

    async def dispatch(self, request: Request) -> Reply:
        """Ask the model once."""
        given = asking.payload(request)
        schema: Mapping[str, Json] = given.get("schema") or {}
        messages = [Message("system", given["system"])] if given.get("system") else []
        messages.append(Message("user", given["prompt"]))
        reply = await self._asker.ask(request, messages, schema=schema, max_tokens=given.get("max_tokens"))
        if not schema:
            return Reply({"text": reply.value, "data": None}, reply.usage)
        return Reply({"text": canon.dumps(reply.value), "data": reply.value}, reply.usage)


def open(name: str, spec: Spec, tools: Tools) -> Service:
    """Open a text service. Raises `ConfigError`."""
    return Text(name, spec, tools)


def _input(spec: Spec) -> dict[str, Json]:
    properties: dict[str, Any] = {
        "prompt": {"type": "string", "minLength": 1, "maxLength": spec.max_input},
        "system": {"type": "string", "maxLength": SYSTEM},
        "max_tokens": {"type": "integer", "minimum": 1, "maximum": spec.max_tokens},
    }
    if spec.schemas:
        properties["schema"] = {"type": "object"}
    return {"type": "object", "properties": properties, "required": ["prompt"], "additionalProperties": False}


def _output(spec: Spec) -> dict[str, Json]:
    text: dict[str, Json] = {"type": "string", "maxLength": asking.LETTERS * spec.max_tokens}
    return {
        "type": "object",
        "properties": {"text": text, "data": {} if spec.schemas else {"type": "null"}},
        "required": ["text", "data"],
        "additionalProperties": False,
    }
