"""Which run is meant, and what one may be called."""

from __future__ import annotations

from typing import Final

from addendum.errors import NotFound, UsageError
from addendum.ports import Store

LAST: Final = "last"
"""Stands for the newest run."""
LONGEST: Final = 100
"""Characters of a run's name."""
MARKS: Final = "-_."
"""What may stand in a run's name beside letters and digits."""


def resolve(store: Store, given: str) -> str:
    """Return the run that was meant: by name, an unambiguous beginning, or `last`. Raises `NotFound`, `UsageError`."""
    runs = [header.run for header in store.runs()]
    if given in runs:
        return given
    if not runs:
        raise NotFound("There is no run in this store.", hint="Start one with `addendum run SCRIPT`.", run=given)
    if given == LAST:
        return runs[-1]
    found = [run for run in runs if given and run.startswith(given)]
    if len(found) == 1:
        return found[0]
    if found:
        shown = ", ".join(found[-3:])
        raise UsageError(
            f"{given!r} is the beginning of {len(found)} runs ({shown}).", hint="Write more of it.", runs=found[-20:]
        )
    raise NotFound(f"There is no run {given!r} in this store.", hint="`addendum runs` lists them.", run=given)


def check(given: str) -> None:
    """Raise `UsageError` for what a new run can't be called: a name stands in commands, addresses and file names. An
    empty one stands for one that is made. Runs that are there already keep theirs."""
    if not given:
        return
    plain = all(character.isalnum() or character in MARKS for character in given)
    if given == LAST or not plain or not given[0].isalnum() or len(given) > LONGEST:
        raise UsageError(
            f"A run can't be named {given[:LONGEST]!r}.",
            hint=f"Leave it out, or use letters, digits, dashes, dots and underscores: {LONGEST} at most, the first "
            f"one a letter or digit, and not {LAST!r}.",
        )
