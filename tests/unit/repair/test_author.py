"""A run that begins with a request: the same loop with an empty prefix, and clear answers until it has a script."""

from __future__ import annotations

import pytest
from tests.repairing import World, granted, kinds, model

from addendum.authority.grant import from_json
from addendum.errors import CapabilityError, NotFound, Rejected, UsageError
from addendum.records.certificate import certificate
from addendum.repair.author import LONGEST, apply, author
from addendum.repair.loop import brief, repair
from addendum.repair.text import readable
from addendum.runs import meters, query
from addendum.runs.revise import plan, revise
from addendum.runs.start import resume, start

SCRIPT = """async def orchestrate(ctx, args):
    plan = await ctx.run("storyboard.plan", {"brief": args["brief"], "shots": 3})
    return [shot["title"] for shot in plan["shots"]]
"""
LOOP = SCRIPT.replace(
    "    return", '    while True:\n        await ctx.run("image.generate", {"prompt": "x"})\n    return'
)


def test_an_accepted_script_is_the_first_revision_and_is_not_run(world: World) -> None:
    """Its facts and worst case are there; the next command runs it."""
    outcome = world.author(model(LOOP, SCRIPT))

    assert kinds(outcome) == [[("checker", "R03")], []]
    assert (outcome.status, outcome.revision, world.dispatched) == ("accepted", 1, 0)
    assert outcome.worst_case == {"calls": {"storyboard.plan": 1}, "cost_usd": "0.01"}
    assert outcome.hint == "`addendum resume a` runs it."
    assert query.source_of(world.store, "a") == SCRIPT
    assert query.show(world.store, "a").summary.status == "created"

    result = resume(world.context, "a")

    assert (result.status, result.result) == ("completed", ["Shot 1", "Shot 2", "Shot 3"])
    assert certificate(world.store.entries("a"), world.store.blob).differences == []


SHARE = {
    "capabilities": {"repair.write": {}, "storyboard.plan": {}},
    "limits": [{"meter": "cost_usd", "max": "0.05"}],
    "worst_case": "at_run_time",
}


def parent(world: World) -> None:
    """Start a run that has ten cents to give."""
    own = {"capabilities": {"repair.write": {}, "storyboard.plan": {}}, "worst_case": "at_run_time"}
    grant = from_json({**own, "limits": [{"meter": "cost_usd", "max": "0.10"}]})
    start(world.context, "async def orchestrate(ctx, args):\n    return 1\n", {}, run="p", grant=grant)


def test_the_grant_of_a_script_that_a_model_writes_comes_out_of_its_parents(world: World) -> None:
    """What the model took is its share's; the rest goes back once the script has run, or when it is revoked."""
    parent(world)
    outcome = world.author(model(SCRIPT), grant=from_json(SHARE), parent="p")
    assert outcome.status == "accepted"
    given, back = world.history("p").children["a"]
    assert ([limit.most for limit in from_json(given["grant"]).limits], back) == ([50_000_000], None)

    assert resume(world.context, "a").status == "completed"
    _, back = world.history("p").children["a"]
    assert back is not None
    assert sum(totals.cost for totals in world.history("a").totals.values()) == 3_000_000 + 10_000_000
    _, levels = meters.of_run(world.store, "p", world.context.catalog, world.context.clock)
    (level,) = [each for each in levels if each.limit.meter == "cost_usd"]
    assert (level.used, level.delegated) == (13_000_000, 0)


def test_a_share_beyond_the_parent_begins_no_run_and_asks_no_model(world: World) -> None:
    """As with `run`: more than is left, no grant of its own, and a parent that isn't there."""
    parent(world)
    large = from_json({**SHARE, "limits": [{"meter": "cost_usd", "max": "0.20"}]})
    never = model()
    with pytest.raises(Rejected, match="the parent allows"):
        world.author(never, grant=large, parent="p")
    with pytest.raises(UsageError, match="A child needs a grant of its own"):
        world.author(never, parent="p")
    with pytest.raises(NotFound):
        world.author(never, grant=large, parent="nobody")
    assert [run.run for run in world.store.runs()] == ["p"]
    assert world.kinds("p").count("delegate") == 0


def test_apply_runs_it(world: World) -> None:
    """The decision of whoever calls."""
    outcome = apply(world.context, world.author(model(SCRIPT)))

    assert outcome.applied is not None
    assert (outcome.status, outcome.applied.status, outcome.exit_code) == ("applied", "completed", 0)


