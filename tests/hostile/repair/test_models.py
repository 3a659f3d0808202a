"""Models that fail, hang, say nonsense or never come back: the run's money is counted, and nothing else is touched."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable
from typing import Any

import pytest
from tests.repairing import MENDED, MOST, World, model

from addendum.errors import FAILURE_CODES, CapabilityError, UnknownOutcome
from addendum.ports import Prompt, Usage, Written
from addendum.repair.loop import Asked, repair


class Odd:
    """A model that does what a function does."""

    name = "odd"
    most = MOST
    most_tokens = 1000

    def __init__(self, act: Callable[[Prompt], Any]) -> None:
        self.act = act
        self.asked = 0
        self.closed = 0

    def bound(self, prompt: Prompt) -> Usage:
        return Usage(self.most, self.most_tokens)

    async def write(self, prompt: Prompt) -> Written:
        self.asked += 1
        found = self.act(prompt)
        if asyncio.iscoroutine(found):
            found = await found
        written: Written = found
        return written

    async def close(self) -> None:
        self.closed += 1


def raising(error: BaseException) -> Callable[[Prompt], Any]:
    """Return what raises an error."""

    def act(prompt: Prompt) -> Any:
        raise error

    return act


@pytest.mark.parametrize("code", FAILURE_CODES)
@pytest.mark.parametrize("retryable", [True, False])
def test_each_failure_code_ends_or_goes_on(world: World, code: str, retryable: bool) -> None:
    """What may pass is asked again, beyond the attempts, as often as there are retries; what can't isn't. An answer
    that was charged for and couldn't be read is what the model is told of."""
    world.failed()
    by = Odd(raising(CapabilityError(code, "no\n## Request", retryable, cost_usd="0.002")))

    outcome = repair(world.context, "r", by, Asked(max_attempts=3, retries=2))

    final = code in ("invalid_input", "refused") and not retryable
    unread = code == "provider_error" and not retryable
    assert (outcome.status, outcome.exit_code) == ("refused" if unread else "failed", 3)
    assert by.asked == (1 if final else 5 if retryable else 3)
    assert [[found.kind for found in each.findings] for each in outcome.attempts] == [
        ["unreadable"] * unread
    ] * by.asked
    assert outcome.cost == 2_000_000 * by.asked
    assert world.dispatched == 4
    assert world.history().drafts == {}


@pytest.mark.parametrize("code", FAILURE_CODES)
def test_what_was_not_charged_for_and_can_not_pass_is_asked_once(world: World, code: str) -> None:
    """A wrong key stays wrong."""
    world.failed()
    by = Odd(raising(CapabilityError(code, "HTTP 401")))

    outcome = repair(world.context, "r", by, Asked(max_attempts=3))

    assert (outcome.status, by.asked, outcome.cost) == ("failed", 1, 0)
    assert "Mend what it says" in outcome.hint


@pytest.mark.parametrize(
    "error", [ValueError("broken"), KeyError(), RuntimeError("\ud800"), SystemExit(3), asyncio.CancelledError()]
)
def test_whatever_a_model_raises_is_an_attempt(world: World, error: BaseException) -> None:
    """A client with a bug takes nothing down with it."""
    world.failed()
    by = Odd(raising(error))

    outcome = repair(world.context, "r", by, Asked(max_attempts=1))

    assert outcome.status == "failed"
    assert world.history().drafts == {}


@pytest.mark.parametrize(
    "written",
    [
        None,
        "text",
        3,
        Written(object(), Usage(), "m"),  # type: ignore[arg-type]
        Written(float("nan"), Usage(), "m"),
        Written({"script": MENDED, "moves": float("inf")}, Usage(), "m"),  # type: ignore[dict-item]
        Written({"script": "\ud800"}, Usage(), "m"),
        Written({"script": MENDED}, None, None),  # type: ignore[arg-type]
        Written({"script": MENDED}, Usage(-1, -1), "\ud800"),
        Written([1] * 100_000, Usage(), "m"),
    ],
)
def test_whatever_a_model_returns_is_an_attempt(world: World, written: Any) -> None:
    """What isn't an answer is refused or a failure; a usage that is none counts in full."""
    world.failed()
    by = Odd(lambda prompt: written)

    outcome = repair(world.context, "r", by, Asked(max_attempts=1))

    assert outcome.status in ("refused", "failed", "accepted")
    assert world.kinds()[-2:] == ["draft", "drafted"]
    assert world.history().totals["repair.write"].cost in (0, MOST)
    assert world.dispatched == 4


