"""What `addendum sandbox verify` tries through a whole run: that a backend's calls go through the broker and nothing
else, and that what crosses is bounded. A provider that counts stands for the world.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Final, TypeAlias

from addendum.authority.catalog import Capability, Catalog
from addendum.authority.grant import Limit, everything
from addendum.canon import Json, canonical
from addendum.ports import Clock, Limits, Reply, Request, Sandbox, Store
from addendum.runs.context import Context
from addendum.runs.query import certified
from addendum.runs.result import StepResult
from addendum.runs.start import start

Finding: TypeAlias = dict[str, str]
"""check, tried, verdict (passed, failed), detail."""
OBJECT: Final[dict[str, Json]] = {"type": "object"}
LARGEST: Final = 100_000
WIDTH: Final = 8
AT_ONCE: Final = 3
CATALOG: Final = Catalog(
    [
        Capability(name="a.read", effect="read", input=OBJECT, output={}, retries=0, max_result=LARGEST),
        Capability(name="a.pay", effect="paid", input=OBJECT, output={}, retries=0, max_result=LARGEST),
    ]
)
MIXED: Final = """
async def one(ctx, n):
    try:
        return await ctx.run("a.pay", {"n": n})
    except CapabilityError as e:
        return e.code


async def orchestrate(ctx, args):
    first = await ctx.run("a.read", {"n": -1})
    rows = await ctx.parallel([one(ctx, n) for n in range(4)])
    best = await ctx.race([ctx.run("a.read", {"n": 10}), ctx.run("a.read", {"n": 11})])
    for n in range(2):
        rows.append(await one(ctx, 20 + n))
    return [first, rows, best]
"""
WIDE: Final = f"""
async def orchestrate(ctx, args):
    return await ctx.parallel([ctx.run("a.read", {{"n": n}}) for n in range({WIDTH})])
"""
LARGE: Final = """
async def orchestrate(ctx, args):
    return await ctx.run("a.pay", {"x": "x" * args})
"""
RESULT: Final = """
async def orchestrate(ctx, args):
    return "x" * 200_000
"""
ONE: Final = """
async def orchestrate(ctx, args):
    return len(await ctx.run("a.read", {"n": 0}))
"""


@dataclass(slots=True)
class Counted:
    """A provider that notes what it is asked. `size` is that of its answers, in characters."""

    size: int = 1
    requests: list[Request] = field(default_factory=list)
    flying: int = 0
    peak: int = 0

    async def dispatch(self, request: Request) -> Reply:
        """Note the request; answer after the others had their turn."""
        self.requests.append(request)
        self.flying += 1
        self.peak = max(self.peak, self.flying)
        await asyncio.sleep(0.01)
        self.flying -= 1
        return Reply("x" * self.size)

    async def lookup(self, capability: str, key: str) -> Reply | None:
        """Say nothing about what was asked before."""
        return None


@dataclass(frozen=True, slots=True)
class World:
    """A backend under test, and what else a run needs."""

    sandbox: Sandbox
    store: Store
    clock: Clock

    def run(self, text: str, provider: Counted, *, limits: tuple[Limit, ...] = (), bound: int = LARGEST) -> StepResult:
        """Run a script to its end. `bound` is the most bytes of a payload, a provider's answer and a message."""
        grant = everything(CATALOG)
        context = Context(
            store=self.store,
            sandbox=self.sandbox,
            provider=provider,
            catalog=CATALOG,
            clock=self.clock,
            grant=type(grant)(grant.capabilities, limits),
            limits=Limits(message=bound, memory=128 * 2**20),
            backoff=0.0,
            max_payload=bound,
            max_result=bound,
        )
        return start(context, text, 2 * LARGEST)


def audit(world: World) -> tuple[bool, str]:
    """What the journal says was sent, against what the provider was asked, call by call."""
    provider = Counted()
    result = world.run(MIXED, provider)
    asked = sorted((request.identity, request.capability, request.key) for request in provider.requests)
    bodies = [entry.body for entry in world.store.entries(result.run) if entry.kind == "attempt"]
    noted = sorted((str(body["identity"]), str(body["capability"]), str(body["key"])) for body in bodies)
    same = asked == noted and len(asked) == 9 and result.status == "completed"
    verdict = certified(world.store, result.run)
    return same and verdict == "ok", f"{len(asked)} asked, {len(noted)} in the journal; the certificate: {verdict}"


def concurrency(world: World) -> tuple[bool, str]:
    """Eight branches under a limit of three calls at the same time."""
    provider = Counted()
    result = world.run(WIDE, provider, limits=(Limit("in_flight", AT_ONCE),))
    good = result.status == "completed" and len(provider.requests) == WIDTH and provider.peak <= AT_ONCE
    return good, f"{len(provider.requests)} calls, {provider.peak} at the same time at most; it {result.status}"


def payload(world: World) -> tuple[bool, str]:
    """A call with more than a message may hold: nobody is asked."""
    provider = Counted()
    result = world.run(LARGE, provider)
    return result.status != "completed" and not provider.requests, f"{len(provider.requests)} asked; {result.message}"


def export(world: World) -> tuple[bool, str]:
    """A result that is larger than a message: nothing of it is kept."""
    return _small(world, world.run(RESULT, Counted()))


def artifact(world: World) -> tuple[bool, str]:
    """A provider's answer that is larger than a record may be: nothing of it is kept."""
    return _small(world, world.run(ONE, Counted(size=2 * LARGEST)))


def _small(world: World, result: StepResult) -> tuple[bool, str]:
    """Say whether a run didn't complete and its journal has nothing large in it."""
    sizes = [len(canonical(dict(entry.body))) for entry in world.store.entries(result.run)]
    return result.status != "completed" and max(sizes) < LARGEST, f"{result.status}: {result.message}"


CHECKS: Final[tuple[tuple[str, Callable[[World], tuple[bool, str]]], ...]] = (
    ("broker.audit", audit),
    ("broker.concurrency", concurrency),
    ("broker.payload", payload),
    ("broker.result", export),
    ("broker.artifact", artifact),
)


def verify(sandbox: Sandbox, store: Store, clock: Clock) -> list[Finding]:
    """Run the checks. An exception in one is a failure of it, and hides none of the others."""
    world = World(sandbox, store, clock)
    found = []
    for name, check in CHECKS:
        try:
            good, detail = check(world)
        except Exception as error:  # noqa: BLE001 - a check that breaks must not hide the others
            good, detail = False, f"the check itself broke: {type(error).__name__}: {error}"
        tried = (check.__doc__ or "").strip()
        found.append({"check": name, "tried": tried, "verdict": "passed" if good else "failed", "detail": detail[:500]})
    return found
