"""A sandbox that lies: whatever isn't bound to the script's own positions stops the run without an effect."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import pytest
from rig import OPAQUE, Heard, Work, context, kinds, sound

from addendum.canon import Json
from addendum.errors import SandboxCrashed
from addendum.ports import (
    Answer,
    Event,
    FanOut,
    Handed,
    Issued,
    Known,
    Limits,
    RaceEnded,
    Raised,
    Returned,
    Said,
    Script,
    Served,
    Turn,
)
from addendum.runs.revise import plan
from addendum.runs.start import resume, start
from addendum.testing.memory_store import MemoryStore

SCRIPT = """
async def one(ctx, i):
    return await ctx.run("art.make", {"i": i})

async def orchestrate(ctx, args):
    text = await ctx.run("text.read", {})
    for i in range(2):
        await one(ctx, i)
    made = await ctx.parallel([one(ctx, i) for i in range(2)])
    won = await ctx.race([one(ctx, i) for i in range(2)])
    return [text, made, won]
"""
READ = "orchestrate/text.read#0"
ONE = "orchestrate/for.0[0] > orchestrate/for.0/one()#0 > one/art.make#0"


class Liar:
    """A `Session` that says what it was given, a turn at a time; afterwards it ends with None."""

    def __init__(self, turns: Sequence[Turn | BaseException]) -> None:
        self._turns = list(turns)
        self.answers: list[Answer | None] = []

    def advance(self, answer: Answer | None, ahead: Sequence[Known] = ()) -> Turn:
        self.answers.append(answer)
        turn = self._turns.pop(0) if self._turns else Turn((), Returned(None))
        if isinstance(turn, BaseException):
            raise turn
        return turn

    def close(self) -> None:
        self._turns.clear()


class Lair:
    """A `Sandbox` whose sessions lie."""

    name = "liar"

    def __init__(self, *turns: Turn | BaseException) -> None:
        self._turns = turns
        self.sessions: list[Liar] = []

    def open(self, script: Script, args: Json, *, limits: Limits, nonce: str) -> Liar:
        self.sessions.append(Liar(self._turns))
        return self.sessions[-1]

    def close(self) -> None:
        pass


def _turn(*events: Event, end: Any = None) -> Turn:
    return Turn(events, end)


LIES: dict[str, tuple[Turn, ...]] = {
    "a site that isn't there": (_turn(Issued(1, "orchestrate/text.read#7", "text.read", {})),),
    "another function": (_turn(Issued(1, "elsewhere/mail.send#0", "mail.send", {})),),
    "a capability that isn't the site's": (_turn(Issued(1, READ, "mail.send", {})),),
    "a read at the place of a call": (_turn(Issued(1, READ, "ctx.now", {})),),
    "a call at the place of a fan-out": (_turn(Issued(1, "orchestrate/parallel#0", "parallel", {})),),
    "a race at the place of a barrier": (_turn(Issued(1, "orchestrate/parallel#0", "ctx.race", {"winner": 0})),),
    "a call at the place of a frame": (_turn(Issued(1, "orchestrate/for.0/one()#0", "one", {})),),
    "a loop's place": (_turn(Issued(1, "orchestrate/for.0[0]", "art.make", {})),),
    "nothing at all": (_turn(Issued(1, "", "", {})),),
    "a frame that isn't there": (_turn(Issued(1, "orchestrate/while.0[0] > one/art.make#0", "art.make", {})),),
    "a site as a frame": (_turn(Issued(1, f"{READ} > one/art.make#0", "art.make", {})),),
    "a loop without its number": (_turn(Issued(1, "orchestrate/for.0 > one/art.make#0", "art.make", {})),),
    "a call frame with a branch": (_turn(Issued(1, "orchestrate/for.0/one()#0[1] > one/art.make#0", "art.make", {})),),
    "a number written otherwise": (_turn(Issued(1, ONE.replace("[0]", "[00]"), "art.make", {})),),
    "an entry written otherwise": (_turn(Issued(1, f"{READ}:0", "text.read", {})),),
    "a sign": (_turn(Issued(1, ONE.replace("[0]", "[-1]"), "art.make", {})),),
    "a number in another script": (_turn(Issued(1, ONE.replace("[0]", "[٣]"), "art.make", {})),),
    "a branch at a site": (_turn(Issued(1, f"{READ}[0]", "text.read", {})),),
    "an identity twice in a turn": (_turn(Issued(1, ONE, "art.make", {}), Issued(2, ONE, "art.make", {"i": 1})),),
    "an identity twice": (_turn(Issued(1, READ, "text.read", {})), _turn(Issued(2, READ, "text.read", {}))),
    "a number twice": (_turn(Issued(1, READ, "text.read", {}), Issued(1, ONE, "art.make", {})),),
    "an end while a call waits": (_turn(Issued(1, READ, "text.read", {}), end=Returned("all done")),),
    "an error while a call waits": (_turn(Issued(1, ONE, "art.make", {}), end=Raised("ValueError", "no")),),
    "no take": (_turn(Issued(1, READ, "text.read", {}, take=0)),),
    "half a take": (_turn(Issued(1, READ, "text.read", {}, take=1.5)),),  # type: ignore[arg-type]
    "a take that is no number": (_turn(Issued(1, READ, "text.read", {}, take="2")),),  # type: ignore[arg-type]
    "an identity that is no text": (_turn(Issued(1, 7, "text.read", {})),),  # type: ignore[arg-type]
    "a capability that is no text": (_turn(Issued(1, READ, None, {})),),  # type: ignore[arg-type]
    "a served site that isn't there": (_turn(Served("orchestrate/text.read#7", "text.read", {})),),
    "a served capability that isn't the site's": (_turn(Served(READ, "mail.send", {})),),
}


@pytest.mark.parametrize("lie", LIES)
def test_a_lie_of_the_sandbox_is_a_typed_stop(lie: str, store: MemoryStore) -> None:
    """The run stops as `sandbox`; no side-effecting call was sent, and the journal is sound."""
    work = Work()
    result = start(context(store, work, Lair(*LIES[lie])), SCRIPT, {}, run="r")
    assert (result.status, result.stop, result.exit_code) == ("stopped", "sandbox", 3)
    assert "may not send" in result.message
    assert work.asked("art.make") == work.asked("mail.send") == []
    assert sound(store)


@pytest.mark.parametrize("lie", ["a capability that isn't the site's", "an identity twice in a turn"])
def test_a_plan_is_stopped_by_a_lie_too(lie: str, store: MemoryStore) -> None:
    """A shadow replay trusts the sandbox no more than a run does."""
    honest = Lair(_turn(Issued(1, READ, "text.read", {})), _turn(end=Returned(None)))
    start(context(store, Work(), honest), SCRIPT, {}, run="r")
    found = plan(context(store, Work(), Lair(*LIES[lie])), "r", SCRIPT + "\n")
    assert found.plan is not None
    assert (found.plan.status, found.plan.stop.kind if found.plan.stop else "") == ("stopped", "sandbox")


@pytest.mark.parametrize(
    "payload", [math.nan, {1: 2}, b"x", {"a": OPAQUE}, 2**70, "\ud800", [[[]]] * 3 + [{1}]], ids=repr
)
def test_a_payload_that_is_no_json_is_refused_before_it_is_sent(payload: Any, store: MemoryStore) -> None:
    """The call fails as `invalid_input`, as the guest would have said it."""
    lair = Lair(_turn(Issued(1, READ, "text.read", payload)))
    work = Work()
    result = start(context(store, work, lair), SCRIPT, {}, run="r")
    assert (result.status, result.dispatched, work.requests) == ("completed", 0, [])
    answer = lair.sessions[0].answers[1]
    assert answer is not None
    assert answer.outcome.code == "invalid_input"  # type: ignore[union-attr]
    assert sound(store)


def test_a_payload_that_is_changed_after_it_was_announced_is_sent_as_it_was_recorded(store: MemoryStore) -> None:
    """What the journal's digest says is what the provider gets, once it is on its way."""
    payload = {"i": 1}
    work = Work()
    lair = Lair(_turn(Issued(1, READ, "text.read", payload)))
    start(context(store, work, lair, observer=lambda event: payload.update(i=2)), SCRIPT, {}, run="r")
    assert sound(store)
    (sent,) = work.asked("text.read")
    (kept,) = [entry.body["payload"]["value"] for entry in store.entries("r") if entry.kind == "attempt"]
    assert sent == kept


