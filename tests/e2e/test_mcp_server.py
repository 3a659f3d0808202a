"""A real MCP client uses Addendum as its workflow tool, and a hostile one gets nothing that it wasn't given."""

from __future__ import annotations

import asyncio
from dataclasses import replace
from pathlib import Path
from typing import Any

import anyio
import pytest
from mcp import Client, MCPError
from mcp_types import ElicitRequestParams, ElicitResult
from tests.e2e.conftest import Cli
from tests.mcp_clients import MODES, TWO, Gate, connected, demo, run, said, stdio, until, waiting, wrong

from addendum.authority.grant import from_json
from addendum.runs import start as starting

BROKEN = TWO.replace('"url"', '"link"')
ASKING = """
async def orchestrate(ctx, args):
    answer = await ctx.run("human.approve", {"question": "May I?"})
    return answer
"""

pytestmark = pytest.mark.slow


@pytest.mark.parametrize("mode", MODES)
def test_an_agent_checks_runs_plans_and_revises(mode: str, tmp_path: Path) -> None:
    """A failed script is revised, and what it paid for is replayed."""

    async def main() -> None:
        with demo(tmp_path) as context:
            async with connected(context, mode=mode) as (client, _):
                assert said(await client.call_tool("check", {"source": BROKEN}))["ok"]
                failed = said(await client.call_tool("run", {"source": BROKEN, "args": {"prompt": "a"}, "id": "agent"}))
                assert (failed["status"], failed["error"], failed["dispatched"]) == ("failed", "KeyError", 2)
                planned = said(await client.call_tool("plan", {"run": "agent", "source": TWO}))
                assert (planned["status"], planned["replayed"], planned["frontier"]) == ("planned", 2, 0)
                at = planned["details"]["plan"]["at"]
                done = said(await client.call_tool("revise", {"run": "agent", "source": TWO, "at": at}))
                assert (done["status"], done["dispatched"], done["replayed"]) == ("completed", 0, 2)
                again = wrong(await client.call_tool("revise", {"run": "agent", "source": TWO, "at": at}))
                assert again["error"] == "rejected"
                assert said(await client.call_tool("show", {"run": "agent", "what": "result"})) == done["result"]

    run(main)


def test_a_plan_is_applied_to_what_it_is_of(tmp_path: Path) -> None:
    """Another script, other args, or another run than the ones that were looked at: nothing is done."""

    async def main() -> None:
        with demo(tmp_path) as context:
            async with connected(context) as (client, _):
                for name in ("a", "b"):
                    await client.call_tool("run", {"source": BROKEN, "args": {"prompt": "a"}, "id": name})
                at = said(await client.call_tool("plan", {"run": "a", "source": TWO}))["details"]["plan"]["at"]
                other = TWO.replace('"second"', '"third"')
                for asked in (
                    {"run": "a", "source": other},
                    {"run": "a", "source": TWO, "args": {"prompt": "c"}},
                    {"run": "a", "args": {"prompt": "a"}},
                    {"run": "b", "source": TWO},
                    {"run": "a", "source": TWO, "supersede": "changed"},
                    {"run": "a", "source": TWO, "policy": {"relocation": "strict"}},
                ):
                    assert wrong(await client.call_tool("revise", {**asked, "at": at}))["error"] == "rejected", asked
                half = {name: value for name, value in at.items() if name != "terms"}
                asked = {"run": "a", "source": TWO, "at": half}
                assert wrong(await client.call_tool("revise", asked))["error"] == "usage"
                assert said(await client.call_tool("show", {"run": "a"}))["status"] == "failed"
                done = said(await client.call_tool("revise", {"run": "a", "source": TWO, "at": at}))
                assert (done["status"], done["replayed"]) == ("completed", 2)

    run(main)


