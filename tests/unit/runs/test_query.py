"""Looking at runs: every state that a call can be in, and what the certificate of yesterday says today."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from addendum import App, CapabilityError, UnknownOutcome
from addendum.errors import NotFound, UsageError
from addendum.ports import Store
from addendum.runs import query
from addendum.runs.difference import difference
from addendum.testing.memory_store import MemoryStore

SOURCE = """\
async def orchestrate(ctx, args):
    kept = await ctx.run("image", {"prompt": "kept"})
    changed = await ctx.run("image", {"prompt": "before"})
    return await ctx.run("image", {"prompt": "fails"})
"""

pytestmark = pytest.mark.slow


class World:
    """An app over a store in memory, whose provider fails where it is told to."""

    def __init__(self) -> None:
        self.store: Store = MemoryStore()
        self.app = App(store=self.store)
        self.failing: Exception | None = CapabilityError("refused", "no")

        @self.app.capability("image", effect="paid", price_usd="0.02")
        def image(prompt: str) -> dict[str, str]:
            if prompt == "fails" and self.failing is not None:
                raise self.failing
            return {"url": prompt}

    def states(self) -> list[tuple[str, int]]:
        """Return state and replays of each call."""
        return [(call.state, call.replays) for call in query.show(self.store, "r").calls]


@pytest.fixture
def world() -> Iterator[World]:
    """A run `r` that failed in its third call."""
    world = World()
    assert world.app.run(SOURCE, run="r").status == "failed"
    yield world
    world.app.close()


def test_a_failure_is_open_and_then_tried_again(world: World) -> None:
    """An open failure says so; once it was tried again it is history, and what was served is counted."""
    shown = query.show(world.store, "r")
    assert world.states() == [("committed", 0), ("committed", 0), ("failed", 0)]
    assert (shown.calls[2].open, shown.calls[2].failure) == (
        True,
        {"code": "refused", "message": "no", "retryable": False},
    )
    assert [advice.command for advice in shown.advice] == [
        "addendum plan r NEW_SCRIPT",
        "addendum resume r",
        "addendum repair r",
    ]
    world.failing = None
    world.app.resume("r")
    assert world.states() == [("committed", 1), ("committed", 1), ("retried", 0), ("committed", 0)]
    assert query.show(world.store, "r").replayed == 2
    assert query.result_of(world.store, "r") == {"url": "fails"}


def test_superseded_and_orphaned_calls_stay_in_sight(world: World) -> None:
    """A new version stands beside the old one, and what a shorter loop doesn't use any more is named."""
    world.failing = None
    world.app.revise("r", SOURCE.replace('"before"', '"after"'), supersede="changed")
    assert world.states() == [
        ("committed", 1), ("superseded", 0), ("retried", 0), ("committed", 0), ("committed", 0),
    ]  # fmt: skip
    call = 'await ctx.run("image", {"prompt": f"{i}"})'
    loop = f"async def orchestrate(ctx, args):\n    for i in range(2):\n        {call}\n"
    world.app.run(loop, run="loop")
    assert world.app.revise("loop", loop.replace("2", "1")).orphans == 1
    assert [call.state for call in query.show(world.store, "loop").calls] == ["committed", "orphaned"]


def test_a_call_that_moved_says_from_where(world: World) -> None:
    """A rebound call has its new identity, and the one of its commit."""
    world.failing = None
    helper = 'async def make(ctx, prompt):\n    return await ctx.run("image", {"prompt": prompt})\n\n\n'
    moved = helper + SOURCE.replace('ctx.run("image", {"prompt": "kept"})', 'make(ctx, "kept")')
    assert world.app.revise("r", moved).status == "completed"
    first = query.show(world.store, "r").calls[0]
    assert (first.identity, first.rebound_from) == ("orchestrate/make()#0 > make/image#0", "orchestrate/image#0")
    found = difference(world.store, "r")
    marked = [(line.side, line.text.strip()) for hunk in found.hunks for line in hunk.lines if line.frozen]
    assert ("new", 'return await ctx.run("image", {"prompt": prompt})') in marked
    assert ("old", 'kept = await ctx.run("image", {"prompt": "kept"})') in marked


def test_an_attempt_without_a_result_is_unresolved(world: World) -> None:
    """It is listed with its key and payload, and the advice is to find out what became of it."""
    world.failing = UnknownOutcome("the line went dead")
    world.app.resume("r")
    (attempt,) = query.attempts(world.store, "r", open_only=True)
    assert (attempt.state, attempt.payload, len(attempt.key)) == ("unresolved", {"prompt": "fails"}, 64)
    view = query.show(world.store, "r")
    assert view.calls[-1].state == "unresolved"
    assert view.summary.unresolved == 1
    assert "reconcile r" in view.advice[1].command


def test_one_call_is_shown_with_payload_and_result(world: World) -> None:
    """And one that isn't there is an error that says where to look."""
    call = query.call_of(world.store, "r", "orchestrate/image#1")
    assert (call["payload"], call["result"]) == ({"prompt": "before"}, {"url": "before"})
    with pytest.raises(NotFound):
        query.call_of(world.store, "r", "orchestrate/image#7")
    with pytest.raises(NotFound):
        query.result_of(world.store, "r")


def test_a_certificate_that_was_kept_finds_a_cut_end(world: World) -> None:
    """The chain of what is left is whole; only what was kept elsewhere knows that there was more."""
    before = query.certify(world.store, "r")
    assert before.differences == []
    assert query.beginning(world.store, "r", before.head, before.entries) == []
    assert query.beginning(world.store, "r", "0" * 64, before.entries)[0].what.startswith("the chain is another one")
    assert "the store has" in query.beginning(world.store, "r", before.head, before.entries + 5)[0].what


def test_there_is_no_difference_before_there_are_two(world: World) -> None:
    """One revision, a revision that isn't there, a run that isn't there."""
    with pytest.raises(UsageError):
        difference(world.store, "r")
    with pytest.raises(NotFound):
        difference(world.store, "r", 1, 4)
    with pytest.raises(NotFound):
        difference(world.store, "nobody")
    assert difference(world.store, "r", 1, 1).hunks == ()


def test_runs_are_listed_newest_first(world: World) -> None:
    """As many as are asked for."""
    world.app.run("async def orchestrate(ctx, args):\n    return 1\n", run="s", name="s.py")
    found = query.listing(world.store)
    assert [(run.run, run.status, run.name) for run in found] == [("s", "completed", "s.py"), ("r", "failed", "")]
    assert len(query.listing(world.store, newest=1)) == 1
