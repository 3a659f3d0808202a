"""That results are handed over in batches can't be seen: not in a run, nor in a replay, nor where what a batch rests on
doesn't hold and the script is started again (DESIGN section 1, docs/adr/0052)."""

from __future__ import annotations

import random
from collections.abc import Callable
from contextlib import nullcontext
from dataclasses import replace
from typing import Any

import pytest
from adversary.batching import (
    RETRIES,
    Source,
    Straying,
    again,
    answer,
    answering,
    anywhere,
    beginnings,
    cancelling,
    equal,
    journal,
    lived,
)
from adversary.programs import Text
from adversary.world import CATALOG, CENT, Faults, World
from hypothesis import event, given
from hypothesis import strategies as st

from addendum.authority.catalog import Capability, Catalog
from addendum.authority.grant import Grant, everything, from_json
from addendum.kernel.policy import Allowances
from addendum.runs.prepare import script
from addendum.script.program import compile_program

seeds = st.integers(0, 2**32)
strays = st.integers(0, 9)


def generated(seed: int, words: tuple[str, ...]) -> Callable[[World], None]:
    """Return the life of a generated script: failures, a crash, revisions with moves, replays."""
    chance, texts, faults = beginnings(seed, words)
    later = chance.randint(1, 20)
    allowances = Allowances(retry=chance.choice(RETRIES))

    def life(world: World) -> None:
        world.run(texts[0], schedule=seed, faults=faults)
        if again(world, schedule=seed + 1, allowances=allowances) is None:
            return
        for number, text in enumerate(texts[1:]):
            assert isinstance(world.sandbox, Straying)
            world.sandbox.batches = 0
            world.revise(text, schedule=seed + 2 + number, faults=Faults(fails={later: "refused"}))
        again(world, schedule=seed + 5, allowances=allowances)

    return life


@pytest.mark.slow
@given(seeds, strays, st.booleans(), st.booleans())
def test_a_generated_run_is_the_same_with_and_without_batches(seed: int, stray: int, same: bool, guess: bool) -> None:
    """Journal, notices, dispatches and results of every step, wherever an execution has to be started again."""
    life = generated(seed, ("a",) if same else ("a", "b", "c", "logo"))
    with nullcontext() if guess else anywhere():
        alone, together = lived(life, None), lived(life, stray)
    assert isinstance(together.sandbox, Straying)
    event(f"batches: {together.sandbox.batches > 0}")
    equal(alone, together)


# --- everything at once -------------------------------------------------------------------------------------------

WAITING = """
async def orchestrate(ctx, args):
    seen = []

    async def ask(i):
        await ctx.run("p.make", {"i": i})
        q = await ctx.run("q.ask", {"i": i})
        seen.append(i)
        return await ctx.run("r.read", {"i": i, "q": q, "n": len(seen)})

    async def plain(i):
        await ctx.run("r.read", {"i": i})
        seen.append(i)
        ctx.log(f"{i} after {len(seen)}")
        b = await ctx.run("s.act", {"i": i, "n": len(seen)})
        try:
            await ctx.run("p.make", {"i": i, "n": len(seen)})
        except CapabilityError as e:
            seen.append(e.code)
        await ctx.sleep(2)
        await ctx.run("i.put", {"i": i, "n": len(seen), "t": await ctx.random()})
        return b

    async def deep(i):
        await ctx.run("r.read", {"d": i})
        b = await ctx.parallel([plain(i * 10), plain(i * 10 + 1)])
        seen.append(b)
        return await ctx.run("p.make", {"d": i, "n": len(seen)})

    out = await ctx.parallel([plain(1), ask(2), plain(3), plain(4), ask(5), deep(6), plain(7), deep(8)])
    return [out, seen]
"""
RACING = WAITING.replace("b = await ctx.parallel", "b = await ctx.race")
FLAT = WAITING.replace("b = await ctx.parallel([plain(i * 10), plain(i * 10 + 1)])", "b = i")
MIXED = WAITING.replace(
    "b = await ctx.parallel([plain(i * 10), plain(i * 10 + 1)])",
    """b = await ctx.dag({"a": (lambda: plain(i * 10), []), "b": (lambda a: plain(i * 10 + 1), ["a"])})
        b = await ctx.pipeline([1, 2], lambda v, item, n: ctx.run("r.read", {"p": item, "i": i}))""",
)
LAMBDAS = FLAT.replace(
    "    out = await ctx.parallel",
    """    more = await ctx.pipeline(
        [30, 40, 50],
        lambda v, item, n: ctx.run("r.read", {"z": item}),
        lambda v, item, n: ctx.parallel([plain(item), ctx.run("s.act", {"z": item, "n": len(seen)})]),
        lambda v, item, n: plain(item + 1),
    )
    out = await ctx.parallel""",
)
SOURCES = {"lambdas": LAMBDAS, "waiting": WAITING, "racing": RACING, "flat": FLAT, "mixed": MIXED}


