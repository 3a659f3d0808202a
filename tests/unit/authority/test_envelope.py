"""The envelope: a worst case against the limits of a grant, before anything runs."""

from __future__ import annotations

from typing import Any

import pytest

from addendum.authority.catalog import Capability, Catalog
from addendum.authority.envelope import cost, excesses
from addendum.authority.grant import from_json
from addendum.authority.money import nano

CATALOG = Catalog(
    [
        Capability(name="image.make", effect="paid", price=nano("0.02")),
        Capability(name="video.make", effect="paid", price=nano("0.5"), most=nano("0.9")),
        Capability(name="text.read", effect="read"),
    ]
)


def found(worst: dict[str, int | None], **grant: Any) -> list[str]:
    """Return what a worst case exceeds, as it is said to a person."""
    names = {name: {} for name in CATALOG}
    given = {"capabilities": {**names, **grant.pop("capabilities", {})}, **grant}
    return [str(excess) for excess in excesses(worst, CATALOG, from_json(given))]


def test_a_worst_case_at_a_limit_is_within_it_and_one_above_is_named() -> None:
    """Six of six are granted; the seventh is an excess with both numbers."""
    limit = {"image.make": {"limits": [{"meter": "calls", "max": 6}]}}
    assert found({"image.make": 6}, capabilities=limit) == []
    assert found({"image.make": 7}, capabilities=limit) == [
        "The worst case is 7, above the limit image.make: calls <= 6 per run."
    ]


def test_the_cost_is_the_most_that_each_call_may_take() -> None:
    """A capability with a maximum above its price is counted at the maximum."""
    limits = [{"meter": "cost_usd", "max": "1.00"}]
    assert found({"image.make": 5, "video.make": 1}, limits=limits) == []
    assert found({"image.make": 6, "video.make": 1}, limits=limits) == [
        "The worst case is $1.02, above the limit the whole run: cost_usd <= $1.00 per run."
    ]
    assert cost({"image.make": 6, "video.make": 1}, CATALOG) == nano("1.02")


def test_a_worst_case_without_a_bound_is_an_excess_of_every_limit_on_it_and_of_no_other() -> None:
    """Where nothing limits the capability, unbounded is allowed: the run-time limits of others still hold."""
    limit = {"image.make": {"limits": [{"meter": "calls", "max": 6}]}}
    (said,) = found({"image.make": None}, capabilities=limit)
    assert "unbounded" in said
    assert found({"text.read": None, "image.make": 1}, capabilities=limit) == []
    assert cost({"text.read": None}, CATALOG) is None


def test_a_grant_may_leave_it_to_the_run_time() -> None:
    """Then the limit decides when it is reached."""
    limits = [{"meter": "calls", "max": 1}]
    assert found({"image.make": 100}, limits=limits, worst_case="at_run_time") == []
    assert found({"image.make": 100}, limits=limits) != []


@pytest.mark.parametrize("meter", ["in_flight", "tokens", "seconds", "bytes_out"])
def test_limits_that_only_a_run_can_reach_are_not_asked_before(meter: str) -> None:
    """Nothing is known of them before."""
    assert found({"image.make": 100}, limits=[{"meter": meter, "max": 1}]) == []


def test_a_capability_that_is_called_zero_times_costs_nothing() -> None:
    """A call behind a bound of zero never happens."""
    assert found({"image.make": 0}, limits=[{"meter": "calls", "max": 0}]) == []
