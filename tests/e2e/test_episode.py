"""An episode through the real command: a script with a bug behind its paid calls, its plan, its revision."""

from __future__ import annotations

import json

import pytest
from tests.e2e.conftest import Cli

pytestmark = pytest.mark.slow

FIRST = """\
async def orchestrate(ctx, args):
    async def draw(prompt):
        image = await ctx.run("image.generate", {"prompt": prompt})
        return image["link"]

    return await ctx.parallel([draw(prompt) for prompt in args["prompts"][:3]])
"""
SECOND = """\
async def picture(ctx, prompt):
    image = await ctx.run("image.generate", {"prompt": prompt})
    return image["url"]


async def orchestrate(ctx, args):
    urls = await ctx.parallel([picture(ctx, prompt) for prompt in args["prompts"][:3]])
    film = await ctx.run("video.compose", {"clips": urls, "music_url": None})
    return film["url"]
"""
CHANGED = FIRST.replace('"link"', '"url"').replace('{"prompt": prompt}', '{"prompt": prompt + " at night"}')
EXPECTED = {
    "status", "stop", "error", "dispatched", "executed", "replayed", "committed", "rebound", "superseded", "orphans",
    "repeats", "gate", "counterexamples", "frontier", "certificate", "result",
}  # fmt: skip
ARGS = '{"prompts": ["a", "b", "c"]}'


@pytest.fixture
def failed(cli: Cli) -> Cli:
    """A run named `story` that failed after three paid images."""
    cli.write("first.py", FIRST)
    cli.write("second.py", SECOND)
    cli.write("changed.py", CHANGED)
    done = cli("run", "first.py", "--args", ARGS, "--id", "story", "--json")
    assert done.code == 3
    assert done.err == ""
    assert set(done.json) >= EXPECTED
    assert done.json["status"] == "failed"
    assert done.json["error"] == "KeyError"
    assert done.json["committed"] == 3
    assert done.json["certificate"] == "ok"
    return cli


def test_a_revision_replays_what_was_paid_for(failed: Cli) -> None:
    """The plan says three replayed and one new; the revision does that, and the looks agree with it."""
    plan = failed("plan", "story", "second.py", "--json")
    assert plan.code == 0
    assert set(plan.json) >= EXPECTED
    counts = {name: plan.json[name] for name in ("status", "gate", "replayed", "rebound", "frontier", "dispatched")}
    assert counts == {
        "status": "planned", "gate": "accepted", "replayed": 3, "rebound": 3, "frontier": 1, "dispatched": 0,
    }  # fmt: skip
    assert plan.json["details"]["plan"]["price_usd"] == "0.05"
    worst = plan.json["details"]["worst_case"]
    assert worst == {"calls": {"image.generate": 3, "video.compose": 1}, "cost_usd": "0.11"}

    revised = failed("revise", "story", "second.py", "--json")
    assert revised.code == 0
    assert (revised.json["dispatched"], revised.json["replayed"], revised.json["committed"]) == (1, 3, 4)
    assert revised.json["result"] == "mem://film/1"
    assert revised.json["total_cost_usd"] == "0.11"

    show = failed("show", "story", "--json").json
    assert [(call["state"], call["replays"]) for call in show["calls"]] == [("committed", 1)] * 3 + [("committed", 0)]
    assert show["calls"][0]["rebound_from"] == "orchestrate/parallel#0[0] > orchestrate.draw/image.generate#0"
    assert show["calls"][0]["identity"] == "orchestrate/parallel#0[0] > picture/image.generate#0"
    assert failed("show", "story", "--result").json == "mem://film/1"
    assert failed("show", "story", "--source").out == SECOND

    difference = failed("diff", "story", "--json").json
    frozen = [line["text"].strip() for hunk in difference["hunks"] for line in hunk["lines"] if line["frozen"] == 3]
    assert frozen == ['image = await ctx.run("image.generate", {"prompt": prompt})'] * 2
    assert "● +" in failed("diff", "story").out

    attempts = failed("attempts", "story", "--json").json
    assert [attempt["state"] for attempt in attempts] == ["committed"] * 4
    assert failed("attempts", "story", "--open", "--json").json == []
    again = failed("resume", "story", "--json").json
    assert (again["dispatched"], again["replayed"]) == (0, 4)


def test_text_says_what_to_do_next(failed: Cli) -> None:
    """A person reads why a run stopped and the exact command that comes next; progress is on stderr."""
    shown = failed("show", "story")
    assert "KeyError: link" in shown.out
    assert "addendum plan story first.py" in shown.out
    revised = failed("revise", "story", "second.py")
    assert "replayed   3 calls from the store" in revised.err
    assert "ok         video.compose    $0.05" in revised.err
    assert "Run story: completed" in revised.out
    assert "\x1b" not in revised.out + revised.err, "no colours beside a terminal"


def test_a_changed_call_is_not_admitted_until_that_is_allowed(failed: Cli) -> None:
    """A counterexample names line, money and the way out; --supersede changed is the explicit yes."""
    plan = failed("plan", "story", "changed.py")
    assert plan.code == 3
    assert "hangs on it" in plan.out
    assert "--supersede changed" in plan.out
    stopped = failed("revise", "story", "changed.py", "--json")
    assert stopped.code == 3
    assert stopped.json["dispatched"] == 0
    assert stopped.json["details"]["plan"]["details"]["counterexamples"]
    allowed = failed("revise", "story", "changed.py", "--supersede", "changed", "--json")
    assert (allowed.code, allowed.json["superseded"], allowed.json["executed"]) == (0, 3, 3)
    states = [call["state"] for call in failed("show", "story", "--json").json["calls"]]
    assert states == ["superseded"] * 3 + ["committed"] * 3


