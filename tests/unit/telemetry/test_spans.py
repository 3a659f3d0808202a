"""Runs as spans: what real runs look like in the SDK's memory, and what they never show."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("opentelemetry.sdk")

from opentelemetry import trace
from opentelemetry.sdk.trace import ReadableSpan, TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter
from opentelemetry.trace import StatusCode

from addendum import App, CapabilityError, UnknownOutcome
from addendum.authority.catalog import Capability
from addendum.ports import Sandbox
from addendum.sandbox.embedded import EmbeddedSandbox
from addendum.telemetry.content import Content, Traces
from addendum.telemetry.spans import SHOWN, Spans
from addendum.telemetry.watch import Noted, Watch
from addendum.testing import MemoryStore

CANARY = "canary-5f2c"


class Seen:
    """A tracer that keeps what it exported."""

    def __init__(self) -> None:
        self.memory = InMemorySpanExporter()
        self.provider = TracerProvider()
        self.provider.add_span_processor(SimpleSpanProcessor(self.memory))
        self.tracer = self.provider.get_tracer("test")

    @property
    def spans(self) -> list[ReadableSpan]:
        """All that ended, in that order."""
        return list(self.memory.get_finished_spans())

    def named(self, name: str) -> list[ReadableSpan]:
        """Those of a name."""
        return [span for span in self.spans if span.name == name]

    def one(self, name: str) -> ReadableSpan:
        """The only one of a name."""
        (span,) = self.named(name)
        return span


@pytest.fixture
def seen() -> Seen:
    """A tracer."""
    return Seen()


@pytest.fixture
def sandbox() -> Iterator[Sandbox]:
    """A sandbox."""
    opened = EmbeddedSandbox()
    yield opened
    opened.close()


@pytest.fixture
def store() -> MemoryStore:
    """A store."""
    return MemoryStore()


def an_app(sandbox: Sandbox, store: MemoryStore, observer: Callable[[Mapping[str, Any]], None]) -> App:
    """An App with a capability for each way that a call can end."""
    app = App(store=store, sandbox=sandbox, observer=observer, backoff=0.0)
    tries: list[str] = []

    @app.capability("image.generate", effect="paid", price_usd="0.02")
    def image(prompt: str) -> str:
        if prompt == "lost":
            raise UnknownOutcome(f"the line went dead, {CANARY}")
        if prompt == "bad":
            raise CapabilityError("refused", f"not this: {CANARY}")
        if prompt == "flaky" and not tries:
            tries.append(prompt)
            raise CapabilityError("rate_limited", CANARY, retryable=True)
        return f"{prompt} {CANARY}"

    return app


def script(*lines: str) -> str:
    """A script of these lines."""
    return "async def orchestrate(ctx, args):\n" + "".join(f"    {line}\n" for line in lines)


def call(prompt: str) -> str:
    """A line that calls."""
    return f'await ctx.run("image.generate", {{"prompt": "{prompt}"}})'


FAN = script(
    f'ctx.log("{CANARY}")',
    "async def one(n):",
    '    return await ctx.run("image.generate", {"prompt": str(n)})',
    "return await ctx.parallel([one(n) for n in range(3)])",
)


def watched(seen: Seen, **more: Any) -> Watch:
    """An observer that makes spans."""
    return Watch(lambda: Spans(seen.tracer, **more))


def test_a_drive_and_its_calls_are_a_trace(seen: Seen, sandbox: Sandbox, store: MemoryStore) -> None:
    """By the GenAI conventions, with the ids of run, revision and call."""
    watch = watched(seen)
    with an_app(sandbox, store, watch) as app:
        result = app.run(script(call("a")), run="run-1")
    assert watch.close()
    root, sent = seen.one("invoke_workflow"), seen.one("execute_tool image.generate")
    assert root.attributes == {
        "addendum.run": "run-1",
        "gen_ai.conversation.id": "run-1",
        "gen_ai.operation.name": "invoke_workflow",
        "addendum.revision": 1,
        "addendum.drive": 1,
        "addendum.how": "run",
        "addendum.status": "completed",
        "addendum.dispatched": 1,
        "addendum.replayed": 0,
        "addendum.cost_nano_usd": 20_000_000,
    }
    assert sent.attributes is not None
    assert {key: sent.attributes[key] for key in sent.attributes if key.startswith("gen_ai.")} == {
        "gen_ai.operation.name": "execute_tool",
        "gen_ai.tool.name": "image.generate",
        "gen_ai.tool.type": "extension",
        "gen_ai.tool.call.id": "1",
    }
    assert sent.attributes["addendum.identity"] == "orchestrate/image.generate#0"
    assert sent.attributes["addendum.revision"] == 1
    assert sent.attributes["addendum.cost_nano_usd"] == 20_000_000
    assert sent.parent is not None
    assert root.context is not None
    assert sent.parent.span_id == root.context.span_id
    assert root.start_time is not None
    assert sent.start_time is not None
    assert sent.end_time is not None
    assert root.end_time is not None
    assert root.start_time <= sent.start_time <= sent.end_time <= root.end_time
    assert result.status == "completed"


def test_calls_of_a_fan_out_are_children_of_its_span(seen: Seen, sandbox: Sandbox, store: MemoryStore) -> None:
    """With their branch; the fan-out's span lasts as long as they do."""
    watch = watched(seen)
    with an_app(sandbox, store, watch) as app:
        assert app.run(FAN).status == "completed"
    watch.close()
    fan, calls = seen.one("parallel"), seen.named("execute_tool image.generate")
    assert fan.context is not None
    assert {each.parent.span_id for each in calls if each.parent is not None} == {fan.context.span_id}
    assert sorted(str((each.attributes or {})["addendum.branch"]) for each in calls) == ["0", "1", "2"]
    assert fan.end_time == max(each.end_time or 0 for each in calls)
    root = seen.one("invoke_workflow")
    assert fan.parent is not None
    assert root.context is not None
    assert fan.parent.span_id == root.context.span_id


