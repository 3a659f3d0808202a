"""From a choice to a client: everything that can be wrong before a first request."""

from __future__ import annotations

import sys
from typing import Any

import pytest

pytest.importorskip("pydantic_ai")

from addendum.credentials import Secret
from addendum.errors import ConfigError
from addendum.models.hosted import HostedModel
from addendum.models.opening import KEYLESS, opened
from addendum.ports import Message, ModelChoice, Prompt, Usage

ASKED = Prompt(messages=(Message("user", "x"),))
KEY = Secret("openai", "sk-0123456789abcdef")


def choose(model: str, **more: Any) -> ModelChoice:
    """A choice."""
    return ModelChoice(model=model, **more)


@pytest.mark.parametrize(
    ("choice", "why"),
    [
        (choose("gpt-5-mini"), "names no model"),
        (choose("openai:"), "names no model"),
        (choose("nobody:gpt-5"), "no provider of models"),
        (choose("openai:gpt-5-mini", url="localhost:8080"), "no address"),
        (choose("openai:gpt-5-mini"), "needs a key"),
    ],
)
def test_a_wrong_choice_is_a_configuration_error(choice: ModelChoice, why: str) -> None:
    """With the way out."""
    with pytest.raises(ConfigError, match=why) as caught:
        opened(choice, None)
    assert caught.value.hint


def test_a_missing_package_of_a_provider_names_its_extra(monkeypatch: pytest.MonkeyPatch) -> None:
    """The provider's own package isn't part of ours."""
    monkeypatch.setitem(sys.modules, "anthropic", None)
    monkeypatch.delitem(sys.modules, "pydantic_ai.providers.anthropic", raising=False)
    with pytest.raises(ConfigError) as caught:
        opened(choose("anthropic:claude-sonnet-4-5"), KEY)
    assert caught.value.hint == "Run: pip install 'pydantic-ai-slim[anthropic]'"


def test_without_the_library_the_extra_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    """The base install has none."""
    monkeypatch.setitem(sys.modules, "pydantic_ai", None)
    with pytest.raises(ConfigError) as caught:
        opened(choose("openai:gpt-5-mini"), KEY)
    assert caught.value.hint == "Run: pip install 'addendum[models]'"


def test_the_environments_key_is_never_used(monkeypatch: pytest.MonkeyPatch) -> None:
    """Nothing would take it out of errors again."""
    monkeypatch.setenv("OPENAI_API_KEY", "sk-of-the-environment")
    for model in ("openai:local", "openai-responses:local"):
        client, _ = opened(choose(model, url="http://127.0.0.1:1/v1"), None)
        assert client.provider is not None
        assert client.provider.client.api_key == KEYLESS
    with pytest.raises(ConfigError, match="needs a key"):
        opened(choose("openai:gpt-5-mini"), None)


def test_openai_itself_is_asked_by_responses_and_a_compatible_server_by_chat() -> None:
    """Every compatible server speaks Chat Completions."""
    assert type(opened(choose("openai:gpt-5-mini"), KEY)[0]).__name__ == "OpenAIResponsesModel"
    assert type(opened(choose("openai:x", url="http://127.0.0.1:1/v1"), None)[0]).__name__ == "OpenAIChatModel"


def test_a_model_without_a_price_needs_one() -> None:
    """Otherwise nothing could be reserved for it."""
    url = "http://127.0.0.1:1/v1"
    with pytest.raises(ConfigError, match="Nobody knows what a call"):
        HostedModel(choose("openai:my-own", url=url))
    assert HostedModel(choose("openai:my-own", url=url, price=5)).most == 5


def test_the_most_follows_from_the_limits_where_the_list_has_the_model() -> None:
    """Twice the answer costs more."""
    small = HostedModel(choose("openai:gpt-5-mini", max_tokens=1000), KEY)
    large = HostedModel(choose("openai:gpt-5-mini", max_tokens=2000), KEY)
    assert 0 < small.most < large.most
    assert small.most_tokens == 100_000 + 2000 + 1000


def test_what_is_reserved_for_a_prompt_follows_from_its_size() -> None:
    """So that a small one fits into a small grant; every byte may be a token, and no prompt is over the most."""
    model = HostedModel(choose("openai:gpt-5-mini", max_tokens=1000), KEY)

    def bound(text: str, most: int = 1000) -> Usage:
        return model.bound(Prompt(messages=(Message("user", text),), max_tokens=most))

    small, large, over = bound("x"), bound("x" * 50_000), bound("x" * 500_000)
    assert small.cost is not None
    assert large.cost is not None
    assert small.cost < large.cost < model.most
    assert large.tokens - small.tokens == 49_999
    assert (over.cost, over.tokens) == (model.most, model.most_tokens)
    assert bound("x", 1).tokens == small.tokens - 999
    assert bound("\ud800").tokens <= small.tokens
    assert HostedModel(choose("openai:own", url="http://127.0.0.1:1/v1", price=5)).bound(ASKED).cost == 5


def test_a_price_of_ones_own_counts_at_an_address_of_ones_own() -> None:
    """Also for a model whose name the list has; at a provider's own address the list is right."""
    assert HostedModel(choose("openai:gpt-5-mini", url="http://127.0.0.1:1/v1", price=5)).most == 5
    assert HostedModel(choose("openai:gpt-5-mini", url="https://api.openai.com/v1", price=5), KEY).most > 5
