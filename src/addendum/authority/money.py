"""Money is an integer number of nano-dollars (10^-9 US dollars), in totals too. Floats never hold it."""

from __future__ import annotations

from decimal import ROUND_CEILING, Decimal, InvalidOperation
from typing import Final

from addendum.canon import MAX_INT
from addendum.errors import ConfigError

NANO: Final = 1_000_000_000
DIGITS: Final = 15
"""Digits before the point, less one: far above what is counted."""


def nano(usd: object) -> int:
    """Return nano-dollars for an amount in US dollars: text, an int, a Decimal, or a float as it is printed.

    Fractions of a nano-dollar are rounded up. Raises `ConfigError` for anything else, for a negative amount, and for
    one above nine million dollars: it must be a number that JSON keeps exactly.
    """
    if isinstance(usd, bool) or not isinstance(usd, str | int | float | Decimal):
        raise ConfigError(f"{usd!r} is no amount of money.", hint="Write US dollars as a number, as in 0.02.")
    try:
        amount = Decimal(repr(usd) if isinstance(usd, float) else usd)
        if not amount.is_finite() or amount.adjusted() > DIGITS:  # a large exponent would take minutes to write out
            raise ValueError
        value = int((amount * NANO).to_integral_value(rounding=ROUND_CEILING))
    except (InvalidOperation, ValueError, OverflowError):
        raise ConfigError(f"{usd!r} is no amount of money.", hint="Write US dollars as a number, as in 0.02.") from None
    if value < 0:
        raise ConfigError(f"{usd!r} is negative.", hint="Write what it costs at most.")
    if value > MAX_INT:
        raise ConfigError(f"{usd!r} is more money than is counted.", hint=f"Write at most {MAX_INT // NANO:,} dollars.")
    return value


def usd(value: int) -> str:
    """Return an exact decimal text of US dollars for nano-dollars, with at least two decimals: `0.02`, `0.005`."""
    sign = "-" if value < 0 else ""
    whole, rest = divmod(abs(value), NANO)
    decimals = f"{rest:09d}".rstrip("0").ljust(2, "0")
    return f"{sign}{whole}.{decimals}"
