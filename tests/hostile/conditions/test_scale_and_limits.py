"""Many calls at once, and limits that hold whatever comes together: as the provider sees it, not as we count."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest
from rig import Work, catalog, context, cost, granted, history, kinds, sound

from addendum.errors import CapabilityError
from addendum.ports import Reply, Request, Sandbox
from addendum.runs.operate import set_grant
from addendum.runs.start import resume, start
from addendum.testing.clock import ManualClock
from addendum.testing.memory_store import MemoryStore

WIDE = """
async def one(ctx, i):
    return await ctx.run("art.make", {"i": i})

async def orchestrate(ctx, args):
    return await ctx.parallel([one(ctx, i) for i in range(WIDTH)])
"""
CHAINS = """
async def chain(ctx, i):
    text = await ctx.run("text.read", {"i": i})
    return await ctx.run("art.make", {"i": i, "text": text})

async def orchestrate(ctx, args):
    return await ctx.parallel([chain(ctx, i) for i in range(200)])
"""
ROW = """
async def orchestrate(ctx, args):
    found = []
    for i in range(WIDTH):
        found.append(await ctx.run("art.make", {"i": i}))
    return found
"""


def wide(width: int, text: str = WIDE) -> str:
    """Return a script of so many calls."""
    return text.replace("WIDTH", str(width))


def echo(request: Request, n: int) -> Any:
    """Answer with what was asked, so that a mix-up would show."""
    assert isinstance(request.payload, dict)
    return {"n": request.payload["i"]}


def limits(*found: dict[str, Any], name: str = "") -> dict[str, Any]:
    """Return a grant with limits of the whole run, or of a capability."""
    return {"capabilities": {name: {"limits": list(found)}}} if name else {"limits": list(found)}


@pytest.mark.slow
def test_a_thousand_branches_get_their_own_results_and_are_replayed(store: MemoryStore, sandbox: Sandbox) -> None:
    """All are sent at once, each is paid once, and a replay sends nothing."""
    work = Work(echo)
    result = start(context(store, work, sandbox), wide(1000), {}, run="r")
    assert (result.status, result.result) == ("completed", [{"n": i} for i in range(1000)])
    assert (len(work.requests), work.twice, work.peak) == (1000, [], 1000)
    again = resume(context(store, work, sandbox), "r")
    assert (again.result, again.replayed, again.dispatched) == (result.result, 1000, 0)
    assert sound(store)


@pytest.mark.slow
def test_two_hundred_chains_of_which_some_are_known_mix_up_nothing(store: MemoryStore, sandbox: Sandbox) -> None:
    """The first attempt fails in some of them; the second pays for those only, and each gets its own result."""

    def behave(request: Request, n: int) -> Any:
        i = request.payload["i"]  # type: ignore[index,call-overload]
        if request.capability == "art.make" and i % 7 == 3 and not again:
            raise CapabilityError("refused", "not yet")
        return {"n": i}

    again: list[bool] = []
    work = Work(behave)
    first = start(context(store, work, sandbox), CHAINS, {}, run="r")
    assert (first.status, first.error, first.committed) == ("failed", "refused", 200 + 171)
    again.append(True)
    before = len(work.requests)
    second = resume(context(store, work, sandbox), "r")
    assert (second.status, second.result) == ("completed", [{"n": i} for i in range(200)])
    assert [request.payload["i"] % 7 for request in work.requests[before:]] == [3] * 29  # type: ignore[index,call-overload]
    assert sound(store)


@pytest.mark.parametrize("most", [1, 3])
@pytest.mark.parametrize("name", ["", "art.make"])
def test_a_limit_on_calls_in_flight_is_kept_as_the_provider_sees_it(
    most: int, name: str, store: MemoryStore, sandbox: Sandbox
) -> None:
    """Twelve branches at once: never more than the limit are with the provider, and all come through."""
    work = Work(echo)
    grant = limits({"meter": "in_flight", "max": most}, name=name)
    result = start(context(store, work, sandbox, grant=grant), wide(12), {}, run="r")
    assert (result.status, len(work.requests), work.peak) == ("completed", 12, most)


def test_a_limit_of_no_calls_in_flight_pauses(store: MemoryStore, sandbox: Sandbox) -> None:
    """Waiting would never end."""
    work = Work()
    grant = limits({"meter": "in_flight", "max": 0})
    result = start(context(store, work, sandbox, grant=grant), wide(2), {}, run="r")
    assert (result.status, work.requests) == ("paused", [])


@pytest.mark.parametrize(
    "limit",
    [{"meter": "cost_usd", "max": "0.12"}, {"meter": "calls", "max": 6}, {"meter": "bytes_out", "max": 6 * 7}],
    ids=lambda limit: limit["meter"],
)
def test_of_ten_calls_that_come_together_exactly_those_are_sent_that_the_budget_holds(
    limit: dict[str, Any], store: MemoryStore, sandbox: Sandbox
) -> None:
    """Six of ten; the run pauses with the limit's name, and a raised limit pays for the other four only."""
    work = Work(echo)
    result = start(context(store, work, sandbox, grant=limits(limit)), wide(10), {}, run="r")
    assert (result.status, len(work.requests), result.exit_code) == ("paused", 6, 4)
    assert limit["meter"] in result.message
    assert "grant" in result.hint
    set_grant(context(store, work, sandbox), "r", granted(None))
    final = resume(context(store, work, sandbox), "r")
    assert (final.status, final.result) == ("completed", [{"n": i} for i in range(10)])
    assert (len(work.requests), work.twice) == (10, [])


