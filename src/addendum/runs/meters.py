"""What is used, held and left of every limit, of a run or of a principal."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from addendum.authority.catalog import Catalog
from addendum.authority.grant import Grant, Limit, from_json
from addendum.authority.money import usd
from addendum.broker.desk import open_desk
from addendum.broker.journal import Journal
from addendum.broker.principal import Ledger
from addendum.ports import Clock, Store
from addendum.records.history import Totals


@dataclass(frozen=True, slots=True)
class Level:
    """One limit: what is used and held of it. A limit per call has no level: `used` is None."""

    limit: Limit
    used: int | float | None
    held: int | float = 0

    @property
    def left(self) -> int | float | None:
        """What is left of it."""
        return None if self.used is None else self.limit.most - self.used - self.held

    def to_json(self) -> dict[str, Any]:
        """Return it as JSON; money in US dollars as text."""

        def amount(value: int | float | None) -> Any:
            return usd(int(value)) if value is not None and self.limit.meter == "cost_usd" else value

        return {
            "limit": str(self.limit),
            "meter": self.limit.meter,
            "capability": self.limit.capability,
            "scope": self.limit.scope,
            "per": self.limit.per,
            "max": amount(self.limit.most),
            "used": amount(self.used),
            "held": amount(self.held),
            "left": amount(self.left),
        }


def of_run(store: Store, run: str, catalog: Catalog, clock: Clock) -> tuple[Grant, list[Level]]:
    """Return a run's grant, and how it stands with each of its limits. Raises `NotFound`."""
    journal = Journal(store, run)
    journal.read()
    grant = from_json(journal.history.grant or {})
    accounts = open_desk(journal, grant, catalog, clock, write=False).accounts
    levels = []
    for limit in grant.every:
        if limit.per == "call":
            levels.append(Level(limit, None))
        else:
            levels.append(Level(limit, *accounts.level(limit)))
    return grant, levels


@dataclass(frozen=True, slots=True)
class Account:
    """What a principal used of one capability in all its runs, and what is held for calls without an end."""

    capability: str
    totals: Totals
    held_cost: int
    in_flight: int

    def to_json(self) -> dict[str, Any]:
        """Return it as JSON; money in US dollars as text."""
        return {
            "capability": self.capability,
            "calls": self.totals.calls,
            "cost_usd": usd(self.totals.cost),
            "held_usd": usd(self.held_cost),
            "in_flight": self.in_flight,
            "tokens": self.totals.tokens,
            "bytes_out": self.totals.bytes_out,
            "bytes_in": self.totals.bytes_in,
        }


def of_principal(store: Store, principal: str) -> tuple[bool, list[Account]]:
    """Return whether a principal's authority was revoked, and its accounts. Raises `NotFound` if it has none."""
    ledger = Ledger(store, principal)
    store.header(ledger.name)
    ledger.read()
    held = ledger.book.held["cost_usd"]
    return ledger.revoked, [
        Account(name, totals, held[name], ledger.book.in_flight[name]) for name, totals in sorted(ledger.totals.items())
    ]
