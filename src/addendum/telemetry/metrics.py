"""Runs as OpenTelemetry metrics. Their attributes are names of capabilities, models, codes: never ids of runs or calls.

| instrument | unit | counts |
| --- | --- | --- |
| `gen_ai.client.operation.duration` | s | drives, calls, agents, model calls; with `gen_ai.operation.name` |
| `addendum.tokens` | {token} | tokens that providers reported |
| `addendum.cost` | {nano_usd} | what was paid, in 10^-9 US dollars |
| `addendum.replays` | {call} | calls that were served from the store |
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, Final

from opentelemetry import metrics
from opentelemetry.metrics import Meter

from addendum.authority.catalog import Capability
from addendum.telemetry import names as n
from addendum.telemetry.watch import Noted

BOUNDS: Final = (0.01, 0.02, 0.04, 0.08, 0.16, 0.32, 0.64, 1.28, 2.56, 5.12, 10.24, 20.48, 40.96, 81.92)
"""Buckets of durations in seconds, as the GenAI conventions advise."""


def _no_capability(name: str) -> Capability | None:
    return None


class Metrics:
    """A sink that counts. `capability` says what a capability is."""

    def __init__(
        self, meter: Meter | None = None, *, capability: Callable[[str], Capability | None] = _no_capability
    ) -> None:
        meter = meter or metrics.get_meter(n.SCOPE)
        self._capability = capability
        self._durations = meter.create_histogram(
            "gen_ai.client.operation.duration",
            unit="s",
            description="Duration of drives, calls and model calls.",
            explicit_bucket_boundaries_advisory=BOUNDS,
        )
        self._tokens = meter.create_counter("addendum.tokens", unit="{token}", description="Tokens as reported.")
        self._cost = meter.create_counter("addendum.cost", unit="{nano_usd}", description="What was paid.")
        self._replays = meter.create_counter("addendum.replays", unit="{call}", description="Calls from the store.")
        self._begun: dict[tuple[str, str], int] = {}

    def take(self, noted: Noted) -> None:
        """Take one event."""
        event = noted.event
        run, at = str(event.get("run")), str(event.get("identity", ""))
        match event.get("event"):
            case "began":
                self._begun = {key: value for key, value in self._begun.items() if key[0] != run}
                self._begun[run, ""] = noted.at
            case "ended":
                error = event["error"] or event["stop"]
                found = {n.OPERATION: n.INVOKE_WORKFLOW, n.STATUS: str(event["status"])}
                self._lasted(run, "", noted, found, error)
            case "planned":
                self._durations.record(event["seconds"], {n.OPERATION: n.PLAN, n.STATUS: str(event["status"])})
            case "dispatched":
                self._begun[run, at] = noted.at
            case "retry":
                self._lasted(run, at, noted, self._call(event), event["code"])
            case "unresolved":
                self._lasted(run, at, noted, self._call(event), "unresolved")
            case "settled":
                failure = event.get("failure") or {}
                self._lasted(run, at, noted, self._call(event), None if event["ok"] else failure.get("code"))
                self._used(event, {n.CAPABILITY: str(event["capability"])})
            case "replayed":
                self._replays.add(1, {n.CAPABILITY: str(event["capability"])})
            case "drafting":
                self._begun[run, "drafting"] = noted.at
            case "drafted":
                found = {n.OPERATION: n.CHAT, n.REQUEST_MODEL: str(event["model"]).partition(":")[2]}
                failed = event["verdict"] in ("failed", "unknown", "lost")
                self._lasted(run, "drafting", noted, found, event["verdict"] if failed else None)
                self._used(event, found)
            case _:
                return

    def end(self) -> None:
        """Nothing is open."""

    def _call(self, event: Mapping[str, Any]) -> dict[str, str]:
        name = str(event["capability"])
        known = self._capability(name)
        agentic = known is not None and known.agentic
        if agentic:
            return {n.OPERATION: n.INVOKE_AGENT, n.AGENT_NAME: name}
        return {n.OPERATION: n.EXECUTE_TOOL, n.TOOL_NAME: name}

    def _used(self, event: Mapping[str, Any], about: Mapping[str, str]) -> None:
        if event.get("tokens"):
            self._tokens.add(event["tokens"], about)
        if event["cost"]:
            self._cost.add(event["cost"], about)

    def _lasted(self, run: str, what: str, noted: Noted, about: Mapping[str, str], error: object) -> None:
        begun = self._begun.pop((run, what), None)
        if begun is not None:
            more = {n.ERROR: str(error)} if error else {}
            self._durations.record((noted.at - begun) / 1e9, {**about, **more})
