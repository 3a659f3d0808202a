"""Schemas: the quick look at the most frequent kind never says yes where the validator says no."""

from __future__ import annotations

from typing import Any

import jsonschema
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from addendum.broker.schema import Schemas, fits, look

NAMES = st.sampled_from("abc")
VALUES = st.recursive(
    st.none() | st.booleans() | st.integers(-2, 2) | st.floats(-2, 2) | st.sampled_from(["", "a"]),
    lambda inner: st.lists(inner, max_size=2) | st.dictionaries(NAMES, inner, max_size=3),
    max_leaves=6,
)
TYPES = st.sampled_from(["string", "integer", "number", "boolean", "object", "array", "null", ["string", "null"]])
SCHEMAS: st.SearchStrategy[Any] = st.deferred(
    lambda: (
        st.booleans()
        | st.fixed_dictionaries(
            {"type": TYPES},
            optional={
                "title": st.just("a title"),
                "default": st.just(1),
                "minimum": st.just(0),
                "enum": st.just(["a"]),
                "properties": st.dictionaries(NAMES, SCHEMAS, max_size=3),
                "required": st.lists(NAMES, max_size=2, unique=True),
                "additionalProperties": st.booleans() | SCHEMAS,
            },
        )
    )
)
TASK = {
    "type": "object",
    "properties": {"prompt": {"type": "string"}, "count": {"type": "integer"}},
    "required": ["prompt"],
    "additionalProperties": False,
}


@settings(max_examples=400, suppress_health_check=[HealthCheck.too_slow])
@given(SCHEMAS, VALUES)
def test_what_fits_at_a_look_fits_for_the_validator(schema: Any, value: Any) -> None:
    assert not fits(look(schema), value) or jsonschema.Draft202012Validator(schema).is_valid(value)


def test_the_schema_of_a_function_is_decided_at_a_look() -> None:
    assert fits(look(TASK), {"prompt": "a", "count": 2})
    for other in ({"count": 2}, {"prompt": 1}, {"prompt": "a", "count": True}, {"prompt": "a", "more": 1}, "a"):
        assert not fits(look(TASK), other)


def test_what_does_not_fit_is_named_with_its_place() -> None:
    assert Schemas().problem(TASK, {"prompt": "a", "count": "two"}).startswith("at count: 'two' is not of type")
    assert Schemas().problem(TASK, {"prompt": "a"}) == ""
