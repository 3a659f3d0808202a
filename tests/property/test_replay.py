"""What was recorded is replayed: the same calls, the same order, the same end, and nothing is paid for again."""

from __future__ import annotations

import random
import threading
from collections import Counter

import pytest
from adversary.inprocess import InProcess
from adversary.programs import Text, make, write
from adversary.world import CATALOG, RUN, Faults, Step, World
from hypothesis import assume, example, given, note
from hypothesis import strategies as st

from addendum.kernel import step as stepping
from addendum.records.outcome import Success
from addendum.runs.prepare import script

pytestmark = pytest.mark.slow

seeds = st.integers(0, 2**32)


def text_of(seed: int) -> Text:
    """Return the script of a seed, and show it if the test fails."""
    text = write(make(seed))
    note(text.source)
    note(str(text.args))
    return text


def faults(seed: int) -> Faults:
    """Return some failures, by number of dispatch."""
    chance = random.Random(seed)
    return Faults(fails={chance.randint(0, 9): "provider_error" for _ in range(chance.randint(0, 3))})


def same(first: Step, second: Step) -> None:
    """Assert that a second step replayed the first one, call for call."""
    assert second.result is not None
    assert first.result is not None
    assert not second.sent
    assert second.handed == first.handed
    assert second.logs == first.logs
    assert second.result.status == first.result.status
    assert second.result.result == first.result.result
    assert second.result.replayed == len([seq for seq, _ in second.served])


@given(seeds, seeds, seeds)
def test_a_completed_run_replays_in_its_own_order(seed: int, schedule: int, other: int) -> None:
    """Whatever order the answers had, a replay hands them over in it; another schedule changes nothing."""
    world = World()
    first = world.run(text_of(seed), schedule=schedule, faults=faults(schedule))
    assert first.result is not None
    if first.result.status == "completed":
        same(first, world.resume(schedule=other))
    assert world.certified()


@given(seeds, seeds, st.integers(0, 12))
def test_a_failed_run_goes_on_and_pays_for_nothing_twice(seed: int, schedule: int, at: int) -> None:
    """A failure ends the run, another attempt tries it and what came with it again, and replays all else."""
    world = World()
    first = world.run(text_of(seed), schedule=schedule, faults=Faults(fails={at: "provider_error"}))
    assert first.result is not None
    before = world.history
    second = world.resume(schedule=schedule + 1)
    assert second.result is not None
    assert second.result.status == "completed"
    committed = {record.identity for record in before.prefix.values() if record.ok}
    assert not committed & {sent.identity for sent in second.sent}
    open_ones = {before.records[seq].identity for seq in before.open_failures}
    assert open_ones <= {sent.identity for sent in second.sent}, "an open failure is tried again"
    handled = {r.seq for r in before.prefix.values() if not r.ok and not r.is_read} - before.open_failures
    assert not {before.records[seq].identity for seq in handled} & {sent.identity for sent in second.sent}
    same(second, world.resume(schedule=schedule + 2))


@given(seeds, seeds)
def test_log_lines_are_shown_once_each(seed: int, schedule: int) -> None:
    """In one attempt no line is shown twice, in whatever way known results reach the script."""
    world = World()
    first = world.run(text_of(seed), schedule=schedule)
    second = world.resume(schedule=schedule)
    assert second.logs == first.logs
    assert Counter(second.logs) == Counter(first.logs)


def by_steps(text: Text, world: World) -> tuple[list[tuple[str, str, str]], object]:
    """Drive a script with `step`, from JSON to JSON, answering as the run in `world` was answered.

    Returns the calls in the order in which they became pending, and the end.
    """
    history = world.history
    journal = {record.origin: record for record in history.records.values()}
    outcomes = {entry.seq: entry.body for entry in world.store.entries(RUN) if entry.kind == "record"}
    state = stepping.State(text.source, text.args)
    seen: list[tuple[str, str, str]] = []
    known: set[str] = set()
    found_script = script(text.program)
    while True:
        k = stepping.read(state.to_json())
        found = stepping.step(
            k, text.program, lambda: InProcess().open(found_script, text.args, limits=world.context.limits, nonce="n")
        )
        for call in found.pending:
            if call["identity"] not in known:
                known.add(call["identity"])
                seen.append((call["identity"], call["capability"], call["digest"]))
        if found.end is not None:
            return seen, found.to_json()["end"]
        state = found.state
        ready = [(journal[call["identity"]].seq, call) for call in found.pending if call["identity"] in journal]
        assert ready, "the direct run made no such call"
        seq, call = min(ready, key=lambda one: one[0])
        body = outcomes[seq]
        if "failure" in body:
            state.trace.append(stepping.settled(call, failure=body["failure"]))
        else:
            state.trace.append(stepping.settled(call, result=body["result"]["value"]))


@given(seeds, seeds)
def test_a_run_and_a_loop_of_steps_make_the_same_calls(seed: int, schedule: int) -> None:
    """Running a script and stepping it, K by K, make the same calls and come to the same end."""
    text = text_of(seed)
    world = World()
    first = world.run(text, schedule=schedule, faults=faults(schedule))
    assert first.result is not None
    calls, end = by_steps(text, world)
    sent = {(e["identity"]) for e in first.events if e["event"] == "dispatched"}
    made = [identity for identity, capability, _ in calls if not capability.startswith("ctx.") and identity in sent]
    order = [e["identity"] for e in first.events if e["event"] == "dispatched"]
    assert made == order
    assert isinstance(end, dict)
    assert end["status"] == first.result.status
    assert end.get("result") == first.result.result
    assert isinstance(Success(end), Success)


@given(seeds, st.integers(1, 25))
@example(4625, 2)
@example(4173, 1)
def test_a_run_that_is_stopped_anywhere_comes_to_the_same_end(seed: int, after: int) -> None:
    """Cancelled at any event and resumed: the calls and the end of a run that nobody disturbed.

    What is in flight when a run is stopped is finished and recorded: all of it stands in K when the run goes on, and
    nothing is sent while a pending call has a record. That is the run whose calls in flight answered at once. A race
    may be over then before a loser asks for more; without one, answers that come one by one lead to the same calls.
    """
    text = text_of(seed)
    # What a clock says to a process that starts later is another thing.
    assume(not any(read in text.source for read in ("ctx.now", "ctx.random", "ctx.uuid")))
    world = World()
    stop = threading.Event()
    count, waits = [0], [0]

    def watch(event: dict[str, object]) -> None:
        count[0] += 1
        if count[0] == after:
            stop.set()
            waits[0] = len(world.provider.waits)

    world.watch, world.stop = watch, stop
    step = world.run(text)
    assert step.result is not None
    assert step.result.stop in (None, "cancelled")
    at_once = World()
    if step.result.stop is not None:
        # What was sent after the last answer was in flight when the run was about to wait for the next one.
        known = world.provider.waits[waits[0] - 1] if waits[0] else 0
        at_once.provider.together = waits[0] + (len(step.sent) > known)
    world.watch, world.stop = None, None
    last = world.resume()
    assert last.result is not None
    assert last.result.status == "completed"
    for undisturbed in (at_once,) if "ctx.race" in text.source else (at_once, World()):
        wanted = undisturbed.run(text)
        assert wanted.result is not None
        assert [sent.identity for sent in world.provider.sent] == [sent.identity for sent in undisturbed.provider.sent]
        assert last.result.result == wanted.result.result
    same(last, world.resume())


def test_the_catalog_has_every_class() -> None:
    """The generated scripts call capabilities of each effect class."""
    assert {CATALOG[name].effect for name in CATALOG} == {"read", "idempotent", "paid", "side_effect", "irreversible"}
