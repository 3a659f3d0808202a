"""What type checkers have to see of the public API. Nobody runs this file: mypy and pyright read it."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Generator
from pathlib import Path
from typing import assert_type

from addendum import App, CapabilityError, Catalog, Event, Planned, Provider, Reply, Request, StepResult, reply
from addendum.testing import DEMO_CATALOG, DemoProvider, ManualClock, MemoryStore, ScriptedProvider

app = App(store=MemoryStore(), clock=ManualClock(), provider=DemoProvider(), catalog=DEMO_CATALOG)
assert_type(app.catalog, Catalog)
scripted: Provider = ScriptedProvider({"work.do": [{"a": [1]}, CapabilityError("refused"), Reply(1), lambda r: r.key]})


@app.capability("image.generate", effect="paid", price_usd="0.02")
def image(prompt: str, request: Request) -> dict[str, str]:
    """Keep the signature."""
    return {"url": prompt + request.key}


@app.capability("text.generate", effect="read", lookup=lambda key: None)
async def text(prompt: str) -> Reply:
    """Keep the signature of a coroutine function."""
    return reply({"text": prompt}, cost_usd="0.0031", tokens=812)


def kept(request: Request) -> None:
    """Decorated functions are what they were."""
    assert_type(image("a", request), dict[str, str])


app.capability("bad", effect="write")  # type: ignore[arg-type] # pyright: ignore[reportArgumentType]


def blocking() -> None:
    """Methods that block."""
    result = app.run("source", {"brief": "x", "shots": [1, 2]}, grant="grant.toml")
    assert_type(result, StepResult)
    assert_type(result.cost_usd, str)
    plan = app.plan(result.run, Path("better.py"), drops=["orchestrate/x#0"])
    assert_type(plan, Planned)
    assert_type(app.revise(result.run, supersede="changed", at=plan), StepResult)
    events = app.events(app.run, "source", {"brief": "x"}, name="n")
    assert_type(events, Generator[Event, None, None])
    for event in events:
        if event["event"] == "settled":
            assert_type(event["cost"], int)
        elif event["event"] == "result":
            assert_type(event["result"], StepResult)
    app.events(app.run)  # type: ignore[call-arg] # pyright: ignore[reportCallIssue]
    app.run("source", args=object())  # type: ignore[arg-type] # pyright: ignore[reportArgumentType]


async def awaiting() -> None:
    """The same ones to await."""
    result = await app.aio.run("source", {"brief": "x"}, name="n")
    assert_type(result, StepResult)
    assert_type(await app.aio.plan(result.run), Planned)
    assert_type(app.aio.events(app.resume, result.run), AsyncGenerator[Event, None])
    await app.aio.run("source", nmae="n")  # type: ignore[call-arg] # pyright: ignore[reportCallIssue]


asyncio.run(awaiting())
