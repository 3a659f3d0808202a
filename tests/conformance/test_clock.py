"""What every clock has to do."""

from __future__ import annotations

import re
import threading

import pytest

from addendum.clock import SystemClock
from addendum.ports import Clock
from addendum.testing import ManualClock


@pytest.fixture(params=[SystemClock, ManualClock, lambda: ManualClock(tick=0.25)], ids=["system", "manual", "ticking"])
def clock(request: pytest.FixtureRequest) -> Clock:
    """One clock after the other."""
    made: Clock = request.param()
    return made


def test_now(clock: Clock) -> None:
    """The wall clock gives seconds since 1970, in this century."""
    assert 1_700_000_000 < clock.now() < 4_200_000_000


def test_monotonic(clock: Clock) -> None:
    """The monotonic clock never goes back."""
    readings = [clock.monotonic() for _ in range(100)]
    assert readings == sorted(readings)


def test_random(clock: Clock) -> None:
    """Random numbers are in [0, 1), and not all the same."""
    drawn = [clock.random() for _ in range(100)]
    assert all(0 <= number < 1 for number in drawn)
    assert len(set(drawn)) > 90


def test_token(clock: Clock) -> None:
    """Tokens are 32 hexadecimal digits, and no two are equal, from several threads too."""
    tokens: list[str] = []
    threads = [threading.Thread(target=lambda: tokens.extend(clock.token() for _ in range(50))) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert all(re.fullmatch(r"[0-9a-f]{32}", token) for token in tokens)
    assert len(set(tokens)) == 200


def test_manual_clock_moves_when_told() -> None:
    """A manual clock stands still until it is moved; the wall clock can be turned back, the other can't."""
    clock = ManualClock(1_800_000_000.0)
    assert (clock.now(), clock.monotonic()) == (1_800_000_000.0, 0.0)
    clock.advance(2.5)
    assert (clock.now(), clock.monotonic()) == (1_800_000_002.5, 2.5)
    clock.set(1_700_000_001.0)
    assert (clock.now(), clock.monotonic()) == (1_700_000_001.0, 2.5)
    with pytest.raises(ValueError, match="time goes on"):
        clock.advance(-1)


def test_manual_clock_repeats_itself() -> None:
    """Two manual clocks of one seed draw the same; another seed draws otherwise."""
    one, two, other = ManualClock(seed=1), ManualClock(seed=1), ManualClock(seed=2)
    assert [one.token(), one.random()] == [two.token(), two.random()]
    assert one.token() != other.token()
