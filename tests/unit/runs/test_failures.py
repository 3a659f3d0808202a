"""Handled and open failures, and what each way of retrying does with them (DESIGN section 4)."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

import pytest

from addendum.authority.catalog import Capability, Catalog
from addendum.authority.grant import everything
from addendum.errors import CapabilityError
from addendum.kernel.policy import Allowances
from addendum.ports import Reply, Request
from addendum.runs.context import Context
from addendum.runs.result import StepResult
from addendum.runs.revise import revise
from addendum.runs.start import resume, start
from addendum.sandbox.embedded import EmbeddedSandbox
from addendum.testing.clock import ManualClock
from addendum.testing.memory_store import MemoryStore

CATALOG = Catalog(
    [
        Capability(name="art.make", effect="paid", price=20),
        Capability(name="text.read", effect="read"),
        Capability(name="mail.send", effect="irreversible"),
    ]
)


@dataclass
class Work:
    """A provider that fails for the payloads in `bad`, and counts what it is asked."""

    bad: list[Any] = field(default_factory=list)
    asked: list[tuple[str, Any]] = field(default_factory=list)
    code: str = "refused"

    async def dispatch(self, request: Request) -> Reply:
        self.asked.append((request.capability, request.payload))
        if request.payload in self.bad:
            raise CapabilityError(self.code, "no")
        return Reply({"n": len(self.asked)})

    async def lookup(self, capability: str, key: str) -> Reply | None:
        return None

    def times(self, payload: Any) -> int:
        """How often a payload was sent."""
        return sum(1 for _, sent in self.asked if sent == payload)


@pytest.fixture(scope="module")
def sandbox() -> Iterator[EmbeddedSandbox]:
    found = EmbeddedSandbox(look=lambda: (None, "not looked for"))
    yield found
    found.close()


@pytest.fixture
def work() -> Work:
    return Work()


@pytest.fixture
def made(sandbox: EmbeddedSandbox, work: Work) -> Context:
    return Context(
        store=MemoryStore(),
        sandbox=sandbox,
        provider=work,
        catalog=CATALOG,
        clock=ManualClock(),
        grant=everything(CATALOG),
        backoff=0.0,
    )


def again(made: Context, retry: Any = "open") -> StepResult:
    """Resume with a way of retrying."""
    return resume(made, "r", allowances=Allowances(retry=retry))


CAUGHT = """
async def orchestrate(ctx, args):
    found = []
    for i in range(3):
        try:
            found.append(await ctx.run("art.make", {"i": i}))
        except CapabilityError as e:
            found.append(e.code)
    found.append(await ctx.run("mail.send", {"last": True}))
    return found
"""


def test_a_failure_that_the_script_went_on_after_is_replayed_as_the_same(made: Context, work: Work) -> None:
    """Control flow doesn't change under the script, though the call would succeed now."""
    work.bad = [{"i": 1}, {"last": True}]
    assert start(made, CAUGHT, {}, run="r").status == "failed"
    work.bad = []
    result = again(made)
    assert (result.status, result.result) == ("completed", [{"n": 1}, "refused", {"n": 3}, {"n": 5}])
    assert (work.times({"i": 1}), work.times({"last": True}), result.replayed) == (1, 2, 3)


def test_all_tries_the_handled_ones_too(made: Context, work: Work) -> None:
    """What was a failure is a result now."""
    work.bad = [{"i": 1}, {"last": True}]
    start(made, CAUGHT, {}, run="r")
    work.bad = []
    result = again(made, "all")
    assert (result.status, work.times({"i": 1})) == ("completed", 2)
    assert [type(each) for each in result.result] == [dict] * 4  # type: ignore[union-attr]


def test_none_tries_nothing_again(made: Context, work: Work) -> None:
    """The run ends as it ended."""
    work.bad = [{"last": True}]
    start(made, CAUGHT, {}, run="r")
    work.bad = []
    result = again(made, "none")
    assert (result.status, result.error, result.dispatched) == ("failed", "refused", 0)
    assert again(made).status == "completed"


LOOP = """
async def orchestrate(ctx, args):
    made = None
    for i in range(3):
        try:
            made = await ctx.run("art.make", {"same": True})
            break
        except CapabilityError as e:
            made = e.code
    return [made, await ctx.run("mail.send", {"last": True})]
"""


def test_all_does_not_try_again_what_an_equal_later_call_has_done(made: Context, work: Work) -> None:
    """The first of three failed, the second succeeded: paying for the first now would be paying twice."""

    class Once(list[Any]):
        """Fails the first time only."""

        def __contains__(self, payload: object) -> bool:
            if payload == {"last": True}:
                return failing
            return payload == {"same": True} and work.times({"same": True}) == 1

    failing = True
    work.bad = Once()
    assert start(made, LOOP, {}, run="r").status == "failed"
    failing = False
    result = again(made, "all")
    assert (result.status, work.times({"same": True})) == ("completed", 2)


BARRIER = """
async def one(ctx, i):
    return await ctx.run("art.make", {"i": i})

async def orchestrate(ctx, args):
    made = await ctx.parallel([one(ctx, i) for i in range(4)])
    return await ctx.run("mail.send", {"made": made})
"""
WRAPPED = BARRIER.replace(
    "    made = await ctx.parallel([one(ctx, i) for i in range(4)])\n",
    "    try:\n        made = await ctx.parallel([one(ctx, i) for i in range(4)])\n"
    "    except CapabilityError as e:\n        raise ValueError(e.code)\n",
)


