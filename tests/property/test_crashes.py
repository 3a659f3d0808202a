"""Killed between any two writes, and after any dispatch: nothing is lost, nothing that may have happened is sent again,
and what was granted is never exceeded."""

from __future__ import annotations

import random
from collections import Counter

import pytest
from adversary import oracle
from adversary.edits import CHANGING, PRESERVING, edited
from adversary.programs import Text, make, write
from adversary.world import CATALOG, CENT, Faults, World
from hypothesis import assume, event, given, note
from hypothesis import strategies as st

from addendum.authority.grant import Grant, Limit
from addendum.broker.reconcile import unresolved

pytestmark = pytest.mark.slow

seeds = st.integers(0, 2**32)
POINTS = ("before attempt", "after attempt", "sent", "before record", "after record", "before rebind", "after rebind")


def crash(points: Counter[str], choice: int) -> tuple[str, int] | None:
    """Pick one of the points that an undisturbed step has passed."""
    found = [(name, number + 1) for name in POINTS for number in range(points[name])]
    return found[choice % len(found)] if found else None


def crash_of(text: Text, schedule: int, choice: int) -> tuple[str, int] | None:
    """Pick a point where a first run of a script dies."""
    world = World()
    world.run(text, schedule=schedule)
    return crash(world.store.points, choice)


SIDE_EFFECTING = frozenset(name for name in CATALOG if CATALOG[name].side_effecting)


def open_ones(world: World) -> Counter[tuple[str, str]]:
    """Return the side-effecting calls that may have happened and have no result."""
    return Counter((a.capability, a.digest) for a in unresolved(world.history) if a.capability in SIDE_EFFECTING)


@given(seeds, seeds, st.booleans(), st.integers(0, 3))
def test_after_a_kill_nothing_that_may_have_happened_is_sent_again(
    seed: int, choice: int, abandon: bool, count: int
) -> None:
    """Killed anywhere, whatever is revised then: no call equal to one without a result is sent before a person has
    decided on it; afterwards the run comes to its end, and no record was paid for twice."""
    chance = random.Random(seed)
    model = make(seed)
    text = write(model)
    note(f"{text.source}\n{text.args}")
    point = crash_of(text, seed, choice)
    assume(point)
    assert point is not None
    world = World()
    first = world.run(text, schedule=seed, faults=Faults(crash=point))
    assert first.crashed
    assert world.certified()
    lost = open_ones(world)
    event(f"{point[0]}: {'unresolved' if lost else 'nothing lost'}")
    for _ in range(count):
        candidate, names = edited(model, chance, PRESERVING + CHANGING, 1)
        other = write(candidate)
        note(f"--- {names}\n{other.source}\n{other.args}")
        step = world.revise(other, schedule=seed + 1)
        assert step.result is not None
        for sent in step.sent:
            digest = next(
                e.body["digest"]
                for e in world.store.entries("generated")
                if e.kind == "attempt" and e.body["key"] == sent.key
            )
            assert not lost[sent.capability, digest], f"{sent.identity} may have happened already"
        if lost and step.result.status != "not_admitted":
            assert step.result.status == "stopped"
        if step.result.status != "not_admitted" and step.result.stop is None:
            model, text = candidate, other
        if not lost:
            break
    before = world.history
    committed = {r.identity: r.call for r in before.prefix.values() if r.ok}
    if lost:
        stopped = world.resume(schedule=seed + 2)
        assert stopped.result is not None
        for sent in stopped.sent:
            assert committed.get(sent.identity) is None
        if open_ones(world):
            world.reconcile(abandon=abandon, result={"t": "known"})
    last = world.resume(schedule=seed + 3)
    assert last.result is not None
    assert last.result.stop in (None, "repeat", "divergence"), last.result.message
    assert not [s for s in last.sent if s.identity in committed]
    keys = [sent.key for sent in world.provider.sent]
    assert len(set(keys)) == len(keys)
    assert world.certified()


