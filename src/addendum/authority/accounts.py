"""The accounts of a run: reserve before a dispatch, settle after it (DESIGN section 7). Arithmetic only.

A reservation is made at what the call may take at most and is settled to what it did take; an unresolved attempt
keeps its hold. What was used up before comes from the journal's totals, so a replay costs nothing. Limits of a
principal are kept in a book of all its runs (`addendum.authority.principal`).
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from addendum.authority.book import Book, Hold, Later, Over, bounded, hold
from addendum.authority.catalog import Capability
from addendum.authority.grant import Grant, Limit
from addendum.canon import Digest, Json
from addendum.records.history import REMEMBERED, History

__all__ = ["Accounts", "Hold", "Later", "Over"]

Seen = dict[tuple[str, str], set[Digest]]


@dataclass(slots=True)
class Accounts:
    """Used and held. `history` is the run's fold: what was used is read from it, never copied."""

    grant: Grant
    history: History
    book: Book
    principal: Book | None = None
    elapsed: float = 0.0
    """Seconds of this drive so far; the driver keeps it."""
    revoked: bool = False
    """Whether the principal's authority was revoked; the run's own is in its history."""
    _bounded: dict[str, Capability] = field(default_factory=dict)

    @classmethod
    def of(
        cls,
        grant: Grant,
        history: History,
        catalog: Mapping[str, Capability],
        seen: Seen | None = None,
        principal: Book | None = None,
    ) -> Accounts:
        """Open the accounts: unresolved attempts of earlier drives keep their holds. `seen` are the targets of earlier
        calls, by capability and meter."""
        agents = frozenset(name for name, capability in catalog.items() if capability.agentic)
        book = Book(history.totals, history.recent, agents, REMEMBERED)
        book.seen = {key: set(found) for key, found in (seen or {}).items()}
        found = cls(grant, history, book, principal)
        for attempt in history.attempts.values():
            capability = catalog.get(attempt.capability)
            if capability is None:
                book.carry(Hold(attempt.capability, attempt.hold, 0))
            else:
                most = hold(found.bounded(capability), grant, 0, None)
                book.carry(Hold(most.capability, attempt.hold, 0, most.bytes_in, most.tokens, most.seconds))
        for draft in history.drafts.values():
            book.carry(Hold(draft.capability, draft.hold, 0, 0, draft.tokens))
        return found

    def bounded(self, capability: Capability) -> Capability:
        """Return a capability within the grant's limits per call."""
        found = self._bounded.get(capability.name)
        if found is None:
            found = self._bounded[capability.name] = bounded(capability, self.grant)
        return found

    def reserve(self, capability: Capability, size: int, payload: Json, now: float) -> Hold | Over | Later:
        """Take a hold for one call, or say which limit is in the way. `now` is wall time, for windows."""
        barred = self._barred(capability.name, now)
        if barred is not None:
            return barred
        asked = hold(self.bounded(capability), self.grant, size, payload)
        later: Later | None = None
        for limit in self.grant.over(capability.name):
            found = self._check(limit, asked, now)
            if isinstance(found, Over):
                return found
            later = found or later
        if later is not None:
            return later
        self.book.take(asked, now)
        if self.principal is not None:
            self.principal.take(asked, now)
        return asked

    def _barred(self, capability: str, now: float) -> Over | None:
        """Return what bars every call: a grant that is over or revoked, a channel that was frozen."""
        if self.grant.expires is not None and now >= self.grant.expires:
            return Over(Limit("expires", self.grant.expires), now, 0, 0)
        if self.history.revoked or self.revoked:
            return Over(Limit("revoked", 0), 0, 0, 0)
        if capability in self.history.frozen:
            return Over(Limit("frozen", 0, "run", capability), 0, 0, 0)
        return None

    def _check(self, limit: Limit, asked: Hold, now: float) -> Over | Later | None:
        if limit.principal and limit.per != "call":
            if self.principal is None:
                return Over(limit, 0, 0, asked.of(limit.meter))  # nobody keeps its book: fail closed
            return self.principal.check(limit, asked, now)
        if limit.meter == "seconds" and limit.capability is None and limit.per == "run":
            used, _ = self.level(limit)
            return Over(limit, used, 0, 0) if used >= limit.most else None
        return self.book.check(limit, asked, now)

    def undo(self, taken: Hold) -> None:
        """Take a hold back whose attempt was not written."""
        self.book.undo(taken)
        if self.principal is not None:
            self.principal.undo(taken)

    def written(self) -> None:
        """The attempts of all holds so far are in the journal, and count from there."""
        for taken in self.book.unwritten:
            self.book.target(taken.capability, taken.targets)
        self.book.unwritten.clear()

    def settle(self, taken: Hold) -> None:
        """Give a hold back; what the call really took is in the journal by now."""
        self.book.settle(taken)

    def keep(self, taken: Hold) -> None:
        """The attempt is unresolved: what it may have taken stays held, but it isn't in flight any more."""
        self.book.in_flight[taken.capability] -= 1

    def release(self, taken: Hold) -> None:
        """What was kept came out after all: its money isn't held any more."""
        self.book.release(taken)

    def level(self, limit: Limit) -> tuple[int | float, int | float]:
        """Return how much of a limit is used and held."""
        if limit.principal:
            return self.principal.level(limit) if self.principal is not None else (0, 0)
        if limit.meter == "seconds" and limit.capability is None:
            return self.history.seconds + self.elapsed, 0
        return self.book.level(limit)
