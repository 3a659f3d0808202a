"""Money: whole nano-dollars in and exact decimal text out, never a float between."""

from __future__ import annotations

from decimal import Decimal
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from addendum.authority.money import NANO, nano, usd
from addendum.errors import ConfigError


@pytest.mark.parametrize(
    ("amount", "value"),
    [
        ("0.02", 20_000_000),
        (0.02, 20_000_000),
        (0.1 + 0.2, 300_000_001),  # as it is printed, 0.30000000000000004, rounded up
        ("0.0000000001", 1),
        (1, NANO),
        ("1e-9", 1),
        (Decimal("0.005"), 5_000_000),
        ("0", 0),
        ("-0", 0),
        (" 2 ", 2 * NANO),
        ("1_000", 1000 * NANO),
    ],
)
def test_amounts_are_read_exactly_and_rounded_up(amount: Any, value: int) -> None:
    """A fraction of a nano-dollar counts as a whole one: what is reserved is never too little."""
    assert nano(amount) == value


@pytest.mark.parametrize(
    "amount",
    [
        "-0.01",
        -1,
        "NaN",
        float("nan"),
        "Infinity",
        float("inf"),
        "",
        "two",
        None,
        True,
        [],
        b"1",
        "1e20",
        "1e999999",
        "1e999989",
        1e300,
        10**40,
        "9007199.254740992",
    ],
)
def test_what_is_no_amount_is_refused(amount: Any) -> None:
    """Neither a negative amount nor one that can't be summed is money."""
    with pytest.raises(ConfigError) as caught:
        nano(amount)
    assert caught.value.hint


@given(st.integers(min_value=0, max_value=2**53 - 1))
def test_text_and_number_are_the_same_amount(value: int) -> None:
    """What is shown is what is counted, to the last nano-dollar."""
    text = usd(value)
    assert nano(text) == value
    assert Decimal(text) * NANO == value
    assert len(text.partition(".")[2]) >= 2


@given(st.lists(st.integers(min_value=0, max_value=10**14), max_size=20))
def test_a_sum_is_the_sum(values: list[int]) -> None:
    """A thousand tenths of a cent are what they are."""
    assert usd(sum(values)) == f"{sum(Decimal(usd(value)) for value in values):f}" or Decimal(usd(sum(values))) == sum(
        Decimal(usd(value)) for value in values
    )


def test_a_difference_may_be_negative() -> None:
    """It is shown with its sign."""
    assert usd(-20_000_000) == "-0.02"
