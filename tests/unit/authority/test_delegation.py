"""Delegation transfers: what children hold and the parent uses is never above the parent's grant, returns included."""

from __future__ import annotations

import random
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from addendum.authority.delegation import Purse
from addendum.authority.grant import Grant, from_json


def grant(calls: int | None, **more: Any) -> Grant:
    limits = [] if calls is None else [{"meter": "calls", "max": calls}]
    return from_json({"capabilities": {"a": {}}, "limits": limits, **more})


def test_a_childs_grant_comes_out_of_the_parents() -> None:
    """Two of five given away leave three; what the child didn't use goes back at its end."""
    parent = Purse(grant(5))
    (limit,) = parent.grant.limits
    child = parent.delegate("one", grant(2))
    assert isinstance(child, Purse)
    assert parent.left(limit) == 3
    assert not parent.use(limit, 4)
    parent.returned("one", {limit: 1})
    assert parent.left(limit) == 4


@pytest.mark.parametrize(
    "asked",
    [
        grant(6),
        grant(None),
        from_json({"capabilities": {"a": {}, "b": {}}, "limits": [{"meter": "calls", "max": 1}]}),
        grant(1, expires="2099-01-01T00:00:00Z"),
    ],
)
def test_a_child_that_asks_for_more_is_told_what(asked: Grant) -> None:
    """More, no limit at all, another capability, a later end: each is a finding, and nothing is given."""
    parent = Purse(grant(5, expires="2098-01-01T00:00:00Z"))
    found = parent.delegate("one", asked)
    assert isinstance(found, tuple)
    assert found
    assert parent.given == {}


@given(st.integers(0, 2**32))
def test_a_tree_of_delegations_conserves_what_was_granted(seed: int) -> None:
    """Whoever uses, delegates and returns in whatever order: all use under the root is at most the root's limit."""
    chance = random.Random(seed)
    root = Purse(grant(chance.randint(0, 20)))
    total = root.grant.limits[0].most
    living: list[tuple[Purse, Purse | None, str]] = [(root, None, "")]
    spent = 0
    for number in range(60):
        purse, parent, name = living[chance.randrange(len(living))]
        (limit,) = purse.grant.limits
        match chance.randrange(3):
            case 0:
                amount = chance.randint(0, 4)
                if purse.use(limit, amount):
                    spent += amount
            case 1:
                child = purse.delegate(f"c{number}", grant(chance.randint(0, 8)))
                if isinstance(child, Purse):
                    living.append((child, purse, f"c{number}"))
            case _:
                if parent is not None and not purse.given:
                    living.remove((purse, parent, name))
                    parent.returned(name, {parent.grant.limits[0]: purse.used.get(limit, 0)})
        assert spent <= total
        for each, _, _ in living:
            assert each.left(each.grant.limits[0]) >= 0
