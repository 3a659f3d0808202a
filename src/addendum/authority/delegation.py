"""Delegation transfers: a child's grant comes out of its parent's, and what it didn't use goes back (DESIGN section 7).

Arithmetic only; `addendum.runs.delegate` writes it down. A child can't have what its parent hasn't, on any meter that
the parent limits: the child's share is taken out of the parent at once, whatever the child does with it, so that the
sum over all children and the parent's own use is never above the parent's limits. Narrowing only: capabilities,
payloads, end and rules are within the parent's.

Limits per call hold for each child as they are, and limits of a principal are counted in its common accounts: neither
is shared out. A share of a window is free again one window after the child's end.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from typing import Any

from addendum.authority.book import ENTRIES, counts, used
from addendum.authority.ceiling import Outside, meet
from addendum.authority.grant import Grant, Limit, from_json, of_whole
from addendum.errors import ConfigError
from addendum.records.history import History, Totals

WHO = "the parent"
_SCALE = {"seconds": 1_000_000, "script_seconds": 1_000_000}
"""Times are kept as whole microseconds."""


@dataclass(frozen=True, slots=True)
class Used:
    """What a run and all its children used up: by capability; different values at a pointer, or the most of one value,
    by capability and meter; and by the meters of a run as a whole. What is held for calls without an end counts as
    used."""

    totals: Mapping[str, Totals] = field(default_factory=dict)
    distinct: Mapping[tuple[str, str], int] = field(default_factory=dict)
    whole: Mapping[str, int | float] = field(default_factory=dict)

    def of(self, limit: Limit, agents: Collection[str]) -> int | float:
        """Return how much of a limit that is."""
        names = self.totals if limit.capability is None else {limit.capability} & set(self.totals)
        if counts(limit):
            return self.distinct.get((limit.capability or "", pointed(limit)), 0)
        if of_whole(limit):
            return self.whole.get(limit.meter, 0)
        if limit.meter == "in_flight":
            return 0
        return sum(used(limit.meter, name, self.totals[name], agents) for name in names)

    def to_json(self) -> dict[str, Any]:
        """Return it as it stands in an entry; without floats."""
        distinct: dict[str, dict[str, int]] = {}
        for (name, meter), count in sorted(self.distinct.items()):
            distinct.setdefault(name, {})[meter] = count
        return {
            "totals": {
                name: {
                    "calls": each.calls,
                    "cost": each.cost,
                    "tokens": each.tokens,
                    "bytes_out": each.bytes_out,
                    "bytes_in": each.bytes_in,
                    "micros": math.ceil(each.seconds * 1_000_000),
                }
                for name, each in sorted(self.totals.items())
            },
            "distinct": distinct,
            "whole": {meter: math.ceil(amount * _SCALE.get(meter, 1)) for meter, amount in sorted(self.whole.items())},
        }


def used_from(body: Mapping[str, Any]) -> Used:
    """Read what a run used up from an entry."""
    return Used(
        {
            name: Totals(
                calls=each["calls"],
                cost=each["cost"],
                tokens=each["tokens"],
                bytes_out=each["bytes_out"],
                bytes_in=each["bytes_in"],
                seconds=each["micros"] / 1_000_000,
            )
            for name, each in body["totals"].items()
        },
        {(name, meter): count for name, each in body["distinct"].items() for meter, count in each.items()},
        {meter: amount / _SCALE.get(meter, 1) for meter, amount in body["whole"].items()},
    )


def pointed(limit: Limit) -> str:
    """Return the name under which the sum of a limit that looks at values is kept."""
    return f"{limit.meter} {counts(limit)}" if limit.by else limit.meter


@dataclass(frozen=True, slots=True)
class Child:
    """A run that got its grant out of another one's, at a time. `used` is None as long as it has it, and then what it
    used, `at` the time when the rest came back."""

    run: str
    grant: Grant
    at: float
    used: Used | None = None

    @property
    def living(self) -> bool:
        """Whether it has its share."""
        return self.used is None

    def of(self, limit: Limit, agents: Collection[str], now: float) -> int | float:
        """Return how much of a parent's limit is gone for it, without bound (inf) where its grant says none."""
        windowed = isinstance(limit.per, float)
        if self.used is None or (windowed and now < self.at + float(limit.per)):
            found = share(self.grant, limit)
            return math.inf if found is None else found
        return 0 if windowed else self.used.of(limit, agents)