def _capability(name: str, **more: object) -> Capability:
    return replace(CATALOG[name], **more)  # type: ignore[arg-type]


PATIENT = Catalog(
    (
        _capability("r.read", retries=2),
        _capability("p.make", retries=1),
        _capability("i.put", retries=2),
        *(CATALOG[name] for name in ("s.act", "m.send")),
        Capability(name="q.ask", effect="read", price=CENT, input={"type": "object"}, about="Ask.", waits=True),
    )
)
LIMITS = (
    [],
    [{"meter": "in_flight", "max": 2}],
    [{"meter": "calls", "max": 14}],
    [{"meter": "cost_usd", "max": 0.12}],
    [{"meter": "calls", "max": 5, "per": "PT10S"}],
)
RULES = (
    [],
    [{"when": "always", "capability": "s.act"}],
    [{"when": "nth", "n": 3, "capability": "p.make"}],
    [{"when": "nth", "n": 4, "capability": "r.read"}],
)


def granted(limits: list[dict[str, object]], rules: list[dict[str, object]]) -> Grant:
    """Return a grant of everything within limits, with rules about asking."""
    found = from_json({"worst_case": "at_run_time", "limits": limits, "approval": rules})
    return replace(found, capabilities=everything(PATIENT).capabilities)


def crowded(source: str, seed: int) -> Callable[[World], None]:
    """Return the life of a run in which calls are in flight, are queued, wait for time and for people, and in which
    people answer and cancel."""
    chance = random.Random(seed)
    fails = {chance.randint(0, 30): chance.choice(["provider_error", "refused"]) for _ in range(chance.randint(0, 4))}
    busy = frozenset(chance.randint(0, 30) for _ in range(chance.choice((0, 3, 8))))
    limits, rules = chance.choice(LIMITS), chance.choice(RULES)
    cancelled = chance.randint(1, 60) if chance.random() < 0.3 else 0
    answered = [sorted(chance.sample(range(1, 60), 4)) if chance.random() < 0.6 else [] for _ in range(3)]
    allowances = Allowances(retry=chance.choice(RETRIES))
    revised = source.replace("plain(1)", "plain(9), plain(1)") if chance.random() < 0.5 else source + "\n"

    def life(world: World) -> None:
        faults = Faults(fails=fails, busy=busy)
        world.grant = granted(limits, rules)
        if cancelled:
            cancelling(world, cancelled)
        world.run(_text(source), schedule=seed, faults=faults)
        for number, at in enumerate(answered):
            if number == 1 and limits:
                world.set_grant(granted([], rules))
            answer(world)
            answering(world, at)
            again(world, schedule=seed + number, allowances=allowances, faults=faults)
        assert isinstance(world.sandbox, Straying)
        world.sandbox.batches = 0
        world.revise(_text(revised), schedule=seed + 7)
        answer(world)
        again(world, schedule=seed + 8, allowances=allowances)

    return life


def _text(source: str) -> Text:
    return Source(source)  # type: ignore[return-value]


@pytest.mark.parametrize("seed", range(4))
@pytest.mark.parametrize("name", SOURCES)
def test_a_crowded_run_is_the_same_with_and_without_batches(name: str, seed: int) -> None:
    """Nothing is sent, asked, told or counted twice, and nothing is lost that is in flight, queued, timed or asked."""
    life = crowded(SOURCES[name], seed)
    more = {"catalog": PATIENT, "backoff": 1.5}
    alone = lived(life, None, **more)
    for stray in (0, 1 + seed % 4, 2 + seed):
        equal(alone, lived(life, stray, **more))
    with anywhere():
        equal(alone, lived(life, 0, **more))


