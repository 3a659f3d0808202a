"""Which run is meant, and what one may be called."""

from __future__ import annotations

from typing import Final

from addendum.errors import NotFound, UsageError
from addendum.ports import LEDGER, Store

LAST: Final = "last"
"""Stands for the newest run."""


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
    """Raise `UsageError` for what a run can't be called; an empty name stands for one that is made."""
    odd = given == LAST or given.startswith(("-", LEDGER)) or any(character.isspace() for character in given)
    if odd or not given.isprintable():
        raise UsageError(f"A run can't be named {given!r}.", hint="Leave --id out, or use letters, digits and dashes.")
