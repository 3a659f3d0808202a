"""Answers of models that are larger than any answer is, against a real server and a real client."""

from __future__ import annotations

import asyncio
import gzip
import json
from collections.abc import Iterator

import pytest

pytest.importorskip("pydantic_ai")

from tests.webserver import Give, WebServer

from addendum.credentials import Secret
from addendum.errors import CapabilityError
from addendum.models import bounding
from addendum.models.hosted import HostedModel
from addendum.ports import Message, ModelChoice, Prompt
from addendum.testing.openai_answers import answered

MOST = 10_000
CHAT = "/v1/chat/completions"


@pytest.fixture
def web() -> Iterator[WebServer]:
    """A server that answers what it is told."""
    with WebServer() as found:
        yield found


@pytest.fixture(autouse=True)
def little(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let the limit be small."""
    monkeypatch.setattr(bounding.bound, "__defaults__", (MOST,))


def write(web: WebServer) -> object:
    """Ask once, and once more with the same client."""
    choice = ModelChoice(model="openai:local", url=web.url + "/v1", price=7_000_000)
    model = HostedModel(choice, Secret("openai", "sk-canary-0123456789"))
    prompt = Prompt(messages=(Message("user", "do it"),))

    async def ask() -> object:
        try:
            await model.write(prompt)
            return (await model.write(prompt)).value
        finally:
            await model.close()

    return asyncio.run(ask())


def said(text: str) -> bytes:
    """Return an answer's bytes."""
    return json.dumps(answered(text, {"model": "local"}, 1, chat=True)).encode()


def test_an_answer_within_the_limit_is_whole(web: WebServer) -> None:
    """Up to its last byte, and again."""
    text = "x" * (2 * MOST - len(said("x" * MOST)))
    assert len(said(text)) == MOST
    web.answers[CHAT] = Give(said(text))
    assert write(web) == text
    assert {got.headers["accept-encoding"] for got in web.got} == {"identity"}


@pytest.mark.parametrize("packed", [False, True])
def test_an_answer_over_the_limit_is_none(web: WebServer, packed: bool) -> None:
    """Neither read to its end nor unpacked; it is paid for, as it came."""
    data = said("x" * 100 * MOST)
    web.answers[CHAT] = Give(gzip.compress(data), headers={"Content-Encoding": "gzip"}) if packed else Give(data)
    with pytest.raises(CapabilityError, match="JSON") as caught:
        write(web)
    assert (caught.value.code, caught.value.cost_usd) == ("provider_error", "0.007")
