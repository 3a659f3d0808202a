"""Serving over stdio and over streamable HTTP, to an end that leaves every run resumable."""

from __future__ import annotations

import asyncio
import errno
import json
import os
import signal
import socket
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from typing import Any, Final, TextIO

import anyio
import uvicorn
from mcp.server.context import CallNext, HandlerResult, ServerRequestContext
from mcp.server.lowlevel import Server
from mcp.server.stdio import stdio_server
from starlette.types import ASGIApp, Receive, Scope, Send

from addendum.errors import ConfigError
from addendum.mcp.drives import Drives
from addendum.mcp.gate import PATH, Address, Bearer, rules

CLOSING: Final = 2
"""Seconds that open connections get at the end, once every run has come to its clean end and was answered for."""
ANSWERING: Final = 30.0
"""Seconds that the answers to requests get before that, on a machine that has much else to do."""
READING: Final = 0.5
"""Seconds that a client over stdio gets to read its last answer: one that finds the connection closed just then may not
look at it."""
BODY: Final = 4 * 1024 * 1024
"""Bytes of one request over HTTP."""


async def over_stdio(server: Server[Any], drives: Drives, leave: Callable[[], None]) -> None:
    """Serve the one client at stdin and stdout, until it closes its end. Every run that is driven then comes to a clean
    end; a client that is in a hurry and kills the process leaves what a crash leaves, and the next drive goes on.

    After a signal it is the same, but that the client gets the answers that it waits for, and `leave` is called, which
    has to end the process: a thread still waits for the next line of stdin, and nothing can wake it."""
    loop, open_requests = asyncio.get_running_loop(), _Open()
    serving = asyncio.create_task(_stdio(server, open_requests))
    ended: asyncio.Future[None] = loop.create_future()

    def end() -> None:
        _stop(drives)
        if not ended.done():
            ended.set_result(None)

    with _signals(loop, end):
        await asyncio.wait({serving, ended}, return_when=asyncio.FIRST_COMPLETED)
        if not ended.done():
            _stop(drives)
        waited_for = open_requests.some
        await drives.ended()
        if waited_for or open_requests.some:
            answered = asyncio.create_task(open_requests.none(ANSWERING))
            await asyncio.wait({serving, answered}, return_when=asyncio.FIRST_COMPLETED)
            await asyncio.wait({serving}, timeout=READING)
        if not serving.done():
            leave()
    await serving


async def _stdio(server: Server[Any], open_requests: _Open) -> None:
    async def observe(ctx: ServerRequestContext[Any, Any], call_next: CallNext) -> HandlerResult:
        if ctx.request_id is None:
            return await call_next(ctx)
        request = json.dumps(ctx.request_id)
        open_requests.add(request)
        try:
            return await call_next(ctx)
        except asyncio.CancelledError:  # a request that was cancelled gets no answer
            open_requests.discard(request)
            raise

    server.middleware.append(observe)
    try:
        with _standard_output() as wire:
            async with stdio_server(stdout=_Wire(wire, open_requests)) as (reading, writing):
                await server.run(reading, writing, server.create_initialization_options())
    except* (BrokenPipeError, ConnectionError):
        pass  # the client is gone without a word


@contextmanager
def _standard_output() -> Iterator[TextIO]:
    """Take the way to the client; what a handler prints goes to stderr meanwhile. The SDK would do the same, but
    doesn't say when an answer has left."""
    with os.fdopen(os.dup(1), "w", encoding="utf-8") as wire:
        os.dup2(2, 1)
        try:
            yield wire
        finally:
            os.dup2(wire.fileno(), 1)


class _Open:
    """The requests that have no answer yet: whatever tells them apart."""

    def __init__(self) -> None:
        self._found: set[object] = set()
        self._none = asyncio.Event()
        self._none.set()

    def add(self, request: object) -> None:
        """A request came."""
        self._found.add(request)
        self._none.clear()

    def discard(self, request: object) -> None:
        """Its answer has left, or it gets none."""
        self._found.discard(request)
        if not self._found:
            self._none.set()

    @property
    def some(self) -> bool:
        """Whether somebody waits."""
        return not self._none.is_set()

    async def none(self, seconds: float) -> None:
        """Wait until nobody waits, for so many seconds at most."""
        with suppress(TimeoutError):
            async with asyncio.timeout(seconds):
                await self._none.wait()


class _Wire(anyio.AsyncFile[str]):
    """Where messages to the client are written, one a line. An answer has left when its line has."""

    def __init__(self, file: TextIO, open_requests: _Open) -> None:
        super().__init__(file)
        self._open = open_requests
        self._last: Any = {}

    async def write(self, b: Any) -> int:
        """Write a message."""
        self._last = json.loads(b)
        return await super().write(b)

    async def flush(self) -> None:
        """Send it."""
        await super().flush()
        if "method" not in self._last:
            self._open.discard(json.dumps(self._last.get("id")))


