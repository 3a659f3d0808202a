"""Playing a scenario: the production parts, a local provider, and a real SIGKILL where the scenario says so."""

from __future__ import annotations

import json
import subprocess
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from addendum.authority.grant import Grant, everything, from_json, widened
from addendum.errors import AddendumError, NotFound
from addendum.kernel.policy import Allowances, Policy
from addendum.rehearse.compare import Mismatch, compare
from addendum.rehearse.scenario import Scenario, Step
from addendum.runs.context import Context
from addendum.runs.given import named
from addendum.runs.operate import UNKNOWN, approve, reconcile, set_grant
from addendum.runs.query import certified
from addendum.runs.result import StepResult
from addendum.runs.revise import UNCHANGED, plan, planned, revise
from addendum.runs.start import driving, resume, start
from addendum.testing.demo import CATALOG, DemoProvider, Fault

RUN = "scenario"
ANSWERS = ("approve", "reconcile")
"""What answers everything that is open, which may be nothing. Any other step that ends in an error, of which nothing is
expected, wasn't played."""


@dataclass(slots=True)
class Played:
    """A scenario that was played: what was seen at each step, and where that differs from what was expected."""

    name: str
    steps: list[dict[str, Any]] = field(default_factory=list)
    mismatches: list[Mismatch] = field(default_factory=list)

    @property
    def passed(self) -> bool:
        """Whether everything that was expected was seen."""
        return not self.mismatches

    def to_json(self) -> dict[str, Any]:
        """Return the object that `addendum rehearse --json` prints."""
        return {
            "name": self.name,
            "passed": self.passed,
            "steps": self.steps,
            "mismatches": [mismatch.to_json() for mismatch in self.mismatches],
        }


@dataclass(slots=True)
class State:
    """What lasts from step to step, beside the store: the provider's counters. Kept in a file across a crash."""

    path: Path
    provider: DemoProvider

    def save(self) -> None:
        """Write the counters, whole or not at all."""
        data = {"count": dict(self.provider.count), "used": [fault.used for fault in self.provider.faults]}
        draft = self.path.with_suffix(".new")
        draft.write_text(json.dumps(data), "utf-8")
        draft.replace(self.path)

    def load(self) -> None:
        """Read the counters back, as a process that was killed has left them."""
        if not self.path.exists():
            return
        data = json.loads(self.path.read_text("utf-8"))
        self.provider.count.clear()
        self.provider.count.update(data["count"])
        for fault, used in zip(self.provider.faults, data["used"], strict=True):
            fault.used = used


def provider_of(scenario: Scenario) -> DemoProvider:
    """Return the demo provider that a scenario describes."""
    faults = [
        Fault(
            fault["capability"],
            fault["code"],
            fault.get("message", ""),
            fault.get("retryable", False),
            fault.get("dispatch"),
            fault.get("where"),
            fault.get("times"),
        )
        for fault in scenario.fail
    ]
    return DemoProvider(scenario.results, faults, scenario.order)


def grant_of(value: Any) -> Grant:
    """Return the grant that a scenario describes: every demo capability without limits if it names none.

    A grant that names only limits grants every demo capability under them. Raises `ConfigError` as a run does for one
    that names what there isn't: its rule would ask about nothing, and the rehearsal pass.
    """
    if value is None:
        return everything(CATALOG)
    grant = from_json(value)
    named(grant, CATALOG)
    return grant if "capabilities" in value else widened(grant, CATALOG)


