"""Exit codes: the same everywhere, from how a step came out."""

from __future__ import annotations

import json

import pytest

from addendum.runs.result import StepResult


@pytest.mark.parametrize(
    ("status", "stop", "code"),
    [
        ("completed", None, 0),
        ("planned", None, 0),
        ("failed", None, 3),
        ("not_admitted", None, 3),
        ("stopped", "divergence", 3),
        ("stopped", "repeat", 3),
        ("stopped", "cancelled", 3),
        ("stopped", "unresolved", 4),
        ("stopped", "store_unavailable", 1),
        ("paused", None, 4),
        ("waiting", None, 4),
        ("no such status", None, 1),
    ],
)
def test_the_exit_code_says_whether_the_verdict_is_positive_negative_or_open(
    status: str, stop: str | None, code: int
) -> None:
    """0 positive, 3 a typed rejection, 4 undecided, 1 an internal error."""
    assert StepResult(run="r", status=status, stop=stop).exit_code == code


def test_money_is_text_in_json_and_exact() -> None:
    """A float never holds it."""
    data = StepResult(run="r", status="completed", cost=20_000_001, total_cost=10**18).to_json()
    assert (data["cost_usd"], data["total_cost_usd"]) == ("0.020000001", "1000000000.00")
    json.dumps(data)
