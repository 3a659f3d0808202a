"""What went wrong with a model's request: one of the five codes, or an unknown outcome.

| what pydantic-ai raises | outcome |
| --- | --- |
| no connection, no place in the pool | `provider_error` (`timeout` if it was one), retryable: nothing was sent |
| connection lost or time over after sending, 502, 504 | unknown |
| 429 | `rate_limited`, retryable, with the provider's pause |
| quota or credit used up | `rate_limited`, not retryable: waiting doesn't help |
| 500, 503, 529, 409, 408 | `provider_error` (408: `timeout`), retryable: providers don't bill what they didn't answer |
| 401, 403, 404 | `provider_error`: the key, the model's name or the address is wrong |
| 400, 413, 422, context window | `invalid_input` |
| content filter | `refused` |
| anything else that was answered | `provider_error`; with a status of success, at the most that it may have cost |

A prompt that is asked `once` has effects: for it, 409, 500 and a 503 that names no time to come back are unknown too.
So is 409 for one with an idempotency key: a request with that key is under way, and is asked for again by it.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final

from pydantic_ai import exceptions as ai

from addendum.errors import CapabilityError, UnknownOutcome

MOST: Final = 500
"""Characters of a provider's own text that are kept."""
UNCLEAR: Final = (502, 504)
"""A gateway that lost its server: what that did, nobody says."""
AGAIN: Final = (409, 425, 500)


def outcome(
    error: Exception, clean: Callable[[str], str], *, once: bool = False, keyed: bool = False, server: str = ""
) -> CapabilityError | UnknownOutcome:
    """Return what to raise for an exception of pydantic-ai. `clean` takes secrets out of a text; it sees the whole of
    it, before it is cut. `once` as the prompt was asked; `keyed`: with an idempotency key. `server` is who was asked: a
    connection that failed is most often a wrong address, and client libraries don't say it."""
    text = said(error, clean)
    pause = getattr(error, "retry_after", None)
    status = getattr(error, "status_code", None)
    if status == 409 and (once or keyed):
        return UnknownOutcome(text)
    match error:
        case ai.ModelConnectionError(phase="pool" | "connect"):
            code = "timeout" if isinstance(error, ai.ModelTimeoutError) else "provider_error"
            return CapabilityError(code, f"nothing was sent{f' to {server}' if server else ''}: {text}", retryable=True)
        case ai.ModelConnectionError() | ai.ModelRequestTimeout():
            return UnknownOutcome(text)
        case ai.ModelQuotaExceededError():
            return CapabilityError("rate_limited", text)
        case ai.ModelRateLimitError():
            return CapabilityError("rate_limited", text, retryable=True, retry_after=pause)
        case ai.ModelUnavailableError() if once and pause is None and not isinstance(error, ai.ModelOverloadedError):
            return UnknownOutcome(text)
        case ai.ModelUnavailableError():
            return CapabilityError("provider_error", text, retryable=True, retry_after=pause)
        case ai.ContentFilterError():
            return CapabilityError("refused", text)
        case ai.ModelAuthenticationError() | ai.ModelNotFoundError():
            return CapabilityError("provider_error", text)
        case ai.ModelRequestRejectedError() | ai.UserError():
            return CapabilityError("invalid_input", text)
        case _:
            return _by_status(status, text, pause, isinstance(error, ai.ModelServerError), once)


def answered(error: Exception) -> bool:
    """Whether an answer came, with a status of success, that can't be used: the work was done, and is paid for."""
    if isinstance(error, ai.ContentFilterError):
        return False
    if type(error) is ai.ModelAPIError:
        return isinstance(error.__cause__, ValueError)  # what came was no JSON
    return isinstance(error, ai.UnexpectedModelBehavior)


def _by_status(
    status: int | None, text: str, pause: float | None, server: bool, once: bool
) -> CapabilityError | UnknownOutcome:
    if status in UNCLEAR or (once and server):
        return UnknownOutcome(text)
    if status == 408:
        return CapabilityError("timeout", text, retryable=True, retry_after=pause)
    if status in AGAIN or server:
        return CapabilityError("provider_error", text, retryable=True, retry_after=pause)
    if status is not None and 400 <= status < 500:
        return CapabilityError("invalid_input", text)
    return CapabilityError("provider_error", text)


def said(error: Exception, clean: Callable[[str], str]) -> str:
    """Return the provider's own text in one line, without secrets, cut."""
    status = getattr(error, "status_code", None)
    found = _message(getattr(error, "body", None)) or str(error) or type(error).__name__
    text = " ".join(clean(found).split())[:MOST]
    return f"HTTP {status}: {text}"[:MOST] if status is not None else text


def _message(body: Any) -> str:
    """Providers have it as `message`, as `error.message` or as `error`."""
    if isinstance(body, dict):
        inner = body.get("error", body)
        found = inner.get("message") if isinstance(inner, dict) else inner
        return found if isinstance(found, str) else ""
    return body if isinstance(body, str) else ""
