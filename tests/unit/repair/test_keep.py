"""Money of the loop is money of the run: reserved before the model is asked, settled after, bounded by the grant."""

from __future__ import annotations

import pytest
from tests.repairing import CHANGED, CUT_OFF, MENDED, MOST, World, granted, kinds, model

from addendum.authority.catalog import WRITE, Capability, Catalog
from addendum.authority.grant import Grant
from addendum.broker.desk import open_desk
from addendum.broker.journal import Journal
from addendum.errors import ConfigError
from addendum.records.entries import Draft, Ref
from addendum.records.stored import Entry
from addendum.repair.author import apply
from addendum.runs import given, meters, operate, query
from addendum.runs.start import driving
from addendum.runs.start import granted as grant_of
from addendum.testing import DEMO_CATALOG

ONCE = {"limits": [{"meter": "calls", "max": 1}]}


def limited(world: World, grant: Grant) -> None:
    """Run to the failure under a grant."""
    world.context.grant = grant
    world.failed()


def test_an_exhausted_grant_is_named_before_the_model_is_asked(world: World) -> None:
    """Five cents were paid; the sixth isn't enough for an answer, whatever it would have cost."""
    limited(world, granted(limits=[{"meter": "cost_usd", "max": "0.055"}]))
    by = model(MENDED)

    outcome = world.repair(by)

    assert (outcome.status, outcome.exit_code) == ("paused", 4)
    assert outcome.limit == "the whole run: cost_usd <= $0.055 per run"
    assert outcome.limit in outcome.message
    assert by.prompts == []
    assert "draft" not in world.kinds()


def test_a_grant_can_limit_the_loop_alone(world: World) -> None:
    """`repair.write` is a name that a grant may have, and a limit of calls counts attempts."""
    limited(
        world,
        granted(capabilities={**{name: {} for name in DEMO_CATALOG}, WRITE: ONCE}),
    )

    outcome = world.repair(model(CHANGED, MENDED))

    assert kinds(outcome) == [[("gate", "call_changed")]]
    assert outcome.status == "paused"
    assert "repair.write: calls <= 1" in outcome.message


def test_a_grant_is_read_with_the_name_and_no_catalog_can_have_it() -> None:
    """Grants name it; a capability of that name would be one that scripts call."""
    assert WRITE in given.grant({"capabilities": {WRITE: {}}}, DEMO_CATALOG).capabilities
    with pytest.raises(ConfigError, match="host's own"):
        Catalog([Capability(name=WRITE, effect="read")])


def test_what_is_being_asked_is_held(world: World) -> None:
    """While the model writes, its most is held in the run's accounts; afterwards what it really took is used."""
    limited(world, granted(limits=[{"meter": "cost_usd", "max": "1"}]))
    seen: list[tuple[object, object]] = []

    def look(prompt: object) -> dict[str, object]:
        levels = meters.of_run(world.store, "r", DEMO_CATALOG, world.context.clock)[1]
        seen.append((levels[0].used, levels[0].held))
        return {"script": MENDED, "moves": [], "drops": [], "reason": ""}

    from addendum.testing.scripted_model import ScriptedModel

    world.repair(ScriptedModel([look], cost=3_000_000, most=MOST, most_tokens=1000))
    after = meters.of_run(world.store, "r", DEMO_CATALOG, world.context.clock)[1][0]

    assert seen == [(50_000_000, MOST)]
    assert (after.used, after.held) == (53_000_000, 0)


def lose(world: World, hold: int = MOST) -> None:
    """Leave a draft without an end, as a process does that is killed while the model writes."""
    with driving(world.context, "r") as journal:
        draft = Draft(
            number=journal.history.attempted + 1,
            purpose="repair",
            attempt=1,
            model="scripted",
            capability=WRITE,
            prompt=Ref(2, {}),
            revision=1,
            hold=hold,
            tokens=1000,
            at=1.0,
        )
        journal.append(Entry("draft", draft.body()))


def test_a_lost_draft_is_held_and_shown_until_somebody_begins_again(world: World) -> None:
    """It may have been charged: nothing else can spend its money, and a person sees it."""
    limited(world, granted(limits=[{"meter": "cost_usd", "max": "1"}]))
    lose(world)
    level = meters.of_run(world.store, "r", DEMO_CATALOG, world.context.clock)[1][0]
    shown = query.show(world.store, "r").drafts[0]

    assert (level.used, level.held) == (50_000_000, MOST)
    assert (shown.state, shown.hold, shown.cost) == ("lost", MOST, 0)
    assert query.attempts(world.store, "r", open_only=True)[0].state == "interrupted"


def test_the_next_loop_counts_a_lost_draft_as_spent(world: World) -> None:
    """More than its hold it can't have cost; the loop says so and goes on."""
    limited(world, granted(limits=[{"meter": "cost_usd", "max": "1"}]))
    lose(world)

    outcome = world.repair(model(MENDED))

    assert (outcome.status, outcome.lost) == ("accepted", 1)
    assert query.show(world.store, "r").drafts[0].state == "lost"
    assert "counted as spent in full" in query.show(world.store, "r").drafts[0].note
    assert world.history().totals[WRITE].cost == MOST + 3_000_000
    assert world.history().drafts == {}


