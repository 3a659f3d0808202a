"""What goes to and fro between a driver of the loop and its session: answers, what travels ahead of them, and turns.

In a replay the script computes while the host checks what it did before. Where a turn ends in the very call that the
journal has next, its answer leaves at once, with what comes after it, and the turn is matched meanwhile. Nothing is
sent on the strength of that: until the matching has come to the same call, a driver neither decides on a call nor waits
for one, and if it comes to another, the execution was led astray and starts again without what led it there
(`addendum.broker.shortcuts`).
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple, Protocol, TypeVar

from addendum import canon
from addendum.broker.feed import Feed, Results
from addendum.errors import LimitExceeded, NotJson
from addendum.kernel.loop import Astray, HandOver
from addendum.ports import Answer, BatchSession, Clock, EarlySession, Issued, Known, Said, Session, Turn
from addendum.records.history import Record

A = TypeVar("A")
OF_A_TURN = frozenset({"turn_seconds", "memory"})
"""Limits of the sandbox that a turn may run into with a batch, or with what travelled ahead of the script, where it
doesn't with one result at a time."""


class Counted(Protocol):
    """Where it counts what a script takes: seconds that it computed, and bytes of text that it logged."""

    computed: float
    logged: int


@dataclass(slots=True)
class Uncounted:
    """Of a script that nobody pays for."""

    computed: float = 0.0
    logged: int = 0


class Sent(NamedTuple):
    """An answer that left early: the identity and the number of the call that it is for, and the seq of its record."""

    identity: str
    call: int
    seq: int


@dataclass(slots=True)
class Relay:
    """One session, with what travels ahead of its script, if anything does. `accounts` count what it takes."""

    session: Session
    feed: Feed | None
    results: Results
    accounts: Counted
    clock: Clock
    sent: Sent | None = field(default=None, init=False)
    """What left early and hasn't been asked for by the matching; until it has, nothing may be decided."""
    _early: EarlySession | None = field(init=False)
    """The session, as long as anything may leave early."""

    def __post_init__(self) -> None:
        self._early = self.session if self.feed is not None and isinstance(self.session, EarlySession) else None

    @property
    def astray(self) -> Astray | None:
        """What a driver that would decide on a call, or wait for one, has to know: the script is ahead of what may be
        decided, which nothing but an answer that left early can lead to."""
        return None if self.sent is None else Astray(self.sent.identity)

    def start(self) -> Turn | Astray:
        """Start the script."""
        return self._turn(self.session.advance, None, self.feed.chunk() if self.feed else ())

    def hand(self, step: HandOver) -> Turn | Astray:
        """Hand results over as a step of the loop says. Raises what the session raises."""
        if self.sent is not None:
            return self._arrived(self.sent, step)
        spend, feed = self.results.spend, self.feed
        first = Answer(step.call.number, spend(step.record)[0])
        if not step.batch:
            return self._turn(self.session.advance, first, feed.after(step.record.seq) if feed else ())
        assert isinstance(self.session, BatchSession)
        answers = [first, *(Answer(call.number, spend(record)[0]) for call, record in step.batch)]
        ahead = feed.after(step.batch[-1][1].seq) if feed else ()
        return self._turn(self.session.advance_all, answers, ahead, Astray(step.call.identity, batch=True))

    def close(self) -> None:
        """Let go of the script, wherever it is. What it computed on the strength of an answer that left early counts,
        too."""
        self.session.close()
        if self.sent is not None and self._early is not None:
            self.accounts.computed += self._early.seconds
            self.sent = None

    def _arrived(self, sent: Sent, step: HandOver) -> Turn | Astray:
        early = self._early
        assert early is not None
        if sent != (step.call.identity, step.call.number, step.record.seq) or step.batch:
            return Astray(sent.identity)
        self.sent = None
        try:
            turn = early.receive()
        except LimitExceeded as error:
            return self._over(error)
        finally:
            self.accounts.computed += early.seconds
        return self._took(turn)

    def _turn(
        self,
        advance: Callable[[A, Sequence[Known]], Turn],
        answer: A,
        ahead: Sequence[Known],
        batch: Astray | None = None,
    ) -> Turn | Astray:
        """Let the script go on. `batch` is the outcome of a batch that is too long for a turn."""
        clock = self.clock
        started = clock.monotonic()
        try:
            turn = advance(answer, ahead)
        except LimitExceeded as error:
            return self._over(error, batch)
        finally:
            self.accounts.computed += clock.monotonic() - started
        return self._took(turn)

    def _over(self, error: LimitExceeded, batch: Astray | None = None) -> Astray:
        """Do without what may have made a turn too long. Raises the error if nothing has."""
        ahead = self.feed is not None and self.feed.next > 0
        if error.facts.get("limit") not in OF_A_TURN or not (batch or ahead):
            raise error
        return batch or Astray("")

    def _took(self, turn: Turn) -> Turn:
        """Count what a script said, and send the next answer if it is known."""
        for event in turn.events:
            if isinstance(event, Said):
                self.accounts.logged += len(event.text.encode("utf-8", "replace"))
        if self._early is not None and turn.end is None:
            self._send(self._early, turn)
        return turn

    def _send(self, session: EarlySession, turn: Turn) -> None:
        assert self.feed is not None
        record, asked = self.feed.next_record, turn.events[-1] if turn.events else None
        if record is None:
            self._early = None
        elif isinstance(asked, Issued) and _asks_for(asked, record):
            outcome = self.results.spend(record)[0]
            session.send(Answer(asked.call, outcome), self.feed.after(record.seq))
            self.feed.fetch()
            self.sent = Sent(asked.identity, asked.call, record.seq)


def _asks_for(asked: Issued, record: Record) -> bool:
    """Say whether a call is, by what it asks for, the one that a record is of. The matching has the last word."""
    if asked.identity != record.identity or asked.capability != record.capability:
        return False
    try:
        return canon.payload_digest(canon.canonical(asked.payload), asked.take) == record.digest
    except NotJson:
        return False
