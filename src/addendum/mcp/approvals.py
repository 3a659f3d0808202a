"""Who may answer what a run asks a person.

A coding agent that approves what its own script wants to do has approved nothing. So the tool `approve` is one of:

| mode | who answers |
| --- | --- |
| `off` (the default) | nobody through this server; a person does with `addendum approve RUN` |
| `ask` | the person in front of the client: the server asks by elicitation, and what the model passed doesn't count |
| `client` | whoever calls the tool, the model too: only for a client that is a person's own program |

`ask` trusts the client's program to really ask; it trusts the model with nothing.
"""

from __future__ import annotations

import json
from typing import Any, Final, Literal, TypeAlias

import mcp_types as types
from mcp.server.context import ServerRequestContext
from mcp_types.version import MODERN_PROTOCOL_VERSIONS

from addendum.errors import Rejected

Mode: TypeAlias = Literal["off", "ask", "client"]
MODES: Final = ("off", "ask", "client")
SHOWN: Final = 2000
"""Characters of a payload that a person is shown. A longer one isn't asked about here: who approves has to see it."""
MANY: Final = 10
"""How many questions are asked at once."""
KEY: Final = "answer"
"""The name of the question in a client's answers."""
SCHEMA: Final[types.ElicitRequestedSchema] = {
    "type": "object",
    "properties": {
        "approved": {"type": "boolean", "title": "Approve", "description": "Whether it may be done."},
        "note": {"type": "string", "title": "Note", "description": "A note that the script gets.", "maxLength": 10000},
    },
    "required": ["approved"],
}


class NotHere(Rejected):
    """What a run asks a person can't be answered through this MCP server, or not by whoever tried."""

    code = "approval_not_here"


def off(run: str, asks: list[dict[str, Any]]) -> NotHere:
    """Return the error for a server that answers nothing."""
    return NotHere(
        "Approvals are off in this server: they are for a person.",
        hint=f"Ask the person to run `addendum approve {run}` (--no for no); then `resume`.",
        run=run,
        asks=asks,
    )


def question(run: str, asks: list[dict[str, Any]]) -> str:
    """Return what a person is asked. The payloads are a script's: they are shown as JSON, escaped.

    Raises `NotHere` for what is too large to be looked at like this."""
    shown = [(each, json.dumps(each["payload"])) for each in asks]
    if len(shown) > MANY or any(len(text) > SHOWN for _, text in shown):
        raise NotHere(
            f"What the run {run} asks is too much to be shown in a question.",
            hint=f"A person looks at it with `addendum asks {run}`, and answers with `addendum approve {run}`.",
            run=run,
        )
    lines = [
        f"- {each['capability']} at {json.dumps(each['identity'])[1:-1]}"
        f"{', which the grant wants to have approved' if each['rule'] else ''}: {text}"
        for each, text in shown
    ]
    return "\n".join([f"The workflow run {run} asks for your approval:", *lines])


def can_ask(ctx: ServerRequestContext[Any]) -> bool:
    """Whether the client can put a form before its user."""
    capabilities = ctx.session.client_capabilities
    return capabilities is not None and capabilities.elicitation is not None


def request(message: str) -> types.ElicitRequest:
    """Return the form as a request."""
    return types.ElicitRequest(params=types.ElicitRequestFormParams(message=message, requested_schema=SCHEMA))


async def answered(
    ctx: ServerRequestContext[Any], params: types.CallToolRequestParams, message: str, state: str
) -> types.InputRequiredResult | tuple[bool, str]:
    """Return what the person said (yes or no, and a note), or what has to be sent so that the client asks them.

    Since 2026-07-28 a client is asked by a result, and calls again with the answer and the `state`. Raises `NotHere`
    when nobody answered, or the questions are others by now.
    """
    if ctx.protocol_version in MODERN_PROTOCOL_VERSIONS:
        responses = params.input_responses or {}
        if KEY not in responses:
            return types.InputRequiredResult(input_requests={KEY: request(message)}, request_state=state)
        if params.request_state != state:
            raise NotHere("The run asks something else by now.", hint="Call `approve` again.")
        found = responses[KEY]
    else:
        found = await ctx.session.elicit_form(message, SCHEMA, related_request_id=ctx.request_id)
    return _said(found)


def _said(found: object) -> tuple[bool, str]:
    content = found.content if isinstance(found, types.ElicitResult) and found.action == "accept" else None
    approved = content.get("approved") if content is not None else None
    if content is None or not isinstance(approved, bool):
        raise NotHere("The person gave no answer: nothing was approved or declined.", hint="Ask them again later.")
    note = content.get("note", "")
    return approved, note if isinstance(note, str) else ""