def test_commands_for_a_person_name_the_servers_store(tmp_path: Path) -> None:
    """What a person is to run does the same as here: with the options that the server was started with."""

    async def main() -> None:
        async with Client(stdio(tmp_path, "--store", "own runs.db")) as client:
            await client.call_tool("run", {"source": ASKING, "id": "asks"})
            refused = wrong(await client.call_tool("approve", {"run": "asks"}))
            assert "`addendum approve asks --store 'own runs.db'`" in refused["hint"]
            shown = said(await client.call_tool("show", {"run": "asks"}))
            assert shown["next"][0]["command"] == "addendum approve asks --store 'own runs.db'"

    run(main)


def test_tools_answer_what_the_command_line_prints(cli: Cli, tmp_path: Path) -> None:
    """The JSON of check, run, plan and show is that of `--json`."""
    cli.write("two.py", TWO)
    cli.write("broken.py", BROKEN)
    args = ("--args", '{"prompt": "a"}')
    printed = {
        "check": cli("check", "two.py", "--json").json,
        "run": cli("run", "broken.py", *args, "--id", "same", "--name", "x", "--json").json,
        "plan": cli("plan", "same", "two.py", "--json").json,
        "show": cli("show", "same", "--json").json,
    }

    async def main() -> dict[str, Any]:
        with demo(tmp_path) as context:
            async with connected(context) as (client, _):
                asked = {"source": BROKEN, "args": {"prompt": "a"}, "id": "same", "name": "x"}
                return {
                    "check": said(await client.call_tool("check", {"source": TWO})),
                    "run": said(await client.call_tool("run", asked)),
                    "plan": said(await client.call_tool("plan", {"run": "same", "source": TWO})),
                    "show": said(await client.call_tool("show", {"run": "same"})),
                }

    answered = run(main)
    answered["check"]["path"] = printed["check"]["path"]
    for each in (printed, answered):
        each["show"].pop("created_at")
        each["plan"]["details"]["plan"].pop("at")
    for name in printed:
        assert _timeless(answered[name]) == _timeless(printed[name]), name


def _timeless(value: Any) -> Any:
    if isinstance(value, dict):
        return {key: _timeless(each) for key, each in value.items() if key not in ("seconds", "limits")}
    return [_timeless(each) for each in value] if isinstance(value, list) else value


@pytest.mark.parametrize("mode", MODES)
def test_a_long_run_tells_how_far_it_is(mode: str, tmp_path: Path) -> None:
    """Progress only grows, and says what happens in words."""
    told: list[tuple[float, str]] = []

    async def tell(progress: float, total: float | None, message: str | None) -> None:
        told.append((progress, message or ""))

    async def main() -> None:
        with demo(tmp_path) as context:
            async with connected(context, mode=mode) as (client, _):
                asked = {"source": TWO, "args": {"prompt": "a"}}
                assert said(await client.call_tool("run", asked, progress_callback=tell))["status"] == "completed"

    run(main)
    assert told
    assert [at for at, _ in told] == sorted({at for at, _ in told})
    assert told[-1][1] == "image.generate: done for $0.02"


def test_a_cancelled_request_ends_its_run_cleanly(tmp_path: Path) -> None:
    """What was sent lands and is kept, nothing more is sent, and the run goes on later."""
    gate = Gate()

    async def main() -> None:
        with waiting(tmp_path, gate) as context:
            async with connected(context) as (client, drives):
                asked = {"source": TWO, "args": {"prompt": "first"}, "id": "long"}
                async with anyio.create_task_group() as tasks:
                    tasks.start_soon(client.call_tool, "run", asked)
                    await until(gate.sent)
                    tasks.cancel_scope.cancel()
                (drive,) = drives._driven
                await until(drive.stop)
                gate.open.set()
                await drives.ended()
                shown = said(await client.call_tool("show", {"run": "long"}))
                assert (shown["status"], shown["stop"], shown["committed"]) == ("stopped", "cancelled", 1)
            async with connected(context) as (client, _):
                done = said(await client.call_tool("resume", {"run": "long"}))
                assert (done["status"], done["replayed"], done["dispatched"]) == ("completed", 1, 1)

    run(main)
    assert gate.prompts == ["first", "second"]