async def over_http(
    server: Server[Any],
    drives: Drives,
    listener: Listener,
    token: str,
    names: tuple[str, ...],
    say: Callable[[str], None],
) -> None:
    """Serve every client that has the token, until a signal comes. `say` is told where it listens.

    Raises `ConfigError` for a token that can be guessed."""
    app = server.streamable_http_app(
        streamable_http_path=PATH, max_request_body_size=BODY, transport_security=rules(listener.address, names)
    )
    open_requests = _Open()
    waited_for = _WaitedFor(app, open_requests)
    settings = uvicorn.Config(
        Bearer(waited_for, token),
        log_level="warning",
        access_log=False,
        server_header=False,
        timeout_graceful_shutdown=CLOSING,
        ws="none",
    )
    say(f"Addendum serves MCP at http://{listener.address}{PATH}")
    await _Uvicorn(settings, drives, open_requests).serve(sockets=[listener.socket])


class _WaitedFor:
    """Sees who waits for an answer: each request of a client is a POST, and what it listens at for
    messages in between, which have no end, is a GET."""

    def __init__(self, app: ASGIApp, open_requests: _Open) -> None:
        self._app = app
        self._open = open_requests

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http" or scope["method"] != "POST":
            await self._app(scope, receive, send)
            return
        request = object()
        self._open.add(request)
        try:
            await self._app(scope, receive, send)
        finally:
            self._open.discard(request)


class _Uvicorn(uvicorn.Server):
    """Ends once every run has come to its clean end, and the clients that wait for one have its answer."""

    def __init__(self, settings: uvicorn.Config, drives: Drives, open_requests: _Open) -> None:
        super().__init__(settings)
        self._drives = drives
        self._open_requests = open_requests
        self._ending: asyncio.Task[None] | None = None

    @contextmanager
    def capture_signals(self) -> Iterator[None]:
        with _signals(asyncio.get_running_loop(), self._end):
            yield

    def _end(self) -> None:
        _stop(self._drives)
        self._ending = asyncio.create_task(self._ended())

    async def _ended(self) -> None:
        await self._drives.ended()
        await self._open_requests.none(ANSWERING)
        self.should_exit = True


def _stop(drives: Drives) -> None:
    """Ask every run to come to its clean end, and say so."""
    runs = drives.runs
    drives.stop()
    if runs:
        sys.stderr.write(f"Ending: what is in flight in {', '.join(runs)} is finished and kept.\n")
        sys.stderr.flush()


@dataclass(frozen=True, slots=True)
class Listener:
    """A socket that listens, and where: with the port that was found for port 0."""

    socket: socket.socket
    address: Address


@contextmanager
def listener(asked: Address) -> Iterator[Listener]:
    """Take an address; it is given back at the end. Clients that come before they are served wait.

    Raises `ConfigError` for one that can't be had: another process has it, it isn't this machine's, it needs rights."""
    family = socket.AF_INET6 if ":" in asked.host else socket.AF_INET
    with socket.socket(family, socket.SOCK_STREAM) as found:
        found.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            found.bind((asked.host, asked.port))
            # Linux lets two sockets with SO_REUSEADDR be bound to one port, but only one of them listen there.
            found.listen()
        except OSError as error:
            raise _not_had(asked, error) from None
        yield Listener(found, Address(asked.host, found.getsockname()[1]))


def _not_had(asked: Address, error: OSError) -> ConfigError:
    if error.errno == errno.EADDRINUSE:
        return ConfigError(
            f"The server can't listen at {asked}: another process does.",
            hint="Name another port with --http; port 0 takes any that is free.",
        )
    return ConfigError(f"The server can't listen at {asked}: {error.strerror}.", hint="Name another address or port.")


@contextmanager
def _signals(loop: asyncio.AbstractEventLoop, end: Callable[[], None]) -> Iterator[None]:
    """Call a function on SIGINT and SIGTERM; the second one kills."""

    def handle() -> None:
        for number in watched:
            loop.remove_signal_handler(number)
            signal.signal(number, signal.SIG_DFL)  # Python's own for ^C would wait for threads that wait for a client
        end()

    watched = (signal.SIGINT, signal.SIGTERM) if sys.platform != "win32" else ()
    for number in watched:
        loop.add_signal_handler(number, handle)
    try:
        yield
    finally:
        for number in watched:
            loop.remove_signal_handler(number)
