"""Failures of services as the five codes, and the matrix of what is not known, over all effect classes."""

from __future__ import annotations

import asyncio
import json
from typing import get_args

import pytest

from addendum.errors import FAILURE_CODES, CapabilityError, UnknownOutcome
from addendum.providers.faults import Answer, UnderWay, fault, refusal, resent, retry_after, shown
from addendum.records.entries import SIDE_EFFECTING, Effect

httpx2 = pytest.importorskip("httpx2")
openai = pytest.importorskip("openai")
ai = pytest.importorskip("pydantic_ai.exceptions")

ASKED = httpx2.Request("POST", "https://api.example.com/v1/images", headers={"Authorization": "Bearer sk-1"})
EFFECTS = get_args(Effect)


def code(found: CapabilityError | UnknownOutcome) -> str:
    """Return a failure as one word: its code, with + if it is tried again, or `unknown`."""
    if isinstance(found, UnknownOutcome):
        return "unknown"
    assert found.code in FAILURE_CODES
    return found.code + ("+" if found.retryable else "")


# --- statuses -----------------------------------------------------------------------------------------------------

ALWAYS = {
    301: "provider_error",
    400: "invalid_input",
    401: "provider_error",
    402: "rate_limited",
    403: "refused",
    404: "invalid_input",
    408: "timeout+",
    409: "provider_error",
    413: "invalid_input",
    418: "provider_error",
    422: "invalid_input",
    425: "timeout+",
    429: "rate_limited+",
    451: "refused",
    529: "rate_limited+",
}
"""What an answer means whatever the effect class is."""
OPEN = (500, 501, 502, 503, 504, 520, 599)
"""After these, work may have been done."""


@pytest.mark.parametrize("effect", EFFECTS)
def test_the_matrix_of_statuses(effect: str) -> None:
    """For each effect class: what is tried again, what isn't, and what nobody knows."""
    risky = effect in SIDE_EFFECTING
    for status, expected in ALWAYS.items():
        assert code(refusal(Answer(status=status), side_effecting=risky)) == expected, status
    for status in OPEN:
        expected = "unknown" if risky else "provider_error+"
        assert code(refusal(Answer(status=status), side_effecting=risky)) == expected, status
    named = Answer(status=503, headers={"Retry-After": "3"})
    assert code(refusal(named, side_effecting=risky)) == "provider_error+"


@pytest.mark.parametrize("effect", EFFECTS)
def test_the_matrix_of_broken_connections(effect: str) -> None:
    """Before sending, nothing was done; after it nobody knows, in every class: the broker decides what that means."""
    risky = effect in SIDE_EFFECTING
    unsent = [
        httpx2.ConnectError("no"),
        httpx2.ConnectTimeout("no"),
        httpx2.PoolTimeout("no"),
        httpx2.ProxyError("no"),
        httpx2.LocalProtocolError("illegal header value"),
        ConnectionRefusedError(),
    ]
    sent = [
        httpx2.ReadTimeout("no"),
        httpx2.ReadError("no"),
        httpx2.WriteError("no"),
        httpx2.RemoteProtocolError("peer closed connection"),
        httpx2.DecodingError("not gzip"),
        httpx2.TooManyRedirects("again"),
        httpx2.StreamClosed(),
        TimeoutError(),
        ConnectionResetError("reset"),
    ]
    for error in unsent:
        assert code(fault(error, side_effecting=risky)) == "provider_error+", error
        assert code(fault(_wrapped(error), side_effecting=risky)) == "provider_error+", error
    for error in sent:
        assert code(fault(error, side_effecting=risky)) == "unknown", error
        assert code(fault(_wrapped(error), side_effecting=risky)) == "unknown", error


def _wrapped(cause: Exception) -> Exception:
    """Return what the openai package makes of an exception of its transport."""
    late = isinstance(cause, TimeoutError | httpx2.TimeoutException)
    error = openai.APITimeoutError(request=ASKED) if late else openai.APIConnectionError(request=ASKED)
    error.__cause__ = cause
    return error


def test_an_earlier_failure_is_not_taken_for_the_last_one() -> None:
    """Only a cause counts: what was being handled when it broke is another request's story."""
    error = httpx2.ReadError("second")
    error.__context__ = httpx2.ConnectError("first")
    assert code(fault(error, side_effecting=True)) == "unknown"