DEAR = """[capability."mail.send"]
effect = "irreversible"
price_usd = "9.00"
"""


def test_a_plan_file_is_applied_to_what_was_planned_or_not_at_all(failed: Cli) -> None:
    """`revise --plan` refuses when the run has changed since, when another script is named, for another run, when what
    is allowed isn't what it was made with, and when the catalog says other prices."""
    assert failed("plan", "story", "second.py", "--out", "plan.json").code == 0
    other = failed("revise", "story", "first.py", "--plan", "plan.json", "--json")
    assert (other.code, other.error["error"]) == (2, "usage")
    assert failed("revise", "story", "--plan", "plan.json", "--supersede", "changed", "--json").code == 2
    plan = json.loads((failed.folder / "plan.json").read_text("utf-8"))
    for edited in ({**plan, "policy": {"ledger": "off"}}, {**plan, "source": plan["source"] + "# unseen\n"}):
        failed.write("edited.json", json.dumps(edited))
        late = failed("revise", "story", "--plan", "edited.json", "--json")
        assert (late.code, late.error["error"]) == (3, "rejected"), "it isn't what was planned"
    failed.write("dear.toml", DEAR)
    late = failed("revise", "story", "--plan", "plan.json", "--json", ADDENDUM_CATALOG="dear.toml")
    assert (late.code, "by another catalog" in late.error["message"]) == (3, True), "other prices than were shown"
    applied = failed("revise", "story", "--plan", "plan.json", "--json")
    assert (applied.code, applied.json["replayed"]) == (0, 3)
    late = failed("revise", "story", "--plan", "plan.json", "--json")
    assert (late.code, late.error["error"], late.out) == (3, "rejected", "")
    assert "changed since" in late.error["message"]


def test_a_plan_that_stops_is_not_written(failed: Cli) -> None:
    """There is nothing that could be applied, so there is no file."""
    done = failed("plan", "story", "changed.py", "--out", "plan.json")
    assert done.code == 3
    assert not (failed.folder / "plan.json").exists()


def test_a_certificate_tells_what_was_changed(failed: Cli) -> None:
    """It verifies, it is the beginning of a later one, and it finds a record that somebody edited."""
    import sqlite3

    written = failed("certificate", "story", "--out", "before.json", "--verify", "--json")
    assert (written.code, written.json["verdict"], len(written.json["sites"])) == (0, "ok", 3)
    failed("revise", "story", "second.py")
    assert failed("certificate", "story", "--against", "before.json").code == 0
    store = failed.folder / ".addendum" / "store.db"
    connection = sqlite3.connect(store)
    for (name,) in connection.execute("SELECT name FROM sqlite_master WHERE type = 'trigger'").fetchall():
        connection.execute(f"DROP TRIGGER {name}")  # what keeps entries from being changed by accident
    table, column = next(
        (name, column[1])
        for (name,) in connection.execute("SELECT name FROM sqlite_master WHERE type = 'table'").fetchall()
        for column in connection.execute(f"PRAGMA table_info({name})").fetchall()
        if column[1] == "body"
    )
    edited = connection.execute(
        f"UPDATE {table} SET {column} = replace({column}, 'mem://image/2', 'mem://image/9')"
        f" WHERE {column} LIKE '%mem://image/2%'"
    ).rowcount
    connection.commit()
    connection.close()
    assert edited >= 1
    found = failed("certificate", "story", "--verify", "--json")
    assert (found.code, found.json["verdict"]) == (3, "differences")
    assert found.json["differences"]
    assert "isn't what was written" in failed("certificate", "story", "--verify").out


def test_runs_are_named_by_beginnings_and_by_last(failed: Cli) -> None:
    """An unambiguous beginning is enough, an ambiguous one is an error that says so."""
    failed("run", "first.py", "--args", ARGS, "--id", "stove")
    assert failed("show", "sto", "--json").error["error"] == "usage"
    assert failed("show", "stor", "--json").json["run"] == "story"
    assert failed("show", "last", "--json").json["run"] == "stove"
    missing = failed("show", "nobody", "--json")
    assert (missing.code, missing.error["error"], missing.out) == (2, "not_found", "")
    assert [run["run"] for run in failed("runs", "--json").json] == ["stove", "story"]
    taken = failed("run", "first.py", "--args", ARGS, "--id", "story", "--json")
    assert (taken.code, taken.error["error"]) == (2, "usage")


@pytest.mark.parametrize("how", ["inline", "file", "at", "stdin"])
def test_args_come_in_each_form(cli: Cli, how: str) -> None:
    """JSON itself, a file, @file and standard input are the same args."""
    cli.write("echo.py", "async def orchestrate(ctx, args):\n    return args\n")
    cli.write("args.json", '{"n": [1, 2]}')
    given = {"inline": '{"n": [1, 2]}', "file": "args.json", "at": "@args.json", "stdin": "-"}[how]
    done = cli("run", "echo.py", "--args", given, "--json", stdin='{"n": [1, 2]}')
    assert done.json["result"] == {"n": [1, 2]}


def test_resume_with_other_args_is_a_revision(failed: Cli) -> None:
    """With --args the run's own script goes on over other args: the changed calls are found, not served stale."""
    args = json.dumps({"prompts": ["a", "b", "d"]})
    done = failed("resume", "story", "--args", args, "--json")
    assert (done.code, done.json["status"], done.json["counterexamples"]) == (3, "stopped", ["divergence"])
    (call,) = done.json["details"]["plan"]["details"]["diverging"]
    assert (call["committed"], call["now"]) == ({"prompt": "c"}, {"prompt": "d"})
    text = failed("resume", "story", "--args", args).out
    assert 'paid payload  {"prompt": "c"}' in text
    assert 'new payload   {"prompt": "d"}' in text