def children(history: History) -> tuple[Child, ...]:
    """Return the children of a run."""
    found = []
    for run, (given, back) in history.children.items():
        at = (given if back is None else back)["at_ms"] / 1000
        found.append(Child(run, from_json(given["grant"]), at, None if back is None else used_from(back)))
    return tuple(found)


def gone(found: Iterable[Child], limit: Limit, agents: Collection[str], now: float) -> tuple[int | float, int | float]:
    """Return how much of a limit children that ended have used, and how much those that live have been given."""
    ended: int | float = 0
    given: int | float = 0
    if not shared(limit):
        return 0, 0
    for child in found:
        amount = child.of(limit, agents, now)
        if child.living:
            given += amount
        else:
            ended += amount
    return ended, given


def shared(limit: Limit) -> bool:
    """Whether a limit is shared out among children."""
    return limit.per != "call" and not limit.principal


def share_out(parent: Grant, asked: Grant, left: Callable[[Limit], int | float]) -> Grant | tuple[Outside, ...]:
    """Return the grant that a child gets out of its parent's, or what it asks for beyond what is `left`.

    A total that the parent limits has to be said by the child: what isn't limited would be all of it. Raises
    `ConfigError` for a limit that is no amount.
    """
    sound(asked)
    narrowed = meet(asked, parent)
    if isinstance(narrowed, tuple):
        return tuple(replace(each, who=WHO) for each in narrowed)
    found = tuple(_beyond(parent, asked, left))
    return found or _within(narrowed, asked)


def sound(grant: Grant) -> None:
    """Raise `ConfigError` for a limit that is no amount: one that was made and not read, negative or not a number."""
    for limit in grant.every:
        most: object = limit.most
        if isinstance(most, bool) or not isinstance(most, int | float) or not 0 <= most < math.inf:
            raise ConfigError(
                f"The grant has the limit {limit.meter} <= {most!r}.", hint="Write a number that is not negative."
            )


def _beyond(parent: Grant, asked: Grant, left: Callable[[Limit], int | float]) -> Iterator[Outside]:
    for limit in parent.every:
        if not shared(limit) or (limit.capability is not None and limit.capability not in asked.capabilities):
            continue
        mine, rest = share(asked, limit), max(0, left(limit))
        allowed = f"{limit.amount(rest)} of {limit}"
        if mine is None:
            yield Outside(str(limit), f"no limit on {limit.meter}", allowed, WHO)
        elif mine > rest:
            yield Outside(str(limit), f"{limit.meter} {limit.amount(mine)}", allowed, WHO)


def share(asked: Grant, limit: Limit) -> int | float | None:
    """Return the most that a child can take of a parent's limit by its own grant, None for no bound."""
    if limit.meter in ("agents", "journal_records"):
        direct = _share(asked, limit)
        calls = _share(asked, replace(limit, meter="calls"))
        implied = None if calls is None else calls * (ENTRIES if limit.meter == "journal_records" else 1)
        return min((each for each in (direct, implied) if each is not None), default=None)
    return _share(asked, limit)


def _share(asked: Grant, limit: Limit) -> int | float | None:
    def fits(own: Limit) -> bool:
        return (own.meter, own.per, own.by, own.principal) == (limit.meter, limit.per, limit.by, False)

    mine = [own.most for own in asked.limits if fits(own)]
    if limit.capability is not None:
        mine += (
            [own.most for own in asked.capabilities[limit.capability] if fits(own)]
            if (limit.capability in asked.capabilities)
            else [0]
        )
        return min(mine, default=None)
    parts: list[int | float] = []
    if not of_whole(limit):  # the seconds of a whole run are another time than its providers'
        for limits in asked.capabilities.values():
            own_parts = [own.most for own in limits if fits(own)]
            if not own_parts:
                return min(mine, default=None)
            parts.append(min(own_parts))
        mine.append(sum(parts))
    return min(mine, default=None)


def _within(narrowed: Grant, asked: Grant) -> Grant:
    """Return the child's grant: its own limits, and from the parent those that hold for each child as they are."""

    def kept(limits: tuple[Limit, ...], own: tuple[Limit, ...]) -> tuple[Limit, ...]:
        return tuple(limit for limit in limits if limit in own or not shared(limit))

    return replace(
        narrowed,
        capabilities={
            name: kept(limits, asked.capabilities.get(name, ())) for name, limits in narrowed.capabilities.items()
        },
        limits=kept(narrowed.limits, asked.limits),
    )
