"""`addendum mcp` as a program: how clients leave, how the server ends, and who gets in."""

from __future__ import annotations

import asyncio
import contextlib
import json
import os
import re
import signal
import socket
import subprocess
import sys
import threading
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager, contextmanager
from typing import IO, Any

import anyio
import httpx2
import pytest
from mcp import Client
from mcp.client.streamable_http import streamable_http_client
from tests.e2e.conftest import Cli
from tests.mcp_clients import MODES, TWO, run, said

from addendum.cli.main import main

CAPABILITIES = """
from addendum import App

app = App()


@app.capability("image.generate", effect="paid", price_usd="0.02")
def image(prompt: str) -> dict:
    with open("calls.log", "a") as log:
        log.write(prompt + "\\n")
    with open(prompt) as gate:
        gate.read()
    return {"url": prompt}
"""
OPTIONS = ("--provider", "capabilities:app", "--grant", "grant.toml")
HELLO: dict[str, Any] = {
    "protocolVersion": "2025-11-25",
    "capabilities": {},
    "clientInfo": {"name": "test", "version": "1"},
}
LONG = {"name": "run", "arguments": {"source": TWO, "args": {"prompt": "first"}, "id": "long"}}

pytestmark = [pytest.mark.slow, pytest.mark.skipif(not hasattr(os, "mkfifo"), reason="needs named pipes")]


class Folder:
    """A folder with a capability that waits at a gate, and a server in it."""

    def __init__(self, cli: Cli) -> None:
        self.cli = cli
        self.path = cli.folder
        cli.write("capabilities.py", CAPABILITIES)
        cli.write("grant.toml", '[capabilities."image.generate"]\n')
        for prompt in ("first", "second"):
            os.mkfifo(self.path / prompt)

    def reach(self, prompt: str = "first") -> IO[str]:
        """Wait until a call is under way; it ends when this is closed."""
        return (self.path / prompt).open("w")

    @property
    def calls(self) -> list[str]:
        """What was really done."""
        return (self.path / "calls.log").read_text("utf-8").split()

    @contextmanager
    def server(self, *options: str, **environment: str) -> Iterator[subprocess.Popen[str]]:
        """Start the server; it is gone afterwards."""
        process = subprocess.Popen(
            [sys.executable, "-m", "addendum", "mcp", *OPTIONS, *options],
            cwd=self.path,
            env=self.cli.environment | environment,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )
        try:
            yield process
        finally:
            process.kill()
            process.wait()
            for pipe in (process.stdin, process.stdout, process.stderr):
                with contextlib.suppress(OSError):  # nobody reads what wasn't flushed
                    assert pipe is not None
                    pipe.close()

    def resume(self) -> Any:
        """Go on with the run from the command line, and let its one call through."""
        letting = threading.Thread(target=lambda: self.reach("second").close())
        letting.start()
        done = self.cli("resume", "long", "--provider", "capabilities:app", "--json").json
        letting.join()
        return done


@pytest.fixture
def folder(cli: Cli) -> Folder:
    """The folder, fresh."""
    return Folder(cli)


# --- stdio --------------------------------------------------------------------------------------------------------


def send(process: subprocess.Popen[str], *messages: dict[str, Any] | str) -> None:
    """Write lines to the server."""
    assert process.stdin is not None
    for message in messages:
        line = message if isinstance(message, str) else json.dumps({"jsonrpc": "2.0", **message})
        process.stdin.write(line + "\n")
    process.stdin.flush()


def answer(process: subprocess.Popen[str], wanted: int) -> Any:
    """Read until the answer to a request."""
    assert process.stdout is not None
    for line in process.stdout:
        found = json.loads(line)
        if found.get("id") == wanted:
            return found
    assert process.stderr is not None
    process.kill()
    raise AssertionError(f"the server ended: {process.stderr.read()}")


