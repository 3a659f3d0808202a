"""Scripts that models wrote: accepted, but for those that really break a rule, each at a line that shows it."""

from __future__ import annotations

from pathlib import Path

import pytest

from addendum.script.checker import check

CORPUS = Path(__file__).parents[2] / "corpus"
SCRIPTS = sorted([*CORPUS.glob("scripts/*.py"), *CORPUS.glob("repairs/*/*.py")])
TABLE = Path(__file__).parents[3] / "docs" / "explanation" / "corpus-rejections.md"

REFUSED = {
    "scripts/m16.py": [("R10", 6), ("R10", 39), ("R10", 52), ("R11", 52)],
    "repairs/m16/original.py": [("R10", 6), ("R10", 39), ("R10", 52), ("R11", 52)],
    "repairs/m16/listed.py": [("R10", 7), ("R10", 40), ("R10", 68), ("R11", 68)],
    "repairs/m16/unlisted.py": [("R10", 7), ("R10", 48), ("R10", 61), ("R10", 74), ("R11", 74)],
    "repairs/s12/unlisted.py": [("R10", 52)],
}
"""Every rejection, as (rule, line); the table in the manual says why."""

WORST = {
    "scripts/a01.py": {"agent.run": 9},
    "scripts/m01.py": {
        "image.generate": 18,
        "review.visual": 18,
        "storyboard.plan": 1,
        "video.compose": 1,
        "video.generate": 6,
    },
    "scripts/m12.py": {"image.generate": 10, "review.visual": 10, "text.generate": 10},
    "scripts/s11.py": {"text.generate": 12},
    "scripts/x02.py": {"image.generate": 12},
}


def _name(path: Path) -> str:
    return path.relative_to(CORPUS).as_posix()


def test_the_corpus_is_there() -> None:
    """48 scripts, and three versions of each repaired one."""
    assert len([path for path in SCRIPTS if path.parent.name == "scripts"]) == 48
    assert len(SCRIPTS) == 48 + 27


@pytest.mark.parametrize("path", SCRIPTS, ids=_name)
def test_a_script_of_the_corpus_is_judged_rightly(path: Path) -> None:
    """No violation, and no warning, beyond those that are listed."""
    report = check(path.read_text(encoding="utf-8"))
    found = sorted({(violation.rule, violation.line) for violation in report.violations}, key=lambda pair: pair[::-1])
    assert found == sorted(REFUSED.get(_name(path), []), key=lambda pair: pair[::-1])


@pytest.mark.parametrize("path", SCRIPTS, ids=_name)
def test_a_script_of_the_corpus_has_a_worst_case(path: Path) -> None:
    """Also a refused one: every loop and fan-out in the corpus is bounded."""
    facts = check(path.read_text(encoding="utf-8")).facts
    assert facts.worst_case
    assert all(worst is not None for worst in facts.worst_case.values())
    expected = WORST.get(_name(path))
    if expected is not None:
        assert dict(facts.worst_case) == expected


def test_the_manual_lists_each_rejection() -> None:
    """The table of the manual has a row for each file, rule and line."""
    table = TABLE.read_text(encoding="utf-8")
    for name, places in REFUSED.items():
        for rule, line in places:
            assert f"| {name} | {line} | {rule} |" in table
