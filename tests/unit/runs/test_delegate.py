"""A child run under its parent's grant, from its start to the return of what it didn't use."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import pytest

from addendum import App
from addendum.authority.catalog import Capability, Catalog
from addendum.authority.grant import Grant, Limit, from_json
from addendum.broker.journal import Journal
from addendum.errors import ConfigError, NotFound, Rejected, UsageError
from addendum.ports import Reply, Request, Sandbox
from addendum.runs import meters, operate
from addendum.runs.context import Context
from addendum.runs.result import StepResult
from addendum.runs.revise import revise
from addendum.runs.start import resume, start
from addendum.sandbox.embedded import EmbeddedSandbox
from addendum.testing.clock import ManualClock
from addendum.testing.memory_store import MemoryStore


class Files:
    """A provider that counts, and fails where it is told to."""

    def __init__(self) -> None:
        self.deleted: list[Any] = []
        self.lost = False

    async def dispatch(self, request: Request) -> Reply:
        from addendum.errors import UnknownOutcome

        self.deleted.append(request.payload)
        if self.lost:
            raise UnknownOutcome("gone")
        return Reply({"ok": True})

    async def lookup(self, capability: str, key: str) -> Reply | None:
        return None


@pytest.fixture(scope="module")
def sandbox() -> Iterator[Sandbox]:
    opened = EmbeddedSandbox()
    yield opened
    opened.close()


@pytest.fixture
def files() -> Files:
    return Files()


@pytest.fixture
def context(sandbox: Sandbox, files: Files) -> Context:
    return Context(
        store=MemoryStore(),
        sandbox=sandbox,
        provider=files,
        catalog=Catalog([Capability(name="file.delete", effect="irreversible", price=10, max_result=100)]),
        clock=ManualClock(),
        grant=from_json({"capabilities": {"file.delete": {}}}),
        backoff=0.0,
    )


def deleting(count: int) -> str:
    return (
        f"async def orchestrate(ctx, args):\n    for n in range({count}):\n"
        '        await ctx.run("file.delete", {"path": n})\n    return "gone"\n'
    )


def some(calls: int, **more: Any) -> Mapping[str, Any]:
    return {
        "capabilities": {"file.delete": {}},
        "limits": [{"meter": "calls", "max": calls}],
        "worst_case": "at_run_time",
        **more,
    }


def go(context: Context, run: str, calls: int, *, most: int = 5, parent: str = "", **more: Any) -> StepResult:
    return start(context, deleting(calls), {}, grant=from_json(some(most, **more)), run=run, parent=parent)


def levels(context: Context, run: str = "p") -> tuple[Any, ...]:
    """Return used, held, delegated and left of the only limit."""
    _, (level,) = meters.of_run(context.store, run, context.catalog, context.clock)
    return level.used, level.held, level.delegated, level.left


def test_a_childs_grant_comes_out_of_its_parents_and_the_rest_goes_back(context: Context, files: Files) -> None:
    """Three of five are given while it lives; it used two, so that two are left beside the parent's own one."""
    go(context, "p", 1)
    seen: list[Any] = []
    context.observer = lambda event: seen.append(levels(context)) if event["event"] == "dispatched" else None
    assert go(context, "c", 2, most=3, parent="p").status == "completed"
    assert seen == [(1, 0, 3, 1), (1, 0, 3, 1)]
    assert levels(context) == (3, 0, 0, 2)
    assert Journal(context.store, "c").read().parent == "p"


@pytest.mark.parametrize(
    "asked",
    [
        some(5),
        {"capabilities": {"file.delete": {}}},
        some(1, expires="2099-01-01T00:00:00Z"),
        {"capabilities": {"file.delete": {}, "mail.send": {}}, "limits": [{"meter": "calls", "max": 1}]},
    ],
)
def test_more_than_the_parent_has_is_refused_with_its_reason(context: Context, asked: Mapping[str, Any]) -> None:
    """More calls than are left, no limit, a longer life, another capability; no run is left, and nothing is given."""
    go(context, "p", 1, expires="2098-01-01T00:00:00Z")
    with pytest.raises(Rejected) as caught:
        start(context, deleting(1), {}, grant=from_json(asked), run="c", parent="p")
    assert caught.value.facts["reason"] == "authority.delegation_exceeds_parent"
    assert caught.value.facts["outside"]
    assert levels(context) == (1, 0, 0, 4)
    with pytest.raises(NotFound):
        context.store.header("c")


def test_a_child_names_what_it_gets(context: Context) -> None:
    """Nothing is inherited in silence, and a parent has to be there."""
    go(context, "p", 1)
    with pytest.raises(UsageError):
        start(context, deleting(1), {}, run="c", parent="p")
    with pytest.raises(NotFound):
        go(context, "c", 1, parent="nobody")


