"""What speaks against a grant as a whole, before anything runs: combinations, and channels without a bound."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, Final

from addendum.authority.catalog import Capability, Catalog
from addendum.authority.grant import DISTINCT, Grant
from addendum.authority.saturation import domain_size


@dataclass(frozen=True, slots=True)
class Objection:
    """One reason. `code` is stable; `names` are the capabilities that it is about."""

    code: str
    message: str
    hint: str
    names: tuple[str, ...] = ()

    def __str__(self) -> str:
        """Say it."""
        return self.message

    def to_json(self) -> dict[str, Any]:
        """Return it as JSON."""
        return {"code": self.code, "message": self.message, "hint": self.hint, "capabilities": list(self.names)}


COUNTED: Final = ("calls", "cost_usd", "bytes_out")
"""Meters that bound a channel when they are limited per run or for a lifetime."""


def objections(grant: Grant, catalog: Catalog) -> Iterator[Objection]:
    """Yield what a grant can't be admitted for, whatever the script."""
    granted = [catalog[name] for name in grant.capabilities if name in catalog]
    for together in grant.forbid_together:
        having = {kind: [each.name for each in granted if kind in each.kinds] for kind in together}
        if all(having.values()):
            listed = "; ".join(f"{kind}: {', '.join(names)}" for kind, names in having.items())
            names = tuple(sorted({name for names in having.values() for name in names}))
            hint = "Grant them to different runs, or take the combination out of forbid_together."
            yield Objection(
                "forbid_together", f"The grant has together what it forbids together ({listed}).", hint, names
            )
    if grant.additive == "refuse":
        for capability in granted:
            if bound_of(capability, grant) is None:
                message = (
                    f"{capability.name} has no bound: no limit counts it, and nothing shows that it limits itself."
                )
                hint = "Give it a limit on calls, or a saturation claim that was probed."
                yield Objection("additive", message, hint, (capability.name,))


def bound_of(capability: Capability, grant: Grant) -> int | float | None:
    """Return how many effects a channel can have under a grant, as far as that follows from the two; None for no bound.

    Reads have none. A claim counts when there is evidence for it.
    """
    if not capability.side_effecting:
        return 0
    found: list[int | float] = []
    claim = capability.saturation
    if claim is not None and claim.evidence:
        schemas = {"allOf": [dict(capability.input), dict(grant.where.get(capability.name, {}))]}
        bound = claim.bound(domain_size(schemas, claim.domain) if claim.domain else None)
        if bound is not None:
            found.append(bound)
    for limit in grant.over(capability.name):
        if limit.per not in ("run", "lifetime"):
            continue
        if limit.meter == "calls":
            found.append(limit.most)
        elif limit.meter == "cost_usd" and capability.reserve > 0:
            found.append(int(limit.most) // capability.reserve)
        elif limit.meter == "bytes_out" or (limit.meter.startswith(DISTINCT) and capability.facts["idempotent"]):
            found.append(limit.most)
    return min(found) if found else None