def begin(process: subprocess.Popen[str]) -> None:
    """Do the handshake, and start a run."""
    send(process, {"id": 1, "method": "initialize", "params": HELLO}, {"method": "notifications/initialized"})
    assert answer(process, 1)["result"]["serverInfo"]["name"] == "addendum"
    send(process, {"id": 2, "method": "tools/call", "params": LONG})


def ending(process: subprocess.Popen[str]) -> None:
    """Wait until the server has asked its run to end."""
    assert process.stderr is not None
    for line in process.stderr:
        if line.startswith("Ending: what is in flight in long"):
            return
    raise AssertionError("the server ended")


def test_the_end_of_input_is_a_clean_end(folder: Folder) -> None:
    """What was sent lands, nothing more is sent, and the run goes on from the command line."""
    with folder.server() as process:
        begin(process)
        gate = folder.reach()
        assert process.stdin is not None
        process.stdin.close()
        ending(process)
        gate.close()
        assert process.wait(60) == 0
    shown = folder.cli("show", "long", "--json").json
    assert (shown["status"], shown["stop"], shown["committed"]) == ("stopped", "cancelled", 1)
    done = folder.resume()
    assert (done["status"], done["replayed"], done["dispatched"]) == ("completed", 1, 1)
    assert folder.calls == ["first", "second"]


def test_a_signal_is_a_clean_end(folder: Folder) -> None:
    """SIGTERM ends the server once what was sent has landed and its client knows, though its input is still open."""
    with folder.server() as process:
        begin(process)
        gate = folder.reach()
        process.send_signal(signal.SIGTERM)
        ending(process)
        send(process, {"id": 3, "method": "tools/call", "params": {"name": "run", "arguments": {"source": TWO}}})
        refused = answer(process, 3)["result"]
        assert refused["isError"]
        assert refused["structuredContent"]["message"] == "The server is about to end."
        gate.close()
        assert answer(process, 2)["result"]["structuredContent"]["stop"] == "cancelled"
        assert process.wait(60) == 0
    shown = folder.cli("show", "long", "--json").json
    assert (shown["status"], shown["stop"], shown["committed"]) == ("stopped", "cancelled", 1)


@pytest.mark.parametrize("first", [signal.SIGINT, signal.SIGTERM])
@pytest.mark.parametrize("second", [signal.SIGINT, signal.SIGTERM])
def test_the_second_signal_kills(first: signal.Signals, second: signal.Signals, folder: Folder) -> None:
    """It waits for nothing then: not for what is in flight, nor for a client that says nothing."""
    with folder.server() as process:
        begin(process)
        gate = folder.reach()
        process.send_signal(first)
        ending(process)
        process.send_signal(second)
        assert process.wait(60) == -second
        gate.close()
        assert process.stderr is not None
        assert process.stderr.read() == ""


def test_a_killed_server_leaves_what_a_crash_leaves(folder: Folder) -> None:
    """The call that was under way is unresolved, and is not sent again by itself."""
    with folder.server() as process:
        begin(process)
        gate = folder.reach()
        process.kill()
        process.wait()
        gate.close()
    shown = folder.cli("show", "long", "--json").json
    assert (shown["status"], shown["unresolved"]) == ("interrupted", 1)
    stopped = folder.cli("resume", "long", "--provider", "capabilities:app", "--json").json
    assert (stopped["status"], stopped["stop"]) == ("stopped", "unresolved")
    assert folder.calls == ["first"]


def test_what_is_no_message_is_passed_over(folder: Folder) -> None:
    """Broken JSON, other JSON, odd bytes and a wrong handshake: the server serves on."""
    deep = '{"jsonrpc":"2.0","id":9,"method":"tools/call","params":' + "[" * 100_000 + "]" * 100_000 + "}"
    with folder.server() as process:
        send(process, "{", "[]", "null", '"\\ud800"', deep, {"id": 8, "method": "tools/list"})
        assert answer(process, 8)["error"]
        send(process, {"id": 1, "method": "initialize", "params": HELLO}, {"method": "notifications/initialized"})
        answer(process, 1)
        lone = (
            '{"jsonrpc":"2.0","id":4,"method":"tools/call","params":{"name":"check","arguments":{"source":"\\ud800"}}}'
        )
        send(process, lone, {"id": 5, "method": "tools/list"})
        assert len(answer(process, 5)["result"]["tools"]) == 8


