"""A plan is the same however its replay is carried: one call at a time, or with calls that travel ahead of the script,
answers that leave before the turn is matched that asked for them, and batches (docs/adr/0058)."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any

import pytest
from adversary.batching import RETRIES, Early, Hasty, OneByOne, Source, Straying, anywhere, beginnings
from adversary.inprocess import InProcessSession
from adversary.world import Faults, World
from hypothesis import event, given
from hypothesis import strategies as st

from addendum.canon import Json
from addendum.kernel.policy import Allowances
from addendum.plan import to_json
from addendum.ports import Answer, Known, Limits, Script, Turn

seeds = st.integers(0, 2**32)


class Deaf(OneByOne):
    """A session whose script doesn't listen to what travels ahead of it: each call crosses the boundary."""

    def __init__(self, session: InProcessSession, sandbox: Slow) -> None:
        super().__init__(session)
        self.sandbox = sandbox

    def advance(self, answer: Answer | None, ahead: Sequence[Known] = ()) -> Turn:
        """Run to quiescence."""
        self.sandbox.turns += 1
        return super().advance(answer)


class Swift(Hasty):
    """A session that takes all that there is."""

    sandbox: Fast

    def advance(self, answer: Answer | None, ahead: Sequence[Known] = ()) -> Turn:
        """Run to quiescence."""
        self.sandbox.turns += 1
        return super().advance(answer, ahead)

    def send(self, answer: Answer, ahead: Sequence[Known] = ()) -> None:
        """Run to quiescence, and say so later."""
        self.sandbox.turns += 1
        super().send(answer, ahead)

    def advance_all(self, answers: Sequence[Answer], ahead: Sequence[Known] = ()) -> Turn:
        """Hand a batch of outcomes over."""
        assert self.turn is None, "it computes"
        self.sandbox.turns += 1
        self.sandbox.batches += 1
        return self.session.advance_all(answers, ahead)


class Slow(Straying):
    """A sandbox of deaf sessions."""

    def __init__(self) -> None:
        super().__init__(None)
        self.turns = 0

    def open(self, script: Script, args: Json, *, limits: Limits, nonce: str) -> Any:
        """Return a session."""
        return Deaf(super().open(script, args, limits=limits, nonce=nonce).session, self)


class Fast(Early):
    """A sandbox of swift ones."""

    def __init__(self) -> None:
        super().__init__()
        self.turns = 0

    def open(self, script: Script, args: Json, *, limits: Limits, nonce: str) -> Any:
        """Return a session."""
        return Swift(super().open(script, args, limits=limits, nonce=nonce).session, self)


def drawn(world: World, text: Any, allowances: Allowances | None = None) -> Any:
    """Return all that a plan says, but how its session numbers the call that it stops at."""
    plan = world.plan(text, allowances=allowances).plan
    if plan is None:
        return None
    stop = plan.stop
    if stop is not None and stop.call is not None:
        stop = replace(stop, call=None, facts={**stop.facts, "at": (stop.call.identity, stop.call.call)})
    return to_json(plan), plan.replayed, plan.bindings, plan.late, plan.committed, plan.end, stop


def planned(life: Callable[[World, list[Any]], None], sandbox: Slow | Fast) -> list[Any]:
    """Return the plans of a life."""
    world = sandbox.world = World(sandbox=sandbox)
    plans: list[Any] = []
    life(world, plans)
    return plans


def alike(life: Callable[[World, list[Any]], None], chunk: int) -> Fast:
    """Assert that the plans of a life are the same; return the sandbox that had what there is."""
    slow, fast = Slow(), Fast()
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("addendum.broker.feed.CHUNK", chunk)
        assert planned(life, fast) == planned(life, slow)
    return fast


@pytest.mark.slow
@given(seeds, st.integers(1, 4), st.booleans())
def test_a_plan_is_the_same_however_it_is_replayed(seed: int, chunk: int, same: bool) -> None:
    """Of generated scripts, after failures, a crash, and revisions that keep, move and change calls."""
    chance, texts, faults = beginnings(seed, ("a",) if same else ("a", "b", "c", "logo"))
    allowances = Allowances(retry=chance.choice(RETRIES), supersede=chance.random() < 0.5)

    def life(world: World, plans: list[Any]) -> None:
        world.run(texts[0], schedule=seed, faults=faults)
        if not world.exists:
            return
        for number, text in enumerate(texts):
            plans.append(drawn(world, text, allowances))
            world.revise(text, schedule=seed + 2 + number, allowances=allowances)
        plans += [drawn(world, text, allowances) for text in texts]

    with anywhere():
        fast = alike(life, chunk)
    event(f"sent: {min(fast.sent, 3)}, never matched: {fast.sent > fast.received}, batches: {fast.batches > 0}")


