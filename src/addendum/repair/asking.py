"""Asking a model once, on the event loop of the providers, and waiting for it no longer than it has time.

It goes the way that a call of a capability goes: what it answers is copied and checked, what it raises is one of the
known failures, and a model that never comes back doesn't keep the run.
"""

from __future__ import annotations

import queue
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Final, cast

from addendum.broker import fit
from addendum.broker.dispatch import Answered, Dispatcher
from addendum.canon import Json
from addendum.errors import CapabilityError
from addendum.ports import Model, Prompt, Reply, Request
from addendum.runs.context import Context

GRACE: Final = 5.0
"""Seconds beyond the model's own time limit, at most; a quarter of it where that is less."""
CLOSE: Final = 0
"""Stands for no attempt: those count from 1."""
SECOND: Final = 1.0
LOOK: Final = 0.1
"""Seconds between two looks at whether somebody wants it to stop."""


@dataclass(slots=True)
class Asking:
    """A model as a provider: each request stands for a prompt, by its attempt's number."""

    model: Model
    prompts: dict[int, Prompt] = field(default_factory=dict)
    answered_by: dict[int, str] = field(default_factory=dict)

    async def dispatch(self, request: Request) -> Reply:
        """Ask it, or let go of its connections on the loop that they belong to."""
        if request.attempt == CLOSE:
            await self.model.close()
            return Reply(None)
        written = await self.model.write(self.prompts.pop(request.attempt))
        self.answered_by[request.attempt] = fit.text(written.model, 200)
        return Reply(written.value, written.usage)

    async def lookup(self, capability: str, key: str) -> Reply | None:
        """A model remembers nothing."""
        return None


@dataclass(frozen=True, slots=True, kw_only=True)
class Said:
    """What came of asking. `unknown` says why nobody knows; `size` is that of the answer in bytes of JSON, `data` are
    its bytes. `cost` is None when nobody said."""

    seconds: float
    value: Json = None
    data: bytes = b""
    cost: int | None = None
    tokens: int = 0
    model: str = ""
    error: CapabilityError | None = None
    unknown: str = ""
    unfit: str = ""


@dataclass(slots=True)
class Line:
    """Whom a loop asks, one question after the other, all on one event loop: a model's clients belong to theirs."""

    context: Context
    model: Model
    stop: threading.Event = field(default_factory=threading.Event)
    watch: Callable[[], str] = lambda: ""
    """Asked once a second: a text that isn't empty says why nobody waits any longer."""
    _stuck: bool = False
    _asking: Asking = field(init=False)
    _dispatcher: Dispatcher = field(init=False)

    def __post_init__(self) -> None:
        self._asking = Asking(self.model)
        self._dispatcher = self.context.dispatcher(self._asking, self.context.loop)

    def ask(self, prompt: Prompt, request: Request, timeout: float) -> Said:
        """Ask, and wait. Never raises for anything that a model does."""
        began = time.monotonic()
        grace = min(GRACE, timeout / 4)
        self._asking.prompts[request.attempt] = prompt
        self._dispatcher.send([(request, timeout + grace)])
        looked = began
        while not self.stop.is_set():
            try:
                answer = self._dispatcher.answers.get(timeout=LOOK)
            except queue.Empty:
                if time.monotonic() - looked >= SECOND:
                    looked = time.monotonic()
                    why = self.watch()
                    if why:
                        return Said(seconds=looked - began, unknown=why)
                if time.monotonic() - began > timeout + 2 * grace + 1:
                    self._stuck = True
                    # It doesn't let its event loop go on, so nothing on that loop can end it.
                    return Said(seconds=time.monotonic() - began, unknown=f"no answer within {timeout:g} s")
                continue
            if isinstance(answer, Answered) and answer.attempt == request.attempt:
                return _said(answer, self._asking.answered_by.pop(request.attempt, "") or self.model.name)
        return Said(seconds=time.monotonic() - began, unknown="it was stopped while the model was asked")

    def close(self) -> None:
        """Let go of the model's connections, and of the event loop if it is its own."""
        over = Request(capability="", payload=None, key="", run="", identity="", attempt=CLOSE)
        self._dispatcher.send([(over, GRACE)])
        until = time.monotonic() + 2 * GRACE
        while time.monotonic() < until:
            try:
                answer = self._dispatcher.answers.get(timeout=LOOK)
            except queue.Empty:
                if self._stuck:
                    break
                continue
            if isinstance(answer, Answered) and answer.attempt == CLOSE:
                break
        self._dispatcher.close()


def _said(answer: Answered, model: str) -> Said:
    if answer.unknown or answer.error is not None:
        return Said(seconds=answer.seconds, error=answer.error, unknown=answer.unknown)
    reply = answer.reply
    assert reply is not None
    return Said(
        seconds=answer.seconds,
        value=cast("Json", reply.value),  # it was read back from JSON
        data=answer.data or b"null",
        cost=reply.usage.cost,
        tokens=reply.usage.tokens,
        model=model,
        unfit=answer.unfit,
    )
