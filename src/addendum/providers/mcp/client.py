"""The client of one MCP server: looks that its tools are the pinned ones, calls them, and says what came of it.

| what came | a tool without side effects | any other |
| --- | --- | --- |
| the server can't be started or reached | `provider_error`, retryable | the same |
| its tools aren't what is pinned | `refused` | the same |
| `isError` | `provider_error` | the same |
| it doesn't know the tool, or doesn't like the arguments | `invalid_input` | the same |
| an HTTP status | as `faults` says | the same |
| it wants a person to be asked | `refused` | the same |
| any other error of the protocol | `provider_error` | not known |
| the connection ended, or the answer can't be read | not known | not known |

Not known is `UnknownOutcome`: the broker makes a retryable `timeout` of it for a tool without side effects.
"""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from contextlib import AbstractAsyncContextManager
from typing import Any, Final, TypeAlias

import mcp_types as types
from mcp import MCPError
from pydantic import TypeAdapter, ValidationError

from addendum.errors import CapabilityError, ConfigError, UnknownOutcome
from addendum.ports import Reply, Request
from addendum.providers import faults
from addendum.providers.mcp import Spec, http, process, results
from addendum.providers.mcp.capabilities import capabilities
from addendum.providers.mcp.connection import Connection, Held, Unreachable, listed
from addendum.providers.mcp.definitions import Definition, differences, said
from addendum.providers.mcp.process import Ended
from addendum.providers.service import Tools

Result: TypeAlias = types.CallToolResult | types.InputRequiredResult
RESULT: Final[TypeAdapter[Result]] = TypeAdapter(Result)
NOT_DONE: Final = frozenset({types.METHOD_NOT_FOUND, types.INVALID_PARAMS, types.UNSUPPORTED_PROTOCOL_VERSION})
"""Errors that a server gives before it does anything."""