def test_a_lost_draft_can_exhaust_the_grant(world: World) -> None:
    """Fail closed: what may have been spent isn't there to be spent."""
    limited(world, granted(limits=[{"meter": "cost_usd", "max": "0.065"}]))
    lose(world)

    outcome = world.repair(model(MENDED))

    assert (outcome.status, outcome.lost) == ("paused", 1)


def test_a_model_that_takes_more_than_its_most_is_frozen(world: World) -> None:
    """The overrun is counted as it is, and nothing more is asked until somebody grants it anew."""
    world.failed()

    over = world.repair(model(CHANGED, MENDED, cost=MOST + 1))
    frozen = world.repair(model(MENDED))
    operate.set_grant(world.context, "r", world.grant)
    free = world.repair(model(MENDED))

    assert [over.status, frozen.status, free.status] == ["paused", "paused", "accepted"]
    assert "frozen" in frozen.message
    assert world.history().totals[WRITE].cost == MOST + 1 + 3_000_000


def test_an_answer_without_a_price_counts_in_full(world: World) -> None:
    """Where nobody says what it cost, it cost the most."""
    world.failed()

    assert world.repair(model(MENDED, cost=None)).cost == MOST


def test_drafts_count_in_the_accounts_of_the_principal(world: World) -> None:
    """All runs of a principal share its money; what models cost is in it."""
    limit = {"meter": "cost_usd", "max": "0.075", "scope": "principal"}
    limited(world, granted(principal="team", limits=[limit]))

    first = world.repair(model(CHANGED, CUT_OFF, MENDED), attempts=3)
    accounts = meters.of_principal(world.store, "team")[1]

    assert [tried.verdict for tried in first.attempts] == ["rejected", "rejected", "accepted"]
    assert {each.capability: each.totals.cost for each in accounts}[WRITE] == 9_000_000
    assert {each.capability: each.held_cost for each in accounts}[WRITE] == 0
    assert world.repair(model(MENDED, most=20_000_000), again=True).status == "paused"


def test_a_childs_drafts_come_out_of_its_parents_grant(world: World) -> None:
    """Its share went back when it failed; the loop takes it out anew, and what the model took is used there too."""
    from addendum.runs.start import start

    one = 'async def orchestrate(ctx, args):\n    return await ctx.run("text.generate", {"prompt": "x"})\n'
    start(world.context, one, {}, grant=granted(limits=[{"meter": "cost_usd", "max": "0.2"}]), run="p")
    world.failed(grant=granted(limits=[{"meter": "cost_usd", "max": "0.1"}]), parent="p")
    seen: list[object] = []

    def look(prompt: object) -> dict[str, object]:
        seen.append(meters.of_run(world.store, "p", DEMO_CATALOG, world.context.clock)[1][0].left)
        return {"script": CHANGED, "moves": [], "drops": [], "reason": ""}

    from addendum.testing.scripted_model import ScriptedModel

    outcome = world.repair(ScriptedModel([look], cost=3_000_000, most=MOST, most_tokens=1000), attempts=1)
    after = meters.of_run(world.store, "p", DEMO_CATALOG, world.context.clock)[1][0]

    assert outcome.status == "refused"
    assert seen == [200_000_000 - 5_000_000 - 100_000_000]
    assert after.left == 200_000_000 - 5_000_000 - 50_000_000 - 3_000_000


def test_an_approval_that_names_the_loop_asks_a_person(world: World) -> None:
    """A yes is for one prompt, and used once; rules for all capabilities are about scripts."""
    rule = {"when": "always", "capability": WRITE}
    limited(world, granted(approval=[rule]))

    asked = world.repair(model(MENDED))
    operate.approve(world.context, "r", approved=True)
    allowed = world.repair(model(CHANGED, MENDED))

    assert (asked.status, asked.exit_code) == ("waiting", 4)
    assert kinds(allowed) == [[("gate", "call_changed")]]
    assert allowed.status == "waiting"


def test_a_no_of_a_person_stops_the_loop(world: World) -> None:
    """Whoever was asked declined."""
    limited(world, granted(approval=[{"when": "always", "capability": WRITE}]))
    world.repair(model(MENDED))
    operate.approve(world.context, "r", approved=False, note="not now")

    outcome = world.repair(model(MENDED))

    assert (outcome.status, outcome.exit_code) == ("stopped", 3)
    assert "not now" in outcome.message


def test_the_worst_case_of_new_work_is_held_against_what_is_left(world: World) -> None:
    """What the model took isn't there for the script."""
    limited(world, granted(limits=[{"meter": "cost_usd", "max": "0.122"}], worst_case="refuse"))

    outcome = world.repair(model(MENDED, MENDED), attempts=2)

    assert [kind for _, kind in kinds(outcome)[0]] == ["R09"]
    assert outcome.status == "refused"


def test_the_grant_of_the_run_is_what_it_was(world: World) -> None:
    """No attempt, and no execution of one, writes a grant or a policy."""
    limited(world, granted(limits=[{"meter": "cost_usd", "max": "1"}]))
    journal = Journal(world.store, "r")
    journal.read()
    before = grant_of(journal).digest

    apply(world.context, world.repair(model(CHANGED, MENDED)))

    journal.read()
    assert grant_of(journal).digest == before
    assert world.kinds().count("grant") == 1
    assert (
        open_desk(journal, grant_of(journal), DEMO_CATALOG, world.context.clock, write=False).accounts.book.held[
            "cost_usd"
        ][WRITE]
        == 0
    )
