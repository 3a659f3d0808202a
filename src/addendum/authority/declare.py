"""Declaring a capability: what a person wrote, checked when it is written (DESIGN section 7)."""

from __future__ import annotations

import math
import re
from typing import Final, cast, get_args

from addendum.authority.catalog import MAX_PAYLOAD, MAX_RESULT, Capability
from addendum.authority.money import nano
from addendum.errors import ConfigError
from addendum.records.entries import Effect

EFFECTS: Final[tuple[str, ...]] = get_args(Effect)
_NAME: Final = re.compile(r"[A-Za-z][A-Za-z0-9_-]*(\.[A-Za-z0-9_-]+)*")
_MAX_NAME: Final = 100


def declare(
    name: object,
    *,
    effect: object,
    price_usd: object = 0,
    most_usd: object = None,
    version: object = "1",
    timeout: object = 600.0,
    retries: int = 2,
    waits: bool = False,
    lookup: bool = False,
    max_payload: int = MAX_PAYLOAD,
    max_result: int = MAX_RESULT,
    about: str = "",
) -> Capability:
    """Return a capability without schemas. Money in US dollars (text, int, Decimal, or a float as it is printed), times
    in seconds, sizes in bytes. Raises `ConfigError` that says what is wrong and what can be written."""
    if not isinstance(name, str) or not _NAME.fullmatch(name) or len(name) > _MAX_NAME or name.startswith("ctx."):
        raise ConfigError(
            f"{name!r} is no name of a capability.",
            hint="Write words with dots between them, as in image.generate; ctx is the script's own.",
        )
    if effect not in EFFECTS:
        raise ConfigError(f"{name} has the effect {effect!r}.", hint=f"The classes are {', '.join(EFFECTS)}.")
    price = _money(name, "price_usd", price_usd)
    most = None if most_usd is None else _money(name, "most_usd", most_usd)
    if most is not None and most < price:
        raise ConfigError(f"{name} costs {price_usd} and at most {most_usd}.", hint="most_usd is what a call reserves.")
    if isinstance(timeout, bool) or not isinstance(timeout, int | float) or not (0 < timeout < math.inf):
        raise ConfigError(f"{name} has timeout = {timeout!r}.", hint="Write a number of seconds above 0.")
    _count(name, "retries", retries, "how often a failed call is tried again, 0 for never")
    _count(name, "max_payload", max_payload, "a number of bytes")
    _count(name, "max_result", max_result, "a number of bytes")
    if not isinstance(version, str) or not version:
        raise ConfigError(f"{name} has the version {version!r}.", hint='Write text, as in "2".')
    return Capability(
        name=name,
        effect=cast("Effect", effect),
        price=price,
        most=most,
        version=version,
        timeout=float(timeout),
        retries=retries,
        waits=waits,
        lookup=lookup,
        max_payload=max_payload,
        max_result=max_result,
        about=about,
    )


def _money(name: str, what: str, value: object) -> int:
    try:
        return nano(value)
    except ConfigError as error:
        raise ConfigError(f"{name} has the {what} {value!r}: {error.message}", hint=error.hint) from None


def _count(name: str, what: str, value: object, hint: str) -> None:
    if isinstance(value, bool) or not isinstance(value, int) or value < 0:
        raise ConfigError(f"{name} has {what} = {value!r}.", hint=f"Write {hint}.")