def test_a_paused_child_keeps_its_share_until_its_grant_is_revoked(context: Context, files: Files) -> None:
    """It may go on; once it is revoked it can't, and the rest is its parent's again."""
    go(context, "p", 1)
    assert go(context, "c", 9, most=3, parent="p").status == "paused"
    assert levels(context) == (1, 0, 3, 1)
    operate.revoke(context, "c")
    assert levels(context) == (4, 0, 0, 1)
    assert resume(context, "c").dispatched == 0
    operate.set_grant(context, "c", from_json(some(4)))
    assert levels(context) == (1, 0, 4, 0)
    assert resume(context, "c").dispatched == 1
    with pytest.raises(Rejected):
        operate.set_grant(context, "c", from_json(some(5)))


def test_a_parent_cant_send_what_it_gave_away(context: Context, files: Files) -> None:
    """With three of five at a child, its own third call waits for another grant."""
    go(context, "p", 1)
    go(context, "c", 9, most=3, parent="p")
    found = revise(context, "p", deleting(3))
    assert (found.status, found.dispatched) == ("paused", 1)
    assert "2 used, 3 held" in found.message


def test_revoking_the_parent_acts_on_the_childs_next_reservation(context: Context, files: Files) -> None:
    """Between two calls of a grandchild: the second isn't sent, and another grant of the first one lets it go on."""
    go(context, "p", 1)
    go(context, "c", 9, most=4, parent="p")
    operate.set_grant(context, "p", from_json(some(9)))
    operate.set_grant(context, "c", from_json(some(8)))
    done: list[str] = []

    def watch(event: Any) -> None:
        if event["event"] == "handed_over" and not done:
            done.append(event["identity"])
            operate.revoke(context, "p")

    context.observer = watch
    found = go(context, "g", 3, most=3, parent="c")
    assert (found.status, found.dispatched) == ("paused", 1)
    assert "the grant of p, which this one came out of, was revoked" in found.message
    assert "`addendum grant p FILE`" in found.hint, "another grant for g would be out of the same one"
    with pytest.raises(Rejected, match="nothing to give"):
        go(context, "late", 1, most=1, parent="p")
    operate.set_grant(context, "p", from_json(some(9)))
    assert resume(context, "g").result == "gone"
    assert levels(context, "c") == (7, 0, 0, 1)


def test_an_expired_parent_gives_nothing_and_its_children_send_nothing(context: Context, files: Files) -> None:
    """A child can't outlive it."""
    clock = context.clock
    assert isinstance(clock, ManualClock)
    ends = "2098-01-01T00:00:00Z"
    go(context, "p", 1, expires=ends)
    assert go(context, "c", 2, most=2, parent="p").status == "completed"
    assert from_json(Journal(context.store, "c").read().grant or {}).expires == from_json(some(1, expires=ends)).expires
    operate.set_grant(context, "p", from_json(some(9, expires="2020-01-01T00:00:00Z")))
    with pytest.raises(Rejected) as caught:
        go(context, "late", 1, most=1, parent="p")
    assert caught.value.facts["reason"] == "authority.parent_barred"


def test_a_chain_gives_back_from_its_end(context: Context, files: Files) -> None:
    """A child that completed while its own child is paused gives back nothing until that one is over, then both do."""
    go(context, "p", 0, most=9)
    seen: list[Any] = []

    def watch(event: Any) -> None:
        if event["event"] == "dispatched" and event["run"] == "c":
            seen.append(go(context, "g", 3, most=2, parent="c").status)

    context.observer = watch
    assert go(context, "c", 1, most=5, parent="p").status == "completed"
    assert seen == ["paused"]
    assert levels(context) == (0, 0, 5, 4)
    assert levels(context, "c") == (1, 0, 2, 2)
    operate.revoke(context, "g")
    assert levels(context, "c") == (3, 0, 0, 2)
    assert levels(context) == (3, 0, 0, 6)
    with pytest.raises(Rejected, match="took back"):
        go(context, "late", 1, most=1, parent="c")


def test_what_is_unresolved_stays_used_until_somebody_says(context: Context, files: Files) -> None:
    """A child that stopped on a lost call gives back all but that; declared void, its money is there again."""
    money = {"limits": [{"meter": "cost_usd", "max": "0.00000005"}]}
    start(context, deleting(0), {}, grant=from_json({**some(0), **money}), run="p")
    files.lost = True
    found = start(context, deleting(1), {}, grant=from_json({**some(0), **money}), run="c", parent="p")
    assert found.stop == "unresolved"
    assert levels(context) == (10, 0, 0, 40)
    operate.reconcile(context, "c", abandon=True)
    assert levels(context) == (0, 0, 0, 50)
    files.lost = False
    assert resume(context, "c").status == "completed"
    assert levels(context) == (10, 0, 0, 40)


