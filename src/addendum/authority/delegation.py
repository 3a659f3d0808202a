"""Delegation transfers: a child's grant comes out of its parent's, and what it didn't use goes back (DESIGN section 7).

Arithmetic only. A child can't have what the parent hasn't, on any meter that the parent limits: the child's share is
taken out of the parent at once, whatever the child does with it, so the sum over all children and the parent's own use
is never above the parent's limits. Narrowing only: capabilities, payloads, end and rules are within the parent's.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace

from addendum.authority.ceiling import Outside, meet
from addendum.authority.grant import Grant, Limit

_SHARED = ("in_flight",)
"""Meters of which a share is a share for as long as the child lives; all others are used up."""


@dataclass(slots=True)
class Purse:
    """A grant with what is left of it. `used` is the owner's own use by limit; `given` what children hold."""

    grant: Grant
    used: dict[Limit, int | float] = field(default_factory=dict)
    given: dict[str, dict[Limit, int | float]] = field(default_factory=dict)

    def left(self, limit: Limit) -> int | float:
        """Return what is left of a limit for the owner and for further children."""
        return limit.most - self.used.get(limit, 0) - sum(share.get(limit, 0) for share in self.given.values())

    def use(self, limit: Limit, amount: int | float) -> bool:
        """Use an amount of a limit, if there is room."""
        if amount > self.left(limit):
            return False
        self.used[limit] = self.used.get(limit, 0) + amount
        return True

    def delegate(self, child: str, asked: Grant) -> Purse | tuple[Outside, ...]:
        """Give a child a grant out of this one, or say what it asks for beyond what is left.

        A total that the parent limits has to be said by the child: what isn't limited would be all of it.
        """
        if child in self.given:
            return (Outside("child", f"a second grant for {child}", "one for each child"),)
        narrowed = meet(replace(asked, worst_case=self.grant.worst_case), self.grant)
        if isinstance(narrowed, tuple):
            return narrowed
        found: list[Outside] = []
        shares: dict[Limit, int | float] = {}
        for limit in self.grant.every:
            if limit.per == "call" or isinstance(limit.per, float):
                continue  # each call, and each window, is held against the parent's as well
            if limit.capability is not None and limit.capability not in asked.capabilities:
                continue
            share = _share(asked, limit)
            if share is None:
                found.append(
                    Outside(str(limit), f"no limit on {limit.meter}", f"{limit.amount(self.left(limit))} left")
                )
            elif share > self.left(limit):
                found.append(Outside(str(limit), limit.amount(share), f"{limit.amount(self.left(limit))} left"))
            else:
                shares[limit] = share
        if found:
            return tuple(found)
        self.given[child] = shares
        return Purse(_within(narrowed, asked))

    def returned(self, child: str, used: Mapping[Limit, int | float]) -> None:
        """Take a child's grant back at its end: what it used counts as used here. `used` is by this purse's limits."""
        shares = self.given.pop(child)
        for limit, share in shares.items():
            if limit.meter not in _SHARED:
                self.used[limit] = self.used.get(limit, 0) + min(share, used.get(limit, 0))


def _share(asked: Grant, limit: Limit) -> int | float | None:
    """Return the most that a child can take of a parent's limit by its own grant, None for no bound."""
    mine = [own.most for own in asked.limits if own.meter == limit.meter and own.per == limit.per]
    if limit.capability is not None:
        mine += [
            own.most for own in asked.capabilities[limit.capability] if (own.meter, own.per) == (limit.meter, limit.per)
        ]
        return min(mine) if mine else None
    parts: list[int | float] = []
    for limits in asked.capabilities.values():
        own_parts = [own.most for own in limits if (own.meter, own.per) == (limit.meter, limit.per)]
        if not own_parts:
            return min(mine) if mine else None if asked.capabilities else 0
        parts.append(min(own_parts))
    return min([sum(parts), *mine])


def _within(narrowed: Grant, asked: Grant) -> Grant:
    """Return the child's grant: its own totals, and from the parent only what is no total (it stays the parent's)."""

    def kept(limits: tuple[Limit, ...], own: tuple[Limit, ...]) -> tuple[Limit, ...]:
        return tuple(limit for limit in limits if limit in own or limit.per == "call" or isinstance(limit.per, float))

    return replace(
        narrowed,
        capabilities={
            name: kept(limits, asked.capabilities.get(name, ())) for name, limits in narrowed.capabilities.items()
        },
        limits=kept(narrowed.limits, asked.limits),
    )
