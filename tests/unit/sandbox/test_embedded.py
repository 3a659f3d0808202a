"""Monty's backend where the machine isn't as wished: no bubblewrap, no free worker, a limit that can't be."""

from __future__ import annotations

import time
from pathlib import Path

import pytest
from tests.sandboxes import need

from addendum.errors import LimitExceeded, SandboxCrashed, SandboxMissing, UsageError
from addendum.ports import Answer, Limits, Returned
from addendum.records.outcome import Success
from addendum.sandbox import confine
from addendum.sandbox.embedded import EmbeddedSandbox
from addendum.testing.driving import by_hand, drive

SCRIPT = by_hand('async def orchestrate(ctx, args):\n    return await ctx.run("", "orchestrate/a.b#0", "a.b", {})\n')


def nothing() -> tuple[str | None, str]:
    return None, "bubblewrap isn't installed"


def test_without_bubblewrap_the_worker_is_plain_and_says_so() -> None:
    """Monty itself is the boundary then."""
    sandbox = EmbeddedSandbox(look=nothing)
    assert drive(sandbox, SCRIPT)[1] == Returned({"got": {}})
    assert not sandbox.confined
    assert sandbox.describe().endswith("worker not confined: bubblewrap isn't installed")
    sandbox.close()


def test_confinement_can_be_required() -> None:
    """Then a missing bubblewrap is an error that says what to install."""
    sandbox = EmbeddedSandbox(require_confined=True, look=nothing)
    with pytest.raises(SandboxMissing, match="bubblewrap"):
        sandbox.open(SCRIPT, None, limits=Limits(), nonce="n")
    sandbox.close()


def test_with_bubblewrap_the_worker_is_confined() -> None:
    """It says so, too."""
    need("bwrap")
    sandbox = EmbeddedSandbox(require_confined=True)
    assert drive(sandbox, SCRIPT)[1] == Returned({"got": {}})
    assert sandbox.confined
    assert sandbox.describe().endswith("under bubblewrap")
    sandbox.close()


def test_a_script_waits_for_a_worker_and_not_for_ever() -> None:
    """The pool has an end."""
    sandbox = EmbeddedSandbox(max_workers=1, wait_seconds=0.05)
    session = sandbox.open(SCRIPT, None, limits=Limits(), nonce="n")
    with pytest.raises(SandboxCrashed, match="No worker was free"):
        sandbox.open(SCRIPT, None, limits=Limits(), nonce="n")
    session.close()
    assert drive(sandbox, SCRIPT)[1] == Returned({"got": {}})
    sandbox.close()


def test_a_turn_longer_than_the_pool_waits_is_refused() -> None:
    """Its worker would be ended in the middle."""
    sandbox = EmbeddedSandbox()
    with pytest.raises(UsageError):
        sandbox.open(SCRIPT, None, limits=Limits(turn_seconds=10_000), nonce="n")
    sandbox.close()


def test_a_closed_sandbox_opens_nothing() -> None:
    """Closing twice is fine."""
    sandbox = EmbeddedSandbox()
    sandbox.close()
    sandbox.close()
    with pytest.raises(SandboxMissing):
        sandbox.open(SCRIPT, None, limits=Limits(), nonce="n")


def test_a_sandbox_that_is_closed_while_a_worker_is_asked_for_says_so(monkeypatch: pytest.MonkeyPatch) -> None:
    """By another thread, once the pool was found."""
    sandbox = EmbeddedSandbox(look=nothing)
    found = sandbox._start

    def closed_then() -> object:
        pool = found()
        sandbox.close()
        return pool

    monkeypatch.setattr(sandbox, "_start", closed_then)
    with pytest.raises(SandboxCrashed, match="was closed"):
        sandbox.open(SCRIPT, None, limits=Limits(), nonce="n")


def gone(pid: int) -> bool:
    """Say whether a process ends within some seconds."""
    for _ in range(3000):
        if not Path(f"/proc/{pid}").exists():
            return True
        time.sleep(0.01)
    return False


def test_a_session_that_was_prepared_is_as_good_as_any() -> None:
    """It is the one that `open` gives, and the next one is another."""
    sandbox = EmbeddedSandbox(max_workers=1, wait_seconds=5)
    sandbox.prepare(Limits())
    session = sandbox.open(SCRIPT, None, limits=Limits(), nonce="n")
    assert session._ready
    session.close()
    sandbox.prepare(Limits())
    assert drive(sandbox, SCRIPT)[1] == Returned({"got": {}})
    assert drive(sandbox, SCRIPT)[1] == Returned({"got": {}})
    sandbox.close()


