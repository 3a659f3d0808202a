"""Schemas: one sentence for what doesn't fit, a typed error for what is no schema, no request for a remote one."""

from __future__ import annotations

from typing import Any

import pytest

from addendum.broker.schema import Schemas
from addendum.errors import ConfigError

SHOT: dict[str, Any] = {
    "type": "object",
    "properties": {"shots": {"type": "array", "items": {"type": "object", "required": ["title"]}}},
    "required": ["shots"],
    "additionalProperties": False,
}


def test_no_schema_takes_everything() -> None:
    """A capability need not declare one."""
    assert Schemas().problem({}, object()) == ""


def test_a_problem_is_one_sentence_with_its_place() -> None:
    """The place is a path in the value."""
    schemas = Schemas()
    assert schemas.problem(SHOT, {"shots": [{"title": "a"}]}) == ""
    assert schemas.problem(SHOT, {"shots": [{"title": "a"}, {}]}).startswith("at shots/1: 'title' is a required")
    assert schemas.problem(SHOT, []).startswith("at the top: ")


def test_a_long_value_is_not_repeated_whole() -> None:
    """Ten megabytes in the wrong place are no message."""
    assert len(Schemas().problem({"type": "integer"}, "x" * 10_000_000)) < 400


@pytest.mark.parametrize("schema", [{"type": "no such type"}, {"properties": []}, {"minimum": "1"}])
def test_what_is_no_schema_is_a_config_error_when_it_is_compiled(schema: dict[str, Any]) -> None:
    """Before a call is sent."""
    with pytest.raises(ConfigError):
        Schemas().compile(schema)
    with pytest.raises(ConfigError):
        Schemas().problem(schema, 1)


@pytest.mark.parametrize(
    "schema", [{"$ref": "https://schemas.invalid/a.json"}, {"$ref": "#/$defs/missing"}, {"$ref": "file:///etc/passwd"}]
)
def test_a_reference_that_leads_nowhere_is_a_problem_and_never_a_request(schema: dict[str, Any]) -> None:
    """Nothing is fetched."""
    assert "can't be held against its schema" in Schemas().problem(schema, {"a": 1})


def test_a_reference_within_the_schema_is_followed() -> None:
    """Local definitions are part of it."""
    schema = {"$defs": {"n": {"type": "integer"}}, "properties": {"n": {"$ref": "#/$defs/n"}}}
    assert Schemas().problem(schema, {"n": 1}) == ""
    assert Schemas().problem(schema, {"n": "1"}) != ""
