"""Claims that exclude each other, seen once more calls were made (DESIGN section 5, rule 4a).

Equal calls whose numbers shift when one of them moves take each other's records by rules 1 and 2, and nothing is left
over. What was served can't be taken back, so such claims stop a plan, and behind its frontier a run: before anything
more is sent, and before it is completed.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final, TypeAlias

from addendum.identity import Identity
from addendum.kernel.calls import Call
from addendum.kernel.claims import Ambiguous, Claims
from addendum.kernel.equals import EqualKey
from addendum.kernel.likeness import in_turn, order, turn
from addendum.kernel.sources import Fate, written_alike
from addendum.records.history import Record

CROSSED: Final = 100
"""How many equal records after one are compared with it: enough for any script that a person wrote."""

Pair: TypeAlias = tuple[Record, Call]


def exchanged(claims: Claims, keys: Iterable[EqualKey] | None = None) -> list[Ambiguous]:
    """Return the equal calls that may have taken each other's records, one of them moved. `keys`: only those."""
    found: list[Ambiguous] = []
    for key in list(claims.moved_calls) if keys is None else keys:
        moved = [record for record in claims.moved_calls.get(key, ()) if record.ok and not claims.given_up(record)]
        if not moved or moved[0].is_read:
            continue
        pairs = [
            (r, claims.claimed[r.seq]) for r in claims.equals(key) if r.seq in claims.claimed and _earlier(claims, r)
        ]
        found.extend(_kept(claims, pairs, moved))
        found.extend(_rewritten(claims, pairs, moved))
        found.extend(_mingled(claims, pairs))
        found.extend(_crossed(claims, pairs))
    return found


def _earlier(claims: Claims, record: Record) -> bool:
    """Whether a record is a result from before the candidate, that nobody gave up."""
    return record.ok and (not claims.revision or record.source != claims.revision) and not claims.given_up(record)


def _kept(claims: Claims, pairs: list[Pair], moved: list[Record]) -> list[Ambiguous]:
    """A call that kept its identity though it is written otherwise, while an equal record was moved."""
    found: list[Ambiguous] = []
    for record, call in pairs:
        identity, revision = claims.stood(record)
        if identity != call.identity or not _otherwise(claims, revision, call):
            continue
        others = [other for other in moved if claims.claimed[other.seq].place != call.place]
        if others:
            found.append(Ambiguous("a", call, (record, *others)))
    return found


def _otherwise(claims: Claims, revision: int, call: Call) -> bool:
    """Whether a call or a use on the way is written otherwise; a fan-out with other branches is the same one."""
    return any(
        claims.sources.fate(revision, position) is Fate.CHANGED
        and (now := claims.sources.at(position)) is not None
        and now.kind != "fanout"
        for position in call.parts.positions
    )


def _rewritten(claims: Claims, pairs: list[Pair], moved: list[Record]) -> list[Ambiguous]:
    """A record left its block though new work stands where it stood, while an equal one is in use.

    Either its call was moved and another one put in its place, or it asks for something else now and an equal one was
    put in, which shifted the others' numbers.
    """
    if len(pairs) < 2:
        return []
    found: list[Ambiguous] = []
    known: set[str] | None = None
    for record in moved:
        identity, _ = claims.stood(record)
        asked = claims.made.get(identity) if identity is not None else None
        if identity is None or asked is None or asked == record.call:
            continue
        call = claims.claimed[record.seq]
        if _block(claims.parts(identity)) == _block(call.parts):
            continue
        known = _old(claims) if known is None else known
        others = [other for other, at in pairs if other is not record and at.place != call.place]
        if identity not in known and others:
            found.append(Ambiguous("a", call, (record, *others)))
    return found


def _block(identity: Identity) -> tuple[str, ...]:
    *path, site = identity.positions
    return (*path, site.rpartition("#")[0])


