"""A word for a counted aggregate of calls: bound to a number and to payloads, and used up one by one."""

from __future__ import annotations

from collections import Counter
from typing import Any

import pytest

from addendum.authority.permit import Permit, permit, room
from addendum.canon import canonical, payload_digest
from addendum.errors import AddendumError
from addendum.records.history import Permit as Given

A, B = (payload_digest(canonical({"path": name}), 1) for name in "ab")


def given(found: Permit) -> Given:
    """Return a permit as a run has it."""
    body = found.body()
    return Given(3, body, body["count"], Counter(body.get("digests", {})), body.get("cost"))


def test_exact_payloads_are_each_allowed_as_often_as_they_stand_there() -> None:
    """Two of one and one of another; nothing else, and not a third."""
    mine = given(permit("x", payloads=[{"path": "a"}, {"path": "a"}, {"path": "b"}]))
    assert (mine.left, room(mine, "x", A, 0, 0.0, [])) == (3, True)
    assert not room(mine, "y", A, 0, 0.0, [])
    assert not room(mine, "x", "other", 0, 0.0, [])
    assert not room(mine, "x", A, 0, 0.0, [(A, 0), (A, 0)])
    mine.use(A, 0)
    mine.use(A, 0)
    assert not room(mine, "x", A, 0, 0.0, [])
    assert room(mine, "x", B, 0, 0.0, [])


def test_a_number_by_a_schema_has_a_sum_and_an_end() -> None:
    """Three that cost at most 50 in sum, until second ten."""
    mine = given(permit("x", count=3, where={}, most_usd="0.00000005", expires=10.0))
    assert room(mine, "x", A, 20, 9.9, [(B, 20)])
    assert not room(mine, "x", A, 20, 9.9, [(B, 40)])
    assert not room(mine, "x", A, 20, 10.0, [])
    mine.use(A, 20)
    mine.use(A, 20)
    assert not room(mine, "x", A, 20, 0.0, [])
    assert room(mine, "x", A, 10, 0.0, [])


@pytest.mark.parametrize(
    "wrong",
    [
        {},
        {"count": 3},
        {"payloads": [{}], "where": {}},
        {"count": 2, "payloads": [{}]},
        {"where": {}},
        {"count": 0, "where": {}},
        {"count": -1, "where": {}},
        {"count": True, "where": {}},
        {"count": 10**9, "where": {}},
        {"count": 1, "where": []},
        {"count": 1, "where": {}, "most_usd": "-1"},
        {"count": 1, "where": {}, "most_usd": "1e20"},
        {"count": "3", "where": {}},
        {"count": 3.0, "where": {}},
        {"count": 1, "where": {}, "expires": float("nan")},
        {"count": 1, "where": {}, "expires": float("inf")},
    ],
)
def test_there_is_none_without_a_number_and_without_saying_which(wrong: dict[str, Any]) -> None:
    """No "always", no more than there are payloads, nothing negative, no time and no sum that can't be written."""
    with pytest.raises(AddendumError):
        permit("x", **wrong)