BRANCHES = """
async def one(ctx, i):
    await ctx.run("p.make", {"i": i})
    return await ctx.run("r.read", {"i": i})

async def orchestrate(ctx, args):
    return await ctx.parallel([one(ctx, i) for i in range(6)])
"""


def strayed(revised: str, times: int) -> World:
    """Run the branches and revise them, with batches and without: the same, though scripts went astray so often."""

    def life(world: World) -> None:
        world.run(_text(BRANCHES))
        world.revise(_text(revised))

    alone, together = lived(life, None), lived(life, 0)
    equal(alone, together)
    result = together.steps[1].result
    assert result is not None
    assert (result.status, result.replayed) == ("completed", 12)
    assert isinstance(alone.sandbox, Straying)
    assert isinstance(together.sandbox, Straying)
    assert together.sandbox.opened == alone.sandbox.opened + times, "it was started again"
    return together


def test_a_strand_that_goes_on_to_an_earlier_record_is_waited_for() -> None:
    """The calls of a branch change places: what comes second now was recorded first, and is handed over at once."""
    swapped = BRANCHES.replace('await ctx.run("p.make", {"i": i})', "first = 1").replace(
        'return await ctx.run("r.read", {"i": i})',
        'a = await ctx.run("r.read", {"i": i})\n    return [a, await ctx.run("p.make", {"i": i})]',
    )
    # A plan of its own, that of the revision and its attempt.
    served = [seq for seq, _ in strayed(swapped, 3).steps[1].served]
    assert served != sorted(served)


def test_a_claim_of_a_moved_record_comes_before_the_next_result() -> None:
    """Behind new work, where the shadow didn't come, a call claims a record as soon as it is made."""
    moved = BRANCHES.replace(
        '    return await ctx.run("r.read", {"i": i})',
        '    if i >= 0:\n        return await ctx.run("r.read", {"i": i})',
    ).replace("    return await ctx.parallel", '    await ctx.run("m.send", {})\n    return await ctx.parallel')
    result = strayed(moved, 1).steps[1].result
    assert result is not None
    assert result.rebound == 6


def test_a_replay_takes_as_few_turns_as_it_can() -> None:
    """Whatever order the answers had: as many batches as there are, and nothing is started again for them."""
    sandbox = Straying(0)
    world = sandbox.world = World(sandbox=sandbox)
    world.run(_text(BRANCHES.replace("range(6)", "range(40)")), schedule=3)
    sandbox.opened = sandbox.batches = sandbox.members = 0
    replayed = again(world).result  # type: ignore[union-attr]
    assert replayed is not None
    assert (replayed.replayed, sandbox.opened) == (80, 1)
    groups: list[set[str]] = [set()]
    for record in world.history.records.values():
        branch = record.origin.partition(" > ")[0]
        if branch in groups[-1]:
            groups.append(set())  # its strand has to go on before this one is asked for
        groups[-1].add(branch)
    assert sandbox.batches == sum(len(group) > 1 for group in groups)
    assert sandbox.members == sum(len(group) for group in groups if len(group) > 1) > 40


def test_what_was_claimed_in_the_second_execution_is_doubted_as_ever() -> None:
    """What decides on new calls looks at the matching that goes on: a twin of a moved call is seen."""
    twin = BRANCHES.replace(
        '    return await ctx.run("r.read", {"i": i})',
        '    if i >= 0:\n        return await ctx.run("r.read", {"i": i})',
    ).replace(
        "    return await ctx.parallel([one(ctx, i) for i in range(6)])",
        """    await ctx.run("m.send", {})
    out = await ctx.parallel([one(ctx, i) for i in range(6)])
    return [out, await ctx.run("r.read", {"i": 3})]""",
    )

    def life(world: World) -> None:
        world.run(_text(BRANCHES))
        world.revise(_text(twin))

    alone, together = lived(life, None), lived(life, 0)
    result = alone.steps[1].result
    assert result is not None
    assert (result.status, result.stop, result.counterexamples) == ("stopped", "divergence", ["ambiguous"])
    equal(alone, together)


