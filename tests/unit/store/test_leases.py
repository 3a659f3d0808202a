"""When a lease has ended by itself, as facts and nothing else."""

from __future__ import annotations

import pytest

from addendum.store.leases import PERIOD, Held, Process, Stamp, busy, ended, idle, lost

HOLDER = Process(machine="m/b/1", boot="b", host="alpha", pid=7, started="100")
HELD = Held("t", HOLDER, since=0.0, renewed=Stamp(wall=1000.0, ticks=50.0))
SAME_BOOT = Process(machine="m/b/2", boot="b", host="alpha", pid=8, started="200")
OTHER_BOOT = Process(machine="m/c/1", boot="c", host="alpha", pid=8, started="200")
NO_BOOT = Process(machine="alpha", boot="", host="alpha", pid=8, started="")


@pytest.mark.parametrize(
    ("here", "now", "expected"),
    [
        (SAME_BOOT, Stamp(wall=9999.0, ticks=60.0), 10.0),
        (SAME_BOOT, Stamp(wall=0.0, ticks=60.0), 10.0),
        (OTHER_BOOT, Stamp(wall=1010.0, ticks=1.0), 10.0),
        (OTHER_BOOT, Stamp(wall=900.0, ticks=1.0), -100.0),
        (NO_BOOT, Stamp(wall=1010.0, ticks=1.0), 10.0),
    ],
)
def test_which_clock_tells_idle_time(here: Process, now: Stamp, expected: float) -> None:
    """Within one boot the monotonic clock tells, across boots the wall clock."""
    assert expected == idle(HELD, here, now)


def test_unknown_boots_are_not_the_same_boot() -> None:
    """Where no boot is known, monotonic times are never compared."""
    held = Held("t", NO_BOOT, since=0.0, renewed=Stamp(wall=1000.0, ticks=50.0))

    assert idle(held, NO_BOOT, Stamp(wall=1001.0, ticks=500.0)) == 1.0


@pytest.mark.parametrize(("seconds", "expected"), [(PERIOD, True), (PERIOD - 0.01, False), (-5.0, False)])
def test_a_lease_ends_after_its_period(seconds: float, expected: bool) -> None:
    """A live or unknown holder is given up after the period; a stamp in the future ends nothing."""
    assert expected is ended(HELD, OTHER_BOOT, Stamp(wall=1000.0 + seconds, ticks=0.0), gone=False)


def test_a_dead_holder_is_given_up_at_once() -> None:
    """A process that is gone drives nothing, however fresh its stamp is."""
    assert ended(HELD, SAME_BOOT, HELD.renewed, gone=True)


def test_a_busy_run_can_be_cancelled() -> None:
    """The way out names the command that ends it cleanly."""
    assert "`addendum cancel r`" in busy("r", HELD).hint


def test_errors_name_the_holder() -> None:
    """Who is in the way, where and since when stands in the message and in the facts."""
    assert "process 7 on alpha since 1970-01-01T00:00:00Z" in busy("r", HELD).message
    assert "process 7 on alpha took over" in lost("r", HELD).message
    assert "given back" in lost("r", None).message
    assert "s after 1970" in busy("r", Held("t", HOLDER, 1e300, HELD.renewed)).message
