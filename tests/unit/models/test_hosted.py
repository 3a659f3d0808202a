"""What a hosted model sends, and what it makes of the answers."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from typing import Any

import pytest

pytest.importorskip("pydantic_ai")

from addendum.credentials import Secret
from addendum.errors import CapabilityError, UnknownOutcome
from addendum.models.hosted import HostedModel
from addendum.ports import Message, ModelChoice, Picture, Prompt, Written
from addendum.testing.openai_answers import picture
from addendum.testing.openai_server import Fault, OpenAIServer

PROMPT = Prompt(messages=(Message("system", "rules"), Message("user", "do it")))


@pytest.fixture
def server() -> Iterator[OpenAIServer]:
    """A server with a key that a test can look for."""
    with OpenAIServer(key="sk-canary-0123456789") as opened:
        yield opened


def write(server: OpenAIServer, prompt: Prompt = PROMPT, **more: Any) -> Written:
    """Ask once."""
    chosen = {"model": "openai:gpt-5-mini", "url": server.url, "timeout": 10.0, **more}
    model = HostedModel(ModelChoice(**chosen), Secret("openai", server.key))

    async def ask() -> Written:
        try:
            return await model.write(prompt)
        finally:
            await model.close()

    return asyncio.run(ask())


def test_the_usage_is_what_the_provider_reports_at_the_lists_price(server: OpenAIServer) -> None:
    """In nano-dollars."""
    server.tokens = (1000, 10)
    found = write(server)
    assert (found.usage.cost, found.usage.tokens, found.model) == (270_000, 1010, "gpt-5-mini")


def test_without_a_listed_price_the_cost_is_not_known(server: OpenAIServer) -> None:
    """The reserved price counts."""
    assert write(server, model="openai:my-own", price=7).usage.cost is None


def test_the_limit_of_tokens_and_the_key_are_sent(server: OpenAIServer) -> None:
    """The smaller limit of the two, and one request: the client doesn't retry."""
    write(server, Prompt(messages=PROMPT.messages, max_tokens=50, key="idem-1"))
    sent = server.requests[0]
    assert sent.body["max_completion_tokens"] == 50
    assert sent.headers["idempotency-key"] == "idem-1"
    assert [message["role"] for message in sent.body["messages"]] == ["system", "user"]
    server.faults.append(Fault(status=500))
    with pytest.raises(CapabilityError):
        write(server, Prompt(messages=PROMPT.messages, max_tokens=9000), max_tokens=70)
    assert server.requests[1].body["max_completion_tokens"] == 70
    assert len(server.requests) == 2


def test_a_conversation_keeps_its_order(server: OpenAIServer) -> None:
    """What the model said before is its own."""
    turns = (Message("user", "a"), Message("assistant", "b"), Message("user", "c"))
    write(server, Prompt(messages=turns))
    assert [(m["role"], m["content"]) for m in server.requests[0].body["messages"]] == [
        ("user", "a"),
        ("assistant", "b"),
        ("user", "c"),
    ]


def test_images_are_shown_with_the_last_message(server: OpenAIServer) -> None:
    """As data, never as an address."""
    write(server, Prompt(messages=PROMPT.messages, images=(Picture(picture("x"), "image/png"),)))
    text, image = server.requests[0].body["messages"][-1]["content"]
    assert text["text"] == "do it"
    assert image["image_url"]["url"].startswith("data:image/png;base64,")


def test_images_count_towards_the_size_of_a_prompt(server: OpenAIServer) -> None:
    """They are tokens too."""
    images = (Picture(picture("x"), "image/png"),) * 2
    with pytest.raises(CapabilityError, match="larger than"):
        write(server, Prompt(messages=PROMPT.messages, images=images), max_input=15_000)
    assert server.requests == []


