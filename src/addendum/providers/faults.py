"""What goes wrong between us and a service, as the five codes of a `CapabilityError`, or as an outcome nobody knows.

Errors of `httpx`, `openai`, `pydantic_ai` and the system are told by their names, so that none of these packages is
imported here. A status is told as RFC 9110 and the providers' manuals mean it:

| what came | read-only, idempotent | other effects |
| --- | --- | --- |
| nothing was sent (no connection) | `provider_error`, retryable | the same |
| sent, and no whole answer | not known | not known |
| 400, 404, 413, 415, 422 | `invalid_input` | the same |
| 403, 451, and any that says that a policy refused it | `refused` | the same |
| 402, an exhausted quota | `rate_limited`, not retryable: waiting doesn't help | the same |
| 408, 425 | `timeout`, retryable: it wasn't taken | the same |
| 409 | `provider_error`; with an idempotency key it is under way: not known | the same |
| 429, 529 | `rate_limited`, retryable | the same |
| 503 with a time to come back | `provider_error`, retryable: nothing was done | the same |
| any other 5xx | `provider_error`, retryable | not known |
| a redirect, 401, any other status | `provider_error` | the same |

Not known is `UnknownOutcome`: the broker makes a retryable `timeout` of it for a call without side effects, and leaves
any other unresolved. A failure that is tried again by the broker gets another idempotency key, so what may have had an
effect is never left to it: `resent` sends the same request with the same key instead.
"""

from __future__ import annotations

import asyncio
import datetime
import email.utils
import json
import math
import time
from collections.abc import Awaitable, Callable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any, Final, TypeVar

from addendum.errors import CapabilityError, UnknownOutcome

T = TypeVar("T")

CUT: Final = 500
"""Characters of a provider's own text that are kept. It is cut after redacting: half a secret is found by no search."""
LONGEST_PAUSE: Final = 60.0
"""Seconds before a request is sent again with the same key, whatever the provider asks for."""
LOOKED_AT: Final = 64 * 1024
"""Characters of a provider's text that are looked at, at all."""
_INVALID: Final = frozenset({400, 404, 405, 406, 410, 411, 413, 414, 415, 422, 431})
_REFUSED: Final = frozenset({403, 451})
_NOT_TAKEN: Final = frozenset({408, 425})
_LIMITED: Final = frozenset({429, 529})
_POLICY: Final = ("content_policy", "content_filter", "moderation", "safety_violation", "responsible_ai")
_QUOTA: Final = ("insufficient_quota", "billing_", "credit_balance", "spend_limit", "quota_exceeded", "usage_limit")
_UNSENT: Final = frozenset(
    {"ConnectError", "ConnectTimeout", "PoolTimeout", "ProxyError", "UnsupportedProtocol", "LocalProtocolError"}
)
_SENT: Final = frozenset({"RequestError", "StreamError"})
"""Everything else that a transport raises: reading, writing, unpacking what came. The first match counts."""
_LIBRARIES: Final = ("httpx", "httpx2", "httpcore", "httpcore2", "openai", "pydantic_ai")


class UnderWay(UnknownOutcome):
    """The provider is still at work on a request with the same idempotency key. `retry_after` in seconds, or None."""

    def __init__(self, message: str, retry_after: float | None = None) -> None:
        super().__init__(message)
        self.retry_after = retry_after


@dataclass(frozen=True, slots=True, kw_only=True)
class Answer:
    """An answer that isn't what was asked for: status, headers, and its body as text."""

    status: int
    headers: Mapping[str, str] = field(default_factory=dict)
    text: str = ""


def shown(text: str) -> str:
    """Return a provider's text as one line that controls no terminal, cut to `CUT` characters."""
    line = " ".join("".join(letter if letter.isprintable() else " " for letter in text[:LOOKED_AT]).split())
    return line if len(line) <= CUT else line[: CUT - 1] + "…"


def retry_after(headers: Mapping[str, str], now: float | None = None) -> float | None:
    """Return the pause that headers ask for, in seconds: `retry-after-ms`, or `Retry-After` in seconds or as a date
    (RFC 9110, 10.2.3). None when they say nothing that can be read. `now` is seconds since 1970."""
    named = {name.lower(): value for name, value in headers.items()}
    for name, scale in (("retry-after-ms", 1000.0), ("retry-after", 1.0)):
        try:
            seconds = float(named[name]) / scale
        except (KeyError, ValueError):
            continue
        if 0 <= seconds < math.inf:
            return seconds
    try:
        at = email.utils.parsedate_to_datetime(named["retry-after"])
        # A date in asctime's form has no zone, and means UTC.
        when = (at if at.tzinfo is not None else at.replace(tzinfo=datetime.UTC)).timestamp()
    except (KeyError, ValueError, TypeError, OverflowError, OSError):
        return None
    return max(0.0, when - (time.time() if now is None else now))


def refusal(
    answer: Answer, *, side_effecting: bool, keyed: bool = False, now: float | None = None
) -> CapabilityError | UnknownOutcome:
    """Return what an answer that is no success means. `side_effecting`: as its capability is; `keyed`: it was sent with
    an idempotency key that the provider honours."""
    code, text = _told(answer.text)
    pause = retry_after(answer.headers, now)
    message = f"{answer.status}: {text}" if text else f"it answered {answer.status}"
    status = answer.status
    if status == 402 or (status < 500 and any(word in code for word in _QUOTA)):
        return CapabilityError("rate_limited", message)
    if status in _LIMITED:
        return CapabilityError("rate_limited", message, True, retry_after=pause)
    if status in _REFUSED or (status < 500 and any(word in code for word in _POLICY)):
        return CapabilityError("refused", message)
    if status in _INVALID:
        return CapabilityError("invalid_input", message)
    if status in _NOT_TAKEN:
        return CapabilityError("timeout", message, True, retry_after=pause)
    if status == 409 and keyed:
        return UnderWay(f"a request with the same key is under way ({message})", pause)
    if status == 503 and pause is not None:
        return CapabilityError("provider_error", message, True, retry_after=pause)
    if status >= 500:
        if side_effecting:
            return UnknownOutcome(f"it failed, and may have done it all the same ({message})")
        return CapabilityError("provider_error", message, True, retry_after=pause)
    return CapabilityError("provider_error", message)


