"""What a slice asks for, within the policy's ceiling: paths, attempts, time, and a grant that meets the ceiling's.

A request outside is a finding, never narrowed in silence; what a request doesn't mention is the ceiling's. Pure.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace

from addendum.authority.ceiling import Outside, meet, outside
from addendum.authority.grant import Grant, Limit
from addendum.canon import Json
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
    for beyond in outside(asked.grant, ceiling.grant) if asked.grant is not None else ():
        text = f"The slice {asked.name} asks for {beyond.asked}; the policy allows {beyond.allowed}."
        yield _over(asked, text, what=beyond.what, wanted=beyond.asked, allowed=beyond.allowed)


def _over(asked: ProposedSlice, text: str, **evidence: str | float) -> Finding:
    return Finding("authority.exceeds_ceiling", asked.name, text, dict(evidence))


def grant_of(asked: Grant | None, above: Grant, capabilities: Sequence[str]) -> Grant | tuple[Outside, ...]:
    """Return the grant of a slice that needs these capabilities, or what it asks for beyond the ceiling. Its text for
    people isn't part of it."""
    own = asked or Grant(worst_case=above.worst_case)
    beyond = tuple(outside(own, above))
    if beyond:
        return beyond
    names = dict.fromkeys(name for name in capabilities if name in above.capabilities)
    found = meet(replace(own, capabilities={name: own.capabilities.get(name, ()) for name in names}, about=""), above)
    return found if not isinstance(found, Grant) else replace(found, where=_for(found, names))


def _for(grant: Grant, names: Mapping[str, object]) -> Mapping[str, Mapping[str, Json]]:
    return {name: schema for name, schema in grant.where.items() if name in names}


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
