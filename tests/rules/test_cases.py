"""Scripts as models write them: idioms that are accepted, and evasions that are refused by their rule at its line."""

from __future__ import annotations

from pathlib import Path

import pytest
from tests.rules.examples import examples

from addendum.script.checker import check
from addendum.testing.demo import CAPABILITIES

CASES = Path(__file__).parents[1] / "cases" / "checker"
GRANTED = frozenset(capability.name for capability in CAPABILITIES)


def cases(name: str) -> list[object]:
    """Return the cases of a file."""
    return [pytest.param(title, code, id=title) for title, code in examples(CASES / f"{name}.md")]


@pytest.mark.parametrize(("title", "code"), cases("accept"))
def test_an_idiom_is_accepted(title: str, code: str) -> None:
    """No rule refuses it; a warning may stand."""
    report = check(code, granted=GRANTED)
    assert report.ok, [str(violation) for violation in report.violations]


@pytest.mark.parametrize(("title", "code"), cases("reject"))
def test_an_evasion_is_refused(title: str, code: str) -> None:
    """By the rule that the heading begins with, at the line that names it; others may refuse it, too."""
    rule = title.partition(" ")[0]
    (line,) = [number for number, text in enumerate(code.split("\n"), 1) if text.endswith(f"# {rule}")]
    found = check(code, granted=GRANTED).violations
    errors = {(violation.rule, violation.line) for violation in found if violation.severity == "error"}
    assert (rule, line) in errors, [str(violation) for violation in found]
