"""The worst case of a script against a grant, before it runs (rule R09, DESIGN sections 2 and 7).

Calls follow from the source; what one call takes at most follows from the catalog, the schemas and the grant's limits
per call. For a revision the worst case is that of *new* work: the calls that are replayed are taken out, and what was
used and is held is counted.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from typing import Any

from addendum.authority.book import ENTRIES, bounded
from addendum.authority.catalog import Capability, Catalog
from addendum.authority.grant import DISTINCT, OF_RUN, Grant, Limit
from addendum.authority.saturation import domain_size
from addendum.authority.sizes import largest


@dataclass(frozen=True, slots=True)
class Excess:
    """A limit that the worst case is above. `worst` in the limit's unit, what was used before included; None when it is
    unbounded, and then `why` says what has no bound."""

    limit: Limit
    worst: int | None
    why: str = ""

    def __str__(self) -> str:
        """Name the limit and by how much it is exceeded."""
        if self.worst is None:
            return (
                f"The limit {self.limit} can't hold: the worst case is unbounded{': ' if self.why else ''}{self.why}."
            )
        return f"The worst case is {self.limit.amount(self.worst)}, above the limit {self.limit}."

    def to_json(self) -> dict[str, Any]:
        """Return the excess as JSON; `over` is by how much."""
        return {
            "limit": str(self.limit),
            "meter": self.limit.meter,
            "capability": self.limit.capability,
            "worst": self.limit.plain(self.worst),
            "over": self.limit.plain(None if self.worst is None else self.worst - self.limit.most),
            "why": self.why,
        }


def _nothing(limit: Limit) -> int | float:
    """What a run has used before it started."""
    return 0


@dataclass(frozen=True, slots=True)
class Room:
    """A limit, what counts against it `before`, and what the worst case adds; None where that is unbounded, and then
    `why` says what has no bound. A limit that only run time decides has no worst case: `ahead` is false."""

    limit: Limit
    before: int | float
    worst: int | None = None
    why: str = ""
    ahead: bool = True

    @property
    def fits(self) -> bool:
        """Whether the worst case is within the limit, as far as it can be known ahead."""
        if not self.ahead or self.worst == 0:
            return True
        return self.worst is not None and self.worst + self.before <= self.limit.most

    def to_json(self) -> dict[str, Any]:
        """Return it as JSON; money in US dollars as text."""
        plain = self.limit.plain
        found = {"used": plain(self.before), "max": plain(self.limit.most), "fits": self.fits}
        return {**found, "worst": plain(self.worst), "why": self.why} if self.ahead else found


def rooms(
    worst_case: Mapping[str, int | None],
    catalog: Catalog,
    grant: Grant,
    used: Callable[[Limit], int | float] = _nothing,
) -> tuple[Room, ...]:
    """Hold a worst case against every limit that isn't per call."""
    found = []
    for limit in grant.every:
        if limit.per == "call":
            continue
        if limit.meter in ("in_flight", "seconds", *OF_RUN) or isinstance(limit.per, float):
            found.append(Room(limit, used(limit), ahead=False))
        else:
            worst, why = _sum(limit, _called(limit, worst_case), worst_case, catalog, grant)
            found.append(Room(limit, used(limit), worst, why))
    return tuple(found)


def excesses(
    worst_case: Mapping[str, int | None],
    catalog: Catalog,
    grant: Grant,
    used: Callable[[Limit], int | float] = _nothing,
) -> tuple[Excess, ...]:
    """Return the limits that a script's worst case is above; none if they decide at run time.

    `used` is what counts against a limit already. Windows, concurrency and time are limits at run time only.
    """
    if grant.worst_case == "at_run_time":
        return ()
    found = [excess for limit in grant.every if limit.per == "call" for excess in _each(limit, worst_case, catalog)]
    for room in rooms(worst_case, catalog, grant, used):
        if not room.fits:
            worst = None if room.worst is None else int(room.worst + room.before)
            found.append(Excess(room.limit, worst, room.why))
    return tuple(found)


def _called(limit: Limit, worst_case: Mapping[str, int | None]) -> list[str]:
    """Return the capabilities that a limit is about and that may be called."""
    names = [limit.capability] if limit.capability is not None else list(worst_case)
    return [name for name in names if worst_case.get(name, 0) != 0]


