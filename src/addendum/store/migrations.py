"""How a database gets its tables: numbered scripts, applied in order, each once and all of them or none."""

from __future__ import annotations

from typing import Final

from addendum.errors import StoreUnavailable

MIGRATIONS: Final = ("0001_journal", "0002_keys")
"""The names of all migrations in order; the version of a database is how many of them it has. A script that was
released is never edited: a change is a new one, and `schema.sql` is brought up to date with it."""

NEWEST: Final = len(MIGRATIONS)


def missing(version: int, where: str) -> tuple[tuple[int, str], ...]:
    """Return the number and name of each migration that a database of this version lacks.

    Raises `StoreUnavailable` for a database that a newer program wrote: an older one can't know what it must keep.
    """
    if version > NEWEST:
        raise StoreUnavailable(
            f"The store {where} has version {version} and this program knows versions up to {NEWEST}.",
            hint="A newer addendum wrote it: install that one, or use another store.",
            store=where,
            version=version,
            known=NEWEST,
        )
    return tuple(enumerate(MIGRATIONS[version:], start=version + 1))
