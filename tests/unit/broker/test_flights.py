"""Calls that wait: for an answer, for room, for time, for a person."""

from __future__ import annotations

from typing import Any

from addendum.authority.catalog import Capability
from addendum.broker.flights import Flights
from addendum.kernel.calls import Call
from addendum.kernel.decide import Execute

MAKE = Capability(name="art.make", effect="paid")


def call(identity: str) -> Call:
    """Return a call at an identity."""
    return Call(1, identity, "art.make", {}, b"{}", "digest")


def test_what_is_due_comes_in_order_and_once() -> None:
    """Two at the same moment come as they were set."""
    flights = Flights()
    for due, name in ((3.0, "c"), (1.0, "a"), (1.0, "b"), (9.0, "d")):
        flights.at(due, call(name))
    assert [timer.call.identity for timer in flights.due(3.0)] == ["a", "b", "c"]
    assert flights.due(3.0) == []
    assert flights.coming


def test_nothing_comes_but_from_a_person_when_only_questions_are_left() -> None:
    """A question is nothing that comes by itself."""
    flights = Flights()
    assert not flights.coming
    flights.asked[1] = call("a")
    assert not flights.coming
    queued: Any = (Execute(call("b")), MAKE, 1)
    flights.queue.append(queued)
    assert flights.coming


def test_what_nobody_waits_for_any_more_is_forgotten_unless_it_was_sent() -> None:
    """A race's losers: queued, asleep, asked, blocked."""
    flights = Flights()
    for name in ("lost", "kept"):
        queued: Any = (Execute(call(name)), MAKE, 1)
        flights.queue.append(queued)
        flights.at(5.0 if name == "kept" else 1.0, call(name))
        flights.asked[len(flights.asked)] = call(name)
    flights.drop({"lost"})
    assert [each[0].call.identity for each in flights.queue] == ["kept"]
    assert [timer.call.identity for timer in flights.due(9.0)] == ["kept"]
    assert [asked.identity for asked in flights.asked.values()] == ["kept"]