@given(seeds, seeds, st.tuples(st.sampled_from(POINTS[:5]), st.integers(1, 4)))
def test_killed_twice_a_run_still_pays_for_each_call_once(seed: int, choice: int, two: tuple[str, int]) -> None:
    """Killed, reconciled, killed again and reconciled: each identity that has a result was paid for once, but for what
    was declared abandoned."""
    text = write(make(seed))
    note(f"{text.source}\n{text.args}")
    world = World()
    abandoned: Counter[str] = Counter()

    def settle() -> None:
        for attempt in unresolved(world.history):
            abandoned[attempt.identity] += 1
        if unresolved(world.history):
            world.reconcile(abandon=True)

    one = crash_of(text, seed, choice)
    assume(one)
    assert world.run(text, schedule=seed, faults=Faults(crash=one)).crashed
    settle()
    assume(world.resume(schedule=seed + 1, faults=Faults(crash=two)).crashed)
    settle()
    last = world.resume(schedule=seed + 2)
    assert last.result is not None
    assert last.result.status == "completed"
    sent = Counter(s.identity for s in world.provider.sent)
    for identity, count in sent.items():
        assert count <= 1 + abandoned[identity], f"{identity} was sent {count} times"


@given(seeds, seeds)
def test_a_revision_that_is_killed_can_be_made_again(seed: int, choice: int) -> None:
    """Killed while a revision is applied or driven, the same revision made again comes to its end; what was moved stays
    moved, and the oracle has no objection."""
    chance = random.Random(seed)
    model = make(seed)
    fails = Faults(fails={chance.randint(0, 8): "provider_error"})
    candidate, names = edited(model, chance, PRESERVING + CHANGING, 2)
    old, text = write(model), write(candidate)
    note(f"{old.source}\n--- {names}\n{text.source}\n{text.args}")
    worlds = [World(), World()]
    for world in worlds:
        world.run(old, schedule=seed, faults=fails)
    worlds[0].revise(text, schedule=seed)
    point = crash(worlds[0].store.points, choice)
    assume(point)
    step = world.revise(text, schedule=seed, faults=Faults(crash=point))
    assert step.crashed
    assert point is not None
    lost = open_ones(world)
    if unresolved(world.history):
        world.reconcile(abandon=True)
    before = world.history
    again = world.revise(text, schedule=seed + 1)
    assert again.result is not None
    wrong = oracle.check(world, again, before)
    assert not wrong
    event(f"{point[0]}: {again.result.status} {again.result.stop or ''} {'lost' if lost else ''}")
    assert again.result.status in ("completed", "stopped", "not_admitted")


def test_each_point_is_reached_and_something_is_lost_there() -> None:
    """A sample: a kill at each point, with and without a side-effecting call that may have happened; and revisions that
    are killed at the points where records are moved."""
    reached: Counter[str] = Counter()
    for seed in range(80):
        model, world = make(seed), World()
        text = write(model)
        point = crash_of(text, seed, 7 * seed)
        if point is None:
            continue
        assert world.run(text, schedule=seed, faults=Faults(crash=point)).crashed
        reached[f"{point[0]}: {'lost' if open_ones(world) else 'nothing lost'}"] += 1
        text = write(edited(model, random.Random(seed), PRESERVING, 2)[0])
        world = World()
        world.run(write(model), schedule=seed)
        world.revise(text, schedule=seed)
        reached.update({f"revise, {name}": 1 for name in POINTS if world.store.points[name]})
    assert {what for what, times in reached.items() if times >= 5} == {
        *(f"{name}: nothing lost" for name in POINTS[:5]),
        *(f"{name}: lost" for name in ("after attempt", "sent", "before record")),
        *(f"revise, {name}" for name in POINTS[5:]),
    }, reached


# --- limits -------------------------------------------------------------------------------------------------------


