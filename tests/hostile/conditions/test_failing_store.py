"""A store that fails at its n-th read or write, for every n: stopped before an effect, nothing lost or paid twice."""

from __future__ import annotations

from typing import Any

import pytest
from rig import Faulty, Work, context, history, sound

from addendum.errors import LeaseLost, StoreCorrupt, StoreError, StoreUnavailable, UsageError
from addendum.ports import Sandbox, Store
from addendum.records.stored import Entry
from addendum.runs.operate import reconcile
from addendum.runs.result import StepResult
from addendum.runs.revise import revise
from addendum.runs.start import resume, start
from addendum.testing.clock import ManualClock
from addendum.testing.memory_store import MemoryStore

pytestmark = pytest.mark.slow

SCRIPT = """
async def one(ctx, i, text):
    return await ctx.run("art.make", {"i": i, "text": text})

async def orchestrate(ctx, args):
    now = await ctx.now()
    text = await ctx.run("text.read", {"long": args["long"]})
    made = await ctx.parallel([one(ctx, i, text) for i in range(2)])
    sent = await ctx.run("mail.send", {"made": made})
    return [made, sent]
"""
REVISED = SCRIPT.replace('"mail.send", {"made": made}', '"mail.send", {"made": made, "more": True}')
ARGS = {"long": "x" * 5000}
"""Long enough to be kept as a blob."""
END = [[{"n": 1}, {"n": 2}], {"n": 1}]


def _go_on(keeper: MemoryStore, work: Work, sandbox: Sandbox, first: StepResult | None) -> StepResult:
    """Go on with a run in a healthy store, as an operator would: write back what the provider says became of calls."""
    made = context(keeper, work, sandbox)
    try:
        result = resume(made, "r")
    except UsageError:  # it never started
        assert work.requests == []
        return start(made, SCRIPT, ARGS, run="again")
    unsaved = {} if first is None else {entry["attempt"]: entry["result"] for entry in first.details["unsaved"]}
    while result.stop == "unresolved":
        for seq, attempt in list(history(keeper).attempts.items()):
            sent = [request for request in work.requests if request.key == attempt.key]
            if attempt.effect == "read":
                continue
            if not sent:
                reconcile(made, "r", abandon=True, which=[attempt.key], reason="the provider never got it")
                continue
            known = {"n": [r for r in work.requests if r.capability == attempt.capability].index(sent[0]) + 1}
            assert unsaved.get(seq, known) == known
            reconcile(made, "r", result=known, which=[attempt.key], reason="the provider says so")
        result = resume(made, "r")
    return result


def _durable_first(keeper: MemoryStore, work: Work) -> None:
    """Every request that left has its attempt in the journal: the same key, the same identity."""
    if not work.requests:
        return
    kept = {entry.body["key"]: entry.body["identity"] for entry in keeper.entries("r") if entry.kind == "attempt"}
    for request in work.requests:
        assert kept[request.key] == request.identity


def _calls_of_a_run(sandbox: Sandbox, names: tuple[str, ...]) -> int:
    store = Faulty(MemoryStore())
    result = start(context(store, Work(), sandbox, clock=ManualClock(tick=1.0)), SCRIPT, ARGS, run="r")
    assert (result.status, result.result) == ("completed", END)
    return sum(1 for call in store.calls if call in names)


@pytest.mark.parametrize("lasting", [True, False], ids=["for good", "once"])
@pytest.mark.parametrize("error", [StoreUnavailable, StoreCorrupt, LeaseLost])
@pytest.mark.parametrize("names", [Faulty.READS, Faulty.WRITES], ids=["reads", "writes"])
def test_a_store_that_fails_at_any_call_stops_the_run_before_an_effect_and_loses_nothing(
    names: tuple[str, ...], error: type[StoreError], lasting: bool, sandbox: Sandbox
) -> None:
    """For every n: a typed stop or error, durable attempts first, unsaved results shown; nothing is paid twice."""
    total = _calls_of_a_run(sandbox, names)
    assert total >= 3
    for n in range(1, total + 1):
        store = MemoryStore()
        keeper = store.another()
        work = Work()
        faulty = Faulty(store, names, n, error, lasting)
        result: StepResult | None = None
        try:
            result = start(context(faulty, work, sandbox, clock=ManualClock(tick=1.0)), SCRIPT, ARGS, run="r")
        except error:
            assert work.requests == []
        if result is not None and result.status != "completed":
            assert (result.status, result.stop, result.exit_code) == ("stopped", "store_unavailable", 1), n
            assert result.message
        store.close()  # the process is gone, its lease with it
        if any(header.run == "r" for header in keeper.runs()):
            _durable_first(keeper, work)
            final = _go_on(keeper, work, sandbox, result)
            assert (final.status, final.result) == ("completed", END), n
            assert work.twice == [], n
            assert sound(keeper, final.run), n


