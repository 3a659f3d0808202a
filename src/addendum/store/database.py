"""The seam between the store and a database: what a backend has to offer beneath the named statements.

A backend turns every error of its driver into a `StoreError`, in one place, so that none leaves as anything else.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from contextlib import AbstractContextManager
from typing import Any, Protocol, TypeAlias

Row: TypeAlias = tuple[Any, ...]
Values: TypeAlias = Mapping[str, str | int | float | bytes | None]


class Database(Protocol):
    """A database that holds the store's tables in their newest form. Opened at its first use; any thread may call.

    `statement` is always a name out of the dialect's statements.
    """

    where: str
    """What a person calls it: a path, or a host and a name, without a password."""

    def read(self, statement: str, values: Values, *, budget: int | None = None) -> list[Row]:
        """Return a query's rows. With a budget, end after the row whose last column brings the sum of their lengths
        over it. No cursor is left open, so that a slow reader holds up nobody."""

    def transaction(self) -> AbstractContextManager[None]:
        """Begin; commit at the end, durably; roll back if the body raises. No other writer gets in between, and
        other threads wait. Inside it, `read` and `write` see and make its changes."""

    def write(self, statement: str, values: Values) -> int:
        """Change rows, inside a transaction; return how many were changed."""

    def write_all(self, statement: str, rows: Iterable[Values]) -> None:
        """Do it once for each of `rows`."""

    def write_alone(self, statement: str, values: Values) -> int:
        """Change rows in a transaction of its own, outside of any other; return how many were changed, durably."""

    def close(self) -> None:
        """Let go of the database; every later call raises `StoreUnavailable`."""
