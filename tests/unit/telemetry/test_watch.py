"""From events to sinks: a run never waits for them, and never hears of what happens to them."""

from __future__ import annotations

import threading
from typing import Any

import pytest

from addendum.telemetry.watch import Noted, Watch, Watchers


class Kept:
    """A sink that keeps what it takes."""

    def __init__(self) -> None:
        self.noted: list[Noted] = []
        self.ended = False
        self.thread: threading.Thread | None = None

    def take(self, noted: Noted) -> None:
        """Keep it."""
        self.noted.append(noted)
        self.thread = threading.current_thread()

    def end(self) -> None:
        """Remember that."""
        self.ended = True


def test_events_come_in_their_order_with_their_times_on_another_thread() -> None:
    """The time is when it was told, not when it was taken."""
    sink, times = Kept(), iter(range(100))
    watch = Watch(lambda: sink, now=lambda: next(times))
    for number in range(3):
        watch({"event": "log", "run": "r", "n": number})
    assert watch.flush()
    assert [(noted.event["n"], noted.at) for noted in sink.noted] == [(0, 0), (1, 1), (2, 2)]
    assert sink.thread is not threading.current_thread()
    assert watch.close()
    assert sink.ended


def test_content_stays_outside() -> None:
    """Payloads, texts, words of a provider: a sink can't leak what it never gets."""
    sink = Kept()
    watch = Watch(lambda: sink)
    failure = {"code": "refused", "message": "secret words", "retryable": False}
    watch({"event": "settled", "payload": {"a": 1}, "text": "x", "message": "y", "failure": failure})
    watch.close()
    assert sink.noted[0].event == {"event": "settled", "failure": {"code": "refused"}}


def test_a_full_queue_drops_events_and_counts_them() -> None:
    """Nobody waits for room."""
    enter, release = threading.Event(), threading.Event()

    class Slow(Kept):
        def take(self, noted: Noted) -> None:
            enter.set()
            release.wait(30)

    watch = Watch(Slow, most=2)
    watch({"event": "log"})
    enter.wait(30)
    for _ in range(5):
        watch({"event": "log"})
    assert watch.dropped == 3
    assert not watch.flush(0.01)
    assert not watch.close(0.01)
    release.set()


@pytest.mark.parametrize("broken", ["open", "take", "end", "none"])
def test_a_sink_that_raises_is_no_news(broken: str) -> None:
    """One event that breaks it doesn't keep it from the next."""
    taken: list[Any] = []

    class Broken(Kept):
        def take(self, noted: Noted) -> None:
            taken.append(noted)
            if broken == "take":
                raise RuntimeError

        def end(self) -> None:
            if broken == "end":
                raise RuntimeError

    def make() -> Broken | None:
        if broken == "open":
            raise RuntimeError
        return None if broken == "none" else Broken()

    watch = Watch(make)
    watch({"event": "log"})
    watch({"event": "log"})
    assert watch.flush()
    assert watch.close()
    assert len(taken) == (0 if broken in ("open", "none") else 2)


def test_a_watch_that_was_never_told_anything_has_no_thread() -> None:
    """Closing it costs nothing, and after that it takes nothing."""
    before = threading.active_count()
    watch = Watch(Kept)
    assert threading.active_count() == before
    assert watch.flush()
    assert watch.close()
    assert watch.close()
    watch({"event": "log"})
    assert threading.active_count() == before


def test_several_are_one() -> None:
    """Each sees everything."""
    first, second = Kept(), Kept()
    watchers = Watchers((Watch(lambda: first), Watch(lambda: second)))
    watchers({"event": "log"})
    assert watchers.flush()
    watchers.close()
    assert len(first.noted) == len(second.noted) == 1
    assert watchers
    assert not Watchers(())


def test_ends_share_their_patience() -> None:
    """All of them are told to end before the first is waited for; one that comes back later ends in order."""
    release, sinks = threading.Event(), [Kept() for _ in range(3)]

    def hanging(sink: Kept) -> Kept:
        release.wait(30)
        return sink

    watches = [Watch(lambda sink=sink: hanging(sink)) for sink in sinks]  # type: ignore[misc]
    watchers = Watchers(tuple(watches))
    watchers({"event": "log"})
    watchers.close(0.01)
    watchers({"event": "log"})
    release.set()
    assert all(watch.close(30) for watch in watches)
    assert all(sink.ended and len(sink.noted) == 1 for sink in sinks)


def test_an_observer_that_raises_does_not_hide_an_event_from_the_next() -> None:
    """Its exception goes where it would have gone."""
    sink = Kept()

    def angry(event: object) -> None:
        raise RuntimeError("no")

    watchers = Watchers((Watch(lambda: sink),))
    with pytest.raises(RuntimeError):
        watchers.behind(angry)({"event": "log"})
    watchers.close()
    assert len(sink.noted) == 1
    assert Watchers(()).behind(angry) is angry