def test_every_way_that_a_call_can_end_is_seen(seen: Seen, sandbox: Sandbox, store: MemoryStore) -> None:
    """Failed, sent again, unresolved: as error types, without the provider's words."""
    watch = watched(seen)
    with an_app(sandbox, store, watch) as app:
        assert app.run(script(call("flaky"), call("bad"))).status == "failed"
        assert app.run(script(call("lost"))).stop == "unresolved"
    watch.close()
    types = [(span.attributes or {}).get("error.type") for span in seen.named("execute_tool image.generate")]
    assert types == ["rate_limited", None, "refused", "unresolved"]
    roots = seen.named("invoke_workflow")
    assert [(root.attributes or {}).get("error.type") for root in roots] == ["refused", "unresolved"]
    assert all(root.status.status_code is StatusCode.ERROR for root in roots)


def test_replays_are_events_and_a_number(seen: Seen, sandbox: Sandbox, store: MemoryStore) -> None:
    """No spans: thousands of them may come in a second."""
    watch = watched(seen)
    with an_app(sandbox, store, watch) as app:
        first = app.run(script(call("a"), call("b")))
        app.resume(first.run)
    watch.close()
    root = seen.named("invoke_workflow")[1]
    assert [event.name for event in root.events] == ["replayed", "replayed"]
    assert (root.attributes or {})["addendum.replayed"] == 2
    assert len(seen.named("execute_tool image.generate")) == 2


def test_no_more_events_than_a_span_should_have() -> None:
    """The rest is only counted."""
    seen = Seen()
    spans = Spans(seen.tracer)
    spans.take(Noted({"event": "began", "run": "r", "drive": 1, "revision": 1, "how": "run"}, 1))
    replayed = {"event": "replayed", "run": "r", "identity": "f/a#0", "capability": "a", "seq": 1, "ok": True}
    for at in range(2 * SHOWN):
        spans.take(Noted(replayed, at + 2))
    spans.end()
    assert len(seen.one("invoke_workflow").events) == SHOWN
    assert (seen.one("invoke_workflow").attributes or {})["addendum.replayed"] == 2 * SHOWN