@pytest.mark.parametrize(
    ("phase", "expected"),
    [
        ("pool", "provider_error+"),
        ("connect", "provider_error+"),
        ("write", "unknown"),
        ("read", "unknown"),
        (None, "unknown"),
    ],
)
def test_phases_of_pydantic_ai(phase: str | None, expected: str) -> None:
    """It says itself how far a request came."""
    assert code(fault(ai.ModelConnectionError("m", "broken", phase=phase), side_effecting=True)) == expected


def test_answers_of_the_libraries() -> None:
    """A status is read from each library's own exception, with its headers and its body."""
    response = httpx2.Response(
        429, headers={"retry-after-ms": "1500"}, request=ASKED, json={"error": {"message": "slow"}}
    )
    for error in (
        openai.RateLimitError("slow", response=response, body={"message": "slow"}),
        httpx2.HTTPStatusError("slow", request=ASKED, response=response),
        ai.ModelHTTPError(429, "m", {"message": "slow"}, headers={"retry-after-ms": "1500"}),
    ):
        found = fault(error, side_effecting=True)
        assert isinstance(found, CapabilityError)
        assert (code(found), found.retry_after, found.message) == ("rate_limited+", 1.5, "429: slow")
    assert code(fault(ai.ContentFilterError("no"), side_effecting=True)) == "refused"
    assert code(fault(ai.OutputTokenLimitExceeded("long"), side_effecting=True)) == "provider_error"
    assert code(fault(ai.ModelRequestTimeout("m", 3.0), side_effecting=True)) == "unknown"
    assert code(fault(ValueError("odd"), side_effecting=True)) == "provider_error"


def test_our_own_errors_pass() -> None:
    """What is one of the two already stays it."""
    for error in (CapabilityError("refused", "no"), UnknownOutcome("lost")):
        assert fault(error, side_effecting=True) is error


@pytest.mark.parametrize(
    ("status", "body", "expected"),
    [
        (429, {"error": {"code": "insufficient_quota", "message": "pay"}}, "rate_limited"),
        (429, {"error": {"type": "insufficient_quota", "message": "pay"}}, "rate_limited"),
        (400, {"error": {"code": "content_policy_violation", "message": "no monsters"}}, "refused"),
        (400, {"error": {"code": "moderation_blocked", "message": "no monsters"}}, "refused"),
        (400, {"error": {"code": "bad_size", "message": "too large"}}, "invalid_input"),
        (500, {"error": {"code": "content_filter", "message": "broken"}}, "unknown"),
        (500, {"error": {"code": "insufficient_quota", "message": "broken"}}, "unknown"),
        (400, {"detail": "too large"}, "invalid_input"),
        (400, {"error": "too large"}, "invalid_input"),
        (400, ["too large"], "invalid_input"),
        (400, {"error": {"message": "", "code": 7}}, "invalid_input"),
    ],
)
def test_what_the_provider_says_decides(status: int, body: object, expected: str) -> None:
    """A policy and an exhausted quota are told by the code, never by the free text."""
    assert code(refusal(Answer(status=status, text=json.dumps(body)), side_effecting=True)) == expected


def test_a_free_text_cannot_make_a_failure_something_else() -> None:
    """A message is data: that it says insufficient_quota changes nothing."""
    body = {"error": {"message": "insufficient_quota content_policy retry-after: 1"}}
    assert code(refusal(Answer(status=500, text=json.dumps(body)), side_effecting=True)) == "unknown"


# --- pauses -------------------------------------------------------------------------------------------------------

NOW = 784_111_777.0  # Sun, 06 Nov 1994 08:49:37 GMT


