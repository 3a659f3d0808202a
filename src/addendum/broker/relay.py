"""What goes to and fro between a drive and its session: answers, what travels ahead of them, and turns.

In a replay the script computes while the host checks what it did before. Where a turn ends in the very call that the
journal has next, its answer leaves at once, with what comes after it, and the turn is matched meanwhile. Nothing is
sent on the strength of that: until the matching has come to the same call, a drive neither decides on a call nor waits
for one, and if it comes to another, the execution was led astray and starts again without what travels ahead.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple, TypeVar

from addendum import canon
from addendum.authority.accounts import Accounts
from addendum.broker.feed import Feed
from addendum.broker.journal import Journal
from addendum.errors import LimitExceeded, NotJson
from addendum.kernel.loop import Astray, HandOver
from addendum.ports import Answer, BatchSession, Clock, EarlySession, Issued, Known, Said, Session, Turn
from addendum.records.history import Record

A = TypeVar("A")
OF_A_TURN = frozenset({"turn_seconds", "memory"})
"""Limits of the sandbox that a batch may run into where its results, one at a time, don't."""


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
    journal: Journal
    accounts: Accounts
    clock: Clock
    sent: Sent | None = field(default=None, init=False)
    """What left early and hasn't been asked for by the matching; until it has, nothing may be decided."""
    _early: EarlySession | None = field(init=False)
    """The session, as long as anything may leave early."""

    def __post_init__(self) -> None:
        self._early = self.session if self.feed is not None and isinstance(self.session, EarlySession) else None

    def start(self) -> Turn:
        """Start the script."""
        return self._turn(self.session.advance, None, self.feed.chunk() if self.feed else ())

    def hand(self, step: HandOver) -> Turn | Astray:
        """Hand results over as a step of the loop says. Raises what the session raises."""
        if self.sent is not None:
            return self._arrived(self.sent, step)
        spend, feed = self.journal.spend, self.feed
        first = Answer(step.call.number, spend(step.record)[0])
        if not step.batch:
            return self._turn(self.session.advance, first, feed.after(step.record.seq) if feed else ())
        assert isinstance(self.session, BatchSession)
        answers = [first, *(Answer(call.number, spend(record)[0]) for call, record in step.batch)]
        ahead = feed.after(step.batch[-1][1].seq) if feed else ()
        try:
            return self._turn(self.session.advance_all, answers, ahead)
        except LimitExceeded as error:
            if error.facts.get("limit") not in OF_A_TURN:
                raise
            return Astray(step.call.identity, batch=True)

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
            return Astray(step.call.identity)
        self.sent = None
        try:
            turn = early.receive()
        finally:
            self.accounts.computed += early.seconds
        return self._took(turn)

    def _turn(self, advance: Callable[[A, Sequence[Known]], Turn], answer: A, ahead: Sequence[Known]) -> Turn:
        """Let the script go on."""
        clock = self.clock
        started = clock.monotonic()
        try:
            turn = advance(answer, ahead)
        finally:
            self.accounts.computed += clock.monotonic() - started
        return self._took(turn)

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
            outcome = self.journal.spend(record)[0]
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
