"""Killing the host where a scenario says so, for real."""

from __future__ import annotations

import asyncio
import os
import signal
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from addendum.ports import Request
from addendum.rehearse.scenario import Crash
from addendum.testing.demo import DemoProvider


@dataclass(slots=True)
class Killer:
    """Hooks of a demo provider that kill its process, and an observer that tells what is committed.

    `in_flight`: at the n-th dispatch, before anything that was sent together with it is answered. `before_commit`: when
    the n-th answer is there; answers leave one at a time, each after the one before it was committed.
    """

    crash: Crash
    save: Callable[[], None]
    committed: int = 0
    answered: int = 0

    def hook(self, provider: DemoProvider) -> None:
        """Hang the hooks into a provider."""
        turn = asyncio.Lock()

        async def on_dispatch(request: Request, n: int) -> None:
            self.save()
            if self.crash.when != "in_flight":
                return
            if request.capability == self.crash.capability and n == self.crash.dispatch:
                kill()
            # All requests of one batch start in one turn of the event loop: if the one that kills is among them, it
            # comes before the first of them goes on.
            for _ in range(3):
                await asyncio.sleep(0)

        async def on_answer(request: Request, n: int) -> None:
            if self.crash.when != "before_commit":
                return
            async with turn:
                while self.committed < self.answered:  # noqa: ASYNC110 - set from the driving thread
                    await asyncio.sleep(0.001)
                if request.capability == self.crash.capability and n == self.crash.dispatch:
                    kill()
                self.answered += 1

        provider.on_dispatch = on_dispatch
        provider.on_answer = on_answer

    def observe(self, event: Mapping[str, Any]) -> None:
        """Count what is committed."""
        if event.get("event") in ("settled", "retry"):
            self.committed += 1


def kill() -> None:
    """End this process as a power cut would."""
    os.kill(os.getpid(), signal.SIGKILL)
