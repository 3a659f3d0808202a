"""Runs as metrics."""

from __future__ import annotations

from typing import Any

import pytest

pytest.importorskip("opentelemetry.sdk")

from opentelemetry.sdk.metrics import MeterProvider
from opentelemetry.sdk.metrics.export import InMemoryMetricReader

from addendum.authority.catalog import Capability
from addendum.telemetry.metrics import Metrics
from addendum.telemetry.watch import Noted

SECOND = 1_000_000_000


@pytest.fixture
def reader() -> InMemoryMetricReader:
    """Where the metrics go."""
    return InMemoryMetricReader()


def points(reader: InMemoryMetricReader) -> dict[str, list[tuple[dict[str, Any], Any]]]:
    """Return each instrument's points: attributes, and the sum."""
    found: dict[str, list[tuple[dict[str, Any], Any]]] = {}
    data = reader.get_metrics_data()
    assert data is not None
    for resource in data.resource_metrics:
        for scope in resource.scope_metrics:
            for metric in scope.metrics:
                for point in metric.data.data_points:
                    value: Any = getattr(point, "sum", None) if hasattr(point, "sum") else getattr(point, "value", None)
                    found.setdefault(metric.name, []).append((dict(point.attributes or {}), value))
    return found


def test_a_drive_is_measured(reader: InMemoryMetricReader) -> None:
    """Durations by operation and error, tokens, cost and replays by capability; no ids of runs or calls."""
    agent = Capability(name="agent.run", effect="side_effect", agentic=True)
    metrics = Metrics(MeterProvider([reader]).get_meter("x"), capability={"agent.run": agent}.get)
    call = {"run": "r", "identity": "f/image.generate#0", "capability": "image.generate"}
    work = {"run": "r", "identity": "f/agent.run#0", "capability": "agent.run"}
    lost = {"run": "r", "identity": "f/mail.send#0", "capability": "mail.send"}
    done = {"seq": 3, "ok": True, "cost": 5, "tokens": 70, "failure": None}
    failed = {"seq": 4, "ok": False, "cost": 0, "tokens": 0, "failure": {"code": "refused"}}
    draft = {"run": "r", "attempt": 1, "model": "openai:gpt-5-mini"}
    events: list[tuple[int, dict[str, Any]]] = [
        (0, {"event": "planned", "run": "r", "status": "planned", "seconds": 0.5}),
        (0, {"event": "began", "run": "r"}),
        (1, {"event": "replayed", **call}),
        (1, {"event": "dispatched", **call}),
        (2, {"event": "retry", **call, "code": "rate_limited"}),
        (3, {"event": "dispatched", **call}),
        (6, {"event": "settled", **call, **done}),
        (6, {"event": "dispatched", **work}),
        (7, {"event": "settled", **work, **failed}),
        (7, {"event": "dispatched", **lost}),
        (8, {"event": "unresolved", **lost}),
        (9, {"event": "ended", "run": "r", "status": "stopped", "stop": "unresolved", "error": None}),
        (10, {"event": "drafting", **draft}),
        (12, {"event": "drafted", **draft, "verdict": "accepted", "cost": 2, "tokens": 30}),
    ]
    for at, event in events:
        metrics.take(Noted(event, at * SECOND))
    metrics.end()
    found = points(reader)
    tool = {"gen_ai.operation.name": "execute_tool"}
    image = {**tool, "gen_ai.tool.name": "image.generate"}
    durations = found["gen_ai.client.operation.duration"]
    expected = [
        ({"gen_ai.operation.name": "plan", "addendum.status": "planned"}, 0.5),
        ({**image, "error.type": "rate_limited"}, 1.0),
        (image, 3.0),
        ({"gen_ai.operation.name": "invoke_agent", "gen_ai.agent.name": "agent.run", "error.type": "refused"}, 1.0),
        ({**tool, "gen_ai.tool.name": "mail.send", "error.type": "unresolved"}, 1.0),
        (
            {"gen_ai.operation.name": "invoke_workflow", "addendum.status": "stopped", "error.type": "unresolved"},
            9.0,
        ),
        ({"gen_ai.operation.name": "chat", "gen_ai.request.model": "gpt-5-mini"}, 2.0),
    ]
    assert sorted(durations, key=str) == sorted(expected, key=str)
    chat = {"gen_ai.operation.name": "chat", "gen_ai.request.model": "gpt-5-mini"}
    assert found["addendum.tokens"] == [({"addendum.capability": "image.generate"}, 70), (chat, 30)]
    assert found["addendum.cost"] == [({"addendum.capability": "image.generate"}, 5), (chat, 2)]
    assert found["addendum.replays"] == [({"addendum.capability": "image.generate"}, 1)]
