"""What commands tell a newcomer to do next: each command that is named can be copied, and does what is said."""

from __future__ import annotations

import io
import json
import re
import shlex
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from addendum.cli.main import main

pytestmark = pytest.mark.slow

SERVICES = """
from addendum import App, UnknownOutcome

app = App()


@app.capability("file.review", effect="paid", price_usd="0.03")
def review(path: str) -> dict:
    return {"path": path}


@app.capability("post.send", effect="paid", price_usd="0.03")
def send(path: str) -> dict:
    raise UnknownOutcome("the line went dead")
"""
SCRIPT = """\
async def orchestrate(ctx, args):
    found = await ctx.run("file.review", {"path": "a.py"})
    return await ctx.run("human.approve", {"question": "Publish?"})
"""
Command = Callable[..., tuple[int, str]]


@pytest.fixture
def run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Command:
    """Run a command in a folder of its own, and return its exit code and what it printed."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.delenv("COLUMNS", raising=False)  # what runs tests side by side sets it, and lines would be wrapped
    monkeypatch.syspath_prepend(str(tmp_path))
    monkeypatch.delitem(sys.modules, "hinted", raising=False)
    (tmp_path / "hinted.py").write_text(SERVICES, "utf-8")
    (tmp_path / "s.py").write_text(SCRIPT, "utf-8")

    def command(*arguments: str) -> tuple[int, str]:
        code = main(arguments)
        printed = capsys.readouterr()
        return code, printed.out + printed.err

    return command


def quoted(said: str) -> list[str]:
    """Return the words of the first command that a hint quotes."""
    found = re.search(r"`addendum ([^`]+)`", said)
    assert found is not None, said
    return shlex.split(found[1])


def test_a_run_that_was_answered_says_to_go_on(run: Command) -> None:
    """Until then it is listed as asked, with its payload; afterwards nothing is asked, and only resuming is left."""
    assert run("run", "s.py", "--provider", "hinted:app", "--id", "r")[0] == 4
    said = run("asks", "r")[1]
    assert "human.approve at orchestrate/human.approve#0 (a person answers it)" in said
    assert "Publish?" in said
    assert json.loads(run("asks", "r", "--json")[1])["asks"][0]["payload"] == {"question": "Publish?"}
    assert [step["command"] for step in json.loads(run("show", "r", "--json")[1])["next"]] == [
        "addendum approve r",
        "addendum resume r",
    ]

    assert run("approve", "r")[0] == 0

    shown = json.loads(run("show", "r", "--json")[1])
    assert shown["message"] == "What it asked is answered."
    assert [step["command"] for step in shown["next"]] == ["addendum resume r"]
    assert "Nothing is asked." in run("asks", "r")[1]


def test_another_provider_is_named_as_such_before_the_catalog_is_accepted(run: Command) -> None:
    """Whoever forgets --provider is told so: accepting the catalog would go on with the wrong services."""
    assert run("run", "s.py", "--provider", "hinted:app", "--id", "r")[0] == 4
    code, said = run("resume", "r")
    assert code == 3
    assert "name that one with --provider" in said
    assert "addendum approve r" not in said, "nothing was driven, so what it waits for isn't the matter"
    assert run("approve", "r", "--provider", "hinted:app")[0] == 0
    assert run("resume", "r", "--provider", "hinted:app")[0] == 0


def test_a_hint_names_the_store_and_the_provider_that_the_command_was_given(run: Command) -> None:
    """It can be copied: without them it would look at another store."""
    given = ("--store", "other.db", "--provider=hinted:app")
    assert run("run", "s.py", *given, "--id", "r")[0] == 4
    code, said = run("resume", "nope", *given)
    assert code == 2
    code, listed = run(*quoted(said))
    assert code == 0
    assert "s.py" in listed
    code, said = run("plan", "r", "s.py", *given, "--drop", "nowhere")
    assert (code, quoted(said)) == (2, ["show", "r", "--store", "other.db"])
    assert run(*quoted(said))[0] == 0


def test_a_revision_that_stops_at_an_unresolved_call_says_what_to_do_about_the_call(
    run: Command, tmp_path: Path
) -> None:
    """It is the run's: what is shown is where the run stands, and no plan that was refused."""
    script = SCRIPT.replace("file.review", "post.send")
    (tmp_path / "s.py").write_text(script, "utf-8")
    (tmp_path / "again.py").write_text(script + "# again\n", "utf-8")
    assert run("run", "s.py", "--provider", "hinted:app", "--id", "r")[0] == 4
    code, said = run("plan", "r", "again.py", "--provider", "hinted:app")
    assert (code, quoted(said)) == (4, ["reconcile", "r"])
    code, said = run("revise", "r", "again.py", "--provider", "hinted:app")
    assert code == 4
    assert "Plan: stopped" not in said
    assert "addendum reconcile r --result JSON" in said
    assert json.loads(run("show", "r", "--json")[1])["revision"] == 2


