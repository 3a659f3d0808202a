"""What a script computes counts, however the turn ends that an answer made possible before anybody had checked it."""

from __future__ import annotations

from collections.abc import Sequence
from types import SimpleNamespace
from typing import Any

import pytest
from tests.unit.broker.test_feed import journal

from addendum import canon
from addendum.broker.feed import FIRST, Feed, main_strand
from addendum.broker.relay import Relay
from addendum.errors import LimitExceeded
from addendum.kernel.calls import Call
from addendum.kernel.loop import Astray, HandOver
from addendum.ports import Answer, Issued, Known, Turn
from addendum.records.history import Record
from addendum.testing.clock import ManualClock


class Session:
    """A script that asks for what the journal has next, and computes for two seconds in every early turn."""

    def __init__(self, record: Record) -> None:
        self.asked = Issued(7, record.identity or "", record.capability, {"n": 1}, 1)
        self.seconds = 0.0
        self.ends: Exception | None = None
        self.early = False

    def advance(self, answer: Answer | None, ahead: Sequence[Known] = ()) -> Turn:
        """Ask."""
        return Turn((self.asked,))

    def send(self, answer: Answer, ahead: Sequence[Known] = ()) -> None:
        """Compute."""
        self.early = True

    def receive(self) -> Turn:
        """End the early turn."""
        self.early, self.seconds = False, 2.0
        if self.ends is not None:
            raise self.ends
        return Turn(())

    def close(self) -> None:
        """End it wherever it is."""
        if self.early:
            self.early, self.seconds = False, 2.0


def relayed() -> tuple[Relay, Session, Record, Any]:
    """Return a relay whose script has an early answer, with its session, that answer's record, and the accounts."""
    found = journal(list(range(FIRST + 1)))
    records = main_strand(found.history.prefix.values())
    record = records[FIRST]
    record.digest = canon.payload_digest(canon.canonical({"n": 1}), 1)
    session, accounts = Session(record), SimpleNamespace(computed=0.0, logged=0)
    relay = Relay(session, Feed(found, records), found, accounts, ManualClock())  # type: ignore[arg-type]
    relay.start()
    assert relay.sent is not None
    assert session.early
    return relay, session, record, accounts


def step(record: Record, number: int = 7) -> HandOver:
    """Return the step that hands a record over."""
    return HandOver(Call(number, record.identity or "", record.capability, None, b"", record.digest), record)


def test_a_turn_that_is_received_counts() -> None:
    relay, _, record, accounts = relayed()
    assert relay.hand(step(record)) == Turn(())
    assert (accounts.computed, relay.sent) == (2.0, None)


@pytest.mark.parametrize("limit", ["turn_seconds", "memory", "calls"])
def test_a_turn_that_ran_into_a_limit_counts(limit: str) -> None:
    """What travelled ahead may have made it too long: then nothing does the next time."""
    relay, session, record, accounts = relayed()
    session.ends = LimitExceeded("too long", hint="Less.", limit=limit)
    if limit == "calls":
        with pytest.raises(LimitExceeded):
            relay.hand(step(record))
    else:
        assert relay.hand(step(record)) == Astray("")
    relay.close()
    assert accounts.computed == 2.0


def test_a_turn_that_is_given_up_counts_when_the_session_is_closed() -> None:
    """The matching came to another call: nobody receives what the script did."""
    relay, _, record, accounts = relayed()
    assert isinstance(relay.hand(step(record, 8)), Astray)
    assert accounts.computed == 0.0
    relay.close()
    assert accounts.computed == 2.0