def test_a_reservation_is_made_at_the_most_and_settled_at_what_it_cost(store: MemoryStore, sandbox: Sandbox) -> None:
    """One at a time, a call that costs less than it may leaves room for the next; all at once, it doesn't."""
    dear = catalog(art_make={"most": 50_000_000})
    grant = limits({"meter": "cost_usd", "max": "0.1"})
    work = Work(lambda request, n: Reply({"n": n}, cost("0.01")))
    row = start(context(store, work, sandbox, grant=grant, capabilities=dear), wide(10, ROW), {}, run="row")
    assert (row.status, row.dispatched, row.total_cost) == ("paused", 6, 60_000_000)
    together = start(context(store, work, sandbox, grant=grant, capabilities=dear), wide(10), {}, run="together")
    assert (together.status, together.dispatched) == ("paused", 2)


def test_an_unresolved_attempt_keeps_its_money(store: MemoryStore, sandbox: Sandbox) -> None:
    """What may have been spent is not spent once more on something else."""
    from addendum.errors import UnknownOutcome

    def behave(request: Request, n: int) -> Any:
        if n == 1:
            raise UnknownOutcome("lost")

    work = Work(behave)
    grant = limits({"meter": "cost_usd", "max": "0.02"})
    assert start(context(store, work, sandbox, grant=grant), wide(1), {}, run="r").stop == "unresolved"
    other = wide(1).replace('{"i": i}', '{"j": i}')
    from addendum.runs.revise import plan

    drawn = plan(context(store, work, sandbox), "r", other)
    assert drawn.plan is not None
    (room,) = drawn.plan.rooms
    assert (room.before, room.limit.most) == (20_000_000, 20_000_000)
    assert len(work.requests) == 1


@pytest.mark.slow
def test_a_window_lets_no_more_through_than_it_says(store: MemoryStore, sandbox: Sandbox) -> None:
    """Seven calls at two a minute: in no minute of the journal are there three."""
    clock = ManualClock(tick=7.0)
    work = Work(echo)
    grant = limits({"meter": "calls", "max": 2, "per": "minute"})
    result = start(context(store, work, sandbox, grant=grant, clock=clock), wide(7), {}, run="r")
    assert (result.status, len(work.requests)) == ("completed", 7)
    times = [entry.body["at_ms"] / 1000 for entry in store.entries("r") if entry.kind == "attempt"]
    assert all(later - earlier >= 60 for earlier, later in zip(times, times[2:], strict=False))


def test_a_window_lasts_over_a_restart(store: MemoryStore, sandbox: Sandbox) -> None:
    """What an earlier attempt sent in this minute counts."""
    clock = ManualClock()

    def behave(request: Request, n: int) -> Any:
        if n == 2:
            raise CapabilityError("refused", "no")
        return echo(request, n)

    work = Work(behave)
    grant = limits({"meter": "calls", "max": 2, "per": "minute"})
    start(context(store, work, sandbox, grant=grant, clock=clock), wide(2, ROW), {}, run="r")
    clock.advance(30)
    later = ManualClock(clock.now(), tick=7.0)
    resume(context(store, work, sandbox, clock=later), "r")
    times = [entry.body["at_ms"] / 1000 for entry in store.entries("r") if entry.kind == "attempt"]
    assert len(times) == 3
    assert times[2] - times[0] >= 60


