"""What the kinds share that ask a language model: its keys in the services file, its price, and the question itself.

What comes from a script or a provider stands in a message of its own and between markers that it can't contain. It is
data all the same: an answer is held against its schema here, and whatever it says changes no policy of the run.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

from pydantic import Field

from addendum.authority.catalog import Capability
from addendum.authority.money import nano, usd
from addendum.canon import Json
from addendum.errors import CapabilityError, UnknownOutcome
from addendum.ports import Message, Model, ModelChoice, Picture, Prompt, Reply, Request
from addendum.providers import faults
from addendum.providers.service import KeyedSpec, Tools, offer

LETTERS: Final = 32
"""Characters of text that one token is at most, for the size that a result can have."""


class ModelSpec(KeyedSpec):
    """The keys of every kind that asks a language model."""

    model: str = Field(min_length=3, max_length=200, description="`provider:model`, or `scripted:FILE.json`.")
    url: str = Field(default="", max_length=2000, description="Another address that speaks the provider's protocol.")
    max_tokens: int = Field(default=4096, gt=0, le=200_000, description="The most tokens of an answer.")
    max_input: int = Field(
        default=100_000, gt=0, le=10_000_000, description="The most bytes of a prompt; an image counts as 10 000."
    )
    system: str = Field(default="", max_length=20_000, description="Instructions that stand before every prompt.")


def opened(spec: ModelSpec, tools: Tools) -> Model:
    """Open a specification's model. Raises `ConfigError`."""
    price = spec.most_usd or spec.price_usd
    return tools.model(
        ModelChoice(
            model=spec.model,
            url=spec.url,
            secret=spec.secret,
            max_tokens=spec.max_tokens,
            timeout=spec.timeout,
            price=None if price is None else nano(price),
            max_input=spec.max_input,
        )
    )


def terms(spec: ModelSpec, model: Model) -> dict[str, Any]:
    """Return what a capability of a model costs and is, for `service.offer`: where the price list knows the model, its
    most for `max_input` and `max_tokens`, which is also what counts when the provider reports no usage."""
    return {
        "price": model.most,
        "most": model.most,
        "most_tokens": model.most_tokens,
        "model": spec.model,
        "provider_key": spec.idempotency,
    }


@dataclass(frozen=True, slots=True)
class Asker:
    """Asks a model for one kind. `side_effecting` as its capability is; `backoff` is the pause before it asks again,
    in seconds."""

    spec: ModelSpec
    model: Model
    side_effecting: bool
    backoff: float

    async def ask(
        self,
        request: Request,
        messages: Sequence[Message],
        *,
        schema: Mapping[str, Json] | None = None,
        max_tokens: int | None = None,
        images: Sequence[Picture] = (),
    ) -> Reply:
        """Ask once, and return the answer with its usage. Raises `CapabilityError`, and `UnknownOutcome` where asking
        has effects; a lost answer of any other is a retryable `timeout` that cost the most that it may have."""
        prompt = Prompt(
            messages=tuple(self._framed(messages)),
            schema=schema or {},
            max_tokens=min(max_tokens or self.spec.max_tokens, self.spec.max_tokens),
            timeout=self.spec.seconds,
            images=tuple(images),
            key=request.key if self.spec.idempotency else "",
            once=self.side_effecting,
        )

        async def send() -> Reply:
            try:
                written = await self.model.write(prompt)
            except Exception as error:  # noqa: BLE001 - every library's errors become one of the five codes
                raise faults.fault(error, side_effecting=self.side_effecting, keyed=self.spec.idempotency) from None
            return Reply(written.value, written.usage)

        try:
            return await faults.resent(send, most=self.spec.resent, pause=self.backoff)
        except UnknownOutcome as lost:
            if self.side_effecting:
                raise
            # It may have been billed. What the broker holds is for the largest prompt; the most of this one counts.
            most = self.model.bound(prompt).cost or 0
            raise CapabilityError("timeout", str(lost), True, cost_usd=usd(most)) from None

    def _framed(self, messages: Sequence[Message]) -> list[Message]:
        system = [Message("system", self.spec.system)] if self.spec.system else []
        return [*system, *messages]


class ModelService:
    """A service with one capability, whose work is done by a model: what every kind of it is but for its `dispatch`. It
    keeps nothing between calls but the model's connections."""

    def __init__(
        self,
        name: str,
        spec: ModelSpec,
        tools: Tools,
        *,
        input: dict[str, Json],
        output: dict[str, Json],
        about: str,
        **more: Any,
    ) -> None:
        """Open the model, and offer the capability; `more` are further fields of it. Raises `ConfigError`."""
        self._model = opened(spec, tools)
        self._offered = offer(
            name, spec, effect="read", input=input, output=output, about=about, **terms(spec, self._model), **more
        )
        self._asker = Asker(spec, self._model, self._offered.side_effecting, tools.backoff)

    @property
    def capabilities(self) -> Sequence[Capability]:
        """The one capability."""
        return (self._offered,)

    async def lookup(self, capability: str, key: str) -> Reply | None:
        """Models remember nothing."""
        return None

    async def close(self) -> None:
        """Let go of the model's connections."""
        await self._model.close()


def quoted(request: Request, name: str, text: str) -> str:
    """Return a text between markers that it can't contain: they are made of a digest that covers it. The same request
    has the same ones, so that it can be sent again under its idempotency key."""
    mark = f"{name}-{request.key[:16]}"
    return f"<{mark}>\n{text}\n</{mark}>"


def payload(request: Request) -> dict[str, Any]:
    """Return a request's payload, which the broker held against the capability's schema: an object."""
    if not isinstance(request.payload, dict):
        raise CapabilityError("invalid_input", "the payload is no object")
    return request.payload
