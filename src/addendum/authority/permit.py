"""A permit: a person's word for a counted aggregate of calls, ahead of being asked about each (DESIGN section 7).

It names a capability and a number, and is bound to exact payloads by their digests or to what a JSON Schema lets
through; beside them a sum of money and an end. Each call uses one up. There is none without a number.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any, Final

from addendum.authority.grant import narrowing
from addendum.authority.money import nano
from addendum.canon import Digest, Json, canonical, payload_digest
from addendum.errors import UsageError
from addendum.records.history import Permit as Given

MOST: Final = 1_000_000
LAST: Final = 253_402_300_799.0
"""The end of the year 9999, in seconds since 1970: no later time can be written."""


@dataclass(frozen=True, slots=True)
class Permit:
    """`count` calls of a capability: with exactly these payloads (each as often as it stands there), or any that fit
    `where`. `cost` is what they may cost at most in sum, in nano-dollars; `expires` in seconds since 1970."""

    capability: str
    count: int
    digests: Mapping[Digest, int] = field(default_factory=dict)
    where: Mapping[str, Json] | None = None
    cost: int | None = None
    expires: float | None = None

    def body(self) -> dict[str, Any]:
        """Return it as it stands in an entry."""
        found: dict[str, Any] = {"capability": self.capability, "count": self.count}
        if self.where is not None:
            found["where"] = dict(self.where)
        else:
            found["digests"] = dict(self.digests)
        if self.cost is not None:
            found["cost"] = self.cost
        if self.expires is not None:
            found["expires_ms"] = round(self.expires * 1000)
        return found


def permit(
    capability: str,
    *,
    count: int | None = None,
    payloads: Iterable[Json] = (),
    where: object = None,
    most_usd: object = None,
    expires: float | None = None,
) -> Permit:
    """Return a permit. `count` can be left out with payloads: each once. Raises `UsageError` for one without a number
    or without a word on which calls it is about, `NotJson`, `ConfigError`."""
    digests = Counter(payload_digest(canonical(payload), 1) for payload in payloads)
    if bool(digests) is (where is not None):
        raise UsageError(
            "A permit is for exact payloads, or for what a schema lets through.",
            hint="Give the payloads (--payload), or a schema (--where); {} is the schema of any payload.",
        )
    count = sum(digests.values()) if count is None else count
    if type(count) is not int or not 0 < count <= (sum(digests.values()) if where is None else MOST):
        raise UsageError(
            f"A permit for {count!r} calls is none.",
            hint=f"Write a number from 1 to {MOST:,}; with payloads at most as many as there are.",
        )
    schema = None if where is None else narrowing(where, "where")
    cost = None if most_usd is None else nano(most_usd)
    if expires is not None and (isinstance(expires, bool) or not 0 <= expires <= LAST):
        raise UsageError(
            f"A permit that ends at {expires!r} is none.", hint="Give the seconds since 1970, as `time.time()` does."
        )
    return Permit(capability, count, digests, schema, cost, expires)


def room(
    given: Given, capability: str, digest: Digest, cost: int, now: float, promised: Iterable[tuple[Digest, int]]
) -> bool:
    """Whether a permit has one left for a call that may cost so much, beside the calls (digest, cost) that it is
    `promised` to already. Its schema is another question."""
    taken, body = list(promised), given.body
    if body["capability"] != capability or given.left <= len(taken):
        return False
    if "expires_ms" in body and now * 1000 >= body["expires_ms"]:
        return False
    if given.cost is not None and given.cost < cost + sum(each for _, each in taken):
        return False
    return "where" in body or given.digests[digest] > sum(1 for each, _ in taken if each == digest)