def test_a_clock_that_is_set_back_refills_no_window_until_it_has_caught_up(
    store: MemoryStore, sandbox: Sandbox
) -> None:
    """Ten minutes back: what was sent counts until the clock is the window's minute further than it was then."""
    clock = ManualClock(tick=20.0)
    set_back_to: list[float] = []

    def behave(request: Request, n: int) -> Any:
        if n == 2:
            clock.set(clock.now() - 600)
            set_back_to.append(clock.now())
        return echo(request, n)

    work = Work(behave)
    grant = limits({"meter": "calls", "max": 2, "per": "minute"})
    result = start(context(store, work, sandbox, grant=grant, clock=clock), wide(4, ROW), {}, run="r")
    assert (result.status, len(work.requests)) == ("completed", 4)
    sent = [entry.body["at_ms"] / 1000 for entry in store.entries("r") if entry.kind == "attempt"]
    assert set_back_to[0] < sent[1] - 500
    assert 60 <= sent[2] - sent[0] < 300
    assert 60 <= sent[3] - sent[1] < 300


@pytest.mark.parametrize("limit", [{"meter": "calls", "max": 0}, {"meter": "cost_usd", "max": "0.01"}], ids=str)
def test_a_window_that_never_has_room_for_a_call_pauses(
    limit: dict[str, Any], store: MemoryStore, sandbox: Sandbox
) -> None:
    """Waiting would never end."""
    work = Work()
    grant = limits({**limit, "per": "hour"})
    result = start(context(store, work, sandbox, grant=grant), wide(1), {}, run="r")
    assert (result.status, work.requests) == ("paused", [])


def test_a_clock_that_is_set_back_changes_no_recorded_time(store: MemoryStore, sandbox: Sandbox) -> None:
    """A replay serves what was recorded; a later read may say less."""
    script = 'async def orchestrate(ctx, args):\n    return [await ctx.now(), await ctx.run("text.read", {})]\n'
    clock = ManualClock()
    first = start(context(store, Work(), sandbox, clock=clock), script, {}, run="r")
    clock.set(0.0)
    again = resume(context(store, Work(), sandbox, clock=clock), "r")
    assert (again.status, again.result) == ("completed", first.result)


def test_a_limit_that_is_reached_in_a_retry_pauses_and_is_taken_up_again(store: MemoryStore, sandbox: Sandbox) -> None:
    """A retry is a dispatch like any other; what failed isn't committed as a failure for want of money."""

    def behave(request: Request, n: int) -> Any:
        if n == 1:
            raise CapabilityError("rate_limited", "once more", retryable=True)
        return echo(request, n)

    work = Work(behave)
    made = context(store, work, sandbox, grant=limits({"meter": "calls", "max": 1}))
    result = start(made, wide(1), {}, run="r")
    assert (result.status, len(work.requests)) == ("paused", 1)
    assert kinds(store).count("record") == 0
    set_grant(made, "r", granted(limits({"meter": "calls", "max": 2})))
    final = resume(made, "r")
    assert (final.status, len(work.requests)) == ("completed", 2)


def test_a_retry_waits_for_room_in_flight(store: MemoryStore, sandbox: Sandbox) -> None:
    """It takes its turn: never two at one time."""

    def behave(request: Request, n: int) -> Any:
        if n <= 2:
            raise CapabilityError("rate_limited", "once more", retryable=True)
        return echo(request, n)

    work = Work(behave)
    grant = limits({"meter": "in_flight", "max": 1})
    result = start(context(store, work, sandbox, grant=grant), wide(3), {}, run="r")
    assert (result.status, len(work.requests), work.peak) == ("completed", 5, 1)


