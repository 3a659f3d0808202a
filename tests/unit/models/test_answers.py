"""Schemas as models take them, and answers held against them."""

from __future__ import annotations

from typing import Any

import pytest

from addendum.errors import CapabilityError
from addendum.models import answers

OBJECT: dict[str, Any] = {"type": "object", "properties": {"n": {"type": "integer"}}, "required": ["n"]}
LIST: dict[str, Any] = {"type": "array", "items": {"$ref": "#/$defs/word"}, "$defs": {"word": {"type": "string"}}}


def test_an_object_is_given_as_it_is() -> None:
    """Nothing to wrap."""
    assert answers.form(OBJECT) == OBJECT
    assert answers.taken('{"n": 1}', OBJECT) == {"n": 1}


def test_anything_else_is_wrapped_in_an_object_and_taken_out_again() -> None:
    """References into the schema's own definitions still lead there."""
    form = answers.form(LIST)
    assert form["properties"] == {"value": {"type": "array", "items": {"$ref": "#/$defs/word"}}}
    assert form["$defs"] == LIST["$defs"]
    assert answers.taken({"value": ["a"]}, LIST) == ["a"]


def test_a_fence_around_json_is_taken_off() -> None:
    """Models put one there, whatever they are told."""
    assert answers.taken('```json\n{"n": 1}\n```', OBJECT) == {"n": 1}


def test_without_a_schema_a_text_is_kept_letter_by_letter() -> None:
    """Also one that looks like JSON."""
    assert answers.taken('{"n": 1}', {}) == '{"n": 1}'


@pytest.mark.parametrize(
    ("said", "schema", "why"),
    [
        ("no", OBJECT, "no JSON"),
        ({"n": "1"}, OBJECT, "at n"),
        ({}, OBJECT, "at the top"),
        ({"other": []}, LIST, "wrapped"),
        ({"value": [1]}, LIST, "at 0"),
        ({}, {}, "no text"),
        ("[" * 100_000, OBJECT, "no JSON"),
        ({"n": 1}, {"type": "object", "$ref": "https://example.invalid/schema"}, "can't be held"),
    ],
)
def test_what_does_not_fit_says_where(said: Any, schema: dict[str, Any], why: str) -> None:
    """In one sentence; a reference to somewhere else is never fetched."""
    with pytest.raises(ValueError, match=why):
        answers.taken(said, schema)


def test_what_is_no_schema_is_found_before_anything_is_sent() -> None:
    """It may come from a script."""
    with pytest.raises(CapabilityError, match="invalid_input"):
        answers.form({"type": "strange"})
