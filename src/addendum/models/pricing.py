"""What a model's call costs, from the price list of genai-prices, in nano-dollars."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Final

from addendum.authority.money import nano

FRAMING: Final = 2000
"""Tokens that a provider puts around a prompt: roles, the schema's own frame, instructions on the form."""


@dataclass(frozen=True, slots=True)
class Prices:
    """The prices of one model. `most` takes tokens of input and output, `cost` a usage that a provider reported."""

    most: Callable[[int, int], int]
    cost: Callable[[Any], int | None]


def listed(model: str, provider: str, url: str) -> Prices | None:
    """Return a model's prices, looked up by the address that is asked and then by the provider's name; None where the
    list has neither. The list is the installed one: nothing is fetched."""
    import genai_prices

    for where in ({"provider_api_url": url}, {"provider_id": provider}):
        if not next(iter(where.values())):
            continue
        try:
            genai_prices.calc_price(genai_prices.Usage(input_tokens=1, output_tokens=1), model, **where)  # type: ignore[call-overload]
        except (LookupError, ValueError):
            continue
        return _prices(model, where)
    return None


def known(url: str) -> bool:
    """Whether an address is one of a provider that the list knows."""
    from genai_prices.data_snapshot import get_snapshot

    try:
        get_snapshot().find_provider(None, None, url)
    except LookupError:
        return False
    return True


def _prices(model: str, where: dict[str, str]) -> Prices:
    import genai_prices

    def price(usage: Any) -> int | None:
        try:
            return nano(genai_prices.calc_price(usage, model, **where).total_price)  # type: ignore[call-overload]
        except (LookupError, ValueError):  # a usage that the list can't price, as one that says nothing
            return None

    def most(given: int, written: int) -> int:
        # Writing to a provider's cache costs more than not to, where it does so unasked.
        plain = price(genai_prices.Usage(input_tokens=given, output_tokens=written))
        cached = price(genai_prices.Usage(input_tokens=given, cache_write_tokens=given, output_tokens=written))
        return max(plain or 0, cached or 0)

    return Prices(most, price)
