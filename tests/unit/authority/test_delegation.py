"""Shares of a grant: what a child can get of its parent's, and what is gone of a limit for it."""

from __future__ import annotations

import math
from typing import Any

import pytest

from addendum.authority.delegation import Child, Used, gone, share, share_out, used_from
from addendum.authority.grant import Grant, Limit, from_json
from addendum.errors import ConfigError
from addendum.records.history import Totals


def grant(calls: int | None, own: list[dict[str, Any]] | None = None, **more: Any) -> Grant:
    limits = [] if calls is None else [{"meter": "calls", "max": calls}]
    return from_json({"capabilities": {"a": {"limits": own or []}}, "limits": limits, **more})


def most(limit: Limit) -> int | float:
    return limit.most


PARENT = grant(5, expires="2098-01-01T00:00:00Z")


@pytest.mark.parametrize(
    "asked",
    [
        grant(6),
        grant(None),
        from_json({"capabilities": {"a": {}, "b": {}}, "limits": [{"meter": "calls", "max": 1}]}),
        grant(1, expires="2099-01-01T00:00:00Z"),
        grant(1, worst_case="at_run_time"),
    ],
)
def test_a_child_that_asks_for_more_is_told_what(asked: Grant) -> None:
    """More, no limit at all, another capability, a later end, a looser rule: each is a finding."""
    found = share_out(PARENT, asked, most)
    assert isinstance(found, tuple)
    assert "the parent allows" in str(found[0])


def test_what_is_left_counts_and_not_what_was_granted() -> None:
    """Three of five with two left is too much, two is not; the child's grant says the parent's end."""
    assert isinstance(share_out(PARENT, grant(3), lambda _: 2), tuple)
    found = share_out(PARENT, grant(2), lambda _: 2)
    assert isinstance(found, Grant)
    assert (found.limits[0].most, found.expires) == (2, PARENT.expires)


def test_a_limit_may_be_said_for_each_capability() -> None:
    """Two of each of two capabilities are four of all; a capability without a limit leaves all of them open."""
    total = Limit("calls", 9)
    two = [{"meter": "calls", "max": 2}]
    both = from_json({"capabilities": {"a": {"limits": two}, "b": {"limits": two}}})
    assert share(both, total) == 4
    assert share(from_json({"capabilities": {"a": {"limits": two}, "b": {}}}), total) is None
    assert share(from_json({"capabilities": {}}), total) == 0
    assert share(both, Limit("calls", 9, "run", "a")) == 2
    assert share(both, Limit("calls", 9, "run", "c")) == 0


def test_calls_bound_the_entries_that_they_leave_and_the_agents_that_they_are() -> None:
    """Who may make three calls leaves six entries at most, and calls no more than three agents."""
    assert share(grant(3), Limit("journal_records", 99)) == 6
    assert share(grant(3), Limit("agents", 99)) == 3
    assert share(grant(None), Limit("agents", 99)) is None


def test_the_time_of_a_run_is_none_of_its_providers() -> None:
    """Limits on providers' seconds say nothing of how long a child is driven."""
    own = [{"meter": "seconds", "max": 4}]
    assert share(grant(None, own), Limit("seconds", 9)) is None
    assert share(grant(None, own), Limit("seconds", 9, "run", "a")) == 4


@pytest.mark.parametrize("amount", [-1, math.nan, math.inf, True, "5"])
def test_a_limit_that_is_no_amount_is_none(amount: Any) -> None:
    """A grant that was made and not read from a file is looked at all the same."""
    with pytest.raises(ConfigError):
        share_out(PARENT, Grant({"a": ()}, (Limit("calls", amount),)), most)


def test_a_share_of_a_window_is_free_one_window_after_the_end() -> None:
    """What was sent in it still counts, whoever sent it."""
    window = Limit("calls", 9, 60.0)
    asked = grant(None, limits=[{"meter": "calls", "max": 2, "per": "minute"}])
    living, ended = Child("c", asked, 0.0), Child("c", asked, 100.0, Used())
    assert gone([living], window, (), 1e9) == (0, 2)
    assert gone([ended], window, (), 159.0) == (2, 0)
    assert gone([ended], window, (), 160.0) == (0, 0)


def test_what_a_child_used_is_counted_by_any_limit() -> None:
    """Also by one that the parent got later: the entry says all of it."""
    used = Used(
        {"a": Totals(calls=2, cost=30, bytes_out=5, bytes_in=7, seconds=0.5)},
        {("a", "distinct:/p"): 1, ("a", "bytes_out by:/to"): 4},
        {"seconds": 1.5, "script_seconds": 0.25, "log_bytes": 11},
    )
    child = Child("c", grant(9), 0.0, used_from(used.to_json()))
    amounts = {
        Limit("calls", 9): 2,
        Limit("agents", 9): 2,
        Limit("cost_usd", 99, "run", "a"): 30,
        Limit("journal_bytes", 99): 12,
        Limit("journal_records", 99): 4,
        Limit("distinct:/p", 9, "run", "a"): 1,
        Limit("bytes_out", 9, "run", "a", by="/to"): 4,
        Limit("script_seconds", 9): 0.25,
        Limit("log_bytes", 99): 11,
        Limit("seconds", 9): 1.5,
        Limit("seconds", 9, "run", "a"): 0.5,
        Limit("in_flight", 9): 0,
        Limit("calls", 9, "run", "b"): 0,
    }
    assert {limit: gone([child], limit, {"a"}, 0.0)[0] for limit in amounts} == amounts
