"""What every `Model` promises: the scripted one, and pydantic-ai at a server that speaks both of OpenAI's protocols."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

import pytest

from addendum.authority.money import nano
from addendum.errors import CapabilityError, UnknownOutcome
from addendum.ports import Message, Model, Prompt
from addendum.testing import ScriptedModel

MAX_INPUT = 5000
SCHEMA: dict[str, Any] = {
    "type": "object",
    "properties": {"script": {"type": "string"}, "moves": {"type": "array", "items": {"type": "string"}}},
    "required": ["script", "moves"],
    "additionalProperties": False,
}


@dataclass(frozen=True)
class Bench:
    """A model, and what prepares its next answer: a value, or a failure by name."""

    model: Model
    say: Callable[[Any], None]
    fail: Callable[[str], None]
    asked: Callable[[], int]


def scripted() -> Iterator[Bench]:
    """The double."""
    queue: list[Any] = []
    model = ScriptedModel(lambda prompt: queue.pop(0), cost=1000, tokens=12, max_input=MAX_INPUT)
    failures: dict[str, BaseException] = {
        "rate": CapabilityError("rate_limited", "slow down", True, retry_after=7.0),
        "lost": UnknownOutcome("the connection broke"),
        "bad": CapabilityError("invalid_input", "no such parameter"),
        "down": CapabilityError("provider_error", "overloaded", True),
    }
    yield Bench(model, queue.append, lambda name: queue.append(failures[name]), lambda: len(model.prompts))


def hosted(kind: str) -> Iterator[Bench]:
    """The real client, over HTTP."""
    pytest.importorskip("pydantic_ai")
    from addendum.credentials import Secret
    from addendum.models.hosted import HostedModel
    from addendum.ports import ModelChoice
    from addendum.testing.openai_server import Fault, OpenAIServer

    faults: dict[str, dict[str, Any]] = {
        "rate": {"status": 429, "retry_after": 7},
        "lost": {"cut": True},
        "bad": {"status": 400},
        "down": {"status": 503},
    }
    with OpenAIServer() as server:
        choice = ModelChoice(
            model=f"{kind}:gpt-5-mini", url=server.url, secret="openai", max_input=MAX_INPUT, timeout=10.0
        )
        yield Bench(
            HostedModel(choice, Secret("openai", server.key)),
            server.answers.append,
            lambda name: server.faults.append(Fault(**faults[name])),
            lambda: len(server.requests),
        )


@pytest.fixture(params=["scripted", "openai", "openai-responses"])
def bench(request: pytest.FixtureRequest) -> Iterator[Bench]:
    """Each model in turn."""
    yield from scripted() if request.param == "scripted" else hosted(request.param)


def prompt(text: str = "Write it.", schema: dict[str, Any] | None = None) -> Prompt:
    """A prompt with a system part."""
    messages = (Message("system", "You write scripts."), Message("user", text))
    return Prompt(messages=messages, schema=schema or {}, max_tokens=1000, timeout=10.0)


def written(bench: Bench, *prompts: Prompt) -> list[Any]:
    """Ask one after the other, on one loop; failures are in their places."""

    async def ask() -> list[Any]:
        found: list[Any] = []
        for each in prompts:
            try:
                found.append(await bench.model.write(each))
            except (CapabilityError, UnknownOutcome) as error:
                found.append(error)
        await bench.model.close()
        return found

    return asyncio.run(ask())


def test_a_prompt_without_a_schema_is_answered_by_a_text(bench: Bench) -> None:
    """The text as it is, and who wrote it."""
    bench.say("Once upon a time")
    (found,) = written(bench, prompt())
    assert found.value == "Once upon a time"
    assert found.model


def test_a_prompt_with_a_schema_is_answered_by_a_value_that_fits_it(bench: Bench) -> None:
    """Parsed, whichever way the model was asked for it."""
    bench.say({"script": "x = 1", "moves": ["a", "b"]})
    (found,) = written(bench, prompt(schema=SCHEMA))
    assert found.value == {"script": "x = 1", "moves": ["a", "b"]}


def test_an_answer_has_a_cost_within_what_is_reserved(bench: Bench) -> None:
    """Its tokens too; and what is reserved for a prompt is within what is reserved for any."""
    bench.say("Once upon a time")
    bound = bench.model.bound(prompt())
    (found,) = written(bench, prompt())
    assert bound.cost is not None
    assert 0 < found.usage.cost <= bound.cost <= bench.model.most
    assert bench.model.most_tokens is None or 0 < found.usage.tokens <= bound.tokens <= bench.model.most_tokens


def test_an_answer_that_does_not_fit_is_a_failure_that_was_paid_for(bench: Bench) -> None:
    """It is certain, and not tried again by itself."""
    bench.say({"script": 3})
    (error,) = written(bench, prompt(schema=SCHEMA))
    assert isinstance(error, CapabilityError)
    assert (error.code, error.retryable) == ("provider_error", False)
    assert 0 < nano(error.cost_usd) <= bench.model.most


def test_a_rate_limit_passes_the_pause_on(bench: Bench) -> None:
    """The caller waits and tries again; the model doesn't by itself."""
    bench.fail("rate")
    bench.say("later")
    error, found = written(bench, prompt(), prompt())
    assert (error.code, error.retryable, error.retry_after) == ("rate_limited", True, 7.0)
    assert found.value == "later"
    assert bench.asked() == 2


def test_a_lost_connection_is_an_unknown_outcome(bench: Bench) -> None:
    """Whether it was written, and billed, nobody knows."""
    bench.fail("lost")
    assert isinstance(written(bench, prompt())[0], UnknownOutcome)


@pytest.mark.parametrize(
    ("name", "code", "retryable"), [("bad", "invalid_input", False), ("down", "provider_error", True)]
)
def test_a_failure_has_one_of_the_codes(bench: Bench, name: str, code: str, retryable: bool) -> None:
    """And says whether it may pass."""
    bench.fail(name)
    (error,) = written(bench, prompt())
    assert (error.code, error.retryable) == (code, retryable)


def test_a_prompt_that_is_too_large_is_not_sent(bench: Bench) -> None:
    """Otherwise it could cost more than was reserved for it."""
    (error,) = written(bench, prompt("x" * (MAX_INPUT + 1)))
    assert error.code == "invalid_input"
    assert error.cost_usd == 0


def test_it_can_be_used_from_several_loops_and_closed_twice(bench: Bench) -> None:
    """Each command has a loop of its own."""
    bench.say("one")
    bench.say("two")
    assert [written(bench, prompt())[0].value for _ in range(2)] == ["one", "two"]

    async def close() -> None:
        await bench.model.close()
        await bench.model.close()

    asyncio.run(close())


def test_it_takes_several_prompts_at_once(bench: Bench) -> None:
    """Services ask from a fan-out."""
    for _ in range(3):
        bench.say("same")

    async def ask() -> list[Any]:
        found = await asyncio.gather(*(bench.model.write(prompt(f"{n}")) for n in range(3)))
        await bench.model.close()
        return list(found)

    assert [each.value for each in asyncio.run(ask())] == ["same"] * 3
