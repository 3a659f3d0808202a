"""Probing a real delegate through its provider: with the means to try everything it can hold, and within a budget."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest

from addendum.authority.catalog import Capability, Catalog
from addendum.authority.saturation import Saturation
from addendum.canon import Json
from addendum.errors import CapabilityError, ConfigError, UsageError
from addendum.ports import Reply, Request, Usage
from addendum.rehearse import trialfile
from addendum.rehearse.probe import Verdict
from addendum.rehearse.probing import Means, probe
from addendum.testing.clock import ManualClock

COUNT = Capability(name="world.count", effect="read")
RESET = Capability(name="world.reset", effect="side_effect")
PAYLOADS: list[Json] = [{"path": f"f{number}"} for number in range(20)]


class World:
    """A delegate that is there once, for all trials: what it did stays done, and it answers the same to every call."""

    def __init__(self, rule: Callable[[World, Request], bool]) -> None:
        self.rule = rule
        self.clock = ManualClock()
        self.kept: dict[Any, Any] = {}
        self.count = self.calls = self.restarts = 0

    async def dispatch(self, request: Request) -> Reply:
        if request.capability == "world.count":
            return Reply({"effects": self.count})
        if request.capability == "world.reset":
            self.kept.clear()
            return Reply(None)
        self.calls += 1
        if self.rule(self, request):
            self.count += 1
        if request.payload == {"path": ""}:
            raise CapabilityError("refused", "it was accepted and failed")
        return Reply({"ok": True}, Usage(cost=5))

    async def lookup(self, capability: str, key: str) -> Reply | None:
        return None


def flag(world: World, request: Request) -> bool:
    return bool(world.kept.setdefault("set", request.key) == request.key)


def quota(world: World, request: Request) -> bool:
    world.kept["n"] = world.kept.get("n", 0) + 1
    return bool(world.kept["n"] <= 3)


def per_run(world: World, request: Request) -> bool:
    world.kept[request.run] = world.kept.get(request.run, 0) + 1
    return bool(world.kept[request.run] <= 3)


def sliding(world: World, request: Request) -> bool:
    now = world.clock.now()
    recent = [at for at in world.kept.get("at", []) if at > now - 60]
    world.kept["at"] = [*recent, now] if len(recent) < 3 else recent
    return len(recent) < 3


def fixed(world: World, request: Request) -> bool:
    window = int((world.clock.now() + 17) // 60)
    world.kept[window] = world.kept.get(window, 0) + 1
    return bool(world.kept[window] <= 3)


def everything(world: World, **more: Any) -> Means:
    """Return the means to try all there is."""

    def restart() -> None:
        world.restarts += 1

    given: dict[str, Any] = {
        "observe": (COUNT, {}, "/effects"),
        "failing": {"path": ""},
        "alone": True,
        "wait": 100.0,
        "restart": restart,
        "sleep": world.clock.advance,
        "most_calls": 5000,
    }
    return Means(**{**given, **more})


def tried(rule: Callable[[World, Request], bool], claim: Saturation, **more: Any) -> tuple[World, Verdict]:
    world = World(rule)
    capability = Capability(name="flag.set", effect="side_effect", price=5, saturation=claim)
    return world, probe(world, capability, PAYLOADS, world.clock, everything(world, **more))


WINDOW = Saturation("windowed", n=3, seconds=60, horizon=3600)
PRINCIPAL = Saturation("quota", n=3, key="principal")


@pytest.mark.parametrize(
    ("rule", "claim", "bound"),
    [(flag, Saturation("absorbing"), 1), (quota, PRINCIPAL, 3), (sliding, WINDOW, 3)],
)
def test_a_real_delegate_can_hold_with_the_means_to_try_everything(
    rule: Callable[[World, Request], bool], claim: Saturation, bound: int
) -> None:
    """Nothing is untried, effects were seen where they are, and all trials together are within the claim."""
    world, found = tried(rule, claim)
    assert (found.outcome, found.bound, found.untried) == ("holds", bound, ())
    assert world.restarts == 1


@pytest.mark.parametrize(
    ("rule", "claim", "more", "trial"),
    [
        (per_run, PRINCIPAL, {}, "other run"),
        (fixed, WINDOW, {}, "across a window's edge"),
        (flag, Saturation("absorbing"), {"others": ((RESET, {}),), "alone": False}, "between other channels"),
    ],
)
def test_a_real_delegate_whose_claim_is_too_weak_is_refuted(
    rule: Callable[[World, Request], bool], claim: Saturation, more: dict[str, Any], trial: str
) -> None:
    """A quota by run, a fixed window whose edge nobody knows, a flag that another granted channel resets."""
    _, found = tried(rule, claim, **more)
    assert found.outcome == "refuted"
    assert found.counterexample is not None
    assert found.counterexample["trial"] == trial


@pytest.mark.parametrize(
    ("without", "untried"),
    [
        ({"observe": None}, "with a view of the effects"),
        ({"failing": None}, "with failures"),
        ({"alone": False}, "between other channels"),
        ({"restart": None}, "after a restart"),
        ({"most_calls": 30}, "with failures"),
        ({"most_cost": 300}, "with failures"),
    ],
)
def test_what_is_left_out_or_over_the_budget_stays_untried(without: dict[str, Any], untried: str) -> None:
    """Then nothing holds, and no call is made beyond the budget."""
    world, found = tried(flag, Saturation("absorbing"), **without)
    assert found.outcome == "unknown"
    assert untried in found.untried
    assert world.calls <= without.get("most_calls", 5000)
    assert 5 * world.calls <= without.get("most_cost", 10**9)


def test_a_flag_that_was_set_before_shows_nothing() -> None:
    """No effect was seen, so that nothing can be said."""
    world = World(flag)
    world.kept["set"] = "long ago"
    capability = Capability(name="flag.set", effect="side_effect", saturation=Saturation("absorbing"))
    found = probe(world, capability, PAYLOADS, world.clock, everything(world))
    assert (found.outcome, found.untried) == ("unknown", ("with an effect that was seen",))


def test_a_trial_is_read_from_a_file() -> None:
    """All its means; what is wrong is named."""
    catalog = Catalog([COUNT, RESET, Capability(name="flag.set", effect="side_effect")])
    text = """
payloads = [{path = "a"}, {path = "b"}]
most_calls = 40
most_usd = "0.01"
wait = 2
failing = {path = ""}
restart = ["true"]
observe = {capability = "world.count", at = "/effects"}
[[other]]
capability = "world.reset"
"""
    found = trialfile.parse(text, catalog, "t.toml")
    assert len(found.payloads) == 2
    means = replace(found.means, restart=None)
    assert (means.most_calls, means.most_cost, means.wait, means.failing) == (40, 10_000_000, 2.0, {"path": ""})
    assert (means.observe, means.others) == ((COUNT, {}, "/effects"), ((RESET, {}),))
    assert found.means.restart is not None
    found.means.restart()


@pytest.mark.parametrize(
    "wrong",
    [
        "calls = 3",
        "most_calls = 0",
        "wait = -1",
        "wait = nan",
        "payloads = 3",
        "restart = []",
        'restart = "rm -rf"',
        'observe = {capability = "nobody"}',
        'observe = {capability = "world.reset"}',
        "alone = 1",
        "x = [",
    ],
)
def test_a_trial_that_is_wrong_is_refused(wrong: str) -> None:
    """Before anything is called."""
    with pytest.raises((ConfigError, UsageError)):
        trialfile.parse(wrong, Catalog([COUNT, RESET]), "t.toml")
