"""One connection to a server, opened when it is first needed, and held by a task of its own.

The SDK's client has to be closed by the task that opened it, and calls come from many; so a task opens it, waits, and
closes it. A server that ended is started again by the next call.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import AbstractAsyncContextManager, AsyncExitStack
from dataclasses import dataclass, field
from typing import Any, Final

import mcp_types as types
from mcp import Client as SdkClient
from mcp import MCPError
from mcp_types.version import MODERN_PROTOCOL_VERSIONS

from addendum.errors import ConfigError
from addendum.providers.mcp.definitions import KEPT, MANY, Definition, definition
from addendum.providers.mcp.process import Ended

AGAIN: Final = 60.0
"""Seconds after which the tools are listed again before a call, whatever the server says of changes."""
PAGES: Final = 100
CLOSING: Final = 4.0
"""Seconds for a connection to close."""
INFO: Final = types.Implementation(name="addendum", version="1")

Connect = Callable[[Ended], AbstractAsyncContextManager[tuple[Any, Any]]]
"""Opens a transport; tells how the server ended."""


class Unreachable(Exception):
    """The server can't be started or reached: nothing was sent to any of its tools. `again` is whether another try may
    help, which it doesn't where the services file has to be mended first."""

    def __init__(self, message: str, again: bool = True) -> None:
        super().__init__(message)
        self.again = again


@dataclass(slots=True)
class Held:
    """A client that is open. `looked` says when its tools were last compared, and after how many changes that it was
    told of; None if they never were. `looking` is held by the one who compares."""

    client: SdkClient
    ended: Ended
    changes: int = 0
    looked: tuple[float, int] | None = None
    looking: asyncio.Lock = field(default_factory=asyncio.Lock)
    leave: asyncio.Event = field(default_factory=asyncio.Event)

    @property
    def over(self) -> bool:
        """Whether it is of no use any more."""
        return self.ended.at.is_set() or self.leave.is_set()

    @property
    def sure(self) -> bool:
        """Whether the tools were compared lately, and nothing was said of a change since."""
        now = asyncio.get_running_loop().time()
        return self.looked is not None and self.looked[1] == self.changes and now - self.looked[0] < AGAIN


class Connection:
    """Opens, holds and closes the client of one server. Used on one event loop."""

    def __init__(self, connect: Connect, seconds: float) -> None:
        self._connect = connect
        self._seconds = seconds
        self._lock = asyncio.Lock()
        self._held: Held | None = None
        self._task: asyncio.Task[None] | None = None
        self._closed = False

    async def held(self) -> Held:
        """Return the open client; open it if there is none. Raises `Unreachable`."""
        async with self._lock:
            if self._closed:
                raise Unreachable("it is closed")
            if self._held is None or self._held.over:
                await self._end()
                ready: asyncio.Future[Held] = asyncio.get_running_loop().create_future()
                self._task = asyncio.create_task(self._hold(ready))
                try:
                    self._held = await asyncio.shield(ready)
                except asyncio.CancelledError:
                    self._task.cancel()
                    raise
            return self._held

    async def close(self) -> None:
        """Close the client, and the server if it is ours."""
        self._closed = True
        await self._end()

    async def _end(self) -> None:
        held, task = self._held, self._task
        self._held = self._task = None
        if held is not None:
            held.leave.set()
        elif task is not None:
            task.cancel()
        if task is not None:
            _, left = await asyncio.wait([task], timeout=CLOSING)
            if left:
                task.cancel()
                await asyncio.wait([task])

    async def _hold(self, ready: asyncio.Future[Held]) -> None:
        ended = Ended()
        try:
            async with AsyncExitStack() as stack:
                try:
                    async with asyncio.timeout(self._seconds):
                        held = await self._opened(stack, ended)
                        events = await _events(held, stack)
                except TimeoutError:
                    raise Unreachable(f"it wasn't ready within {self._seconds:g} s") from None
                if not ready.done():
                    ready.set_result(held)
                watching = asyncio.create_task(_watch(held, events))
                waits = [asyncio.create_task(each.wait()) for each in (held.leave, ended.at)]
                try:
                    await asyncio.wait(waits, return_when=asyncio.FIRST_COMPLETED)
                finally:
                    for task in (watching, *waits):
                        task.cancel()
        except BaseException as error:
            if not ready.done():
                ready.set_exception(unreachable(error, ended))
                ready.exception()  # it is looked at, even if the one who waits is gone
            if isinstance(error, asyncio.CancelledError):
                raise
        finally:
            ended.at.set()

    async def _opened(self, stack: AsyncExitStack, ended: Ended) -> Held:
        held: Held | None = None

        async def hear(message: object) -> None:
            if isinstance(message, types.ToolListChangedNotification) and held is not None:
                held.changes += 1

        client = SdkClient(self._connect(ended), client_info=INFO, message_handler=hear, cache=None)
        await stack.enter_async_context(client)
        held = Held(client, ended)
        return held


async def _events(held: Held, stack: AsyncExitStack) -> AsyncIterator[object] | None:
    """Ask to hear of changed tools, where a server says it only to those who ask (since 2026-07-28)."""
    client = held.client
    tools = client.server_capabilities.tools
    if client.protocol_version not in MODERN_PROTOCOL_VERSIONS or tools is None or not tools.list_changed:
        return None
    try:
        return aiter(await stack.enter_async_context(client.listen(tools_list_changed=True)))
    except (MCPError, RuntimeError):
        return None  # it isn't told: the tools are looked at again by and by


async def _watch(held: Held, events: AsyncIterator[object] | None) -> None:
    if events is None:
        return
    try:
        async for _ in events:
            held.changes += 1
    except (MCPError, RuntimeError):
        held.changes += 1  # it isn't heard any more


async def listed(client: SdkClient) -> dict[str, Definition]:
    """Return what a server says of its tools. Raises `ConfigError` for what can't be used, and `MCPError`."""
    found: dict[str, Definition] = {}
    cursor: str | None = None
    for _ in range(PAGES):
        params = types.PaginatedRequestParams(cursor=cursor) if cursor is not None else None
        page = await client.session.list_tools(params=params)
        for tool in page.tools:
            if tool.name in found:
                raise ConfigError(f"The server lists the tool {tool.name[:100]!r} twice.", hint="Ask who runs it.")
            dumped = tool.model_dump(mode="json", by_alias=True, exclude_none=True)
            found[tool.name] = definition({key: dumped[key] for key in KEPT if key in dumped})
        cursor = page.next_cursor
        if cursor is None:
            return found
        if len(found) > MANY:
            break
    raise ConfigError(f"The server lists more than {MANY} tools, or never ends.", hint="Ask who runs it.")


def unreachable(error: BaseException, ended: Ended) -> Exception:
    """Return why a server can't be used. What it said on stderr is its own text."""
    if isinstance(error, ConfigError | Unreachable):
        said = str(error)
    else:
        said = "; ".join(f"{type(each).__name__}: {each}" for each in _leaves(error))[:2000]
    more = [ended.why, f"its stderr ends in: {ended.stderr}" if ended.stderr else ""]
    return Unreachable(
        ". ".join(part for part in (said.rstrip("."), *more) if part), not isinstance(error, ConfigError)
    )


def _leaves(error: BaseException) -> list[BaseException]:
    if isinstance(error, BaseExceptionGroup):
        return [leaf for each in error.exceptions for leaf in _leaves(each)]
    return [error]
