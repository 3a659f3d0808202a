"""Real MCP servers to be called, each a program: what a test wants of one is its first argument."""

from __future__ import annotations

import asyncio
import os
import sys
from typing import Any

from mcp import types
from mcp.server.lowlevel import Server
from mcp.server.mcpserver import Context, MCPServer
from mcp.server.mcpserver.utilities.types import Image
from mcp.server.stdio import stdio_server


def good(about: str = "Add two numbers.") -> MCPServer:
    """A server with tools of all kinds."""
    server = MCPServer("good")

    @server.tool(description=about, annotations=types.ToolAnnotations(read_only_hint=True, open_world_hint=False))
    def add(a: int, b: int) -> dict[str, int]:
        return {"sum": a + b}

    @server.tool(structured_output=False)
    def environment() -> str:
        """Tell the environment."""
        return " ".join(f"{name}={value}" for name, value in sorted(os.environ.items()) if name != "LC_CTYPE")

    @server.tool(structured_output=False)
    def draw() -> list[str | Image]:
        """Draw."""
        return ["a picture", Image(data=b"\x89PNG", format="png")]

    @server.tool()
    def fail() -> str:
        """Fail."""
        raise ValueError("it can't be done")

    @server.tool()
    def die() -> str:
        """Take the server down."""
        os._exit(3)

    @server.tool()
    async def hang() -> str:
        """Never answer."""
        await asyncio.Event().wait()
        return "never"

    @server.tool()
    def huge(size: int) -> str:
        """Give a large result."""
        return "x" * size

    @server.tool()
    async def grow(context: Context) -> str:
        """Offer another tool from now on."""
        server.add_tool(good, name="later", description="New.")
        await context.session.send_tool_list_changed()
        await context.notify_tools_changed()
        return "grown"

    return server


def asks() -> None:
    """A tool that wants a person to be asked first."""

    async def listed(context: object, params: object) -> types.ListToolsResult:
        return types.ListToolsResult(tools=[types.Tool(name="ask", input_schema={"type": "object"})])

    async def called(context: object, params: object) -> types.InputRequiredResult:
        form = types.ElicitRequestFormParams(message="May I?", requested_schema={"type": "object", "properties": {}})
        return types.InputRequiredResult(input_requests={"person": types.ElicitRequest(params=form)})

    server: Server[Any] = Server("asks", on_list_tools=listed, on_call_tool=called)

    async def main() -> None:
        async with stdio_server() as (reading, writing):
            await server.run(reading, writing, server.create_initialization_options())

    asyncio.run(main())


def colliding() -> MCPServer:
    """Two tools whose names come to the same."""
    server = MCPServer("colliding")

    def same() -> str:
        return "the same"

    for name in ("files/read", "files read"):
        server.add_tool(same, name=name, description=name)
    return server


def junk() -> None:
    """Chatter before the protocol, and in between."""
    sys.stdout.write('Welcome to the server!\n\n{"not": "a message"}\n\x1b[31mred\x1b[0m\n')
    sys.stdout.flush()
    good().run()


def silent() -> None:
    """Never answer."""
    sys.stderr.write("I am thinking\n")
    sys.stderr.flush()
    sys.stdin.read()


def flood() -> None:
    """Send lines that are no messages, without end."""
    while True:
        sys.stdout.write("nothing\n")


def endless() -> None:
    """Send one line without an end."""
    while True:
        sys.stdout.write("x" * 65536)


def dead() -> None:
    """End at once."""
    sys.stderr.write("no license: token=canary-value-1234\n")
    sys.exit(1)


if __name__ == "__main__":
    {
        "good": lambda: good().run(),
        "changed": lambda: good("Add two numbers, and tell somebody.").run(),
        "colliding": lambda: colliding().run(),
        "asks": asks,
        "junk": junk,
        "silent": silent,
        "flood": flood,
        "endless": endless,
        "dead": dead,
    }[sys.argv[1]]()
