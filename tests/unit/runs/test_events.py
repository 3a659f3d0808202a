"""The shapes of events, against what runs really tell, and against the manual page."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, Literal, get_args, get_origin, get_type_hints

import pytest

from addendum import App, CapabilityError, UnknownOutcome
from addendum.ports import Sandbox
from addendum.runs import events
from addendum.runs.result import StepResult
from addendum.sandbox.embedded import EmbeddedSandbox
from addendum.testing import MemoryStore

ROOT = Path(__file__).resolve().parents[3]
SHAPES: dict[str, Any] = {
    kind: shape for shape in get_args(events.Event) for kind in get_args(get_type_hints(shape)["event"])
}


def wrong(value: Any, kind: Any) -> bool:
    """Say whether a value isn't of a declared type, as far as it matters here."""
    if get_origin(kind) is Literal:
        return value not in get_args(kind)
    if kind is float:
        return not isinstance(value, int | float)
    if kind in (str, bool, StepResult):
        return not isinstance(value, kind)
    if kind is int:
        return not isinstance(value, int) or isinstance(value, bool)
    if "Mapping" in str(kind) and "None" in str(kind) and "tuple" not in str(kind):
        return value is not None and not isinstance(value, Mapping)
    return False


def check(event: Mapping[str, Any]) -> str:
    """Hold an event against its declared shape, and return its kind."""
    shape = SHAPES[event["event"]]
    hints = get_type_hints(shape)
    assert set(event) == set(hints), event
    bad = [key for key, kind in hints.items() if wrong(event[key], kind)]
    assert not bad, (bad, event)
    return str(event["event"])


@pytest.fixture
def app() -> Iterator[App]:
    """An App whose handlers do everything that has an event."""
    sandbox: Sandbox = EmbeddedSandbox()
    tries: list[str] = []
    with App(store=MemoryStore(), sandbox=sandbox, backoff=0.0) as app:

        @app.capability("image.generate", effect="paid", price_usd="0.02")
        def image(prompt: str) -> str:
            if prompt == "flaky" and not tries:
                tries.append(prompt)
                raise CapabilityError("rate_limited", "later", retryable=True)
            if prompt == "lost":
                raise UnknownOutcome("the line went dead")
            if prompt == "greedy":
                raise CapabilityError("refused", "no", cost_usd="1")
            if prompt == "bad":
                raise CapabilityError("refused", "no")
            return prompt

        yield app
    sandbox.close()


def script(*lines: str) -> str:
    """Return a script of these lines."""
    return "async def orchestrate(ctx, args):\n" + "".join(f"    {line}\n" for line in lines)


def call(prompt: str) -> str:
    """Return a line that calls."""
    return f'await ctx.run("image.generate", {{"prompt": "{prompt}"}})'


def test_everything_that_is_told_is_declared(app: App) -> None:
    """Runs that do everything tell every declared event, in its shape, and no other."""
    seen: list[str] = []

    def watch(method: Any, *args: Any, **kwargs: Any) -> StepResult:
        told = list(app.events(method, *args, **kwargs))
        seen.extend(check(event) for event in told)
        result = told[-1]["result"]  # type: ignore[typeddict-item]
        assert isinstance(result, StepResult)
        return result

    watch(app.run, script('ctx.phase("draw")', 'ctx.log("first")', call("flaky")))
    failed = watch(app.run, script(call("a"), call("bad")))
    moved = script(call("b"), "if args == {}:", "    " + call("a"))
    watch(app.revise, failed.run, moved)
    again = watch(app.run, script(call("a"), call("bad")))
    watch(app.revise, again.run, script(call("a"), call("c"), call("a")), policy={"ledger": "warn"})
    watch(app.run, script(call("lost")))
    watch(app.run, script(call("greedy")))
    watch(app.run, script('await ctx.run("human.approve", {"question": "?"})'))
    grant = {"limits": [{"meter": "calls", "max": 0}], "worst_case": "at_run_time"}
    watch(app.run, script(call("a")), grant=grant)
    assert set(seen) == set(SHAPES)


def test_no_event_is_told_elsewhere() -> None:
    """Every kind of event that the source names is declared."""
    told: set[str] = set()
    for path in (ROOT / "src" / "addendum").rglob("*.py"):
        if path.parent.name in ("kernel", "broker") or path.name == "execute.py":
            told.update(re.findall(r'"event": "(\w+)"', path.read_text("utf-8")))
    assert told
    assert told <= set(SHAPES)


def page() -> dict[tuple[str, ...], str]:
    """Return the manual page's sections by the kinds of events in their headings."""
    text = (ROOT / "docs" / "reference" / "events.md").read_text("utf-8")
    sections = re.split(r"^### ", text, flags=re.MULTILINE)[1:]
    return {tuple(re.findall(r"`(\w+)`", section.partition("\n")[0])): section for section in sections}


def test_page_has_every_event() -> None:
    """The manual page has each event with its keys, and no other."""
    sections = page()
    assert {kind for kinds in sections for kind in kinds} == set(SHAPES)
    for kinds, section in sections.items():
        keys = set(re.findall(r"^\| `(\w+)` \|", section, flags=re.MULTILINE))
        for kind in kinds:
            assert keys == set(get_type_hints(SHAPES[kind])) - {"run", "event"}, kind