def test_a_plan_is_a_span_and_a_revision_links_to_it(seen: Seen, sandbox: Sandbox, store: MemoryStore) -> None:
    """Each trace of a run links to the one before."""
    watch = watched(seen)
    with an_app(sandbox, store, watch) as app:
        first = app.run(script(call("a"), call("bad")))
        app.revise(first.run, script(call("a"), call("c")))
    watch.close()
    before, after = seen.named("invoke_workflow")
    plan = seen.one("plan")
    for span, former in ((plan, before), (after, plan)):
        (link,) = span.links
        assert former.context is not None
        assert link.context.trace_id == former.context.trace_id
        assert link.attributes == {"addendum.run": first.run}
    assert (plan.attributes or {})["addendum.frontier"] == 1


def test_another_process_links_to_the_former_trace(
    seen: Seen, sandbox: Sandbox, store: MemoryStore, tmp_path: Path
) -> None:
    """By a file beside the store; one that can't be read is none."""
    folder = tmp_path / "traces"
    runs = []
    for _ in range(2):
        watch = watched(seen, traces=Traces(folder))
        with an_app(sandbox, store, watch) as app:
            runs.append(app.resume(runs[0]).run if runs else app.run(script(call("a"))).run)
        watch.close()
    before, after = seen.named("invoke_workflow")
    assert before.context is not None
    assert [link.context.span_id for link in after.links] == [before.context.span_id]
    for path in folder.iterdir():
        path.write_bytes(b"\xff nonsense")
    assert Traces(folder).get(runs[0]) == ""
    (tmp_path / "file").write_text("")
    Traces(tmp_path / "file").put("run", "x")
    assert Traces(tmp_path / "file").get("run") == ""


def test_a_trace_of_the_caller_is_continued(seen: Seen, sandbox: Sandbox, store: MemoryStore) -> None:
    """What is current around a drive is its parent."""
    watch = watched(seen)
    with an_app(sandbox, store, watch) as app, seen.tracer.start_as_current_span("mine") as mine:
        app.run(script(call("a")))
    watch.close()
    root = seen.one("invoke_workflow")
    assert root.parent is not None
    assert root.parent.span_id == mine.get_span_context().span_id


def test_no_content_is_in_a_span_unless_it_is_asked_for(seen: Seen, sandbox: Sandbox, store: MemoryStore) -> None:
    """Payloads, results, logged texts, providers' words: a canary in each of them."""
    watch = watched(seen)
    with an_app(sandbox, store, watch) as app:
        app.run(FAN)
        app.run(script(call(CANARY), call("bad")))
        app.run(script(call("flaky"), call("lost")))
        app.run(script(f'await ctx.run("human.approve", {{"question": "{CANARY}"}})'))
    watch.close()
    assert len(seen.spans) > 5
    assert CANARY not in "".join(span.to_json() for span in seen.spans)


def test_content_is_there_when_it_is_asked_for(seen: Seen, sandbox: Sandbox, store: MemoryStore) -> None:
    """From the store, cut to a length."""
    watch = watched(seen, content=Content(lambda: store))
    with an_app(sandbox, store, watch) as app:
        app.run(script(call("a")))
        app.run(script('await ctx.run("image.generate", {"prompt": "x" * 20000})'))
        watch.flush()
    watch.close()
    first, second = (span.attributes or {} for span in seen.named("execute_tool image.generate"))
    assert first["gen_ai.tool.call.arguments"] == '{"prompt": "a"}'
    assert first["gen_ai.tool.call.result"] == f'"a {CANARY}"'
    assert len(str(second["gen_ai.tool.call.arguments"])) == 8193


def test_an_agentic_capability_is_an_agent(seen: Seen) -> None:
    """It has a loop of its own; its model is named where it is known."""
    known = Capability(name="agent.run", effect="side_effect", agentic=True, model="gpt-5-mini")
    spans = Spans(seen.tracer, capability={"agent.run": known}.get)
    spans.take(Noted({"event": "began", "run": "r", "drive": 1, "revision": 1, "how": "run"}, 1))
    sent = {"identity": "f/agent.run#0", "capability": "agent.run", "attempt": 1, "try": 1, "price": 5}
    spans.take(Noted({"event": "dispatched", "run": "r", **sent}, 2))
    spans.end()
    found = seen.one("invoke_agent agent.run").attributes or {}
    assert found["gen_ai.agent.name"] == "agent.run"
    assert found["gen_ai.request.model"] == "gpt-5-mini"
    assert found["error.type"] == "lost"


