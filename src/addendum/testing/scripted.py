"""A provider that answers as it is told, and remembers what it was asked."""

from __future__ import annotations

import threading
from collections import deque
from collections.abc import Callable, Iterable, Mapping
from typing import Any, TypeAlias

from addendum.canon import Json, freeze
from addendum.errors import CapabilityError
from addendum.ports import Reply, Request

Answer: TypeAlias = "Json | Reply | BaseException | Callable[[Request], Any]"
"""A result, a `Reply` with its usage, an exception to raise, or a function of the request that returns one of them."""


class ScriptedProvider:
    """The `Provider` port for tests. `answers` are each capability's, in the order of its dispatches.

    >>> provider = ScriptedProvider({"image.generate": [{"url": "mem://1"}, CapabilityError("refused")]})

    A dispatch beyond the last answer fails with `provider_error`, as does a capability that has none. `requests` are
    all dispatches in their order. `lookup` knows what became of every dispatch that got a result.
    """

    def __init__(self, answers: Mapping[str, Iterable[Answer]]) -> None:
        self.requests: list[Request] = []
        self._answers = {name: deque(each) for name, each in answers.items()}
        self._done: dict[str, Reply] = {}
        self._lock = threading.Lock()

    def add(self, capability: str, *answers: Answer) -> None:
        """Put answers behind the last one."""
        with self._lock:
            self._answers.setdefault(capability, deque()).extend(answers)

    @property
    def keys(self) -> list[str]:
        """The idempotency keys of all dispatches, in their order."""
        return [request.key for request in self.requests]

    async def dispatch(self, request: Request) -> Reply:
        """Give the next answer."""
        with self._lock:
            self.requests.append(request)
            waiting = self._answers.get(request.capability)
            if not waiting:
                raise CapabilityError("provider_error", f"the script has no more answers for {request.capability}")
            answer: Any = waiting.popleft()
        if callable(answer) and not isinstance(answer, type):
            answer = answer(request)
        if isinstance(answer, type) and issubclass(answer, BaseException):
            answer = answer()
        if isinstance(answer, BaseException):
            raise answer
        reply = answer if isinstance(answer, Reply) else Reply(answer)
        self._done[request.key] = reply
        return reply

    async def lookup(self, capability: str, key: str) -> Reply | None:
        """Return what a dispatch was answered."""
        reply = self._done.get(key)
        return None if reply is None else Reply(freeze(reply.value), reply.usage)  # type: ignore[arg-type]