class Client:
    """One server's tools. `pinned` are their definitions by tool, as a person has looked at them."""

    def __init__(self, name: str, spec: Spec, tools: Tools, pinned: Mapping[str, Definition]) -> None:
        self._name = name
        self._spec = spec
        self._tools = tools
        self._pinned = {each: pin for each, pin in pinned.items() if not spec.tools or each in spec.tools}
        self._by_name = capabilities(name, spec, pinned) if pinned else {}
        self._connection: Connection | None = None

    async def dispatch(self, request: Request) -> Reply:
        """Call a tool."""
        capability, tool = self._by_name[request.capability]
        if not isinstance(request.payload, dict):
            raise CapabilityError("invalid_input", "a tool's arguments are an object")
        try:
            held = await self._looked_at()
        except Unreachable as error:
            raise CapabilityError("provider_error", f"{self._name}: {error}", error.again) from None
        result = await self._called(held, tool, request, capability.side_effecting)
        declared = self._pinned[tool].data.get("outputSchema") is not None
        return Reply(results.value(result, declared, self._tools.artifacts))

    async def close(self) -> None:
        """Close the connection, and the server if it is ours."""
        if self._connection is not None:
            await self._connection.close()

    async def definitions(self) -> dict[str, Definition]:
        """Return what the server says of its tools now, of those that are wanted. Raises `ConfigError`."""
        try:
            held = await self._open().held()
            async with asyncio.timeout(self._spec.start_timeout):
                return self._wanted(await listed(held.client))
        except (Unreachable, MCPError, TimeoutError, ValidationError) as error:
            reason = faults.shown(str(error) or "it didn't answer in time")
            raise ConfigError(
                f"The MCP server {self._name} can't be asked: {reason.rstrip('.')}.",
                hint="Look whether it runs, and whether its command or address and its secret are right.",
            ) from None

    # --- inside -----------------------------------------------------------------------------------------------

    async def _looked_at(self) -> Held:
        """Return an open client whose tools are the pinned ones. Raises `Unreachable` and `CapabilityError`; nothing
        was sent to a tool."""
        held = await self._open().held()
        async with held.looking:
            if not held.sure:
                await self._look(held)
        return held

    async def _look(self, held: Held) -> None:
        now, changes = asyncio.get_running_loop().time(), held.changes  # what changes meanwhile is looked at again
        try:
            async with asyncio.timeout(self._spec.start_timeout):
                found = differences(self._pinned, self._wanted(await listed(held.client)))
        except (MCPError, TimeoutError, ValidationError) as error:
            held.leave.set()
            raise Unreachable(f"its tools can't be listed ({type(error).__name__}: {error})") from None
        except ConfigError as error:
            raise CapabilityError("refused", f"{self._name}: {error}") from None
        if found:
            raise CapabilityError(
                "refused",
                f"the tools of {self._name} aren't the ones that are pinned: {said(found)}; nothing was sent. Look at "
                f"them with `addendum catalog pin {self._name} --provider FILE`",
            )
        held.looked = (now, changes)

    async def _called(self, held: Held, tool: str, request: Request, side_effecting: bool) -> types.CallToolResult:
        asked = types.CallToolRequest(params=types.CallToolRequestParams(name=tool, arguments=dict(request.payload)))  # type: ignore[arg-type]
        try:
            result = await held.client.session.send_request(asked, RESULT)
        except MCPError as error:
            raise self._meant(error, held, side_effecting) from None
        except (ValidationError, RuntimeError, ValueError) as error:
            raise UnknownOutcome(f"its answer can't be read ({type(error).__name__})") from None
        if isinstance(result, types.InputRequiredResult):
            raise CapabilityError("refused", "the tool wants to ask a person, and nobody is asked here")
        return result

    def _meant(self, error: MCPError, held: Held, side_effecting: bool) -> CapabilityError | UnknownOutcome:
        """Return what an error of the protocol means for the call."""
        text = f"{self._name}: {error.error.message}"
        data = error.error.data
        match error.error.code:
            case http.UNSENT:
                return CapabilityError("provider_error", f"{text}, nothing was sent", True)
            case http.STATUS if isinstance(data, dict) and data.get("status") == 404:
                held.leave.set()
                return CapabilityError("provider_error", f"{text}: the session is over, nothing was done", True)
            case http.STATUS if isinstance(data, dict):
                answer = faults.Answer(status=data["status"], headers=data["headers"], text=data["text"])
                return faults.refusal(answer, side_effecting=side_effecting)
            case code if code in NOT_DONE:
                return CapabilityError("invalid_input", text)
            case types.URL_ELICITATION_REQUIRED:
                return CapabilityError("refused", text)
            case types.CONNECTION_CLOSED | types.REQUEST_TIMEOUT | types.PARSE_ERROR | http.LOST:
                why = f" ({held.ended.why})" if held.ended.why else ""
                return UnknownOutcome(f"{text}{why}")
            case _ if side_effecting:
                return UnknownOutcome(f"it failed, and may have done it all the same ({text})")
            case _:
                return CapabilityError("provider_error", text)

    def _wanted(self, found: dict[str, Definition]) -> dict[str, Definition]:
        wanted = self._spec.tools
        return {name: each for name, each in found.items() if not wanted or name in wanted}

    def _open(self) -> Connection:
        if self._connection is None:
            self._connection = Connection(self._transport, self._spec.start_timeout)
        return self._connection

    def _transport(self, ended: Ended) -> AbstractAsyncContextManager[tuple[Any, Any]]:
        """Return what connects. Secrets are read here, each time, and go nowhere else."""
        spec, secret = self._spec, self._tools.secret
        if spec.url:
            headers = {name: secret(handle).reveal() for name, handle in spec.headers.items()}
            if spec.secret:
                headers["Authorization"] = f"Bearer {secret(spec.secret).reveal()}"
            return http.transport(spec.url, headers, spec.max_result)
        folder = self._tools.folder / spec.folder if spec.folder else self._tools.folder
        variables = {name: secret(handle).reveal() for name, handle in spec.secrets.items()}
        return process.transport(spec.command, {**spec.environment, **variables}, folder, 2 * spec.max_result, ended)
