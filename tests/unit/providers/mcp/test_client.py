"""Real servers over stdio: what they offer is pinned, what they do is told apart, and nothing of ours reaches them."""

from __future__ import annotations

import asyncio
import sys
from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import asynccontextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from tests.mcp_clients import run
from tests.mcp_services import CANARY, given

from addendum.artifacts import FileArtifacts
from addendum.credentials import Credentials
from addendum.errors import CapabilityError, ConfigError, UnknownOutcome
from addendum.ports import Request
from addendum.providers import mcp
from addendum.providers.mcp.definitions import Definition, read, write
from addendum.providers.mcp.pinning import look
from addendum.providers.service import Service

SERVERS = Path(__file__).parent / "servers.py"

pytestmark = pytest.mark.slow


_SEEN: dict[str, Mapping[str, Definition]] = {}
"""What each server offers: it is looked at once for all tests."""


def spec(which: str = "good", **more: Any) -> mcp.Spec:
    """A server of `servers.py`."""
    return mcp.Spec(**{"kind": "mcp", "command": [sys.executable, str(SERVERS), which], **more})


@asynccontextmanager
async def pinned(
    folder: Path,
    which: str = "good",
    *,
    pin: Callable[[dict[str, Definition]], object] = lambda found: None,
    **more: Any,
) -> AsyncIterator[Service]:
    """A server whose tools were looked at and pinned, after `pin` changed what was seen."""
    tools, chosen = given(folder), spec(which, **more)
    if which not in _SEEN:
        _SEEN[which] = (await look("srv", spec(which), tools)).now
    seen = {name: found for name, found in _SEEN[which].items() if not chosen.tools or name in chosen.tools}
    pin(seen)
    write(folder / "srv.pins.json", seen)
    client = mcp.open("srv", chosen, tools)
    try:
        yield client
    finally:
        await client.close()


async def call(client: Service, tool: str, **payload: Any) -> Any:
    """Call a tool and return the value."""
    request = Request(capability=f"srv.{tool}", payload=payload, key="k", run="r", identity="i", attempt=1)
    return (await client.dispatch(request)).value


def test_tools_are_called(tmp_path: Path) -> None:
    """Structured content is the value; other content is a text and parts, bytes as artifacts."""

    async def main() -> None:
        async with pinned(tmp_path) as client:
            assert await call(client, "add", a=1, b=2) == {"sum": 3}
            drawn = await call(client, "draw")
            assert drawn["text"] == "a picture"
            (part,) = drawn["parts"]
            assert (part["type"], part["media_type"], part["bytes"]) == ("image", "image/png", 4)
            assert FileArtifacts(tmp_path / "artifacts").get(part["artifact"]) == b"\x89PNG"

    run(main)


