"""Trying a saturation claim: is a loop over this channel bounded by the channel itself? (`addendum catalog probe`)

Whether a delegate saturates can't be decided in general, so a claim is declared, tried, and never proved. Each trial
makes calls against a fresh twin (or the real delegate) and counts effects; one that goes beyond the claim refutes it.

| trial | what is easy to miss |
| --- | --- |
| same arguments | the plain case |
| distinct arguments | idempotent is per argument: over an open set of them nothing is bounded |
| at the same time | check, then act |
| after the window | a rate bounds nothing without an end |
| across a window's edge | a fixed window lets twice as much through |
| other session, run, principal | a quota that is counted by something a run can have many of |
| after a restart | a count that is only in memory |
| with failures | calls that fail and count, or don't |
| between other channels | another granted channel may reset it |
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal, Protocol, TypeAlias

from addendum.authority.saturation import Saturation
from addendum.canon import Digest, Json, digest

TIMES = 12
"""Calls of one trial, unless more are needed to go beyond the claim."""
MOST = 200
STEPS = 24
"""Tenths of a window for which a real window is tried."""


@dataclass(frozen=True, slots=True)
class Caller:
    """As whom a call is made."""

    principal: str = "p1"
    run: str = "r1"
    session: str = "s1"


class Unsupported(Exception):
    """What a delegate can't do for a trial: pass time, restart, fail."""


class Twin(Protocol):
    """A delegate that can be tried, with an observer of its effects. Fresh for each trial."""

    def call(self, payload: Json, caller: Caller, *, fail: bool = False) -> None:
        """Make one call. With `fail`, one that fails after it was accepted. A refusal is no error here."""

    def together(self, payloads: Sequence[Json], caller: Caller) -> None:
        """Make calls that all begin before any of them ends."""

    def effects(self) -> int:
        """Return how many effects there have been in the world."""

    def passes(self, seconds: float) -> None:
        """Let time pass. Raises `Unsupported`."""

    def restart(self) -> None:
        """Start the delegate again. Raises `Unsupported`."""

    def others(self) -> Sequence[Callable[[], None]]:
        """Return one call of each other granted channel on the same resource."""


Outcome: TypeAlias = Literal["holds", "refuted", "unknown"]


@dataclass(frozen=True, slots=True)
class Verdict:
    """What a probe found. `bound` is the number of effects up to which the claim held; `counterexample` names the trial
    that refutes it, the calls it made and the effects they had; `untried` are trials that the delegate can't do."""

    capability: str
    claim: Saturation
    outcome: Outcome
    at: float
    bound: int | None = None
    counterexample: Mapping[str, Any] | None = None
    tried: tuple[str, ...] = ()
    untried: tuple[str, ...] = ()
    delegate: Digest = ""

    def to_json(self) -> dict[str, Any]:
        """Return the verdict as JSON; `at_ms` is since 1970."""
        return {
            "capability": self.capability,
            "claim": self.claim.to_json(),
            "outcome": self.outcome,
            "bound": self.bound,
            "counterexample": None if self.counterexample is None else dict(self.counterexample),
            "tried": list(self.tried),
            "untried": list(self.untried),
            "delegate": self.delegate,
            "at_ms": round(self.at * 1000),
        }

    @property
    def evidence(self) -> Digest:
        """The digest by which a catalog's claim names this verdict."""
        return digest(self.to_json())


@dataclass(slots=True)
class Trial:
    """One trial under way: a twin, and how many calls were made."""

    twin: Twin
    calls: int = 0

    def call(self, payload: Json, caller: Caller = Caller(), *, fail: bool = False) -> None:
        """Make one call."""
        self.calls += 1
        self.twin.call(payload, caller, fail=fail)


