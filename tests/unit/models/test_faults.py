"""Exceptions of pydantic-ai as one of the five codes, or as an unknown outcome."""

from __future__ import annotations

from typing import Any

import pytest

pytest.importorskip("pydantic_ai")

from pydantic_ai import exceptions as ai

from addendum.errors import CapabilityError, UnknownOutcome
from addendum.models import faults


def http(status: int, category: Any = None, **more: Any) -> Exception:
    """An error that came with a status."""
    body = {"message": "the provider's own words"}
    return ai.ModelHTTPError.for_category(category, status_code=status, model_name="m", body=body, **more)


def same(text: str) -> str:
    """Nothing to hide."""
    return text


@pytest.mark.parametrize(
    ("error", "code", "retryable"),
    [
        (http(429, ai.ModelRateLimitError), "rate_limited", True),
        (http(429, ai.ModelQuotaExceededError), "rate_limited", False),
        (http(503, ai.ModelUnavailableError), "provider_error", True),
        (http(529, ai.ModelOverloadedError), "provider_error", True),
        (http(500, ai.ModelServerError), "provider_error", True),
        (http(409), "provider_error", True),
        (http(408), "timeout", True),
        (http(400, ai.ModelRequestRejectedError), "invalid_input", False),
        (http(400, ai.ModelContextWindowExceededError), "invalid_input", False),
        (http(413), "invalid_input", False),
        (http(401, ai.ModelAuthenticationError), "provider_error", False),
        (http(404, ai.ModelNotFoundError), "provider_error", False),
        (ai.ModelConnectionError("m", "refused", phase="connect"), "provider_error", True),
        (ai.ModelTimeoutError("m", "late", phase="pool"), "timeout", True),
        (ai.ContentFilterError("filtered"), "refused", False),
        (ai.UserError("not supported by this model"), "invalid_input", False),
        (ai.UnexpectedModelBehavior("no JSON"), "provider_error", False),
    ],
    ids=lambda value: type(value).__name__ if isinstance(value, Exception) else str(value),
)
def test_a_certain_failure_has_a_code(error: Exception, code: str, retryable: bool) -> None:
    """And says whether it may pass."""
    found = faults.outcome(error, same)
    assert isinstance(found, CapabilityError)
    assert (found.code, found.retryable) == (code, retryable)


@pytest.mark.parametrize(
    "error",
    [
        ai.ModelConnectionError("m", "reset", phase="read"),
        ai.ModelConnectionError("m", "reset", phase="write"),
        ai.ModelConnectionError("m", "reset"),
        ai.ModelTimeoutError("m", "late", phase="read"),
        ai.ModelRequestTimeout("m", 3.0),
        http(502, ai.ModelServerError),
        http(504, ai.ModelServerError),
    ],
    ids=str,
)
def test_after_sending_the_outcome_is_unknown(error: Exception) -> None:
    """It may have been written, and billed."""
    assert isinstance(faults.outcome(error, same), UnknownOutcome)


def test_a_request_that_is_under_way_is_unknown() -> None:
    """With its key it is asked for again; without one, a request with effects may be done by the first."""
    for more in ({"once": True}, {"keyed": True}):
        assert isinstance(faults.outcome(http(409), same, **more), UnknownOutcome)


def test_the_providers_pause_is_passed_on() -> None:
    """From its header."""
    found = faults.outcome(http(429, ai.ModelRateLimitError, headers={"Retry-After": "9"}), same)
    assert isinstance(found, CapabilityError)
    assert found.retry_after == 9.0


def test_a_text_is_cleaned_before_it_is_cut() -> None:
    """A secret at the cut is not left in half; the text is one line."""
    error = http(400, ai.ModelRequestRejectedError)
    error.body = {"error": {"message": "x" * 480 + " \n sk-0123456789abcdef0123456789" + "y" * 500}}  # type: ignore[attr-defined]
    found = faults.outcome(error, lambda text: text.replace("sk-0123456789abcdef0123456789", "[secret s]"))
    said = str(found)
    assert "sk-" not in said
    assert "\n" not in said
    assert len(faults.said(error, same)) == faults.MOST


@pytest.mark.parametrize("body", [{"error": "words"}, {"message": "words"}, "words", {"error": {"message": "words"}}])
def test_a_message_is_found_where_providers_put_it(body: Any) -> None:
    """In four places."""
    error = ai.ModelHTTPError(400, "m", body)
    assert faults.said(error, same) == "HTTP 400: words"
