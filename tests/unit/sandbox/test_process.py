"""What the host does about a worker of which it knows nothing: one that is late, dies, or speaks for itself."""

from __future__ import annotations

import gc
import sys

import pytest

from addendum.errors import LimitExceeded, ProtocolViolation, SandboxCrashed, UsageError
from addendum.ports import Answer, Limits, Turn
from addendum.records.outcome import Success
from addendum.sandbox.process import Launch, ProcessSession, Workers
from addendum.testing.driving import by_hand

SCRIPT = by_hand('async def orchestrate(ctx, args):\n    await ctx.run("", "orchestrate/a.b#0", "a.b", {})\n')

SPEAK = """
import json, os
def put(**frame):
    data = json.dumps({"v": 1, **frame}).encode()
    os.write(1, len(data).to_bytes(4, "big") + data)
def get():
    size = int.from_bytes(os.read(0, 4), "big")
    data = b""
    while len(data) < size:
        data += os.read(0, size - len(data))
    return json.loads(data)
start = get()["start"]
put(s=0, ready=0)
call = [start["nonce"], "call", "orchestrate/a.b#0", "a.b", "{}", 1, ""]
"""


def session(code: str, limits: Limits | None = None) -> ProcessSession:
    launch = Launch((sys.executable, "-I", "-S", "-c", SPEAK + code))
    return ProcessSession(Workers("test", lambda: launch, 0), SCRIPT, None, limits or Limits(turn_seconds=5), "nonce")


def advance(code: str, limits: Limits | None = None) -> Turn:
    opened = session(code, limits)
    try:
        return opened.advance(None)
    finally:
        opened.close()


def test_a_worker_that_speaks_the_protocol_is_believed() -> None:
    """The other tests of this file change one thing of this one."""
    turn = advance('put(s=1, say=call); put(s=2, wait=1); put(s=3, end="1")')
    assert [type(event).__name__ for event in turn.events] == ["Issued"]


@pytest.mark.parametrize(
    "code",
    [
        'put(s=1, say="call")',
        "put(s=1, say=[])",
        'put(s=1, say=["forged", *call[1:]])',
        "put(s=1, wait=1)",
        "put(s=1, ready=0)",
        'put(s=1, end="1")',
        "put(s=1, end=[1, 2])",
        'put(s=1, end=["ValueError", "x", [["a", 1]], None])',
        'put(s=1, over="disk")',
        "put(s=1, over=None)",
        'put(s=1, say=call); put(s=2, say=[start["nonce"], "end", None, None, None, None, ""]); put(s=3, say=call)',
        "os.write(1, b'\\xff' * 100)",
        "os.write(1, b'HTTP/1.1 200 OK')",
    ],
)
def test_a_message_that_it_may_not_send_ends_the_session(code: str) -> None:
    """Forged, out of order, malformed: the session is over and the worker gone."""
    opened = session(code)
    with pytest.raises(ProtocolViolation):
        opened.advance(None)
    with pytest.raises(UsageError):
        opened.advance(Answer(1, Success(1)))


def test_a_worker_that_dies_has_crashed() -> None:
    """Before it said anything, and between two turns."""
    with pytest.raises(SandboxCrashed):
        advance("os._exit(0)")
    opened = session("put(s=1, say=call); put(s=2, wait=1); os._exit(9)")
    opened.advance(None)
    with pytest.raises(SandboxCrashed):
        opened.advance(Answer(1, Success(1)))


@pytest.mark.slow
def test_a_silent_worker_is_ended() -> None:
    """Wall time is the backstop when the worker's own clock is gone."""
    opened = session("put(s=1, say=call); put(s=2, wait=1); get(); get()", Limits(turn_seconds=0.1))
    opened.advance(None)
    with pytest.raises(LimitExceeded) as caught:
        opened.advance(Answer(1, Success(1)))
    assert caught.value.facts["limit"] == "turn_seconds"


def test_a_line_that_is_over_a_limit_is_named() -> None:
    """The worker says which line of the annotated text it was; any number is taken as a claim."""
    for line, text in ((2, "(line 2)"), (99, "once."), (-1, "once."), ("x", "once.")):
        with pytest.raises(LimitExceeded) as caught:
            advance(f'put(s=1, over="turn_seconds", line={line!r})')
        assert text in str(caught.value)


def test_a_spare_worker_that_died_is_not_used() -> None:
    """A script gets a worker that lives."""
    commands = [("/bin/sh", "-c", "exit 0"), (sys.executable, "-I", "-S", "-c", SPEAK)]
    workers = Workers("test", lambda: Launch(commands.pop(0)), 1)
    workers.refill()
    while not workers._ready:
        pass
    workers._ready[0].process.wait()
    taken = workers.take()
    assert taken.process.poll() is None
    taken.end()
    workers.close()


def test_closing_ends_the_workers_that_wait() -> None:
    """Nothing is left behind."""
    workers = Workers("test", lambda: Launch((sys.executable, "-I", "-S", "-c", SPEAK)), 2)
    taken = workers.take()
    workers.refill()
    while len(workers._ready) < 2:
        pass
    spares = list(workers._ready)
    workers.close()
    assert None not in [spare.process.returncode for spare in spares]
    assert taken.process.returncode is None
    taken.end()
    assert taken.process.returncode is not None


def test_nothing_is_started_after_the_end() -> None:
    """Whoever still wants a worker, in another thread, is told."""
    workers = Workers("test", lambda: Launch((sys.executable, "-I", "-S", "-c", SPEAK)), 0)
    workers.close()
    with pytest.raises(SandboxCrashed, match="was closed"):
        workers.take()


def test_a_session_that_is_forgotten_ends_its_worker() -> None:
    """A host that forgets to close a session doesn't gather workers."""
    opened = session("put(s=1, say=call); put(s=2, wait=1); get()")
    opened.advance(None)
    assert opened._worker is not None
    process = opened._worker.process
    del opened
    gc.collect()
    assert process.returncode is not None
