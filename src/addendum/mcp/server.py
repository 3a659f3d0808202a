"""The MCP server: tools and resources over a desk, whatever the transport.

A request waits for its run, and owns it as little as its connection does (`drives`). What a request means for its run:

| the client | the run |
| --- | --- |
| cancels the request (`notifications/cancelled`) | comes to a clean end, and can be resumed |
| disconnects, over HTTP | goes on; `show` tells |
| ends the server by closing its input, over stdio | comes to a clean end, and can be resumed |
"""

from __future__ import annotations

import logging
from collections.abc import Callable
from typing import Any, TypeVar

import anyio.to_thread
import mcp_types as types
from mcp import MCPError
from mcp.server.context import CallNext, HandlerResult, ServerRequestContext
from mcp.server.lowlevel import Server
from pydantic import ValidationError

from addendum import canon
from addendum.errors import AddendumError
from addendum.mcp import answers, approvals, asked, resources
from addendum.mcp.desk import Desk, Task
from addendum.mcp.drives import Asker, Drives
from addendum.mcp.tools import INSTRUCTIONS, tools

T = TypeVar("T")
Ctx = ServerRequestContext[Any]

SESSION = "mcp-session-id"
_log = logging.getLogger("addendum.mcp")


class Tools:
    """The handlers of one server."""

    def __init__(self, desk: Desk, drives: Drives, mode: approvals.Mode) -> None:
        self.desk = desk
        self.drives = drives
        self.mode = mode
        self.tools = {tool.name: tool for tool in tools(mode)}

    async def list_tools(self, ctx: Ctx, params: types.PaginatedRequestParams | None) -> types.ListToolsResult:
        """List the tools."""
        return types.ListToolsResult(tools=[tool.listed() for tool in self.tools.values()])

    async def call(
        self, ctx: Ctx, params: types.CallToolRequestParams
    ) -> types.CallToolResult | types.InputRequiredResult:
        """Call a tool. Every error of it is a result that the model can read."""
        tool = self.tools.get(params.name)
        if tool is None:
            raise MCPError(types.INVALID_PARAMS, f"There is no tool {params.name[:100]!r}.")
        try:
            try:
                ask = tool.model.model_validate_json(canon.canonical(params.arguments or {}))
            except ValidationError as error:
                raise answers.wrong(error) from None
            return await self._answer(ctx, params, ask)
        except Exception as error:  # noqa: BLE001 - the one funnel to the client
            return answers.error(error, self.desk.exactly)

    async def _answer(
        self, ctx: Ctx, params: types.CallToolRequestParams, ask: asked.Asked
    ) -> types.CallToolResult | types.InputRequiredResult:
        desk = self.desk
        match ask:
            case asked.Check():
                return answers.value(await _thread(lambda: desk.check(ask)))
            case asked.Start():
                return await self._drive(ctx, await _thread(lambda: desk.run(ask)), ask.wait_seconds)
            case asked.Resume():
                return await self._drive(ctx, await _thread(lambda: desk.resume(ask)), ask.wait_seconds)
            case asked.Revise():
                return await self._drive(ctx, await _thread(lambda: desk.revise(ask)), ask.wait_seconds)
            case asked.Plan():
                return answers.value(await _thread(lambda: desk.plan(ask)))
            case asked.Show():
                return answers.value(await _thread(lambda: desk.show(ask)))
            case asked.Approve():
                return await self._approve(ctx, params, ask)
            case asked.Cancel():
                return answers.value(await _thread(lambda: desk.cancel(ask)))
            case _:
                raise TypeError(f"no tool takes {type(ask).__name__}")

    async def _drive(self, ctx: Ctx, task: Task, seconds: float | None) -> types.CallToolResult:
        """Drive a run and answer at its end, or after so many seconds; tell meanwhile how far it is."""
        asker = _asker(ctx, ctx.request_id)
        drive = self.drives.start(task.run, task.job, asker)

        async def tell(steps: int, message: str) -> None:
            await ctx.session.report_progress(steps, message=message)

        result = await drive.follow(tell, seconds)
        self.drives.answered(asker, drive)
        if result is not None:
            return answers.value(await _thread(lambda: self.desk.told(result)))
        return answers.value(await _thread(lambda: self._going_on(task.run)))

    def _going_on(self, run: str) -> dict[str, Any]:
        said = {"status": "running", "message": "The run goes on.", "hint": "`show` tells how it came out."}
        try:
            return {**self.desk.standing(run), **said}
        except AddendumError:  # it isn't written down yet
            return {"run": run, **said}

    async def _approve(
        self, ctx: Ctx, params: types.CallToolRequestParams, ask: asked.Approve
    ) -> types.CallToolResult | types.InputRequiredResult:
        asks = await _thread(lambda: self.desk.asks(ask.run, ask.which))
        by = f"{self.desk.context.operator} (MCP client)"
        if self.mode == "off":
            raise approvals.off(ask.run, asks)
        if self.mode == "ask":
            if not approvals.can_ask(ctx):
                raise approvals.NotHere(
                    "This client can't ask its user (it has no elicitation).",
                    hint=f"Ask the person to run `addendum approve {ask.run}` (--no for no).",
                    asks=asks,
                )
            state = canon.digest(asks)
            found = await approvals.answered(ctx, params, approvals.question(ask.run, asks), state)
            if isinstance(found, types.InputRequiredResult):
                return found
            if canon.digest(await _thread(lambda: self.desk.asks(ask.run, ask.which))) != state:
                raise approvals.NotHere("The run asks something else by now.", hint="Call `approve` again.")
            which = [each["identity"] for each in asks]
            ask = ask.model_copy(update={"approved": found[0], "note": found[1], "which": which})
            by = f"{self.desk.context.operator} (asked by MCP)"
        return answers.value(await _thread(lambda: self.desk.approve(ask, by)))

    async def observe(self, ctx: Ctx, call_next: CallNext) -> HandlerResult:
        """Let a cancelled request's run come to a clean end."""
        if ctx.method == "notifications/cancelled" and ctx.params is not None:
            self.drives.cancelled(_asker(ctx, ctx.params.get("requestId")))
        return await call_next(ctx)


def build(desk: Desk, drives: Drives, mode: approvals.Mode, version: str) -> Server[Any]:
    """Put the server together."""
    handlers, shown = Tools(desk, drives, mode), resources.Resources(desk)
    server: Server[Any] = Server(
        "addendum",
        version=version,
        title="Addendum",
        instructions=INSTRUCTIONS,
        on_list_tools=handlers.list_tools,
        on_call_tool=handlers.call,
        on_list_resources=shown.list,
        on_list_resource_templates=shown.templates,
        on_read_resource=shown.read,
    )
    server.middleware.append(handlers.observe)
    return server


def _asker(ctx: Ctx, request_id: object) -> Asker:
    session = ctx.request.headers.get(SESSION, "") if ctx.request is not None else ""
    return session, str(request_id)


async def _thread(function: Callable[[], T]) -> T:
    """Call what blocks in a thread; a request that is cancelled doesn't wait for it."""
    return await anyio.to_thread.run_sync(function, abandon_on_cancel=True)
