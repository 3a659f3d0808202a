"""A model that is asked over the network, by pydantic-ai."""

from __future__ import annotations

import asyncio
import json
from typing import TYPE_CHECKING, Any, Final
from urllib.parse import urlsplit

from addendum.authority.money import usd
from addendum.canon import Json
from addendum.credentials import Secret, spellings
from addendum.errors import CapabilityError, ConfigError, UnknownOutcome
from addendum.models import answers, pricing
from addendum.models.bounding import bound
from addendum.models.opening import opened
from addendum.ports import ModelChoice, Prompt, Usage, Written

if TYPE_CHECKING:
    from pydantic_ai.messages import ModelMessage, ModelResponse
    from pydantic_ai.models import Model as Client

PICTURE: Final = 10_000
"""Tokens that an image counts for: more than any provider makes of one by itself."""
ANSWER: Final = "answer"


class HostedModel:
    """The `Model` port over pydantic-ai.

    One request a `write`: no retries of the client's own, since each try is money that the caller accounts for. A
    prompt over `max_input` is refused before it is sent, so that `most` holds: a token has at least one byte. Clients
    belong to the event loop that used them; on another loop a new one is made.

    Raises `ConfigError` when it is made: see `opening.opened`; and when nobody knows what a call may cost.
    """

    def __init__(self, choice: ModelChoice, secret: Secret | None = None) -> None:
        self.name = choice.model
        self._choice = choice
        client, self._make = opened(choice, secret)
        self._spare: Client | None = client
        self._pattern = None if secret is None else spellings(secret.reveal())
        self._hidden = "" if secret is None else f"[secret {secret.handle}]"
        self._held: tuple[asyncio.AbstractEventLoop, Client] | None = None
        self._prices = _prices(choice, client)
        bound = choice.max_input + pricing.FRAMING
        self.most_tokens: int | None = bound + choice.max_tokens
        if self._prices is not None:
            self.most: int = self._prices.most(bound, choice.max_tokens)
        else:
            assert choice.price is not None
            self.most = choice.price

    def bound(self, prompt: Prompt) -> Usage:
        """Return the most that asking this may cost and use: every byte of it a token, and the longest answer."""
        try:
            given = min(size(prompt), self._choice.max_input) + pricing.FRAMING
        except UnicodeEncodeError:  # it won't be sent
            given = pricing.FRAMING
        written = min(prompt.max_tokens, self._choice.max_tokens)
        cost = self.most if self._prices is None else self._prices.most(given, written)
        return Usage(cost, given + written)

    async def write(self, prompt: Prompt) -> Written:
        """Ask it once. Raises `CapabilityError` and `UnknownOutcome` as a provider does; a failure of which the
        provider reported a usage says what it cost."""
        from pydantic_ai.direct import model_request
        from pydantic_ai.exceptions import AgentRunError, UserError

        from addendum.models import faults

        try:
            large = size(prompt) > self._choice.max_input
        except UnicodeEncodeError:
            raise CapabilityError("invalid_input", "the prompt has letters that are none (lone surrogates)") from None
        if large:
            raise CapabilityError(
                "invalid_input",
                f"the prompt is larger than the {self._choice.max_input} bytes that this model is given",
            )
        form = answers.form(prompt.schema) if prompt.schema else {}
        client = await self._client()
        try:
            response = await model_request(
                client,
                _messages(prompt),
                model_settings=self._settings(prompt, client),
                model_request_parameters=_parameters(form),
                instrument=False,
            )
        except (AgentRunError, UserError) as error:
            server = urlsplit(self._choice.url or _address(client)).netloc.rpartition("@")[2]
            found = faults.outcome(error, self._clean, once=prompt.once, keyed=bool(prompt.key), server=server)
            if isinstance(found, CapabilityError) and faults.answered(error):
                found = self._failed(found.code, found.message, Usage())
            raise found from None
        except Exception as error:  # noqa: BLE001 - a client library's own: nobody knows how far the request came
            raise UnknownOutcome(faults.said(error, self._clean)) from None
        return self._written(prompt, response)

    async def close(self) -> None:
        """Let go of connections. Can be called twice; a later `write` opens new ones."""
        held, self._held = self._held, None
        if held is not None and held[0] is asyncio.get_running_loop():
            await held[1].__aexit__(None, None, None)

    # --- one request -------------------------------------------------------------------------------------------

    async def _client(self) -> Client:
        loop = asyncio.get_running_loop()
        if self._held is None or self._held[0] is not loop:
            client, self._spare = self._spare or self._make(), None
            self._held = loop, client
            await client.__aenter__()
            bound(client)
        return self._held[1]

    def _settings(self, prompt: Prompt, client: Client) -> Any:
        seconds = min(prompt.timeout, self._choice.timeout)
        found: dict[str, Any] = {
            "max_tokens": min(prompt.max_tokens, self._choice.max_tokens),
            "timeout": seconds,
            "max_retries": 0,
        }
        if prompt.key:
            found["extra_headers"] = {"Idempotency-Key": prompt.key}
        found = {name: value for name, value in found.items() if name not in client.unsupported_settings}
        return found | {"request_timeout": seconds}

    def _written(self, prompt: Prompt, response: ModelResponse) -> Written:
        from pydantic_ai.messages import TextPart, ToolCallPart

        usage = self._usage(response)
        model = response.model_name or self.name
        if response.finish_reason == "content_filter":
            raise self._failed("refused", "the provider's filter stopped the answer", usage)
        calls = [part for part in response.parts if isinstance(part, ToolCallPart) and part.tool_name == ANSWER]
        said: Any = "".join(part.content for part in response.parts if isinstance(part, TextPart))
        if calls:
            said = calls[0].args if calls[0].args is not None else {}
        if response.finish_reason == "length" and (prompt.schema or not said):
            raise self._failed("provider_error", "the answer was cut at the most tokens that it may have", usage)
        try:
            return Written(answers.taken(said, prompt.schema), usage, model)
        except ValueError as error:
            raise self._failed("provider_error", str(error), usage) from None

    def _usage(self, response: ModelResponse) -> Usage:
        found = response.usage
        if found.unmeasured_requests or found.total_tokens <= 0:
            # No answer takes no tokens: one that says so, or says what nobody can read, says nothing.
            return Usage()
        cost = None if self._prices is None else self._prices.cost(found)
        return Usage(cost, max(0, found.total_tokens))

    def _failed(self, code: str, message: str, usage: Usage) -> CapabilityError:
        cost = self.most if usage.cost is None else usage.cost
        return CapabilityError(code, self._clean(message), cost_usd=usd(cost))

    def _clean(self, text: str) -> str:
        return text if self._pattern is None else self._pattern.sub(self._hidden, text)


