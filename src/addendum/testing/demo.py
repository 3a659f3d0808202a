"""The demo provider: local, instant and deterministic, with failures as they are asked for (cases/README.md).

n counts the dispatches of a capability, from 1. Its results look like those of real services; nothing leaves the
machine.
"""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from addendum.authority.catalog import Capability, Catalog
from addendum.authority.money import nano
from addendum.canon import Json, freeze
from addendum.errors import CapabilityError
from addendum.ports import Reply, Request

_TEXT: dict[str, Json] = {"type": "string"}


def _object(required: Mapping[str, Json], optional: Mapping[str, Json] | None = None) -> dict[str, Json]:
    return {
        "type": "object",
        "properties": {**required, **(optional or {})},
        "required": list(required),
        "additionalProperties": False,
    }


def _capability(name: str, effect: Any, usd: str, given: dict[str, Json], about: str, **more: Any) -> Capability:
    return Capability(name=name, effect=effect, price=nano(usd), input=given, about=about, **more)


_COUNT: dict[str, Json] = {"type": "integer", "minimum": 0}
CAPABILITIES: tuple[Capability, ...] = (
    _capability(
        "storyboard.plan",
        "read",
        "0.01",
        _object({"brief": _TEXT, "shots": _COUNT}),
        'Plan the shots of a brief. Gives {"shots": [{"title": str, "prompt": str, "seconds": number}]}.',
    ),
    _capability(
        "image.generate",
        "paid",
        "0.02",
        _object({"prompt": _TEXT}, {"size": {"enum": ["1K", "2K"]}, "seed": {"type": "integer"}}),
        'Make an image. Gives {"url": str, "width": int, "height": int}.',
    ),
    _capability(
        "review.visual",
        "read",
        "0.01",
        _object({"url": _TEXT, "criteria": _TEXT}),
        'Score an image. Gives {"score": 0..1, "issues": [str]}.',
    ),
    _capability(
        "text.generate",
        "read",
        "0.005",
        _object({"prompt": _TEXT}, {"max_tokens": _COUNT, "schema": {"type": "object"}}),
        'Write a text, or data that fits a schema. Gives {"text": str, "data": object or null}.',
    ),
    _capability(
        "video.generate",
        "paid",
        "0.50",
        _object({"prompt": _TEXT, "image_url": _TEXT, "seconds": _COUNT}),
        'Make a clip. Gives {"url": str}.',
    ),
    _capability(
        "video.compose",
        "paid",
        "0.05",
        _object({"clips": {"type": "array", "items": _TEXT}, "music_url": {"type": ["string", "null"]}}),
        'Join clips. Gives {"url": str}.',
    ),
    _capability(
        "audio.speech",
        "paid",
        "0.03",
        _object({"text": _TEXT, "voice": _TEXT}),
        'Speak a text. Gives {"url": str, "seconds": number}.',
    ),
    _capability(
        "agent.run",
        "side_effect",
        "0.20",
        _object({"task": _TEXT}, {"files": {"type": "array", "items": _TEXT}}),
        'Let an agent work in a worktree. Gives {"report": str, "changed": [str], "ok": bool}.',
    ),
    _capability(
        "mail.send",
        "irreversible",
        "0",
        _object({"to": _TEXT, "subject": _TEXT, "body": _TEXT}),
        'Send a mail. Gives {"id": str}.',
    ),
    _capability(
        "human.approve",
        "read",
        "0",
        _object({"question": _TEXT}, {"context": {"type": "object"}}),
        'Ask a person. Gives {"approved": bool, "note": str}.',
        waits=True,
    ),
)
CATALOG = Catalog(CAPABILITIES)


def result(capability: str, payload: Mapping[str, Any], n: int) -> Json:
    """Return what the n-th dispatch of a capability answers."""
    match capability:
        case "storyboard.plan":
            shots = payload.get("shots", 3)
            return {
                "shots": [{"title": f"Shot {i}", "prompt": f"Prompt {i}", "seconds": 5} for i in range(1, shots + 1)]
            }
        case "image.generate":
            return {"url": f"mem://image/{n}", "width": 1024, "height": 1024}
        case "review.visual":
            return {"score": 0.9, "issues": []}
        case "text.generate":
            return {"text": f"text {n}", "data": None}
        case "video.generate":
            return {"url": f"mem://video/{n}"}
        case "video.compose":
            return {"url": f"mem://film/{n}"}
        case "audio.speech":
            return {"url": f"mem://speech/{n}", "seconds": 5}
        case "agent.run":
            return {"report": f"report {n}", "changed": [], "ok": True}
        case "mail.send":
            return {"id": f"mail-{n}"}
        case _:
            raise CapabilityError("invalid_input", f"the demo provider has no {capability}")


@dataclass(slots=True)
class Fault:
    """A failure to inject: at the n-th `dispatch` of a capability, or where the payload has the values of `where`."""

    capability: str
    code: str
    message: str = ""
    retryable: bool = False
    dispatch: int | None = None
    where: Mapping[str, Json] | None = None
    times: int | None = None
    used: int = 0

    def hits(self, capability: str, payload: Mapping[str, Any], n: int) -> bool:
        """Whether the n-th dispatch of a capability fails by this."""
        if capability != self.capability or (self.times is not None and self.used >= self.times):
            return False
        if self.dispatch is not None and n != self.dispatch:
            return False
        missing = object()
        return all(payload.get(key, missing) == value for key, value in (self.where or {}).items())


@dataclass(slots=True)
class DemoProvider:
    """Answers calls of the demo capabilities. `order` "reversed" answers those that are pending together in reversed
    order. `seconds` lets each dispatch take that long. `count` and `faults` are its whole state. `on_dispatch` is
    called when a dispatch begins, `on_answer` right before its answer leaves: hooks for rehearsing crashes."""

    results: Mapping[str, Json] = field(default_factory=dict)
    faults: Sequence[Fault] = ()
    order: str = "given"
    seconds: float = 0.0
    count: Counter[str] = field(default_factory=Counter)
    on_dispatch: Callable[[Request, int], Any] | None = None
    on_answer: Callable[[Request, int], Any] | None = None
    _together: list[asyncio.Future[None]] = field(default_factory=list)

    async def dispatch(self, request: Request) -> Reply:
        """Answer one call."""
        self.count[request.capability] += 1
        n = self.count[request.capability]
        payload: Any = request.payload if isinstance(request.payload, dict) else {}
        fault = next((fault for fault in self.faults if fault.hits(request.capability, payload, n)), None)
        if fault is not None:
            fault.used += 1
        if self.on_dispatch is not None:
            await self.on_dispatch(request, n)
        if self.order == "reversed":
            await self._turn()
        if self.seconds:
            await asyncio.sleep(self.seconds)
        if self.on_answer is not None:
            await self.on_answer(request, n)
        if fault is not None:
            message = fault.message or f"the demo provider fails dispatch {n} of {request.capability}"
            raise CapabilityError(fault.code, message, fault.retryable)
        if request.capability in self.results:
            return Reply(freeze(self.results[request.capability]))
        return Reply(result(request.capability, payload, n))

    async def lookup(self, capability: str, key: str) -> Reply | None:
        """The demo provider remembers nothing."""
        return None

    async def _turn(self) -> None:
        """Wait until every call that was sent together has come, then let them go in reversed order."""
        mine: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._together.append(mine)
        if len(self._together) == 1:
            asyncio.get_running_loop().call_soon(self._release)
        await mine

    def _release(self) -> None:
        waiting, self._together = self._together, []
        for future in reversed(waiting):
            if not future.done():
                future.set_result(None)