# --- HTTP ---------------------------------------------------------------------------------------------------------


@contextmanager
def http(folder: Folder, *options: str, **environment: str) -> Iterator[tuple[subprocess.Popen[str], str, str]]:
    """Start the server over HTTP: the process, its address, its token."""
    with folder.server("--http", "127.0.0.1:0", *options, **environment) as process:
        assert process.stderr is not None
        token = environment.get("ADDENDUM_MCP_TOKEN", "")
        for line in process.stderr:
            if found := re.search(r"until it ends: (\S+)", line):
                token = found[1]
            if found := re.search(r"at (http://\S+)", line):
                yield process, found[1], token
                return
        raise AssertionError("the server ended")


@asynccontextmanager
async def client(url: str, token: str, mode: str = "legacy") -> AsyncIterator[Client]:
    """A client with a token."""
    headers = {"Authorization": f"Bearer {token}"}
    async with (
        httpx2.AsyncClient(headers=headers, timeout=60) as carrier,
        Client(streamable_http_client(url, http_client=carrier, terminate_on_close=False), mode=mode) as found,
    ):
        yield found


@pytest.mark.parametrize("mode", MODES)
def test_a_client_that_disconnects_over_http_loses_nothing(mode: str, folder: Folder) -> None:
    """Its run goes on to its end in the background, and whoever comes back sees it."""
    with http(folder) as (_, url, token):

        async def leave() -> None:
            headers = {
                "Authorization": f"Bearer {token}",
                "Accept": "application/json, text/event-stream",
                "MCP-Protocol-Version": HELLO["protocolVersion"] if mode == "legacy" else mode,
            }
            async with httpx2.AsyncClient(headers=headers, timeout=60) as raw:
                params: dict[str, Any] = dict(LONG)
                more: dict[str, str] = {}
                if mode == "legacy":
                    first = await raw.post(url, json=_request(1, "initialize", HELLO))
                    more["Mcp-Session-Id"] = first.headers["mcp-session-id"]
                    ready = {"jsonrpc": "2.0", "method": "notifications/initialized"}
                    await raw.post(url, json=ready, headers=more)
                else:
                    prefix = "io.modelcontextprotocol/"
                    params["_meta"] = {f"{prefix}protocolVersion": mode, f"{prefix}clientCapabilities": {}}
                    more = {"Mcp-Method": "tools/call", "Mcp-Name": "run"}
                async with anyio.create_task_group() as tasks:
                    tasks.start_soon(lambda: raw.post(url, json=_request(2, "tools/call", params), headers=more))
                    gates.append(await asyncio.to_thread(folder.reach))
                    tasks.cancel_scope.cancel()

        async def come_back() -> dict[str, Any]:
            async with client(url, token, mode) as back:
                assert said(await back.call_tool("show", {"run": "long"}))["status"] == "running"
                gates.pop().close()
                (await asyncio.to_thread(folder.reach, "second")).close()
                while (shown := said(await back.call_tool("show", {"run": "long"})))["status"] == "running":
                    pass  # each turn is a request
                return shown  # type: ignore[no-any-return]

        gates: list[IO[str]] = []
        run(leave)
        shown = run(come_back)
    assert (shown["status"], shown["result"]) == ("completed", ["first", "second"])
    assert folder.calls == ["first", "second"]


def _request(number: int, method: str, params: dict[str, Any]) -> dict[str, Any]:
    return {"jsonrpc": "2.0", "id": number, "method": method, "params": params}


