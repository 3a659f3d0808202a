"""The loop with a driver that sends nothing: a candidate is replayed over P, and new work waits (DESIGN section 6)."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Protocol

from addendum.canon import Json
from addendum.kernel.calls import Call, raced
from addendum.kernel.loop import (
    PRETENDED,
    Astray,
    Bind,
    Finished,
    HandOver,
    Held,
    Loop,
    Reply,
    Settle,
    Start,
    Suspended,
    Wait,
)
from addendum.ports import Answer, End, Session, Turn
from addendum.records.history import Record
from addendum.records.outcome import Outcome

_TRANSIENT = 1 << 60
"""Sequence numbers of what a shadow makes up: a sleep that is over, a race's winner. Above every real one."""


class Carrier(Protocol):
    """What carries results to a session, and turns back."""

    @property
    def astray(self) -> Astray | None:
        """Set while the script is ahead of what may be decided."""

    def start(self) -> Turn | Astray:
        """Start the script."""

    def hand(self, step: HandOver) -> Turn | Astray:
        """Hand results over as a step of the loop says."""


@dataclass(frozen=True, slots=True)
class OneByOne:
    """Carries one result at a time, and nothing ahead. `outcome` reads a record's."""

    session: Session
    outcome: Callable[[Record], Outcome]
    astray: None = None

    def start(self) -> Turn:
        """Start the script."""
        return self.session.advance(None)

    def hand(self, step: HandOver) -> Turn:
        """Hand a result over."""
        return self.session.advance(Answer(step.call.number, self.outcome(step.record)))


@dataclass(slots=True)
class Shadow:
    """What a candidate does over P. `frontier` are its new calls, in order; `end` is set if it came to its end."""

    loop: Loop
    frontier: tuple[Call, ...] = ()
    end: End | None = None
    moved: list[tuple[Call, Record]] = field(default_factory=list)
    late: set[int] = field(default_factory=set)
    """Those of `moved` that were claimed when nothing else could go on."""
    pending: tuple[Call, ...] = ()
    """All calls that wait, recorded reads too."""
    pretended: list[tuple[Call, Json]] = field(default_factory=list)


def shadow(
    loop: Loop,
    carrier: Carrier,
    made_up: dict[int, Json],
    pretend: frozenset[str] = PRETENDED,
) -> Shadow | Astray:
    """Replay a candidate. What is in `pretend` is answered without a record, as its answer depends on nothing outside:
    these results are put into `made_up`, by the sequence number that stands for a record's, before they are handed
    over. A sleep is over when nothing else can go on, unless it is in a race with a branch that waits for new work.
    Returns what led the script astray, if anything did. Raises what the session raises."""
    found = Shadow(loop)
    held: set[int] = set()
    asleep: list[Call] = []
    steps = loop.run()
    reply: Reply = None
    while True:
        try:
            request = steps.send(reply)
        except StopIteration as stop:
            match stop.value:
                case Finished(end):
                    found.end = end
                case Suspended(calls):
                    found.pending = calls
                    found.frontier = tuple(call for call in calls if not call.is_read)
                case Astray() as astray:
                    return astray
                case other:
                    raise AssertionError(f"a shadow can't end as {other!r}") from None
            return found
        if isinstance(request, Settle | Wait) and carrier.astray is not None:
            steps.close()
            return carrier.astray
        match request:
            case Start():
                reply = carrier.start()
            case HandOver():
                reply = carrier.hand(request)
            case Bind(claims, late):
                found.moved.extend(claims)
                if late:
                    found.late.update(record.seq for _, record in claims)
                reply = None
            case Settle(calls):
                held.update(call.number for call in calls if not call.is_read or call.capability not in pretend)
                asleep.extend(call for call in calls if call.capability == "ctx.sleep" and call.capability in pretend)
                now = [call for call in calls if call.capability in pretend and call.capability != "ctx.sleep"]
                reply = [_pretend(call, made_up, found) for call in now] or Held()
            case Wait():
                waiting = [call for call in loop.pending.values() if call.number in held]
                over = [call for call in asleep if call.number in loop.pending and not raced(call, waiting)]
                asleep = [call for call in asleep if call not in over]
                reply = [_pretend(call, made_up, found) for call in over]


def _pretend(call: Call, made_up: dict[int, Json], found: Shadow) -> Record:
    """Go on behind a sleep and a race: their answers don't depend on anything outside."""
    seq = _TRANSIENT + len(made_up)
    made_up[seq] = call.payload if call.capability == "ctx.race" else None
    found.pretended.append((call, made_up[seq]))
    return Record(seq, call.identity, call.identity, call.capability, "", call.digest, True, 0, 0, 0, 0, 0)
