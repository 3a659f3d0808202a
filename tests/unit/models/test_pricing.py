"""What a call costs by the price list."""

from __future__ import annotations

import pytest

pytest.importorskip("genai_prices")

from genai_prices import Usage

from addendum.models import pricing

LIST = "https://api.openai.com/v1/"


def test_a_model_is_found_by_its_address_or_its_provider() -> None:
    """The address says more than the name."""
    by_address = pricing.listed("gpt-5-mini", "", LIST)
    by_name = pricing.listed("gpt-5-mini", "openai", "http://127.0.0.1:1/v1")
    assert by_address is not None
    assert by_name is not None
    usage = Usage(input_tokens=1000, output_tokens=10)
    assert by_address.cost(usage) == by_name.cost(usage) == 270_000


def test_what_is_not_listed_has_no_prices() -> None:
    """Then somebody has to say what a call costs."""
    assert pricing.listed("my-own", "openai", "http://127.0.0.1:1/v1") is None
    assert pricing.listed("my-own", "nobody", "") is None


@pytest.mark.parametrize("model", ["gpt-5-mini", "gpt-4.1"])
def test_the_most_is_at_least_what_any_usage_within_it_costs(model: str) -> None:
    """Writing to a cache included."""
    prices = pricing.listed(model, "openai", "")
    assert prices is not None
    most = prices.most(10_000, 500)
    for usage in (
        Usage(input_tokens=10_000, output_tokens=500),
        Usage(input_tokens=10_000, cache_read_tokens=5000, output_tokens=500),
        Usage(input_tokens=1, output_tokens=1),
    ):
        assert (prices.cost(usage) or 0) <= most


def test_writing_to_a_cache_counts_where_it_costs_more() -> None:
    """Anthropic takes a quarter more for it."""
    prices = pricing.listed("claude-sonnet-4-5", "anthropic", "")
    assert prices is not None
    assert prices.most(10_000, 0) == prices.cost(Usage(input_tokens=10_000, cache_write_tokens=10_000))


def test_a_usage_that_cannot_be_is_no_cost() -> None:
    """The reserved amount counts then."""
    prices = pricing.listed("gpt-5-mini", "openai", "")
    assert prices is not None
    assert prices.cost(Usage(input_tokens=1, cache_read_tokens=5)) is None


def test_addresses_of_providers_are_known() -> None:
    """A server of one's own is not."""
    assert pricing.known(LIST)
    assert not pricing.known("http://127.0.0.1:8080/v1")
