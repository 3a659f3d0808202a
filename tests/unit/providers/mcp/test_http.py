"""Servers over HTTP: a real one of the SDK's, and one that answers what no server should."""

from __future__ import annotations

import asyncio
import json
import socket
import threading
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager, contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import pytest
import uvicorn
from mcp.server.mcpserver import MCPServer
from tests.mcp_clients import run
from tests.mcp_services import CANARY, given

from addendum.errors import CapabilityError, UnknownOutcome
from addendum.ports import Request
from addendum.providers import mcp
from addendum.providers.mcp.pinning import look
from addendum.providers.service import Service

pytestmark = pytest.mark.slow


@asynccontextmanager
async def client(folder: Path, url: str, **more: Any) -> AsyncIterator[Service]:
    """A server's tools, pinned as they are."""
    tools, spec = given(folder), mcp.Spec(**{"kind": "mcp", "url": url, **more})
    (await look("web", spec, tools)).pin()
    found = mcp.open("web", spec, tools)
    try:
        yield found
    finally:
        await found.close()


async def call(found: Service, tool: str, **payload: Any) -> Any:
    """Call a tool and return the value."""
    request = Request(capability=f"web.{tool}", payload=payload, key="k", run="r", identity="i", attempt=1)
    return (await found.dispatch(request)).value


# --- the SDK's server ---------------------------------------------------------------------------------------------


@contextmanager
def real() -> Iterator[tuple[str, list[str]]]:
    """A server in a thread: its address, and the Authorization headers that reached it."""
    server, seen = MCPServer("web"), []

    @server.tool()
    def double(n: int) -> dict[str, int]:
        """Double a number."""
        return {"twice": 2 * n}

    inner = server.streamable_http_app()

    async def app(scope: Any, receive: Any, send: Any) -> None:
        if scope["type"] == "http":
            seen.append(dict(scope["headers"]).get(b"authorization", b"").decode())
        await inner(scope, receive, send)

    listener = socket.create_server(("127.0.0.1", 0))
    uvi = uvicorn.Server(uvicorn.Config(app, log_level="error", timeout_graceful_shutdown=1, ws="none"))
    thread = threading.Thread(target=lambda: asyncio.run(uvi.serve(sockets=[listener])), daemon=True)
    thread.start()
    try:
        yield f"http://127.0.0.1:{listener.getsockname()[1]}/mcp", seen
    finally:
        uvi.should_exit = True
        thread.join(20)
        listener.close()


def test_a_real_server_is_called_with_its_secret(tmp_path: Path) -> None:
    """The bearer token comes from a handle, and goes to the server only."""
    with real() as (url, seen):

        async def main() -> None:
            async with client(tmp_path, url, secret="key") as found:
                assert await call(found, "double", n=21) == {"twice": 42}

        run(main)
        assert set(seen) == {f"Bearer {CANARY}"}
    assert CANARY not in (tmp_path / "web.pins.json").read_text("utf-8")


# --- a server that answers what it is told to ---------------------------------------------------------------------

TOOL = {"name": "act", "description": "Act.", "inputSchema": {"type": "object"}}
READ = {**TOOL, "name": "look", "annotations": {"readOnlyHint": True}}


@dataclass(slots=True)
class Scene:
    """What a call of a tool is answered with: a status, headers and a body; or nothing."""

    status: int = 200
    headers: dict[str, str] = field(default_factory=dict)
    body: bytes | None = None
    cut: bool = False
    calls: int = 0


@contextmanager
def scripted(scene: Scene) -> Iterator[str]:
    """A server whose handshake and list are right."""

    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def log_message(self, *args: object) -> None:
            """Say nothing."""

        def do_GET(self) -> None:
            self._send(405, b"")

        def do_DELETE(self) -> None:
            self._send(200, b"")

        def do_POST(self) -> None:
            asked = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
            if "id" not in asked:
                self._send(202, b"")
                return
            match asked["method"]:
                case "initialize":
                    info = {"name": "scripted", "version": "1"}
                    result: Any = {"protocolVersion": "2025-11-25", "capabilities": {"tools": {}}, "serverInfo": info}
                case "tools/list":
                    result = {"tools": [TOOL, READ]}
                case "tools/call":
                    scene.calls += 1
                    self._call(asked["id"])
                    return
                case _:
                    error = {"code": -32601, "message": "Method not found"}
                    self._send(200, json.dumps({"jsonrpc": "2.0", "id": asked["id"], "error": error}).encode())
                    return
            self._send(200, json.dumps({"jsonrpc": "2.0", "id": asked["id"], "result": result}).encode())

        def _call(self, number: int) -> None:
            if scene.cut:
                self.send_response(200)
                self.send_header("Content-Type", "application/json")
                self.send_header("Content-Length", "1000")
                self.end_headers()
                self.wfile.write(b'{"jsonrpc": "2.0"')
                self.close_connection = True
                return
            if scene.body is None:
                self.connection.shutdown(socket.SHUT_RDWR)
                self.close_connection = True
                return
            self._send(scene.status, scene.body.replace(b"ID", str(number).encode()), scene.headers)

        def _send(self, status: int, body: bytes, headers: dict[str, str] | None = None) -> None:
            self.send_response(status)
            for name, value in {"Content-Type": "application/json", **(headers or {})}.items():
                self.send_header(name, value)
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    server.daemon_threads = True
    thread = threading.Thread(target=server.serve_forever, daemon=True)
    thread.start()
    try:
        yield f"http://127.0.0.1:{server.server_port}/mcp"
    finally:
        server.shutdown()
        server.server_close()
        thread.join(20)


