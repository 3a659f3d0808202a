"""Who drives a run: when a lease has ended by itself, decided from facts alone.

A journal is kept whole by the token that `append` checks, not by what is decided here: of two processes that both
think they drive a run, one can write. What is decided here is when a process that may still live is given up.

Within one boot of one kernel, idle time is told by the monotonic clock, which nobody can set. Else it is told by the
wall clock. If that was set back, a stamp lies in the future: then it counts as made now, and is written so, which
costs a contender one more period and never takes a run from a live driver.
"""

from __future__ import annotations

from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Final

from addendum.errors import LeaseLost, RunBusy

PERIOD: Final = 60.0
"""Seconds without renewal after which a lease ends, whoever holds it."""


@dataclass(frozen=True, slots=True)
class Process:
    """A process as others can recognise it.

    `machine` names kernel, boot and pid namespace: only within it does a pid mean anything. `boot` names the boot
    alone: only within it can monotonic times be compared ("" if that isn't known). `started` tells two processes
    apart that had the same pid, `host` is for people."""

    machine: str
    boot: str
    host: str
    pid: int
    started: str


@dataclass(frozen=True, slots=True)
class Stamp:
    """A moment: `wall` in seconds since 1970, `ticks` on the monotonic clock of the boot."""

    wall: float
    ticks: float


@dataclass(frozen=True, slots=True)
class Held:
    """A lease as it is kept. `since` is in seconds since 1970."""

    token: str
    holder: Process
    since: float
    renewed: Stamp


def idle(held: Held, here: Process, now: Stamp) -> float:
    """Return for how many seconds a lease wasn't renewed; negative if its stamp lies in the future."""
    if held.holder.boot and held.holder.boot == here.boot:
        return now.ticks - held.renewed.ticks
    return now.wall - held.renewed.wall


def ended(held: Held, here: Process, now: Stamp, *, gone: bool) -> bool:
    """Say whether a lease has ended by itself. `gone`: its holder was a process of this machine and lives no more."""
    return gone or idle(held, here, now) >= PERIOD


def busy(run: str, held: Held) -> RunBusy:
    """Return the error for a run that a live process drives."""
    since = _iso(held.since)
    return RunBusy(
        f"The run {run} is driven by process {held.holder.pid} on {held.holder.host} since {since}.",
        hint=f"Wait until it is done, or ask for its clean end with `addendum cancel {run}`. If that process is "
        f"cut off, its lease ends after {PERIOD:.0f} s.",
        run=run,
        pid=held.holder.pid,
        host=held.holder.host,
        since=since,
    )


def lost(run: str, held: Held | None) -> LeaseLost:
    """Return the error for a driver that isn't the run's any more."""
    hint = "Nothing was written. Start the run again; it goes on from its journal."
    if held is None:
        return LeaseLost(f"This process no longer drives the run {run}: its lease was given back.", hint=hint, run=run)
    since = _iso(held.since)
    return LeaseLost(
        f"This process no longer drives the run {run}: process {held.holder.pid} on {held.holder.host} took over at"
        f" {since}.",
        hint=hint,
        run=run,
        pid=held.holder.pid,
        host=held.holder.host,
        since=since,
    )


def _iso(seconds: float) -> str:
    try:
        return datetime.fromtimestamp(seconds, UTC).isoformat(timespec="seconds").replace("+00:00", "Z")
    except (ValueError, OverflowError, OSError):
        return f"{seconds:.0f} s after 1970"