def smallest(grant: Grant, found: tuple[Excess, ...]) -> Grant | None:
    """Return the least change of a grant with which the worst case is within it; None if no number would do."""
    if any(excess.worst is None for excess in found):
        return None
    needs = {excess.limit: excess.worst or 0 for excess in found}

    def raised(limit: Limit) -> Limit:
        return replace(limit, most=needs[limit]) if limit in needs else limit

    return replace(
        grant,
        capabilities={name: tuple(map(raised, limits)) for name, limits in grant.capabilities.items()},
        limits=tuple(map(raised, grant.limits)),
    )


def _each(limit: Limit, worst_case: Mapping[str, int | None], catalog: Catalog) -> list[Excess]:
    """Return whether a call of its own is above a limit per call, as far as that is certain."""
    if limit.meter != "cost_usd":
        return []
    costs = [catalog[name].reserve for name in _called(limit, worst_case) if name in catalog]
    return [Excess(limit, max(costs))] if costs and max(costs) > limit.most else []


def _sum(
    limit: Limit, names: list[str], worst_case: Mapping[str, int | None], catalog: Catalog, grant: Grant
) -> tuple[int | None, str]:
    total = 0
    for name in names:
        calls = worst_case[name]
        if limit.meter.startswith(DISTINCT) and name in catalog:
            schemas = {"allOf": [dict(catalog[name].input), dict(grant.where.get(name, {}))]}
            targets = domain_size(schemas, limit.meter.removeprefix(DISTINCT))
            calls = targets if calls is None or (targets is not None and targets < calls) else calls
        if calls is None:
            return None, f"{name} has no bound"
        each = most(limit.meter, name, catalog, grant)
        if each is None:
            return None, f"{name} declares no maximum of {limit.meter}"
        total += calls * each
    return total, ""


def most(meter: str, name: str, catalog: Catalog, grant: Grant) -> int | None:
    """Return the most that one call may take of a meter, None when nobody says."""
    if name not in catalog:
        return 0
    capability = bounded(catalog[name], grant)
    match meter:
        case "cost_usd":
            return capability.reserve
        case "agents":
            return int(capability.agentic)
        case "tokens":
            return _tokens(capability, most("bytes_out", name, catalog, grant) or 0)
        case "journal_records":
            return ENTRIES
        case "bytes_in":
            return _least(capability.max_result, largest(capability.output))
        case "bytes_out":
            sizes = (largest(capability.input), largest(grant.where.get(name, {})), grant.per_call("bytes_out", name))
            return _least(capability.max_payload, *sizes)
        case "journal_bytes":
            parts = [most(part, name, catalog, grant) for part in ("bytes_out", "bytes_in")]
            return sum(part or 0 for part in parts)
        case _:
            return 1


def _tokens(capability: Capability, size: int) -> int | None:
    """Return the most tokens of a call: what the catalog says, or what follows where a payload has to bound them."""
    if capability.most_tokens is not None:
        return capability.most_tokens
    schema = capability.input
    properties = schema.get("properties")
    asked = properties.get("max_tokens") if isinstance(properties, Mapping) else None
    needed = schema.get("required")
    if not isinstance(asked, Mapping) or not isinstance(needed, list | tuple) or "max_tokens" not in needed:
        return None
    top = asked.get("maximum")
    return capability.tokens_in(size) + int(top) if isinstance(top, int | float) else None


def _least(first: int, *others: int | float | None) -> int:
    return int(min((first, *(other for other in others if other is not None))))


def cost(worst_case: Mapping[str, int | None], catalog: Catalog) -> int | None:
    """Return what a script costs in its worst case at catalog prices, in nano-dollars; None if it is unbounded."""
    total = 0
    for name, calls in worst_case.items():
        if calls is None:
            return None
        total += calls * (catalog[name].reserve if name in catalog else 0)
    return total


def new_work(worst_case: Mapping[str, int | None], replayed: Mapping[str, int]) -> dict[str, int | None]:
    """Return the worst case of new work: the box of a source's identities without those that are replayed.

    Each replayed call takes one identity out of the box of its capability, so no execution makes more new calls.
    """
    return {
        name: None if calls is None else max(0, calls - replayed.get(name, 0)) for name, calls in worst_case.items()
    }
