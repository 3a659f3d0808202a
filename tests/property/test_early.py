"""That an answer leaves before the turn is matched that asked for it can't be seen: not in a replay, nor where the
matching comes to another call and the script is started again (DESIGN section 1)."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import pytest
from adversary.batching import RETRIES, Early, OneByOne, Source, Straying, again, beginnings, equal, lived
from adversary.world import World
from hypothesis import event, given
from hypothesis import strategies as st

from addendum.canon import Json
from addendum.errors import LimitExceeded
from addendum.kernel.policy import Allowances
from addendum.ports import Answer, Known, Limits, Script, Served, Turn

seeds = st.integers(0, 2**32)
chunks = st.integers(1, 4)


def generated(seed: int, words: tuple[str, ...]) -> Callable[[World], None]:
    """Return the life of a generated script: failures, a crash, revisions that keep, move and change calls, replays."""
    chance, texts, faults = beginnings(seed, words)
    allowances = Allowances(retry=chance.choice(RETRIES), supersede=chance.random() < 0.5)

    def life(world: World) -> None:
        world.run(texts[0], schedule=seed, faults=faults)
        if again(world, schedule=seed + 1, allowances=allowances) is None:
            return
        for number, text in enumerate(texts[1:]):
            world.revise(text, schedule=seed + 2 + number, allowances=allowances)
        again(world, schedule=seed + 5, allowances=allowances)

    return life


def alike(life: Callable[[World], None], chunk: int) -> Early:
    """Assert that a life is the same with and without early answers; return the sandbox that had them."""
    early = Early()
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("addendum.broker.feed.CHUNK", chunk)
        equal(lived(life, None), lived(life, None, early))
    return early


@pytest.mark.slow
@given(seeds, chunks, st.booleans())
def test_a_generated_run_is_the_same_with_and_without_early_answers(seed: int, chunk: int, same: bool) -> None:
    """Journal, notices, dispatches and results of every step."""
    early = alike(generated(seed, ("a",) if same else ("a", "b", "c", "logo")), chunk)
    event(f"sent: {min(early.sent, 3)}, never matched: {early.sent > early.received}")


LINE = """
async def orchestrate(ctx, args):
    found = []
    for i in range(9):
        ctx.log(f"{i}")
        found.append(await ctx.run("p.make", {"i": i}))
        if i == 4:
            found += await ctx.parallel([ctx.run("r.read", {"j": j}) for j in range(3)])
    return found
"""


def test_most_of_a_replay_is_handed_over_early() -> None:
    """All chunks but the first one, which starts the script."""

    def life(world: World) -> None:
        world.run(Source(LINE), schedule=1)
        again(world, schedule=2)

    early = alike(life, 2)
    assert (early.sent, early.received) == (2, 2)


def test_a_call_that_changed_between_two_chunks_is_decided_on_by_the_matching() -> None:
    """What left early for it isn't matched: the script starts again, and nobody sees it."""
    text = LINE.replace('{"i": i}', '{"i": i if i != args["n"] else -1}')
    counts = []
    for changed in range(9):

        def life(world: World, changed: int = changed) -> None:
            world.run(Source(text, {"n": 99}), schedule=1)
            world.revise(Source(text, {"n": changed}), schedule=2, allowances=Allowances(supersede=True))
            again(world, schedule=3)

        early = alike(life, 2)
        counts.append(early.sent - early.received)
    # A plan of its own, that of the revision and its attempt.
    assert set(counts) == {0, 3}, "seen before anything leaves early, and only afterwards"


class Short(OneByOne):
    """A session whose turns have time for so many calls."""

    def advance(self, answer: Answer | None, ahead: Sequence[Known] = ()) -> Turn:
        """Run to quiescence."""
        turn = super().advance(answer, ahead)
        if sum(isinstance(event, Served) for event in turn.events) > 3:
            raise LimitExceeded("too long", hint="Less.", limit="turn_seconds")
        return turn


class Hurried(Straying):
    """A sandbox of such sessions."""

    def open(self, script: Script, args: Json, *, limits: Limits, nonce: str) -> Any:
        """Return a session."""
        return Short(super().open(script, args, limits=limits, nonce=nonce).session)


def test_a_turn_that_is_too_long_with_what_travels_ahead_is_done_without() -> None:
    """Calls that the script made one at a time don't run into a turn's limit because they are known by now: not in a
    plan, a revision or a replay."""

    def life(world: World) -> None:
        world.run(Source(LINE), schedule=1)
        world.revise(Source(LINE + "# again\n"), schedule=2)
        assert again(world, schedule=3) is not None

    world = lived(life, None, Hurried(None))
    assert [step.result.status for step in world.steps if step.result] == ["completed"] * 3
    equal(lived(life, None), world)
