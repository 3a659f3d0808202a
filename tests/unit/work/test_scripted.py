"""A slice that a workflow script executes, under its grant; a retried slice pays for nothing twice."""

from __future__ import annotations

import pytest
from tests.workshop import ARTICLE, Workshop, codes

from addendum.authority.grant import Limit, Meter
from addendum.runs import operate
from addendum.runs.result import StepResult
from addendum.testing import demo
from addendum.work import report
from addendum.work.scripted import came_out

pytestmark = pytest.mark.slow

SCRIPT = """async def orchestrate(ctx, args):
    made = await ctx.run("text.generate", {"prompt": args["brief"]})
    there = await ctx.run("workspace.list", {"under": "content"})
    assert len(there["files"]) == 1
    text = "---\\ndraft: %s\\n---\\n" + made["text"] + "\\n"
    await ctx.run("workspace.write", {"path": "content/posts/example.md", "text": text})
    return {"files": there["files"]}
"""
NEEDS = '["workspace.edit@1", "text.generate@1", "workspace.write@1", "workspace.list@1"]'
CEILING = '[ceiling.grant.capabilities."workspace.list"]\n[ceiling.grant.capabilities."workspace.write"]\n'


def scripted(shop: Workshop, source: str) -> None:
    """Have slice A executed by a script."""
    shop.write("s.py", source)
    shop.policy = shop.policy.replace('[ceiling.grant.capabilities."workspace.write"]\n', CEILING)
    shop.plan = shop.plan.replace('["workspace.edit@1"]', NEEDS)
    shop.plan += 'executor = "script"\nscript = "s.py"\nargs = { brief = "a plan" }\n'


def dispatched(shop: Workshop) -> int:
    """Return how many texts the provider was paid for."""
    provider = shop.bench.scripts.provider
    assert isinstance(provider, demo.DemoProvider)
    return sum(1 for request in provider.dispatches if request.capability == "text.generate")


def test_a_script_writes_through_the_broker_and_is_judged_like_anybody(shop: Workshop) -> None:
    """What it wrote is the candidate; the run is in the same store, under the slice's grant."""
    scripted(shop, SCRIPT.replace("%s", "true"))
    run = shop.run()
    (verdict,) = shop.work(run)
    assert verdict.verdict == "accepted", codes(verdict)
    data = shop.bench.repository.data(shop.bench.repository.flat(verdict.tree)[ARTICLE.encode()].id)
    assert data.startswith(b"---\ndraft: true\n---\n")
    assert shop.bench.store.header(f"{run}/A").name == "A"
    (attempt,) = report.report(shop.load(run)).value["attempts"]
    assert attempt["details"]["dispatched"] == 3


def test_a34_a_retried_slice_pays_for_nothing_twice(shop: Workshop) -> None:
    """A rejected script is revised: the text that was paid for is served again, and only the write is new."""
    source = SCRIPT.replace("%s", "false")
    scripted(shop, source)
    run = shop.run()
    (first,) = shop.work(run)
    assert codes(first) == ["validator.failed"]
    revised = source.replace(
        '    return {"files"',
        '    await ctx.run("workspace.write", {"path": "content/posts/example.md", "text": '
        '"---\\ndraft: true\\n---\\n" + made["text"]})\n    return {"files"',
    )
    (second,) = shop.work(run, only="A", script=revised)
    assert second.verdict == "accepted", [finding.to_json() for finding in second.findings]
    details = report.report(shop.load(run)).value["attempts"][1]["details"]
    assert (details["dispatched"], details["replayed"]) == (1, 3)


@pytest.mark.parametrize(
    ("path", "code"), [("config.toml", "attempt.refused"), ("content/posts/.git/x", "attempt.failed")]
)
def test_a_script_can_not_write_where_its_slice_may_not(shop: Workshop, path: str, code: str) -> None:
    """A write out of scope is refused at the call, and the attempt says so."""
    scripted(shop, SCRIPT.replace("%s", "true").replace("content/posts/example.md", path))
    (verdict,) = shop.work(shop.run())
    assert codes(verdict) == [code]


def test_a_script_stops_at_its_slices_budget(shop: Workshop) -> None:
    """A limit that the script reaches pauses its run with the limit's name; the attempt is kept."""
    scripted(shop, SCRIPT.replace("%s", "true"))
    shop.policy = shop.policy.replace("attempts = 3\n", 'attempts = 3\ngrant.worst_case = "at_run_time"\n', 1)
    shop.plan += '[slice.grant]\nworst_case = "at_run_time"\n[slice.grant.capabilities."text.generate"]\n'
    shop.plan += 'limits = [{ meter = "calls", max = 0 }]\n'
    (verdict,) = shop.work(shop.run())
    assert codes(verdict) == ["budget.calls"]


def test_a_script_that_waits_for_a_person_is_undecided_and_goes_on(shop: Workshop) -> None:
    """While nobody has answered it is no attempt of its own; after the answer the slice goes on from there."""
    asks = '    await ctx.run("human.approve", {"question": "Shall I?"})\n    text = '
    scripted(shop, SCRIPT.replace("%s", "true").replace("    text = ", asks))
    shop.policy = shop.policy.replace(CEILING, CEILING + '[ceiling.grant.capabilities."human.approve"]\n')
    shop.plan = shop.plan.replace('"text.generate@1",', '"text.generate@1", "human.approve@1",')
    shop.plan = shop.plan.replace("attempts = 2", "attempts = 1")
    run = shop.run()
    (verdict,) = shop.work(run)
    assert (codes(verdict), verdict.outcome, verdict.exit_code) == (["approval.missing"], "waiting", 4)
    operate.approve(shop.bench.scripts, f"{run}/A", approved=True)
    (verdict,) = shop.work(run)
    assert verdict.verdict == "accepted", [finding.to_json() for finding in verdict.findings]
    details = report.report(shop.load(run)).value["attempts"][1]["details"]
    assert details["replayed"] >= 1


@pytest.mark.parametrize(
    ("meter", "code"),
    [
        ("calls", "budget.calls"),
        ("cost_usd", "budget.cost"),
        ("tokens", "budget.tokens"),
        ("bytes_out", "budget.bytes"),
        ("journal_bytes", "budget.bytes"),
        ("seconds", "budget.seconds"),
        ("distinct:/prompt", "budget.distinct"),
        ("expires", "budget.deadline"),
    ],
)
def test_a34_a_run_that_a_limit_pauses_names_the_budget(shop: Workshop, meter: Meter, code: str) -> None:
    """Each meter of a grant has its code."""
    slice_ = shop.load(shop.run()).contract.slices[0]
    for capability in (None, "seconds.calls"):
        where = {"limit": str(Limit(meter, 1, capability=capability))}
        result = StepResult(run="r", status="paused", message="The limit is reached.", details={"where": where})
        outcome, (finding,) = came_out(slice_, result)
        assert (outcome, finding.code) == ("failed", code)


def test_an_unresolved_call_of_a_script_is_undecided(shop: Workshop) -> None:
    """What was sent and has no result isn't sent again, and isn't a rejection."""
    slice_ = shop.load(shop.run()).contract.slices[0]
    result = StepResult(run="r", status="stopped", stop="unresolved", message="A call has no result.")
    _, (finding,) = came_out(slice_, result)
    assert (finding.code, finding.undecided) == ("attempt.unresolved", True)
