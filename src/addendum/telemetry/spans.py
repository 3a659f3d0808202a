"""Runs as OpenTelemetry spans, by the GenAI conventions.

    invoke_workflow                a drive of a run; links to the trace of the run's last one
      ├─ execute_tool CAPABILITY   each time that a call was sent; `invoke_agent` for an agentic capability
      └─ parallel                  a fan-out (pipeline, dag, race), around the calls of its branches
           └─ execute_tool …
    plan · chat MODEL              a revision was planned; a model was asked for a script
    work.attempt                   an attempt at a slice of a work contract, to the verdict on it

A replayed call is an event of the drive's span, up to `SHOWN` of them, and a number. Spans are made when their events
come, with the times of these, so that a late telemetry isn't a false one.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, Final

from opentelemetry import context as contexts
from opentelemetry import trace
from opentelemetry.trace import Link, Span, SpanKind, Status, StatusCode, Tracer
from opentelemetry.trace.propagation.tracecontext import TraceContextTextMapPropagator

from addendum import identity
from addendum.authority.catalog import Capability
from addendum.telemetry import names as n
from addendum.telemetry.content import Content, Traces
from addendum.telemetry.watch import Noted

SHOWN: Final = 100
"""Replays and other events that a drive's span lists; the rest is counted. OpenTelemetry's own default limit is 128."""
_AGREED: Final = ("completed", "paused", "waiting")
_SAID: Final = ("asked", "limit", "repeat", "rebound", "frozen", "phase", "log")
_OURS: Final[Mapping[str, str]] = {
    "identity": n.IDENTITY,
    "capability": n.CAPABILITY,
    "seq": n.SEQ,
    "attempt": n.ATTEMPT,
    "limit": "addendum.limit",
    "finding": "addendum.finding",
    "of": "addendum.of",
    "meter": "addendum.meter",
    "reported": "addendum.reported",
    "declared": "addendum.declared",
}


@dataclass(slots=True)
class _Open:
    """A span that goes on, and when something last happened in it."""

    span: Span
    last: int = 0


@dataclass(slots=True)
class _Run:
    """A run that is being driven. `fans` are its fan-outs by the text of their frames."""

    span: Span
    revision: int = 0
    calls: dict[str, _Open] = field(default_factory=dict)
    fans: dict[str, _Open] = field(default_factory=dict)
    replayed: int = 0
    shown: int = 0


def _no_capability(name: str) -> Capability | None:
    return None


class Spans:
    """A sink that makes spans. `capability` says what a capability is; `content` is asked for payloads and results,
    None for none of them; `traces` knows the trace of a run's last drive."""

    def __init__(
        self,
        tracer: Tracer | None = None,
        *,
        capability: Callable[[str], Capability | None] = _no_capability,
        content: Content | None = None,
        traces: Traces | None = None,
    ) -> None:
        self._tracer = tracer or trace.get_tracer(n.SCOPE)
        self._capability = capability
        self._content = content
        self._traces = traces or Traces()
        self._runs: dict[str, _Run] = {}
        self._chats: dict[str, _Open] = {}
        self._work: dict[str, _Open] = {}
        self._former: dict[str, str] = {}

    def take(self, noted: Noted) -> None:
        """Take one event."""
        event, name = noted.event, str(noted.event.get("event"))
        if name.startswith("work."):
            self._of_work(name, noted)
            return
        match name:
            case "began":
                self._began(noted)
            case "planned":
                self._planned(noted)
            case "drafting":
                self._drafting(noted)
            case "drafted":
                self._drafted(noted)
            case _:
                run = self._runs.get(str(event.get("run")))
                if run is not None and run.span.is_recording():
                    self._within(name, run, noted)

    def end(self) -> None:
        """End every span that is open, as one whose end nobody saw."""
        for run in list(self._runs.values()):
            _abandon(run)
        for open_ in [*self._chats.values(), *self._work.values()]:
            _end(open_.span, None, "lost")
        self._runs, self._chats, self._work = {}, {}, {}
        if self._content is not None:
            self._content.close()

    # --- drives ------------------------------------------------------------------------------------------------

    def _began(self, noted: Noted) -> None:
        event, run = noted.event, str(noted.event["run"])
        if run in self._runs:
            _abandon(self._runs.pop(run))
        found = {
            n.OPERATION: n.INVOKE_WORKFLOW,
            n.REVISION: event["revision"],
            n.DRIVE: event["drive"],
            n.HOW: event["how"],
        }
        span = self._root(n.INVOKE_WORKFLOW, noted, found)
        self._runs[run] = _Run(span, event["revision"])

    def _ended(self, run: _Run, noted: Noted) -> None:
        event = noted.event
        for open_ in run.calls.values():  # a race's losers, and what was in flight at a stop
            _end(open_.span, noted.at, "unsettled")
        for open_ in reversed(run.fans.values()):
            open_.span.end(max(open_.last, 1))
        span, status = run.span, str(event["status"])
        span.set_attributes(
            {
                n.STATUS: status,
                n.DISPATCHED: event["dispatched"],
                n.REPLAYED: event["replayed"],
                n.COST: event["cost"],
                **({n.STOP: event["stop"]} if event["stop"] else {}),
            }
        )
        _end(span, noted.at, None if status in _AGREED else str(event["error"] or event["stop"] or status))
        del self._runs[str(event["run"])]

    def _within(self, name: str, run: _Run, noted: Noted) -> None:
        match name:
            case "ended":
                self._ended(run, noted)
            case "dispatched":
                self._dispatched(run, noted)
            case "retry":
                self._landed(run, noted, str(noted.event["code"]))
            case "unresolved":
                self._landed(run, noted, "unresolved")
            case "settled":
                failure = noted.event.get("failure") or {}
                self._landed(run, noted, None if noted.event["ok"] else str(failure.get("code")))
            case "replayed":
                run.replayed += 1
                self._say(run, name, noted)
            case _ if name in _SAID:
                self._say(run, name, noted)
            case _:
                return

    def _say(self, run: _Run, name: str, noted: Noted) -> None:
        """Put an event on the drive's span: what happened, without its content."""
        run.shown += 1
        if run.shown <= SHOWN:
            known = {ours: noted.event[key] for key, ours in _OURS.items() if key in noted.event}
            run.span.add_event(name, known, noted.at)

    # --- calls -------------------------------------------------------------------------------------------------

    def _dispatched(self, run: _Run, noted: Noted) -> None:
        event = noted.event
        at, name = str(event["identity"]), str(event["capability"])
        capability = self._capability(name)
        agentic = capability is not None and capability.agentic
        operation = n.INVOKE_AGENT if agentic else n.EXECUTE_TOOL
        parent, branch = self._parent(run, at, noted)
        found: dict[str, Any] = {
            n.OPERATION: operation,
            (n.AGENT_NAME if agentic else n.TOOL_NAME): name,
            n.TOOL_CALL: str(event["attempt"]),
            n.RUN: event["run"],
            n.REVISION: run.revision,
            n.IDENTITY: at,
            n.CAPABILITY: name,
            n.ATTEMPT: event["attempt"],
            n.TRY: event["try"],
            n.RESERVED: event["price"],
        }
        if not agentic:
            found[n.TOOL_TYPE] = "extension"
        if capability is not None and capability.model:
            found[n.REQUEST_MODEL] = capability.model
        if branch is not None:
            found[n.BRANCH] = branch
        span = self._start(f"{operation} {name}", noted, found, parent, SpanKind.CLIENT)
        if at in run.calls:  # it was sent again, and nobody told what became of the first
            _end(run.calls[at].span, noted.at, "lost")
        run.calls[at] = _Open(span)

    def _landed(self, run: _Run, noted: Noted, error: str | None) -> None:
        event, at = noted.event, str(noted.event["identity"])
        open_ = run.calls.pop(at, None)
        if open_ is None:  # an answer of a person, or one that came after all
            self._say(run, str(event["event"]), noted)
            return
        if event["event"] == "settled":
            open_.span.set_attributes({n.SEQ: event["seq"], n.COST: event["cost"], n.TOKENS: event["tokens"]})
            self._fill(open_.span, str(event["run"]), event)
        _end(open_.span, noted.at, error)
        for frame in _fans(at):
            if frame in run.fans:
                run.fans[frame].last = noted.at

    def _fill(self, span: Span, run: str, event: Mapping[str, Any]) -> None:
        if self._content is None:
            return
        seq = int(event["seq"])
        result = self._content.of(run, seq, "result")
        attempt = self._content.attempt(run, seq)
        payload = self._content.of(run, attempt, "payload") if attempt else ""
        span.set_attributes({key: text for key, text in ((n.ARGUMENTS, payload), (n.RESULT, result)) if text})

    def _parent(self, run: _Run, at: str, noted: Noted) -> tuple[Span, str | None]:
        """Return the span of the innermost fan-out around a call, and the call's branch in it."""
        parent, branch, frames = run.span, None, _fans(at)
        for frame, (method, where) in frames.items():
            if frame not in run.fans:
                found = {n.RUN: str(noted.event["run"]), n.REVISION: run.revision, n.IDENTITY: frame}
                run.fans[frame] = _Open(self._start(method, noted, found, parent), noted.at)
            parent, branch = run.fans[frame].span, where
        return parent, branch

    # --- planning, asking a model, work --------------------------------------------------------------------------

    def _planned(self, noted: Noted) -> None:
        event = noted.event
        found = {n.STATUS: event["status"], n.REPLAYED: event["replayed"], n.FRONTIER: event["frontier"]}
        begun = noted.at - round(event["seconds"] * 1e9)
        span = self._root(n.PLAN, Noted(event, begun, noted.around), {n.OPERATION: n.PLAN, **found})
        _end(span, noted.at, None if event["status"] == "planned" else str(event["status"]))

    def _drafting(self, noted: Noted) -> None:
        event, run = noted.event, str(noted.event["run"])
        provider, _, model = str(event["model"]).partition(":")
        found = {
            n.OPERATION: n.CHAT,
            n.PROVIDER: provider,
            n.REQUEST_MODEL: model or provider,
            n.ATTEMPT: event["attempt"],
            n.PURPOSE: str(event.get("purpose", "")),
            n.RESERVED: event["price"],
        }
        span = self._root(f"{n.CHAT} {model or provider}", noted, found, SpanKind.CLIENT)
        if self._content is not None and (prompt := self._content.prompt(run, int(event.get("seq", 0)))):
            span.set_attribute(n.INPUT, prompt)
        self._chats[run] = _Open(span)

    def _drafted(self, noted: Noted) -> None:
        event, run = noted.event, str(noted.event["run"])
        open_ = self._chats.pop(run, None)
        if open_ is None:
            return
        verdict = str(event["verdict"])
        found = {n.COST: event["cost"], n.TOKENS: event.get("tokens", 0), n.VERDICT: verdict}
        open_.span.set_attributes(found)
        if event.get("answered"):
            open_.span.set_attribute(n.RESPONSE_MODEL, str(event["answered"]))
        if self._content is not None and (answer := self._content.answer(run, int(event.get("seq", 0)))):
            open_.span.set_attribute(n.OUTPUT, answer)
        _end(open_.span, noted.at, verdict if verdict in ("failed", "unknown", "lost") else None)

    def _of_work(self, name: str, noted: Noted) -> None:
        """Correlate only: ids of contract, slice, candidate and validator."""
        event, contract = noted.event, str(noted.event.get("contract", ""))
        ids = {f"addendum.{name}": value for name, value in event.items() if isinstance(value, str | int | bool)}
        ids.pop("addendum.event", None)
        open_ = self._work.get(contract)
        if name == "work.attempt":
            if open_ is not None:
                _end(open_.span, noted.at, "lost")
            around = contexts.Context() if noted.around is None else noted.around.run(contexts.get_current)
            span = self._tracer.start_span(name, around, attributes=ids, start_time=noted.at)
            self._work[contract] = _Open(span)
        elif open_ is not None:
            open_.span.add_event(name, ids, noted.at)
            if name == "work.verdict":
                open_.span.set_attribute(n.VERDICT, str(event.get("verdict")))
                del self._work[contract]
                _end(open_.span, noted.at, None)
        else:
            around = contexts.Context()
            self._tracer.start_span(name, around, attributes=ids, start_time=noted.at).end(noted.at)

    # --- spans -------------------------------------------------------------------------------------------------

    def _root(self, name: str, noted: Noted, attributes: Mapping[str, Any], kind: SpanKind = SpanKind.INTERNAL) -> Span:
        """Start a span of a run that has no parent among ours, and link it to the one before."""
        run = str(noted.event["run"])
        around = contexts.Context() if noted.around is None else noted.around.run(contexts.get_current)
        former = self._former.get(run) or self._traces.get(run)
        links = [Link(at, {n.RUN: run})] if (at := _parsed(former)) is not None else []
        found = {n.RUN: run, n.CONVERSATION: run, **attributes}
        span = self._tracer.start_span(name, around, kind, found, links, noted.at)
        if span.is_recording():
            self._former[run] = _written(span)
            self._traces.put(run, self._former[run])
        return span

    def _start(
        self,
        name: str,
        noted: Noted,
        attributes: Mapping[str, Any],
        parent: Span,
        kind: SpanKind = SpanKind.INTERNAL,
    ) -> Span:
        around = trace.set_span_in_context(parent, contexts.Context())
        return self._tracer.start_span(name, around, kind, attributes, start_time=noted.at)


