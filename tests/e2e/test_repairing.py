"""author, repair and guide as commands: exit codes, JSON, what is asked on a terminal, and what is never executed."""

from __future__ import annotations

import json
from typing import Any

import pytest
from tests.e2e.conftest import Cli
from tests.e2e.test_terminal import Terminal

pytestmark = pytest.mark.slow

SCRIPT = """\
async def orchestrate(ctx, args):
    image = await ctx.run("image.generate", {"prompt": "a"})
    return image["href"]
"""
MENDED = SCRIPT.replace("href", "url") + "# mended\n"
CHANGED = MENDED.replace('"a"', '"b"')


def answers(cli: Cli, *scripts: Any, **more: Any) -> str:
    """Write a file of answers, and return the option that names it."""
    said = [
        each
        if isinstance(each, dict)
        else {"script": each, "moves": [], "drops": [], "reason": "r", "cost_usd": "0.001"}
        for each in scripts
    ]
    return "scripted:" + cli.write("answers.json", json.dumps(said))


def failed(cli: Cli, *more: str) -> None:
    """Run the script to its failure."""
    cli.write("one.py", SCRIPT)
    assert cli("run", "one.py", "--id", "r", "--request", "A picture", *more).code == 3


def test_a_repair_stops_at_its_plan_and_is_applied_by_a_second_command(cli: Cli) -> None:
    """Exit code 0, nothing sent; then the kept candidate, with nobody asked."""
    failed(cli)
    done = cli("repair", "r", "--model", answers(cli, CHANGED, MENDED), "--json")

    assert (done.code, done.json["status"], done.json["cost_usd"]) == (0, "accepted", "0.002")
    assert [each["verdict"] for each in done.json["attempts"]] == ["rejected", "accepted"]
    assert done.json["plan"]["replayed"] == 1
    assert cli("show", "r", "--json").json["revision"] == 1

    applied = cli("repair", "r", "--apply", "--json")

    assert (applied.code, applied.json["status"], applied.json["attempts"]) == (0, "applied", [])
    assert (applied.json["applied"]["status"], applied.json["applied"]["certificate"]) == ("completed", "ok")
    assert cli("show", "r", "--result").json == "mem://image/1"
    assert cli("repair", "r", "--model", answers(cli, MENDED)).code == 3  # nothing to repair


def test_exit_codes_say_how_it_came_out(cli: Cli) -> None:
    """3: no candidate, or a model that failed; 4: a limit; 2: nobody to ask, or a request that makes no sense."""
    failed(cli)
    assert cli("repair", "r", "--model", answers(cli, CHANGED), "--max-attempts", "1").code == 3
    assert cli("repair", "r", "--model", answers(cli, {"error": "refused", "message": "no"})).code == 3
    assert cli("repair", "r").code == 2
    assert cli("repair", "r", "--model", "nonsense").code == 2
    assert cli("repair", "r", "--model", "scripted:nowhere.json").code == 2
    assert cli("repair", "r", "--model", answers(cli, MENDED), "--max-attempts", "0").code == 2
    assert cli("repair", "nowhere", "--model", answers(cli, MENDED)).code == 2
    assert cli("author", " ", "--model", answers(cli, MENDED)).code == 2
    cli.write("grant.toml", 'limits = [{meter = "calls", max = 3}]\n')
    assert cli("grant", "r", "grant.toml").code == 0

    limited = cli("repair", "r", "--model", answers(cli, CHANGED, MENDED), "--json")

    assert (limited.code, limited.json["status"]) == (4, "paused")
    assert limited.json["limit"] == "the whole run: calls <= 3 per run"


def test_the_brief_is_printed_and_nobody_is_asked(cli: Cli) -> None:
    """As text and as JSON, without a model."""
    failed(cli)

    text = cli("repair", "r", "--show-brief")
    data = cli("repair", "r", "--show-brief", "--json")

    assert "| A picture" in text.out
    assert data.json["frozen"][0]["cost_usd"] == "0.02"
    assert cli("show", "r", "--json").json["drafts"] == []


def test_an_authored_script_is_printed_kept_and_run_on_its_own_command(cli: Cli) -> None:
    """With --out also in a file; --apply runs it at once; a run without a script says what is next."""
    good = SCRIPT.replace("href", "url")
    done = cli("author", "A picture", "--model", answers(cli, good), "--id", "a", "--out", "out.py")

    assert done.code == 0
    assert good.strip() in done.out
    assert "addendum resume a" in done.out
    assert (cli.folder / "out.py").read_text("utf-8") == good
    assert cli("resume", "a").code == 0

    assert cli("author", "A picture", "--model", answers(cli, good), "--id", "b", "--apply").code == 0
    assert cli("show", "b", "--result").json == "mem://image/1"

    none = cli("author", "-", "--model", answers(cli, "x = ["), "--max-attempts", "1", "--id", "c", stdin="A film")
    assert none.code == 3
    assert "next  addendum repair c --model scripted:" in none.out
    shown = cli("show", "c", "--json").json
    assert (shown["status"], shown["request"]) == ("requested", "A film")
    assert [each["command"] for each in shown["next"]] == ["addendum repair c", "addendum revise c SCRIPT"]
    assert "no script yet" in cli("resume", "c", "--json").error["message"]
    assert cli("show", "c", "--source").code == 2
    assert cli("repair", "c", "--model", answers(cli, good), "--apply").code == 0


def test_on_a_terminal_it_asks(cli: Cli) -> None:
    """No means that nothing was sent and the candidate is kept; yes executes what was shown."""
    failed(cli)
    model = answers(cli, MENDED)

    declined = Terminal(cli, "repair", "r", "--model", model)
    declined.until("Apply this plan? [y/N]")
    assert "Plan: accepted" in declined.plain
    declined.answer("n\n")
    assert declined.end() == 4
    assert "The candidate is kept" in declined.plain
    assert cli("show", "r", "--json").json["revision"] == 1

    applied = Terminal(cli, "repair", "r")
    applied.until("Apply this plan? [y/N]")
    applied.answer("y\n")
    assert applied.end() == 0
    assert "Run r: completed" in applied.plain


def test_what_a_model_says_cannot_control_the_terminal(cli: Cli) -> None:
    """Reasons, scripts and failures with escape sequences are shown as text."""
    failed(cli)
    evil = "\x1b]0;owned\x07\x1b[2J"
    said = {"script": f"# {evil}\nx = [", "moves": [], "drops": [], "reason": evil}
    refused = Terminal(cli, "repair", "r", "--model", answers(cli, said), "--max-attempts", "1")
    assert refused.end() == 3
    failing = Terminal(cli, "repair", "r", "--model", answers(cli, {"error": "refused", "message": evil}))
    assert failing.end() == 3
    listed = Terminal(cli, "show", "r", "--drafts")
    assert listed.end() == 0
    shown = Terminal(cli, "repair", "r", "--show-brief")
    assert shown.end() == 0

    for terminal in (refused, failing, listed, shown):
        assert "\x1b]0;" not in terminal.seen
        assert "\x1b[2J" not in terminal.seen
    assert "\\x1b]0;owned" in failing.plain