@pytest.mark.parametrize(
    ("headers", "seconds"),
    [
        ({"Retry-After": "120"}, 120.0),
        ({"retry-after": "0.5"}, 0.5),
        ({"RETRY-AFTER-MS": "250"}, 0.25),
        ({"retry-after-ms": "250", "retry-after": "9"}, 0.25),
        ({"retry-after-ms": "soon", "retry-after": "9"}, 9.0),
        ({"Retry-After": "Sun, 06 Nov 1994 08:50:07 GMT"}, 30.0),
        ({"Retry-After": "Sunday, 06-Nov-94 08:50:07 GMT"}, 30.0),
        ({"Retry-After": "Sun Nov  6 08:50:07 1994"}, 30.0),
        ({"Retry-After": "Sun, 06 Nov 1994 09:50:07 +0100"}, 30.0),
        ({"Retry-After": "Sun, 06 Nov 1994 08:00:00 GMT"}, 0.0),
        ({"Retry-After": "-3"}, None),
        ({"Retry-After": "nan"}, None),
        ({"Retry-After": "inf"}, None),
        ({"Retry-After": "tomorrow"}, None),
        ({"Retry-After": ""}, None),
        ({}, None),
    ],
)
def test_the_pause_that_a_header_asks_for(headers: dict[str, str], seconds: float | None) -> None:
    """Seconds, milliseconds, and each of the three forms of a date (RFC 9110, 5.6.7)."""
    assert retry_after(headers, NOW) == seconds


def test_a_pause_goes_with_its_failure() -> None:
    """To the broker, which waits so long at least."""
    found = refusal(Answer(status=429, headers={"Retry-After": "7"}), side_effecting=True, now=NOW)
    assert isinstance(found, CapabilityError)
    assert found.retry_after == 7.0


# --- text ---------------------------------------------------------------------------------------------------------


def test_a_providers_text_is_one_line_that_controls_nothing() -> None:
    """Cut at 500 characters, with a mark; no escape sequence gets to a terminal, no line break into a log."""
    assert shown("a\x1b[2Jb\r\nc\u202e d\u2028e") == "a [2Jb c d e"
    assert len(shown("x" * 10_000)) == 500
    assert shown("x" * 10_000).endswith("…")
    assert shown("x" * 500) == "x" * 500


def test_a_body_that_nests_deep_is_text() -> None:
    """Nothing is raised by what a provider sends."""
    assert code(refusal(Answer(status=500, text="[" * 100_000), side_effecting=False)) == "provider_error+"


# --- the same key again -------------------------------------------------------------------------------------------


def test_a_lost_answer_is_asked_for_again_with_the_same_key() -> None:
    """As often as it was said, and what comes in the end is the outcome."""
    outcomes: list[Exception | str] = [UnknownOutcome("lost"), UnderWay("still at it", 0.0), "done"]
    assert asyncio.run(_resent(outcomes, most=2)) == "done"
    with pytest.raises(UnknownOutcome, match="second"):
        asyncio.run(_resent([UnknownOutcome("first"), UnknownOutcome("second"), "never"], most=1))


def test_a_certain_failure_is_not_sent_again() -> None:
    """That is the broker's business."""
    with pytest.raises(CapabilityError, match="refused"):
        asyncio.run(_resent([CapabilityError("refused", "no"), "never"], most=2))


@pytest.mark.parametrize(
    "failed",
    [
        CapabilityError("provider_error", "it can't be reached, nothing was sent", True),
        CapabilityError("rate_limited", "later", True, retry_after=0.0),
        CapabilityError("refused", "the key has expired"),
    ],
)
def test_a_failure_after_a_lost_answer_leaves_it_lost(failed: CapabilityError) -> None:
    """It is about the second request. The broker would send another one, with another key, and pay twice."""
    with pytest.raises(UnknownOutcome, match=f"lost; asked again: {failed.message}"):
        asyncio.run(_resent([UnknownOutcome("lost"), failed], most=1))
    assert asyncio.run(_resent([UnknownOutcome("lost"), failed, "done"], most=2)) == "done"


def test_a_failure_with_its_cost_is_an_answer() -> None:
    """To the request with that key, whichever of them it was."""
    with pytest.raises(CapabilityError, match="no image"):
        asyncio.run(_resent([UnknownOutcome("lost"), CapabilityError("provider_error", "no image", cost_usd="1")], 2))


async def _resent(outcomes: list[Exception | str], most: int) -> str:
    async def send() -> str:
        found = outcomes.pop(0)
        if isinstance(found, Exception):
            raise found
        return found

    return await resent(send, most=most, pause=0.0)


def test_a_key_that_is_in_use_is_under_way() -> None:
    """409 means that only where keys are honoured (draft-ietf-httpapi-idempotency-key-header)."""
    assert isinstance(refusal(Answer(status=409), side_effecting=True, keyed=True), UnderWay)
    assert not isinstance(refusal(Answer(status=409), side_effecting=True), UnknownOutcome)
