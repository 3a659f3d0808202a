"""The kind `image`: one image for a prompt, from any service that speaks OpenAI's images API.

    [capability."image.generate"]
    kind = "image"
    model = "gpt-image-1"
    secret = "openai"
    price_usd = "0.04"
    sizes = {"1K" = "1024x1024"}

`{"prompt": "…", "size": "1K"}` gives `{"artifact": "sha256:…", "media_type": "image/png", "bytes": …, "width": …,
"height": …}`, and `url` where the service named one. The bytes are in the artifact store before the result is: an
address that expires is fetched at once. What isn't an image by its own bytes is a failure.

An image costs money and no two are equal, so the effect class is `paid`: an answer that got lost is never asked for
again by itself, unless the service honours an idempotency key (`idempotency = true`), with the same key.
"""

from __future__ import annotations

import asyncio
import json
import time
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, Final, Literal
from urllib.parse import parse_qsl, urlsplit

from pydantic import Field, field_validator

from addendum import media
from addendum.authority.catalog import Capability
from addendum.authority.money import nano, usd
from addendum.canon import Json
from addendum.errors import CapabilityError, ConfigError, StoreError, UnknownOutcome
from addendum.ports import Reply, Request, Usage
from addendum.providers import asking, download, faults, urls
from addendum.providers.download import Downloads, NotFetched
from addendum.providers.service import MARGIN, KeyedSpec, Service, Tools, extra, offer

if TYPE_CHECKING:
    from openai import AsyncOpenAI

OPENAI: Final = "https://api.openai.com/v1"
ENVELOPE: Final = 64 * 1024
"""Bytes of an answer beside the image."""
URL: Final = 4096
MOST_COST: Final = 1_000_000
"""US dollars: a report above this is taken for a mistake in the unit."""
REVISED: Final = 4000
"""Characters of the prompt that a service says it used instead."""
OWN: Final = frozenset({"prompt", "model", "n", "stream", "partial_images", "size", "seed", "response_format"})
"""Fields of the request that `extra` can't set."""
OUTPUT: Final[dict[str, Json]] = {
    "type": "object",
    "properties": {
        "artifact": {"type": "string", "pattern": "^sha256:[0-9a-f]{64}$", "maxLength": 71},
        "media_type": {"enum": list(media.IMAGES)},
        "bytes": {"type": "integer", "minimum": 1},
        "width": {"type": "integer", "minimum": 1},
        "height": {"type": "integer", "minimum": 1},
        "url": {"type": "string", "maxLength": URL},
        "revised_prompt": {"type": "string", "maxLength": REVISED},
    },
    "required": ["artifact", "media_type", "bytes"],
    "additionalProperties": False,
}


class Spec(KeyedSpec):
    """What the services file says of an image service."""

    kind: Literal["image"] = Field(description="`image`.")
    model: str = Field(min_length=1, max_length=200, description="The model's name, as the service knows it.")
    url: str = Field(default=OPENAI, max_length=2000, description="The address before `/images/generations`.")
    key_header: str = Field(
        default="Authorization",
        pattern=r"^[A-Za-z0-9-]{1,100}$",
        description="The header of the key: `Bearer KEY` in Authorization, the bare key in any other (`api-key`).",
    )
    sizes: dict[str, str] = Field(
        default={"1K": "1024x1024", "landscape": "1536x1024", "portrait": "1024x1536"},
        max_length=50,
        description="The sizes that a script can name, and what the service calls them; the first if it names none.",
    )
    quality: str = Field(default="", max_length=50, description="Sent as `quality` if it isn't empty.")
    response_format: Literal["", "b64_json", "url"] = Field(
        default="", description="Sent as `response_format` if it isn't empty; some models refuse it."
    )
    extra: dict[str, str | int | float | bool] = Field(
        default={}, max_length=20, description="Further fields of the request, as the service knows them."
    )
    seed: bool = Field(default=False, description="A script may give a `seed`, which is sent.")
    max_prompt: int = Field(default=4000, gt=0, le=100_000, description="The most characters of a prompt.")
    max_bytes: int = Field(default=32 * 1024 * 1024, gt=0, le=512 * 1024 * 1024, description="The largest image.")
    hosts: list[str] = Field(
        default=[],
        max_length=50,
        description="Hosts in a private network that an image's address may name; the service's own is one.",
    )

    @field_validator("extra")
    @classmethod
    def _own(cls, extra: dict[str, str | int | float | bool]) -> dict[str, str | int | float | bool]:
        if taken := sorted(OWN & set(extra)):
            raise ValueError(f"{taken[0]} isn't set here: one image for one call")
        return extra

    @property
    def bearer(self) -> bool:
        """Whether the key is sent as `Authorization: Bearer KEY`."""
        return bool(self.secret) and self.key_header.lower() == "authorization"


