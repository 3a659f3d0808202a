"""Questions to people: several at once, answered while others go on, twice, or about something else."""

from __future__ import annotations

import threading
from typing import Any

import pytest
from rig import Heard, Work, context, history, kinds, sound, until

from addendum.errors import CapabilityError, NotFound, UsageError
from addendum.ports import Request, Sandbox
from addendum.runs.operate import approve
from addendum.runs.revise import revise
from addendum.runs.start import resume, start
from addendum.testing.clock import ManualClock
from addendum.testing.memory_store import MemoryStore

GATES = """
async def gate(ctx, i):
    made = await ctx.run("art.make", {"i": i})
    said = await ctx.run("ask.person", {"question": f"Send {i}?", "made": made})
    if not said["approved"]:
        return None
    return await ctx.run("mail.send", {"i": i})

async def orchestrate(ctx, args):
    return await ctx.parallel([gate(ctx, i) for i in range(3)])
"""
TWO = """
async def orchestrate(ctx, args):
    first = await ctx.run("ask.person", {"question": "first?"})
    a = await ctx.run("mail.send", {"i": 1})
    second = await ctx.run("ask.person", {"question": "second?"})
    return [first["approved"], second["approved"], await ctx.run("mail.send", {"i": 2})]
"""


def question(i: int) -> str:
    """Return the identity of the question of a branch."""
    return f"orchestrate/parallel#0[{i}] > gate/ask.person#0"


def test_an_answer_to_one_of_three_questions_lets_only_that_branch_go_on(store: MemoryStore, sandbox: Sandbox) -> None:
    """The others stay where they are; the run is still waiting; nothing is asked again."""
    work = Work()
    made = context(store, work, sandbox)
    result = start(made, GATES, {}, run="r")
    assert (result.status, result.exit_code, work.count["art.make"]) == ("waiting", 4, 3)
    approve(made, "r", approved=True, which=[question(1)])
    again = resume(made, "r")
    assert (again.status, work.asked("mail.send")) == ("waiting", [{"i": 1}])
    assert [attempt.identity for attempt in history(store).attempts.values()] == [question(0), question(2)]
    approve(made, "r", approved=False, which=[question(0)])
    approve(made, "r", approved=True, which=[question(2)])
    final = resume(made, "r")
    assert (final.status, final.result) == ("completed", [None, {"n": 1}, {"n": 2}])
    assert (work.count["art.make"], work.twice) == (3, [])
    assert sum(1 for entry in store.entries("r") if entry.kind == "attempt" and entry.body.get("waits")) == 3
    assert sound(store)


def test_an_answer_that_comes_while_a_branch_still_works_is_picked_up_by_the_driver(
    store: MemoryStore, sandbox: Sandbox
) -> None:
    """Another process answers #2 while #3 is generating: #2 goes on before #3 is done, and #1 stays."""
    operator = context(store.another(), Work(), sandbox)
    sent = threading.Event()

    async def behave(request: Request) -> Any:
        if request.capability == "mail.send":
            sent.set()
        if request.payload == {"i": 2}:
            await until(sent)
        return {"n": 1}

    heard = Heard()

    def observer(event: Any) -> None:
        heard(event)
        if event["event"] == "asked" and event["identity"] == question(1):
            approve(operator, "r", approved=True, which=[question(1)])

    work = Work(lambda request, n: behave(request))
    made = context(store, work, sandbox, observer=observer, clock=ManualClock(tick=0.3))
    result = start(made, GATES, {}, run="r")
    assert (result.status, work.asked("mail.send")) == ("waiting", [{"i": 1}])
    assert [attempt.identity for attempt in history(store).attempts.values()] == [question(0), question(2)]
    assert kinds(store).count("answer") == 1
    assert sound(store)


def test_answers_are_picked_up_while_other_branches_never_rest(store: MemoryStore, sandbox: Sandbox) -> None:
    """A branch that always has an answer ready doesn't keep the driver from looking for a person's."""
    script = """
async def busy(ctx):
    last = {"n": 0}
    for i in range(2000):
        last = await ctx.run("text.read", {"i": i})
        if last.get("stop"):
            return i
    return -1

async def gate(ctx):
    await ctx.run("ask.person", {"question": "Go on?"})
    return await ctx.run("mail.send", {"i": 1})

async def orchestrate(ctx, args):
    return await ctx.parallel([busy(ctx), gate(ctx)])
"""
    operator = context(store.another(), Work(), sandbox)
    sent = threading.Event()

    def behave(request: Request, n: int) -> Any:
        if request.capability == "mail.send":
            sent.set()
        if n == 3 and request.capability == "text.read":
            approve(operator, "r", approved=True)
        return {"n": n, "stop": sent.is_set()}

    work = Work(behave)
    result = start(context(store, work, sandbox), script, {}, run="r")
    assert result.status == "completed"
    assert result.result[0] >= 0  # type: ignore[index,call-overload,operator]


