"""Expression-matched (DESIGN section 5, rule 3): new work stands before a record, so the shadow can't reach it.

The record's call is expected at the only position of the candidate, in the same function, that has the fingerprint of
the position that moved. It is a promise, not a proof: the digest is checked before anything is served.
"""

from __future__ import annotations

from dataclasses import replace

from addendum import identity as ids
from addendum.kernel.claims import Claims
from addendum.kernel.sources import Fate
from addendum.records.history import Record


def matched(claims: Claims, record: Record) -> str | None:
    """Return the identity at which a record's call is expected in the candidate, None if that can't be told."""
    sources = claims.sources
    identity = claims.parts(record.identity or record.origin)
    if claims.relocation == "declared":
        return _declared(claims, identity.place)
    old = sources.program(record.revision)
    found: list[str] = []
    for position in identity.positions:
        if sources.fate(record.revision, position) is Fate.SAME:
            found.append(position)
            continue
        before = old.positions.get(position)
        if before is None or before.fingerprint is None:
            return None
        function = sources.renamed(record.revision, before.function + "/").rstrip("/")
        twins = [
            other.text
            for other in sources.with_fingerprint(before.fingerprint)
            if other.kind == before.kind and other.function == function and other.capability == before.capability
        ]
        if len(twins) != 1:
            return None
        found.append(twins[0])
    frames = (*identity.path, identity.site)
    there = ids.JOIN.join(str(replace(frame, position=position)) for frame, position in zip(frames, found, strict=True))
    # What the shadow has seen already isn't still to come: another record, or another payload, stands there.
    return None if there in claims.made else there


def _declared(claims: Claims, place: str) -> str | None:
    new = claims.moves.get(place)
    if new is None or any(claims.sources.at(position) is None for position in new.split(ids.JOIN)):
        return None
    return new
