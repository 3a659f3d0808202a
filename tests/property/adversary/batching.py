"""Two worlds that do the same, one of them with batches: whatever can be seen of both has to be equal."""

from __future__ import annotations

import random
import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from typing import Any

import pytest
from hypothesis import note

from addendum.canon import Json
from addendum.errors import LimitExceeded, NotFound, UsageError
from addendum.kernel.batch import Batches
from addendum.kernel.policy import Retry
from addendum.ports import Answer, Known, Limits, Script, Turn
from addendum.records.history import Record
from addendum.runs.operate import approve, cancel
from addendum.script.program import Program, compile_program
from adversary.edits import CHANGING, PRESERVING, edited
from adversary.inprocess import InProcess, InProcessSession
from adversary.programs import Text, make, write
from adversary.world import RUN, Faults, Step, World

RETRIES: tuple[Retry, ...] = ("open", "open", "all", "none")


def beginnings(seed: int, words: tuple[str, ...]) -> tuple[random.Random, list[Text], Faults]:
    """Return what a generated script's life begins with: chance, the script and two revisions that keep, move and
    change calls, and the failures and the crash of its first attempt."""
    chance = random.Random(seed)
    model = make(seed, words=words)
    texts = [write(model)]
    for _ in range(2):
        model, _ = edited(model, chance, PRESERVING + CHANGING, chance.randint(1, 2))
        texts.append(write(model))
    note(texts[0].source)
    fails = {chance.randint(0, 12): "provider_error" for _ in range(chance.randint(0, 2))}
    point = chance.choice(("after record", "before record", "sent", "after attempt", "after rebind"))
    crash = (point, chance.randint(1, 9)) if chance.random() < 0.7 else None
    return chance, texts, Faults(fails=fails, crash=crash)


@dataclass
class Source:
    """A script that was written by hand."""

    source: str
    args: dict[str, list[str]] = field(default_factory=dict)

    @property
    def program(self) -> Program:
        """Its program."""
        return compile_program(self.source)


class OneByOne:
    """A session that takes one answer at a time."""

    def __init__(self, session: InProcessSession) -> None:
        self.session = session

    def advance(self, answer: Answer | None, ahead: Sequence[Known] = ()) -> Turn:
        """Run to quiescence."""
        return self.session.advance(answer, ahead)

    def close(self) -> None:
        """Drop the script."""
        self.session.close()


class Together(OneByOne):
    """A session that takes batches, and runs over a limit in the one that its sandbox says."""

    def __init__(self, session: InProcessSession, sandbox: Straying) -> None:
        super().__init__(session)
        self.sandbox = sandbox

    def advance_all(self, answers: Sequence[Answer], ahead: Sequence[Known] = ()) -> Turn:
        """Hand a batch of outcomes over."""
        self.sandbox.batches += 1
        self.sandbox.members += len(answers)
        turn = self.session.advance_all(answers, ahead)
        if self.sandbox.batches == self.sandbox.stray:
            raise LimitExceeded("too long", hint="Start again.", limit="turn_seconds")
        return turn


class Hasty(OneByOne):
    """A session whose script computes while the host checks what it did before; what that must not depend on is that
    it takes time."""

    def __init__(self, session: InProcessSession, sandbox: Early) -> None:
        super().__init__(session)
        self.sandbox = sandbox
        self.turn: Turn | None = None
        self.seconds = 0.0

    def advance(self, answer: Answer | None, ahead: Sequence[Known] = ()) -> Turn:
        """Run to quiescence."""
        assert self.turn is None, "it computes"
        return super().advance(answer, ahead)

    def send(self, answer: Answer, ahead: Sequence[Known] = ()) -> None:
        """Run to quiescence, and say so later."""
        assert self.turn is None, "it computes"
        self.sandbox.sent += 1
        self.turn = self.session.advance(answer, ahead)

    def receive(self) -> Turn:
        """Return what it did."""
        turn, self.turn = self.turn, None
        assert turn is not None
        self.sandbox.received += 1
        return turn


