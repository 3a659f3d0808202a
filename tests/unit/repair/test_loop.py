"""The loop: what goes back to the model, when it ends, and that nothing is executed by it."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable

import pytest
from tests.repairing import CHANGED, CUT_OFF, DIVERGING, FILM, MENDED, PLACE, UNBOUNDED, World, answer, kinds, model

from addendum.authority.grant import everything
from addendum.errors import CapabilityError, ConfigError, NotFound, Rejected, RunBusy, UnknownOutcome, UsageError
from addendum.kernel.policy import Allowances
from addendum.ports import Reply, Request
from addendum.records.certificate import certificate
from addendum.repair.author import apply
from addendum.repair.loop import Asked, repair
from addendum.runs import query
from addendum.runs.operate import set_grant
from addendum.runs.revise import revise
from addendum.runs.start import resume, start
from addendum.testing import DEMO_CATALOG, DemoProvider


def test_a_candidate_that_holds_is_accepted_and_not_executed(world: World) -> None:
    """Three calls were sent before, and none after."""
    world.failed()

    outcome = world.repair(model(MENDED))

    assert (outcome.status, outcome.exit_code, outcome.candidate) == ("accepted", 0, MENDED)
    assert world.dispatched == 4
    assert world.kinds()[-2:] == ["draft", "drafted"]
    assert world.history().revision == 1
    assert outcome.drawn is not None
    assert outcome.drawn.plan is not None
    assert len(outcome.drawn.plan.replayed) == 3


def test_what_a_guard_finds_goes_back_with_the_candidate(world: World) -> None:
    """The second prompt has the counterexample and the text that it is about; the first had neither."""
    world.failed()
    by = model(CHANGED, MENDED)

    outcome = world.repair(by)

    assert kinds(outcome) == [[("gate", "call_changed")], []]
    first, second = (prompt.messages[1].text for prompt in by.prompts)
    assert "was refused" not in first
    assert "call_changed" in second
    assert '| {"prompt": shot["prompt"] + "!"}' not in second  # every line is numbered
    assert 'shot["prompt"] + "!"' in second


@pytest.mark.parametrize(
    ("script", "found"),
    [
        ("def f(:", ("checker", "R00")),
        (UNBOUNDED, ("checker", "R03")),
        (CUT_OFF, ("calls", "fewer_calls")),
        (FILM.replace("video.compose", "video.steal"), ("capabilities", "R08")),
        (FILM.replace('"image.generate"', '"repair.write"'), ("capabilities", "R08")),
        (CHANGED, ("gate", "call_changed")),
        (FILM.replace('run("image.generate"', 'run("video.generate"'), ("gate", "capability_changed")),
        (DIVERGING, ("plan", "divergence")),
        (FILM, ("answer", "unchanged")),
        (MENDED.replace('"Three"', "[3]"), ("plan", "invalid_input")),
        (FILM.replace("    urls = []\n", "    urls = []\n    urls[3]\n"), ("plan", "fails")),
    ],
)
def test_each_guard_refuses_what_is_its_own(world: World, script: str, found: tuple[str, str]) -> None:
    """A candidate comes as far as the first guard that has something against it."""
    world.failed()

    outcome = world.repair(model(script), attempts=1)

    assert found in kinds(outcome)[0]
    assert len({guard for guard, _ in kinds(outcome)[0]}) == 1
    assert (outcome.status, outcome.exit_code) == ("refused", 3)
    assert world.dispatched == 4


def test_a_call_that_would_be_paid_for_again_is_a_counterexample(world: World) -> None:
    """A look-alike at a new place passes the ledger's default policy with a warning; the loop gives it back."""
    world.failed()
    again = MENDED.replace("    film =", '    await ctx.run("image.generate", {"prompt": "Prompt 1"})\n    film =')
    first = FILM.replace(
        "    urls = []\n", '    urls = []\n    await ctx.run("storyboard.plan", {"brief": args["brief"], "shots": 3})\n'
    )

    outcome = world.repair(model(first, again), attempts=2)

    assert kinds(outcome)[0] == [("plan", "paid_again")]
    assert world.repair(model(first), attempts=1, policy={"ledger": "warn"}, again=True).status == "accepted"


def test_what_an_operator_allows_is_no_counterexample(world: World) -> None:
    """With supersede, changed calls are new versions, and their price stands in the plan."""
    world.failed()

    outcome = world.repair(model(CHANGED), attempts=1, allowances=Allowances(supersede=True))

    assert outcome.status == "accepted"
    assert outcome.drawn is not None
    assert outcome.drawn.plan is not None
    assert [call.supersedes for call in outcome.drawn.plan.frontier] != [None]


