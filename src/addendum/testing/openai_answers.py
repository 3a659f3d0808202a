"""The bodies that the local OpenAI server answers with: a chat completion, a response, a picture."""

from __future__ import annotations

import hashlib
import json
import struct
import zlib
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from addendum.canon import Json


@dataclass(frozen=True, slots=True)
class ToolCall:
    """The model calls a tool of the request."""

    name: str
    arguments: Json


def answered(
    said: object, body: Mapping[str, Any], number: int, *, chat: bool, tokens: tuple[int, int] | None = None
) -> dict[str, Any]:
    """Return the answer to a request's body, as Chat Completions or as the Responses API has it.

    A request that must call a tool (as clients ask for structured output of models that have no JSON mode) is answered
    by a call of its last tool, with the text as arguments. A text longer than the request's limit of tokens is cut, and
    the answer says so.
    """
    if isinstance(said, Mapping) and set(said) == {"tool", "arguments"}:
        said = ToolCall(said["tool"], said["arguments"])
    text = said if isinstance(said, str) else json.dumps(said.arguments if isinstance(said, ToolCall) else said)
    tool = said.name if isinstance(said, ToolCall) else _forced(body)
    most = body.get("max_completion_tokens") or body.get("max_tokens") or body.get("max_output_tokens")
    whole = text
    if most is not None:
        text = text[: int(most) * 4]
    cut = text != whole
    asked, wrote = tokens or (_count(json.dumps(body.get("messages") or body.get("input"))), _count(text))
    shape = _completion if chat else _response
    return shape(text, tool, cut, str(body.get("model")), number, asked, wrote)


def _count(text: str) -> int:
    """Four characters are a token: near enough, and the same everywhere."""
    return (len(text) + 3) // 4


def _forced(body: Mapping[str, Any]) -> str | None:
    tools, choice = body.get("tools") or (), body.get("tool_choice")
    if not tools or choice in (None, "auto", "none"):
        return None
    last = tools[-1]
    name: str = last["function"]["name"] if "function" in last else last["name"]
    return name


def _completion(
    text: str, tool: str | None, cut: bool, model: str, number: int, asked: int, wrote: int
) -> dict[str, Any]:
    message: dict[str, Any] = {"role": "assistant", "content": text, "refusal": None}
    if tool is not None:
        call = {"id": f"call_{number}", "type": "function", "function": {"name": tool, "arguments": text}}
        message = {"role": "assistant", "content": None, "tool_calls": [call]}
    reason = "length" if cut else "tool_calls" if tool is not None else "stop"
    return {
        "id": f"chatcmpl-{number}",
        "object": "chat.completion",
        "created": 1_700_000_000,
        "model": model,
        "choices": [{"index": 0, "message": message, "finish_reason": reason, "logprobs": None}],
        "usage": {"prompt_tokens": asked, "completion_tokens": wrote, "total_tokens": asked + wrote},
    }


def _response(
    text: str, tool: str | None, cut: bool, model: str, number: int, asked: int, wrote: int
) -> dict[str, Any]:
    status = "incomplete" if cut else "completed"
    content = [{"type": "output_text", "text": text, "annotations": []}]
    item: dict[str, Any] = {"type": "message", "id": f"msg_{number}", "role": "assistant", "content": content}
    if tool is not None:
        item = {"type": "function_call", "id": f"fc_{number}", "call_id": f"call_{number}", "name": tool}
        item["arguments"] = text
    return {
        "id": f"resp_{number}",
        "object": "response",
        "created_at": 1_700_000_000,
        "model": model,
        "status": status,
        "error": None,
        "incomplete_details": {"reason": "max_output_tokens"} if cut else None,
        "output": [{**item, "status": status}],
        "parallel_tool_calls": True,
        "tool_choice": "auto",
        "tools": [],
        "usage": {
            "input_tokens": asked,
            "input_tokens_details": {"cached_tokens": 0},
            "output_tokens": wrote,
            "output_tokens_details": {"reasoning_tokens": 0},
            "total_tokens": asked + wrote,
        },
    }


def picture(seed: str) -> bytes:
    """Return a PNG of 8 by 8 pixels in a colour that follows from a text: small, valid, and another one for each."""
    colour = hashlib.sha256(seed.encode()).digest()[:3]
    rows = (b"\x00" + colour * 8) * 8
    header = struct.pack(">IIBBBBB", 8, 8, 8, 2, 0, 0, 0)
    return b"\x89PNG\r\n\x1a\n" + _chunk(b"IHDR", header) + _chunk(b"IDAT", zlib.compress(rows)) + _chunk(b"IEND", b"")


def _chunk(kind: bytes, data: bytes) -> bytes:
    return struct.pack(">I", len(data)) + kind + data + struct.pack(">I", zlib.crc32(kind + data))
