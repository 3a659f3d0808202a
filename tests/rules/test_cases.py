"""Scripts as models write them: idioms that are accepted, and evasions that are refused by their rule at its line."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from addendum.script.checker import check
from addendum.testing.demo import CAPABILITIES

CASES = Path(__file__).parents[1] / "cases" / "checker"
GRANTED = frozenset(capability.name for capability in CAPABILITIES)
_BLOCK = re.compile(r"^## (?P<title>[^\n]*)\n\n```python\n(?P<code>.*?)```", re.DOTALL | re.MULTILINE)


def blocks(name: str) -> list[object]:
    """Return the examples of a file: heading and code."""
    text = (CASES / f"{name}.md").read_text(encoding="utf-8")
    return [pytest.param(match["title"], match["code"], id=match["title"]) for match in _BLOCK.finditer(text)]


@pytest.mark.parametrize(("title", "code"), blocks("accept"))
def test_an_idiom_is_accepted(title: str, code: str) -> None:
    """No rule refuses it; a warning may stand."""
    report = check(code, granted=GRANTED)
    assert report.ok, [str(violation) for violation in report.violations]


@pytest.mark.parametrize(("title", "code"), blocks("reject"))
def test_an_evasion_is_refused(title: str, code: str) -> None:
    """By the rule that the heading begins with, at the line that names it; others may refuse it, too."""
    rule = title.partition(" ")[0]
    (line,) = [number for number, text in enumerate(code.split("\n"), 1) if text.endswith(f"# {rule}")]
    found = check(code, granted=GRANTED).violations
    errors = {(violation.rule, violation.line) for violation in found if violation.severity == "error"}
    assert (rule, line) in errors, [str(violation) for violation in found]
