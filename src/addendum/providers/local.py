"""A provider of the user's own functions: coroutine functions run on the event loop, others in threads of their own.

What a handler may do, and what becomes of it:

| handler | outcome of the call |
| --- | --- |
| returns a JSON value, a dataclass or a pydantic model | success, at the catalog's price |
| returns a `Reply` | success, at the cost that it reports |
| raises `CapabilityError` | that failure; a retryable one is tried again by the host |
| raises `UnknownOutcome` or `TimeoutError`, cancels itself, doesn't end in time | not known |
| raises anything else, `SystemExit` and `KeyboardInterrupt` too | `provider_error` with the exception's type and text |
| returns what JSON can't say, what is too large or doesn't fit its schema | `provider_error`; its price is counted |

Not known: unresolved if the capability has side effects, else a retryable `timeout`.
"""

from __future__ import annotations

import asyncio
import dataclasses
import functools
import inspect
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from typing import Any

from pydantic import BaseModel, TypeAdapter

from addendum.authority.catalog import Capability
from addendum.canon import LEAVES, MAX_DEPTH
from addendum.errors import CapabilityError, ConfigError
from addendum.ports import Provider, Reply, Request
from addendum.providers.signature import Signature, declared, read
from addendum.providers.threads import LoopThread, NoThread, Threads


@dataclass(frozen=True, slots=True, kw_only=True)
class Handler:
    """A registered capability, and who does its work: nobody for one that a person answers. `call` is the function as
    it is called on the event loop, where it blocks nobody. So is `lookup`, which takes an idempotency key and returns
    what became of that dispatch, or None."""

    capability: Capability
    function: Callable[..., Any] | None = None
    signature: Signature = field(default_factory=Signature)
    call: Callable[..., Any] | None = None
    lookup: Callable[[str], Any] | None = None


class LocalProvider:
    """The `Provider` port over registered handlers; what none of them takes goes to `rest`."""

    def __init__(self, *, rest: Provider | None = None) -> None:
        self.rest = rest
        self._handlers: dict[str, Handler] = {}
        self._threads = Threads()
        self._loop = LoopThread()
        self._adapters: dict[type, TypeAdapter[Any]] = {}

    @property
    def capabilities(self) -> list[Capability]:
        """What is registered, in its order."""
        return [handler.capability for handler in self._handlers.values()]

    def register(
        self,
        capability: Capability,
        function: Callable[..., Any] | None,
        *,
        scope: Mapping[str, Any],
        given: object = None,
        returned: object = None,
        lookup: Callable[[str], Any] | None = None,
    ) -> None:
        """Register a capability with its handler; None if a person answers.

        `scope` are the names around the handler's definition. `given` and `returned` are JSON Schemas or types for
        payload and result, None for what the annotations say. Raises `ConfigError`, also for a name that another
        function has; the same function once more takes the place of the first (a cell that is run again)."""
        name = capability.name
        before = self._handlers.get(name)
        if before is not None and before.function is not None and not _same(before.function, function):
            raise ConfigError(f"The capability {name!r} is registered twice.", hint="Rename one.")
        if function is not None:
            signature = read(function, name, scope, given, returned)
        else:
            signature = Signature(
                input={"type": "object"} if given is None else declared(given, name, "input", "validation"),
                output={} if returned is None else declared(returned, name, "output", "serialization"),
            )
        about = capability.about or (inspect.getdoc(function) or "").partition("\n")[0]
        full = replace(capability, input=signature.input, output=signature.output, about=about)
        self._handlers[name] = Handler(
            capability=full,
            function=function,
            signature=signature,
            call=None if function is None else self._beside(function),
            lookup=None if lookup is None else self._beside(lookup),
        )

    def loop(self) -> asyncio.AbstractEventLoop:
        """Return the event loop for handlers when the caller has none: one for all runs, so that they keep clients."""
        return self._loop.loop()

    def close(self) -> None:
        """End the event loop."""
        self._loop.close()

    async def dispatch(self, request: Request) -> Reply:
        """Do the work of one call. Raises what the handler raises; the broker makes of it what the table says."""
        handler = self._handlers.get(request.capability)
        if handler is None or handler.call is None:
            if handler is None and self.rest is not None:
                return await self.rest.dispatch(request)
            raise CapabilityError("provider_error", f"nobody does the work of {request.capability}")
        arguments = handler.signature.bind(request)
        try:
            return self._reply(await _awaited(handler.call(**arguments)))
        except NoThread:
            message = "no thread was free within the time limit; nothing was done"
            raise CapabilityError("rate_limited", message, retryable=True) from None

    async def lookup(self, capability: str, key: str) -> Reply | None:
        """Ask a handler's lookup what became of an earlier dispatch; None if there is none, or it can't say."""
        handler = self._handlers.get(capability)
        if handler is None:
            return await self.rest.lookup(capability, key) if self.rest is not None else None
        if handler.lookup is None:
            return None
        found = await _awaited(handler.lookup(key))
        return None if found is None else self._reply(found)

    def _beside(self, function: Callable[..., Any]) -> Callable[..., Any]:
        """Return a function as it is called on the event loop: itself if it gives what is awaited, else in a thread."""
        return function if _is_async(function) else functools.partial(self._in_thread, function)

    async def _in_thread(self, function: Callable[..., Any], /, *given: Any, **named: Any) -> Any:
        return await _awaited(await self._threads.run(functools.partial(function, *given, **named)))

    def _reply(self, value: Any) -> Reply:
        given = value.value if isinstance(value, Reply) else value
        try:
            written = self._written(given, 0)
        except Exception:  # noqa: BLE001 - what can't be written is refused by the broker, and its price is counted
            written = given
        return Reply(written, value.usage) if isinstance(value, Reply) else Reply(written)

    def _written(self, value: Any, depth: int) -> Any:
        """Write models and dataclasses as the JSON that they declare. All else stays: the broker refuses what is no
        JSON, so that nothing is converted silently."""
        kind = type(value)
        if kind in LEAVES or depth > MAX_DEPTH:
            return value
        if kind is dict:
            # The most frequent items stay without a call.
            items = value.items()
            return {key: each if type(each) in LEAVES else self._written(each, depth + 1) for key, each in items}
        if kind is list or kind is tuple:
            return [each if type(each) in LEAVES else self._written(each, depth + 1) for each in value]
        if isinstance(value, BaseModel):
            return value.model_dump(mode="json", by_alias=True)
        if dataclasses.is_dataclass(value) and not isinstance(value, type):
            if kind not in self._adapters:
                self._adapters[kind] = TypeAdapter(kind)
            return self._adapters[kind].dump_python(value, mode="json", by_alias=True)
        return value


async def _awaited(value: Any) -> Any:
    """Return what a handler gave, or what comes of it if that is to be awaited."""
    return await value if inspect.isawaitable(value) else value


def _same(one: Callable[..., Any], other: Callable[..., Any] | None) -> bool:
    """Whether two functions are the same definition."""
    names = [(getattr(f, "__module__", None), getattr(f, "__qualname__", None)) for f in (one, other)]
    return names[0] == names[1] and names[0][1] is not None


def _is_async(function: Callable[..., Any]) -> bool:
    while isinstance(function, functools.partial):
        function = function.func
    return inspect.iscoroutinefunction(function) or inspect.iscoroutinefunction(getattr(function, "__call__", None))  # noqa: B004
