"""One book of accounts: what was used and what is held, of a run or of a principal. Arithmetic only (DESIGN section 7).

Calls, payload bytes and targets count when a call leaves; cost, result bytes, tokens and seconds are held at the most
that the call may take and count when it is settled.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import accumulate
from math import inf
from typing import Any, Final, NamedTuple, TypeAlias

from addendum.authority.catalog import Capability
from addendum.authority.grant import DISTINCT, ENDS, METERED, WAYS_OUT, Grant, Limit, of_whole
from addendum.authority.pointer import at, tokens, within
from addendum.authority.sizes import largest
from addendum.authority.window import Window
from addendum.canon import Digest, Json, digest
from addendum.records.history import Dispatch, Totals

ENTRIES: Final = 2
"""Entries that a call leaves in the journal: its attempt, and how that ended."""
_SUMS: Final = ("calls", "bytes_out", "cost_usd")
HELD: Final = ("cost_usd", "bytes_in", "tokens", "seconds")
_UNUSED: Final = Totals()

Amounts: TypeAlias = "tuple[int | float, ...]"
"""An amount of each of `METERED`."""
_NOWHERE: Final[Mapping[str, Digest]] = {}


class Hold(NamedTuple):
    """What a reservation took: cost in nano-dollars, bytes, tokens and seconds at their most. `targets` are digests of
    the values at the pointers of distinct meters, and of those that count for each value, by the meter's name."""

    capability: str
    cost: int
    bytes_out: int
    bytes_in: int = 0
    tokens: int = 0
    seconds: float = 0.0
    agentic: bool = False
    tokens_in: int = 0
    targets: Mapping[str, Digest] = _NOWHERE

    @property
    def amounts(self) -> Amounts:
        """What it takes of each meter."""
        _, cost, out, back, tokens, seconds, agentic, _, _ = self
        return (1, cost, tokens, out, back, seconds, 1, int(agentic), out + back, ENTRIES)

    def of(self, meter: str) -> int | float:
        """Return what it takes of a meter; 0 of one that is looked at only before a call."""
        if meter in METERED:
            return self.amounts[METERED.index(meter)]
        return self.tokens_in if meter == "tokens_in" else 0


@dataclass(frozen=True, slots=True)
class Over:
    """A limit that a call would exceed: `used` and `held` of it, and what the call `asks` for."""

    limit: Limit
    used: int | float
    held: int | float
    asks: int | float

    def sentence(self, identity: str) -> str:
        """Say what stands in the way of a call."""
        if self.limit.meter in ENDS:
            until = "until it is given back" if self.limit.meter == "principal_revoked" else "for another grant"
            return f"Nothing more is sent: {self.limit}. {identity} waits {until}."
        used, held, asks = (self.limit.amount(value) for value in (self.used, self.held, self.asks))
        return f"The limit {self.limit} is reached: {used} used, {held} held, {identity} asks for {asks}."

    @property
    def way_out(self) -> str:
        """Say with which command the run can go on. What came from above, only above can give back."""
        return WAYS_OUT.get(self.limit.meter, "Raise it with `addendum grant RUN FILE`").format(self.limit.capability)


@dataclass(frozen=True, slots=True)
class Later:
    """A limit that is only reached for now: the call waits, until `at` or until a call ends."""

    limit: Limit
    at: float | None


def bounded(capability: Capability, grant: Grant) -> Capability:
    """Return a capability within the grant's limits per call: results, tokens and time above them aren't taken."""
    from dataclasses import replace

    def least(own: int | float | None, meter: str) -> int | float | None:
        granted = grant.per_call(meter, capability.name)
        return min((value for value in (own, granted) if value is not None), default=None)

    most_tokens = least(capability.most_tokens, "tokens")
    return replace(
        capability,
        max_result=int(least(capability.max_result, "bytes_in") or 0),
        timeout=float(least(capability.timeout, "seconds") or 0.001),
        most_tokens=None if most_tokens is None else int(most_tokens),
    )


_CLOSELY, _CALL, _WINDOW, _ONE, _EVERY, _DISTINCT = range(6)


