"""The closed list of rejection codes: each is documented with its way out, and some test yields it (A12)."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from addendum.cli.failure import failure
from addendum.work.codes import UNDECIDED, WAYS, Finding, exit_code

ROOT = Path(__file__).parents[3]
TESTS = (ROOT / "tests/unit/work", ROOT / "tests/hostile/work")


def test_a12_each_code_has_a_row_with_its_way_out() -> None:
    """The page and the list are the same; what is undecided says so."""
    page = (ROOT / "docs/reference/work-rejections.md").read_text("utf-8")
    rows = {code: (when, way) for code, when, way in re.findall(r"^\| `(\S+)` \| (.+) \| (.+) \|$", page, re.MULTILINE)}
    assert {code: way for code, (_, way) in rows.items()} == dict(WAYS)
    assert {code for code, (when, _) in rows.items() if "Undecided" in when} == set(UNDECIDED)


@pytest.mark.parametrize("code", WAYS)
def test_a12_each_code_is_yielded_by_a_test(code: str) -> None:
    """No code is there only on paper."""
    paths = [path for folder in TESTS for path in folder.glob("test_*.py") if path != Path(__file__)]
    texts = [path.read_text("utf-8").replace(r"\.", ".") for path in paths]
    assert any(code in text for text in texts)


def test_a12_what_is_not_foreseen_is_no_rejection() -> None:
    """An unknown code can't be made, and an exception of ours is an internal error, exit code 1."""
    with pytest.raises(KeyError):
        Finding("scope.unheard_of", "x", "x")
    assert failure(RuntimeError("boom")).exit_code == 1


def test_undecided_is_four_only_if_nothing_is_wrong() -> None:
    """One refusal among what is undecided is a refusal."""
    missing, wrong = Finding("approval.missing", "x", "x"), Finding("scope.path", "x", "x")
    assert [exit_code(findings) for findings in ([], [missing], [missing, wrong])] == [0, 4, 3]


def test_each_requirement_names_tests_that_are_there() -> None:
    """The table of requirements has A1 to A35 and H1 to H34, in order, each with tests that exist."""
    page = (ROOT / "docs/explanation/work-requirements.md").read_text("utf-8")
    rows = re.findall(r"^\| ([AH]\d+) \| .+ \| (.+) \| .+ \|$", page, re.MULTILINE)
    assert [name for name, _ in rows] == [f"A{n}" for n in range(1, 36)] + [f"H{n}" for n in range(1, 35)]
    for name, tests in rows:
        found = re.findall(r"`([\w/.]+)::(\w+)`", tests)
        assert found, name
        for path, test in found:
            assert f"def {test}(" in (ROOT / path).read_text("utf-8"), (name, test)