def test_a_run_with_a_request_only_answers_clearly(world: World) -> None:
    """Its state has a name, and every command says what comes next."""
    outcome = world.author(model(CapabilityError("refused", "not me")), "A film\nabout the sea")
    shown = query.show(world.store, "a")

    assert (outcome.status, outcome.exit_code) == ("failed", 3)
    assert (shown.summary.status, shown.request) == ("requested", "A film\nabout the sea")
    assert [advice.command for advice in shown.advice] == ["addendum repair a", "addendum revise a SCRIPT"]
    assert [draft.state for draft in shown.drafts] == ["failed"]
    with pytest.raises(UsageError, match="request and no script yet"):
        resume(world.context, "a")
    with pytest.raises(UsageError, match="request and no script yet"):
        plan(world.context, "a", None)
    with pytest.raises(NotFound, match="no script yet"):
        query.source_of(world.store, "a")


def test_repair_goes_on_where_authoring_ended(world: World) -> None:
    """The same loop, from the last counterexample."""
    world.author(model(LOOP), attempts=1)
    by = model(SCRIPT)

    outcome = repair(world.context, "a", by)

    assert (outcome.purpose, outcome.status, outcome.revision) == ("author", "accepted", 1)
    assert "R03" in by.prompts[0].messages[1].text


def test_a_person_may_write_the_script_instead(world: World) -> None:
    """`revise` takes the args that came with the request."""
    world.author(model("x = ["), attempts=1)

    result = revise(world.context, "a", SCRIPT)

    assert (result.status, result.revision) == ("completed", 1)


def test_a_script_that_a_model_wrote_is_repaired_like_any_other(world: World) -> None:
    """The request stays with the run."""
    failing = SCRIPT.replace("    return", '    await ctx.run("mail.send", {"to": "a"})\n    return')
    world.author(model(failing), "Titles, please")
    resume(world.context, "a")

    told = brief(world.context, "a")

    assert (told.purpose, told.request, len(told.frozen)) == ("repair", "Titles, please", 1)
    assert repair(world.context, "a", model(SCRIPT + "# less\n")).attempts[0].findings[0].kind == "fewer_calls"


def test_the_request_of_a_run_is_told_to_whoever_repairs_it(world: World) -> None:
    """`run --request` keeps it with the first revision, and journals without one are as they were."""
    start(world.context, SCRIPT, {"brief": "x"}, run="with", request="Titles")
    start(world.context, SCRIPT, {"brief": "x"}, run="without")

    bodies = {
        run: next(entry.body for entry in world.store.entries(run) if entry.kind == "revision")
        for run in ("with", "without")
    }

    assert bodies["with"]["request"]["value"] == "Titles"
    assert set(bodies["without"]) == {"number", "source", "args", "args_digest", "moves", "drops"}
    assert query.show(world.store, "with").request == "Titles"


def test_the_worst_case_is_held_against_the_grant_and_what_the_model_took(world: World) -> None:
    """A cent for the script, and nothing left for it once three tenths of one are spent."""
    grant = granted(limits=[{"meter": "cost_usd", "max": "0.012"}], worst_case="refuse")

    outcome = world.author(model(SCRIPT), attempts=1, grant=grant)

    assert kinds(outcome) == [[("capabilities", "R09")]]


def test_an_answer_counts_as_what_it_took_when_it_is_judged(world: World) -> None:
    """Not as the most that was held for it: the script is within what is left then."""
    grant = granted(limits=[{"meter": "cost_usd", "max": "0.0135"}], worst_case="refuse")

    outcome = world.author(model(SCRIPT, most=13_000_000), attempts=1, grant=grant)

    assert (outcome.status, outcome.cost) == ("accepted", 3_000_000)


def test_what_cannot_be_asked_for_is_refused(world: World) -> None:
    """Empty and endless requests, taken names, grants beyond the ceiling: no run is made for them."""
    for request in ("", "  \n", "x" * (LONGEST + 1)):
        with pytest.raises(UsageError):
            author(world.context, request, model(SCRIPT), run="never")
    with pytest.raises(UsageError):
        author(world.context, "a film", model(SCRIPT), run="last")
    world.context.ceiling = granted(capabilities={"text.generate": {}})
    with pytest.raises(Rejected):
        author(world.context, "a film", model(SCRIPT), run="never")
    assert world.store.runs() == []


def test_the_brief_of_a_request(world: World) -> None:
    """Request, args, limits, rules, catalog; no script and no calls."""
    world.author(model("x = ["), "A film", attempts=1)

    told = brief(world.context, "a")

    assert (told.purpose, told.source, told.frozen, told.args) == ("author", None, (), {"brief": "the sea"})
    assert readable(told).startswith("# Brief: write a script")
    assert "## Script (revision" not in readable(told)