def test_the_next_command_for_a_grant_names_the_provider(run: Command, tmp_path: Path) -> None:
    """A grant names capabilities, so it is read with their catalog."""
    limit = 'worst_case = "at_run_time"\n[capabilities."human.approve"]\n[capabilities."file.review"]\n'
    (tmp_path / "g.toml").write_text(limit + "limits = [{meter = 'calls', max = 0}]\n", "utf-8")
    code, said = run("run", "s.py", "--provider", "hinted:app", "--grant", "g.toml", "--id", "r")
    assert code == 4
    assert "addendum grant r FILE --provider hinted:app" in said
    (tmp_path / "g.toml").write_text(limit, "utf-8")
    assert run("grant", "r", "g.toml", "--provider", "hinted:app")[0] == 0


def test_json_and_the_library_name_the_run_in_the_hint(run: Command) -> None:
    """A program that reads the hint can run it, too: with the options that this command was given."""
    hint = json.loads(run("run", "s.py", "--provider", "hinted:app", "--id", "r", "--json")[1])["hint"]
    assert hint == "Answer with `addendum approve r`, then `addendum resume r --provider hinted:app`."


def test_the_plan_in_json_names_the_run_too(run: Command, tmp_path: Path) -> None:
    """Its stop has a hint of its own, with the same commands."""
    lost = 'async def orchestrate(ctx, args):\n    return await ctx.run("post.send", {"path": "a"})\n'
    (tmp_path / "lost.py").write_text(lost, "utf-8")
    (tmp_path / "other.py").write_text(lost.replace('"a"', '"b"'), "utf-8")
    assert run("run", "lost.py", "--provider", "hinted:app", "--id", "lost")[0] == 4
    for store in ((), ("--store", ".addendum/store.db")):
        hints = [
            json.loads(run(command, "lost", "other.py", "--provider", "hinted:app", *store, "--json")[1])
            for command in ("plan", "revise")
        ]
        for found in hints:
            assert quoted(found["details"]["plan"]["hint"]) == ["reconcile", "lost", *store]
            assert quoted(found["hint"]) == ["reconcile", "lost", *store]


def test_after_a_revision_its_own_file_is_named(run: Command, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """And none once a revision has none: what the run began with isn't its script any more."""
    failing = SCRIPT.replace("return", "found['nothing']\n    return")
    for name in ("first.py", "second.py", "third.py"):
        (tmp_path / name).write_text(f"{failing}# {name}\n", "utf-8")

    def named() -> str:
        return str(json.loads(run("show", "r", "--json")[1])["next"][0]["command"])

    assert run("run", "first.py", "--provider", "hinted:app", "--id", "r")[0] == 3
    assert named() == "addendum plan r first.py"
    assert run("revise", "r", "second.py", "--provider", "hinted:app")[0] == 3
    assert named() == "addendum plan r second.py"
    assert run("plan", "r", "third.py", "--provider", "hinted:app", "--out", "plan.json")[0] == 0
    assert run("revise", "r", "--plan", "plan.json", "--provider", "hinted:app")[0] == 3
    assert run("resume", "r", "--provider", "hinted:app", "--args", "[2]")[0] == 3
    assert named() == "addendum plan r third.py"
    monkeypatch.setattr("sys.stdin", io.TextIOWrapper(io.BytesIO(failing.encode()), "utf-8"))
    assert run("revise", "r", "-", "--provider", "hinted:app")[0] == 3
    assert named() == "addendum plan r NEW_SCRIPT"
    assert run("revise", "r", "first.py", "--provider", "hinted:app")[0] == 3
    assert named() == "addendum plan r first.py"


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (("certificate", "r", "--envelope", "nowhere/e.json"), "with --envelope"),
        (("certificate", "r", "--out", "nowhere/c.json"), "with --out"),
        (("step", "nowhere.json"), "Name a file with the K as JSON"),
        (("permit", "r", "file.review", "--count", "2"), "(--payload), or a schema (--where)"),
        (("demo", "--keep", "s.py/x"), "Name another one with --keep"),
        (("work", "status"), "`addendum work admit` makes it"),
        (("work", "admit", "--spec", "nowhere.toml"), "Name another one with --spec"),
    ],
)
def test_a_wrong_file_or_a_missing_option_is_named(run: Command, arguments: tuple[str, ...], said: str) -> None:
    """The hint has the option that was meant, and it is a usage error."""
    assert run("run", "s.py", "--provider", "hinted:app", "--id", "r")[0] == 4
    code, text = run(*arguments)
    assert code == 2
    assert said in text


