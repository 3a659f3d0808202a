"""Driving a run: how long it waits for what comes next."""

from __future__ import annotations

import queue
import threading
from collections.abc import Iterator, Sequence
from typing import Any

import pytest

from addendum.authority.catalog import Capability, Catalog
from addendum.authority.grant import from_json
from addendum.broker.dispatch import Answered, Dispatcher, Wake
from addendum.ports import Provider, Reply, Request, Sandbox
from addendum.records.stored import Entry, Stored
from addendum.runs.context import Context
from addendum.runs.start import start
from addendum.sandbox.embedded import EmbeddedSandbox
from addendum.testing import MemoryStore
from addendum.testing.clock import ManualClock

SLEEP = 2
SCRIPT = f"""
async def rest(ctx):
    await ctx.sleep({SLEEP})

async def work(ctx, n):
    return await ctx.run("art.make", {{"n": n}})

async def orchestrate(ctx, args):
    return len(await ctx.parallel([rest(ctx), work(ctx, 1), work(ctx, 2)]))
"""


class Slow(MemoryStore):
    """A store in which the second attempt takes longer than the script sleeps."""

    def __init__(self, clock: ManualClock) -> None:
        super().__init__(clock=clock)
        self.manual = clock
        self.attempts = 0
        self.slept = threading.Event()

    def append(self, run: str, entries: Sequence[Entry], **more: Any) -> list[Stored]:
        stored = super().append(run, entries, **more)
        for entry in entries:
            if entry.kind == "attempt":
                self.attempts += 1
                self.manual.advance(SLEEP + 1 if self.attempts == 2 else 0)
            elif entry.kind == "record" and entry.body["capability"] == "ctx.sleep":
                self.slept.set()
        return stored


class Answers(queue.SimpleQueue[Answered | Wake]):
    """Answers that note how long each wait for them may take after the second attempt, until the sleep is over."""

    def __init__(self, store: Slow) -> None:
        self.store = store
        self.waits: list[float | None] = []

    def get(self, block: bool = True, timeout: float | None = None) -> Answered | Wake:
        if self.store.attempts == 2 and not self.store.slept.is_set():
            self.waits.append(timeout)
        return super().get(block, timeout)


class Maker:
    """A provider whose second answer comes when the sleep is over."""

    def __init__(self, store: Slow) -> None:
        self.store = store

    async def dispatch(self, request: Request) -> Reply:
        if request.attempt == 2:
            self.store.slept.wait(10)
        return Reply(request.attempt)

    async def lookup(self, capability: str, key: str) -> Reply | None:
        return None


@pytest.fixture(scope="module")
def sandbox() -> Iterator[Sandbox]:
    opened = EmbeddedSandbox()
    yield opened
    opened.close()


def test_a_timer_that_came_due_during_a_write_is_not_waited_for(sandbox: Sandbox) -> None:
    """The second call waits for room, and is sent while the driver already waits. Its attempt takes so long that the
    sleep is over by then."""
    clock = ManualClock()
    store = Slow(clock)
    answers = Answers(store)

    def dispatcher(provider: Provider, loop: Any) -> Dispatcher:
        made = Dispatcher(provider, loop)
        made.answers = answers
        return made

    context = Context(
        store=store,
        sandbox=sandbox,
        provider=Maker(store),
        catalog=Catalog([Capability(name="art.make", effect="paid")]),
        clock=clock,
        grant=from_json({"capabilities": {"art.make": {}}, "limits": [{"meter": "in_flight", "max": 1}]}),
        dispatcher=dispatcher,
    )
    assert start(context, SCRIPT, {}).result == 3
    assert store.attempts == 2
    assert answers.waits == []