def test_what_a_failed_call_was_charged_counts_against_the_budget(store: MemoryStore, sandbox: Sandbox) -> None:
    """A refusal that costs money leaves less for the next call."""

    def behave(request: Request, n: int) -> Any:
        raise CapabilityError("refused", "no", cost_usd="0.015")

    work = Work(behave)
    script = wide(3, ROW).replace(
        'found.append(await ctx.run("art.make", {"i": i}))',
        'try:\n            await ctx.run("art.make", {"i": i})\n        except CapabilityError as e:\n'
        "            found.append(e.code)",
    )
    grant = limits({"meter": "cost_usd", "max": "0.04"})
    result = start(context(store, work, sandbox, grant=grant), script, {}, run="r")
    assert (result.status, len(work.requests), result.total_cost) == ("paused", 2, 30_000_000)


@pytest.mark.slow
def test_refusals_count_so_that_a_script_cannot_ask_for_ever(store: MemoryStore, sandbox: Sandbox) -> None:
    """A thousand bad payloads that are caught one by one send nothing, and are records that a limit could count."""
    script = """
async def orchestrate(ctx, args):
    bad = 0
    for i in range(300):
        try:
            await ctx.run("mail.send", {"to": i})
        except CapabilityError as e:
            bad += 1
    return bad
"""
    work = Work()
    typed = catalog(mail_send={"input": {"type": "object", "properties": {"to": {"type": "string"}}}})
    made = context(store, work, sandbox, capabilities=typed)
    result = start(made, script, {}, run="r")
    assert (result.status, result.result, work.requests) == ("completed", 300, [])
    assert kinds(store).count("record") == 300
    again = resume(made, "r")
    assert (again.result, again.replayed) == (300, 300)


def test_tokens_and_journal_bytes_pause_once_they_are_used_up(store: MemoryStore, sandbox: Sandbox) -> None:
    """Tokens that nobody declared a maximum of are known after the call only; bytes are held at their most before."""
    from addendum.ports import Usage

    work = Work(lambda request, n: Reply({"n": n, "pad": "x" * 100}, Usage(tokens=60)))
    grant = limits({"meter": "tokens", "max": 100})
    result = start(context(store, work, sandbox, grant=grant), wide(5, ROW), {}, run="tokens")
    assert (result.status, result.dispatched) == ("paused", 2)
    grant = limits({"meter": "journal_bytes", "max": 250})
    small = catalog(art_make={"max_result": 120})
    result = start(context(store, work, sandbox, capabilities=small, grant=grant), wide(5, ROW), {}, run="bytes")
    assert (result.status, result.dispatched) == ("paused", 2)
    assert "journal_bytes <= 250" in result.message
    result = start(context(store, work, sandbox, grant=grant), wide(5, ROW), {}, run="large")
    assert (result.status, result.dispatched) == ("paused", 0)


def test_money_that_was_spent_on_what_is_no_longer_granted_still_counts(store: MemoryStore, sandbox: Sandbox) -> None:
    """A limit of the whole run is about the run, not about what may be called today."""
    script = """
async def orchestrate(ctx, args):
    first = await ctx.run("note.put", {"i": 1})
    return await ctx.run("art.make", {"i": 2})
"""

    def behave(request: Request, n: int) -> Any:
        if request.capability == "art.make":
            raise CapabilityError("refused", "not yet")
        return Reply({"n": 1}, cost("0.09"))

    work = Work(behave)
    made = context(store, work, sandbox)
    grant = limits({"meter": "cost_usd", "max": "0.1"})
    assert start(made, script, {}, run="r").status == "failed"
    from addendum.authority.grant import from_json

    set_grant(made, "r", from_json({"capabilities": {"art.make": {}}, **grant, "worst_case": "at_run_time"}))
    work.behave = echo
    before = len(work.requests)
    result = resume(made, "r")
    assert (result.status, len(work.requests)) == ("paused", before)


def test_the_whole_run_lasts_no_longer_than_it_may(store: MemoryStore, sandbox: Sandbox) -> None:
    """The time that a run was driven is summed over its attempts; beyond the limit nothing is sent."""
    clock = ManualClock(tick=4.0)
    work = Work(echo)
    grant = limits({"meter": "seconds", "max": 60})
    result = start(context(store, work, sandbox, grant=grant, clock=clock), wide(50, ROW), {}, run="r")
    assert result.status == "paused"
    assert 0 < len(work.requests) < 50
    again = resume(context(store, work, sandbox, grant=grant, clock=clock), "r")
    assert (again.status, again.dispatched) == ("paused", 0)


