"""Recorded reads: what each is settled with."""

from __future__ import annotations

import datetime
import uuid

from addendum.broker.reads import read
from addendum.canon import Json
from addendum.kernel.calls import Call
from addendum.testing.clock import ManualClock


def settled(capability: str, payload: Json = None) -> Json:
    """Return the value of a read."""
    return read(Call(1, f"orchestrate/{capability}#0", capability, payload, b"", ""), ManualClock(1_000_000_000.25))


def test_each_read_has_its_form() -> None:
    """ISO text in UTC, a float in [0, 1), a UUID of version 4, nothing for a sleep, the script's winner for a race."""
    now = settled("ctx.now")
    assert isinstance(now, str)
    assert datetime.datetime.fromisoformat(now).timestamp() == 1_000_000_000.25
    assert now.endswith("+00:00")
    lot = settled("ctx.random")
    assert isinstance(lot, float)
    assert 0 <= lot < 1
    name = settled("ctx.uuid")
    assert isinstance(name, str)
    assert uuid.UUID(name).version == 4
    assert settled("ctx.sleep", {"seconds": 5}) is None
    assert settled("ctx.race", {"winner": 2}) == {"winner": 2}
