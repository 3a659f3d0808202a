"""A plan for a person: what new work may take of each limit, and how far results steer it."""

from __future__ import annotations

import io
from pathlib import Path

import pytest
from rich.console import Console

from addendum.cli.main import main
from addendum.cli.views import plan as view
from addendum.kernel.loop import Halt
from addendum.plan import Plan, to_json

SCRIPT = """async def orchestrate(ctx, args):
    text = await ctx.run("text.generate", {"prompt": "x"})
    for n in range(3):
        await ctx.run("image.generate", {"prompt": f"shot {n}"})
    if text["text"]:
        await ctx.run("mail.send", {"to": "a@example.com", "subject": "s", "body": "b"})
"""
GRANT = """
worst_case = "at_run_time"
limits = [{meter = "cost_usd", max = "0.09"}, {meter = "calls", max = 20}, {meter = "in_flight", max = 4}]
[capabilities."text.generate"]
[capabilities."mail.send"]
[capabilities."image.generate"]
limits = [{meter = "calls", max = 6}]
"""


def test_a_plan_says_what_new_work_may_take_of_each_limit(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """Used and worst case beside each limit, the one that may be exceeded marked, and the flow that decides."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("HOME", str(tmp_path))
    (tmp_path / "s.py").write_text(SCRIPT, "utf-8")
    (tmp_path / "wider.py").write_text(SCRIPT.replace("range(3)", "range(5)"), "utf-8")
    (tmp_path / "grant.toml").write_text(GRANT, "utf-8")
    assert main(["run", "s.py", "--id", "r", "--grant", "grant.toml"]) == 0
    capsys.readouterr()
    assert main(["plan", "r", "wider.py"]) == 0
    said = " ".join(capsys.readouterr().out.split())
    assert "new work at most $0.04 (image.generate 2, mail.send 1)" in said
    assert "image.generate: calls <= 6 per run: 3 used, 2 in the worst case the whole run" in said
    assert "cost_usd <= $0.09 per run: $0.065 used, $0.04 in the worst case: may be above it" in said
    assert "in_flight <= 4: 0 used influence" in said
    assert "influence L1: text.generate decides a branch (line 5)" in said


def test_a_plan_without_limits_and_without_new_work_says_so() -> None:
    """Nothing is shown that there isn't."""
    out = io.StringIO()
    Console(file=out, width=200).print(view.plan(to_json(Plan(revision="", args_digest="", at=(1, ""))), {}))
    assert "new work  none" in out.getvalue()
    assert "influence" not in out.getvalue()
    assert "limits" not in out.getvalue()


def test_calls_behind_new_work_are_counted_and_not_all_listed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """A call in front of paid ones doesn't look as if all of them were paid for again."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("HOME", str(tmp_path))
    wide = SCRIPT.replace("range(3)", "range(13)")
    (tmp_path / "s.py").write_text(wide, "utf-8")
    first = '    await ctx.run("review.visual", {"url": "mem://image/1", "criteria": "x"})\n'
    (tmp_path / "front.py").write_text(wide.replace(":\n", ":\n" + first, 1), "utf-8")
    assert main(["run", "s.py", "--id", "r"]) == 0
    capsys.readouterr()
    assert main(["plan", "r", "front.py"]) == 0
    said = " ".join(capsys.readouterr().out.split())
    assert said.count("perhaps orphan ") == 13, "twelve rows, and how many more"
    assert "perhaps orphan and 3 more" in said
    assert "behind 15 perhaps orphans, $0.265 paid: replayed where the script comes to them unchanged" in said


def test_a_plan_that_starts_all_the_same_says_so() -> None:
    """It is stopped, and `revise` takes it: what became of the call is asked then."""
    lost = Plan(revision="", args_digest="", at=(1, ""), stop=Halt("unresolved", "It was sent.", "Reconcile it."))
    for starts in (False, True):
        lost.starts = starts
        out = io.StringIO()
        Console(file=out, width=200).print(view.plan(to_json(lost), {}))
        assert ("makes it the run's all the same" in out.getvalue()) is starts