def fault(error: BaseException, *, side_effecting: bool, keyed: bool = False) -> CapabilityError | UnknownOutcome:
    """Return what an exception of a client means; see the table above. Raise it `from None`: the original may hold a
    request with its headers."""
    if isinstance(error, CapabilityError | UnknownOutcome):
        return error
    answer = _answer(error)
    if answer is not None and answer.status >= 300:
        return refusal(answer, side_effecting=side_effecting, keyed=keyed)
    for each in _chain(error):
        names = _names(each)
        if names & _UNSENT or isinstance(each, ConnectionRefusedError) or _phase(each) in ("pool", "connect"):
            return CapabilityError("provider_error", f"it can't be reached, nothing was sent ({_text(each)})", True)
        if names & _SENT or _phase(each) in ("write", "read"):
            return UnknownOutcome(f"the connection ended without an answer ({_text(each)})")
        if names & {"ContentFilterError", "ContentFilterFinishReasonError"}:
            return CapabilityError("refused", _text(each))
        if names & {"OutputTokenLimitExceeded", "LengthFinishReasonError"}:
            return CapabilityError("provider_error", f"the answer was cut off at its limit of tokens ({_text(each)})")
    if _timed_out(error):
        return UnknownOutcome(f"no answer in time ({_text(error)})")
    if isinstance(error, ConnectionError) or {"APIConnectionError", "ModelConnectionError"} & _names(error):
        return UnknownOutcome(f"the connection ended without an answer ({_text(error)})")
    return CapabilityError("provider_error", _text(error))


async def resent(send: Callable[[], Awaitable[T]], *, most: int, pause: float = 0.5) -> T:
    """Await `send()`, and again with the same idempotency key while nobody knows what became of it, `most` times beyond
    the first; `pause` is in seconds. Only for a provider that honours the key.

    A failure that follows a lost answer says nothing of what was lost: a connection that is refused now may have been
    one that did the work before. So it is no end, unless it says what the work cost. Raises what `send` raises, and the
    last `UnknownOutcome` once an answer was lost.
    """
    lost: UnknownOutcome | None = None
    for tried in range(most + 1):
        wait = pause * 2**tried
        try:
            return await send()
        except UnknownOutcome as unknown:
            lost = unknown
            if isinstance(unknown, UnderWay) and unknown.retry_after is not None:
                wait = unknown.retry_after
        except CapabilityError as failed:
            if lost is None or failed.cost_usd:
                raise
            lost = UnknownOutcome(f"{lost}; asked again: {failed.message}")
            wait = max(wait, failed.retry_after or 0.0)
        if tried < most:
            await asyncio.sleep(min(wait, LONGEST_PAUSE))
    assert lost is not None
    raise lost


def _answer(error: BaseException) -> Answer | None:
    """Return the answer that an exception is about, None if it is about none."""
    response: Any = getattr(error, "response", None)
    status = getattr(error, "status_code", None)
    if status is None:
        status = getattr(response, "status_code", None)
    if not isinstance(status, int):
        return None
    headers: Any = getattr(error, "headers", None) or getattr(response, "headers", None) or {}
    body = getattr(error, "body", None)
    if body is None and response is not None:
        try:
            body = response.text
        except Exception:  # noqa: BLE001 - a body that was never read has no text
            body = ""
    text = body if isinstance(body, str) else json.dumps(body, default=str) if body is not None else ""
    return Answer(status=status, headers={str(k): str(v) for k, v in dict(headers).items()}, text=text)


def _told(text: str) -> tuple[str, str]:
    """Return an answer's error code and text, as the usual forms of APIs have them: `error.message`, `message`,
    `detail` (RFC 9457), or the text itself."""
    try:
        found: Any = json.loads(text[: 4 * LOOKED_AT])
    except (ValueError, RecursionError):
        return "", text
    if not isinstance(found, dict):
        return "", text
    inner = found["error"] if isinstance(found.get("error"), dict) else found
    code = " ".join(str(inner[key]) for key in ("code", "type") if isinstance(inner.get(key), str))
    for key in ("message", "detail", "error", "title"):
        if isinstance(inner.get(key), str) and inner[key]:
            return code.lower(), inner[key]
    return code.lower(), text


def _chain(error: BaseException) -> Iterator[BaseException]:
    """Yield an exception and its causes: a client wraps the one that says where it broke."""
    seen: set[int] = set()
    found: BaseException | None = error
    while found is not None and id(found) not in seen:
        seen.add(id(found))
        yield found
        found = found.__cause__


def _names(error: BaseException) -> set[str]:
    """Return the names of an exception's classes that a known client library defines."""
    return {kind.__name__ for kind in type(error).__mro__ if kind.__module__.partition(".")[0] in _LIBRARIES}


def _phase(error: BaseException) -> str:
    return str(getattr(error, "phase", "")) if "ModelConnectionError" in _names(error) else ""


def _timed_out(error: BaseException) -> bool:
    return isinstance(error, TimeoutError) or bool({"APITimeoutError", "ModelRequestTimeout"} & _names(error))


def _text(error: BaseException) -> str:
    said = str(getattr(error, "message", "") or error)[:LOOKED_AT]
    return f"{type(error).__name__}: {said}" if said else type(error).__name__
