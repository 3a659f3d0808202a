"""One provider for all services of a file: dispatch by name, on one event loop, and no secret gets past it.

Every service runs on the router's own loop, whichever loop a call comes from, so that clients are kept over runs. What
comes back, a value, a failure's text, an unknown outcome, is redacted here: a service that echoes its key can't put it
into the store.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Callable, Coroutine, Iterable, Sequence
from typing import Any, Final, TypeVar, cast

from addendum.authority.approval import APPROVE
from addendum.authority.catalog import Catalog
from addendum.canon import Json
from addendum.errors import CapabilityError, ConfigError, UnknownOutcome
from addendum.ports import Reply, Request
from addendum.providers import faults
from addendum.providers.service import Service
from addendum.providers.threads import LoopThread

T = TypeVar("T")
CLOSING: Final = 5.0
"""Seconds that one service gets to close."""


class Router:
    """The `Provider` port over services. `redact` and `redact_value` take the secrets out of a text and out of a JSON
    value. Raises `ConfigError` when two services have one name."""

    def __init__(
        self,
        services: Sequence[Service],
        loop: LoopThread,
        *,
        redact: Callable[[str], str],
        redact_value: Callable[[Json], Json],
    ) -> None:
        self._services = tuple(services)
        self._loop = loop
        self._redact = redact
        self._redact_value = redact_value
        offered = [capability for service in services for capability in service.capabilities]
        self.catalog = Catalog([*offered, *([] if any(c.name == APPROVE.name for c in offered) else [APPROVE])])
        """What all of them offer, and `human.approve`, which a person answers."""
        self._by_name = {each.name: service for service in services for each in service.capabilities}

    def loop(self) -> asyncio.AbstractEventLoop:
        """Return the event loop that services run on, in a thread of its own."""
        return self._loop.loop()

    async def dispatch(self, request: Request) -> Reply:
        """Let a service do the work of one call. Raises `CapabilityError` and `UnknownOutcome`, without secrets."""
        service = self._by_name.get(request.capability)
        if service is None:
            raise CapabilityError("provider_error", f"nobody does the work of {request.capability}")
        return self._cleaned(await self._asked(service.dispatch(request)))

    async def lookup(self, capability: str, key: str) -> Reply | None:
        """Ask a service what became of an earlier dispatch. Raises as `dispatch` does, without secrets."""
        service = self._by_name.get(capability)
        if service is None:
            return None
        found = await self._asked(service.lookup(capability, key))
        return None if found is None else self._cleaned(found)

    def redact(self, text: str) -> str:
        """Take out of a text what the services know as secrets."""
        return self._redact(text)

    def close(self) -> None:
        """Close every service, whatever the others do, and end the loop."""
        shut_all(self._services, self._loop)

    async def _asked(self, coroutine: Coroutine[Any, Any, T]) -> T:
        """Await what a service answers. What it raises is told anew, by an exception that doesn't lead back to it: the
        service's own has requests and headers in its frames, its causes and its arguments."""
        try:
            return await self._on_loop(coroutine)
        except asyncio.CancelledError:
            raise
        except BaseException as error:  # noqa: BLE001 - a text that nobody looked at would go into the store
            failure = self._clean(error)
        raise failure

    async def _on_loop(self, coroutine: Coroutine[Any, Any, T]) -> T:
        """Await a coroutine on the router's loop; cancelling the caller cancels it."""
        loop = self._loop.loop()
        if asyncio.get_running_loop() is loop:
            return await coroutine
        return await asyncio.wrap_future(asyncio.run_coroutine_threadsafe(coroutine, loop))

    def _cleaned(self, reply: Reply) -> Reply:
        if not isinstance(reply, Reply):
            return reply
        try:
            return Reply(self._redact_value(cast("Json", reply.value)), reply.usage)
        except RecursionError:
            # Too deep to be JSON that is kept: the broker would say so, and the value goes no further.
            raise CapabilityError("provider_error", "the answer nests too deep") from None

    def _clean(self, error: BaseException) -> CapabilityError | UnknownOutcome:
        match error:
            case CapabilityError():
                return CapabilityError(
                    self._redact(str(error.code)),
                    self._said(error.message),
                    error.retryable,
                    cost_usd=error.cost_usd,
                    retry_after=error.retry_after,
                )
            case UnknownOutcome() | TimeoutError():
                return UnknownOutcome(self._said(error) or "it timed out")
            case ConfigError():
                # A secret that can't be read, say: found before anything was sent.
                return CapabilityError("provider_error", self._said(error))
            case _:
                return CapabilityError("provider_error", f"{type(error).__name__}: {self._said(error)}")

    def _said(self, text: object) -> str:
        """Return a text without secrets, in one line, cut: in this order, since half a secret is found by no search."""
        try:
            return faults.shown(self._redact(str(text)[: faults.LOOKED_AT]))
        except Exception:  # noqa: BLE001 - an error's own text may be broken too
            return "an error without a readable text"


def shut_all(services: Iterable[Service], loop: LoopThread) -> None:
    """Close every service, whatever the others do, and end their loop; a ^C meanwhile is raised when all of it is
    done."""
    with contextlib.ExitStack() as closing:
        closing.callback(loop.close)
        for service in services:
            closing.callback(_closed, service, loop.loop())


def _closed(service: Service, loop: asyncio.AbstractEventLoop) -> None:
    future = asyncio.run_coroutine_threadsafe(service.close(), loop)
    try:
        future.result(CLOSING)
    except BaseException as error:  # the others have to be closed all the same
        future.cancel()
        if isinstance(error, KeyboardInterrupt):
            raise