def granted(chance: random.Random) -> Grant:
    """Return a grant with some tight limits."""
    capabilities: dict[str, tuple[Limit, ...]] = dict.fromkeys(CATALOG, ())
    for name in CATALOG:
        if chance.random() < 0.4:
            capabilities[name] = (Limit("calls", chance.randint(0, 3), "run", name),)
        elif chance.random() < 0.3:
            capabilities[name] = (Limit("in_flight", 1, "run", name),)
    whole = [Limit("in_flight", chance.randint(1, 3))] if chance.random() < 0.6 else []
    if chance.random() < 0.5:
        whole.append(Limit("cost_usd", chance.randint(1, 6) * CENT))
    return Grant(capabilities, tuple(whole), "at_run_time")


def within(grant: Grant, world: World) -> None:
    """Assert what a grant promises, measured by the provider. What a person declared abandoned wasn't done, as they
    say, and cost nothing."""
    entries = world.store.entries("generated") if world.exists else ()
    abandoned = sum(1 for entry in entries if entry.kind == "abandon")
    calls = Counter(sent.capability for sent in world.provider.sent)
    for name, limits in grant.capabilities.items():
        for limit in limits:
            if limit.meter == "calls":
                assert calls[name] <= limit.most
            if limit.meter == "in_flight":
                assert world.provider.peak[name] <= limit.most
    for limit in grant.limits:
        if limit.meter == "in_flight":
            assert world.provider.peak[""] <= limit.most
        if limit.meter == "cost_usd":
            assert (len(world.provider.sent) - abandoned) * CENT <= limit.most


@given(seeds, seeds, st.booleans())
def test_what_was_granted_is_never_exceeded(seed: int, choice: int, killed: bool) -> None:
    """Under any limits, with any number of calls at once, across a kill and a resume: never more than granted; a limit
    pauses the run, and once it is raised the run ends without paying for anything twice."""
    chance = random.Random(choice)
    grant = granted(chance)
    text = write(make(seed))
    note(f"{text.source}\n{text.args}\n{grant}")
    world = World(grant=grant)
    point = crash_of(text, seed, choice) if killed else None
    first = world.run(text, schedule=seed, faults=Faults(crash=point))
    within(grant, world)
    if first.crashed and unresolved(world.history):
        world.reconcile(abandon=True)
    second = world.resume(schedule=seed + 1)
    within(grant, world)
    assert second.result is not None
    assert second.result.status in ("completed", "paused")
    event(second.result.status)
    lost = Counter(e.body["attempt"] for e in world.store.entries("generated") if e.kind == "abandon")
    if second.result.status == "paused":
        third = world.resume(schedule=seed + 2)
        assert third.result is not None
        assert third.result.status == "paused"
        assert not third.sent, "a limit that is reached stays reached"
        world.set_grant(Grant(dict.fromkeys(CATALOG, ()), (), "at_run_time"))
        last = world.resume(schedule=seed + 3)
        assert last.result is not None
        assert last.result.status == "completed"
    sent = Counter(s.identity for s in world.provider.sent)
    assert sum(count - 1 for count in sent.values()) <= len(lost)


@given(seeds)
def test_an_outcome_that_is_not_known_stops_the_run(seed: int) -> None:
    """A provider that can't tell what became of a side-effecting call: the run stops there, and the call is not sent
    again until somebody decided."""
    chance = random.Random(seed)
    text = write(make(seed))
    note(f"{text.source}\n{text.args}")
    world = World()
    step = world.run(text, schedule=seed, faults=Faults(unknown=frozenset({chance.randint(0, 6)})))
    assert step.result is not None
    assume(open_ones(world))
    lost = unresolved(world.history)[0]
    assert (step.result.status, step.result.stop) == ("stopped", "unresolved")
    assert step.result.details["unresolved"] == [lost.identity]
    again = world.resume(schedule=seed)
    assert again.result is not None
    assert (again.result.status, again.result.stop) == ("stopped", "unresolved")
    assert again.result.details["unresolved"] == [lost.identity]
    assert lost.identity not in {sent.identity for sent in again.sent}
    world.reconcile(abandon=False, result={"t": "known"})
    last = world.resume(schedule=seed)
    assert last.result is not None
    assert last.result.status == "completed"
    assert lost.identity not in {sent.identity for sent in last.sent}