def test_the_help_shows_a_flag_without_a_type(run: Command, monkeypatch: pytest.MonkeyPatch) -> None:
    """A flag takes nothing, at every level of commands; what takes a value says which."""
    monkeypatch.setenv("COLUMNS", "120")
    for command in ((), ("run",), ("catalog", "probe"), ("work", "run")):
        said = run(*command, "--help")[1]
        assert "--help" in said
        assert "bool" not in said
    assert "{SCRIPT...}..." not in run("check", "--help")[1]


def test_a_setting_that_is_not_there_is_named_with_its_place(run: Command, tmp_path: Path) -> None:
    """A typo in the file of settings is said as such, with the names that there are."""
    (tmp_path / "addendum.toml").write_text('sandbx = "bwrap"\n', "utf-8")
    code, said = run("runs")
    assert code == 2
    assert "There is no setting sandbx (" in said
    assert "addendum.toml" in said
    assert "The settings are store, sandbox" in said


WANTS = """\
async def orchestrate(ctx, args):
    folder = {}
    return folder
"""


def test_a_run_without_args_whose_script_wants_some_says_so(run: Command, tmp_path: Path) -> None:
    """The hint's command gives them; another KeyError, and one with args, has no such hint."""
    (tmp_path / "w.py").write_text(WANTS.format('args["folder"]'), "utf-8")
    assert run("run", "w.py", "--id", "w")[0] == 3
    said = run("run", "w.py", "--id", "v")[1]
    assert "The run has no args, and its script reads some" in said
    words = [word.replace("FILE|JSON", '{"folder": "in"}') for word in quoted(said)]
    assert words[:2] == ["resume", "v"]
    assert run(*words)[0] == 0
    assert "has no args" not in run("run", "w.py", "--args", '{"other": 1}')[1]
    (tmp_path / "other.py").write_text(WANTS.format('{"a": 1}["folder"]'), "utf-8")
    assert "has no args" not in run("run", "other.py")[1]


def test_a_capability_of_a_provider_that_was_not_named_is_no_typo(run: Command) -> None:
    """Where the catalog is the demo's, the fix says so; with the provider there is nothing to fix."""
    for command in ("check", "run"):
        code, said = run(command, "s.py")
        assert code == 3
        assert said.count("The catalog is the demo provider's: name another one with --provider.") >= 1
    code, said = run("check", "s.py", "--provider", "hinted:app")
    assert (code, "demo" in said) == (0, False)


def test_a_fix_names_the_provider_whose_schema_it_means(run: Command, tmp_path: Path) -> None:
    """The command of R12 prints the schema that the payload was held against."""
    (tmp_path / "odd.py").write_text(SCRIPT.replace('"path": "a.py"', '"file": 1'), "utf-8")
    words = quoted(run("check", "odd.py", "--provider", "hinted:app")[1])
    assert words == ["catalog", "show", "file.review", "--json", "--provider", "hinted:app"]
    assert run(*words)[0] == 0


@pytest.mark.parametrize("name", ["../x", "a/b", "last", "@ledger", ".x", "-x", "a b", "a" * 101, "a\n"])
def test_what_a_run_cannot_be_named_is_said(run: Command, name: str) -> None:
    """It is a usage error with what a name may have, and there is no run."""
    code, said = run("run", "s.py", f"--id={name}", "--provider", "hinted:app")
    assert code == 2
    assert "A run can't be named" in said
    assert "letters, digits, dashes, dots and underscores" in said
    assert run("runs", "--json") == (0, "[]\n")


def test_what_is_empty_is_said_in_a_sentence(run: Command) -> None:
    """No header without a row."""
    assert run("run", "s.py", "--provider", "hinted:app", "--id", "r")[0] == 4
    assert run("artifact", "list")[1] == "No file is kept beside this store.\n"
    assert run("artifact", "list", "r")[1] == "The results of this run refer to no file.\n"
    assert run("meters", "r", "--provider", "hinted:app")[1] == "The grant of the run r has no limits.\n"
    assert run("artifact", "list", "--json") == (0, "[]\n")


def test_a_services_file_that_is_not_there_is_not_found(run: Command) -> None:
    """As any other file that was named."""
    code, said = run("check", "s.py", "--provider", "nowhere.toml")
    assert code == 2
    assert "error[not_found]: There is no services file nowhere.toml." in said


def test_a_later_revision_is_not_called_by_the_first_ones_file(run: Command, tmp_path: Path) -> None:
    """A run is named after the script that it began with; the others may come from anywhere."""
    (tmp_path / "one.py").write_text(WANTS.format("1"), "utf-8")
    (tmp_path / "two.py").write_text(WANTS.format("2"), "utf-8")
    run("run", "one.py", "--id", "r")
    assert "one.py, revision 1" in run("show", "r")[1]
    assert run("revise", "r", "two.py")[0] == 0
    assert "revision 2 of a run that began as one.py" in run("show", "r")[1]
