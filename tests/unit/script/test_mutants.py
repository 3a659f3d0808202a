"""The mutation harness: its operators do what they say, and a few scripts' mutants are judged rightly."""

from __future__ import annotations

import importlib.util
import sys
from pathlib import Path
from types import ModuleType

import pytest

ROOT = Path(__file__).parents[3]
CORPUS = ROOT / "tests" / "corpus"


@pytest.fixture(scope="module")
def mutants() -> ModuleType:
    """The harness as a module."""
    folder = str(ROOT / "evaluation")
    sys.path.insert(0, folder)
    spec = importlib.util.spec_from_file_location("mutants", ROOT / "evaluation" / "mutants.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules["mutants"] = module
    spec.loader.exec_module(module)
    sys.path.remove(folder)
    return module


def test_wilsons_interval_has_the_published_values(mutants: ModuleType) -> None:
    """None of 100 leaves room for a rate of 3.7 %; half of ten is between 24 and 76 %."""
    assert mutants.wilson(0, 100) == pytest.approx((0.0, 0.0370), abs=1e-4)
    assert mutants.wilson(5, 10) == pytest.approx((0.2366, 0.7634), abs=1e-4)
    assert mutants.wilson(0, 0) == (0.0, 1.0)


@pytest.mark.slow
@pytest.mark.parametrize("name", ["a02", "m07", "s11", "x04"])
def test_mutants_of_a_script_are_judged_rightly(mutants: ModuleType, name: str) -> None:
    """No destroying one is accepted, no preserving one refused or given another worst case."""
    sys.path.insert(0, str(ROOT / "evaluation"))
    try:
        rows = mutants.judge([mutants.load(CORPUS / "scripts" / f"{name}.py", CORPUS)])
    finally:
        sys.path.remove(str(ROOT / "evaluation"))
    assert sum(row.made for row in rows) > 20
    assert [(row.operator, row.examples) for row in rows if row.wrong] == []


def test_there_are_enough_operators(mutants: ModuleType) -> None:
    """At least nine that destroy and eight that preserve."""
    assert len(mutants.DESTROYING) >= 9
    assert len(mutants.PRESERVING) >= 8