def _end(span: Span, at: int | None, error: str | None) -> None:
    if error is not None:
        span.set_attribute(n.ERROR, error)
        span.set_status(Status(StatusCode.ERROR))
    span.end(at)


def _abandon(run: _Run) -> None:
    for open_ in run.calls.values():
        _end(open_.span, None, "lost")
    for open_ in reversed(run.fans.values()):
        open_.span.end(open_.last)
    run.span.set_attribute(n.REPLAYED, run.replayed)
    _end(run.span, None, "lost")


def _fans(at: str) -> dict[str, tuple[str, str]]:
    """Return the fan-outs around a call, outermost first: the text of each without the branch, to its method and the
    branch. A text that is no identity has none."""
    try:
        parts = identity.parts(at)
        path = identity.parse(at).path
    except ValueError:
        return {}
    found: dict[str, tuple[str, str]] = {}
    for index, frame in enumerate(path):
        if frame.kind == "branch":
            own = str(identity.Frame(frame.position, frame.entry))
            method = frame.position.rsplit("/", 1)[-1].split("#", 1)[0]
            found[identity.JOIN.join([*parts[:index], own])] = (method, str(frame.branch))
    return found


def _written(span: Span) -> str:
    carrier: dict[str, str] = {}
    TraceContextTextMapPropagator().inject(carrier, trace.set_span_in_context(span, contexts.Context()))
    return carrier.get("traceparent", "")


def _parsed(traceparent: str) -> trace.SpanContext | None:
    if not traceparent:
        return None
    around = TraceContextTextMapPropagator().extract({"traceparent": traceparent}, contexts.Context())
    found = trace.get_current_span(around).get_span_context()
    return found if found.is_valid else None
