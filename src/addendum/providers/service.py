"""What every kind of service is made of: its specification, the tools that it is given, and what it offers.

A kind is a module of `addendum.providers` with two names:

    class Spec(service.Spec)                                     what a person writes of it, strict (pydantic)
    def open(name: str, spec: Spec, tools: Tools) -> Service     ready to dispatch, or `ConfigError`

`name` is the capability's, or a prefix where a service has several. A kind's module can be imported with the base
install alone: what belongs to an extra is imported by `open`, through `extra`. Kinds don't import each other.
"""

from __future__ import annotations

import asyncio
import importlib
import ssl
from collections.abc import Callable, Coroutine, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from types import ModuleType
from typing import Annotated, Any, Final, Protocol, Self, TypeVar

from pydantic import BaseModel, ConfigDict, Field, model_validator

from addendum.authority.catalog import Capability
from addendum.authority.declare import declare
from addendum.authority.money import nano
from addendum.canon import Json
from addendum.credentials import Secret, guard
from addendum.errors import ConfigError
from addendum.ports import Artifacts, Model, ModelChoice, Reply, Request
from addendum.records.entries import Effect

T = TypeVar("T")
DOLLARS: Final = r"^[0-9]{1,9}(\.[0-9]{1,9})?$"
Usd = Annotated[str, Field(pattern=DOLLARS)]
"""An amount of US dollars as text, so that none is rounded by a float: `"0.02"`."""
MARGIN: Final = 0.95
"""Of a call's time limit: that no answer came is told by the service, which knows whether anything was sent."""
RESENT: Final = 2
"""How often a request is sent again with the same idempotency key."""


class Spec(BaseModel):
    """The keys that every kind has. `handles` are those of its keys that name a secret, `sends` the addresses that
    these are sent to: there is no specification, from a file or from elsewhere, that sends one in clear text."""

    model_config = ConfigDict(frozen=True, extra="forbid", strict=True)

    kind: str = Field(description="Which kind of service it is.")
    about: str = Field(default="", max_length=500, description="One sentence on it, for people and models.")
    version: str = Field(default="1", min_length=1, description="Another one gives another result.")
    effect: Effect | None = Field(
        default=None, description="Its effect class (see the catalog); the kind's own if left out."
    )
    price_usd: Usd | None = Field(default=None, description="What a call costs when the provider reports nothing.")
    most_usd: Usd | None = Field(default=None, description="The most that a call may cost: this much is reserved.")
    timeout: float = Field(default=120.0, gt=0, le=86_400, description="Seconds for a call.")
    retries: int = Field(default=2, ge=0, le=20, description="Tries beyond the first, where nothing was done.")

    def handles(self) -> tuple[str, ...]:
        """Return the handles of secrets that it names, so that a wrong one is found when the file is read."""
        found = getattr(self, "secret", "")
        return (found,) if found else ()

    def sends(self) -> tuple[tuple[str, str], ...]:
        """Return the addresses that its secrets go to, each behind its key: none may be in clear text."""
        url = getattr(self, "url", "")
        return (("url", url),) if url and self.handles() else ()

    @model_validator(mode="after")
    def _guarded(self) -> Self:
        guard(self.sends())
        return self


class KeyedSpec(Spec):
    """The keys of every kind whose call is one request, with a key that says who asks."""

    secret: str = Field(default="", description="The handle of its key.")
    idempotency: bool = Field(
        default=False, description="The service honours the header Idempotency-Key: a lost answer is asked for again."
    )

    @property
    def resent(self) -> int:
        """How often a request whose answer was lost is sent again."""
        return RESENT if self.idempotency else 0

    @property
    def seconds(self) -> float:
        """The time of one request: all that may be sent have to fit into the call's."""
        return MARGIN * self.timeout / (1 + self.resent)


class Service(Protocol):
    """A provider with what it offers. It is used on one event loop."""

    @property
    def capabilities(self) -> Sequence[Capability]:
        """What can be called."""

    async def dispatch(self, request: Request) -> Reply:
        """Do the work of one call; see `ports.Provider`."""

    async def lookup(self, capability: str, key: str) -> Reply | None:
        """Return what became of an earlier dispatch, None if it can't be said; see `ports.Provider`."""

    async def close(self) -> None:
        """Let go of connections and processes."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Tools:
    """What a service is given. `secret` returns a secret by handle (`ConfigError` for one that isn't there); `folder`
    is that of the services file: relative paths are of it. `model` opens a model. `loop` returns the event loop that
    every dispatch runs on, from a thread of its own; `wait` runs a coroutine there from `open`. `backoff` is the pause
    before a request is sent again with the same key, in seconds. `kept` is the folder beside the store, for what a
    service keeps over processes; `agent` is the command that does one job of an agent."""

    secret: Callable[[str], Secret]
    artifacts: Artifacts
    folder: Path
    model: Callable[[ModelChoice], Model]
    loop: Callable[[], asyncio.AbstractEventLoop]
    backoff: float = 0.5
    kept: Path = Path(".addendum")
    agent: tuple[str, ...] = ()

    def wait(self, coroutine: Coroutine[Any, Any, T], seconds: float) -> T:
        """Run a coroutine on the services' loop and return its result. Raises what it raises, and `TimeoutError`."""
        future = asyncio.run_coroutine_threadsafe(coroutine, self.loop())
        try:
            return future.result(seconds)
        except TimeoutError:
            future.cancel()
            raise TimeoutError(f"no answer within {seconds:g} s") from None


def trusted(ca: str, folder: Path) -> ssl.SSLContext:
    """Return what certificates are held against: those of a file in PEM form in `folder`, the system's for "". Raises
    `ConfigError`."""
    try:
        return ssl.create_default_context(cafile=str(folder / ca) if ca else None)
    except (OSError, ssl.SSLError) as error:
        raise ConfigError(f"The certificates {ca} can't be read: {error}.", hint="Name a file in PEM form.") from None


def extra(module: str, name: str, kind: str) -> ModuleType:
    """Import a module that belongs to the extra `name`. Raises `ConfigError` that names the extra."""
    try:
        return importlib.import_module(module)
    except ImportError:
        raise ConfigError(
            f"A service of the kind {kind} needs {module.partition('.')[0]}, which isn't installed.",
            hint=f"Run: pip install 'addendum[{name}]'",
            extra=name,
        ) from None


def offer(
    name: str,
    spec: Spec,
    *,
    effect: Effect,
    input: dict[str, Json],
    output: dict[str, Json],
    about: str,
    price: int = 0,
    most: int | None = None,
    **more: Any,
) -> Capability:
    """Return the capability that a specification makes of a kind.

    `effect`, `about`, `price` and `most` (in nano-dollars) are the kind's own, for what the specification leaves out;
    `more` are further fields. Raises `ConfigError`.
    """
    price = price if spec.price_usd is None else nano(spec.price_usd)
    most = max(price, most or 0) if spec.most_usd is None else nano(spec.most_usd)
    if most < price:
        raise ConfigError(
            f"{name} costs {spec.price_usd} and at most {spec.most_usd}.", hint="most_usd is what a call reserves."
        )
    declared = declare(
        name,
        effect=spec.effect or effect,
        version=spec.version,
        timeout=spec.timeout,
        retries=spec.retries,
        about=spec.about or about,
    )
    return replace(declared, price=price, most=most, input=input, output=output, **more)
