"""The pages of the rules: each example is accepted, or refused by its rule at the marked line."""

from __future__ import annotations

from pathlib import Path

import pytest
from tests.rules.examples import examples

from addendum.script import rules
from addendum.script.checker import check
from addendum.script.report import Report
from addendum.script.rules import RULES, page
from addendum.script.rules.r09_worst_case import compare

HERE = Path(rules.__file__).parent / "pages"
GRANTED = frozenset({"text.generate", "image.generate", "review.visual", "human.approve", "mail.send"})


def _examples() -> list[object]:
    found = []
    for rule in RULES:
        for title, code in examples(HERE / f"{rule}.md"):
            found.append(pytest.param(rule, title, code, id=f"{rule}: {title}"))
    return found


def _check(rule: str, code: str) -> Report:
    granted = GRANTED - {"mail.send"} if rule == "R08" else GRANTED
    report = check(code, granted=granted)
    if rule == "R09":
        return Report((*report.violations, *compare(report.facts, {"text.generate": 5})), report.facts)
    return report


@pytest.mark.parametrize(("rule", "title", "code"), _examples())
def test_an_example_of_a_page_is_judged_as_its_heading_says(rule: str, title: str, code: str) -> None:
    """A heading that begins with the rule's number announces a violation where the comment is, others announce none."""
    report = _check(rule, code)
    shown = [str(violation) for violation in report.violations]
    if not title.startswith(rule):
        assert not report.violations, shown
        return
    severity = "warning" if title.startswith(f"{rule} (warning)") else "error"
    marked = {number for number, line in enumerate(code.split("\n"), 1) if f"# {rule}" in line}
    lines = {v.line for v in report.violations if v.rule == rule and v.severity == severity}
    assert marked, "the example marks no line"
    assert marked <= lines, shown
    assert report.ok == (severity == "warning"), shown


@pytest.mark.parametrize("rule", list(RULES))
def test_a_page_begins_with_what_the_command_line_shows(rule: str) -> None:
    """The rule's docstring is its manual page; the file adds examples to it."""
    assert (HERE / f"{rule}.md").read_text(encoding="utf-8").startswith(page(rule))


@pytest.mark.parametrize("rule", list(RULES))
def test_a_page_has_accepted_and_refused_examples(rule: str) -> None:
    """A rule is right both ways, and its page shows both."""
    titles = [title for title, _ in examples(HERE / f"{rule}.md")]
    assert any(title.startswith(rule) for title in titles)
    assert any(not title.startswith("R") for title in titles)


@pytest.mark.parametrize("rule", list(RULES))
def test_a_violation_says_what_is_wrong_and_what_to_write(rule: str) -> None:
    """Message and fix are one sentence each, and a place is given."""
    for _, code in examples(HERE / f"{rule}.md"):
        for violation in _check(rule, code).violations:
            assert violation.line >= 1
            assert violation.column >= 1
            assert violation.message.endswith((".", "…"))
            assert violation.fix.endswith((".", ".`"))


def test_a_violation_of_the_envelope_says_which_capability_it_is_about() -> None:
    """R08 and R09 name the capability as data, other rules none."""
    text = """async def orchestrate(ctx, args):
    await ctx.run("image.generate", {})
    await ctx.run("text.generate", args)
    return print("x")
"""
    report = check(text, granted=frozenset({"text.generate"}))
    assert [(v.rule, v.capability) for v in report.violations] == [("R08", "image.generate"), ("R10", "")]
    assert report.violations[0].to_json()["capability"] == "image.generate"
    (excess,) = compare(report.facts, {"text.generate": 0})
    assert excess.capability == "text.generate"


def test_what_is_added_to_a_list_and_is_lazy_is_said_once() -> None:
    """With one way to write it."""
    text = """async def orchestrate(ctx, args):
    xs = [1]
    xs += zip(xs, xs)
    return xs
"""
    assert [(v.line, v.fix) for v in check(text).violations] == [(3, "Write `list(zip(...))`.")]