class Player:
    """Plays one scenario in a folder of its own.

    `open_context` builds the production parts around a provider; `child` is the command that plays one step in a
    process of its own (it is given the folder and the step's number) and is killed in it."""

    def __init__(
        self,
        scenario: Scenario,
        folder: Path,
        open_context: Callable[[Path, DemoProvider], Context],
        child: Sequence[str],
    ) -> None:
        self.scenario = scenario
        self.child = child
        self.folder = folder
        self.open_context = open_context
        self.state = State(folder / "provider.json", provider_of(scenario))
        self.played = Played(scenario.name)

    def play(self) -> Played:
        """Play every step, and compare what is seen with what is expected."""
        context = self.open_context(self.folder, self.state.provider)
        try:
            for number, step in enumerate(self.scenario.steps, 1):
                if step.crash is not None:
                    self.state.save()
                    context.store.close()
                    self._crash(number)
                    context = self.open_context(self.folder, self.state.provider)
                    self.state.load()
                    seen = self._after_crash(context)
                else:
                    seen = self._see(context, step)
                self.played.steps.append(seen)
                self.played.mismatches.extend(compare(number, step.action, step.expect, seen))
                if seen.get("status") == "error" and step.action not in ANSWERS and not step.expect:
                    why = str(seen["message"])
                    self.played.mismatches.append(Mismatch(number, step.action, "status", "played", "error", why))
        finally:
            context.store.close()
            context.sandbox.close()
        return self.played

    def _see(self, context: Context, step: Step) -> dict[str, Any]:
        try:
            return self._act(context, step)
        except AddendumError as error:
            return {"status": "error", "error": error.code, "message": str(error)}

    def _act(self, context: Context, step: Step) -> dict[str, Any]:
        match step.action:
            case "reconcile":
                known = step.value.get("result", UNKNOWN)
                reconcile(context, RUN, result=known, abandon="abandon" in step.value, reason="rehearsal")
                return self._standing(context)
            case "approve":
                approve(context, RUN, approved=step.value)
                return self._standing(context)
            case "grant":
                grant = grant_of(step.value)
                try:
                    set_grant(context, RUN, grant)
                except NotFound:
                    return {"committed": 0}  # no run was admitted yet: the next one gets it
                return self._standing(context)
            case _:
                return self._seen(context, act(context, self.scenario, step), step)

    def _seen(self, context: Context, result: StepResult, step: Step) -> dict[str, Any]:
        if result.run:
            result.certificate = certified(context.store, result.run)
        return result.to_json()

    def _standing(self, context: Context) -> dict[str, Any]:
        with driving(context, RUN) as journal:
            committed = journal.history.committed
        return {"committed": committed, "certificate": certified(context.store, RUN)}

    def _after_crash(self, context: Context) -> dict[str, Any]:
        return {"status": "crashed", **self._standing(context)}

    def _crash(self, number: int) -> None:
        """Play one step in a process that is killed in it, and see that it was."""
        (self.folder / "scenario.json").write_text(json.dumps(self.scenario.data), "utf-8")
        done = subprocess.run(
            [*self.child, str(self.folder), str(number)],
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            timeout=120,
            check=False,
        )
        if done.returncode != -9:
            raise AddendumError(
                f"Step {number} was to be killed and ended with {done.returncode}: {done.stderr.strip()[-500:]}",
                hint="Is the dispatch that the crash names ever reached?",
            )


def _grant_at(scenario: Scenario, step: Step) -> Any:
    """Return the grant that a run gets which begins with a step: the last one that was given before it."""
    found = scenario.grant
    for each in scenario.steps:
        if each is step:
            break
        if each.action == "grant":
            found = each.value
    return found


def act(context: Context, scenario: Scenario, step: Step) -> StepResult:
    """Do one step that drives or plans the run."""
    policy = Policy().override(dict(scenario.policy)).override(dict(step.policy)).to_json()
    allowances = Allowances(
        supersede=step.supersede == "changed" if not isinstance(step.supersede, list) else frozenset(step.supersede),
        retry=step.retry,  # type: ignore[arg-type]
        drops=step.drop,
        moves=step.moves,
    )
    args = step.args if step.has_args else UNCHANGED
    match step.action:
        case "run":
            given = step.args if step.has_args else scenario.args
            grant = grant_of(_grant_at(scenario, step))
            return start(context, step.value, given, grant=grant, policy=policy, run=RUN)
        case "resume" if not step.has_args:
            return resume(context, RUN, policy=policy, allowances=allowances)
        case "resume":
            return revise(context, RUN, None, args=args, policy=policy, allowances=allowances, how="resume")
        case "revise":
            return revise(context, RUN, step.value, args=args, policy=policy, allowances=allowances)
        case _:
            drawn = plan(context, RUN, step.value, args=args, policy=policy, allowances=allowances)
            return planned(drawn)
