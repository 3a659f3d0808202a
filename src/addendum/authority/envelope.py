"""The worst case of a script against a grant, before it runs (rule R09, DESIGN sections 2 and 7)."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from addendum.authority.catalog import Catalog
from addendum.authority.grant import Grant, Limit
from addendum.authority.money import usd


@dataclass(frozen=True, slots=True)
class Excess:
    """A limit that the worst case is above. `worst` in the limit's unit; None when it is unbounded."""

    limit: Limit
    worst: int | None

    def __str__(self) -> str:
        """Name the limit and by how much it is exceeded."""
        if self.worst is None:
            return f"The limit {self.limit} can't hold: the worst case is unbounded."
        worst = f"${usd(self.worst)}" if self.limit.meter == "cost_usd" else f"{self.worst}"
        return f"The worst case is {worst}, above the limit {self.limit}."

    def to_json(self) -> dict[str, Any]:
        """Return the excess as JSON."""
        worst: Any = self.worst
        if self.worst is not None and self.limit.meter == "cost_usd":
            worst = usd(self.worst)
        return {
            "limit": str(self.limit),
            "meter": self.limit.meter,
            "capability": self.limit.capability,
            "worst": worst,
        }


def excesses(worst_case: Mapping[str, int | None], catalog: Catalog, grant: Grant) -> tuple[Excess, ...]:
    """Return the limits on calls and cost that a script's worst case is above; none if they decide at run time."""
    if grant.worst_case == "at_run_time":
        return ()
    found = []
    limits = [limit for own in grant.capabilities.values() for limit in own] + list(grant.limits)
    for limit in limits:
        if limit.per != "run" or limit.meter not in ("calls", "cost_usd"):
            continue
        names = [limit.capability] if limit.capability is not None else list(worst_case)
        worst = _sum(limit, [name for name in names if worst_case.get(name, 0) != 0], worst_case, catalog)
        if worst is None or worst > limit.most:
            found.append(Excess(limit, worst))
    return tuple(found)


def _sum(limit: Limit, names: list[str], worst_case: Mapping[str, int | None], catalog: Catalog) -> int | None:
    total = 0
    for name in names:
        calls = worst_case[name]
        if calls is None:
            return None
        each = 1 if limit.meter == "calls" else catalog[name].reserve if name in catalog else 0
        total += calls * each
    return total


def cost(worst_case: Mapping[str, int | None], catalog: Catalog) -> int | None:
    """Return what a script costs in its worst case at catalog prices, in nano-dollars; None if it is unbounded."""
    total = 0
    for name, calls in worst_case.items():
        if calls is None:
            return None
        total += calls * (catalog[name].reserve if name in catalog else 0)
    return total
