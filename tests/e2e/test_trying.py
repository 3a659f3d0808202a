"""check, rule, rehearse, step, demo and sandbox, through the real command."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest
from tests.e2e.conftest import Cli

pytestmark = pytest.mark.slow

SCENARIOS = Path(__file__).parents[1] / "cases" / "scenarios"
UNBOUNDED = """\
async def orchestrate(ctx, args):
    for item in args["items"]:
        await ctx.run("image.generate", {"prompt": item})
"""
FAN = """\
async def orchestrate(ctx, args):
    async def one(i):
        image = await ctx.run("image.generate", {"prompt": f"shot {i}"})
        return image["url"]

    urls = await ctx.parallel([one(i) for i in range(3)])
    try:
        film = await ctx.run("video.compose", {"clips": urls, "music_url": None})
    except CapabilityError as error:
        return error.code
    return film["url"]
"""


def test_a_violation_is_shown_with_its_line_a_caret_and_a_fix(cli: Cli) -> None:
    """As ruff does: path, line, column, rule and message; then the line, and how to mend it."""
    cli.write("bad.py", UNBOUNDED)
    done = cli("check", "bad.py")
    assert done.code == 3
    first, line, caret, fix, *_ = done.out.splitlines()
    assert re.match(r"bad\.py:2:\d+: R03 ", first)
    assert line == '2 |     for item in args["items"]:'
    assert caret.endswith("^")
    assert "fix:" in fix
    refused = cli("run", "bad.py", "--json")
    assert (refused.code, refused.json["status"], refused.json["dispatched"]) == (3, "not_admitted", 0)
    assert refused.json["details"]["admission"]["violations"][0]["rule"] == "R03"
    assert "bad.py:2:" in cli("run", "bad.py").out


def test_violations_in_the_formats_of_others(cli: Cli) -> None:
    """JSON, SARIF and workflow commands say the same place."""
    cli.write("bad.py", UNBOUNDED)
    found = cli("check", "bad.py", "--json").json
    (violation,) = [item for item in found["violations"] if item["rule"] == "R03"]
    log = cli("check", "bad.py", "--format", "sarif").json
    region = log["runs"][0]["results"][0]["locations"][0]["physicalLocation"]["region"]
    assert (region["startLine"], region["startColumn"]) == (violation["line"], violation["column"])
    assert {rule["id"] for rule in log["runs"][0]["tool"]["driver"]["rules"]} == {f"R{n:02}" for n in range(13)}
    command = cli("check", "bad.py", "--format", "github").out
    assert command.startswith(f"::error file=bad.py,line=2,col={violation['column']},title=R03::")
    assert cli("check", "bad.py", "--format", "xml", "--json").error["error"] == "usage"


FOREIGN = """\
import asyncio
import time
from typing import Any


async def orchestrate(ctx, args):
    with open("x") as file:
        time.sleep(1)
    return await asyncio.gather(ctx.now())
"""


def test_the_way_out_of_a_foreign_library_is_what_ctx_has(cli: Cli) -> None:
    """No member of a module that can't be imported is taken for a key of a dict, and a statement is refused once."""
    cli.write("foreign.py", FOREIGN)
    found = cli("check", "foreign.py", "--json").json["violations"]
    said = {(each["line"], each["message"]): each["fix"] for each in found if each["rule"] == "R10"}
    assert said[3, "`from typing import Any` imports names."] == "Leave it out; annotations need no import."
    assert said[8, "`time.sleep` is not part of the language."] == "Write `await ctx.sleep(seconds)`."
    assert said[9, "`asyncio.gather` is not part of the language."] == "Write `await ctx.parallel([...])`."
    assert not [message for _, message in said if "withitem" in message]
    fenced = cli("check", "-", "--json", stdin="```python\n" + FAN + "```\n").json["violations"]
    assert [each["fix"] for each in fenced] == ["Leave the Markdown fence out."]


