"""What a provider hands back, made fit to be kept: nothing that it answers or raises can stop the driver.

A provider is someone else's code. It may answer what JSON can't say, go on changing what it answered, name a cost that
is no amount, or raise an error whose own text can't be read. Each of these is the outcome of one call, and no more.
"""

from __future__ import annotations

import json
from decimal import Decimal
from typing import Final

from pydantic_core import from_json

from addendum import canon
from addendum.authority.money import NANO
from addendum.canon import Json
from addendum.errors import CapabilityError, NotJson
from addendum.ports import Reply, Usage

MESSAGE: Final = 2000
"""Characters of a provider's own message that are kept."""
MOST_COST: Final = 1_000_000 * NANO
"""A report above this is taken for a mistake in the unit: the catalog's price counts."""
DIGITS: Final = 100
"""Characters of an amount of money, at most."""
MOST_TOKENS: Final = 10**12
LONGEST_PAUSE: Final = 3600.0
"""Seconds that a provider's `retry_after` can ask for."""


def text(value: object, most: int = MESSAGE) -> str:
    """Return a text that can be stored for whatever a provider gives as one; lone surrogates become `?`."""
    try:
        said = value if type(value) is str else str(value)
    except Exception:  # noqa: BLE001 - an error's own text may be broken too
        said = f"(a {type(value).__name__} without a readable text)"
    return said[:most].encode("utf-8", "replace").decode("utf-8")


def sound(value: Json) -> Json:
    """Return a JSON value with every text of it made fit to be stored."""
    copied: Json = json.loads(json.dumps(value, ensure_ascii=False).encode("utf-8", "replace"))
    return copied


def reply(answered: object) -> tuple[Reply, bytes, str]:
    """Return a reply with a value of its own and a usage that can be summed, the value's canonical bytes, and what is
    wrong with it ("" if nothing is)."""
    if not isinstance(answered, Reply):
        return Reply(None), b"null", f"it returned a {type(answered).__name__}, no Reply"
    usage = _usage(answered.usage)
    try:
        data = canon.canonical(answered.value)
        value: Json = canon.doubles(from_json(data))
    except NotJson as error:
        return Reply(None, usage), b"null", str(error)
    except Exception as error:  # noqa: BLE001 - a value that changes while it is read
        return Reply(None, usage), b"null", f"it can't be read: {text(error, 200)}"
    return Reply(value, usage), data, ""


def failure(error: CapabilityError) -> CapabilityError:
    """Return a failure whose parts are what they are declared to be."""
    said = getattr(error, "message", "")
    return CapabilityError(
        text(getattr(error, "code", "provider_error"), 200),
        text(said),
        retryable=getattr(error, "retryable", False) is True,
        cost_usd=_money(getattr(error, "cost_usd", 0)),
        retry_after=_pause(getattr(error, "retry_after", None)),
    )


def broken(error: BaseException) -> CapabilityError:
    """Return the failure of a call whose handler raised anything else."""
    return CapabilityError("provider_error", text(f"{type(error).__name__}: {text(error)}"))


def _usage(usage: object) -> Usage:
    cost, tokens = getattr(usage, "cost", None), getattr(usage, "tokens", 0)
    return Usage(
        cost=cost if type(cost) is int and 0 <= cost <= MOST_COST else None,
        tokens=tokens if type(tokens) is int and 0 <= tokens <= MOST_TOKENS else 0,
    )


def _money(amount: object) -> str | int:
    """Return what was charged for a failure, in US dollars; 0 for what is no amount, and for
    more than any call costs: an int of a million digits takes minutes to make, and no journal has a place for it."""
    if isinstance(amount, bool) or not isinstance(amount, str | int):
        return 0
    if isinstance(amount, str) and len(amount) > DIGITS:
        return 0
    try:
        charged = Decimal(amount)
    except (ArithmeticError, ValueError):
        return 0
    return amount if charged.is_finite() and 0 <= charged <= MOST_COST // NANO else 0


def _pause(seconds: object) -> float:
    if isinstance(seconds, bool) or not isinstance(seconds, int | float) or not seconds > 0:
        return 0.0
    return float(min(seconds, LONGEST_PAUSE))
