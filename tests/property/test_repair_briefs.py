"""The repair briefs of the corpus come out as the manual says."""

from __future__ import annotations

import importlib.util
import sys
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

from addendum.sandbox.embedded import EmbeddedSandbox

ROOT = Path(__file__).parent.parent.parent
PAGE = ROOT / "docs" / "explanation" / "repair-briefs.md"

pytestmark = pytest.mark.slow


def load(name: str) -> ModuleType:
    """Load a module of evaluation/, under the name by which the others there import it."""
    spec = importlib.util.spec_from_file_location(name, ROOT / "evaluation" / f"{name}.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules[name] = module
    spec.loader.exec_module(module)
    return module


@pytest.fixture(scope="module")
def found() -> tuple[ModuleType, list[Any]]:
    """The evaluation, and its rows."""
    load("repairs")
    briefs = load("briefs")
    sandbox = EmbeddedSandbox()
    try:
        return briefs, list(briefs.rows(ROOT / "tests" / "corpus", sandbox))
    finally:
        sandbox.close()


def test_the_table_in_the_manual_is_what_the_loop_does(found: tuple[ModuleType, list[Any]]) -> None:
    """Each row of the page is made anew and is the same."""
    briefs, rows = found

    assert len(rows) == 37
    assert briefs.table(rows) in PAGE.read_text("utf-8")


def test_the_numbers_in_the_text_are_those_of_the_table(found: tuple[ModuleType, list[Any]]) -> None:
    """Admitted at the first try, after counterexamples, never."""
    _, rows = found
    first = {
        policy: sum(row.policy == policy and row.verdict == "at the first try" for row in rows)
        for policy in ("verified", "strict")
    }

    assert first == {"verified": 13, "strict": 12}
    assert all(row.verdict != "never" for row in rows)
    assert {row.ended for row in rows} == {"completed"}


def test_a_repair_that_was_told_what_is_paid_for_needs_fewer_tries(found: tuple[ModuleType, list[Any]]) -> None:
    """Every listed repair of an original that the checker admits is accepted at once."""
    _, rows = found

    assert all(row.attempts == 1 for row in rows if row.repair.endswith("/listed") and "m16" not in row.repair)
