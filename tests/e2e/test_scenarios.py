"""The episodes of tests/cases, each played with the production parts."""

from __future__ import annotations

from pathlib import Path

import pytest

from addendum import wiring
from addendum.rehearse.scenario import load

CASES = Path(__file__).parents[1] / "cases"
SCENARIOS = sorted([*CASES.glob("scenarios/*.yaml"), *CASES.glob("episodes/*.yaml")])

pytestmark = pytest.mark.slow


@pytest.mark.parametrize("path", SCENARIOS, ids=lambda path: path.stem)
def test_scenario(path: Path, tmp_path: Path) -> None:
    """Everything that the scenario expects is seen."""
    played = wiring.rehearse(load(path), tmp_path)
    assert [str(mismatch) for mismatch in played.mismatches] == []