@pytest.mark.parametrize("names", [Faulty.READS, Faulty.WRITES], ids=["reads", "writes"])
def test_a_store_that_fails_while_a_run_is_resumed_pays_nothing_twice(names: tuple[str, ...], sandbox: Sandbox) -> None:
    """The same for a resume of a run that was stopped half-way: by a mail that could not be sent."""
    for n in range(1, 100):
        store = MemoryStore()
        keeper = store.another()
        work = Work(_refuse_first_mail)
        start(context(store, work, sandbox), SCRIPT, ARGS, run="r")
        faulty = Faulty(store, names, n)
        result: StepResult | None = None
        try:
            result = resume(context(faulty, work, sandbox, clock=ManualClock(tick=1.0)), "r")
        except StoreUnavailable:
            pass
        store.close()
        _durable_first(keeper, work)
        final = _go_on(keeper, work, sandbox, result)
        assert (final.status, work.count["art.make"]) == ("completed", 2), n
        assert sum(1 for request in work.requests if request.capability == "mail.send") == 2, n
        if not faulty.failed:
            return
    raise AssertionError("a resume has fewer calls than that")


def _refuse_first_mail(request: Any, n: int) -> Any:
    from addendum.errors import CapabilityError

    if request.capability == "mail.send" and n == 1:
        raise CapabilityError("refused", "not now")


def test_a_store_that_fails_while_a_revision_is_applied_leaves_the_run_as_it_was_or_revised(sandbox: Sandbox) -> None:
    """A revision is one transaction: it is there with its rebinds, or the run is the one it was."""
    for n in range(1, 100):
        store = MemoryStore()
        keeper = store.another()
        work = Work(_refuse_first_mail)
        start(context(store, work, sandbox), SCRIPT, ARGS, run="r")
        faulty = Faulty(store, (*Faulty.READS, *Faulty.WRITES), n)
        try:
            result = revise(context(faulty, work, sandbox), "r", REVISED)
        except StoreUnavailable:
            result = None
        store.close()
        assert sound(keeper)
        made = context(keeper, work, sandbox)
        final = revise(made, "r", REVISED)
        if final.stop == "unresolved":
            reconcile(made, "r", result={"n": 9}, reason="the provider says so")
            final = revise(made, "r", REVISED)
        assert final.status == "completed", (n, final.message, result)
        assert work.count["art.make"] == 2, n
        assert [p for p in work.asked("mail.send") if "more" in p].__len__() == 1, n  # type: ignore[operator]
        if not faulty.failed:
            return
    raise AssertionError("a revision has fewer calls than that")


class Hiccup:
    """A store whose appends of records fail `times` times, each after `before` good ones."""

    def __init__(self, store: MemoryStore, times: int) -> None:
        self._store, self._times = store, times

    def __getattr__(self, name: str) -> Any:
        return getattr(self._store, name)

    def append(self, run: str, entries: list[Entry], **more: Any) -> Any:
        if self._times and any(entry.kind == "record" for entry in entries):
            self._times -= 1
            raise StoreUnavailable("locked")
        return self._store.append(run, entries, **more)


def test_a_paid_result_that_could_not_be_saved_is_tried_once_more_at_the_end(
    store: MemoryStore, sandbox: Sandbox
) -> None:
    """A store that was only locked for a moment costs no person's time: the next attempt replays the result."""
    work = Work()
    flaky: Store = Hiccup(store, 1)  # type: ignore[assignment]
    result = start(context(flaky, work, sandbox), ONE, {}, run="r")
    assert (result.stop, result.details["unsaved"], result.committed) == ("store_unavailable", [], 1)
    again = resume(context(store, work, sandbox), "r")
    assert (again.status, again.dispatched, again.result) == ("completed", 0, {"n": 1})


def test_a_paid_result_that_can_not_be_saved_is_shown_and_can_be_written_back(
    store: MemoryStore, sandbox: Sandbox
) -> None:
    """What the provider answered is in the result of the step; with it, the run goes on without paying again."""
    work = Work()
    broken: Store = Hiccup(store, 10)  # type: ignore[assignment]
    result = start(context(broken, work, sandbox), ONE, {}, run="r")
    (unsaved,) = result.details["unsaved"]
    assert (unsaved["capability"], unsaved["result"]) == ("art.make", {"n": 1})
    assert result.details["unresolved"] == [unsaved["identity"]]
    made = context(store, work, sandbox)
    assert resume(made, "r").stop == "unresolved"
    reconcile(made, "r", result=unsaved["result"], which=[unsaved["identity"]])
    again = resume(made, "r")
    assert (again.status, again.dispatched, again.result) == ("completed", 0, {"n": 1})


ONE = """
async def orchestrate(ctx, args):
    return await ctx.run("art.make", {"i": 1})
"""
