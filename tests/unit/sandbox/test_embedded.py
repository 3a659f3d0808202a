"""Monty's backend where the machine isn't as wished: no bubblewrap, no free worker, a limit that can't be."""

from __future__ import annotations

import pytest
from tests.sandboxes import need

from addendum.errors import SandboxCrashed, SandboxMissing, UsageError
from addendum.ports import Limits, Returned
from addendum.sandbox.embedded import EmbeddedSandbox
from addendum.testing.driving import by_hand, drive

SCRIPT = by_hand('async def orchestrate(ctx, args):\n    return await ctx.run("", "orchestrate/a.b#0", "a.b", {})\n')


def nothing() -> tuple[str | None, str]:
    return None, "without bubblewrap: it isn't installed"


def test_without_bubblewrap_the_worker_is_plain_and_says_so() -> None:
    """Monty itself is the boundary then."""
    sandbox = EmbeddedSandbox(look=nothing)
    assert drive(sandbox, SCRIPT)[1] == Returned({"got": {}})
    assert not sandbox.confined
    assert sandbox.describe().endswith("worker without bubblewrap: it isn't installed")
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