@dataclass(slots=True)
class Probe:
    """Tries one claim. `payloads` yields payloads that all differ, as many as there are; `fresh` makes a twin."""

    capability: str
    claim: Saturation
    fresh: Callable[[], Twin]
    payloads: Sequence[Json]
    domain: int | None = None
    """How many arguments there are under the grant, None when they are not finitely many."""
    real: bool = False
    """Whether the delegate stays the same through all trials: then they have to be within the claim together, too."""
    observed: bool = True
    """Whether effects are seen where they are, and not only by what the delegate answers."""
    later: float = 86_400.0
    """Seconds after which something that isn't windowed is tried again."""
    calls: int = 0
    tried: list[str] = field(default_factory=list)
    untried: list[str] = field(default_factory=list)

    def run(self, at: float, delegate: Digest = "") -> Verdict:
        """Make every trial, until one refutes the claim."""
        found: Mapping[str, Any] | None = None
        total = 0
        for name, trial, allowed in self._trials():
            try:
                made = Trial(self.fresh())
                before = made.twin.effects()
                supported, worst = True, None
                try:
                    if self.real and self.claim.kind == "windowed":
                        made.twin.passes(self.claim.seconds * 1.05)  # what earlier trials took is over
                    worst = trial(made)
                except Unsupported:
                    supported = False
                all_of_them = made.twin.effects() - before
                effects = all_of_them if worst is None else worst
            except Unsupported:
                self.untried.append(name)
                continue
            self.calls += made.calls
            (self.tried if supported else self.untried).append(name)
            total += all_of_them
            found = self._beyond(name, made.calls, effects, allowed) or self._together_beyond(total)
            if found is not None:
                break
        if not self.observed:
            self.untried.append("with a view of the effects")
        if self.real and total == 0:
            self.untried.append("with an effect that was seen")
        bound = self._bound()
        outcome: Outcome = "refuted" if found is not None else "unknown" if self.untried or bound is None else "holds"
        held = bound if outcome == "holds" else None
        tried, untried = tuple(self.tried), tuple(self.untried)
        return Verdict(self.capability, self.claim, outcome, at, held, found, tried, untried, delegate)

    def _beyond(self, name: str, calls: int, effects: int, allowed: int | None) -> Mapping[str, Any] | None:
        """Return the counterexample, if a trial went beyond what it is allowed; with nothing claimed, any growth."""
        if effects <= (1 if allowed is None else allowed):
            return None
        return {"trial": name, "calls": calls, "effects": effects, "claimed": allowed}

    def _together_beyond(self, total: int) -> Mapping[str, Any] | None:
        """Return the counterexample, if all trials on one delegate are beyond a claim that time doesn't renew."""
        bound = self._bound()
        lasting = self.claim.kind in ("absorbing", "idempotent") or self.claim.kind == "quota"
        if not self.real or not lasting or bound is None or total <= bound:
            return None
        return {"trial": "all trials together", "calls": self.calls, "effects": total, "claimed": bound}

    @property
    def most(self) -> int:
        """How many calls of it all trials make at most."""
        twice = sum(2 for name, _, _ in self._trials() if name.split()[0] in ("after", "other"))
        once = sum(1 for name, _, _ in self._trials()) - twice // 2
        return self._times * (once + twice) + STEPS * (self.claim.n + 1 if self.claim.kind == "windowed" else 0)

    def _bound(self) -> int | None:
        """Return what the claim allows one caller in the time of a trial; None for a claim that bounds nothing."""
        if self.claim.kind == "windowed":
            return self.claim.n
        if self.claim.kind == "quota":
            return self.claim.n
        return self.claim.bound(self.domain)

    @property
    def _times(self) -> int:
        return min(MOST, max(TIMES, 2 * (self._bound() or 0) + 2))

    def _trials(self) -> Iterator[tuple[str, Callable[[Trial], int | None], int | None]]:
        """Yield each trial with the effects that the claim allows it; None where any growth refutes it."""
        bound, claim = self._bound(), self.claim
        once = 1 if claim.kind in ("absorbing", "idempotent") else bound
        yield "same arguments", self._same, once
        yield "distinct arguments", self._distinct, bound
        yield "at the same time", self._together, once
        windows = 2 if claim.kind == "windowed" else 1
        yield "after the window", self._later, None if bound is None else bound * windows
        if claim.kind == "windowed" and claim.sliding:
            yield "across a window's edge", self._phases if self.real else self._edge, bound
        yield "other session", lambda t: self._others(t, session=True), bound
        yield "other run", lambda t: self._others(t, run=True), bound
        principals = self._times if claim.kind == "quota" and claim.key == "principal" else 1
        yield (
            "other principal",
            lambda t: self._others(t, principal=True),
            None if bound is None else bound * principals,
        )
        yield "after a restart", self._restart, bound
        yield "with failures", self._failing, bound
        yield "between other channels", self._interleaved, bound

    def _payload(self, index: int) -> Json:
        return self.payloads[index % len(self.payloads)]

    def _same(self, trial: Trial) -> None:
        for _ in range(self._times):
            trial.call(self._payload(0))

    def _distinct(self, trial: Trial) -> None:
        for index in range(self._times):
            trial.call(self._payload(index))

    def _together(self, trial: Trial) -> None:
        trial.calls = self._times
        trial.twin.together([self._payload(0)] * self._times, Caller())

    def _later(self, trial: Trial) -> None:
        self._distinct(trial)
        trial.twin.passes(self.claim.seconds or self.later)
        self._distinct(trial)

    def _edge(self, trial: Trial) -> None:
        trial.twin.passes(self.claim.seconds * 0.9)
        self._distinct(trial)
        trial.twin.passes(self.claim.seconds * 0.2)
        self._distinct(trial)

    def _phases(self, trial: Trial) -> int:
        """Call all the time for more than two windows, in tenths of one, as nobody knows where a real window begins.
        Returns the most effects that any window had."""
        seen: list[int] = []
        for _ in range(STEPS):
            before = trial.twin.effects()
            for index in range(min(MOST, self.claim.n + 1)):
                trial.call(self._payload(index))
            seen.append(trial.twin.effects() - before)
            trial.twin.passes(self.claim.seconds / 10)
        return max(sum(seen[index : index + 9]) for index in range(STEPS - 8))

    def _others(self, trial: Trial, *, session: bool = False, run: bool = False, principal: bool = False) -> None:
        for index in range(self._times):
            caller = Caller(
                principal=f"p{index}" if principal else "p1",
                run=f"r{index}" if run else "r1",
                session=f"s{index}" if session or run or principal else "s1",
            )
            for again in range(2):
                trial.call(self._payload(2 * index + again), caller)

    def _restart(self, trial: Trial) -> None:
        self._distinct(trial)
        trial.twin.restart()
        self._distinct(trial)

    def _failing(self, trial: Trial) -> None:
        for index in range(self._times):
            trial.call(self._payload(index), fail=index % 2 == 0)

    def _interleaved(self, trial: Trial) -> None:
        others = trial.twin.others()
        for index in range(self._times):
            trial.call(self._payload(index))
            for other in others:
                other()
