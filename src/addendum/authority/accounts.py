"""The accounts of a run: reserve before a dispatch, settle after it (DESIGN section 7). Arithmetic only.

A reservation is made at what the call may take at most and is settled to what it did take; an unresolved attempt
keeps its hold. What was used up before comes from the journal's totals, so a replay costs nothing. Limits of a
principal are kept in a book of all its runs (`addendum.broker.principal`).
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field

from addendum.authority.book import Book, Hold, Later, Over, Terms, counts, terms
from addendum.authority.catalog import Capability
from addendum.authority.delegation import Child, Used, children, gone, pointed
from addendum.authority.grant import Grant, Limit, of_whole
from addendum.canon import Json
from addendum.records.history import REMEMBERED, Dispatch, History, Totals

__all__ = ["Accounts", "Hold", "Later", "Over"]


@dataclass(slots=True)
class Accounts:
    """Used and held. `history` is the run's fold: what was used is read from it, never copied."""

    grant: Grant
    history: History
    book: Book
    principal: Book | None = None
    elapsed: float = 0.0
    """Seconds of this drive so far; the driver keeps it, and the two below."""
    computed: float = 0.0
    """Seconds that the script computed in this drive."""
    logged: int = 0
    """Bytes of text that it logged in this drive, what it logged before included: a replay logs it again."""
    revoked: bool = False
    """Whether the principal's authority was revoked; the run's own is in its history."""
    above: Limit | None = None
    """What bars every call since a run that this one's grant came out of has no authority any more."""
    at: float = 0.0
    """The wall time of the last look, for windows."""
    _children: tuple[int, tuple[Child, ...]] = (0, ())
    _terms: dict[str, tuple[Capability, Terms]] = field(default_factory=dict)

    @classmethod
    def of(
        cls,
        grant: Grant,
        history: History,
        catalog: Mapping[str, Capability],
        sent: Iterable[Hold] = (),
        principal: Book | None = None,
    ) -> Accounts:
        """Open the accounts: unresolved attempts of earlier drives keep their holds. `sent` are earlier
        calls with the values that limits look at."""
        agents = frozenset(name for name, capability in catalog.items() if capability.agentic)
        book = Book(history.totals, history.recent, agents, REMEMBERED)
        for earlier in sent:
            book.target(earlier)
        found = cls(grant, history, book, principal)
        for attempt in history.attempts.values():
            capability = catalog.get(attempt.capability)
            if capability is None:
                book.carry(Hold(attempt.capability, attempt.hold, 0))
            else:
                most = found.terms(capability).hold(0, None)
                book.carry(Hold(most.capability, attempt.hold, 0, most.bytes_in, most.tokens, most.seconds))
        for draft in history.drafts.values():
            book.carry(Hold(draft.capability, draft.hold, 0, 0, draft.tokens))
        return found

    def bounded(self, capability: Capability) -> Capability:
        """Return a capability within the grant's limits per call."""
        return self.terms(capability).capability

    def terms(self, capability: Capability) -> Terms:
        """Return what the grant means for a capability, which may be within its limits already."""
        found = self._terms.get(capability.name)
        if found is None or (found[0] is not capability and found[1].capability is not capability):
            found = self._terms[capability.name] = (capability, terms(capability, self.grant))
        return found[1]

    def reserve(self, capability: Capability, size: int, payload: Json, now: float) -> Hold | Over | Later:
        """Take a hold for one call, or say which limit is in the way. `now` is wall time, for windows."""
        self.at = now
        barred = self.barred(capability.name, now)
        if barred is not None:
            return barred
        mine = self.terms(capability)
        within, asked = mine.capability, mine.hold(size, payload)
        if within.most_tokens_in is not None and asked.tokens_in > within.most_tokens_in:
            return Over(Limit("tokens_in", within.most_tokens_in, "call", within.name), 0, 0, asked.tokens_in)
        later: Later | None = None
        for place in self._near(mine, asked) if mine.limits else ():
            found = self._check(mine.limits[place], asked, now)
            if isinstance(found, Over):
                return found
            later = found or later
        if later is not None:
            return later
        self.book.take(asked, now)
        if self.principal is not None:
            self.principal.take(asked, now)
        return asked

    def question(self, capability: Capability, size: int, payload: Json, now: float) -> Over | None:
        """Say which limit is in the way of a question to a person. Nothing is held for it: it is in the journal next.
        It isn't in flight, no accounts but the run's have it, and one that a window has no room for isn't asked."""
        self.at = now
        barred = self.barred(capability.name, now)
        mine = self.terms(capability)
        asked = mine.hold(size, payload)
        for limit in () if barred is not None else mine.limits:
            if limit.meter == "in_flight" or (limit.principal and limit.per != "call"):
                continue
            found = self._check(limit, asked, now)
            if found is not None:
                return found if isinstance(found, Over) else Over(limit, *self.level(limit), asked.of(limit.meter))
        if barred is None:
            self.book.sent(Dispatch(now, capability.name, asked.cost, size))
            self.book.target(asked)
        return barred

    def barred(self, capability: str, now: float) -> Over | None:
        """Return what bars every call: a grant that is over or revoked, a channel that was frozen."""
        if self.grant.expires is not None and now >= self.grant.expires:
            return Over(Limit("expires", self.grant.expires), now, 0, 0)
        if self.history.revoked:
            return Over(Limit("revoked", 0), 0, 0, 0)
        if self.revoked:
            return Over(Limit("principal_revoked", 0, "run", self.grant.principal), 0, 0, 0)
        if self.above is not None:
            return Over(self.above, 0, 0, 0)
        if capability in self.history.frozen:
            return Over(Limit("frozen", 0, "run", capability), 0, 0, 0)
        return None

    def _near(self, mine: Terms, asked: Hold) -> Iterable[int]:
        """Return the places of the limits that have to be looked at closely, in their order."""
        if self.history.children or (mine.common and self.principal is None):
            return range(len(mine.limits))
        name, asks = asked.capability, asked.amounts
        found = self.book.near(mine.own, name, asks, self.at) if mine.own else []
        if mine.common and self.principal is not None:
            found += self.principal.near(mine.common, name, asks, self.at)
            found.sort()
        return found

    def _check(self, limit: Limit, asked: Hold, now: float) -> Over | Later | None:
        if limit.principal and limit.per != "call":
            if self.principal is None:
                return Over(limit, 0, 0, asked.of(limit.meter))  # nobody keeps its book: fail closed
            return self.principal.check(limit, asked, now)
        if limit.per == "run" and of_whole(limit):
            used, _ = self.level(limit)
            return Over(limit, used, 0, 0) if used >= limit.most else None
        if not self.history.children:
            return self.book.check(limit, asked, now)
        return self.book.check(limit, asked, now, self.delegated(limit))

    def undo(self, taken: Hold) -> None:
        """Take a hold back whose attempt was not written."""
        self.book.undo(taken)
        if self.principal is not None:
            self.principal.undo(taken)

    def written(self) -> None:
        """The attempts of all holds so far are in the journal, and count from there, and from the times that they have
        there."""
        self.book.wrote_all(self.history.recent)

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
        """Return how much of a limit is used and held; what children used is used, and what they have is held."""
        if limit.principal:
            return self.principal.level(limit, self.at) if self.principal is not None else (0, 0)
        if of_whole(limit):
            own: tuple[int | float, int | float] = (self._whole()[limit.meter], 0)
        else:
            own = self.book.level(limit, self.at)
        ended, given = self.delegated(limit)
        return own[0] + ended, own[1] + given

    # --- delegation --------------------------------------------------------------------------------------------

    @property
    def children(self) -> tuple[Child, ...]:
        """The runs whose grants came out of this one's."""
        if self._children[0] != self.history.delegated:
            self._children = (self.history.delegated, children(self.history))
        return self._children[1]

    def delegated(self, limit: Limit) -> tuple[int | float, int | float]:
        """Return how much of a limit children used that ended, and how much is given to those that live."""
        return gone(self.children, limit, self.book.agents, self.at) if self.history.children else (0, 0)

    def left(self, limit: Limit, but: str = "") -> int | float:
        """Return what is left of a limit, as if the child `but` had never been."""
        others = [child for child in self.children if child.run != but]
        away = sum(self.delegated(limit)) - sum(gone(others, limit, self.book.agents, self.at))
        return limit.most - sum(self.level(limit)) + away

    def used(self) -> Used:
        """Return all that this run and its children used up, as its parent counts it. No child may live."""
        names = {*self.book.totals, *(name for held in self.book.held.values() for name in held)}
        totals = {name: self._totals(name) for name in names}
        distinct = {
            (limit.capability or "", pointed(limit)): int(self.book.level(limit)[0])
            for limit in self.grant.every
            if counts(limit) and not limit.principal
        }
        whole = self._whole()
        for child in self.children:
            if child.used is not None:
                for name, each in child.used.totals.items():
                    _add(totals.setdefault(name, Totals()), each)
                for key, count in child.used.distinct.items():
                    distinct[key] = distinct.get(key, 0) + count
                for meter, amount in child.used.whole.items():
                    whole[meter] += amount
        return Used(totals, distinct, whole)

    def whole(self) -> dict[str, int]:
        """Return what this drive took as a whole, as it stands in the entry of its end."""
        return {
            "micros": round(self.elapsed * 1_000_000),
            "script_micros": round(self.computed * 1_000_000),
            "log_bytes": self.logged,
        }

    def _whole(self) -> dict[str, int | float]:
        """Return what the run as a whole used up in all its drives."""
        history = self.history
        return {
            "seconds": history.seconds + self.elapsed,
            "script_seconds": history.computed + self.computed,
            "log_bytes": max(history.logged, self.logged),
        }

    def _totals(self, name: str) -> Totals:
        """Return what a capability used and holds."""
        found, held = Totals(), {meter: each[name] for meter, each in self.book.held.items()}
        _add(found, self.book.totals.get(name, Totals()))
        found.cost += held["cost_usd"]
        found.tokens += held["tokens"]
        found.bytes_in += held["bytes_in"]
        found.seconds += held["seconds"]
        return found


def _add(total: Totals, each: Totals) -> None:
    total.calls += each.calls
    total.cost += each.cost
    total.tokens += each.tokens
    total.bytes_out += each.bytes_out
    total.bytes_in += each.bytes_in
    total.seconds += each.seconds