def test_a_client_that_leaves_changes_nothing_about_its_run(tmp_path: Path) -> None:
    """The run goes on to its end while nobody waits for it."""
    gate = Gate()

    async def main() -> None:
        with waiting(tmp_path, gate) as context:
            async with connected(context) as (client, drives):
                asked = {"source": TWO, "args": {"prompt": "first"}, "id": "long", "wait_seconds": 0}
                standing = said(await client.call_tool("run", asked))
                assert (standing["run"], standing["status"]) == ("long", "running")
                await until(gate.sent)
                busy = wrong(await client.call_tool("resume", {"run": "long"}))
                assert busy["error"] == "run_busy"
                (drive,) = drives._driven
                gate.open.set()
                await asyncio.to_thread(drive.driven.wait)
                assert said(await client.call_tool("show", {"run": "long"}))["status"] == "completed"

    run(main)
    assert gate.prompts == ["first", "second"]


def test_a_run_in_the_background_can_be_cancelled(tmp_path: Path) -> None:
    """The tool `cancel` ends it cleanly, whoever drives it."""
    gate = Gate()

    async def main() -> None:
        with waiting(tmp_path, gate) as context:
            async with connected(context) as (client, drives):
                asked = {"source": TWO, "args": {"prompt": "first"}, "id": "long", "wait_seconds": 0}
                await client.call_tool("run", asked)
                await until(gate.sent)
                assert said(await client.call_tool("cancel", {"run": "long"})) == {"run": "long", "driven": True}
                (drive,) = drives._driven
                gate.open.set()
                await asyncio.to_thread(drive.driven.wait)
                assert said(await client.call_tool("show", {"run": "long"}))["stop"] == "cancelled"

    run(main)
    assert gate.prompts == ["first"]


def test_the_same_name_never_starts_a_second_run(tmp_path: Path) -> None:
    """A client whose answer got lost asks again, and pays for nothing."""

    async def main() -> None:
        with demo(tmp_path) as context:
            async with connected(context) as (client, _):
                asked = {"source": TWO, "args": {"prompt": "a"}, "id": "once"}
                said(await client.call_tool("run", asked))
                assert wrong(await client.call_tool("run", asked))["facts"] == {"run": "once"}
                shown = said(await client.call_tool("show", {"run": "once"}))
                assert shown["totals"]["image.generate"]["calls"] == 2

    run(main)


@pytest.mark.parametrize("mode", MODES)
def test_wrong_requests_are_typed_errors(mode: str, tmp_path: Path) -> None:
    """Unknown runs and tools, odd arguments, huge scripts: the server answers, and serves on."""
    secret = tmp_path / "secret.py"
    secret.write_text("PASSWORD", "utf-8")
    calls: list[tuple[str, dict[str, Any], str]] = [
        ("show", {"run": "nothing"}, "not_found"),
        ("plan", {"run": "nothing", "source": TWO}, "not_found"),
        ("resume", {"run": "@operator"}, "not_found"),
        ("run", {}, "usage"),
        ("run", {"source": 7}, "usage"),
        ("run", {"source": TWO, "path": str(secret)}, "usage"),
        ("run", {"source": TWO, "id": "@ledger"}, "usage"),
        ("run", {"source": TWO, "id": "last"}, "usage"),
        ("run", {"source": TWO, "args": {"n": 2**60}}, "not_json"),
        ("run", {"source": TWO, "policy": {"ledger": "off"}}, "usage"),
        ("check", {"source": "x" * (2 * 1024 * 1024)}, "usage"),
        ("run", {"source": "x" * (64 * 1024 * 1024)}, "usage"),
        ("revise", {"run": "nothing"}, "usage"),
        ("revise", {"run": "nothing", "source": TWO, "at": {"seq": "1", "chain": ""}}, "usage"),
    ]

    async def main() -> None:
        with demo(tmp_path) as context:
            async with connected(context, mode=mode) as (client, _):
                for tool, arguments, code in calls:
                    found = wrong(await client.call_tool(tool, arguments))
                    assert found["error"] == code, (tool, found)
                    assert len(found["message"]) < 1000
                with pytest.raises(MCPError):
                    await client.call_tool("delete_everything", {})
                with pytest.raises(MCPError):
                    await client.read_resource("file:///etc/passwd")
                read = said(await client.call_tool("check", {"source": str(secret)}))
                assert not read["ok"]
                assert "PASSWORD" not in str(read)
                assert said(await client.call_tool("check", {"source": TWO}))["ok"]

    run(main)


