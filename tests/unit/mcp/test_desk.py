"""Whose run may be driven here, and what is told of a run."""

from __future__ import annotations

from typing import Any

import pytest

from addendum.authority.ceiling import meet
from addendum.authority.grant import Grant, from_json
from addendum.mcp.asked import Check, Revise, Start
from addendum.mcp.desk import _holds
from addendum.mcp.drives import SHOWN, words
from addendum.mcp.tools import schema, tools

CEILING = {
    "capabilities": {
        "a.b": {"limits": [{"meter": "calls", "max": 5}], "where": {"required": ["x"]}},
        "c.d": {},
    },
    "limits": [{"meter": "cost_usd", "max": "1"}],
}


@pytest.mark.parametrize(
    ("asked", "holds"),
    [
        (CEILING, True),
        ({"capabilities": {"a.b": {"limits": [{"meter": "calls", "max": 2}]}}}, True),
        ({"capabilities": {"a.b": {"where": {"required": ["y"]}}}}, True),
        ({"capabilities": {"c.d": {}}, "limits": [{"meter": "cost_usd", "max": "0.5"}]}, True),
    ],
)
def test_a_grant_that_was_met_is_within(asked: dict[str, Any], holds: bool) -> None:
    """What this server gave out, it drives again."""
    ceiling = from_json(CEILING)
    met = meet(from_json(asked), ceiling)
    assert isinstance(met, Grant)
    assert _holds(from_json(met.to_json()), ceiling) is holds


@pytest.mark.parametrize(
    "granted",
    [
        {"capabilities": {"a.b": {}}},
        {"capabilities": {"c.d": {}}},
        {"capabilities": {"e.f": {}}, "limits": [{"meter": "cost_usd", "max": "1"}]},
        {"capabilities": {"c.d": {}}, "limits": [{"meter": "cost_usd", "max": "2"}]},
        {**CEILING, "worst_case": "at_run_time"},
        {**CEILING, "capabilities": {"a.b": {"limits": [{"meter": "calls", "max": 5}]}, "c.d": {}}},
    ],
)
def test_a_grant_that_somebody_else_gave_is_not(granted: dict[str, Any]) -> None:
    """A limit, a narrowing or a policy less is more authority."""
    assert not _holds(from_json(granted), from_json(CEILING))


def test_a_scripts_own_text_is_told_in_one_line() -> None:
    """What a script logs can't fill a client's screen, or control it."""
    said = words({"event": "log", "text": "a\n\x1b[2J" + "x" * 1000})
    assert said is not None
    assert said.isprintable()
    assert len(said) <= SHOWN
    assert words({"event": "handed_over", "capability": "a.b"}) is None


@pytest.mark.parametrize(("pause", "says"), [(0.5, "again in 0.5 s"), (None, "not sent again, as the run ends")])
def test_a_try_that_failed_is_told_with_what_follows(pause: float | None, says: str) -> None:
    """Another try, or none when the run is about to end."""
    assert words({"event": "retry", "capability": "a.b", "code": "timeout", "in": pause}) == f"a.b: timeout, {says}"


@pytest.mark.parametrize("model", [Check, Start, Revise])
def test_schemas_are_plain(model: Any) -> None:
    """No references, every property described, nothing else taken."""
    found = schema(model)
    assert found["type"] == "object"
    assert found["additionalProperties"] is False
    assert "$ref" not in str(found)
    for name, each in found["properties"].items():
        assert "description" in str(each), name


def test_a_model_is_told_whether_it_may_approve() -> None:
    """The tool says what it does in this server."""
    for mode, says in (("off", "for a person"), ("ask", "their answer counts"), ("client", "told you")):
        about = {tool.name: tool.about for tool in tools(mode)}["approve"]  # type: ignore[arg-type]
        assert says in about