def test_fewer_calls_can_be_allowed(world: World) -> None:
    """The guard against a text that was cut off is an operator's to switch off."""
    world.failed()
    short = MENDED.partition("    film =")[0] + "    return urls\n"

    assert world.repair(model(short), attempts=1).status == "refused"
    assert world.repair(model(short), attempts=1, fewer_calls=True).status == "accepted"


def test_calls_may_be_gathered_in_a_loop(world: World) -> None:
    """Fewer calls in the text with as many in the worst case are no text that was cut off."""
    first = '    await ctx.run("text.generate", {"prompt": "a"})\n'
    second = '    await ctx.run("text.generate", {"prompt": "b"})\n'
    both = '    for prompt in ["a", "b"]:\n        await ctx.run("text.generate", {"prompt": prompt})\n'
    twice = FILM.replace("    film =", f"{first}{second}    film =")
    once = FILM.replace("    film =", f"{both}    film =")
    world.failed(twice)

    outcome = world.repair(model(once), attempts=1)

    assert ("calls", "fewer_calls") not in kinds(outcome)[0]


def test_declared_moves_are_held_against_the_candidate(world: World) -> None:
    """Under `declared` a move that the model names is admitted, and without it the place is gone."""
    world.failed()
    moved = (
        'async def draw(ctx, shot):\n    return await ctx.run("image.generate", {"prompt": shot["prompt"]})\n\n'
        + MENDED.replace('await ctx.run("image.generate", {"prompt": shot["prompt"]})', "await draw(ctx, shot)")
    )
    new = "orchestrate/for.0 > orchestrate/for.0/draw()#0 > draw/image.generate#0"
    by = model(moved, answer(moved, moves=[{"old": PLACE, "new": new}]))

    outcome = world.repair(by, attempts=2, policy={"relocation": "declared"})

    assert kinds(outcome) == [[("gate", "removed")], []]
    assert outcome.moves == {PLACE: new}
    assert apply(world.context, outcome).status == "applied"


def test_only_an_operator_gives_up_what_was_paid_for(world: World) -> None:
    """A drop that the model proposes is a counterexample until somebody allows it."""
    world.failed()
    without = MENDED.replace(CALL_SITE, 'ctx.run("audio.speech", {"text": shot["prompt"], "voice": "low"})')
    dropping = answer(without, drops=[PLACE])

    refused = world.repair(model(dropping), attempts=1)
    allowed = world.repair(model(dropping), attempts=1, allowances=Allowances(drops=(PLACE,)))

    assert kinds(refused) == [[("answer", "drop")]]
    assert allowed.status == "accepted"
    assert allowed.drops == (PLACE,)


CALL_SITE = 'ctx.run("image.generate", {"prompt": shot["prompt"]})'


def test_the_loop_ends_after_so_many_attempts_and_all_are_kept(world: World) -> None:
    """Each with its candidate, verdict, counterexamples and cost."""
    world.failed()

    outcome = world.repair(model(CHANGED, CUT_OFF, "x = ["), attempts=2)
    shown = query.show(world.store, "r")

    assert (outcome.status, len(outcome.attempts)) == ("refused", 2)
    assert [draft.state for draft in shown.drafts] == ["rejected", "rejected"]
    assert [draft.findings[0]["kind"] for draft in shown.drafts] == ["call_changed", "fewer_calls"]
    assert query.draft_of(world.store, "r", 2)[1] == CUT_OFF
    assert [attempt.capability for attempt in query.attempts(world.store, "r")][-2:] == ["repair.write"] * 2
    assert world.history().totals["repair.write"].cost == 6_000_000
    assert certificate(world.store.entries("r"), world.store.blob).differences == []


def test_a_later_loop_goes_on_from_the_last_counterexample(world: World) -> None:
    """Whoever asks again doesn't begin from nothing."""
    world.failed()
    world.repair(model(CHANGED), attempts=1)
    by = model(MENDED)

    assert world.repair(by, attempts=1).status == "accepted"
    assert "call_changed" in by.prompts[0].messages[1].text


def test_an_accepted_candidate_waits_and_nobody_is_asked_again(world: World) -> None:
    """The next command has it without a model; with `again` the model is asked."""
    world.failed()
    world.repair(model(MENDED))

    waiting = repair(world.context, "r", None)
    asked = world.repair(model(CHANGED), attempts=1, again=True)

    assert (waiting.status, waiting.candidate, waiting.attempts) == ("accepted", MENDED, ())
    assert kinds(asked) == [[("gate", "call_changed")]]


