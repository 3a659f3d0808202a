"""What a provider hands back is made fit to be kept."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from addendum.broker import fit
from addendum.errors import CapabilityError
from addendum.ports import Reply, Usage


class Silent(Exception):
    """An error without a readable text."""

    def __str__(self) -> str:
        raise ValueError


@given(st.text(alphabet=st.characters(), max_size=50))
def test_any_text_can_be_stored_and_a_sound_one_stays_as_it_is(text: str) -> None:
    """Half a letter becomes a question mark."""
    found = fit.text(text)
    assert found.encode("utf-8").decode("utf-8") == found
    if text.encode("utf-8", "ignore").decode("utf-8") == text:
        assert found == text


def test_a_long_text_is_cut_and_one_that_cannot_be_read_is_named() -> None:
    """The driver never fails for a message."""
    assert len(fit.text("x" * 5000)) == fit.MESSAGE
    assert "Silent" in fit.text(Silent())
    assert fit.broken(Silent()).code == "provider_error"


def test_a_reply_is_a_copy() -> None:
    """What is changed afterwards was not answered."""
    value: dict[str, Any] = {"a": [1]}
    reply, data, unfit = fit.reply(Reply(value))
    value["a"].append(2)
    assert (reply.value, data, unfit) == ({"a": [1]}, b'{"a":[1]}', "")


@given(
    st.recursive(st.none() | st.booleans() | st.integers(-(2**53) + 1, 2**53 - 1) | st.text(), st.lists, max_leaves=9)
)
def test_a_json_value_goes_through_as_it_will_be_read_back(value: Any) -> None:
    """The live run sees what a replay will see."""
    try:
        data = json.dumps(value).encode()
    except UnicodeEncodeError:
        return
    reply, _, unfit = fit.reply(Reply(value))
    assert unfit or reply.value == json.loads(data)


@pytest.mark.parametrize("value", [float("nan"), {1: 2}, b"x", Ellipsis, {1}, "\ud800"])
def test_what_json_cannot_say_is_unfit_and_its_usage_still_counts(value: Any) -> None:
    """It was charged all the same."""
    reply, data, unfit = fit.reply(Reply(value, Usage(cost=7, tokens=3)))
    assert unfit
    assert (reply.value, data, reply.usage) == (None, b"null", Usage(cost=7, tokens=3))


@pytest.mark.parametrize("answered", [None, {"n": 1}, Reply, 3])
def test_what_is_no_reply_is_unfit(answered: object) -> None:
    """It says what was returned instead."""
    assert "no Reply" in fit.reply(answered)[2]


@pytest.mark.parametrize(("cost", "kept"), [(0, 0), (5, 5), (-1, None), (True, None), (1.0, None), (10**20, None)])
def test_a_cost_that_is_no_amount_is_no_report(cost: Any, kept: int | None) -> None:
    """Then the catalog's price counts."""
    assert fit.reply(Reply(1, Usage(cost=cost)))[0].usage.cost == kept


@pytest.mark.parametrize(
    ("pause", "kept"), [(3, 3.0), (0, 0.0), (-1, 0.0), (float("nan"), 0.0), ("5", 0.0), (1e9, fit.LONGEST_PAUSE)]
)
def test_a_pause_is_a_time_of_bounded_length(pause: Any, kept: float) -> None:
    """A provider can't send the run to sleep for ever."""
    assert fit.failure(CapabilityError("rate_limited", retryable=True, retry_after=pause)).retry_after == kept


def test_a_failure_that_names_no_pause_has_none() -> None:
    """The host's own back-off is all there is then; an error made without the keyword counts as one without it."""
    assert CapabilityError("rate_limited").retry_after is None
    error = CapabilityError("rate_limited", retryable=True)
    del error.retry_after
    assert fit.failure(error).retry_after == 0.0


def test_only_true_is_retryable() -> None:
    """A word that is true by accident is no declaration."""
    assert fit.failure(CapabilityError("timeout", retryable=True)).retryable
    assert not fit.failure(CapabilityError("timeout", retryable="no")).retryable  # type: ignore[arg-type]
