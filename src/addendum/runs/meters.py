"""What is used, held and left of every limit, of a run or of a principal."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from addendum.authority.accounts import Accounts
from addendum.authority.catalog import Catalog
from addendum.authority.delegation import children
from addendum.authority.grant import Grant, Limit, from_json
from addendum.authority.money import usd
from addendum.broker.desk import open_desk
from addendum.broker.journal import Journal
from addendum.broker.principal import Ledger
from addendum.ports import Clock, Store
from addendum.records.history import Totals


@dataclass(frozen=True, slots=True)
class Level:
    """One limit: what is used and held of it, and what living children were given. A limit per call has no level:
    `used` is None."""

    limit: Limit
    used: int | float | None
    held: int | float = 0
    delegated: int | float = 0

    @property
    def left(self) -> int | float | None:
        """What is left of it."""
        return None if self.used is None else self.limit.most - self.used - self.held - self.delegated

    def to_json(self) -> dict[str, Any]:
        """Return it as JSON; money in US dollars as text."""
        plain = self.limit.plain
        return {
            "limit": str(self.limit),
            "meter": self.limit.meter,
            "capability": self.limit.capability,
            "scope": self.limit.scope,
            "per": self.limit.per,
            "max": plain(self.limit.most),
            "used": plain(self.used),
            "held": plain(self.held),
            "delegated": plain(self.delegated),
            "left": plain(self.left),
        }


def of_run(store: Store, run: str, catalog: Catalog, clock: Clock) -> tuple[Grant, list[Level]]:
    """Return a run's grant, and how it stands with each of its limits. Raises `NotFound`."""
    journal = Journal(store, run)
    journal.read()
    grant = from_json(journal.history.grant or {})
    return grant, levels(open_desk(journal, grant, catalog, clock, write=False).accounts)


def levels(accounts: Accounts) -> list[Level]:
    """Return how a run stands with each of its limits."""
    found = []
    for limit in accounts.grant.every:
        if limit.per == "call":
            found.append(Level(limit, None))
        else:
            used, held = accounts.level(limit)
            given = 0 if limit.principal else accounts.delegated(limit)[1]
            found.append(Level(limit, used, held - given, given))
    return found


def family(store: Store, run: str) -> tuple[str, list[dict[str, Any]]]:
    """Return the run that a run's grant came out of ("" for none), and its own children with what they were given."""
    history = Journal(store, run).read()
    return history.parent, [
        {"run": child.run, "living": child.living, "grant": child.grant.to_json()} for child in children(history)
    ]


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


def of_principal(store: Store, principal: str, *, verify: bool = False) -> tuple[bool, list[Account]]:
    """Return whether a principal's authority was revoked, and its accounts. Raises `NotFound` if it has none, and
    `StoreCorrupt` if they aren't what their journal comes to, for who wants them verified."""
    ledger = Ledger(store, principal)
    store.header(ledger.name)
    ledger.read()
    if verify:
        ledger.verify()
    held = ledger.book.held["cost_usd"]
    return ledger.revoked, [
        Account(name, totals, held[name], ledger.book.in_flight[name]) for name, totals in sorted(ledger.totals.items())
    ]