def test_served_calls_that_nobody_settled_start_the_script_again_without_a_table(store: MemoryStore) -> None:
    """A session that says it was told an answer that it never got is run once more, a call at a time."""
    lair = Lair(_turn(Served(READ, "text.read", {})), _turn(end=Returned(1)))
    result = start(context(store, Work(), lair), SCRIPT, {}, run="r")
    # The second session tells the same lie: it is astray once, and then again for ever, unless that is noticed.
    assert result.stop == "sandbox"
    assert len(lair.sessions) == 2


def test_a_session_that_breaks_down_is_a_typed_stop_and_the_run_goes_on_later(store: MemoryStore) -> None:
    """The worker is gone: what is in flight lands, and the next attempt replays it."""
    work = Work()
    lair = Lair(_turn(Issued(1, READ, "text.read", {})), SandboxCrashed("the worker died", hint="Resume."))
    result = start(context(store, work, lair), SCRIPT, {}, run="r")
    assert (result.stop, result.committed, result.hint) == ("sandbox", 1, "Resume.")
    again = Lair(_turn(Issued(1, READ, "text.read", {})), _turn(end=Returned("done")))
    final = resume(context(store, work, again), "r")
    assert (final.status, final.replayed, final.dispatched) == ("completed", 1, 0)


def test_words_about_fan_outs_that_are_not_there_have_no_effect(store: MemoryStore) -> None:
    """A width or a winner of nothing matches nothing, and what is logged is only shown."""
    lair = Lair(
        _turn(
            FanOut("nowhere", "parallel", 10**9),
            RaceEnded("nowhere", 3),
            Said("log", "\ud800 half a letter"),
            Issued(1, READ, "text.read", {}),
        ),
        _turn(end=Raised("Error\ud800", "\udfff", code="x\ud800", frames=((1, "f\ud800"),))),
    )
    result = start(context(store, Work(), lair), SCRIPT, {}, run="r")
    assert (result.status, result.dispatched) == ("failed", 1)
    result.message.encode("utf-8")
    assert sound(store)