@pytest.mark.parametrize("stray", [1, 2, 3])
def test_what_fails_in_an_attempt_is_not_tried_again_by_it(stray: int) -> None:
    """`--retry all` means the failures that there were when the attempt began, wherever its script is started again."""
    handling = BRANCHES.replace(
        '    await ctx.run("p.make", {"i": i})',
        '    try:\n        await ctx.run("p.make", {"i": i})\n    except CapabilityError:\n        ctx.log("no")',
    )
    faults = Faults(where=lambda request: "refused" if request.capability == "p.make" else "")

    def life(world: World) -> None:
        world.run(_text(handling), schedule=1, faults=faults)
        again(world, schedule=stray, faults=faults, allowances=Allowances(retry="all"))

    alone, together = lived(life, None), lived(life, stray)
    assert isinstance(together.sandbox, Straying)
    assert together.sandbox.opened == 4, "each attempt's script was started twice"
    assert [len(step.sent) for step in together.steps] == [12, 6]
    equal(alone, together)


@pytest.mark.parametrize("other", ["i % 5", "i"])
def test_a_call_in_flight_is_answered_to_nobody_who_asks_for_something_else(other: str) -> None:
    """The script of the second execution asks for another thing where the sixth call is in flight: it is stopped, and
    what was sent stays what it was."""
    sandbox = Straying(1)
    sandbox.instead = script(compile_program(BRANCHES.replace('"p.make", {"i": i}', f'"p.make", {{"i": {other}}}')))
    world = sandbox.world = World(sandbox=sandbox)
    found = world.run(_text(BRANCHES), schedule=0).result
    assert found is not None
    sent = {(each.identity, each.payload) for each in world.provider.sent}
    assert world.certified()
    if other == "i":
        assert (found.status, found.dispatched) == ("completed", 12)
        return
    assert (found.status, found.stop) == ("stopped", "sandbox")
    assert "something else than before: 'orchestrate/parallel#0[5]" in found.message
    assert ("orchestrate/parallel#0[5] > one/p.make#0", '{"i": 5}') in sent
    assert len(sent) == len(world.provider.sent) == found.committed == 6


class Ticking(Straying):
    """One whose scripts compute for a second with each answer."""

    def open(self, *args: Any, **more: Any) -> Any:
        """Return a session."""
        session = super().open(*args, **more)
        world = self.world
        assert world is not None
        for name in ("advance", "advance_all"):
            if hasattr(session, name):
                setattr(session, name, self._taking(world, getattr(session, name)))
        return session

    def _taking(self, world: World, advance: Callable[..., Any]) -> Callable[..., Any]:
        def taking(answer: Any, *more: Any) -> Any:
            world.hands.seconds += len(answer) if isinstance(answer, list) else answer is not None
            return advance(answer, *more)

        return taking


@pytest.mark.parametrize("stray", [None, 0, 1, 3])
def test_what_an_execution_that_went_astray_computed_counts(stray: int | None) -> None:
    """A second for each answer: of twelve, and again those that the first execution had taken."""
    sandbox = Ticking(stray)
    world = sandbox.world = World(sandbox=sandbox)
    world.run(_text(BRANCHES), schedule=5)
    assert sandbox.opened == 1 + bool(stray)
    (micros,) = [body["script_micros"] for kind, body in journal(world) if kind == "end"]
    assert micros == round(world.hands.seconds * 1_000_000)
    assert micros == 12_000_000 if stray is None or sandbox.opened == 1 else micros > 12_000_000


def test_the_crowded_runs_have_batches_and_stray() -> None:
    """What is held there is no empty word: scripts go astray by themselves, and where they are made to."""

    def tried(source: str, stray: int | None) -> Straying:
        found = lived(crowded(source, 1), stray, catalog=PATIENT, backoff=1.5).sandbox
        assert isinstance(found, Straying)
        return found

    without, flat = tried(FLAT, None), tried(FLAT, 0)
    assert without.members == 0
    assert flat.members > 50
    assert flat.opened == without.opened
    assert tried(FLAT, 2).opened > without.opened, "where it was made to"
    assert tried(WAITING, 0).members == 0, "a function of a branch has a fan-out"
    assert tried(LAMBDAS, 0).opened > tried(LAMBDAS, None).opened, "by itself: a lambda's fan-out is its function's"
