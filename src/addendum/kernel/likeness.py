"""How like two ways through a script are: what tells equal records apart when their places were moved (DESIGN 5).

An edit that wraps a block, renames a function or writes a helper otherwise moves many places at once. Each call still
comes on a way that differs from the record's only where the edit was.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace

from addendum import identity as ids
from addendum.identity import Frame, Identity
from addendum.kernel.sources import Fate, Sources, rename
from addendum.script.program import Program


def numbers(identity: Identity) -> tuple[int | str, ...]:
    """Return the branches and iterations of a path, outermost first."""
    return tuple(frame.branch for frame in identity.path if frame.branch is not None)


def in_turn(one: Identity, two: Identity) -> bool:
    """Whether two calls come one after the other: no two branches of one fan-out make them."""
    for mine, other in zip(one.strand, two.strand, strict=False):
        if mine != other:
            return (mine.position, mine.entry) != (other.position, other.entry)
    return True


def order(one: Identity, two: Identity, places: Mapping[str, int]) -> int:
    """Say which of two calls of one program comes first: below 0 the one, above 0 the other, 0 if that can't be told.

    `places` are the program's positions with their numbers in the order of the text. Calls of one function come in that
    order, iterations in theirs; two branches of a fan-out in none.
    """
    for mine, other in zip((*one.path, one.site), (*two.path, two.site), strict=False):
        if mine == other:
            continue
        if mine.position != other.position:
            if mine.position not in places or other.position not in places or _function(mine) != _function(other):
                return 0
            return places[mine.position] - places[other.position]
        if mine.entry != other.entry:
            return mine.entry - other.entry
        if mine.kind == "loop" and isinstance(mine.branch, int) and isinstance(other.branch, int):
            return mine.branch - other.branch
        return 0
    return 0


def turn(identity: Identity, places: Mapping[str, int]) -> tuple[object, ...]:
    """Return what sorts a program's calls in one order that says what `order` says, and something where that can't."""
    frames = (*identity.path, identity.site)
    return tuple(
        (
            places.get(frame.position, -1),
            frame.entry,
            isinstance(frame.branch, str),
            0 if frame.branch is None else frame.branch,
        )
        for frame in frames
    )


def unlike(there: Identity, here: Identity) -> int:
    """Say how unlike the branches and iterations of two calls are: 0 the same, 1 some are left out, 2 others.

    Where some are left out, a branch is a branch and an iteration is an iteration: the only iteration of a loop that
    was put around a fan-out isn't the first branch.
    """
    if numbers(there) == numbers(here):
        return 0
    one, two = _kinds(there), _kinds(here)
    return 1 if _within(one, two) or _within(two, one) else 2


def likeness(sources: Sources, revision: int, old: Identity, new: Identity) -> int:
    """Say how like the ways to a record (in the source of `revision`) and to a call of the candidate are.

    Frames that both have count, outermost and innermost. In between, one that only stands in another block counts less.
    """
    places = [sources.renamed(revision, position) for position in old.positions]
    there = [replace(frame, position=at) for frame, at in zip((*old.path, old.site), places, strict=True)]
    here = [*new.path, new.site]
    first = 0
    while first < min(len(there), len(here)) - 1 and there[first] == here[first]:
        # A fan-out with other branches: only a branch of the same function is the same one.
        branch = there[first].kind == "branch" and _function(there[first + 1]) == _function(here[first + 1])
        if sources.fate(revision, old.positions[first]) is Fate.CHANGED and not branch:
            break
        first += 1
    there, here = there[first:], here[first:]
    last = 0
    while last < min(len(there), len(here)) and there[-1 - last] == here[-1 - last]:
        last += 1
    between = zip(reversed(there[: len(there) - last]), reversed(here[: len(here) - last]), strict=False)
    return 4 * (first + last) + sum(1 for a, b in between if _alike(a, b))


def same_way(sources: Sources, revision: int, old: Identity, new: Identity) -> bool:
    """Whether a record's call (in the source of `revision`) was reached by the same frames as a call of the candidate,
    whatever their numbers."""
    return tuple(sources.renamed(revision, position) for position in old.positions[:-1]) == new.positions[:-1]


def along(program: Program, origin: Identity, taken: Identity, call: Identity) -> str | None:
    """Return the place where a program had a call, seen through the move of a record from `origin` to `taken`.

    What moved the record (a wrapped block, a renamed function, a helper that is written otherwise inside) moved the
    place as well, so it isn't new.
    """
    old, new, mine = origin.positions, taken.positions, call.positions
    candidates: list[Sequence[str]] = []
    if len(old) == len(new):
        names = {n.partition("/")[0]: o.partition("/")[0] for o, n in zip(old, new, strict=True)}
        candidates.append([rename(position, names) for position in mine])
    head = 0
    while head < min(len(old), len(new)) and old[head] == new[head]:
        head += 1
    tail = new[head:]
    if tail and mine[-len(tail) :] == tail:
        candidates.append((*mine[: -len(tail)], *old[head:]))
    blocks: dict[str, str] = {}
    for o, n in zip(reversed(old), reversed(new), strict=False):
        _rebase(n.split("/")[:-1], o.split("/")[:-1], blocks)
    before = [_rebased(position, blocks) for position in mine]
    # A loop that was put around has no counterpart.
    known = program.positions
    candidates.append(
        [at for at, now in zip(before, mine, strict=True) if at in known or "#" in now.rpartition("/")[2]]
    )
    return next((ids.JOIN.join(found) for found in candidates if all(at in known for at in found)), None)


def _kinds(identity: Identity) -> list[tuple[str, int | str]]:
    return [(frame.kind, frame.branch) for frame in identity.path if frame.branch is not None]


def _within(few: Sequence[object], many: Sequence[object]) -> bool:
    rest = iter(many)
    return all(number in rest for number in few)


def _function(frame: Frame) -> str:
    return frame.position.partition("/")[0]


def _alike(there: Frame, here: Frame) -> bool:
    """Whether two frames of one function differ by nothing but the block that they stand in."""
    last = (there.position.rpartition("/")[2], here.position.rpartition("/")[2])
    same = (there.entry, there.branch) == (here.entry, here.branch)
    return _function(there) == _function(here) and last[0] == last[1] and same


def _rebase(new: list[str], old: list[str], blocks: dict[str, str]) -> None:
    """Note which block a block was before, and so the blocks around it as long as they are of one name."""
    while new and old:
        blocks.setdefault("/".join(new), "/".join(old))
        if new[-1] != old[-1]:
            return
        new, old = new[:-1], old[:-1]


def _rebased(position: str, blocks: dict[str, str]) -> str:
    """Return a position in the block that its own block was before."""
    head, rest = position, ""
    while head not in blocks:
        head, slash, last = head.rpartition("/")
        if not slash:
            return position
        rest = f"/{last}{rest}"
    return blocks[head] + rest
