"""Scenarios: read strictly, compared key by key."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from addendum.rehearse.compare import compare, same
from addendum.rehearse.scenario import NotAScenario, load, parse

STEP = {"run": "async def orchestrate(ctx, args): return 1"}


@pytest.mark.parametrize(
    "data",
    [
        None,
        [],
        {"name": "x"},
        {"name": "x", "steps": []},
        {"name": "x", "steps": [{}]},
        {"name": "x", "steps": [{"run": 1}]},
        {"name": "x", "steps": [{"run": "a", "resume": True}]},
        {"name": "x", "steps": [{"resume": False}]},
        {"name": "x", "steps": [{**STEP, "expcet": {}}]},
        {"name": "x", "steps": [{**STEP, "expect": {"stauts": "completed"}}]},
        {"name": "x", "steps": [{**STEP, "drop": ["a"]}]},
        {"name": "x", "steps": [{"resume": True, "retry": "some"}]},
        {"name": "x", "steps": [{**STEP, "crash": {"capability": "a"}}]},
        {"name": "x", "steps": [{**STEP, "crash": {"capability": "mail.send", "dispatch": 1, "when": "later"}}]},
        {"name": "x", "steps": [{**STEP, "crash": {"capability": "mail.sent", "dispatch": 1}}]},
        {"name": "x", "steps": [STEP], "provider": {"results": {"mail.sent": {}}}},
        {"name": "x", "steps": [STEP], "provider": {"fail": [{"capability": "a", "dispatch": 1, "code": "refused"}]}},
        {"name": "x", "steps": [{"reconcile": {}}]},
        {"name": "x", "steps": [{"reconcile": {"abandon": False}}]},
        {"name": "x", "steps": [{"approve": "yes"}]},
        {"name": "x", "steps": [STEP], "providers": {}},
    ],
    ids=str,
)
def test_a_typo_is_an_error_and_no_expectation_that_holds(data: Any) -> None:
    """The message names the place."""
    with pytest.raises(NotAScenario) as caught:
        parse(data, "episode.yaml")
    assert "episode.yaml" in caught.value.message


@pytest.mark.parametrize("text", ["a: [", "a: 1\na: 2", "\x00", "- !!python/object:os.system {}", "&a [*a]"])
def test_a_file_that_is_no_yaml_of_a_scenario_is_a_typed_error(text: str, tmp_path: Path) -> None:
    """Nothing is built from a tag, nothing runs."""
    path = tmp_path / "episode.yaml"
    path.write_text(text, "utf-8")
    with pytest.raises(NotAScenario):
        load(path)
    with pytest.raises(NotAScenario):
        load(tmp_path / "missing.yaml")


def test_only_what_is_expected_is_compared_and_the_first_difference_is_a_sentence() -> None:
    """The step's own message is beside it."""
    seen = {"status": "stopped", "dispatched": 2, "message": "The limit is reached."}
    assert compare(1, "run", {"dispatched": 2}, seen) == []
    (found,) = compare(3, "resume", {"status": "completed", "dispatched": 2}, seen)
    assert str(found) == "step 3 (resume): status is 'stopped', expected 'completed' (The limit is reached.)"


@pytest.mark.parametrize(
    ("left", "right", "equal"),
    [
        (1, 1.0, True),
        (1, True, False),
        (0, False, False),
        (0, None, False),
        ("1", 1, False),
        ([1, [True]], [1, [1]], False),
        ({"a": 1}, {"a": 1.0}, True),
        ({"a": None}, {}, False),
        ((1, 2), [1, 2], True),
        ("", None, False),
    ],
)
def test_numbers_are_compared_by_value_and_truth_is_no_number(left: Any, right: Any, equal: bool) -> None:
    """As JSON has it."""
    assert same(left, right) is equal
    assert same(right, left) is equal