def _old(claims: Claims) -> set[str]:
    """Return the identities that have claimed what was there before the candidate."""
    records = claims.sources.history.records
    return {call.identity for seq, call in claims.claimed.items() if seq in records and _earlier(claims, records[seq])}


def _mingled(claims: Claims, pairs: list[Pair]) -> list[Ambiguous]:
    """Records of one place that are at two now, one of which has another place's, too: fan-outs that changed places
    look like branches that went from one to the other. What is where it was paid for says nothing."""
    went: dict[str, dict[str, Pair]] = {}
    came: dict[str, dict[str, Pair]] = {}
    for record, call in pairs:
        place = _stood(claims, record).place
        if claims.parts(record.origin).place == call.place:
            continue  # it is at home
        went.setdefault(place, {}).setdefault(call.place, (record, call))
        came.setdefault(call.place, {}).setdefault(place, (record, call))
    found: list[Ambiguous] = []
    for here, places in came.items():
        split = next((place for place in places if len(went[place]) > 1), None)
        if split is None or len(places) < 2:
            continue
        record, call = places[split]
        others = [other for place, (other, _) in places.items() if place != split]
        others += [other for place, (other, _) in went[split].items() if place != here]
        found.append(Ambiguous("a", call, (record, *others)))
    return found


def _crossed(claims: Claims, pairs: list[Pair]) -> list[Ambiguous]:
    """Two calls that come one after the other in another order than the records they took."""
    pairs = sorted(pairs, key=lambda pair: pair[0].attempt or pair[0].seq)
    places = [(_stood(claims, record).place, call.place) for record, call in pairs]
    if len(set(places)) < 2:
        return []
    calls = _in_place(claims, [call for _, call in pairs], places)
    found: list[Ambiguous] = []
    for first in range(len(pairs)):
        for second in range(first + 1, min(len(pairs), first + CROSSED)):
            if places[first] == places[second]:
                continue
            was = _before(claims, pairs[first][0], pairs[second][0])
            if not was or was * _comes(claims, calls[first], calls[second]) >= 0:
                continue
            # Behind new work, where both stand where rule 3 expects them, their wording says which is which.
            if not (claims.beyond and claims.foreseen(*pairs[first]) and claims.foreseen(*pairs[second])):
                found.append(Ambiguous("a", pairs[first][1], (pairs[first][0], pairs[second][0])))
    return found


def _in_place(claims: Claims, calls: list[Call], places: list[tuple[str, str]]) -> list[Call]:
    """Those of one place are interchangeable: whichever order they have among themselves says nothing."""
    groups: dict[tuple[str, str], list[Call]] = {}
    for place, call in zip(places, calls, strict=True):
        groups.setdefault(place, []).append(call)
    known = claims.sources.order(claims.sources.candidate)
    rest = {place: iter(sorted(group, key=lambda call: turn(call.parts, known))) for place, group in groups.items()}
    return [next(rest[place]) for place in places]


def _stood(claims: Claims, record: Record) -> Identity:
    return claims.parts(claims.stood(record)[0] or record.origin)


def _before(claims: Claims, one: Record, two: Record) -> int:
    """Which of two records' calls came first: below 0 the one, 0 if it can't be told.

    They are compared in the text of the later source, if both stood there. Else, of one source, the order in which they
    were sent says it.
    """
    revisions = [claims.stood(record)[1] if claims.stood(record)[0] else record.source for record in (one, two)]
    program = claims.sources.program(max(revisions))
    there = (_stood(claims, one), _stood(claims, two))
    own = [claims.sources.program(revision).positions for revision in revisions]
    if all(written_alike(at.positions, old, program) for at, old in zip(there, own, strict=True)):
        found = order(*there, claims.sources.order(program))
        if found:
            return found
    return -1 if one.source == two.source and in_turn(*there) else 0


def _comes(claims: Claims, one: Call, two: Call) -> int:
    """Which of two calls comes first."""
    return order(one.parts, two.parts, claims.sources.order(claims.sources.candidate))
