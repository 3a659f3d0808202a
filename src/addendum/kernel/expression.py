"""Expression-matched (DESIGN section 5, rule 3): new work stands before a record, so the shadow can't reach it.

The record's call is expected at the only position of the candidate, in the same function, that has the fingerprint of
the position that moved. It is a promise, not a proof: the digest is checked before anything is served.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from addendum import identity as ids
from addendum.identity import Frame, Identity
from addendum.kernel.sources import Fate, Sources
from addendum.script.program import Position, Program


def expected(sources: Sources, revision: int, identity: Identity, *, edited: bool = False) -> Identity | None:
    """Return the identity at which a record's call is expected in the candidate, None if that can't be told.

    `identity` is the record's, in the terms of the source of `revision`. The call's own may have more frames. A fan-out
    whose branch's function has another name is the one that it was. With `edited`, one with other branches counts as
    that, too: not enough to promise a call there, but to keep its results from others until it is passed.
    """
    old = sources.program(revision)
    found: list[str] = []
    carried: dict[int, Position] = {}
    for number, position in enumerate(identity.positions):
        before = old.positions.get(position)
        if sources.fate(revision, position) is Fate.SAME or (before is not None and before.kind == "loop"):
            found.append(position)  # a loop is where its calls are, see below
            continue
        renamed = sources.renamed(revision, position)
        if renamed != position and sources.at(renamed) is not None:
            found.append(renamed)
            continue
        if before is not None and before.kind == "fanout" and position in sources.candidate.positions:
            inner = identity.positions[number + 1 : number + 2]  # none for a race's own record: it is in no branch
            if inner and (edited or sources.renamed(revision, inner[0]) != inner[0]):
                found.append(position)
                continue
        twin = None if before is None else _twin(sources, revision, before)
        if twin is None and before is not None and (use := _carried(sources, revision, before)) is not None:
            twin = use[1]
            if use[0] not in carried.values():  # a fan-out takes its calls along
                carried[number] = use[0]
        if twin is None:
            return None
        found.append(twin)
    if not _looped(sources, identity, found, carried):
        return None
    frames = [replace(frame, position=at) for frame, at in zip((*identity.path, identity.site), found, strict=True)]
    for number in sorted(carried, reverse=True):
        frames.insert(number - len(sources.candidate.positions[found[number]].loops), Frame(carried[number].text))
    return Identity(_way(sources, old, identity, frames[:-1], found[-1]), frames[-1])


def _carried(sources: Sources, revision: int, before: Position) -> tuple[Position, str] | None:
    """Return where a position stands that was carried into a new function, which is used once, where the position
    stood: that use, and the position. None if that can't be told."""
    old, function = sources.program(revision), sources.renamed(revision, before.function + "/").rstrip("/")
    twins = [
        other
        for other in sources.with_fingerprint(before.fingerprint or "")
        if (other.kind, other.capability) == (before.kind, before.capability)
    ]
    others = [other for other in old.positions.values() if other.fingerprint == before.fingerprint]
    if len(twins) != 1 or len(others) != 1 or not sources.is_new(revision, twins[0].function):
        return None
    uses = sources.uses(twins[0].function)
    if len(uses) != 1 or uses[0].function != function or uses[0].handed:
        return None
    return uses[0], twins[0].text


def _looped(sources: Sources, identity: Identity, found: list[str], carried: dict[int, Position]) -> bool:
    """Let each loop's frame be that of a loop around what stands in it now, if all are there; say whether they are."""
    loops: list[int] = []
    for number, frame in enumerate((*identity.path, identity.site)):
        if frame.kind == "loop":
            loops.append(number)
            continue
        inner = sources.at(found[number])
        now = () if inner is None else inner.loops
        if number in carried:
            now = (*carried[number].loops, *now)
        gone = any(sources.at(found[loop]) is None for loop in loops)
        if (gone and len(now) < len(loops)) or (number in carried and len(now) != len(loops)):
            return False
        if gone or len(now) == len(loops):
            for loop, at in zip(loops, now[len(now) - len(loops) :], strict=True):
                found[loop] = at
        loops.clear()
    return True


def _way(sources: Sources, old: Program, identity: Identity, frames: list[Frame], site: str) -> tuple[Frame, ...]:
    """Return the frames to a site, without those of what awaited it for its function, if it is awaited where it stands
    now (`Position.handed`)."""
    before, now = old.positions.get(identity.site.position), sources.at(site)
    if before is None or now is None or now.handed or not before.handed:
        return tuple(frames)
    for number, frame in enumerate(identity.path):
        there = old.positions.get(frame.position)
        if frame.kind != "loop" and there is not None and there.function == before.function:
            return tuple(frames[:number])
    return tuple(frames)


def _twin(sources: Sources, revision: int, before: Position) -> str | None:
    """Return the only position of the candidate that a position which moved can be, None if there are several."""
    if before.fingerprint is None:
        return None
    function = sources.renamed(revision, before.function + "/").rstrip("/")
    twins = [
        other.text
        for other in sources.with_fingerprint(before.fingerprint)
        if other.kind == before.kind and other.function == function and other.capability == before.capability
    ]
    # One that the old source had as well is another call's.
    if len(twins) != 1 or sources.fate(revision, twins[0]) is Fate.SAME:
        return None
    others = [
        other
        for other in sources.program(revision).positions.values()
        if (other.fingerprint, other.kind, other.function) == (before.fingerprint, before.kind, before.function)
        and sources.fate(revision, other.text) is not Fate.SAME
    ]
    return twins[0] if len(others) == 1 else None


def reaches(call: Identity, expected: Identity, *, numbers: bool = True) -> bool:
    """Whether a call is where another is expected: the same positions and numbers, with frames in between or not.

    A loop around others takes their position, so of loops only the iterations are compared. Without `numbers`: whether
    it is in the same place.
    """
    if call.site.position != expected.site.position:
        return False
    if not numbers:
        return _within(_calls(call, False), _calls(expected, False))
    loops = [frame.branch for frame in expected.path if frame.kind == "loop"]
    mine = [frame.branch for frame in call.path if frame.kind == "loop"]
    return call.site == expected.site and _within(_calls(call, True), _calls(expected, True)) and _within(mine, loops)


def _calls(identity: Identity, numbers: bool) -> list[object]:
    return [frame if numbers else frame.position for frame in identity.path if frame.kind != "loop"]


def _within(many: Sequence[object], few: Sequence[object]) -> bool:
    rest = iter(many)
    return all(item in rest for item in few)


def declared(sources: Sources, moves: dict[str, str], place: str) -> str | None:
    """Return the place to which the revision says that a place was moved, if the candidate has it."""
    new = moves.get(place)
    if new is None or any(sources.at(position) is None for position in new.split(ids.JOIN)):
        return None
    return new