def test_a_client_cannot_enlarge_the_grant(tmp_path: Path) -> None:
    """It may ask for less than the server's grant, and for nothing else."""
    limited = {"capabilities": {"image.generate": {"limits": [{"meter": "calls", "max": 2}]}}}

    async def main() -> None:
        with demo(tmp_path) as context:
            context.grant = from_json({**limited, "principal": "team"})
            async with connected(context) as (client, _):
                for wider in (
                    {"capabilities": {"image.generate": {"limits": [{"meter": "calls", "max": 3}]}}},
                    {"capabilities": {"image.generate": {}, "video.compose": {}}},
                    {"capabilities": {"image.generate": {}}, "worst_case": "at_run_time"},
                ):
                    refused = wrong(await client.call_tool("run", {"source": TWO, "grant": wider}))
                    assert refused["error"] == "rejected", wider
                for odd in (
                    {"capabilities": {"image.generate": {}}, "principal": "others"},
                    {"capabilities": {"image.generate": {"where": {"pattern": "(a+)+$"}}}},
                ):
                    assert wrong(await client.call_tool("run", {"source": TWO, "grant": odd}))["error"] == "usage", odd
                narrow = {"capabilities": {"image.generate": {"limits": [{"meter": "calls", "max": 1}]}}}
                checked = said(await client.call_tool("check", {"source": TWO, "grant": narrow}))
                assert [each["rule"] for each in checked["violations"]] == ["R09"]
                asked = {"source": TWO, "args": {"prompt": "a"}, "grant": {"limits": [{"meter": "calls", "max": 2}]}}
                assert said(await client.call_tool("run", asked))["status"] == "completed"
                catalog = (await client.read_resource("addendum://catalog")).contents[0]
                assert '"image.generate"' in catalog.text  # type: ignore[union-attr]
                assert '"video.compose"' not in catalog.text  # type: ignore[union-attr]

    run(main)


def test_a_run_with_more_authority_is_not_driven_here(tmp_path: Path) -> None:
    """Whoever may use a little can't revise a run that may use a lot, and spend that."""

    async def main() -> None:
        with demo(tmp_path) as context:
            starting.start(context, TWO, {"prompt": "a"}, run="rich")
            small = replace(context, grant=from_json({"capabilities": {"image.generate": {}}}))
            async with connected(small) as (client, _):
                refused = wrong(await client.call_tool("revise", {"run": "rich", "source": BROKEN}))
                assert refused["error"] == "rejected"
                assert wrong(await client.call_tool("resume", {"run": "rich"}))["error"] == "rejected"
                assert wrong(await client.call_tool("cancel", {"run": "rich"}))["error"] == "rejected"
                assert said(await client.call_tool("show", {"run": "rich"}))["status"] == "completed"

    run(main)


