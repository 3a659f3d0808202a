"""From a tool's result to a capability's value."""

from __future__ import annotations

import base64
import binascii
from collections.abc import Mapping, Sequence
from typing import Any, Final

from addendum.canon import Json
from addendum.errors import CapabilityError
from addendum.ports import Artifacts

OUTPUT: Final[Mapping[str, Json]] = {
    "type": "object",
    "properties": {
        "text": {"type": "string"},
        "parts": {"type": "array", "items": {"type": "object"}},
    },
    "required": ["text", "parts"],
    "additionalProperties": False,
}
"""What a tool without an output schema gives: its texts, joined by newlines, and whatever else it has. An image or a
sound is a reference to an artifact."""


def value(result: Any, declared: bool, artifacts: Artifacts) -> Json:
    """Return a result's value. `declared` is whether the tool has an output schema: then it is the structured content.

    Raises `CapabilityError` for an error that the tool reports, and for a result that isn't what it declares."""
    if result.is_error:
        raise CapabilityError("provider_error", text(result.content) or "the tool reports an error without a text")
    if declared:
        if result.structured_content is None:
            raise CapabilityError("provider_error", "the tool declares structured content, and gave none")
        found: Json = result.structured_content
        return found
    parts = [part(each, artifacts) for each in result.content if each.type != "text"]
    if result.structured_content is not None:
        parts.append({"type": "structured", "value": result.structured_content})
    return {"text": text(result.content), "parts": list(parts)}


def text(content: Sequence[Any]) -> str:
    """Return the texts of a result, joined."""
    return "\n".join(each.text for each in content if each.type == "text")


def part(block: Any, artifacts: Artifacts) -> dict[str, Json]:
    """Return a part of a result that is no text. Its bytes go to the artifacts. Raises `CapabilityError`."""
    match block.type:
        case "image" | "audio":
            return {"type": block.type, **artifacts.put(_bytes(block.data), str(block.mime_type))}
        case "resource":
            resource = block.resource
            blob = getattr(resource, "blob", None)
            kind = str(resource.mime_type or "application/octet-stream")
            if blob is not None:
                return {"type": "resource", "uri": str(resource.uri), **artifacts.put(_bytes(blob), kind)}
            return {"type": "resource", "uri": str(resource.uri), "text": resource.text}
        case _:
            found: dict[str, Json] = block.model_dump(mode="json", by_alias=True, exclude_none=True)
            found.pop("_meta", None)
            found.pop("icons", None)
            return found


def _bytes(data: str) -> bytes:
    try:
        return base64.b64decode(data, validate=True)
    except (binascii.Error, ValueError):
        raise CapabilityError("provider_error", "the tool sent bytes that are no base64") from None