def test_a_script_that_cannot_be_read_does_not_hide_the_others(cli: Cli) -> None:
    """Each is named, the others are judged, and the exit code is that of a malformed request."""
    cli.write("bad.py", UNBOUNDED)
    done = cli("check", "gone.py", "bad.py", "nowhere.py", "--json")
    assert done.code == 2
    assert [json.loads(line)["path"] for line in done.out.splitlines()] == ["bad.py"]
    assert [json.loads(line)["error"] for line in done.err.splitlines()] == ["not_found", "not_found"]


def test_a_value_that_is_wrong_is_named(cli: Cli) -> None:
    """An empty value isn't a folder, and a file that is no JSON has a name."""
    cli.write("fan.py", FAN)
    cli.write("text.json", "text")
    assert cli("run", "fan.py", "--args", "", "--json").error["message"] == "The args are empty."
    assert "text.json" in cli("run", "fan.py", "--args", "text.json", "--json").error["message"]
    cli("run", "fan.py", "--id", "one")
    both = cli("reconcile", "one", "--result", "1", "--abandon", "--json")
    assert both.error["message"] == "--result and --abandon say different things."
    assert "the result as JSON" in cli("reconcile", "one", "--result", "gone", "--json").error["hint"]
    assert "text.json" in cli("revise", "one", "--plan", "text.json", "--json").error["message"]


def test_a_command_to_copy_is_never_broken_into_lines(cli: Cli) -> None:
    """Where there is little room its reason stands below it."""
    cli.write("fan.py", FAN)
    done = cli("run", "fan.py", "--id", "a-name-of-some-length", COLUMNS="60")
    *_, command, why = done.out.splitlines()
    assert command == "next  addendum certificate a-name-of-some-length --verify"
    assert why == "      recompute what the store says"


def test_facts_and_rules_are_told(cli: Cli) -> None:
    """--facts has the bounds and the worst case; `rule` has the manual."""
    done = cli("check", cli.write("fan.py", FAN), "--facts")
    assert done.code == 0
    assert "costs at most  $0.11" in done.out
    assert cli("rule", "r05").out.startswith("R05: ")
    assert [page["rule"] for page in cli("rule", "--json").json] == [f"R{n:02}" for n in range(13)]
    assert cli("rule", "R99", "--json").error["error"] == "not_found"


def test_rehearse_prints_one_object_a_line_and_exits_by_verdict(cli: Cli) -> None:
    """0 when all pass, 3 when one doesn't, 2 for a file that is no scenario, even if others pass."""
    good = str(SCENARIOS / "01-partial-fanout-repaired-tail.yaml")
    wrong = cli.write("wrong.yaml", Path(good).read_text("utf-8").replace("executed: 3", "executed: 4"))
    broken = cli.write("broken.yaml", "name: x\nsteps: []\n")
    passed = cli("rehearse", good, "--json")
    assert passed.code == 0
    assert set(passed.json) == {"name", "passed", "steps", "mismatches"}
    both = cli("rehearse", good, wrong, "--json")
    assert both.code == 3
    verdicts = [json.loads(line)["passed"] for line in both.out.splitlines()]
    assert verdicts == [True, False]
    mixed = cli("rehearse", broken, good, "--json")
    assert (mixed.code, mixed.json["passed"]) == (2, True)
    assert mixed.error["error"] == "not_a_scenario"
    text = cli("rehearse", wrong)
    assert "expected  executed: 4" in text.out
    assert "seen      executed: 3" in text.out
    assert "0 scenarios passed, 1 failed" in text.out


def test_rehearse_takes_folders(cli: Cli) -> None:
    """Every scenario in a folder is played; a folder without any is a mistake."""
    (cli.folder / "some").mkdir()
    assert cli("rehearse", "some", "--json").code == 2
    for name in ("07-committed-payload-literal.yaml", "15-crash-before-commit.yaml"):
        (cli.folder / "some" / name).write_text((SCENARIOS / name).read_text("utf-8"), "utf-8")
    assert len(cli("rehearse", "some", "--json").out.splitlines()) == 2