def test_answering_twice_has_no_effect(store: MemoryStore, sandbox: Sandbox) -> None:
    """The second finds nothing open, at rest and while a process drives the run; the first one's word counts."""
    work = Work()
    made = context(store, work, sandbox)
    start(made, TWO, {}, run="r")
    approve(made, "r", approved=True)
    with pytest.raises(UsageError, match="waits for an approval"):
        approve(made, "r", approved=False)
    driver = store.another()
    lease = driver.acquire("r")
    before = kinds(store)
    with pytest.raises(UsageError):
        approve(made, "r", approved=False)
    assert kinds(store) == before
    driver.release(lease)
    result = resume(made, "r")
    assert (result.status, work.asked("mail.send")) == ("waiting", [{"i": 1}])


def test_two_answers_at_the_same_moment_are_one(store: MemoryStore, sandbox: Sandbox) -> None:
    """Both operators saw the question open while a process drove the run: the first answer counts."""
    from addendum.records.stored import Entry

    work = Work()
    made = context(store, work, sandbox)
    start(made, TWO, {}, run="r")
    (seq,) = history(store).attempts
    for approved in (True, False):
        body = {"attempt": seq, "result": {"approved": approved, "note": ""}, "by": "someone"}
        store.append("r", [Entry("answer", body)])
    resume(made, "r")
    approve(made, "r", approved=True)
    final = resume(made, "r")
    assert (final.status, final.result[:2]) == ("completed", [True, True])  # type: ignore[index,call-overload]
    assert kinds(store).count("record") == 4
    assert sound(store)


def test_two_questions_after_each_other_are_asked_once_each(store: MemoryStore, sandbox: Sandbox) -> None:
    """One new call for each answer."""
    work = Work()
    made = context(store, work, sandbox)
    assert start(made, TWO, {}, run="r").status == "waiting"
    assert resume(made, "r").status == "waiting"
    approve(made, "r", approved=True)
    middle = resume(made, "r")
    assert (middle.status, len(work.requests)) == ("waiting", 1)
    approve(made, "r", approved=False)
    final = resume(made, "r")
    assert (final.status, final.result, len(work.requests)) == ("completed", [True, False, {"n": 2}], 2)


def test_an_answer_that_is_left_for_a_driver_that_was_just_ending_is_found_by_the_next(
    store: MemoryStore, sandbox: Sandbox
) -> None:
    """It is in the journal, so it isn't lost."""
    work = Work()
    made = context(store, work, sandbox)
    start(made, TWO, {}, run="r")
    driver = store.another()
    lease = driver.acquire("r")
    approve(made, "r", approved=True)
    driver.release(lease)
    result = resume(made, "r")
    assert (result.status, work.asked("mail.send")) == ("waiting", [{"i": 1}])


def test_a_revised_question_is_asked_again_and_the_old_answer_doesn_t_cover_it(
    store: MemoryStore, sandbox: Sandbox
) -> None:
    """Approved was eighty-two; eight hundred and twenty is another question."""
    script = """
async def orchestrate(ctx, args):
    said = await ctx.run("ask.person", {"question": "Pay?", "amount": 82})
    if said["approved"]:
        return await ctx.run("mail.send", {"amount": 82})
"""
    dearer = script.replace("82}", "820}")
    work = Work()
    made = context(store, work, sandbox)
    start(made, script, {}, run="r")
    revised = revise(made, "r", dearer)
    assert (revised.status, work.requests) == ("waiting", [])
    open_questions = [attempt.payload.value for attempt in history(store).attempts.values()]
    assert {"question": "Pay?", "amount": 820} in open_questions
    approve(made, "r", approved=True)
    final = resume(made, "r")
    assert (final.status, work.asked("mail.send")) == ("completed", [{"amount": 820}])


def test_an_approved_question_that_was_changed_afterwards_diverges(store: MemoryStore, sandbox: Sandbox) -> None:
    """The answer is committed, so another payload at its identity stops the revision before anything is sent."""
    script = """
async def orchestrate(ctx, args):
    said = await ctx.run("ask.person", {"question": "Pay?", "amount": 82})
    if said["approved"]:
        return await ctx.run("mail.send", {"amount": 82})
"""

    def behave(request: Request, n: int) -> Any:
        raise CapabilityError("refused", "not now")

    work = Work(behave)
    made = context(store, work, sandbox)
    start(made, script, {}, run="r")
    approve(made, "r", approved=True)
    assert resume(made, "r").status == "failed"
    before = len(work.requests)
    revised = revise(made, "r", script.replace("82}", "820}"))
    assert revised.status in ("stopped", "not_admitted")
    assert set(revised.counterexamples) & {"divergence", "call_changed"}
    assert len(work.requests) == before


def test_an_answer_to_what_was_never_asked_is_a_typed_error(store: MemoryStore, sandbox: Sandbox) -> None:
    """It names what does wait."""
    made = context(store, Work(), sandbox)
    start(made, TWO, {}, run="r")
    with pytest.raises(NotFound) as caught:
        approve(made, "r", approved=True, which=["orchestrate/ask.person#9"])
    assert "orchestrate/ask.person#0" in caught.value.hint
    with pytest.raises(NotFound):
        approve(made, "no such run", approved=True)