# --- batches ------------------------------------------------------------------------------------------------------

BRANCHES = """
async def orchestrate(ctx, args):
    return await ctx.parallel([ctx.run("art.make", {"i": i}) for i in range(3)])
"""
FAN = FanOut("orchestrate/parallel#0", "parallel", 3)


def _branch(n: int, i: int | None = None) -> Issued:
    payload = {"i": n if i is None else i}
    return Issued(n + 1, f"orchestrate/parallel#0[{n}] > orchestrate/art.make#0", "art.make", payload)


STARTED = _turn(FAN, *map(_branch, range(3)))
DONE = Returned("done")
ALONE = (STARTED, _turn(), _turn(), _turn(end=DONE))


class Hasty(Liar):
    """One that takes batches."""

    def advance_all(self, answers: Sequence[Answer], ahead: Sequence[Known] = ()) -> Turn:
        assert len(answers) == 3
        return self.advance(answers[0], ahead)


class HastyLair(Lair):
    """Its first session takes batches and lies; those after it get one answer at a time."""

    def __init__(self, lie: Turn, *then: Turn) -> None:
        super().__init__(*then)
        self._lie = lie

    def open(self, script: Script, args: Json, *, limits: Limits, nonce: str) -> Liar:
        first = not self.sessions
        self.sessions.append(Hasty((STARTED, self._lie)) if first else Liar(self._turns))
        return self.sessions[-1]


OTHERWISE: dict[str, Turn] = {
    "another order": _turn(Handed(1), Handed(3), Handed(2), end=DONE),
    "another one first": _turn(Handed(2), Handed(1), Handed(3), end=DONE),
    "the first one is missing": _turn(Handed(2), Handed(3), end=DONE),
    "one in the middle is missing": _turn(Handed(1), Handed(3), end=DONE),
    "one twice": _turn(Handed(1), Handed(2), Handed(2), Handed(3), end=DONE),
    "the first one twice": _turn(Handed(1), Handed(1), Handed(2), Handed(3), end=DONE),
    "one too many": _turn(Handed(1), Handed(2), Handed(3), Handed(3), end=DONE),
    "one that isn't in it": _turn(Handed(1), Handed(7), Handed(2), Handed(3), end=DONE),
    "a fan-out in between": _turn(Handed(1), FanOut("nowhere", "parallel", 1), Handed(2), Handed(3), end=DONE),
    "a fan-out before": _turn(FAN, Handed(1), Handed(2), Handed(3), end=DONE),
    "a race that ends in between": _turn(Handed(1), RaceEnded("nowhere", 0), Handed(2), Handed(3), end=DONE),
    "a race that drops one": _turn(Handed(1), RaceEnded("orchestrate/parallel#0", 1), Handed(2), Handed(3), end=DONE),
}
TOO_FEW: dict[str, Turn] = {
    "none": _turn(end=DONE),
    "none, and the script waits": _turn(),
    "the last one is missing": _turn(Handed(1), Handed(2), end=DONE),
    "an end in the middle": _turn(Handed(1), end=Raised("ValueError", "no")),
    "a call made twice": _turn(Handed(1), _branch(1), Handed(2), Handed(3), end=DONE),
    "a call served that isn't there": _turn(Handed(1), Served(READ, "text.read", {}), Handed(2), Handed(3), end=DONE),
    "a call of nowhere": _turn(Handed(1), Issued(9, "nowhere/mail.send#0", "mail.send", {}), Handed(2), Handed(3)),
}


