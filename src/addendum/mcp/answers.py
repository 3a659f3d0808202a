"""What a tool answers: a verdict is data, an error is a typed error that the model can read and correct.

Both are the JSON that the command line prints with `--json`.
"""

from __future__ import annotations

import json
import logging
from collections.abc import Callable
from typing import Any, Final

import mcp_types as types
from pydantic import ValidationError

from addendum.errors import AddendumError, CapabilityError, Stop, UsageError

SHOWN: Final = 3
"""How many wrong arguments are named."""

_log = logging.getLogger("addendum.mcp")


def value(found: Any) -> types.CallToolResult:
    """Return a value as a tool's result: as text, and as structured content where it is an object."""
    text = json.dumps(found, ensure_ascii=False)
    structured = found if isinstance(found, dict) else None
    return types.CallToolResult(content=[types.TextContent(text=text)], structured_content=structured)


def error(raised: BaseException, exactly: Callable[[str], str] = str) -> types.CallToolResult:
    """Return an exception as a tool's error. `exactly` makes its hint's commands ones to be copied."""
    found = body(raised)
    found["hint"] = exactly(found["hint"])
    return types.CallToolResult(
        content=[types.TextContent(text=json.dumps(found, ensure_ascii=False))], structured_content=found, is_error=True
    )


def body(raised: BaseException) -> dict[str, Any]:
    """Return an exception as JSON: `error` (its code), `message`, `hint`, and `facts` where there are some."""
    match raised:
        case AddendumError():
            found = _body(raised.code, raised.message, raised.hint, raised.facts)
        case Stop():
            found = _body(raised.kind, raised.message, raised.hint, raised.facts)
        case CapabilityError():
            found = _body(raised.code, raised.message, "", {})
        case _:
            _log.error("a tool failed", exc_info=raised)
            found = _body(
                "internal",
                f"Something went wrong inside Addendum: {type(raised).__name__}.",
                "Whoever runs the server finds more in its log.",
                {},
            )
    return found


def wrong(raised: ValidationError) -> UsageError:
    """Return what is wrong with a tool's arguments. What was passed isn't repeated: it may be large, or a secret."""
    found = raised.errors(include_url=False, include_context=False, include_input=False)
    said = "; ".join(
        f"{'.'.join(str(part) for part in each['loc']) or 'arguments'}: {each['msg']}" for each in found[:SHOWN]
    )
    more = f" ({len(found) - SHOWN} more)" if len(found) > SHOWN else ""
    return UsageError(f"The arguments are wrong: {said}{more}.", hint="See the tool's input schema.")


def _body(code: str, message: str, hint: str, facts: dict[str, Any]) -> dict[str, Any]:
    plain = {name: fact for name, fact in facts.items() if _plain(fact)}
    found: dict[str, Any] = {"error": code, "message": message, "hint": hint}
    return {**found, "facts": plain} if plain else found


def _plain(fact: object) -> bool:
    return fact is None or isinstance(fact, bool | int | float | str | list | dict)
