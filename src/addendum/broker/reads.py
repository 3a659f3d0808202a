"""The recorded reads: the only clock and randomness of a script (DESIGN section 2)."""

from __future__ import annotations

import datetime
import uuid

from addendum.canon import Json
from addendum.kernel.calls import Call
from addendum.ports import Clock


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