class Straying(InProcess):
    """A sandbox whose scripts have to be started again in the batch of number `stray` of each step; without any batch
    if that is None. What it needs of the clock's tokens, it gives back: an execution more is not to be seen."""

    def __init__(self, stray: int | None) -> None:
        self.stray = stray
        self.batches = 0
        self.members = 0
        self.opened = 0
        self.world: World | None = None
        self.instead: Script | None = None
        """What is run from the second execution on: a script that does something else than it did."""

    def open(self, script: Script, args: Json, *, limits: Limits, nonce: str) -> Any:
        """Return a session."""
        assert self.world is not None
        self.world.hands.drawn -= 1
        self.opened += 1
        if self.instead is not None and self.opened > 1:
            script = self.instead
        session = super().open(script, args, limits=limits, nonce=nonce)
        return OneByOne(session) if self.stray is None else Together(session, self)


class Early(Straying):
    """A sandbox whose sessions take answers before the turn is matched that asked for them."""

    def __init__(self) -> None:
        super().__init__(None)
        self.sent = self.received = 0

    def open(self, script: Script, args: Json, *, limits: Limits, nonce: str) -> Any:
        """Return a session."""
        return Hasty(super().open(script, args, limits=limits, nonce=nonce).session, self)


@contextmanager
def anywhere() -> Iterator[None]:
    """Let any source have batches: what rests on a guess has to be seen when it doesn't hold."""

    def batches(program: Program, records: Sequence[Record], size: Callable[[Record], int]) -> Batches:
        return Batches(tuple(sorted(record.order for record in records)), size)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("addendum.broker.shortcuts.batches", batches)
        yield


def lived(life: Callable[[World], None], stray: int | None, sandbox: Straying | None = None, **more: Any) -> World:
    """Let a world live."""
    sandbox = sandbox or Straying(stray)
    world = sandbox.world = World(sandbox=sandbox, **more)
    life(world)
    return world


def journal(world: World) -> list[tuple[str, Any]]:
    """Return all that is in a journal."""
    return [(entry.kind, entry.body) for entry in world.store.entries(RUN)] if world.exists else []


def seen(world: World) -> list[tuple[Any, ...]]:
    """Return what anybody sees of a world: notices, dispatches and results of each step."""
    return [(step.how, step.crashed, step.events, step.sent, step.result) for step in world.steps]


def equal(one: World, other: World) -> None:
    """Assert that nobody can tell two worlds apart."""
    for mine, yours in zip(seen(one), seen(other), strict=True):
        assert yours[2] == mine[2], "other notices"
        assert yours == mine
    assert journal(other) == journal(one)


# --- people who act while a run is driven -------------------------------------------------------------------------


def answering(world: World, at: Sequence[int]) -> None:
    """Answer everything that waits for a person, when so many notices were heard."""
    count = [0]

    def watch(event: dict[str, Any]) -> None:
        count[0] += event["event"] != "ended"
        if count[0] in at and event["event"] != "ended":
            answer(world)

    world.watch = watch


def answer(world: World) -> None:
    """Say yes to everything that waits for a person."""
    with suppress(UsageError):  # nothing does
        approve(world.context, RUN, approved=True)


def cancelling(world: World, at: int) -> None:
    """Cancel the run, when so many notices were heard: from outside, or by the one that drives it."""
    count, stop = [0], threading.Event()

    def watch(event: dict[str, Any]) -> None:
        count[0] += 1
        if count[0] == at and event["event"] != "ended":
            if at % 2:
                stop.set()
            else:
                cancel(world.context, RUN)

    world.watch, world.stop = watch, stop


def again(world: World, **more: Any) -> Step | None:
    """Go on, if there is a run: one that was killed early enough isn't there."""
    sandbox = world.sandbox
    assert isinstance(sandbox, Straying)
    sandbox.batches = 0
    try:
        return world.resume(**more)
    except NotFound:
        return None
    finally:
        world.watch = world.stop = None