def test_a_candidate_waits_no_longer_than_the_run_stands_still(world: World) -> None:
    """Once the run went on, it was mended for something that is past."""
    world.failed()
    world.repair(model(MENDED))
    assert query.show(world.store, "r").advice[0].command == "addendum repair r --apply"

    world.provider.faults = ()
    assert resume(world.context, "r").status == "completed"

    assert world.history().pending == 0
    with pytest.raises(Rejected, match="nothing to repair"):
        repair(world.context, "r", None)


def test_a_candidate_that_holds_no_longer_says_so(world: World) -> None:
    """What an operator allows is for one command: without it the kept candidate is judged anew, and refused."""
    world.failed()
    world.repair(model(CHANGED), attempts=1, allowances=Allowances(supersede=True))

    with pytest.raises(Rejected, match="doesn't hold any more: The call at"):
        repair(world.context, "r", None)


def test_applying_is_a_call_of_its_own(world: World) -> None:
    """What was paid for is replayed, and the rest is sent."""
    world.failed()
    outcome = apply(world.context, world.repair(model(MENDED)))

    assert outcome.applied is not None
    assert (outcome.applied.status, outcome.applied.replayed, outcome.applied.dispatched) == ("completed", 3, 2)
    assert (outcome.status, outcome.exit_code, world.history().revision) == ("applied", 0, 2)


def test_a_plan_that_is_out_of_date_is_not_applied(world: World) -> None:
    """If the run has changed since the plan was shown, nothing is done."""
    world.failed()
    outcome = world.repair(model(MENDED))
    assert outcome.drawn is not None
    assert outcome.drawn.plan is not None

    with pytest.raises(Rejected, match="changed since"):
        apply(world.context, outcome, at=(1, "x"))
    set_grant(world.context, "r", world.grant)
    with pytest.raises(Rejected, match="changed since"):
        apply(world.context, outcome)
    assert world.dispatched == 4


# --- where no model is asked --------------------------------------------------------------------------------------


def test_a_run_that_nothing_failed_in_is_resumed(world: World) -> None:
    """Nothing is asked of a model where no script could help."""
    from addendum.testing import DemoProvider

    world.context.provider = DemoProvider()
    stop = threading.Event()
    stop.set()
    world.failed(stop=stop)

    outcome = world.repair(model())

    assert (outcome.status, outcome.exit_code) == ("resumable", 4)
    assert "draft" not in world.kinds()


def test_a_run_that_waits_for_a_person_waits(world: World) -> None:
    """An open approval is no failure."""
    source = 'async def orchestrate(ctx, args):\n    return await ctx.run("human.approve", {"question": "go?"})\n'
    world.failed(source)

    outcome = world.repair(model())

    assert (outcome.status, outcome.exit_code, outcome.attempts) == ("waiting", 4, ())


class Lost(DemoProvider):
    """Nobody knows what becomes of a mail, and that is heard once `after` holds."""

    after: Callable[[], bool] = staticmethod(lambda: True)

    async def dispatch(self, request: Request) -> Reply:
        if request.capability == "mail.send":
            while not self.after():  # noqa: ASYNC110 - another thread makes it hold
                await asyncio.sleep(0.001)
            raise UnknownOutcome("the line went dead")
        return await super().dispatch(request)


TWO = """
async def orchestrate(ctx, args):
    async def write():
        said = await ctx.run("text.generate", {"prompt": "a"})
        return said["text"] * args["times"]

    async def send():
        return await ctx.run("mail.send", {"to": "a@b", "subject": "s", "body": "b"})

    return await ctx.parallel([write(), send()])
"""


def test_a_script_that_failed_beside_an_unresolved_call_is_mended_around_it(world: World) -> None:
    """As for `revise`, a candidate has to reach that very call unchanged; one that doesn't goes back."""
    world.context.provider = world.provider = lost = Lost()
    lost.after = lambda: any(event["event"] == "settled" for event in world.events)  # type: ignore[method-assign]
    args = {"times": 10**12}
    assert start(world.context, TWO, args, run="r").error == "sandbox_limit"
    assert [attempt.capability for attempt in world.history().attempts.values()] == ["mail.send"]
    mended = TWO.replace(' * args["times"]', "")

    outcome = world.repair(model(mended.replace('"body": "b"', '"body": "c"'), mended))

    assert kinds(outcome) == [[("plan", "unresolved")], []]
    assert outcome.drawn is not None
    assert outcome.drawn.plan is not None
    assert (outcome.drawn.plan.status, outcome.drawn.plan.starts) == ("stopped", True)
    applied = apply(world.context, outcome).applied
    assert applied is not None
    assert (applied.status, applied.stop, applied.dispatched, applied.revision) == ("stopped", "unresolved", 0, 2)