def test_an_answer_that_was_cut_is_a_failure_with_its_cost(server: OpenAIServer) -> None:
    """Half a script is none; half a text is one."""
    server.answer = "x" * 100
    assert write(server, Prompt(messages=PROMPT.messages, max_tokens=3)).value == "x" * 12
    with pytest.raises(CapabilityError, match="was cut") as caught:
        write(server, Prompt(messages=PROMPT.messages, max_tokens=3, schema={"type": "object"}))
    assert caught.value.cost_usd != "0.00"


@pytest.mark.slow
def test_a_late_answer_is_an_unknown_outcome(server: OpenAIServer) -> None:
    """The request was sent."""
    server.faults.append(Fault(slow=600))
    with pytest.raises(UnknownOutcome):
        write(server, Prompt(messages=PROMPT.messages, timeout=1.0))  # enough to connect, on a busy machine too


def test_a_server_that_is_not_there_is_certain() -> None:
    """Nothing was sent."""
    server = OpenAIServer()
    server.close()
    with pytest.raises(CapabilityError, match=r"nothing was sent to 127\.0\.0\.1:\d+: ") as caught:
        write(server)
    assert caught.value.retryable


@pytest.mark.parametrize("status", [400, 401, 429, 500, 503])
def test_a_service_that_repeats_the_key_does_not_put_it_into_an_error(server: OpenAIServer, status: int) -> None:
    """Nor into the exception's chain."""
    server.faults.append(Fault(status=status, echo=True))
    with pytest.raises(CapabilityError) as caught:
        write(server)
    assert server.key not in repr(caught.value)
    assert "[secret openai]" in caught.value.message
    assert caught.value.__cause__ is None
    assert caught.value.__suppress_context__


def test_a_list_is_answered_as_a_list(server: OpenAIServer) -> None:
    """It was wrapped for the provider."""
    server.answer = {"value": ["a", "b"]}
    schema: dict[str, Any] = {"type": "array", "items": {"type": "string"}}
    assert write(server, Prompt(messages=PROMPT.messages, schema=schema)).value == ["a", "b"]


def test_an_answer_that_is_no_protocol_is_a_failure(server: OpenAIServer) -> None:
    """It was answered, so it is certain."""
    server.faults.append(Fault(status=200, body="<html>hello</html>"))
    with pytest.raises(CapabilityError, match="provider_error"):
        write(server)


def test_a_text_that_utf8_cannot_say_is_not_sent(server: OpenAIServer) -> None:
    """A lone surrogate may come from a script."""
    with pytest.raises(CapabilityError, match="invalid_input"):
        write(server, Prompt(messages=(Message("user", "\ud800"),)))
    assert server.requests == []


@pytest.mark.parametrize(
    "body",
    [
        {"choices": None},
        {"usage": {"prompt_tokens": 5.5, "completion_tokens": 5, "total_tokens": 1}},
        "<html>a portal</html>",
        "[1]",
    ],
    ids=str,
)
def test_an_answer_that_no_client_can_read_is_paid_for(server: OpenAIServer, body: Any) -> None:
    """It came with a status of success: the most that it may have cost counts, not nothing."""
    whole = {"id": "a", "object": "chat.completion", "created": 1, "model": "m", "choices": []}
    said = {**whole, **body} if isinstance(body, dict) else body
    server.faults.append(Fault(status=200, body=said, headers={"content-type": "application/json"}))
    with pytest.raises(CapabilityError) as caught:
        write(server, model="openai-chat:my-own", price=7_000_000)
    assert (caught.value.code, caught.value.cost_usd) == ("provider_error", "0.007")


@pytest.mark.filterwarnings("ignore:Failed to extract usage")
@pytest.mark.parametrize("tokens", [(-5, -7), (0, 0), (-10, 5)], ids=str)
def test_a_usage_that_cannot_be_is_none(server: OpenAIServer, tokens: tuple[int, int]) -> None:
    """A model that says that it took nothing doesn't get its answers for nothing: the most counts."""
    server.tokens = tokens
    assert write(server).usage.cost is None
