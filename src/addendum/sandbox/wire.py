"""Frames between host and worker: four bytes of length, big-endian, then a JSON object with a version.

Nothing that a worker sends is believed before it has its form: a frame that is too large, that isn't JSON, of another
version or out of order is a `ProtocolViolation`.
"""

from __future__ import annotations

import json
import os
import select
import time
from collections.abc import Mapping
from typing import Final

from addendum.canon import Json
from addendum.errors import SandboxCrashed
from addendum.sandbox.paths import refuse

VERSION: Final = 1
CHUNK: Final = 1 << 20


class Late(Exception):
    """The worker didn't answer in time."""


class Wire:
    """The host's end of a worker's two pipes. `read` and `write` are descriptors that it owns."""

    def __init__(self, read: int, write: int, *, largest: int) -> None:
        self._read = read
        self._write = write
        self._largest = largest
        self._buffer = bytearray()
        self._received = 0
        os.set_blocking(write, False)

    def send(self, message: Mapping[str, Json], seconds: float) -> None:
        """Write one frame. Raises `SandboxCrashed` if nobody reads it, `Late` if not in time."""
        data = json.dumps({"v": VERSION, **message}, separators=(",", ":")).encode()
        rest = memoryview(len(data).to_bytes(4, "big") + data)
        deadline = time.monotonic() + seconds
        while rest:
            self._wait(self._write, select.POLLOUT, deadline)
            try:
                rest = rest[os.write(self._write, rest) :]
            except BlockingIOError:
                continue
            except OSError:
                raise SandboxCrashed("The sandbox's worker died.", hint="Run it again; the run goes on.") from None

    def receive(self, deadline: float) -> tuple[str, object, dict[str, object]]:
        """Read one frame: its kind, what it says, and all of it. `deadline` is a time of the monotonic clock.

        Raises `SandboxCrashed`, `ProtocolViolation`, `Late`."""
        size = int.from_bytes(self._exactly(4, deadline), "big")
        if size > self._largest:
            refuse(f"a frame of {size:,} bytes")
        try:
            frame = json.loads(self._exactly(size, deadline))
        except (ValueError, RecursionError):
            refuse("a frame that isn't JSON")
        if not isinstance(frame, dict) or type(frame.get("v")) is not int or frame["v"] != VERSION:
            refuse("a frame of another version")
        if type(frame.get("s")) is not int or frame["s"] != self._received:
            refuse("a frame out of order")
        self._received += 1
        kinds = [kind for kind in ("ready", "say", "wait", "end", "over") if kind in frame]
        if len(kinds) != 1:
            refuse("a frame of no known kind")
        return kinds[0], frame[kinds[0]], frame

    def close(self) -> None:
        """Let go of the pipes."""
        os.close(self._read)
        os.close(self._write)

    def _exactly(self, size: int, deadline: float) -> bytes:
        while len(self._buffer) < size:
            self._wait(self._read, select.POLLIN, deadline)
            part = os.read(self._read, CHUNK)
            if not part:
                raise SandboxCrashed("The sandbox's worker died.", hint="Run it again; the run goes on where it was.")
            self._buffer += part
        data = bytes(self._buffer[:size])
        del self._buffer[:size]
        return data

    def _wait(self, descriptor: int, event: int, deadline: float) -> None:
        poll = select.poll()
        poll.register(descriptor, event)
        if not poll.poll(max(0.0, deadline - time.monotonic()) * 1000):
            raise Late