def test_a_prepared_session_keeps_no_worker_from_another_script() -> None:
    """With other limits it can't be used: its worker is given back."""
    sandbox = EmbeddedSandbox(max_workers=1, wait_seconds=5)
    sandbox.prepare(Limits(total_seconds=7.0))
    assert drive(sandbox, SCRIPT)[1] == Returned({"got": {}})
    sandbox.close()


def test_what_goes_wrong_in_preparing_is_seen_by_open() -> None:
    """The error is the one that there is without it."""
    sandbox = EmbeddedSandbox(require_confined=True, look=nothing)
    sandbox.prepare(Limits())
    with pytest.raises(SandboxMissing, match="bubblewrap"):
        sandbox.open(SCRIPT, None, limits=Limits(), nonce="n")
    sandbox.close()


def test_a_prepared_session_that_nobody_wants_ends_with_the_sandbox() -> None:
    """Its worker ends, too."""
    sandbox = EmbeddedSandbox(max_workers=1, wait_seconds=5)
    session = sandbox.open(SCRIPT, None, limits=Limits(), nonce="n")
    pid = session.pid
    assert pid is not None
    session.close()
    sandbox.prepare(Limits())
    sandbox.close()
    assert gone(pid)


def test_a_sandbox_that_is_closed_while_a_worker_starts_says_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    """What starts the worker reads its launcher some time after the host began to start it."""
    need("bwrap")
    slow = tmp_path / "sh"
    slow.write_text('#!/bin/sh\nsleep 0.3\nexec /bin/sh "$@"\n', "utf-8")
    slow.chmod(0o700)

    monkeypatch.setattr(confine, "shebang", lambda: f"#!{slow}")
    sandbox = EmbeddedSandbox()
    sandbox.prepare(Limits())
    assert sandbox.confined
    time.sleep(0.1)
    sandbox.close()
    time.sleep(0.5)
    assert capfd.readouterr() == ("", "")


THREE = by_hand(
    "async def orchestrate(ctx, args):\n"
    '    a = await ctx.run("", "orchestrate/a.b#0", "a.b", {"n": 0})\n'
    '    b = await ctx.run("", "orchestrate/a.b#1", "a.b", {"n": a})\n'
    '    c = await ctx.run("", "orchestrate/a.b#2", "a.b", {"n": b})\n'
    "    return [a, b, c]\n"
)
ENDLESS = by_hand(
    'async def orchestrate(ctx, args):\n    await ctx.run("", "orchestrate/a.b#0", "a.b", {})\n'
    "    while True:\n        pass\n"
)


def test_a_script_that_computes_too_long_is_seen_when_it_is_received() -> None:
    """As the limit that it ran into."""
    sandbox = EmbeddedSandbox()
    session = sandbox.open(ENDLESS, None, limits=Limits(turn_seconds=0.2), nonce="n")
    session.advance(None)
    session.send(Answer(1, Success(None)))
    with pytest.raises(LimitExceeded, match=r"0\.2 seconds"):
        session.receive()
    with pytest.raises(UsageError, match="over"):
        session.advance(None)
    sandbox.close()


def test_a_session_that_is_closed_while_its_script_computes_leaves_a_worker_for_the_next() -> None:
    """It is waited for, no longer than a turn may last."""
    sandbox = EmbeddedSandbox(max_workers=1, wait_seconds=5)
    session = sandbox.open(ENDLESS, None, limits=Limits(turn_seconds=0.2), nonce="n")
    session.advance(None)
    session.send(Answer(1, Success(None)))
    session.close()
    assert drive(sandbox, SCRIPT)[1] == Returned({"got": {}})
    sandbox.close()


def test_nothing_is_sent_to_a_sandbox_that_was_closed() -> None:
    """It says so as a sandbox that failed, and the run goes on with another."""
    sandbox = EmbeddedSandbox()
    session = sandbox.open(THREE, None, limits=Limits(), nonce="n")
    session.advance(None)
    sandbox.close()
    with pytest.raises(SandboxCrashed):
        session.send(Answer(1, Success(10)))