def test_a_signal_over_http_still_answers_who_waits(folder: Folder) -> None:
    """SIGTERM: the run comes to its clean end, its client hears of it, the server ends."""
    with http(folder) as (process, url, token):

        async def main() -> Any:
            results: list[Any] = []
            try:
                async with client(url, token) as found, anyio.create_task_group() as tasks:

                    async def ask() -> None:
                        results.append(said(await found.call_tool("run", LONG["arguments"])))

                    tasks.start_soon(ask)
                    gate = await asyncio.to_thread(folder.reach)
                    process.send_signal(signal.SIGTERM)
                    await asyncio.to_thread(ending, process)
                    gate.close()
            except* httpx2.TransportError:
                pass  # the server is gone by the time that its client takes its leave
            return results[0]

        stopped = run(main)
        assert (stopped["status"], stopped["stop"], stopped["committed"]) == ("stopped", "cancelled", 1)
        assert process.wait(60) == 0


def test_who_gets_in_over_http(folder: Folder) -> None:
    """The token, and nothing but the token; no page of another origin, no other name for this machine."""
    ask = _request(1, "initialize", HELLO)
    accept = {"Accept": "application/json, text/event-stream"}
    with (
        http(folder, ADDENDUM_MCP_TOKEN="a token of thirty-two letters yes") as (_, url, token),
        httpx2.Client() as raw,
    ):
        right = {**accept, "Authorization": f"Bearer {token}"}

        def status(headers: dict[str, str], address: str = url) -> int:
            return raw.post(address, json=ask, headers=headers).status_code

        assert status(right) == 200
        assert status(accept) == 401
        assert status({**accept, "Authorization": "Bearer wrong"}) == 401
        assert status({**accept, "Authorization": token}) == 401
        assert status(accept, f"{url}?token={token}") == 401
        assert status({**right, "Host": "evil.example"}) == 421
        assert status({**right, "Origin": "https://evil.example"}) == 403
        assert status({**right, "Origin": "null"}) == 403
        assert raw.get(url.removesuffix("/mcp"), headers=accept).status_code == 401
        large = {**ask, "params": {**HELLO, "padding": "x" * 5_000_000}}
        assert raw.post(url, json=large, headers=right).status_code == 413


@pytest.mark.parametrize(
    ("options", "says"),
    [
        (("--http", "0.0.0.0:0"), "no token is named"),
        (("--http", "nowhere"), "no address"),
        (("--http", "127.0.0.1:0", "--token", "env:SHORT"), "token"),
        (("--token", "env:SHORT"), "are for HTTP"),
        (("--approvals", "always"), "--approvals can't be"),
    ],
)
def test_what_the_server_refuses_to_be(options: tuple[str, ...], says: str, folder: Folder) -> None:
    """No server without a token that other machines reach, and no half-understood option."""
    done = folder.cli("mcp", *OPTIONS, *options, SHORT="short")
    assert done.code == 2
    assert says in done.err


def test_a_port_that_is_taken_is_named_before_a_token_is(folder: Folder) -> None:
    """One sentence with a way out and nothing before it: no token of a server that never was, and no store."""
    with socket.socket() as other:
        other.bind(("127.0.0.1", 0))
        other.listen()
        where = f"127.0.0.1:{other.getsockname()[1]}"
        done = folder.cli("mcp", *OPTIONS, "--http", where, "--store", "new.db")
    assert done.code == 2
    assert " ".join(done.err.split()) == (
        f"error[config]: The server can't listen at {where}: another process does. "
        "Name another port with --http; port 0 takes any that is free."
    )
    assert done.out == ""
    assert not (folder.path / "new.db").exists()


def test_a_server_has_a_grant(folder: Folder) -> None:
    """Who says nothing about limits doesn't hand a client everything."""
    done = folder.cli("mcp", "--provider", "capabilities:app")
    assert done.code == 2
    assert "No grant is named" in done.err


def test_without_the_extra_it_is_named(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    """The base install has the command, and says what is missing."""
    monkeypatch.setitem(sys.modules, "mcp.server.lowlevel", None)
    assert main(["mcp"]) == 2
    assert "addendum[mcp]" in capsys.readouterr().err