def test_a_model_that_hangs_is_given_up(world: World) -> None:
    """After its time, with its money counted in full; its connections are let go."""
    world.failed()

    async def forever() -> None:
        await asyncio.Event().wait()

    by = Odd(lambda prompt: forever())

    outcome = repair(world.context, "r", by, Asked(max_attempts=2, timeout=0.02))

    assert [tried.verdict for tried in outcome.attempts] == ["unknown", "unknown"]
    assert (outcome.status, outcome.cost, by.closed) == ("failed", 2 * MOST, 1)
    assert "no answer within" in outcome.attempts[0].note


def test_a_model_that_blocks_its_event_loop_is_given_up(world: World) -> None:
    """Nothing on that loop can end it; the run goes on without it."""
    world.failed()
    free = threading.Event()
    by = Odd(lambda prompt: free.wait(20))
    try:
        outcome = repair(world.context, "r", by, Asked(max_attempts=1, timeout=0.02))
    finally:
        free.set()

    assert [tried.verdict for tried in outcome.attempts] == ["unknown"]


def test_stopping_while_the_model_is_asked_is_clean(world: World) -> None:
    """What was asked counts in full, the run can be repaired again at once."""
    world.failed()
    stop = threading.Event()

    async def stopped() -> None:
        stop.set()
        await asyncio.Event().wait()

    outcome = repair(world.context, "r", Odd(lambda prompt: stopped()), Asked(), stop=stop)

    assert (outcome.status, [tried.verdict for tried in outcome.attempts]) == ("stopped", ["unknown"])
    assert world.history().drafts == {}
    assert world.repair(model(MENDED)).status == "accepted"


def test_an_answer_that_comes_too_late_belongs_to_nobody(world: World) -> None:
    """The second question isn't answered by what was said to the first."""
    world.failed()
    gate: list[asyncio.Event] = []

    async def first_late(prompt: Prompt) -> Written:
        if not gate:
            gate.append(asyncio.Event())
            try:
                await gate[0].wait()
            except asyncio.CancelledError:
                return Written({"script": MENDED, "moves": [], "drops": [], "reason": "late"}, Usage(0), "m")
        return Written({"script": "x = [", "moves": [], "drops": [], "reason": ""}, Usage(0), "m")

    outcome = repair(world.context, "r", Odd(first_late), Asked(max_attempts=2, timeout=0.02))

    assert [tried.verdict for tried in outcome.attempts][-1] in ("rejected", "accepted")
    assert len(outcome.attempts) <= 2


def test_a_sandbox_that_is_gone_costs_no_second_answer(world: World) -> None:
    """The answer was paid for and can't be judged: it is kept, and the error is told."""
    from addendum.errors import SandboxMissing

    world.failed()

    class Gone:
        name = "gone"

        def open(self, *args: Any, **more: Any) -> Any:
            raise SandboxMissing("no sandbox here", hint="Install one.")

        def close(self) -> None:
            return

    there, world.context.sandbox = world.context.sandbox, Gone()
    with pytest.raises(SandboxMissing):
        repair(world.context, "r", model(MENDED), Asked())
    world.context.sandbox = there

    assert world.history().drafts == {}
    assert world.history().totals["repair.write"].cost == 3_000_000


def test_an_observer_that_breaks_breaks_nothing(world: World) -> None:
    """Whoever watches can't change the run."""
    world.failed()

    def watch(event: Any) -> None:
        raise RuntimeError("no")

    world.context.observer = watch

    assert world.repair(model(UnknownOutcome(), MENDED)).status == "accepted"


def test_a_run_that_is_cancelled_while_the_model_is_asked_stops(world: World) -> None:
    """An operator's word counts here as in a drive; what was asked counts in full."""
    from addendum.runs.operate import cancel

    world.failed()

    async def cancelled() -> None:
        cancel(world.context, "r")
        await asyncio.Event().wait()

    outcome = repair(world.context, "r", Odd(lambda prompt: cancelled()), Asked())

    assert (outcome.status, len(outcome.attempts)) == ("stopped", 1)
    assert "cancelled" in outcome.attempts[0].note
    assert outcome.cost == MOST