class Images:
    """The service. Its client lives as long as it, on the loop that calls come in on."""

    def __init__(self, name: str, spec: Spec, tools: Tools) -> None:
        self._openai = extra("openai", "models", "image")
        self._spec = spec
        self._tools = tools
        if spec.price_usd is None and spec.most_usd is None:
            raise ConfigError(
                f"Nobody knows what an image of {name} costs, so nothing could be reserved for it.",
                hint='Say it: price_usd = "0.04", or the most of one as most_usd, where its report says what it cost.',
            )
        self._offered = offer(
            name,
            spec,
            effect="paid",
            input=_input(spec),
            output=OUTPUT,
            about="Make an image.",
            price=nano(spec.price_usd or spec.most_usd),
            model=spec.model,
            provider_key=spec.idempotency,
            max_payload=6 * spec.max_prompt + ENVELOPE,
        )
        self._downloads = Downloads(
            hosts=frozenset({_host(name, spec.url), *(host.lower() for host in spec.hosts)}),
            plain=urlsplit(spec.url).scheme == "http",
            most=spec.max_bytes,
            pause=tools.backoff,
        )
        self._client: AsyncOpenAI | None = None

    @property
    def capabilities(self) -> Sequence[Capability]:
        """The one capability."""
        return (self._offered,)

    async def dispatch(self, request: Request) -> Reply:
        """Make one image, and keep it. Raises `CapabilityError` and `UnknownOutcome`."""
        given = asking.payload(request)
        until = time.monotonic() + MARGIN * self._spec.timeout
        try:
            await asyncio.to_thread(self._tools.artifacts.ready, self._spec.max_bytes)
        except StoreError as error:
            raise CapabilityError("provider_error", f"nothing was sent: {error}") from None

        async def send() -> Any:
            return await self._sent(given, request.key)

        answer = await faults.resent(send, most=self._spec.resent, pause=self._tools.backoff)
        usage = self._usage(answer)
        try:
            return Reply(await self._kept(answer, until), usage)
        except Exception as error:  # noqa: BLE001 - whatever is wrong with what came: it was made, and is paid for
            known = isinstance(error, NotFetched | StoreError)
            why = str(error) if known else f"its answer is odd ({type(error).__name__})"
            cost = self._offered.price if usage.cost is None else usage.cost
            raise CapabilityError(
                "provider_error", f"the image was made, and can't be kept: {why}", cost_usd=usd(cost)
            ) from None

    async def lookup(self, capability: str, key: str) -> Reply | None:
        """The API has no way to ask for an earlier image."""
        return None

    async def close(self) -> None:
        """Let go of connections."""
        if self._client is not None:
            await self._client.close()
            self._client = None

    # --- the request -------------------------------------------------------------------------------------------

    async def _sent(self, given: Mapping[str, Any], key: str) -> Any:
        """Send the request and return the answer's JSON, read up to a limit."""
        spec = self._spec
        headers: dict[str, Any] = {"Accept-Encoding": "identity"}  # a limit on bytes is one on what is unpacked
        headers |= {"Idempotency-Key": key} if spec.idempotency else {}
        if not spec.bearer:
            headers["Authorization"] = self._openai.Omit()
        try:
            async with (
                asyncio.timeout(spec.seconds),
                self._opened().images.with_streaming_response.generate(
                    prompt=given["prompt"],
                    model=spec.model,
                    n=1,
                    extra_headers=headers,
                    extra_body=self._body(given),
                ) as response,
            ):
                data = bytearray()
                async for piece in response.iter_bytes():
                    data += piece
                    if len(data) > 4 * (spec.max_bytes // 3 + 1) + ENVELOPE:
                        raise self._useless("it is larger than an image may be")
        except (CapabilityError, UnknownOutcome, ConfigError):
            raise
        except Exception as error:  # noqa: BLE001 - every library's errors become one of the five codes
            raise faults.fault(error, side_effecting=self._offered.side_effecting, keyed=spec.idempotency) from None
        try:
            answer = json.loads(bytes(data))
        except (ValueError, RecursionError):
            raise self._useless("it is no JSON") from None
        if isinstance(answer, dict) and isinstance(answer.get("error"), dict):
            # Gateways say so with a status of success: what was asked for wasn't done.
            code = answer["error"].get("code")
            status = code if isinstance(code, int) and 400 <= code < 500 else 400
            text = bytes(data).decode("utf-8", "replace")
            raise faults.refusal(faults.Answer(status=status, text=text), side_effecting=False)
        return answer

    def _body(self, given: Mapping[str, Any]) -> dict[str, Any]:
        spec = self._spec
        found: dict[str, Any] = dict(spec.extra)
        size = spec.sizes[given["size"]] if "size" in given else next(iter(spec.sizes.values()), "")
        for name, value in (
            ("size", size),
            ("quality", spec.quality),
            ("response_format", spec.response_format),
            ("seed", given.get("seed")),
        ):
            if value not in ("", None):
                found[name] = value
        return found

    def _opened(self) -> AsyncOpenAI:
        """Return the client: no retries of its own, no redirect, and no key but the one that was named."""
        if self._client is None:
            openai, spec = self._openai, self._spec
            key = self._tools.secret(spec.secret).reveal() if spec.secret else ""
            headers: dict[str, Any] = {"OpenAI-Organization": openai.Omit(), "OpenAI-Project": openai.Omit()}
            headers |= {} if spec.bearer or not key else {spec.key_header: key}
            address, _, query = spec.url.partition("?")
            self._client = openai.AsyncOpenAI(
                api_key=key if spec.bearer else "none",
                base_url=address,
                default_query=dict(parse_qsl(query)),
                default_headers=headers,
                max_retries=0,
                timeout=spec.seconds,
                http_client=openai.DefaultAsyncHttpxClient(follow_redirects=False),
            )
        assert self._client is not None
        return self._client

    # --- the answer --------------------------------------------------------------------------------------------

    async def _kept(self, answer: Any, until: float) -> dict[str, Json]:
        """Put the image into the artifact store, and return the result; `until` is a time of `time.monotonic()`.
        Raises `NotFetched`, `StoreError`."""
        first = _first(answer)
        url = first.get("url")
        inline = first.get("b64_json")
        if isinstance(inline, str) and inline:
            data = download.decoded(inline, self._spec.max_bytes)
        elif isinstance(url, str) and url:
            data = await self._downloads.fetch(url, max(1.0, until - time.monotonic()))
        else:
            raise NotFetched("the answer has neither its bytes nor its address")
        kind = media.kind(data)
        if kind not in media.IMAGES:
            raise NotFetched(f"it is no image but {kind}")
        found: dict[str, Json] = await asyncio.to_thread(self._tools.artifacts.put, data, kind)
        size = media.dimensions(data)
        if size is not None:
            found |= {"width": size[0], "height": size[1]}
        if isinstance(url, str) and not url.startswith("data:") and 0 < len(url) <= URL:
            found["url"] = _storable(url)
        revised = first.get("revised_prompt")
        if isinstance(revised, str) and revised:
            found["revised_prompt"] = _storable(revised[:REVISED])
        return found

    def _usage(self, answer: Any) -> Usage:
        """Return what the service reports: tokens, and what it charged, in its own words or at the list's prices."""
        said = answer.get("usage") if isinstance(answer, dict) else None
        if not isinstance(said, dict):
            return Usage()
        tokens, cost = said.get("total_tokens"), said.get("cost")
        charged = self._listed(said)
        if isinstance(cost, int | float) and not isinstance(cost, bool) and 0 <= cost <= MOST_COST:
            charged = nano(cost)
        return Usage(charged, tokens if isinstance(tokens, int) and tokens >= 0 else 0)

    def _listed(self, said: Mapping[str, Any]) -> int | None:
        """Return what the tokens cost by the price list, where no price of an image was named; None if it can't say."""
        given, made = said.get("input_tokens"), said.get("output_tokens")
        if self._spec.price_usd is not None or not isinstance(given, int) or not isinstance(made, int):
            return None
        prices = extra("genai_prices", "models", "image")
        try:
            usage = prices.Usage(input_tokens=given, output_tokens=made)
            found = prices.calc_price(usage, self._spec.model, provider_api_url=self._spec.url).total_price
        except (LookupError, ValueError):
            return None
        return nano(found) if found >= 0 else None

    def _useless(self, why: str) -> CapabilityError:
        """Return the failure of an answer that came and can't be used: its price is counted."""
        return CapabilityError("provider_error", f"the answer can't be used: {why}", cost_usd=usd(self._offered.price))


def open(name: str, spec: Spec, tools: Tools) -> Service:
    """Open an image service. Raises `ConfigError`."""
    return Images(name, spec, tools)


def _host(name: str, url: str) -> str:
    try:
        return urls.read(url).origin.host
    except CapabilityError as error:
        raise ConfigError(
            f"{name}: url can't be used: {error.message}.", hint=f"Write an address as in {OPENAI}."
        ) from None


def _first(answer: Any) -> Mapping[str, Any]:
    """Return the only image of an answer. Raises `NotFetched` for another form."""
    data = answer.get("data") if isinstance(answer, dict) else None
    if not isinstance(data, list) or not data or not isinstance(data[0], dict):
        raise NotFetched("the answer has no image")
    return data[0]


def _storable(text: str) -> str:
    """Return a text without lone surrogates: JSON can say them, and no journal can hold them."""
    return text.encode("utf-8", "replace").decode("utf-8")


def _input(spec: Spec) -> dict[str, Json]:
    properties: dict[str, Any] = {
        "prompt": {"type": "string", "minLength": 1, "maxLength": spec.max_prompt},
    }
    if spec.sizes:
        properties["size"] = {"enum": list(spec.sizes)}
    if spec.seed:
        properties["seed"] = {"type": "integer", "minimum": 0, "maximum": 2**32 - 1}
    return {"type": "object", "properties": properties, "required": ["prompt"], "additionalProperties": False}
