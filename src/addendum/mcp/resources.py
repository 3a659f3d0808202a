"""What a client can read: how to write a script, what may be called, and runs."""

from __future__ import annotations

import json
from typing import Any, Final
from urllib.parse import unquote

import anyio.to_thread
import mcp_types as types
from mcp import MCPError
from mcp.server.context import ServerRequestContext

from addendum.errors import AddendumError
from addendum.mcp import answers, asked
from addendum.mcp.desk import Desk
from addendum.repair.guide import guide

AUTHORING: Final = "addendum://authoring"
CATALOG: Final = "addendum://catalog"
RUN: Final = "addendum://run/"
NOT_FOUND: Final = -32002
"""Resource not found, as the protocol numbers it."""

Ctx = ServerRequestContext[Any]


class Resources:
    """The resources of one server."""

    def __init__(self, desk: Desk) -> None:
        self._desk = desk

    async def list(self, ctx: Ctx, params: types.PaginatedRequestParams | None) -> types.ListResourcesResult:
        """List the resources."""
        return types.ListResourcesResult(
            resources=[
                types.Resource(
                    uri=AUTHORING,
                    name="authoring",
                    title="How to write a workflow script",
                    description="The language of scripts: read it before writing one.",
                    mime_type="text/markdown",
                ),
                types.Resource(
                    uri=CATALOG,
                    name="catalog",
                    title="What scripts may call",
                    description="Capabilities with schemas, effects and prices, and the grant that every run is under.",
                    mime_type="application/json",
                ),
            ]
        )

    async def templates(
        self, ctx: Ctx, params: types.PaginatedRequestParams | None
    ) -> types.ListResourceTemplatesResult:
        """List the families of resources."""
        return types.ListResourceTemplatesResult(
            resource_templates=[
                types.ResourceTemplate(
                    uri_template=RUN + "{id}",
                    name="run",
                    title="A run",
                    description="How a run stands, with its calls and what they cost: what the tool `show` answers.",
                    mime_type="application/json",
                )
            ]
        )

    async def read(self, ctx: Ctx, params: types.ReadResourceRequestParams) -> types.ReadResourceResult:
        """Return a resource's text."""
        try:
            text, kind = await anyio.to_thread.run_sync(self._text, params.uri)
        except AddendumError as error:
            code = NOT_FOUND if error.exit_code == 2 else types.INTERNAL_ERROR
            raise MCPError(code, error.message, answers.body(error)) from None
        return types.ReadResourceResult(
            contents=[types.TextResourceContents(uri=params.uri, text=text, mime_type=kind)]
        )

    def _text(self, uri: str) -> tuple[str, str]:
        if uri == AUTHORING:
            return guide(self._desk.offered()), "text/markdown"
        if uri == CATALOG:
            return json.dumps(self._desk.catalog(), ensure_ascii=False, indent=2), "application/json"
        if uri.startswith(RUN):
            found = self._desk.show(asked.Show(run=unquote(uri.removeprefix(RUN))))
            return json.dumps(found, ensure_ascii=False, indent=2), "application/json"
        raise MCPError(NOT_FOUND, "There is no such resource.", {"uri": uri[:200]})