def test_a_server_gets_an_empty_environment(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Only the variables that the services file names, and the secrets that it names by handle."""
    monkeypatch.setenv("OPENAI_API_KEY", "ours")

    async def main() -> None:
        async with pinned(tmp_path, environment={"MODE": "test"}, secrets={"API_KEY": "key"}) as client:
            assert (await call(client, "environment"))["text"] == f"API_KEY={CANARY} MODE=test"

    run(main)


def test_what_goes_wrong_is_told_apart(tmp_path: Path) -> None:
    """A reported error is certain; a server that dies, or an answer that is too large, leaves the outcome open."""

    async def main() -> None:
        async with pinned(tmp_path, max_result=200_000) as client:
            with pytest.raises(CapabilityError) as failed:
                await call(client, "fail")
            assert (failed.value.code, failed.value.retryable) == ("provider_error", False)
            with pytest.raises(CapabilityError):
                await call(client, "add", a="one", b=2)
            with pytest.raises(UnknownOutcome):
                await call(client, "die")
            assert await call(client, "add", a=1, b=1) == {"sum": 2}, "it is started again"
            with pytest.raises(UnknownOutcome, match="too large"):
                await call(client, "huge", size=1_000_000)
            assert await call(client, "add", a=1, b=1) == {"sum": 2}

    run(main)


def test_a_tool_that_wants_to_ask_a_person_is_refused(tmp_path: Path) -> None:
    """Nobody is asked for a server: `human.approve` is the script's way."""

    async def main() -> None:
        async with pinned(tmp_path, "asks") as client:
            with pytest.raises(CapabilityError, match="nobody is asked here") as asked:
                await call(client, "ask")
            assert asked.value.code == "refused"

    run(main)


def test_calls_at_once_share_one_server(tmp_path: Path) -> None:
    """Twenty calls in parallel, each with its own answer."""

    async def main() -> None:
        async with pinned(tmp_path) as client:
            found = await asyncio.gather(*(call(client, "add", a=n, b=1) for n in range(20)))
            assert [each["sum"] for each in found] == list(range(1, 21))

    run(main)


def test_a_cancelled_call_leaves_the_server_usable(tmp_path: Path) -> None:
    """The broker's time limit cancels a call."""

    async def main() -> None:
        async with pinned(tmp_path) as client:
            await call(client, "add", a=1, b=1)
            task = asyncio.create_task(call(client, "huge", size=100_000))
            await asyncio.sleep(0)
            task.cancel()
            with pytest.raises(asyncio.CancelledError):
                await task
            assert await call(client, "add", a=1, b=1) == {"sum": 2}

    run(main)


@pytest.mark.parametrize("how", ["changed", "added", "removed"])
def test_other_tools_than_the_pinned_ones_stop(how: str, tmp_path: Path) -> None:
    """Nothing is sent to a server whose tools are others, and the error shows the difference."""

    def change(found: dict[str, Definition]) -> None:
        if how == "changed":
            found["add"] = Definition("add", {**found["add"].data, "description": "Add three numbers."})
        elif how == "added":
            del found["die"]
        else:
            found["gone"] = Definition("gone", {"name": "gone", "inputSchema": {"type": "object"}})

    says = {
        "changed": '"add" changed (/description was "Add three numbers.", is "Add two numbers.")',
        "added": '"die" is new',
        "removed": '"gone" is gone',
    }[how]

    async def main() -> None:
        async with pinned(tmp_path, pin=change) as client:
            with pytest.raises(CapabilityError) as refused:
                await call(client, "add", a=1, b=2)
            assert refused.value.code == "refused"
            assert says in refused.value.message

    run(main)


def test_tools_that_change_in_the_middle_stop(tmp_path: Path) -> None:
    """A server that says that its tools changed is looked at again before the next call."""

    async def main() -> None:
        async with pinned(tmp_path) as client:
            assert await call(client, "grow") == {"result": "grown"}
            held = client._client._connection._held  # type: ignore[attr-defined]
            while not held.changes:  # noqa: ASYNC110 - a turn of the loop, no time
                await asyncio.sleep(0)
            with pytest.raises(CapabilityError, match='"later" is new') as refused:
                await call(client, "add", a=1, b=2)
            assert refused.value.code == "refused"

    run(main)


def test_only_the_wanted_tools_count(tmp_path: Path) -> None:
    """With an allow list, what else the server offers may change."""

    async def main() -> None:
        async with pinned(tmp_path, tools=["add"], pin=lambda found: None) as client:
            assert [each.name for each in client.capabilities] == ["srv.add"]
            assert await call(client, "add", a=1, b=2) == {"sum": 3}

    run(main)


def test_chatter_on_stdout_is_passed_over(tmp_path: Path) -> None:
    """Lines that are no messages are no messages."""

    async def main() -> None:
        async with pinned(tmp_path, "junk") as client:
            assert await call(client, "add", a=1, b=2) == {"sum": 3}

    run(main)


@pytest.mark.parametrize(
    ("which", "says"),
    [
        ("silent", "wasn't ready within"),
        ("flood", "it sends no messages"),
        ("endless", "too large"),
        ("dead", "no license"),
    ],
)
def test_a_server_that_is_none_is_unreachable(which: str, says: str, tmp_path: Path) -> None:
    """It never answers, floods, or ends: nothing was sent, and it may be tried again."""

    async def main() -> None:
        async with pinned(tmp_path) as good:
            assert good.capabilities
        seconds = 0.5 if which == "silent" else 30.0
        client = mcp.open("srv", spec(which, start_timeout=seconds, max_result=100_000), given(tmp_path))
        with pytest.raises(CapabilityError, match=says) as failed:
            await call(client, "add", a=1, b=2)
        assert (failed.value.code, failed.value.retryable) == ("provider_error", True)
        await client.close()

    run(main)


def test_a_program_that_is_not_there_is_named(tmp_path: Path) -> None:
    """The services file names a program; it gets no PATH to look for another."""

    async def main() -> None:
        with pytest.raises(ConfigError, match="can't be asked"):
            await look("srv", spec("dead"), given(tmp_path))
        with pytest.raises(ConfigError, match="no program"):
            await look("srv", spec(command=["no-such-program-here"]), given(tmp_path))

    run(main)


def test_a_secret_that_is_not_there_is_not_waited_for(tmp_path: Path) -> None:
    """Nothing is sent, and trying again doesn't help."""

    async def main() -> None:
        async with pinned(tmp_path) as good:
            assert good.capabilities
        tools = replace(given(tmp_path), secret=Credentials({"key": "env:GONE"}, tmp_path, {}).later)
        client = mcp.open("srv", spec(secrets={"API_KEY": "key"}), tools)
        with pytest.raises(CapabilityError, match="GONE") as failed:
            await call(client, "add", a=1, b=2)
        assert (failed.value.code, failed.value.retryable) == ("provider_error", False)
        await client.close()

    run(main)


def test_nothing_is_used_before_it_was_looked_at(tmp_path: Path) -> None:
    """Without pins there is no service, and no server is started to show a catalog."""

    async def main() -> None:
        with pytest.raises(ConfigError, match="aren't pinned") as missing:
            mcp.open("srv", spec("dead"), given(tmp_path))
        assert "addendum catalog pin srv" in missing.value.hint
        seen = await look("srv", spec(), given(tmp_path))
        seen.pin()
        assert read(tmp_path / "srv.pins.json") == seen.now
        assert mcp.open("srv", spec("dead"), given(tmp_path)).capabilities
        assert (await look("srv", spec(), given(tmp_path))).same

    run(main)


def test_names_that_come_to_the_same_are_an_error(tmp_path: Path) -> None:
    """The services file has to tell them apart."""

    async def main() -> None:
        with pytest.raises(ConfigError, match=r"would both be srv\.files_read"):
            async with pinned(tmp_path, "colliding"):
                pass
        named = {"files read": mcp.Tool(name="other")}
        async with pinned(tmp_path, "colliding", tool=named) as client:
            assert {each.name for each in client.capabilities} == {"srv.files_read", "srv.other"}

    run(main)