def size(prompt: Prompt) -> int:
    """Return a prompt's size in bytes of UTF-8, its schema and images counted. Raises `UnicodeEncodeError`."""
    texts = sum(len(message.text.encode("utf-8")) for message in prompt.messages)
    return texts + len(json.dumps(prompt.schema)) + PICTURE * len(prompt.images)


def _prices(choice: ModelChoice, client: Client) -> pricing.Prices | None:
    """Prices of the list, unless the address is none that it knows and the choice says what a call costs there."""
    if choice.url and choice.price is not None and not pricing.known(choice.url):
        return None
    found = pricing.listed(client.model_name, client.system, choice.url or _address(client))
    if found is None and choice.price is None:
        raise ConfigError(
            f"Nobody knows what a call of {choice.model} costs, so nothing could be reserved for it.",
            hint='Say the most that one may cost: price_usd = "0.05".',
        )
    return found


def _address(client: Client) -> str:
    from pydantic_ai.exceptions import UserError

    try:
        return client.base_url or ""
    except (AttributeError, UserError):  # some have none
        return ""


def _messages(prompt: Prompt) -> list[ModelMessage]:
    from pydantic_ai.messages import (
        BinaryContent,
        ModelRequest,
        ModelResponse,
        SystemPromptPart,
        TextPart,
        UserPromptPart,
    )

    found: list[ModelMessage] = []
    last = len(prompt.messages) - 1
    for index, message in enumerate(prompt.messages):
        if message.role == "assistant":
            found.append(ModelResponse(parts=[TextPart(message.text)]))
            continue
        part: Any
        if message.role == "system":
            part = SystemPromptPart(message.text)
        elif index == last and prompt.images:
            images = [BinaryContent(image.data, media_type=image.media_type) for image in prompt.images]
            part = UserPromptPart([message.text, *images])
        else:
            part = UserPromptPart(message.text)
        if found and isinstance(found[-1], ModelRequest):
            found[-1] = ModelRequest(parts=[*found[-1].parts, part])
        else:
            found.append(ModelRequest(parts=[part]))
    return found


def _parameters(form: dict[str, Json]) -> Any:
    """A text, or an answer in the way that suits the model best: by a tool, or by a JSON mode of its own."""
    from pydantic_ai.models import ModelRequestParameters
    from pydantic_ai.output import OutputObjectDefinition
    from pydantic_ai.tools import ToolDefinition

    if not form:
        return ModelRequestParameters()
    return ModelRequestParameters(
        output_mode="auto",
        output_object=OutputObjectDefinition(json_schema=form, name=ANSWER),
        output_tools=[ToolDefinition(name=ANSWER, parameters_json_schema=form, kind="output")],
        allow_text_output=False,
    )
