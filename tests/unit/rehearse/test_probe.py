"""Probing saturation claims on twins: some hold, four naive ones are refuted, and what undoes a good one."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

import pytest

from addendum.authority.saturation import Saturation
from addendum.canon import Json
from addendum.rehearse.probe import Caller, Probe, Twin, Unsupported

PAYLOADS: list[Json] = [{"path": f"f{n}"} for n in range(64)]


@dataclass
class Delegate:
    """A twin: `rule` says whether a call takes effect, from what was done and who calls; `memory` is what it keeps."""

    rule: Callable[[Delegate, Any, Caller], bool]
    count: int = 0
    now: float = 0.0
    memory: dict[Any, Any] = field(default_factory=dict)
    resets: bool = False
    forgets: bool = False
    races: bool = False

    def call(self, payload: Json, caller: Caller, *, fail: bool = False) -> None:
        if self.rule(self, payload, caller):
            self.count += 1

    def together(self, payloads: Sequence[Json], caller: Caller) -> None:
        if self.races:
            before = dict(self.memory)
            for payload in payloads:
                self.memory = dict(before)
                self.call(payload, caller)
        else:
            for payload in payloads:
                self.call(payload, caller)

    def effects(self) -> int:
        return self.count

    def passes(self, seconds: float) -> None:
        self.now += seconds

    def restart(self) -> None:
        if self.forgets:
            self.memory.clear()

    def others(self) -> Sequence[Callable[[], None]]:
        return [self.memory.clear] if self.resets else []


def flag(twin: Delegate, payload: Any, caller: Caller) -> bool:
    return not twin.memory.get("set") and not twin.memory.update({"set": True})


def per_argument(twin: Delegate, payload: Any, caller: Caller) -> bool:
    return payload["path"] not in twin.memory and not twin.memory.update({payload["path"]: True})


def quota(key: Callable[[Caller], str]) -> Callable[[Delegate, Any, Caller], bool]:
    def rule(twin: Delegate, payload: Any, caller: Caller) -> bool:
        used = twin.memory.get(key(caller), 0)
        twin.memory[key(caller)] = used + 1
        return bool(used < 3)

    return rule


def fixed_window(twin: Delegate, payload: Any, caller: Caller) -> bool:
    return quota(lambda _: str(int(twin.now // 60)))(twin, payload, caller)


def sliding_window(twin: Delegate, payload: Any, caller: Caller) -> bool:
    recent = [at for at in twin.memory.get("at", []) if at > twin.now - 60]
    twin.memory["at"] = [*recent, twin.now] if len(recent) < 3 else recent
    return len(recent) < 3


WINDOW = Saturation("windowed", n=3, seconds=60, horizon=3600)
PER_PRINCIPAL = Saturation("quota", n=3, key="principal")


def probe(claim: Saturation, rule: Any, *, domain: int | None = None, payloads: Any = PAYLOADS, **more: Any) -> Any:
    def fresh() -> Twin:
        return Delegate(rule, **more)

    return Probe("file.delete", claim, fresh, payloads, domain).run(1000.0, "digest")


@pytest.mark.parametrize(
    ("claim", "rule", "domain", "bound"),
    [
        (Saturation("absorbing"), flag, None, 1),
        (Saturation("idempotent", domain="/path"), per_argument, 4, 4),
        (PER_PRINCIPAL, quota(lambda caller: caller.principal), None, 3),
        (WINDOW, sliding_window, None, 3),
    ],
)
def test_a_true_claim_holds_up_to_its_bound(claim: Saturation, rule: Any, domain: int | None, bound: int) -> None:
    """Every trial was made and none went beyond the claim; the verdict is dated and names the delegate."""
    found = probe(claim, rule, domain=domain, payloads=PAYLOADS[: domain or len(PAYLOADS)])
    assert (found.outcome, found.bound, found.untried) == ("holds", bound, ())
    assert (found.at, found.delegate, len(found.evidence)) == (1000.0, "digest", 64)


@pytest.mark.parametrize(
    ("claim", "rule", "trial"),
    [
        (Saturation("idempotent", domain="/path"), per_argument, "distinct arguments"),
        (PER_PRINCIPAL, quota(lambda caller: caller.run), "other run"),
        (PER_PRINCIPAL, quota(lambda caller: caller.session), "other session"),
        (WINDOW, fixed_window, "across a window's edge"),
    ],
)
def test_a_naive_claim_is_refuted_with_the_counterexample(claim: Saturation, rule: Any, trial: str) -> None:
    """Idempotent over an open set, a quota by run or session, a fixed window: each grows where a loop would look."""
    found = probe(claim, rule)
    assert found.outcome == "refuted"
    assert found.counterexample["trial"] == trial
    assert found.counterexample["effects"] > (found.counterexample["claimed"] or 1)


@pytest.mark.parametrize(
    ("more", "trial"),
    [
        ({"resets": True}, "between other channels"),
        ({"forgets": True}, "after a restart"),
        ({"races": True}, "at the same time"),
    ],
)
def test_a_flag_is_absorbing_only_as_long_as_nothing_resets_it(more: dict[str, bool], trial: str) -> None:
    """Another granted channel, a restart or a race undoes the claim: saturation isn't composable."""
    found = probe(Saturation("absorbing"), flag, **more)
    assert (found.outcome, found.counterexample["trial"]) == ("refuted", trial)


def test_what_could_not_be_tried_leaves_a_claim_unknown() -> None:
    """A delegate that can't restart or pass time for a trial never gets `holds`."""

    @dataclass
    class Remote(Delegate):
        def passes(self, seconds: float) -> None:
            raise Unsupported

    found = Probe("flag.set", Saturation("absorbing"), lambda: Remote(flag), PAYLOADS).run(0.0)
    assert (found.outcome, found.untried) == ("unknown", ("after the window",))


def test_an_additive_claim_claims_nothing() -> None:
    """There is nothing to hold; any growth shows it."""
    assert probe(Saturation("additive"), lambda *_: True).outcome == "refuted"