def test_answers_may_come_in_any_order_and_are_handed_over_as_they_were_committed(
    store: MemoryStore, sandbox: Sandbox
) -> None:
    """The last is answered first; each branch gets its own, and a replay keeps the order of hand-over."""
    gates: dict[int, asyncio.Event] = {}

    async def in_reverse(request: Request) -> Any:
        i = request.payload["i"]  # type: ignore[index,call-overload]
        for each in range(8):
            gates.setdefault(each, asyncio.Event())
        if i < 7:
            await gates[i + 1].wait()
        gates[i].set()
        return {"n": i}

    work = Work(lambda request, n: in_reverse(request))
    result = start(context(store, work, sandbox), wide(8), {}, run="r")
    assert result.result == [{"n": i} for i in range(8)]
    again = resume(context(store, work, sandbox), "r")
    assert (again.result, again.dispatched) == (result.result, 0)
    records = list(history(store).records.values())
    assert "[7]" in records[0].origin


RACE = """
async def slow(ctx, i):
    return await ctx.run("art.make", {"i": i})

async def quick(ctx):
    return await ctx.run("text.read", {"i": 0})

async def orchestrate(ctx, args):
    won = await ctx.race([quick(ctx), slow(ctx, 1), slow(ctx, 2)])
    return [won, await ctx.run("mail.send", {"i": 9})]
"""


def test_a_call_of_a_race_that_is_over_is_never_sent(store: MemoryStore, sandbox: Sandbox) -> None:
    """One at a time: when the first has won, the others still wait for room, and nobody waits for them."""
    work = Work(echo)
    grant = limits({"meter": "in_flight", "max": 1})
    result = start(context(store, work, sandbox, grant=grant), RACE, {}, run="r")
    assert (result.status, result.result) == ("completed", [{"n": 0}, {"n": 9}])
    assert [request.capability for request in work.requests] == ["text.read", "mail.send"]


def test_a_retry_of_a_race_that_is_over_is_never_sent(store: MemoryStore, sandbox: Sandbox) -> None:
    """The loser failed for now, and would have been tried again."""

    async def behave(request: Request) -> Any:
        if request.capability == "art.make":
            raise CapabilityError("rate_limited", "later", retryable=True)
        if request.capability == "text.read":
            await failed.wait()
        return {"n": 1}

    failed = asyncio.Event()

    def observer(event: Any) -> None:
        if event["event"] == "retry":
            loops[0].call_soon_threadsafe(failed.set)

    loops: list[asyncio.AbstractEventLoop] = []

    def begin(request: Request, n: int) -> Any:
        loops.append(asyncio.get_running_loop())
        return behave(request)

    work = Work(begin)
    made = context(store, work, sandbox, observer=observer)
    made.backoff = 1e6
    result = start(made, RACE, {}, run="r")
    assert result.status == "completed"
    assert [request.capability for request in work.requests].count("art.make") == 2


def test_a_sleep_of_a_race_that_is_over_holds_nothing_up(store: MemoryStore, sandbox: Sandbox) -> None:
    """A run that waits for a person afterwards ends as waiting, and not only when the loser wakes up."""
    script = """
async def late(ctx):
    await ctx.sleep(1000000)
    return 0

async def quick(ctx):
    return await ctx.run("text.read", {"i": 0})

async def orchestrate(ctx, args):
    won = await ctx.race([late(ctx), quick(ctx)])
    return await ctx.run("ask.person", {"won": won})
"""
    result = start(context(store, Work(echo), sandbox), script, {}, run="r")
    assert result.status == "waiting"


def test_a_question_of_a_race_that_is_over_is_not_waited_for(store: MemoryStore, sandbox: Sandbox) -> None:
    """The run completes without its answer."""
    script = """
async def ask(ctx):
    return await ctx.run("ask.person", {})

async def quick(ctx):
    return await ctx.run("text.read", {"i": 0})

async def orchestrate(ctx, args):
    return await ctx.race([ask(ctx), quick(ctx)])
"""
    result = start(context(store, Work(echo), sandbox), script, {}, run="r")
    assert (result.status, result.result) == ("completed", {"n": 0})
