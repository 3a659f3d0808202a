"""A server as a process, over stdio: nothing of this process's environment, and no message larger than what is said.

The SDK's own transport gives a server HOME, PATH and others, and takes lines of any length; this one doesn't.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import shutil
import signal
from collections import deque
from collections.abc import AsyncGenerator, Mapping, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

import anyio
import mcp_types as types
from mcp.shared.message import SessionMessage

from addendum.errors import ConfigError

JUNK: Final = 1000
"""Lines of stdout that are no messages, before the server is given up."""
KEPT: Final = 4096
"""Bytes of stderr that are kept, the last ones."""
GRACE: Final = 1.0
"""Seconds that a server gets to end by itself, and again after a signal that asks it to."""
PIPE: Final = 64 * 1024


@dataclass(slots=True)
class Ended:
    """How a server ended, once it has. `why` is "" when it ended by itself; `stderr` is the end of what it said."""

    at: asyncio.Event = field(default_factory=asyncio.Event)
    why: str = ""
    lines: deque[bytes] = field(default_factory=deque)
    cut: bool = False

    @property
    def stderr(self) -> str:
        """The end of what it said on stderr, from the beginning of a line: half of a line may have half a secret in it,
        which no search finds."""
        said = b"".join(self.lines)
        if self.cut or len(said) > KEPT:
            said = said[-KEPT:].partition(b"\n")[2]
        return said.decode("utf-8", "replace").strip()

    def hear(self, data: bytes) -> None:
        """Take what it said."""
        self.lines.append(data[-KEPT:])
        while sum(len(line) for line in self.lines) > 2 * KEPT:
            self.lines.popleft()
            self.cut = True


def program(command: Sequence[str], folder: Path) -> list[str]:
    """Return a command with its program's path: the server gets no PATH to look for it. Raises `ConfigError`."""
    name = command[0]
    found = str((folder / name).absolute()) if "/" in name else shutil.which(name)
    if not found or not os.access(found, os.X_OK):
        raise ConfigError(f"There is no program {name!r} for the MCP server.", hint="Name one that can be executed.")
    return [found, *command[1:]]


@asynccontextmanager
async def transport(
    command: Sequence[str], environment: Mapping[str, str], folder: Path, most: int, ended: Ended
) -> AsyncGenerator[tuple[Any, Any], None]:
    """Start a server and connect to it, with the SDK's two streams. When this is left, it and all that it started in
    its group is gone. Raises `ConfigError` when it can't be started."""
    try:
        process = await asyncio.create_subprocess_exec(
            *program(command, folder),
            stdin=asyncio.subprocess.PIPE,
            stdout=asyncio.subprocess.PIPE,
            stderr=asyncio.subprocess.PIPE,
            env=dict(environment),
            cwd=folder,
            limit=max(most, PIPE),
            start_new_session=True,
        )
    except (OSError, ValueError) as error:
        raise ConfigError(f"The MCP server can't be started: {error}.", hint="See its command.") from None
    incoming, read = anyio.create_memory_object_stream[SessionMessage | Exception](0)
    write, outgoing = anyio.create_memory_object_stream[SessionMessage](0)
    tasks = [
        asyncio.create_task(_read(process, incoming, ended)),
        asyncio.create_task(_write(process, outgoing, incoming)),
        asyncio.create_task(_listen(process, ended)),
    ]
    try:
        yield read, write
    finally:
        await asyncio.shield(asyncio.create_task(_stop(process, tasks)))
        for stream in (incoming, read, write, outgoing):
            stream.close()


async def _read(process: asyncio.subprocess.Process, incoming: Any, ended: Ended) -> None:
    """Take messages, one a line, until the server ends, or sends what no server may."""
    assert process.stdout is not None
    junk = 0
    async with incoming:
        try:
            while not ended.why:
                try:
                    line = await process.stdout.readuntil(b"\n")
                except asyncio.IncompleteReadError:
                    break
                except asyncio.LimitOverrunError:
                    ended.why = "it sent a message that is too large"
                    break
                try:
                    message = types.jsonrpc_message_adapter.validate_json(line, by_name=False)
                except ValueError:
                    junk += 1
                    if junk > JUNK:
                        ended.why = "it sends no messages"
                    continue
                await incoming.send(SessionMessage(message))
        except (OSError, anyio.BrokenResourceError, anyio.ClosedResourceError):
            pass  # the end of it, from either side
        finally:
            if ended.why:
                _signal(process, signal.SIGKILL)
            ended.at.set()


async def _write(process: asyncio.subprocess.Process, outgoing: Any, incoming: Any) -> None:
    assert process.stdin is not None
    try:
        async with outgoing:
            async for message in outgoing:
                text = message.message.model_dump_json(by_alias=True, exclude_unset=True)
                process.stdin.write(text.encode() + b"\n")
                await process.stdin.drain()
    except (OSError, anyio.BrokenResourceError, anyio.ClosedResourceError):
        incoming.close()  # whoever waits for an answer has to learn that none comes


async def _listen(process: asyncio.subprocess.Process, ended: Ended) -> None:
    assert process.stderr is not None
    while data := await process.stderr.read(KEPT):
        ended.hear(data)


async def _stop(process: asyncio.subprocess.Process, tasks: Sequence[asyncio.Task[None]]) -> None:
    """End a server: its input first, then a signal that asks, then one that doesn't."""
    assert process.stdin is not None
    process.stdin.close()
    for number in (signal.SIGTERM, signal.SIGKILL):
        try:
            async with asyncio.timeout(GRACE):
                await process.wait()
            break
        except TimeoutError:
            _signal(process, number)
    _signal(process, signal.SIGKILL)  # what it started and left behind
    for task in tasks:
        task.cancel()
    await asyncio.gather(*tasks, return_exceptions=True)
    transport = getattr(process, "_transport", None)
    if transport is not None:
        transport.close()  # a grandchild may hold the pipes open


def _signal(process: asyncio.subprocess.Process, number: signal.Signals) -> None:
    with contextlib.suppress(ProcessLookupError, PermissionError):
        os.killpg(process.pid, number)
