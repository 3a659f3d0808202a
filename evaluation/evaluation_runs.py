"""Count the calls of a script on data of a given length: is a mutant that lost a bound really unbounded?

Every list that the script takes out of `args` or of a result has that length, whatever it is called.
"""

from __future__ import annotations

import asyncio
import warnings
from typing import Any

LIMIT = 60_000


class _TooMany(BaseException):
    pass


class CapabilityError(Exception):
    """As a script sees it."""

    def __init__(self, code: str, message: str, retryable: bool = False) -> None:
        super().__init__(f"{code}: {message}")
        self.code, self.message, self.retryable = code, message, retryable


class Anything(dict):  # type: ignore[type-arg]
    """Data of which only the length of lists is known: every key is there, and iterating gives `length` elements."""

    def __init__(self, length: int, depth: int = 0) -> None:
        super().__init__()
        self.length, self.depth = length, depth

    def __missing__(self, key: Any) -> Any:
        return value_for(str(key), self.length, self.depth + 1)

    def get(self, key: Any, default: Any = None) -> Any:
        return self[key]

    def __contains__(self, key: Any) -> bool:
        return True


class Items(list):  # type: ignore[type-arg]
    """A list that also answers keys, as a result whose shape isn't known."""


SCALARS = {"score": 0.1, "ok": False, "approved": True, "retryable": True, "seconds": 3, "amount": 1.0, "total": 2.0}
TEXTS = {
    *("text", "url", "name", "title", "prompt", "id", "report", "issue", "brief", "style", "code", "message", "kind"),
    *("question", "topic", "criteria", "path", "theme", "sentiment", "claim", "customer", "subject", "size", "voice"),
    *("email", "to", "body", "policy", "note", "label", "reason", "verdict", "language", "category", "urgency", "sku"),
    *(
        "instruction",
        "document",
        "product",
        "audience",
        "tone",
        "goal",
        "task",
        "description",
        "story",
        "focus",
        "from",
    ),
}


def value_for(key: str, length: int, depth: int) -> Any:
    """A value for a key: a number, a text or a list, by what such keys mean in the corpus."""
    if key in SCALARS:
        return SCALARS[key]
    if key in TEXTS:
        return f"{key} text"
    if key == "how_many":
        return length
    if depth > 3:
        return f"{key} deep"
    if key == "data":
        return Anything(length, depth)
    if key.endswith("s") or key in ("wide", "whatever_comes", "missing"):
        return Items(Anything(length, depth) for _ in range(length))
    return Anything(length, depth)


class _Context:
    def __init__(self, length: int) -> None:
        self.calls = 0
        self.length = length

    async def run(self, name: str, payload: Any, take: int = 1) -> Any:
        self.calls += 1
        if self.calls > LIMIT:
            raise _TooMany
        await asyncio.sleep(0)
        return Anything(self.length)

    async def parallel(self, branches: Any, return_errors: bool = False) -> list[Any]:
        return [
            result if not isinstance(result, Exception) else Anything(self.length)
            for result in await asyncio.gather(*branches, return_exceptions=True)
        ]

    async def race(self, branches: Any) -> Any:
        return (await self.parallel(branches))[0]

    async def pipeline(self, items: Any, *stages: Any, return_errors: bool = False) -> list[Any]:
        async def one(item: Any, index: int) -> Any:
            value = item
            for stage in stages:
                value = await stage(value, item, index)
            return value

        return await self.parallel([one(item, index) for index, item in enumerate(items)])

    async def dag(self, nodes: Any, return_errors: bool = False) -> dict[str, Any]:
        done: dict[str, Any] = {}
        for name, (function, needs) in nodes.items():
            try:
                done[name] = await function(*[done.get(need) for need in needs])
            except Exception:  # noqa: BLE001 - a failed node is as good as any
                done[name] = Anything(self.length)
        return done

    def log(self, text: str) -> None:
        pass

    def phase(self, title: str) -> None:
        pass

    async def now(self) -> str:
        return "2026-01-01T00:00:00Z".ljust(self.length, "0")

    async def random(self) -> float:
        return 0.5

    async def uuid(self) -> str:
        return "00000000-0000-4000-8000-000000000000"

    async def sleep(self, seconds: float) -> None:
        pass


def calls_with(text: str, length: int) -> int:
    """How many calls a script makes before it ends or fails, when its lists have this length."""
    space: dict[str, Any] = {"CapabilityError": CapabilityError}
    ctx = _Context(length)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        try:
            exec(compile(text, "<mutant>", "exec"), space)
            asyncio.run(space["orchestrate"](ctx, Anything(length)))
        except (Exception, _TooMany):  # noqa: BLE001 - a mutant may fail anyhow
            pass
        space.clear()
    return ctx.calls