SLEEPING = """
async def one(ctx, i):
    await ctx.run("r.read", {"i": i})
    await ctx.sleep(i)
    a = await ctx.run("p.make", {"i": i})
    await ctx.run("s.act", {"i": i, "n": 0})
    return a

async def orchestrate(ctx, args):
    found = []
    for i in range(4):
        await ctx.sleep(1)
        found.append(await ctx.run("p.make", {"first": i}))
        found.append(await ctx.now())
    found.append(await ctx.parallel([one(ctx, i) for i in range(5)]))
    found.append(await ctx.race([one(ctx, i) for i in range(5, 8)]))
    for i in range(4):
        found.append(await ctx.run("p.make", {"last": i}))
    return found
"""
EDITS = [
    ("await ctx.sleep(i)", "await ctx.sleep(i + 1)"),
    ("await ctx.sleep(1)", "await ctx.sleep(2)"),
    ("        await ctx.sleep(1)\n", ""),
    ("        found.append(await ctx.now())\n", "        found.append(await ctx.now())\n        await ctx.sleep(3)\n"),
    ('"n": 0', '"n": i // 3'),
    ('"first": i', '"first": i // 2'),
    ("range(4):\n        found", "range(1, 5):\n        found"),
    ("[one(ctx, i) for i in range(5, 8)]", "[one(ctx, i) for i in range(8, 4, -1)]"),
    ('    await ctx.run("r.read", {"i": i})\n', ""),
    ("    found = []\n", '    found = [await ctx.run("r.read", {})]\n'),
]


@pytest.mark.slow
@given(st.lists(st.sampled_from(EDITS), max_size=3, unique=True), st.integers(0, 40), st.integers(1, 4), seeds)
def test_sleeps_and_races_are_made_up_the_same(edits: list[tuple[str, str]], fails: int, chunk: int, seed: int) -> None:
    """Where the shadow makes answers up, in batches and behind what travelled ahead."""
    text = SLEEPING
    for old, new in edits:
        text = text.replace(old, new)
    faults = Faults(fails={fails: "provider_error"})

    def life(world: World, plans: list[Any]) -> None:
        world.run(Source(SLEEPING), schedule=seed, faults=faults)
        for relaxed in (False, True):
            plans.append(drawn(world, Source(text), Allowances(supersede=relaxed)))
        world.revise(Source(text), schedule=seed + 1)
        plans.append(drawn(world, Source(SLEEPING)))

    fast = alike(life, chunk)
    event(f"batches: {fast.batches > 0}, never matched: {fast.sent > fast.received}")


def turns(source: str, revised: str) -> tuple[int, int]:
    """Return how many executions and turns the plan of a revision takes."""
    sandbox = Fast()
    world = sandbox.world = World(sandbox=sandbox)
    world.run(Source(source), schedule=1)
    sandbox.turns = sandbox.opened = 0
    assert drawn(world, Source(revised)) is not None
    return sandbox.opened, sandbox.turns


LINE = """
async def orchestrate(ctx, args):
    for i in range(200):
        await ctx.run("p.make", {"i": i})
"""


def test_a_plan_takes_as_few_turns_as_it_can() -> None:
    """What changed is met by the first replay; the second one has all that comes before it ahead of its script."""
    assert turns(LINE, LINE + "# the same\n") == (1, 3)
    # By the time the change is seen, an answer has left for what comes after the first chunk.
    assert turns(LINE, LINE.replace('{"i": i}', '{"i": i if i != 30 else -1}')) == (2, 2 + 1)
    assert turns(LINE, LINE.replace('{"i": i}', '{"i": i if i != 199 else -1}')) == (2, 3 + 3)


def test_a_fan_out_is_planned_in_batches() -> None:
    wide = """
async def orchestrate(ctx, args):
    return await ctx.parallel([ctx.run("p.make", {"i": i}) for i in range(100)])
"""
    assert turns(wide, wide + "# the same\n") == (1, 2)
