"""What is made ahead of time is used once, by whoever asked for the same, or let go of."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from concurrent.futures import Executor, ThreadPoolExecutor

import pytest

from addendum.sandbox import ahead
from addendum.sandbox.ahead import Ahead


class Bench:
    """Makes numbered things, and notes which were let go of."""

    def __init__(self) -> None:
        self.made: list[str] = []
        self.dropped: list[str] = []
        self.may = threading.Event()
        self.may.set()

    def make(self, key: str) -> str:
        assert self.may.wait(10)
        if key == "broken":
            raise OSError(key)
        self.made.append(f"{key}{len(self.made)}")
        return self.made[-1]


@pytest.fixture
def threads() -> Iterator[Executor]:
    """A thread that is gone after the test."""
    with ThreadPoolExecutor(1) as found:
        yield found


def idle(threads: Executor) -> None:
    """Return once the thread has done all that it was asked for, with what follows from it."""
    threads.submit(int).result(10)


def test_what_was_made_is_taken_once(threads: Executor) -> None:
    """The second one has to make its own."""
    bench = Bench()
    things = Ahead(threads, bench.make, bench.dropped.append)
    things.prepare("a")
    things.prepare("a")
    assert (things.take("a"), things.take("a")) == ("a0", None)
    things.close()
    assert (bench.made, bench.dropped) == (["a0"], [])


def test_nobody_waits_for_the_making_but_who_takes(threads: Executor) -> None:
    """`prepare` returns at once; `take` gives the thing, however long it takes."""
    bench = Bench()
    bench.may.clear()
    things = Ahead(threads, bench.make, bench.dropped.append)
    things.prepare("a")
    with ThreadPoolExecutor(1) as other:
        taken = other.submit(things.take, "a")
        assert not bench.made
        assert not taken.done()
        bench.may.set()
        assert taken.result(10) == "a0"
    things.close()


def test_one_thing_is_made_at_a_time(threads: Executor) -> None:
    """While it isn't there yet, nobody else gets a thread for another, whoever wanted the first."""
    bench = Bench()
    bench.may.clear()
    things = Ahead(threads, bench.make, bench.dropped.append)
    things.prepare("a")
    assert things.take("b") is None
    things.prepare("b")
    assert things.take("b") is None
    bench.may.set()
    idle(threads)
    assert (bench.made, bench.dropped) == (["a0"], ["a0"])
    things.prepare("b")
    assert things.take("b") == "b1"
    things.close()


def test_what_does_not_fit_is_let_go_of(threads: Executor) -> None:
    """Another key finds nothing, and leaves nothing behind."""
    bench = Bench()
    things = Ahead(threads, bench.make, bench.dropped.append)
    things.prepare("a")
    assert things.take("b") is None
    idle(threads)
    assert bench.dropped == ["a0"]
    assert things.take("a") is None
    things.close()


def test_what_is_stale_is_made_anew(threads: Executor, monkeypatch: pytest.MonkeyPatch) -> None:
    """Neither is an old thing taken, nor does it keep a new one from being made."""
    monkeypatch.setattr(ahead, "STALE", 0.0)
    bench = Bench()
    things = Ahead(threads, bench.make, bench.dropped.append)
    things.prepare("a")
    assert things.take("a") is None
    idle(threads)
    things.prepare("a")
    idle(threads)
    things.prepare("a")
    idle(threads)
    assert bench.dropped == ["a0", "a1"]
    monkeypatch.setattr(ahead, "STALE", 10.0)
    assert things.take("a") == "a2"
    things.close()


def test_what_cannot_be_made_is_nothing(threads: Executor) -> None:
    """The error is for whoever makes it in earnest."""
    bench = Bench()
    things = Ahead(threads, bench.make, bench.dropped.append)
    things.prepare("broken")
    assert things.take("broken") is None
    things.prepare("a")
    assert things.take("a") == "a0"
    things.close()


def test_the_end_lets_go_of_what_is_there(threads: Executor) -> None:
    """Afterwards nothing is made any more."""
    bench = Bench()
    things = Ahead(threads, bench.make, bench.dropped.append)
    things.prepare("a")
    idle(threads)
    things.close()
    assert bench.dropped == ["a0"]
    things.prepare("a")
    assert things.take("a") is None
    assert bench.made == ["a0"]
