"""The sandbox of these tests does what the real one does: the same events, the same end, the same order."""

from __future__ import annotations

import random
from collections.abc import Iterator
from dataclasses import replace

import pytest
from adversary.inprocess import InProcess
from adversary.programs import make, write
from adversary.world import World
from hypothesis import given, note
from hypothesis import strategies as st

from addendum.ports import Issued, Raised, Sandbox, Script
from addendum.records.outcome import Failure, Outcome, Success
from addendum.runs.prepare import script
from addendum.sandbox.embedded import EmbeddedSandbox
from addendum.testing.driving import drive

pytestmark = pytest.mark.slow


@pytest.fixture(scope="module")
def embedded() -> Iterator[Sandbox]:
    """The real sandbox, one for all examples."""
    sandbox = EmbeddedSandbox()
    yield sandbox
    sandbox.close()


def outline(sandbox: Sandbox, text: Script, args: dict[str, list[str]], seed: int) -> tuple[object, ...]:
    """Run a script with a schedule, every result made of its call, and return everything that is seen of it."""
    chance = random.Random(seed)

    def answer(call: Issued) -> Outcome:
        if call.capability == "ctx.race":
            return Success(call.payload)
        if call.capability.startswith("ctx."):
            return Success("now" if call.capability != "ctx.sleep" else None)
        if hash_of(call.identity, seed) % 7 == 0:
            return Failure("provider_error", "no", False, call.identity)
        return Success({"t": f"{hash_of(call.identity, seed) % 1000}"})

    events, end = drive(sandbox, text, args, answer=answer, pick=lambda waiting: chance.randrange(len(waiting)))
    # Where an error was is told by each interpreter in its own way, and held together in the conformance suite.
    return (events, replace(end, frames=()) if isinstance(end, Raised) else end)


def hash_of(identity: str, seed: int) -> int:
    """Return a number that depends on nothing else."""
    return random.Random(f"{identity} {seed}").getrandbits(30)


@given(st.integers(0, 2**32), st.integers(0, 2**32))
def test_both_sandboxes_run_a_script_the_same_way(embedded: Sandbox, seed: int, schedule: int) -> None:
    """Whatever the script, the failures and the order of answers: event for event the same."""
    text = write(make(seed))
    note(text.source)
    found = script(text.program)
    assert outline(embedded, found, text.args, schedule) == outline(InProcess(), found, text.args, schedule)


@given(st.integers(0, 2**32))
def test_a_run_comes_to_the_same_end_in_both(embedded: Sandbox, seed: int) -> None:
    """A whole run, its repair and its replay give the same journal in both."""
    text = write(make(seed))
    note(text.source)
    worlds = [World(), World(sandbox=embedded)]
    for world in worlds:
        world.run(text, schedule=seed)
        world.resume(schedule=seed + 1)
    journals = [[(e.kind, e.body) for e in world.store.entries("generated")] for world in worlds]
    for journal in journals:
        for kind, body in journal:
            if kind == "drive":
                body.pop("sandbox", None)
    assert journals[0] == journals[1]