def test_a_loop_of_steps_makes_the_calls_of_a_run(cli: Cli) -> None:
    """Separate processes with K in a file make the same calls in the same order, and come to the same end."""
    cli.write("fan.py", FAN)
    calls: list[str] = []
    found = cli("step", "--script", "fan.py").json
    while found["end"] is None:
        cli.write("k.json", json.dumps(found["k"]))
        pending = found["pending"][0]
        calls.append(pending["identity"])
        result = {"url": f"mem://image/{len(calls)}"} if pending["capability"] == "image.generate" else {"url": "film"}
        found = cli("step", "k.json", "--result", json.dumps(result)).json
    assert found["end"] == {"status": "completed", "result": "film"}
    direct = cli("run", "fan.py", "--json").json["run"]
    assert [attempt["identity"] for attempt in cli("attempts", direct, "--json").json] == calls
    cli.write("k.json", json.dumps({**found["k"], "trace": found["k"]["trace"][:3]}))
    failed = cli("step", "k.json", "--failure", '{"code": "refused"}').json
    assert failed["end"] == {"status": "completed", "result": "refused"}
    wrong = cli("step", "k.json", "--call", "nowhere", "--result", "1", "--json")
    assert (wrong.code, wrong.error["error"]) == (2, "not_found")


def test_a_k_that_another_tool_wrote_again_keeps_its_whole_floats(cli: Cli) -> None:
    """Other tools write 1.5e18 as RFC 8785 does; a result that a person gives in that form stays refused."""
    cli.write(
        "big.py", 'async def orchestrate(ctx, args):\n    return await ctx.run("text.generate", {"prompt": "a"})\n'
    )
    found = cli("step", "--script", "big.py", "--args", '{"x": 1.5e18}').json
    cli.write("k.json", json.dumps(found["k"]).replace("1.5e+18", "1500000000000000000"))
    assert "1500000000000000000" in (cli.folder / "k.json").read_text("utf-8")
    done = cli("step", "k.json", "--result", "2.5e18").json
    assert done["end"] == {"status": "completed", "result": 2.5e18}
    assert cli("step", "k.json", "--result", "2500000000000000000").code == 2


def test_the_demonstration_pays_for_one_image_in_the_revision(cli: Cli) -> None:
    """Four replayed, one paid for, none twice; its text has a plan, a bill and a certificate."""
    done = cli("demo", "--seconds", "0", "--json")
    assert done.code == 0
    assert done.json["run"]["status"] == "failed"
    assert (done.json["plan"]["rebound"], done.json["plan"]["frontier"]) == (3, 1)
    assert (done.json["revise"]["dispatched"], done.json["revise"]["replayed"]) == (1, 4)
    assert done.json["money"]["together"] == {"calls": 6, "cost_usd": "0.09"}
    assert done.json["money"]["with_full_rerun"] == {"calls": 10, "cost_usd": "0.16"}
    text = cli("demo", "--seconds", "0", "--keep", "kept")
    assert text.code == 0
    for line in (
        "Plan: accepted, 4 calls replayed, 1 new call for at most $0.02",
        "4 calls replayed, 1 paid for",
        "verified",
    ):
        assert line in text.out
    assert cli("show", "last", "--store", "kept/store.db", "--json").json["revision"] == 2
    assert cli("demo", "--seconds", "0", "--keep", "kept").code == 0, "a folder that was kept can be used again"


def test_sandboxes_are_listed(cli: Cli) -> None:
    """The embedded one comes with the package; the settings say which is chosen."""
    done = cli("sandbox", "list", "--json")
    assert done.code == 0
    expected = {"name": "monty", "available": True, "why": "", "chosen": True}
    assert done.json[0] | expected == done.json[0]
    unknown = cli("run", "-", "--sandbox", "nowhere", "--json", stdin=FAN)
    assert (unknown.code, unknown.error["error"], unknown.out) == (2, "config", "")
