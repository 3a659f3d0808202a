"""Authority is a meet: a grant within a ceiling (DESIGN section 7). Pure.

What a grant asks for beyond the ceiling is a rejection, never narrowed in silence; what it doesn't mention is the
ceiling's. Free text is no input.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from addendum.authority.grant import INFLUENCE, Grant, Limit, moment
from addendum.canon import Json


@dataclass(frozen=True, slots=True)
class Outside:
    """Something that a grant asks for and the ceiling (or `who` it comes from) doesn't allow. `asked` and `allowed` in
    words."""

    what: str
    asked: str
    allowed: str
    who: str = "the ceiling"

    def __str__(self) -> str:
        """Say it in a sentence."""
        return f"The grant asks for {self.asked}; {self.who} allows {self.allowed}."

    def to_json(self) -> dict[str, Any]:
        """Return it as JSON."""
        return {"what": self.what, "asked": self.asked, "allowed": self.allowed}


def meet(asked: Grant, ceiling: Grant) -> Grant | tuple[Outside, ...]:
    """Return what holds of both, or what lies outside the ceiling."""
    found = tuple(outside(asked, ceiling))
    if found:
        return found
    capabilities = {
        name: _tightest((*limits, *ceiling.capabilities[name])) for name, limits in asked.capabilities.items()
    }
    where = {
        name: _both(asked.where.get(name), ceiling.where.get(name))
        for name in asked.capabilities
        if name in asked.where or name in ceiling.where
    }
    return replace(
        asked,
        capabilities=capabilities,
        limits=_tightest((*asked.limits, *ceiling.limits)),
        where=where,
        expires=min((at for at in (asked.expires, ceiling.expires) if at is not None), default=None),
        approvals=tuple(dict.fromkeys((*asked.approvals, *ceiling.approvals))),
        forbid_together=tuple(dict.fromkeys((*asked.forbid_together, *ceiling.forbid_together))),
        additive="refuse" if "refuse" in (asked.additive, ceiling.additive) else "allow",
        influence=min(asked.influence, ceiling.influence, key=INFLUENCE.index),
        principal=asked.principal or ceiling.principal,
    )


def outside(asked: Grant, ceiling: Grant) -> Iterator[Outside]:
    """Yield what a grant asks for beyond a ceiling."""
    for name in asked.capabilities:
        if name not in ceiling.capabilities:
            yield Outside(f"capabilities.{name}", name, "no such capability")
    above = {limit.key: limit for limit in ceiling.every}
    for limit in asked.every:
        other = above.get(limit.key)
        if other is not None and limit.most > other.most:
            yield Outside(_name(limit), str(limit), str(other))
    if asked.worst_case == "at_run_time" and ceiling.worst_case == "refuse":
        yield Outside("worst_case", "at_run_time", "refuse")
    if asked.expires is not None and ceiling.expires is not None and asked.expires > ceiling.expires:
        yield Outside("expires", moment(asked.expires), moment(ceiling.expires))
    if asked.principal and ceiling.principal and asked.principal != ceiling.principal:
        yield Outside("principal", asked.principal, ceiling.principal)


def _name(limit: Limit) -> str:
    return f"{limit.meter} of {limit.capability}" if limit.capability is not None else limit.meter


def _tightest(limits: Sequence[Limit]) -> tuple[Limit, ...]:
    found: dict[tuple[object, ...], Limit] = {}
    for limit in limits:
        other = found.get(limit.key)
        if other is None or limit.most < other.most:
            found[limit.key] = limit
    return tuple(found.values())


def _both(first: Mapping[str, Json] | None, second: Mapping[str, Json] | None) -> Mapping[str, Json]:
    if first is None or second is None or first == second:
        return first or second or {}
    return {"allOf": [dict(first), dict(second)]}
