"""The recorded reads: the only clock and randomness of a script (DESIGN section 2)."""

from __future__ import annotations

import datetime
import uuid
from collections.abc import Mapping
from typing import Any, Final

from addendum.canon import MAX_INT, Json
from addendum.kernel.calls import Call
from addendum.ports import Clock
from addendum.records.stored import Entry

DURABLE: Final = 1.0
"""Seconds from which on it is written down when a sleep ends: after a crash a shorter one begins anew."""


def read(call: Call, clock: Clock) -> Json:
    """Return the value of a recorded read: ISO text (UTC, microseconds), a float in [0, 1), a UUID's text, or the
    race's winner as the script found it. A sleep's is None, when it is over."""
    match call.capability:
        case "ctx.now":
            return datetime.datetime.fromtimestamp(clock.now(), datetime.UTC).isoformat()
        case "ctx.random":
            return clock.random()
        case "ctx.uuid":
            return str(uuid.UUID(hex=clock.token(), version=4))
        case "ctx.race":
            return call.payload
        case _:
            return None


def sleep(call: Call, known: Mapping[str, Any] | None, clock: Clock) -> tuple[float, Entry | None]:
    """Return how many seconds of a sleep are left, and what is to be written down of it if it begins now. `known` is
    what was: one that another process began goes on where it was; a clock that was set back doesn't make it longer."""
    seconds = call.payload.get("seconds", 0) if isinstance(call.payload, dict) else 0
    if not isinstance(seconds, int | float) or seconds < DURABLE:
        return float(seconds) if isinstance(seconds, int | float) else 0.0, None
    now = clock.now()
    if known is not None and known["digest"] == call.digest:
        return float(min(seconds, known["until_ms"] / 1000 - now)), None
    until = round((now + seconds) * 1000)
    if until > MAX_INT:
        return float(seconds), None
    return float(seconds), Entry("sleep", {"identity": call.identity, "digest": call.digest, "until_ms": until})
