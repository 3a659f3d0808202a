"""Calls that were sent and have no answer yet, and those that wait for room, for time, or for a person."""

from __future__ import annotations

import heapq
from collections import deque
from collections.abc import Set
from dataclasses import dataclass, field, replace

from addendum.authority.accounts import Hold, Over
from addendum.authority.catalog import Capability
from addendum.kernel.calls import Call
from addendum.kernel.decide import Execute
from addendum.records.entries import Attempt


@dataclass(slots=True)
class Flight:
    """A call in flight: its decision, its hold, how often it was tried with this one, its attempt as it was written,
    and when it is given up at the latest (on the monotonic clock)."""

    decision: Execute
    capability: Capability
    hold: Hold
    tries: int
    attempt: Attempt
    overdue: float

    @property
    def call(self) -> Call:
        """The call itself."""
        return self.decision.call

    @property
    def declared(self) -> Capability:
        """The capability with the most tokens that were held for this call, which is what it may report."""
        if self.capability.most_tokens is not None or not self.hold.tokens:
            return self.capability
        return replace(self.capability, most_tokens=self.hold.tokens)


@dataclass(order=True, slots=True)
class Timer:
    """Something that is due at a time of the monotonic clock: a sleep's end, or a retry."""

    due: float
    number: int
    call: Call = field(compare=False)
    flight: Flight | None = field(compare=False, default=None)
    attempt: int = field(compare=False, default=0)


@dataclass(slots=True)
class Flights:
    """Everything of a drive that isn't settled. Keyed by identity, which is unique among pending calls."""

    flying: dict[int, Flight] = field(default_factory=dict)
    """By attempt number."""
    queue: deque[tuple[Execute, Capability, int]] = field(default_factory=deque)
    """Admitted by the rule, waiting for room under a limit on concurrency or on time; for the so manieth try."""
    blocked: list[tuple[Call, Over]] = field(default_factory=list)
    """Over a limit of the grant: not sent until the grant is changed."""
    asked: dict[int, Call] = field(default_factory=dict)
    """Waiting for a person, by the attempt's seq."""
    gated: dict[int, tuple[Execute, Capability]] = field(default_factory=dict)
    """Waiting for a person's word, since a rule of the grant asks for it; by the question's seq."""
    timers: list[Timer] = field(default_factory=list)
    lost: dict[int, Flight] = field(default_factory=dict)
    """Side-effecting calls whose outcome isn't known, by attempt number."""
    later: float | None = None
    """When the first queued call has room again, on the wall clock."""
    gone: set[str] = field(default_factory=set)
    """Identities of a race's losers: what of them is in flight is taken as it comes, and nothing of them is sent."""
    _count: int = 0

    def at(self, due: float, call: Call, flight: Flight | None = None, attempt: int = 0) -> None:
        """Set a timer."""
        self._count += 1
        heapq.heappush(self.timers, Timer(due, self._count, call, flight, attempt))

    def due(self, now: float) -> list[Timer]:
        """Take the timers that are due."""
        found = []
        while self.timers and self.timers[0].due <= now:
            found.append(heapq.heappop(self.timers))
        return found

    def drop(self, gone: Set[str]) -> None:
        """Forget the calls that nobody waits for any more, as far as they weren't sent: a race's losers."""
        self.gone.update(gone)
        self.queue = deque(each for each in self.queue if each[0].call.identity not in gone)
        self.timers = [timer for timer in self.timers if timer.call.identity not in gone]
        heapq.heapify(self.timers)
        self.blocked = [each for each in self.blocked if each[0].identity not in gone]
        self.asked = {seq: call for seq, call in self.asked.items() if call.identity not in gone}
        self.gated = {seq: each for seq, each in self.gated.items() if each[0].call.identity not in gone}

    @property
    def coming(self) -> bool:
        """Whether anything can come without a person or a changed grant."""
        return bool(self.flying or self.timers or self.queue)
