"""Failures are outcomes: a handled one is replayed as the same failure, an open one is tried again, and `retry` says
otherwise (DESIGN section 4)."""

from __future__ import annotations

import json
import random
from collections import Counter

import pytest
from adversary.programs import Text, make, write
from adversary.world import Faults, Step, World
from hypothesis import assume, event, given, note
from hypothesis import strategies as st

from addendum import canon
from addendum.kernel.policy import Allowances
from addendum.records.history import History

pytestmark = pytest.mark.slow

seeds = st.integers(0, 2**32)


def troubled(seed: int) -> tuple[World, Text, Step, History]:
    """Make a run with several failures, if its script gets so far; return it, and its history after it."""
    chance = random.Random(seed)
    text = write(make(seed, 5))
    world = World()
    codes = ("provider_error", "refused", "timeout")
    whole = World()
    whole.run(text, schedule=seed)
    # Some that are really made: here and there, or one after the other, as the branches of a fan-out are.
    made = len(whole.provider.sent) + 1
    first, count = chance.randrange(made), chance.randint(1, 4)
    numbers = range(first, first + count) if chance.random() < 0.5 else [chance.randrange(made) for _ in range(count)]
    fails = {number: chance.choice(codes) for number in numbers}
    step = world.run(text, schedule=seed, faults=Faults(fails=fails))
    return world, text, step, world.history


def failing(seed: int) -> tuple[World, Text, Step, History]:
    """Make a run that has a failure."""
    world, text, step, history = troubled(seed)
    note(f"{text.source}\n{text.args}")
    assume(any(not record.ok for record in history.records.values()))
    return world, text, step, history


def failures(history: History) -> dict[str, int]:
    """Return the recorded failures: identity to seq."""
    return {at: record.seq for at, record in history.prefix.items() if not record.ok and not record.is_read}


def test_failures_of_each_kind_are_reached() -> None:
    """A sample: handled ones, open ones, both in one run, siblings of a barrier, those that an equal later call did."""
    reached: Counter[str] = Counter()
    for seed in range(120):
        _, _, step, history = troubled(seed)
        assert step.result is not None
        failed, opened = failures(history), history.open_failures
        done = {record.call for record in history.records.values() if record.ok}
        reached[step.result.status] += bool(failed)
        reached["handled"] += len(failed) > len(opened)
        reached["open"] += bool(opened)
        reached["both"] += len(failed) > len(opened) > 0
        reached["siblings"] += len(opened) > 1
        reached["done later"] += any(history.records[seq].call in done for seq in failed.values())
    assert min(reached.values()) >= 4, reached


@given(seeds)
def test_an_open_failure_is_one_after_which_nothing_was_asked(seed: int) -> None:
    """In a failed run the open failures are those that no later call follows; a completed run has none."""
    _, _, step, history = failing(seed)
    assert step.result is not None
    event(step.result.status)
    if step.result.status == "completed":
        assert not history.open_failures
        return
    assert history.open_failures, "something ended the run"
    last = max(history.open_failures)
    calls = [r for r in history.records.values() if not r.is_read and r.seq > last and "[" not in r.origin]
    assert not [r for r in calls if r.attempt > last], "a call of the main strand follows an open failure"


@given(seeds, seeds)
def test_handled_failures_are_replayed_and_open_ones_tried_again(seed: int, schedule: int) -> None:
    """By default, and with the same failures again: the handled ones are served as they were, value for value."""
    world, _, first, before = failing(seed)
    step = world.resume(schedule=schedule)
    assert step.result is not None
    assert first.result is not None
    assert step.result.status == "completed"
    recorded = failures(before)
    handled = {at: seq for at, seq in recorded.items() if seq not in before.open_failures}
    served = {identity: seq for seq, identity in step.served}
    for at, seq in handled.items():
        assert served.get(at, seq) == seq, "a loser of a race is asked by nobody; any other is served as it was"
    sent = {one.identity for one in step.sent}
    assert not sent & set(handled)
    assert {before.records[seq].identity for seq in before.open_failures} <= sent


@given(seeds, seeds)
def test_retry_none_replays_every_failure(seed: int, schedule: int) -> None:
    """With `retry none` nothing that failed is sent: the run ends as it ended."""
    world, _, first, before = failing(seed)
    step = world.resume(schedule=schedule, allowances=Allowances(retry="none"))
    assert step.result is not None
    assert first.result is not None
    assert not {one.identity for one in step.sent} & set(failures(before))
    assert (step.result.status, step.result.error) == (first.result.status, first.result.error)
    assert step.handed == first.handed
    again = world.resume(schedule=schedule)
    assert again.result is not None
    assert again.result.status == "completed"


@given(seeds, seeds)
def test_retry_all_tries_what_no_later_call_has_done(seed: int, schedule: int) -> None:
    """With `retry all` handled failures are tried again too, but none whose work an equal later call has done."""
    world, _, _, before = failing(seed)
    step = world.resume(schedule=schedule, allowances=Allowances(retry="all", supersede=True))
    assert step.result is not None
    event(f"{step.result.status} {step.result.stop or ''}")
    done: dict[tuple[str, str], int] = {}
    for record in before.records.values():
        if record.ok:
            done[record.call] = record.seq
    sent = {(one.identity, canon.digest(json.loads(one.payload))) for one in step.sent}
    for at, seq in failures(before).items():
        record = before.records[seq]
        if done.get(record.call, 0) > seq:
            assert (at, record.digest) not in sent, f"{at} was done by an equal later call"
    committed = {at for at, record in before.prefix.items() if record.ok and not record.is_read}
    for one in step.sent:
        if one.identity in committed:
            assert world.history.prefix[one.identity].digest != before.prefix[one.identity].digest


@given(seeds, seeds)
def test_a_failure_that_happens_again_is_the_same_to_the_script(seed: int, schedule: int) -> None:
    """A run whose open failure fails once more ends with the same error, and stays open."""
    world, _, first, before = failing(seed)
    assert first.result is not None
    assume(first.result.status == "failed")
    open_ones = {before.records[seq].identity for seq in before.open_failures}
    codes = {before.records[seq].identity: "timeout" for seq in before.open_failures}
    step = world.resume(schedule=schedule, faults=Faults(where=lambda request: codes.get(request.identity, "")))
    assert step.result is not None
    assert step.result.status == "failed"
    assert {one.identity for one in step.sent} >= open_ones
    last = world.resume(schedule=schedule)
    assert last.result is not None
    assert last.result.status == "completed"
