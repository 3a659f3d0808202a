"""How an answer counts: as a result, or as a failure with what it cost."""

from __future__ import annotations

from typing import Any

from addendum.authority.catalog import Capability
from addendum.broker.dispatch import Answered
from addendum.broker.outcomes import charged, count
from addendum.broker.schema import Schemas
from addendum.errors import CapabilityError
from addendum.ports import Reply, Usage
from addendum.records.outcome import Failure, Success

MAKE = Capability(
    name="art.make", effect="paid", price=20, max_result=100, output={"type": "object", "required": ["n"]}
)


def counted(answer: Answered, error: CapabilityError | None = None, capability: Capability = MAKE) -> Any:
    """Count an answer of `art.make`."""
    return count(answer, error, capability, "orchestrate/art.make#0", Schemas())


def test_a_fitting_reply_is_a_result_at_the_price_unless_its_provider_says_otherwise() -> None:
    """Usage is the provider's word, price the catalog's."""
    plain = counted(Answered(1, 0.0, Reply({"n": 1})))
    assert (plain.outcome, plain.data, plain.cost) == (Success({"n": 1}), b'{"n":1}', 20)
    told = counted(Answered(1, 0.0, Reply({"n": 1}, Usage(cost=3, tokens=4))))
    assert (told.cost, told.tokens) == (3, 4)


def test_a_reply_that_cannot_be_used_is_a_failure_at_the_same_cost() -> None:
    """Too large, of another shape, or no JSON."""
    for value in ({"m": 1}, {"n": "x" * 200}, {"n": {1}}):
        found = counted(Answered(1, 0.0, Reply(value)))
        assert isinstance(found.outcome, Failure)
        assert (found.outcome.code, found.outcome.retryable, found.cost) == ("provider_error", False, 20)
        assert "art.make" in found.outcome.message


def test_a_failure_with_a_code_of_its_own_keeps_it_in_the_message() -> None:
    """Scripts see the five codes only."""
    found = counted(Answered(1, 0.0), CapabilityError("http_418", "a teapot", cost_usd="0.000000005"))
    assert found.outcome == Failure("provider_error", "http_418: a teapot", False, "orchestrate/art.make#0")
    assert found.cost == 5
    known = counted(Answered(1, 0.0), CapabilityError("refused", "no"))
    assert known.outcome == Failure("refused", "no", False, "orchestrate/art.make#0")


def test_a_charge_that_is_no_amount_is_none() -> None:
    """A failure is never lost for it."""
    assert charged(CapabilityError("refused", cost_usd="a lot")) == 0
    assert charged(CapabilityError("refused", cost_usd=-5)) == 0