def test_a_grant_below_what_children_have_is_refused(context: Context) -> None:
    """What was given away can't be taken back by writing less, nor a capability that a child has."""
    go(context, "p", 1)
    go(context, "c", 9, most=3, parent="p")
    for less in (some(3), {**some(9), "capabilities": {}}):
        with pytest.raises(Rejected) as caught:
            operate.set_grant(context, "p", from_json(less))
        assert caught.value.facts["reason"] == "authority.children_hold_more"
    operate.set_grant(context, "p", from_json(some(4)))
    assert levels(context) == (1, 0, 3, 0)


def test_a_child_goes_on_only_with_what_its_parent_still_has(context: Context) -> None:
    """It gave back four of five; the parent used them, so that going on is refused, not started on credit."""
    go(context, "p", 0)
    go(context, "c", 1, most=5, parent="p")
    revise(context, "p", deleting(4))
    with pytest.raises(Rejected):
        resume(context, "c")
    with pytest.raises(Rejected):
        revise(context, "c", deleting(2))


def test_an_agent_behind_a_capability_works_under_what_its_run_gives_it(tmp_path: Path) -> None:
    """Its handler starts runs with the caller's as their parent while that one is driven: three agents at once with two
    calls each, and a fourth that gets nothing any more; what they sent is within the first grant."""
    made: list[int] = []
    refused: list[str] = []
    with App(store=tmp_path / "store.db", sandbox="monty") as app:

        @app.capability("page.make", effect="paid", price_usd="0.01")
        def make(n: int) -> int:
            made.append(n)
            return n

        @app.capability("agent.run", effect="side_effect")
        def agent(request: Request) -> str:
            share = {"capabilities": {"page.make": {"limits": [{"meter": "calls", "max": 2}]}}}
            try:
                return app.run(PAGES, grant=share, parent=request.run).status
            except Rejected as error:
                refused.append(str(error.facts["reason"]))
                return "refused"

        grant = {
            "capabilities": {"page.make": {"limits": [{"meter": "calls", "max": 7}]}, "agent.run": {}},
            "worst_case": "at_run_time",
        }
        result = app.run(AGENTS, grant=grant, run="p")
        assert result.status == "completed"
        assert sorted(result.result) == ["completed", "completed", "completed", "refused"]  # type: ignore[type-var, arg-type]
        assert refused == ["authority.delegation_exceeds_parent"]
        assert len(made) == 7


PAGES = """async def orchestrate(ctx, args):
    for n in range(2):
        await ctx.run("page.make", {"n": n})
"""
AGENTS = """async def orchestrate(ctx, args):
    await ctx.run("page.make", {"n": 9})
    async def one(n):
        return await ctx.run("agent.run", {})
    first = await ctx.parallel([one(n) for n in range(3)])
    return first + [await ctx.run("agent.run", {}, take=2)]
"""


@pytest.mark.parametrize("amount", [float("nan"), float("inf"), -1, "many", True])
def test_a_share_that_is_no_amount_is_an_error_of_the_grant(context: Context, amount: Any) -> None:
    """Not a number, without end, negative, a word: nothing is given."""
    go(context, "p", 1)
    with pytest.raises(ConfigError):
        go(context, "c", 1, most=amount, parent="p")
    odd = Grant({"file.delete": ()}, (Limit("calls", amount),), "at_run_time")
    with pytest.raises(ConfigError):
        start(context, deleting(1), {}, grant=odd, run="c", parent="p")
    assert levels(context) == (1, 0, 0, 4)


def test_limits_of_a_principal_are_counted_in_its_common_accounts(context: Context) -> None:
    """They need no share: a child counts for the same principal, and cannot count for another one."""
    team = {"principal": "team", "limits": [{"meter": "calls", "max": 3, "scope": "principal"}]}
    start(context, deleting(1), {}, grant=from_json({**some(0), **team}), run="p")
    plain = {"capabilities": {"file.delete": {}}, "worst_case": "at_run_time"}
    found = start(context, deleting(3), {}, grant=from_json(plain), run="c", parent="p")
    assert (found.status, found.dispatched) == ("paused", 2)
    with pytest.raises(Rejected, match="team"):
        start(context, deleting(1), {}, grant=from_json({**plain, "principal": "other"}), run="d", parent="p")