class Gauge(NamedTuple):
    """A limit as it is looked at first: its `place` among the limits of a capability's terms, what its level is counted
    over (nothing but the call, a window, one capability, every one of them, different values of the capability; or
    that it is always looked at closely), the meter's place in `METERED`, the most, and what the level is found by: the
    limit's key, or the capability and the meter."""

    place: int
    over: int
    meter: int
    most: int | float
    key: tuple[Any, ...]


@dataclass(frozen=True, slots=True)
class Terms:
    """What a grant means for the calls of one capability, so that it isn't worked out for each of them: the capability
    within the limits per call, the limits in their order, the most of a call in nano-dollars, bytes of its result and
    seconds (0 where no limit bounds them), and the pointers that limits look at, taken apart, by the name under which
    the values are kept."""

    capability: Capability
    limits: tuple[Limit, ...]
    most_cost: int
    most_in: int
    seconds: float
    pointers: tuple[tuple[str, tuple[str, ...]], ...]
    own: tuple[Gauge, ...]
    """The limits that the run's own book has to do with."""
    common: tuple[Gauge, ...]
    """Those of the principal's book."""

    def hold(self, size: int, payload: Json) -> Hold:
        """Return what a call takes at most. `size` is the payload's, in bytes."""
        capability = self.capability
        size_in, most = capability.tokens_in(size), capability.most_tokens
        if most is None:
            # A payload that bounds what comes back with `max_tokens` takes these, and its own by its size.
            asked = payload.get("max_tokens") if isinstance(payload, dict) else None
            most = size_in + asked if type(asked) is int and asked >= 0 else 0
        return Hold(
            capability.name,
            self.most_cost,
            size,
            self.most_in,
            most,
            self.seconds,
            capability.agentic,
            size_in,
            {name: digest(within(payload, path)) for name, path in self.pointers} if self.pointers else _NOWHERE,
        )


def terms(capability: Capability, grant: Grant) -> Terms:
    """Return what a grant means for a capability."""
    within, limits = bounded(capability, grant), grant.over(capability.name)
    names = sorted({counts(limit) for limit in limits} - {""})
    gauges = [_gauge(place, limit) for place, limit in enumerate(limits)]
    return Terms(
        within,
        limits,
        within.reserve,
        _result(within),
        0.0 if grant.per_call("seconds", capability.name) is None else within.timeout,
        tuple((name, tuple(tokens(name[name.index(":") + 1 :]))) for name in names),
        tuple(gauge for gauge in gauges if not _in_common(limits[gauge.place])),
        tuple(gauge for gauge in gauges if _in_common(limits[gauge.place])),
    )


def _in_common(limit: Limit) -> bool:
    return limit.principal and limit.per != "call"


def _gauge(place: int, limit: Limit) -> Gauge:
    """Return how a limit is looked at first."""
    if limit.meter.startswith(DISTINCT) and limit.capability is not None:
        return Gauge(place, _DISTINCT, 0, limit.most, (limit.capability, limit.meter))
    if limit.meter not in METERED or limit.by or (limit.per == "run" and of_whole(limit) and not limit.principal):
        return Gauge(place, _CLOSELY, 0, limit.most, limit.key)
    if isinstance(limit.per, float):
        by = _WINDOW
    elif limit.per == "call":
        by = _CALL
    else:
        by = _EVERY if limit.capability is None else _ONE
    return Gauge(place, by, METERED.index(limit.meter), limit.most, limit.key)


def _result(capability: Capability) -> int:
    """Return the most bytes that a result may have: one that is larger, or doesn't fit its schema, isn't taken."""
    size = largest(capability.output)
    return capability.max_result if size is None else min(size, capability.max_result)


def counts(limit: Limit) -> str:
    """Return the name under which the values are kept that a limit looks at, "" if it looks at none."""
    if limit.by:
        return f"by:{limit.by}"
    return limit.meter if limit.meter.startswith(DISTINCT) else ""