def _made(store: MemoryStore) -> Work:
    """Make the three calls in a run that fails after them."""
    work = Work()
    result = start(context(store, work, Lair(*ALONE[:3], _turn(end=Raised("ValueError", "no")))), BRANCHES, {}, run="r")
    assert (result.status, result.committed) == ("failed", 3)
    return work


@pytest.mark.parametrize("lie", OTHERWISE)
def test_a_batch_that_went_otherwise_is_handed_over_one_at_a_time(lie: str, store: MemoryStore) -> None:
    """Whatever was said of it, the script is started again; nothing is sent, and nothing is told or counted twice."""
    work, heard = _made(store), Heard()
    lair = HastyLair(OTHERWISE[lie], *ALONE)
    result = resume(context(store, work, lair, observer=heard), "r")
    assert (result.status, result.result, result.replayed, result.dispatched) == ("completed", "done", 3, 0)
    assert len(lair.sessions) == 2
    assert [event["identity"] for event in heard.of("replayed")] == [_branch(n).identity for n in range(3)]
    assert len(work.requests) == 3
    assert sound(store)


@pytest.mark.parametrize("lie", TOO_FEW)
def test_a_batch_that_did_not_arrive_is_a_typed_stop(lie: str, store: MemoryStore) -> None:
    """So it is with a call that isn't bound to the source."""
    work = _made(store)
    lair = HastyLair(TOO_FEW[lie], *ALONE)
    result = resume(context(store, work, lair), "r")
    assert (result.status, result.stop, len(lair.sessions)) == ("stopped", "sandbox", 1)
    assert len(work.requests) == 3
    assert sound(store)


def test_an_honest_batch_is_taken_as_it_is(store: MemoryStore) -> None:
    """The lies above aren't found because no batch is taken."""
    lair = HastyLair(_turn(Handed(1), Handed(2), Handed(3), end=DONE))
    result = resume(context(store, _made(store), lair), "r")
    assert (result.status, result.replayed, len(lair.sessions)) == ("completed", 3, 1)


def test_marks_without_a_batch_are_a_typed_stop(store: MemoryStore) -> None:
    """The session that gets one answer at a time says them again: it is not started a third time."""
    lair = Lair(_turn(*STARTED.events, Handed(1)))
    result = start(context(store, Work(), lair), BRANCHES, {}, run="r")
    assert (result.status, result.stop, result.dispatched, len(lair.sessions)) == ("stopped", "sandbox", 0, 2)


@pytest.mark.slow
def test_of_twenty_thousand_calls_at_once_only_the_granted_ones_are_sent(store: MemoryStore) -> None:
    """The run pauses at the limit's name; the others stand in no journal."""
    calls = 20_000
    head = "orchestrate/for.0[0] > orchestrate/for.0/one()#0 > one/art.make#0"
    flood = _turn(*(Issued(i + 1, f"{head}:{i}" if i else head, "art.make", {"i": i}) for i in range(calls)))
    lair = Lair(flood, *(_turn() for _ in range(5)))
    work = Work()
    grant = {"limits": [{"meter": "calls", "max": 5}]}
    result = start(context(store, work, lair, grant=grant), SCRIPT, {}, run="r")
    assert (result.status, result.dispatched, len(work.requests)) == ("paused", 5, 5)
    assert "calls <= 5" in result.message
    assert kinds(store).count("attempt") == 5
