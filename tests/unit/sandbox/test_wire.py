"""Frames from a worker are held to their form before anything in them is believed."""

from __future__ import annotations

import json
import os
import time
from collections.abc import Iterator

import pytest

from addendum.errors import ProtocolViolation, SandboxCrashed
from addendum.sandbox.wire import Late, Wire


class Pair:
    """A wire and the worker's ends of it."""

    def __init__(self) -> None:
        read, self.write = os.pipe()
        self.read, write = os.pipe()
        self.wire = Wire(read, write, largest=1000)

    def put(self, frame: object, *, size: int | None = None) -> None:
        data = frame if isinstance(frame, bytes) else json.dumps(frame).encode()
        os.write(self.write, (len(data) if size is None else size).to_bytes(4, "big") + data)

    def get(self) -> tuple[str, object, dict[str, object]]:
        return self.wire.receive(time.monotonic() + 5)


@pytest.fixture
def pair() -> Iterator[Pair]:
    pair = Pair()
    yield pair
    pair.wire.close()
    for descriptor in (pair.read, pair.write):
        try:
            os.close(descriptor)
        except OSError:
            pass  # the test closed it


def test_frames_arrive_in_order_however_they_are_cut(pair: Pair) -> None:
    """Two frames in one write, one frame in two."""
    pair.put({"v": 1, "s": 0, "say": [1]})
    pair.put({"v": 1, "s": 1, "wait": 0})
    assert pair.get()[:2] == ("say", [1])
    assert pair.get()[:2] == ("wait", 0)


@pytest.mark.parametrize(
    "frame",
    [
        b"{",
        b"\xff",
        b"[1]",
        b"1",
        b"[" * 900,
        {},
        {"v": 2, "s": 0, "wait": 0},
        {"v": True, "s": 0, "wait": 0},
        {"s": 0, "wait": 0},
        {"v": 1, "s": 1, "wait": 0},
        {"v": 1, "s": False, "wait": 0},
        {"v": 1, "wait": 0},
        {"v": 1, "s": 0},
        {"v": 1, "s": 0, "shell": 1},
        {"v": 1, "s": 0, "wait": 0, "end": ""},
    ],
)
def test_a_malformed_frame_is_a_violation(pair: Pair, frame: object) -> None:
    """Not JSON, another version, out of order, of no kind or of two."""
    pair.put(frame)
    with pytest.raises(ProtocolViolation):
        pair.get()


def test_a_frame_that_is_too_large_is_not_read(pair: Pair) -> None:
    """Its length is enough to refuse it."""
    pair.put({"v": 1}, size=1001)
    with pytest.raises(ProtocolViolation):
        pair.get()


def test_a_frame_that_was_sent_twice_is_a_violation(pair: Pair) -> None:
    """Frames are counted."""
    pair.put({"v": 1, "s": 0, "say": [1]})
    pair.put({"v": 1, "s": 0, "say": [1]})
    pair.get()
    with pytest.raises(ProtocolViolation):
        pair.get()


def test_a_worker_that_is_gone_has_crashed(pair: Pair) -> None:
    """Also in the middle of a frame, and when it is written to."""
    pair.put(b"half", size=100)
    os.close(pair.write)
    with pytest.raises(SandboxCrashed):
        pair.get()
    os.close(pair.read)
    with pytest.raises(SandboxCrashed):
        pair.wire.send({"call": 1}, 5)


def test_a_worker_that_says_nothing_is_late(pair: Pair) -> None:
    """Neither a silent worker nor one that doesn't read can hold the host."""
    with pytest.raises(Late):
        pair.wire.receive(time.monotonic() - 1)
    with pytest.raises(Late):
        pair.wire.send({"x": "y" * 10**6}, 0.01)


def test_what_the_host_sends_is_framed(pair: Pair) -> None:
    """Length, then JSON with the version."""
    pair.wire.send({"call": 1, "answer": "é"}, 5)
    size = int.from_bytes(os.read(pair.read, 4), "big")
    assert json.loads(os.read(pair.read, size)) == {"v": 1, "call": 1, "answer": "é"}