def test_an_unresolved_call_is_cleared_up_first(world: World) -> None:
    """While nobody knows whether a mail left, no model is asked for a script that might send it again."""
    world.context.provider = Lost()
    mail = '{"to": "a@b", "subject": "s", "body": "b"}'
    world.failed(f'async def orchestrate(ctx, args):\n    return await ctx.run("mail.send", {mail})\n')

    outcome = world.repair(model())

    assert (outcome.status, outcome.exit_code, outcome.attempts) == ("unresolved", 4, ())
    assert "reconcile" in outcome.hint


def test_what_is_no_run_of_failures_says_so(world: World) -> None:
    """Unknown runs, busy ones, and nobody to ask."""
    with pytest.raises(NotFound):
        repair(world.context, "nowhere", model())
    world.failed()
    with pytest.raises(ConfigError, match="Nobody is named"):
        repair(world.context, "r", None)
    with pytest.raises(UsageError, match="can't be asked 0 times"):
        Asked(max_attempts=0)
    lease = world.store.acquire("r")
    with pytest.raises(RunBusy):
        world.repair(model(MENDED))
    world.store.release(lease)
    assert "draft" not in world.kinds()


def test_a_revision_of_a_persons_own_ends_the_wait(world: World) -> None:
    """A candidate is for the script that it mends."""
    world.failed()
    world.repair(model(MENDED))

    revise(world.context, "r", MENDED.replace("Three", "3"))

    assert world.history().pending == 0


# --- a model that fails -------------------------------------------------------------------------------------------


@pytest.mark.parametrize("code", ["invalid_input", "refused"])
def test_a_final_failure_ends_the_loop(world: World, code: str) -> None:
    """The same question gets the same answer, so it isn't asked again."""
    world.failed()

    outcome = world.repair(model(CapabilityError(code, "no"), MENDED))

    assert (outcome.status, outcome.exit_code, len(outcome.attempts)) == ("failed", 3, 1)
    assert outcome.attempts[0].failure == (code, "no")


@pytest.mark.parametrize("code", ["rate_limited", "timeout", "provider_error"])
def test_what_may_pass_is_asked_again_as_one_of_the_attempts(world: World, code: str) -> None:
    """A failure costs an attempt and what the provider charged."""
    world.failed()
    error = CapabilityError(code, "later", retryable=True, cost_usd="0.001")

    outcome = world.repair(model(error, MENDED), attempts=2)

    assert [tried.verdict for tried in outcome.attempts] == ["failed", "accepted"]
    assert outcome.cost == 4_000_000


def test_a_model_that_never_answers_gets_no_advice_for_a_script(world: World) -> None:
    """More attempts help nobody whose model's server is down; each time it was asked has a number of its own."""
    from rich.console import Console

    from addendum.cli.views.drafts import outcome as shown

    world.failed()
    error = CapabilityError("provider_error", "connection refused", retryable=True)

    outcome = world.repair(model(error, error, error, error), attempts=2)

    assert (outcome.status, len(outcome.attempts)) == ("failed", 4)
    assert "never answered" in outcome.message
    assert "more attempts" not in outcome.hint
    console = Console(width=200)
    with console.capture() as captured:
        console.print(shown(outcome.to_json()))
    assert [line.split()[0] for line in captured.get().splitlines()[1:5]] == ["1.", "2.", "3.", "4."]


def test_an_unknown_outcome_counts_in_full(world: World) -> None:
    """Nobody knows what it cost: not less than that it may have."""
    world.failed()

    outcome = world.repair(model(UnknownOutcome("no answer"), MENDED))

    assert [tried.verdict for tried in outcome.attempts] == ["unknown", "accepted"]
    assert outcome.cost == 13_000_000
    assert world.history().totals["repair.write"].cost == 13_000_000


def test_a_catalog_that_changed_is_accepted_first(world: World) -> None:
    """A repair against another price list than the run's is refused as a resume is."""
    from dataclasses import replace

    from addendum.authority.catalog import Catalog

    world.failed()
    dearer = [replace(each, price=each.price * 2) for each in DEMO_CATALOG.values()]
    world.context.catalog = Catalog(dearer)
    world.context.grant = everything(world.context.catalog)

    outcome = world.repair(model(MENDED))

    assert (outcome.status, outcome.attempts) == ("stopped", ())
    assert "catalog" in outcome.message