def targets(grant: Grant, capability: str, payload: Json) -> dict[str, Digest]:
    """Return the digests of the values that the grant's limits look at; a pointer to nothing counts as null."""
    names = {counts(limit) for limit in grant.over(capability)} - {""}
    return {name: digest(at(payload, name[name.index(":") + 1 :])) for name in names}


@dataclass(slots=True)
class Book:
    """`totals` and `recent` are the fold's: read, never copied. `agents` are the capabilities that are agentic."""

    totals: Mapping[str, Totals]
    recent: Iterable[Dispatch]
    agents: frozenset[str] = frozenset()
    most_recent: int | None = None
    """How many dispatches `recent` can remember."""
    since: float = -inf
    """The time up to which dispatches may be missing in `recent`."""
    held: dict[str, Counter[str]] = field(default_factory=lambda: {meter: Counter() for meter in HELD})
    in_flight: Counter[str] = field(default_factory=Counter)
    unwritten: list[Hold] = field(default_factory=list)
    """Holds whose attempts aren't in the journal yet: they count as calls and bytes all the same."""
    seen: dict[tuple[str, str], dict[Digest, list[int]]] = field(default_factory=dict)
    """The values at pointers that calls were sent with, by capability and meter: for each the calls, the bytes out and
    what they may have cost."""
    windows: dict[tuple[object, ...], Window] = field(default_factory=dict)
    """By a limit's key: however much it lets through, the same is in the window."""
    _watching: list[tuple[str | None, int, Window]] = field(default_factory=list)
    """The windows with the capability that each counts, and its meter's place in `METERED`."""
    _times: list[float] = field(default_factory=list)
    """The times at which the holds of `unwritten` were taken."""
    _calls: Counter[str] = field(default_factory=Counter)
    """How many calls of each capability they are."""
    _bytes_out: Counter[str] = field(default_factory=Counter)
    """And their bytes out."""
    _latest: float = -inf
    """The latest time that windows know of: nothing is taken before it, whatever the clock says."""

    def near(self, gauges: Iterable[Gauge], name: str, asks: Amounts, now: float) -> list[int]:
        """Return the places of the limits that a call of a capability comes close to, or that have to be looked at
        closely anyway. The others have room for it, whatever `check` finds in detail: what has left a window, say."""
        windows, found = self.windows, []
        level: int | float
        mine: Amounts = ()
        alone: bool | None = None
        for place, over, meter, most, key in gauges:
            if over == _EVERY and alone is None:
                alone = self._alone(name)
            if over == _ONE or (over == _EVERY and alone):
                mine = mine or self._levels(name)
                level = mine[meter]
            elif over == _EVERY:
                level = sum(self._taken(METERED[meter], each) for each in self._names())
            elif over == _WINDOW:
                window = windows.get(key)
                level = window.level if window is not None and window.knows(now) else most
            elif over == _DISTINCT:
                level = len(self.seen.get(key, ())) + len(self.unwritten)
            elif over == _CALL:
                level = 0
            else:  # _CLOSELY
                level = most
            if level + asks[meter] >= most:
                found.append(place)
        return found

    def _levels(self, name: str) -> Amounts:
        """Return what is used and held for one capability, in the order of `METERED`: what `_taken` says of each meter,
        in one look."""
        totals, held = self.totals.get(name, _UNUSED), self.held
        calls = totals.calls + self._calls.get(name, 0)
        out = totals.bytes_out + self._bytes_out.get(name, 0)
        back = totals.bytes_in + held["bytes_in"].get(name, 0)
        return (
            calls,
            totals.cost + held["cost_usd"].get(name, 0),
            totals.tokens + held["tokens"].get(name, 0),
            out,
            back,
            totals.seconds + held["seconds"].get(name, 0),
            self.in_flight.get(name, 0),
            calls if name in self.agents else 0,
            out + back,
            ENTRIES * calls,
        )

    def _taken(self, meter: str, name: str) -> int | float:
        """Return what is used and held of a meter for one capability."""
        return used(meter, name, self.totals.get(name, _UNUSED), self.agents) + self._pending(meter, name)

    def _pending(self, meter: str, name: str) -> int | float:
        """Return what of a meter isn't in a capability's totals yet: what its calls may still take, and of what counts
        when a call leaves, that of the holds that aren't written."""
        match meter:
            case "calls":
                return self._calls.get(name, 0)
            case "bytes_out":
                return self._bytes_out.get(name, 0)
            case "in_flight":
                return self.in_flight.get(name, 0)
            case "agents":
                return self._calls.get(name, 0) if name in self.agents else 0
            case "journal_bytes":
                return self._bytes_out.get(name, 0) + self.held["bytes_in"].get(name, 0)
            case "journal_records":
                return ENTRIES * self._calls.get(name, 0)
            case _:
                return self.held[meter].get(name, 0)

    def _alone(self, name: str) -> bool:
        """Whether nothing was taken for any other capability."""
        totals, held = self.totals, self.held["cost_usd"]
        return len(totals) == (name in totals) and len(held) == (name in held)

    def _names(self) -> Collection[str]:
        """Return every capability that something was taken for."""
        totals, held = self.totals, self.held["cost_usd"]
        return totals.keys() if held.keys() == totals.keys() else dict.fromkeys((*totals, *held))

    def check(
        self, limit: Limit, asked: Hold, now: float, away: tuple[int | float, int | float] = (0, 0)
    ) -> Over | Later | None:
        """Say whether a limit stands in the way of a call. `away` is what children used of it, and have of it."""
        asks = asked.of(limit.meter)
        if limit.per == "call":
            return Over(limit, 0, 0, asks) if asks > limit.most else None
        if isinstance(limit.per, float):
            most = limit.most - sum(away)
            if asks > limit.most:
                return Over(limit, 0, 0, asks)  # no window ever has room for it
            if asks > most:
                return Later(limit, None)  # until a child gives back
            later = self._window(limit, limit.per, now).room(asks, most, now)
            return None if later is None else Later(limit, later)
        if limit.by:
            level = self._each(limit, asked.targets.get(counts(limit)))
            full = level + sum(away) + asks > limit.most
            return Over(limit, level + away[0], away[1], asks) if full else None
        if limit.meter.startswith(DISTINCT):
            return self._distinct(limit, asked, *away)
        used, held = self.level(limit)
        used, held = used + away[0], held + away[1]
        if limit.meter == "agents" and not asks:
            return None
        full = used + held >= limit.most if asks == 0 else used + held + asks > limit.most
        if not full:
            return None
        if limit.meter == "in_flight" and limit.most >= 1:
            return Later(limit, None)
        return Over(limit, used, held, asks)

    def take(self, taken: Hold, now: float) -> None:
        """Take a hold."""
        self.carry(taken)
        name = taken.capability
        self.in_flight[name] += 1
        self.unwritten.append(taken)
        self._calls[name] += 1
        self._bytes_out[name] += taken.bytes_out
        if self._watching:
            now, amounts = self._at(now), taken.amounts
            for only, meter, window in self._watching:
                if only is None or only == name:
                    window.take(now, amounts[meter])
        self._times.append(now)

    def wrote(self, taken: Hold, at: float) -> None:
        """A hold is in the journal now. It counts in windows from the time that it has there, if that is later."""
        before = self._forget(taken)
        if self._watching and at > before:
            self._move(taken, before, at)

    def wrote_all(self, sent: Sequence[Dispatch]) -> None:
        """All holds are in the journal now. The last of what was `sent` are theirs; if it remembers fewer than there
        are, those of the first ones are missing."""
        taken, times = self.unwritten, self._times
        for hold in taken:
            self._calls[hold.capability] -= 1
            self._bytes_out[hold.capability] -= hold.bytes_out
            if hold.targets:
                self.target(hold)
        if self._watching:
            for index in range(-min(len(taken), len(sent)), 0):
                if sent[index].at > times[index]:
                    self._move(taken[index], times[index], sent[index].at)
        taken.clear()
        times.clear()

    def _move(self, taken: Hold, before: float, at: float) -> None:
        at, amounts, name = self._at(at), taken.amounts, taken.capability
        for only, meter, window in self._watching:
            if only is None or only == name:
                window.move(before, at, amounts[meter])

    def carry(self, taken: Hold) -> None:
        """Hold what a call may still take; it counts as sent already."""
        held, name = self.held, taken.capability
        held["cost_usd"][name] += taken.cost  # nothing, too: these are the capabilities that something is held for
        if taken.bytes_in:
            held["bytes_in"][name] += taken.bytes_in
        if taken.tokens:
            held["tokens"][name] += taken.tokens
        if taken.seconds:
            held["seconds"][name] += taken.seconds  # type: ignore[assignment]

    def undo(self, taken: Hold) -> None:
        """Take a hold back: its attempt was not written."""
        self.settle(taken)
        before, amounts = self._forget(taken), taken.amounts
        for name, meter, window in self._watching:
            if name is None or name == taken.capability:
                window.undo(before, amounts[meter])

    def _forget(self, taken: Hold) -> float:
        """Return the time at which a hold was taken that isn't one of those that aren't written any more."""
        index = self.unwritten.index(taken)
        del self.unwritten[index]
        self._calls[taken.capability] -= 1
        self._bytes_out[taken.capability] -= taken.bytes_out
        return self._times.pop(index)

    def _at(self, now: float) -> float:
        """Return the time from which what is taken now counts in windows."""
        if now > self._latest:
            self._latest = now
        return self._latest

    def settle(self, taken: Hold) -> None:
        """Give a hold back; what the call really took is in the totals by now."""
        self.release(taken)
        self.in_flight[taken.capability] -= 1

    def release(self, taken: Hold) -> None:
        """What was kept came out after all: nothing of it is held any more."""
        held, name = self.held, taken.capability
        held["cost_usd"][name] -= taken.cost
        if taken.bytes_in:
            held["bytes_in"][name] -= taken.bytes_in
        if taken.tokens:
            held["tokens"][name] -= taken.tokens
        if taken.seconds:
            held["seconds"][name] -= taken.seconds  # type: ignore[assignment]

    def target(self, taken: Hold) -> None:
        """Note the values that a sent call had at the pointers that limits look at."""
        for meter, value in taken.targets.items():
            sums = self.seen.setdefault((taken.capability, meter), {}).setdefault(value, [0, 0, 0])
            for index, amount in enumerate((1, taken.bytes_out, taken.cost)):
                sums[index] += amount

    @property
    def values(self) -> int:
        """How many different values at pointers are known, over all capabilities and meters."""
        return sum(map(len, self.seen.values()))

    def _each(self, limit: Limit, value: Digest | None = None) -> int:
        """Return what was taken for one value at a limit's pointer; without one, for the value that took the most."""
        index, name, key = _SUMS.index(limit.meter), limit.capability or "", counts(limit)
        known = self.seen.get((name, key), {})
        coming: Counter[Digest] = Counter()
        for each in self.unwritten:
            if each.capability == name and key in each.targets:
                coming[each.targets[key]] += int(each.of(limit.meter))
        if value is not None:
            return known.get(value, (0, 0, 0))[index] + coming[value]
        most = max((sums[index] for sums in known.values()), default=0)
        return max([most, *(known.get(at, (0, 0, 0))[index] + amount for at, amount in coming.items())])

    def level(self, limit: Limit, now: float | None = None) -> tuple[int | float, int | float]:
        """Return how much of a limit is used and held; with a time, of a window what isn't over then."""
        name = limit.capability
        if limit.by:
            return self._each(limit), 0
        if limit.meter.startswith(DISTINCT):
            return sum(map(len, self._seen(name or "", limit.meter))), 0
        if isinstance(limit.per, float):
            window = self._window(limit, limit.per, now)
            if now is not None:
                window.slide(now)
            return window.level, 0
        names = self._names() if name is None else (name,)
        spent = sum(used(limit.meter, each, self.totals.get(each, _UNUSED), self.agents) for each in names)
        return spent, sum(self._pending(limit.meter, each) for each in names)

    def _seen(self, capability: str, meter: str) -> tuple[Collection[Digest], set[Digest]]:
        """Return the targets of calls that were sent, and the new ones of those that are about to be."""
        known = self.seen.get((capability, meter), {})
        # Asked one by one: a difference of the two would go through all that is known.
        coming = {
            found
            for each in self.unwritten
            if each.capability == capability and (found := each.targets.get(meter)) is not None and found not in known
        }
        return known, coming

    def _distinct(self, limit: Limit, asked: Hold, ended: int | float, given: int | float) -> Over | None:
        known, coming = self._seen(asked.capability, limit.meter)
        mine, count = asked.targets.get(limit.meter, ""), len(known) + len(coming) + ended
        return None if mine in known or mine in coming or count + given < limit.most else Over(limit, count, given, 1)

    def sent(self, dispatch: Dispatch) -> None:
        """Note a dispatch of another process in the windows that are open."""
        if self._watching:
            at = self._at(dispatch.at)
            for name, meter, window in self._watching:
                if name is None or name == dispatch.capability:
                    window.add(at, self._amount(METERED[meter], dispatch))

    def only(self, keys: Iterable[tuple[object, ...]]) -> None:
        """Close the windows of all limits but those with these keys."""
        wanted = set(keys)
        self.windows = {key: window for key, window in self.windows.items() if key in wanted}
        self._watching = [each for each in self._watching if any(each[2] is it for it in self.windows.values())]

    def _amount(self, meter: str, dispatch: Dispatch) -> int | float:
        match meter:
            case "cost_usd":
                return dispatch.cost
            case "bytes_out":
                return dispatch.bytes_out
            case "agents":
                return int(dispatch.capability in self.agents)
            case _:
                return 1

    def _counted(self, limit: Limit, recent: Sequence[Dispatch]) -> tuple[list[float], list[int | float]]:
        """Return the times and the amounts that a window counts of dispatches."""
        name, meter, counted = limit.capability, limit.meter, recent
        at = list(accumulate((each.at for each in recent), max))
        if name is not None:
            at = [time for time, each in zip(at, recent, strict=True) if each.capability == name]
            counted = [each for each in recent if each.capability == name]
        if meter == "calls":
            return at, [1] * len(at)
        if meter == "bytes_out":
            return at, [each.bytes_out for each in counted]
        return at, [self._amount(meter, each) for each in counted]

    def _window(self, limit: Limit, seconds: float, now: float | None = None) -> Window:
        """Return a limit's window. One that has forgotten what counts now, since the clock was set back, is made anew
        from what is remembered."""
        found = self.windows.get(limit.key)
        if found is not None and (now is None or found.knows(now) or found.gone <= self._missing):
            return found
        self._watching = [each for each in self._watching if each[2] is not found]
        recent = list(self.recent)
        made = self.windows[limit.key] = Window.of(seconds, *self._counted(limit, recent))
        made.gone = self._missing
        if recent:
            self._at(max(each.at for each in recent))
        self._watching.append((limit.capability, METERED.index(limit.meter), made))
        for taken, when in zip(self.unwritten, self._times, strict=True):
            if limit.capability in (None, taken.capability):
                made.add(self._at(when), taken.of(limit.meter))
        return made

    @property
    def _missing(self) -> float:
        """The time up to which dispatches may be missing in what is remembered."""
        recent = self.recent
        if self.most_recent is None or not isinstance(recent, Sequence) or len(recent) < self.most_recent:
            return self.since
        oldest: float = recent[0].at
        return max(self.since, oldest)


def used(meter: str, name: str, totals: Totals, agents: Collection[str]) -> int | float:
    """Return what a capability's totals say of a meter."""
    match meter:
        case "calls":
            return totals.calls
        case "agents":
            return totals.calls if name in agents else 0
        case "cost_usd":
            return totals.cost
        case "journal_bytes":
            return totals.bytes_out + totals.bytes_in
        case "journal_records":
            return ENTRIES * totals.calls
        case "in_flight":
            return 0  # what is in flight is held
        case _:
            found: int | float = getattr(totals, meter)
            return found
