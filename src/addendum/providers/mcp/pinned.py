"""The service as it is before it is called: what is pinned, and nothing of the SDK, whose import takes a second."""

from __future__ import annotations

import asyncio
import importlib
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

from addendum.authority.catalog import Capability
from addendum.ports import Reply, Request
from addendum.providers.mcp import Spec
from addendum.providers.mcp.capabilities import capabilities
from addendum.providers.mcp.definitions import Definition
from addendum.providers.service import Tools

if TYPE_CHECKING:
    from addendum.providers.mcp.client import Client


class Pinned:
    """One server's tools. `definitions` are those that a person has looked at, by tool. Raises `ConfigError`."""

    def __init__(self, name: str, spec: Spec, tools: Tools, definitions: Mapping[str, Definition]) -> None:
        self._given = (name, spec, tools, definitions)
        self._by_name = capabilities(name, spec, definitions)
        self._client: Client | None = None

    @property
    def capabilities(self) -> Sequence[Capability]:
        """Its tools, from the pins."""
        return tuple(capability for capability, _ in self._by_name.values())

    async def dispatch(self, request: Request) -> Reply:
        """Call a tool."""
        if self._client is None:
            module = await asyncio.to_thread(importlib.import_module, "addendum.providers.mcp.client")
            if self._client is None:
                self._client = module.Client(*self._given)
        return await self._client.dispatch(request)

    async def lookup(self, capability: str, key: str) -> Reply | None:
        """The protocol has no way to ask what became of a call."""
        return None

    async def close(self) -> None:
        """Close the connection, and the server if it is ours."""
        if self._client is not None:
            await self._client.close()
