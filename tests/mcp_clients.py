"""A real MCP client before the real server, in this process or before `addendum mcp`, and a capability that waits."""

from __future__ import annotations

import asyncio
import json
import os
import sys
import threading
from collections.abc import AsyncIterator, Callable, Coroutine, Iterator, Mapping
from contextlib import asynccontextmanager, contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, TypeVar

from mcp import Client, StdioServerParameters
from mcp_types import CallToolResult

from addendum import App, wiring
from addendum.config import Settings
from addendum.mcp.desk import Desk
from addendum.mcp.drives import Drives
from addendum.mcp.server import build
from addendum.runs.context import Context

T = TypeVar("T")
MODES = ("legacy", "2026-07-28")
"""Both ways in which the protocol begins: the handshake until 2025, and none since 2026."""
TWO = """
async def orchestrate(ctx, args):
    first = await ctx.run("image.generate", {"prompt": args["prompt"]})
    second = await ctx.run("image.generate", {"prompt": "second"})
    return [first["url"], second["url"]]
"""


@dataclass(slots=True)
class Gate:
    """A capability's handler that waits until it is let on, and counts."""

    sent: threading.Event = field(default_factory=threading.Event)
    open: threading.Event = field(default_factory=threading.Event)
    prompts: list[str] = field(default_factory=list)

    def __call__(self, prompt: str) -> dict[str, str]:
        """Make an image once the gate is open."""
        self.prompts.append(prompt)
        self.sent.set()
        assert self.open.wait(60), "nobody opened the gate"
        return {"url": f"mem://{prompt}"}


@contextmanager
def waiting(folder: Path, gate: Gate) -> Iterator[Context]:
    """A context whose one capability goes through the gate."""
    app = App(store=folder / "store.db")
    app.capability("image.generate", effect="paid", price_usd="0.02")(gate)
    settings = Settings(store=str(folder / "store.db"), operator="tester")
    context = wiring.open_context(settings, provider=app.provider, catalog=app.catalog)
    try:
        yield context
    finally:
        gate.open.set()
        context.sandbox.close()
        context.store.close()
        app.close()


@contextmanager
def demo(folder: Path) -> Iterator[Context]:
    """A context with the demo provider."""
    context = wiring.open_context(Settings(store=str(folder / "store.db"), operator="tester"))
    try:
        yield context
    finally:
        context.sandbox.close()
        context.store.close()


@asynccontextmanager
async def connected(
    context: Context, *, mode: str = "legacy", approvals: Any = "off", **more: Any
) -> AsyncIterator[tuple[Client, Drives]]:
    """A client before a server in this process."""
    drives = Drives()
    server = build(Desk(context), drives, approvals, "1")
    async with Client(server, mode=mode, **more) as client:
        yield client, drives
    await drives.ended()


def stdio(folder: Path, *options: str, environment: Mapping[str, str] | None = None) -> StdioServerParameters:
    """`addendum mcp` as a program, in a folder."""
    home = folder / "home"
    home.mkdir(exist_ok=True)
    inherited = {name: os.environ[name] for name in ("PATH", "PYTHONPATH") if name in os.environ}
    return StdioServerParameters(
        command=sys.executable,
        args=["-m", "addendum", "mcp", *options],
        cwd=folder,
        env={"HOME": str(home), **inherited, **(environment or {})},
    )


def said(result: CallToolResult) -> Any:
    """What a tool answered, as JSON. It isn't an error."""
    assert not result.is_error, result.content
    return _json(result)


def wrong(result: CallToolResult) -> Any:
    """The typed error that a tool answered."""
    assert result.is_error, result.content
    found = _json(result)
    assert found["error"]
    assert found["message"]
    return found


def _json(result: CallToolResult) -> Any:
    (content,) = result.content
    assert content.type == "text"
    found = json.loads(content.text)
    if isinstance(found, dict):
        assert result.structured_content == found
    return found


def run(main: Callable[[], Coroutine[Any, Any, T]]) -> T:
    """Run a test's coroutine, for a minute at most."""

    async def bounded() -> T:
        async with asyncio.timeout(60):
            return await main()

    return asyncio.run(bounded())


async def until(event: threading.Event) -> None:
    """Wait for an event of another thread."""
    assert await asyncio.to_thread(event.wait, 60)