@pytest.mark.parametrize("mode", MODES)
def test_a_model_approves_nothing_by_default(mode: str, tmp_path: Path) -> None:
    """The tool says what waits and how a person answers."""

    async def main() -> None:
        with demo(tmp_path) as context:
            async with connected(context, mode=mode) as (client, _):
                waits = said(await client.call_tool("run", {"source": ASKING, "id": "asks"}))
                assert waits["status"] == "waiting"
                refused = wrong(await client.call_tool("approve", {"run": "asks", "approved": True}))
                assert refused["error"] == "approval_not_here"
                assert refused["facts"]["asks"][0]["payload"] == {"question": "May I?"}
                assert said(await client.call_tool("resume", {"run": "asks"}))["status"] == "waiting"

    run(main)


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("answer", [True, False, None])
def test_the_person_before_the_client_is_asked(mode: str, answer: bool | None, tmp_path: Path) -> None:
    """What the person says counts, whatever the model passed; no answer approves nothing."""
    questions: list[str] = []

    async def person(context: Any, params: ElicitRequestParams) -> ElicitResult:
        questions.append(params.message)
        if answer is None:
            return ElicitResult(action="cancel")
        return ElicitResult(action="accept", content={"approved": answer, "note": "so be it"})

    async def main() -> None:
        with demo(tmp_path) as context:
            async with connected(context, mode=mode, approvals="ask", elicitation_callback=person) as (client, _):
                await client.call_tool("run", {"source": ASKING, "id": "asks"})
                result = await client.call_tool("approve", {"run": "asks", "approved": answer is not True})
                if answer is None:
                    assert wrong(result)["error"] == "approval_not_here"
                    assert said(await client.call_tool("resume", {"run": "asks"}))["status"] == "waiting"
                    return
                assert said(result)["approved"] is answer
                done = said(await client.call_tool("resume", {"run": "asks"}))
                assert done["result"] == {"approved": answer, "note": "so be it"}

    run(main)
    assert len(questions) == 1
    assert '{"question": "May I?"}' in questions[0]


def test_a_client_that_can_ask_nobody_is_told_so(tmp_path: Path) -> None:
    """Without elicitation nothing is approved."""

    async def main() -> None:
        with demo(tmp_path) as context:
            async with connected(context, approvals="ask") as (client, _):
                await client.call_tool("run", {"source": ASKING, "id": "asks"})
                assert wrong(await client.call_tool("approve", {"run": "asks"}))["error"] == "approval_not_here"

    run(main)


def test_a_persons_own_program_may_answer(tmp_path: Path) -> None:
    """With --approvals client the caller answers."""

    async def main() -> None:
        with demo(tmp_path) as context:
            async with connected(context, approvals="client") as (client, _):
                await client.call_tool("run", {"source": ASKING, "id": "asks"})
                assert said(await client.call_tool("approve", {"run": "asks", "approved": False}))["approved"] is False
                done = said(await client.call_tool("resume", {"run": "asks"}))
                assert done["result"] == {"approved": False, "note": ""}
                assert wrong(await client.call_tool("approve", {"run": "asks"}))["error"] == "usage"

    run(main)


@pytest.mark.parametrize("mode", MODES)
def test_over_stdio_as_a_program(mode: str, tmp_path: Path) -> None:
    """A client starts `addendum mcp`, reads the guide and the catalog, and runs a script."""

    async def main() -> None:
        async with Client(stdio(tmp_path), mode=mode) as client:
            tools = {tool.name: tool for tool in (await client.list_tools()).tools}
            assert set(tools) == {"check", "run", "resume", "plan", "revise", "show", "approve", "cancel"}
            for tool in tools.values():
                assert tool.description
                assert tool.input_schema["type"] == "object"
                assert "$ref" not in str(tool.input_schema)
            guide = (await client.read_resource("addendum://authoring")).contents[0]
            assert "orchestrate" in guide.text  # type: ignore[union-attr]
            asked = {"source": TWO, "args": {"prompt": "a"}, "id": "first"}
            assert said(await client.call_tool("run", asked))["status"] == "completed"
            shown = (await client.read_resource("addendum://run/first")).contents[0]
            assert '"status": "completed"' in shown.text  # type: ignore[union-attr]
            (template,) = (await client.list_resource_templates()).resource_templates
            assert template.uri_template == "addendum://run/{id}"

    run(main)


def test_who_watches_runs_sees_a_clients_too(tmp_path: Path) -> None:
    """What the settings name as watchers, telemetry say, hears of a run that a client started."""
    seen: list[str] = []

    async def main() -> None:
        with demo(tmp_path) as context:
            context.observer = lambda event: seen.append(str(event["event"]))
            async with connected(context) as (client, _):
                await client.call_tool("run", {"source": TWO, "args": {"prompt": "a"}})

    run(main)
    assert seen.count("settled") == 2
