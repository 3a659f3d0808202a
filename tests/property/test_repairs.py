"""The repairs of the corpus come out as the manual says."""

from __future__ import annotations

import importlib.util
import sys
from pathlib import Path
from types import ModuleType

import pytest

from addendum.sandbox.embedded import EmbeddedSandbox

ROOT = Path(__file__).parent.parent.parent
CORPUS = ROOT / "tests" / "corpus"
PAGE = ROOT / "docs" / "explanation" / "repairs.md"


@pytest.fixture(scope="module")
def evaluation() -> ModuleType:
    spec = importlib.util.spec_from_file_location("repairs", ROOT / "evaluation" / "repairs.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules["repairs"] = module
    spec.loader.exec_module(module)
    return module


def test_the_table_in_the_manual_is_what_the_repairs_do(evaluation: ModuleType) -> None:
    """Each row of the page is made anew and is the same; each failure was really injected."""
    sandbox = EmbeddedSandbox()
    try:
        rows = list(evaluation.rows(CORPUS, sandbox))
    finally:
        sandbox.close()

    assert len(rows) == 36
    assert evaluation.table(rows) in PAGE.read_text("utf-8")
    assert all(row.failed or row.status == "not_admitted" for row in rows)


def test_a_repair_that_knows_what_was_paid_for_pays_only_for_new_work(evaluation: ModuleType) -> None:
    """No `listed` repair of an admitted original is stopped, under either policy."""
    sandbox = EmbeddedSandbox()
    try:
        rows = [row for row in evaluation.rows(CORPUS, sandbox) if row.repair.endswith("/listed")]
    finally:
        sandbox.close()

    admitted = [row for row in rows if row.original != "not admitted"]

    assert len(admitted) == 16
    assert {row.status for row in admitted} == {"completed"}
