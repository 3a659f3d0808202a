"""The rules' manual, and the formats of others."""

from __future__ import annotations

import pytest

from addendum.cli import manual, sarif
from addendum.errors import NotFound

VIOLATION = {
    "rule": "R03",
    "line": 2,
    "column": 5,
    "message": "100% of this,\nand that",
    "fix": "Cut it.",
    "severity": "warning",
    "expression": "",
}


def test_every_rule_has_a_title_and_a_text() -> None:
    """R00 to R12, in order."""
    pages = list(manual.pages())
    assert [page.rule for page in pages] == [f"R{number:02}" for number in range(13)]
    assert all(page.title and len(page.text) > 200 for page in pages)
    assert manual.page("r03").rule == "R03"
    with pytest.raises(NotFound):
        manual.page("R13")


def test_sarif_has_a_result_for_each_violation() -> None:
    """Level, place and rule."""
    log = sarif.sarif([("a.py", [VIOLATION])], manual.pages(), "1.0")
    (result,) = log["runs"][0]["results"]
    assert (result["level"], result["ruleId"]) == ("warning", "R03")
    place = result["locations"][0]["physicalLocation"]
    assert place == {"artifactLocation": {"uri": "a.py"}, "region": {"startLine": 2, "startColumn": 5}}


def test_workflow_commands_are_escaped() -> None:
    """A path or a message can't end the command, or begin another one."""
    (line,) = sarif.github([("a,b:c.py", [VIOLATION])])
    assert line == "::warning file=a%2Cb%3Ac.py,line=2,col=5,title=R03::R03 100%25 of this,%0Aand that Cut it."
