"""What a model answers is read strictly: everything malformed is a counterexample."""

from __future__ import annotations

from typing import Any

import pytest

from addendum.repair import answer
from addendum.script.source import DEFAULT_LIMITS

PLACE = "orchestrate/text.generate#0"
OTHER = "orchestrate/for.0/text.generate#0"


def read(**value: Any) -> tuple[answer.Candidate, list[str]]:
    """Return what is read of an answer, and the kinds of what is wrong with it."""
    candidate, found = answer.read({"script": "x = 1\n", **value})
    return candidate, [each.kind for each in found]


def test_a_whole_answer_is_read() -> None:
    """Moves come as pairs or as an object; drops once each; a reason is cut."""
    pairs = [{"old": PLACE, "new": OTHER}]

    candidate, found = read(moves=pairs, drops=["a", "a"], reason="r" * 5000)

    assert found == []
    assert candidate.moves == read(moves={PLACE: OTHER})[0].moves == {PLACE: OTHER}
    assert (candidate.drops, len(candidate.reason)) == (("a",), answer.REASON)


@pytest.mark.parametrize("value", [None, [], "text", 3, True, ["script"]])
def test_what_is_no_object_is_no_answer(value: Any) -> None:
    """Whatever else JSON can say."""
    assert [each.kind for each in answer.read(value)[1]] == ["not_an_object"]


@pytest.mark.parametrize(
    ("value", "kind"),
    [
        ({"script": None}, "no_script"),
        ({"script": 3}, "no_script"),
        ({"script": ["x"]}, "no_script"),
        ({"script": ""}, "empty"),
        ({"script": " \n\t"}, "empty"),
        ({"script": "#" * (DEFAULT_LIMITS.max_bytes + 1)}, "too_large"),
        ({"moves": "all"}, "moves"),
        ({"moves": [1]}, "moves"),
        ({"moves": [{"old": 1, "new": PLACE}]}, "moves"),
        ({"moves": [{"old": "no place", "new": PLACE}]}, "moves"),
        ({"moves": [{"old": f"{PLACE}:3", "new": PLACE}]}, "moves"),
        ({"moves": [{"old": PLACE, "new": OTHER}, {"old": PLACE, "new": PLACE}]}, "moves"),
        ({"moves": [{"old": PLACE, "new": OTHER}, {"old": OTHER, "new": OTHER}]}, "moves"),
        ({"moves": [{"old": f"f/text.generate#{n}", "new": PLACE} for n in range(1000)]}, "moves"),
        ({"drops": "all"}, "drops"),
        ({"drops": [1]}, "drops"),
    ],
)
def test_each_part_that_is_malformed_is_named(value: dict[str, Any], kind: str) -> None:
    """One finding for each."""
    assert read(**value)[1] == [kind]


def test_of_a_script_that_is_far_too_large_the_beginning_is_kept() -> None:
    """The journal doesn't grow by what can't be admitted; the cut never tears a letter."""
    data = answer.kept("ä" * 10_000_000)

    assert len(data) <= answer.KEPT
    assert set(data.decode("utf-8")) == {"ä"}
    assert answer.kept("x = 1\n") == b"x = 1\n"


def test_the_schema_is_one_that_providers_take() -> None:
    """Closed objects, everything required: what strict structured output asks for."""
    from addendum.models.answers import fitting, form

    assert form(answer.SCHEMA) == dict(answer.SCHEMA)
    fitting({"script": "x", "moves": [{"old": "a", "new": "b"}], "drops": [], "reason": ""}, answer.SCHEMA)
