"""The accounts of a run: reserve before a dispatch, settle after it (DESIGN section 7). Arithmetic only.

A reservation is made at what the call may cost at most and is settled to what it did cost; an unresolved attempt
keeps its hold. What was used up before comes from the journal's totals, so a replay costs nothing.
"""

from __future__ import annotations

from collections import Counter, deque
from dataclasses import dataclass, field

from addendum.authority.grant import Grant, Limit
from addendum.records.history import History, Totals


@dataclass(frozen=True, slots=True)
class Hold:
    """What a reservation took: cost in nano-dollars, bytes of the payload."""

    capability: str
    cost: int
    bytes_out: int


@dataclass(frozen=True, slots=True)
class Over:
    """A limit that a call would exceed: `used` and `held` of it, and what the call `asks` for."""

    limit: Limit
    used: int | float
    held: int | float
    asks: int | float


@dataclass(frozen=True, slots=True)
class Later:
    """A limit that is only reached for now: the call waits, until `at` or until a call ends."""

    limit: Limit
    at: float | None


@dataclass(slots=True)
class Accounts:
    """Used and held per capability. `history` is the run's fold: what was used is read from it, never copied."""

    grant: Grant
    history: History
    elapsed: float = 0.0
    """Seconds of this drive so far; the driver keeps it."""
    held_cost: Counter[str] = field(default_factory=Counter)
    in_flight: Counter[str] = field(default_factory=Counter)
    unwritten: list[Hold] = field(default_factory=list)
    """Holds whose attempts aren't in the journal yet: they count as calls and bytes all the same."""

    @classmethod
    def of(cls, grant: Grant, history: History) -> Accounts:
        """Open the accounts: unresolved attempts of earlier drives keep their holds."""
        accounts = cls(grant, history)
        for attempt in history.attempts.values():
            accounts.held_cost[attempt.capability] += attempt.hold
        return accounts

    def reserve(self, capability: str, cost: int, bytes_out: int, now: float) -> Hold | Over | Later:
        """Take a hold for one call, or say which limit is in the way. `now` is wall time, for windows."""
        later: Later | None = None
        for limit in self.grant.over(capability):
            asks = _asks(limit, cost, bytes_out)
            if limit.per == "call":
                if asks > limit.most:
                    return Over(limit, 0, 0, asks)
                continue
            if isinstance(limit.per, float):
                if asks > limit.most:
                    return Over(limit, 0, 0, asks)  # no window ever has room for it
                at = self._window(limit, asks, now)
                if at is not None:
                    later = Later(limit, at)
                continue
            used, held = self.level(limit)
            full = used + held >= limit.most if asks == 0 else used + held + asks > limit.most
            if not full:
                continue
            if limit.meter == "in_flight":
                if limit.most < 1:
                    return Over(limit, used, held, asks)
                later = Later(limit, None)
            else:
                return Over(limit, used, held, asks)
        if later is not None:
            return later
        self.held_cost[capability] += cost
        self.in_flight[capability] += 1
        hold = Hold(capability, cost, bytes_out)
        self.unwritten.append(hold)
        return hold

    def written(self) -> None:
        """The attempts of all holds so far are in the journal, and count from there."""
        self.unwritten.clear()

    def settle(self, hold: Hold) -> None:
        """Give a hold back; what the call really took is in the journal by now."""
        self.held_cost[hold.capability] -= hold.cost
        self.in_flight[hold.capability] -= 1

    def keep(self, hold: Hold) -> None:
        """The attempt is unresolved: its money stays held, but it isn't in flight any more."""
        self.in_flight[hold.capability] -= 1

    def release(self, hold: Hold) -> None:
        """What was kept came out after all: its money isn't held any more."""
        self.held_cost[hold.capability] -= hold.cost

    def level(self, limit: Limit) -> tuple[int | float, int | float]:
        """Return how much of a per-run limit is used and held."""
        # A limit of the whole run counts what a capability used that isn't granted any more.
        names = {*self.history.totals, *self.grant.capabilities} if limit.capability is None else {limit.capability}
        held: int | float = 0
        if limit.meter == "cost_usd":
            held = sum(self.held_cost[name] for name in (self.held_cost if limit.capability is None else names))
        elif limit.meter == "in_flight":
            held = sum(self.in_flight[name] for name in (self.in_flight if limit.capability is None else names))
        else:
            held = sum(_asks(limit, 0, hold.bytes_out) for hold in self.unwritten if hold.capability in names)
        if limit.meter == "seconds" and limit.capability is None:
            return self.history.seconds + self.elapsed, 0
        used = sum(_used(limit, self.history.totals[name]) for name in names if name in self.history.totals)
        return used, held

    def _window(self, limit: Limit, asks: int | float, now: float) -> float | None:
        """Return when the window has room again, None if it has now."""
        assert isinstance(limit.per, float)
        recent = self.history.recent
        if any(at > now for at, _, _ in recent):
            # The clock was set back. That refills nothing, and holds nothing up for longer than a window: now counts.
            self.history.recent = recent = deque(
                ((min(at, now), name, cost) for at, name, cost in recent), maxlen=recent.maxlen
            )
        if len(recent) == recent.maxlen and recent[0][0] > now - limit.per:
            return recent[0][0] + limit.per  # there may have been more than are remembered
        inside = [
            (at, cost)
            for at, name, cost in recent
            if at > now - limit.per and (limit.capability is None or name == limit.capability)
        ]
        inside += [(now, hold.cost) for hold in self.unwritten if limit.capability in (None, hold.capability)]
        level: int | float = sum(1 if limit.meter == "calls" else cost for _, cost in inside)
        if level + asks <= limit.most:
            return None
        for at, cost in inside:
            level -= 1 if limit.meter == "calls" else cost
            if level + asks <= limit.most:
                return at + limit.per
        return now + limit.per


def _asks(limit: Limit, cost: int, bytes_out: int) -> int | float:
    match limit.meter:
        case "calls" | "in_flight":
            return 1
        case "cost_usd":
            return cost
        case "bytes_out" | "journal_bytes":
            return bytes_out
        case _:
            return 0


def _used(limit: Limit, totals: Totals) -> int | float:
    match limit.meter:
        case "calls":
            return totals.calls
        case "cost_usd":
            return totals.cost
        case "tokens":
            return totals.tokens
        case "bytes_out":
            return totals.bytes_out
        case "bytes_in":
            return totals.bytes_in
        case "journal_bytes":
            return totals.bytes_out + totals.bytes_in
        case "seconds":
            return totals.seconds
        case _:
            return 0