def test_a_model_that_is_asked_for_a_script_is_a_chat(seen: Seen) -> None:
    """With its provider, model, cost and the verdict on what it wrote."""
    spans = Spans(seen.tracer)
    asked = {"run": "r", "attempt": 1, "model": "openai:gpt-5-mini", "price": 9, "seq": 3, "purpose": "repair"}
    spans.take(Noted({"event": "drafting", **asked}, 1))
    spans.take(Noted({"event": "drafted", **asked, "verdict": "rejected", "cost": 4, "tokens": 7}, 2))
    spans.take(Noted({"event": "drafting", **asked}, 3))
    spans.take(Noted({"event": "drafted", **asked, "verdict": "failed", "cost": 0, "tokens": 0}, 4))
    first, second = seen.named("chat gpt-5-mini")
    found = first.attributes or {}
    assert (found["gen_ai.provider.name"], found["gen_ai.request.model"]) == ("openai", "gpt-5-mini")
    assert (found["addendum.cost_nano_usd"], found["addendum.tokens"], found["addendum.verdict"]) == (4, 7, "rejected")
    assert first.status.status_code is StatusCode.UNSET
    assert (second.attributes or {})["error.type"] == "failed"


def test_a32_work_is_correlated_by_ids(seen: Seen) -> None:
    """An attempt at a slice, its checks, and the verdict on it (A32)."""
    spans = Spans(seen.tracer)
    ids = {"contract": "c1", "slice": "A"}
    spans.take(Noted({"event": "work.admitted", "contract": "c1"}, 1))
    spans.take(Noted({"event": "work.attempt", **ids, "attempt": 1}, 2))
    spans.take(Noted({"event": "work.checked", **ids, "candidate": "t", "validator": "v", "result": "green"}, 3))
    spans.take(Noted({"event": "work.verdict", "contract": "c1", "candidate": "t", "verdict": "accepted"}, 4))
    spans.take(Noted({"event": "work.attempt", **ids, "attempt": 2}, 5))
    spans.end()
    first, second = seen.named("work.attempt")
    assert [event.name for event in first.events] == ["work.checked", "work.verdict"]
    assert (first.attributes or {})["addendum.verdict"] == "accepted"
    assert (second.attributes or {})["error.type"] == "lost"
    assert seen.one("work.admitted")


def test_a_drive_without_an_end_is_ended_as_lost(seen: Seen) -> None:
    """When the next one begins, and when telemetry ends."""
    spans = Spans(seen.tracer)
    began = {"event": "began", "run": "r", "drive": 1, "revision": 1, "how": "run"}
    spans.take(Noted(began, 1))
    spans.take(Noted({**began, "drive": 2}, 2))
    assert [(span.attributes or {})["error.type"] for span in seen.named("invoke_workflow")] == ["lost"]
    spans.end()
    assert len(seen.named("invoke_workflow")) == 2


def test_with_no_sdk_nothing_is_made_and_nothing_fails(sandbox: Sandbox, store: MemoryStore) -> None:
    """The API alone answers with spans that record nothing."""
    watch = Watch(lambda: Spans(trace.NoOpTracerProvider().get_tracer("x")))
    with an_app(sandbox, store, watch) as app:
        assert app.run(FAN).status == "completed"
    assert watch.close()


def test_an_exporter_that_raises_or_hangs_changes_nothing(sandbox: Sandbox, store: MemoryStore) -> None:
    """The run ends with its result; only the telemetry waits, and an end doesn't wait for it for ever."""
    release = threading.Event()

    class Hanging(InMemorySpanExporter):
        def export(self, spans: Any) -> Any:
            release.wait(30)
            raise RuntimeError("no collector")

    provider = TracerProvider()
    provider.add_span_processor(SimpleSpanProcessor(Hanging()))
    watch = Watch(lambda: Spans(provider.get_tracer("x")))
    with an_app(sandbox, store, watch) as app:
        assert app.run(FAN).status == "completed"
    assert not watch.close(0.05)
    release.set()
