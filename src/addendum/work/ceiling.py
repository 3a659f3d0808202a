"""Authority is a meet: what is asked for, within what the operator allows. Pure.

A request outside the ceiling is a finding, never narrowed in silence; what a request doesn't mention is the ceiling's.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from addendum.authority.grant import Grant, Limit
from addendum.work.codes import Finding
from addendum.work.paths import exceeding, pattern_fault
from addendum.work.proposal import Ceiling, ProposedSlice


def excesses(asked: ProposedSlice, ceiling: Ceiling) -> Iterator[Finding]:
    """Yield what a slice asks for beyond the ceiling."""
    for patterns in asked.edits.values():
        for pattern in patterns:
            wrong = pattern_fault(pattern)
            if wrong is not None:
                yield Finding(wrong[0], asked.name, f"The slice {asked.name} asks for {pattern!r}: {wrong[1]}.")
    for verb, pattern in exceeding(asked.edits, ceiling.scope.edits):
        text = f"The slice {asked.name} asks to {verb} {pattern}, which the policy doesn't allow."
        yield _over(asked, text, verb=verb, path=pattern)
    if asked.attempts > ceiling.attempts:
        text = f"The slice {asked.name} asks for {asked.attempts} attempts; the policy allows {ceiling.attempts}."
        yield _over(asked, text, attempts=asked.attempts)
    if asked.seconds > ceiling.seconds:
        text = f"The slice {asked.name} asks for {asked.seconds:g} s; the policy allows {ceiling.seconds:g} s."
        yield _over(asked, text, seconds=asked.seconds)
    if asked.grant is not None:
        yield from _grant_excesses(asked, asked.grant, ceiling.grant)


def _over(asked: ProposedSlice, text: str, **evidence: str | float) -> Finding:
    return Finding("authority.exceeds_ceiling", asked.name, text, dict(evidence))


def _grant_excesses(asked: ProposedSlice, grant: Grant, ceiling: Grant) -> Iterator[Finding]:
    for name, limits in grant.capabilities.items():
        if name not in ceiling.capabilities:
            yield _over(
                asked, f"The slice {asked.name} asks to call {name}, which the policy doesn't allow.", name=name
            )
            continue
        yield from _limit_excesses(asked, limits, ceiling.capabilities[name])
    yield from _limit_excesses(asked, grant.limits, ceiling.limits)
    if grant.worst_case == "at_run_time" and ceiling.worst_case == "refuse":
        yield _over(asked, f"The slice {asked.name} asks that its worst case isn't looked at.", name="worst_case")


def _limit_excesses(asked: ProposedSlice, limits: Sequence[Limit], above: Sequence[Limit]) -> Iterator[Finding]:
    for limit in limits:
        for other in above:
            if (limit.meter, limit.per) == (other.meter, other.per) and limit.most > other.most:
                yield _over(
                    asked, f"The slice {asked.name} asks for {limit}; the policy allows {other}.", limit=str(limit)
                )


def meet(asked: Grant | None, ceiling: Grant, capabilities: Sequence[str]) -> Grant:
    """Return the grant of a slice that needs these capabilities: its own limits and the ceiling's."""
    own = asked or Grant()
    found: dict[str, tuple[Limit, ...]] = {}
    for name in capabilities:
        found[name] = _together(own.capabilities.get(name, ()), ceiling.capabilities.get(name, ()))
    worst = ceiling.worst_case if asked is None else asked.worst_case
    return Grant(found, _together(own.limits, ceiling.limits), worst)


def _together(first: Sequence[Limit], second: Sequence[Limit]) -> tuple[Limit, ...]:
    """Return the tighter limit of each meter and period."""
    found: dict[tuple[str, str | float], Limit] = {}
    for limit in (*first, *second):
        key = (limit.meter, limit.per)
        if key not in found or limit.most < found[key].most:
            found[key] = limit
    return tuple(found[key] for key in sorted(found, key=str))


def overdrawn(grants: Sequence[tuple[str, Grant]], total: Sequence[Limit]) -> Iterator[Finding]:
    """Yield each limit of all slices together that their own limits add up to more than: delegation transfers."""
    for limit in total:
        if limit.per != "run":
            continue
        summed: float = 0
        for name, grant in grants:
            share = _share(grant, limit)
            if share is None:
                text = f"The slice {name} has no limit on {limit.meter}, and all slices together have {limit.most:g}."
                yield Finding("authority.delegation_exceeds_parent", name, text, {"meter": limit.meter})
                return
            summed += share
        if summed > limit.most:
            text = f"The slices' limits on {limit.meter} add up to {summed:g}; together they have {limit.most:g}."
            yield Finding("authority.delegation_exceeds_parent", "the plan", text, {"meter": limit.meter})


def _share(grant: Grant, limit: Limit) -> float | None:
    if not grant.capabilities:
        return 0
    for own in grant.limits:
        if (own.meter, own.per) == (limit.meter, limit.per):
            return own.most
    shares: list[float] = []
    for limits in grant.capabilities.values():
        most = [own.most for own in limits if (own.meter, own.per) == (limit.meter, limit.per)]
        if not most:
            return None
        shares.append(min(most))
    return sum(shares)