def rpc(**body: Any) -> bytes:
    """A message of the protocol, with the id of its request."""
    return json.dumps({"jsonrpc": "2.0", "id": "ID", **body}).replace('"ID"', "ID").encode()


CERTAIN = [
    (Scene(401, body=b"who are you?"), "provider_error", False),
    (Scene(403, body=b"no"), "refused", False),
    (Scene(429, {"Retry-After": "7"}, b""), "rate_limited", True),
    (Scene(503, {"Retry-After": "7"}, b""), "provider_error", True),
    (Scene(404, body=b""), "provider_error", True),
    (Scene(307, {"Location": "https://elsewhere.example/mcp"}, b""), "provider_error", False),
    (Scene(body=rpc(error={"code": -32602, "message": "Unknown tool"})), "invalid_input", False),
    (Scene(body=rpc(result={"content": [{"type": "text", "text": "no"}], "isError": True})), "provider_error", False),
]
UNKNOWN = [
    Scene(),
    Scene(cut=True),
    Scene(500, body=b"oops"),
    Scene(502, body=b"<html>"),
    Scene(202, body=b""),
    Scene(303, {"Location": "https://elsewhere.example/done"}, b""),
    Scene(body=b"not json"),
    Scene(headers={"Content-Type": "text/html"}, body=b"<html>"),
    Scene(headers={"Content-Type": "text/event-stream"}, body=b"data: {}\n\n"),
    Scene(body=rpc(error={"code": -32603, "message": "Internal error"})),
    Scene(body=rpc(result={"wrong": True})),
    Scene(body=rpc(result={"content": [{"type": "text", "text": "x" * 1_000_000}]})),
]


@pytest.mark.parametrize(("scene", "code", "retryable"), CERTAIN, ids=lambda each: str(getattr(each, "status", each)))
def test_what_is_certain_is_a_failure(scene: Scene, code: str, retryable: bool, tmp_path: Path) -> None:
    """The server said that nothing was done, or that it failed: one of the five codes."""
    with scripted(scene) as url:

        async def main() -> None:
            async with client(tmp_path, url) as found:
                with pytest.raises(CapabilityError) as failed:
                    await call(found, "act")
                assert (failed.value.code, failed.value.retryable) == (code, retryable)
                if "Retry-After" in scene.headers:
                    assert failed.value.retry_after == 7

        run(main)


@pytest.mark.parametrize("scene", UNKNOWN, ids=lambda scene: f"{scene.status}-{(scene.body or b'')[:20]!r}")
def test_what_is_not_certain_is_never_a_failure(scene: Scene, tmp_path: Path) -> None:
    """A tool with side effects was called, and nobody knows what it did: the call is not sent again by itself."""
    with scripted(scene) as url:

        async def main() -> None:
            async with client(tmp_path, url, max_result=50_000) as found:
                with pytest.raises(UnknownOutcome):
                    await call(found, "act")
                calls = scene.calls
                assert calls == 1
                assert {each.name: each.effect for each in found.capabilities} == {
                    "web.act": "side_effect",
                    "web.look": "side_effect",
                }

        run(main)


def test_a_server_that_is_away_was_sent_nothing(tmp_path: Path) -> None:
    """No connection: it may be tried again, whatever the tool does."""
    scene = Scene(body=rpc(result={"content": []}))

    async def main() -> None:
        with scripted(scene) as url:
            tools, spec = given(tmp_path), mcp.Spec(kind="mcp", url=url)
            (await look("web", spec, tools)).pin()
        found = mcp.open("web", spec, tools)
        with pytest.raises(CapabilityError) as failed:
            await call(found, "act")
        assert (failed.value.code, failed.value.retryable) == ("provider_error", True)
        await found.close()

    run(main)
    assert scene.calls == 0


def test_a_believed_hint_is_a_fact(tmp_path: Path) -> None:
    """An operator accepts what the server says of one tool, or says better."""
    with scripted(Scene()) as url:

        async def main() -> None:
            more = {"look": mcp.Tool(accept_hints=True), "act": mcp.Tool(effect="paid", price_usd="0.01")}
            async with client(tmp_path, url, tool=more) as found:
                made = {each.name: each for each in found.capabilities}
                assert (made["web.look"].effect, made["web.look"].read_only) == ("read", True)
                assert (made["web.act"].effect, made["web.act"].read_only, made["web.act"].price) == (
                    "paid",
                    None,
                    10_000_000,
                )

        run(main)


@pytest.mark.parametrize("url", ["ftp://127.0.0.1/", "http://user:password@127.0.0.1/", "not an address"])
def test_an_address_that_would_give_a_secret_away_is_refused(url: str) -> None:
    """No secret in the address; none in clear text to another machine either, see the services file's own tests."""
    with pytest.raises(ValueError, match="the url is no"):
        mcp.Spec(kind="mcp", url=url, secret="key")