@pytest.mark.parametrize("script", [BARRIER, WRAPPED], ids=["its own error", "an error of the script's"])
def test_siblings_that_failed_at_a_barrier_are_all_open(script: str, made: Context, work: Work) -> None:
    """Two of four: both are tried again, whatever error the script made of it; the good ones are replayed."""
    work.bad = [{"i": 1}, {"i": 3}]
    result = start(made, script, {}, run="r")
    assert (result.status, result.committed) == ("failed", 2)
    work.bad = []
    final = again(made)
    assert (final.status, final.replayed, final.dispatched) == ("completed", 2, 3)
    assert Counter(work.times({"i": i}) for i in range(4)) == Counter({1: 2, 2: 2})


def test_a_failure_in_place_of_a_result_is_handled_by_what_comes_behind_the_barrier(made: Context, work: Work) -> None:
    """`return_errors` handed it to the script, which went on: it is part of the trace."""
    script = """
async def one(ctx, i):
    return await ctx.run("art.make", {"i": i})

async def orchestrate(ctx, args):
    made = await ctx.parallel([one(ctx, i) for i in range(2)], return_errors=True)
    bad = len([1 for each in made if isinstance(each, CapabilityError)])
    return await ctx.run("mail.send", {"bad": bad})
"""
    work.bad = [{"i": 0}, {"bad": 1}]
    start(made, script, {}, run="r")
    work.bad = []
    final = again(made)
    assert (final.status, work.times({"i": 0}), work.times({"bad": 1})) == ("completed", 1, 2)


def test_a_failure_of_a_completed_run_is_handled(made: Context, work: Work) -> None:
    """The script lived with it to its end."""
    script = CAUGHT.replace('    found.append(await ctx.run("mail.send", {"last": True}))\n', "")
    work.bad = [{"i": 2}]
    assert start(made, script, {}, run="r").status == "completed"
    work.bad = []
    result = again(made)
    assert (result.status, result.dispatched, result.result[2]) == ("completed", 0, "refused")  # type: ignore[index,call-overload]


def test_what_a_failure_is_is_decided_anew_in_each_attempt(made: Context, work: Work) -> None:
    """Handled in the first, it is open in the second, whose script ends with it."""
    ends = """
async def orchestrate(ctx, args):
    try:
        await ctx.run("art.make", {"i": 1})
    except CapabilityError as e:
        if args["go on"]:
            return await ctx.run("mail.send", {"because": e.code})
        raise
    return "made"
"""
    work.bad = [{"i": 1}, {"because": "refused"}]
    assert start(made, ends, {"go on": True}, run="r").status == "failed"
    second = revise(made, "r", ends, args={"go on": False})
    assert (second.status, work.times({"i": 1})) == ("failed", 1)
    work.bad = []
    third = again(made)
    assert (third.status, third.result, work.times({"i": 1})) == ("completed", "made", 2)


REPEAT = """
async def orchestrate(ctx, args):
    found = []
    for i in range(2):
        found.append(await ctx.run("art.make", {"same": True}))
    return [found, await ctx.run("mail.send", {"last": True})]
"""


@pytest.mark.parametrize(
    ("policy", "status", "paid"),
    [("auto", "stopped", 2), ("deny", "stopped", 2), ("warn", "completed", 3), ("off", "completed", 3)],
)
def test_a_widened_loop_is_a_repeat(policy: str, status: str, paid: int, made: Context, work: Work) -> None:
    """The third equal one is beyond the bounds of the source that paid for two."""
    work.bad = [{"last": True}]
    start(made, REPEAT, {}, run="r")
    work.bad = []
    result = revise(made, "r", REPEAT.replace("range(2)", "range(3)"), policy={"ledger": policy})
    assert (result.status, work.times({"same": True})) == (status, paid)
    assert result.stop == ("repeat" if status == "stopped" else None)
    assert result.repeats == (0 if policy == "off" else 1)


def test_what_was_always_there_is_no_repeat(made: Context, work: Work) -> None:
    """The second of two after the first was paid for in an earlier attempt."""

    class Second(list[Any]):
        """Fails the second time only."""

        def __contains__(self, payload: object) -> bool:
            return payload == {"same": True} and work.times({"same": True}) == 2

    work.bad = Second()
    assert start(made, REPEAT, {}, run="r").status == "failed"
    work.bad = []
    result = again(made)
    assert (result.status, result.repeats, work.times({"same": True})) == ("completed", 0, 3)


def test_a_take_is_a_wanted_second(made: Context, work: Work) -> None:
    """It has a digest of its own."""
    work.bad = [{"last": True}]
    start(made, REPEAT, {}, run="r")
    work.bad = []
    more = REPEAT.replace(
        "    return [found", '    found.append(await ctx.run("art.make", {"same": True}, take=2))\n    return [found'
    )
    result = revise(made, "r", more)
    assert (result.status, result.repeats, work.times({"same": True})) == ("completed", 0, 3)
