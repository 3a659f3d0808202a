"""Tools of an MCP server in a run, from the command line: pinned first, then called, and never twice."""

from __future__ import annotations

import json
import sys
from pathlib import Path

import pytest
from tests.e2e.conftest import Cli

SERVERS = Path(__file__).parents[1] / "unit" / "providers" / "mcp" / "servers.py"
FILE = f"""
[secret]
key = "env:CANARY"

[capability."srv"]
kind = "mcp"
command = [{json.dumps(sys.executable)}, {json.dumps(str(SERVERS))}, "good"]
secrets = {{ TOKEN = "key" }}

[capability."srv".tool.hang]
timeout = 0.5

[capability."srv".tool.add]
accept_hints = true
"""
ADD = """
async def orchestrate(ctx, args):
    found = await ctx.run("srv.add", {"a": 20, "b": 22})
    return found["sum"]
"""
DIE = """
async def orchestrate(ctx, args):
    return await ctx.run("srv.die", {})
"""
HANG = """
async def orchestrate(ctx, args):
    try:
        return await ctx.run("srv.hang", {})
    except CapabilityError:
        return "caught"
"""
LEAK = """
async def orchestrate(ctx, args):
    return await ctx.run("srv.environment", {})
"""
CANARY = {"CANARY": "canary-value-1234"}
PROVIDER = ("--provider", "services.toml")

pytestmark = pytest.mark.slow


_PINS: list[str] = []
"""What the server offers: it is pinned once for all tests."""


@pytest.fixture
def pinned(cli: Cli) -> Cli:
    """A folder with a services file, whose server's tools are pinned."""
    cli.write("services.toml", FILE)
    if _PINS:
        cli.write("srv.pins.json", _PINS[0])
        return cli
    done = cli("catalog", "pin", *PROVIDER, "--yes", "--json", **CANARY)
    assert done.code == 0, done.err
    _PINS.append((cli.folder / "srv.pins.json").read_text("utf-8"))
    return cli


def test_tools_are_looked_at_before_they_are_used(cli: Cli) -> None:
    """Nothing is pinned by itself; what a server claims is shown, and that it is believed for one tool."""
    cli.write("services.toml", FILE)
    cli.write("add.py", ADD)
    missing = cli("check", "add.py", *PROVIDER, **CANARY)
    assert missing.code == 2
    assert "addendum catalog pin srv" in missing.err
    looked = cli("catalog", "pin", *PROVIDER, **CANARY)
    assert looked.code == 3
    assert "readOnlyHint yes" in looked.out
    assert not (cli.folder / "srv.pins.json").exists()
    (pinned,) = cli("catalog", "pin", *PROVIDER, "--yes", "--json", **CANARY).json
    assert (pinned["written"], pinned["pinned"]) == (True, False)
    tools = {tool["tool"]: tool for tool in pinned["tools"]}
    assert (tools["add"]["effect"], tools["add"]["believed"]) == ("read", True)
    assert tools["die"]["effect"] == "side_effect"
    assert cli("check", "add.py", *PROVIDER).code == 0, "without the secret, and without the server"


def test_a_tool_is_called_once(pinned: Cli) -> None:
    """Its result is in the store: a second drive asks nobody."""
    pinned.write("add.py", ADD)
    done = pinned("run", "add.py", *PROVIDER, "--id", "r", "--json", **CANARY).json
    assert (done["status"], done["result"], done["dispatched"]) == ("completed", 42, 1)
    again = pinned("resume", "r", *PROVIDER, "--json").json
    assert (again["status"], again["replayed"], again["dispatched"]) == ("completed", 1, 0)


def test_a_server_that_dies_in_a_call_leaves_it_unresolved(pinned: Cli) -> None:
    """A side effect that may have happened isn't tried again."""
    pinned.write("die.py", DIE)
    done = pinned("run", "die.py", *PROVIDER, "--id", "r", "--json", **CANARY).json
    assert (done["status"], done["stop"], done["dispatched"]) == ("stopped", "unresolved", 1)
    again = pinned("resume", "r", *PROVIDER, "--json", **CANARY).json
    assert (again["stop"], again["dispatched"]) == ("unresolved", 0)


def test_a_tool_that_does_not_answer_in_time_leaves_its_call_unresolved(pinned: Cli) -> None:
    """It was sent: no script can catch that, and nothing sends it again."""
    pinned.write("hang.py", HANG)
    done = pinned("run", "hang.py", *PROVIDER, "--id", "r", "--json", **CANARY).json
    assert (done["status"], done["stop"], done["dispatched"]) == ("stopped", "unresolved", 1)


def test_a_tool_that_changed_is_not_called(pinned: Cli) -> None:
    """The run says what is different; a plan needs no server; looking again and pinning is the way on."""
    pinned.write("add.py", ADD)
    path = pinned.folder / "services.toml"
    path.write_text(FILE.replace('"good"', '"changed"'), "utf-8")
    failed = pinned("run", "add.py", *PROVIDER, "--id", "r", "--json", **CANARY).json
    assert (failed["status"], failed["error"]) == ("failed", "refused")
    assert '"add" changed (/description was "Add two numbers."' in failed["message"]
    assert pinned("plan", "r", *PROVIDER, "--json").json["status"] == "planned"
    (looked,) = pinned("catalog", "pin", *PROVIDER, "--json", **CANARY).json
    assert (looked["same"], looked["written"], list(looked["differences"])) == (False, False, ["add"])
    assert pinned("catalog", "pin", *PROVIDER, "--yes", **CANARY).code == 0
    other = pinned("resume", "r", *PROVIDER, "--json", **CANARY).json
    assert (other["stop"], other["dispatched"]) == ("denied", 0), "another definition is another capability"
    assert pinned("catalog", "accept", "r", *PROVIDER).code == 0
    assert pinned("resume", "r", *PROVIDER, "--json", **CANARY).json["result"] == 42


def test_a_secret_that_a_server_echoes_goes_nowhere(pinned: Cli) -> None:
    """The server gets it; the store, the result and what is printed don't."""
    pinned.write("leak.py", LEAK)
    done = pinned("run", "leak.py", *PROVIDER, "--id", "r", "--json", **CANARY)
    assert done.json["result"]["text"] == "TOKEN=[secret key]"
    for path in pinned.folder.rglob("*"):
        if path.is_file():
            assert CANARY["CANARY"].encode() not in path.read_bytes(), path
