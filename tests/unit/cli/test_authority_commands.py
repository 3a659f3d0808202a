"""catalog probe, meters, permit and run --parent as a person types them: consent, budgets, amounts, exit codes."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from addendum.cli.main import main

APP = """
from addendum import App
from addendum.authority.catalog import Capability
from addendum.authority.catalogfile import parse

app = App()
done = {"flag": 0, "calls": 0}

@app.capability("flag.set", effect="side_effect", price_usd="0.01")
def set_flag(who: str = "") -> dict:
    done["calls"] += 1
    done["flag"] = 1
    if not who:
        raise ValueError("accepted, and failed")
    return {"ok": True}

@app.capability("flag.count", effect="read")
def count() -> dict:
    return {"effects": done["flag"]}
"""
CATALOG = """
[capability."flag.set"]
effect = "side_effect"
price_usd = "0.01"
saturation = {class = "absorbing"}
"""
TRIAL = """
payloads = [{who = "a"}, {who = "b"}, {who = "c"}]
most_calls = 2000
most_usd = "20.00"
wait = 0.01
failing = {}
restart = ["true"]
alone = true
observe = {capability = "flag.count", at = "/effects"}
"""
SCRIPT = """async def orchestrate(ctx, args):
    for n in range(3):
        await ctx.run("image.generate", {"prompt": f"shot {n}"})
"""
GRANT = """
worst_case = "at_run_time"
limits = [{meter = "cost_usd", max = "0.10"}, {meter = "calls", max = 9, per = "P30D"}]
[capabilities."image.generate"]
"""


@pytest.fixture
def run(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> Callable[..., tuple[int, str]]:
    """Run a command in a folder of its own, and return its exit code and what it printed."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.syspath_prepend(str(tmp_path))
    for name, text in (("trial.toml", TRIAL), ("s.py", SCRIPT), ("grant.toml", GRANT), ("probed.toml", CATALOG)):
        (tmp_path / name).write_text(text, "utf-8")

    def command(*arguments: str) -> tuple[int, str]:
        code = main(arguments)
        printed = capsys.readouterr()
        return code, printed.out + printed.err

    return command


def test_a_probe_of_a_real_delegate_asks_first_and_can_hold(
    run: Callable[..., tuple[int, str]], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Without a yes it says what it would do and calls nothing; with one, and all means, the claim holds up to 1."""
    (tmp_path / "flags_app.py").write_text(APP, "utf-8")
    monkeypatch.setenv("ADDENDUM_CATALOG", "probed.toml")
    probe = ("catalog", "probe", "flag.set", "--trial", "trial.toml", "--provider", "flags_app:app")
    code, said = run(*probe)
    assert code == 2
    assert "for real, up to" in said
    assert "for at most $" in said
    import flags_app  # type: ignore[import-not-found]

    assert flags_app.done["calls"] == 0
    code, said = run(*probe, "--yes", "--json")
    verdict: dict[str, Any] = json.loads(said)
    assert (code, verdict["outcome"], verdict["bound"], verdict["untried"]) == (0, "holds", 1, [])
    assert 0 < flags_app.done["calls"] < 2000


def test_meters_say_money_as_money_and_a_month_as_it_is(run: Callable[..., tuple[int, str]]) -> None:
    """Dollars have their sign, a window all its digits; what a child has is delegated."""
    assert run("run", "s.py", "--grant", "grant.toml", "--id", "r")[0] == 0
    code, said = run("meters", "r")
    assert code == 0
    assert "$0.06   $0.00       $0.00   $0.04" in said
    assert "calls <= 9 per 2592000 s" in said
    Path("child.toml").write_text(GRANT.replace("0.10", "0.03").replace("max = 9", "max = 2"), "utf-8")
    assert run("run", "s.py", "--grant", "child.toml", "--parent", "r", "--id", "c")[0] == 4
    code, said = run("meters", "r")
    assert "$0.06   $0.00       $0.03   $0.01" in said
    assert "given to c" in said
    code, said = run("run", "s.py", "--parent", "r")
    assert code == 2
    assert "grant of its own" in said
    Path("child.toml").write_text(GRANT, "utf-8")
    code, said = run("run", "s.py", "--grant", "child.toml", "--parent", "r", "--json")
    assert code == 3
    assert "authority.delegation_exceeds_parent" in said


def test_a_permit_needs_a_number_and_a_capability_that_there_is(run: Callable[..., tuple[int, str]]) -> None:
    """Everything else is a usage error, and nothing is written."""
    assert run("run", "s.py", "--grant", "grant.toml", "--id", "r")[0] == 0
    for wrong in (
        ("image.generate",),
        ("image.generate", "--count", "3"),
        ("image.generate", "--where", "{}"),
        ("nothing.here", "--count", "3", "--where", "{}"),
        ("image.generate", "--count", "3", "--where", "{}", "--expires", "soon"),
    ):
        assert run("permit", "r", *wrong)[0] == 2
    code, said = run("permit", "r", "image.generate", "--count", "3", "--where", "{}", "--json")
    assert code == 0
    assert json.loads(said)["count"] == 3
    code, said = run("asks", "r", "--json")
    assert [each["left"] for each in json.loads(said)["permits"]] == [3]
