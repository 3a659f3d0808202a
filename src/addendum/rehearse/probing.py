"""Probing a real delegate, and keeping the verdicts: dated, with the digest of what was tried.

A provider is tried through its port. It is really called, so a probe has a budget, and a person's yes. What can't be
made from here (time, restarts, failures, a view of the effects, what other channels do) is made with the means that an
operator gives; what is left out stays untried, and then the verdict is `unknown` at best. A refutation is one all the
same. A real delegate isn't fresh for each trial: what all trials did together has to be within the claim as well.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field

from addendum.authority.catalog import Capability
from addendum.authority.pointer import at
from addendum.authority.saturation import Saturation, domain_size
from addendum.canon import Digest, Json, digest
from addendum.errors import NotFound, UsageError
from addendum.ports import LEDGER, Clock, Provider, Request, RunHeader, Store
from addendum.records.stored import Entry
from addendum.rehearse.probe import Caller, Probe, Unsupported, Verdict


def _never(seconds: float) -> None:
    raise Unsupported


@dataclass(frozen=True, slots=True, kw_only=True)
class Means:
    """What a probe may do and can see. `most_calls` and `most_cost` (nano-dollars, None for no limit) are its budget;
    `wait` is how long it may wait once, in seconds.

    `observe` is a capability that reads how many effects there are, with its payload and the JSON pointer of the number
    (of a list its length). `failing` is a payload with which a call fails after it was accepted. `others` are the calls
    of other granted channels on the same resource; `alone` says that there are none. `restart` starts the delegate
    again, `sleep` waits."""

    most_calls: int = 500
    most_cost: int | None = None
    wait: float = 0.0
    observe: tuple[Capability, Json, str] | None = None
    failing: Json = None
    others: tuple[tuple[Capability, Json], ...] = ()
    alone: bool = False
    restart: Callable[[], None] | None = None
    sleep: Callable[[float], None] = _never


@dataclass(slots=True)
class Delegate:
    """A provider's capability as something that can be tried. One object for all trials: it isn't fresh for each."""

    provider: Provider
    capability: Capability
    clock: Clock
    means: Means
    results: set[Digest] = field(default_factory=set)
    made: int = 0
    cost: int = 0

    def call(self, payload: Json, caller: Caller, *, fail: bool = False) -> None:
        if fail and self.means.failing is None:
            raise Unsupported
        self.together([self.means.failing if fail else payload], caller)

    def together(self, payloads: Sequence[Json], caller: Caller) -> None:
        self._within(self.capability, len(payloads))

        async def all_of_them() -> list[Json]:
            return await asyncio.gather(*(self._one(self.capability, payload, caller) for payload in payloads))

        self.results.update(digest(value) for value in asyncio.run(all_of_them()) if value is not None)

    def effects(self) -> int:
        if self.means.observe is None:
            return len(self.results)
        capability, payload, pointer = self.means.observe
        self._within(capability, 1)
        found = at(asyncio.run(self._one(capability, payload, Caller())), pointer)
        if isinstance(found, list | tuple):
            return len(found)
        if isinstance(found, bool) or not isinstance(found, int):
            raise UsageError(f"{capability.name} says {found!r} at {pointer!r}.", hint="Point to a number or a list.")
        return found

    def passes(self, seconds: float) -> None:
        if seconds > self.means.wait:
            raise Unsupported
        self.means.sleep(seconds)

    def restart(self) -> None:
        if self.means.restart is None:
            raise Unsupported
        self.means.restart()

    def others(self) -> Sequence[Callable[[], None]]:
        if not self.means.others and not self.means.alone:
            raise Unsupported
        return [self._other(capability, payload) for capability, payload in self.means.others]

    def _other(self, capability: Capability, payload: Json) -> Callable[[], None]:
        def call() -> None:
            self._within(capability, 1)
            asyncio.run(self._one(capability, payload, Caller()))

        return call

    def _within(self, capability: Capability, calls: int) -> None:
        """Raise `Unsupported` for calls beyond the budget: what they were for stays untried."""
        cost = self.cost + calls * capability.reserve
        if self.made + calls > self.means.most_calls or (
            self.means.most_cost is not None and cost > self.means.most_cost
        ):
            raise Unsupported

    async def _one(self, capability: Capability, payload: Json, caller: Caller) -> Json:
        self.made += 1
        request = Request(
            capability=capability.name,
            payload=payload,
            key=self.clock.token(),
            run=f"probe-{caller.principal}-{caller.run}",
            identity=f"probe/{capability.name}#0",
            attempt=self.made,
        )
        try:
            async with asyncio.timeout(capability.timeout):
                reply = await self.provider.dispatch(request)
        except Exception:  # noqa: BLE001 - refused, failed, or nobody knows: no result that can be seen
            return None
        self.cost += capability.price if reply.usage.cost is None else reply.usage.cost
        return reply.value  # type: ignore[return-value]


def probe(
    provider: Provider,
    capability: Capability,
    payloads: Sequence[Json],
    clock: Clock,
    means: Means | None = None,
    where: Mapping[str, Json] | None = None,
) -> Verdict:
    """Try what a capability claims against its provider; it is really called. `where` narrows its payloads as a grant
    does. Raises `UsageError` without payloads."""
    trial = trials(capability, payloads, where)
    means = means or Means()
    delegate = Delegate(provider, capability, clock, means)
    trial.fresh = lambda: delegate
    trial.observed = means.observe is not None
    trial.later = means.wait or trial.later
    return trial.run(clock.now(), digest(capability.to_json()))


def trials(capability: Capability, payloads: Sequence[Json], where: Mapping[str, Json] | None = None) -> Probe:
    """Return what would be tried. Raises `UsageError` without payloads that differ."""
    claim = capability.saturation or Saturation("additive")
    schemas: dict[str, Json] = {"allOf": [dict(capability.input), dict(where or {})]}
    domain = domain_size(schemas, claim.domain) if claim.domain else None
    if len({digest(payload) for payload in payloads}) < len(payloads) or len(payloads) < (1 if domain == 1 else 2):
        raise UsageError("A probe needs payloads that differ.", hint="Give --payload at least twice.")

    def nobody() -> Delegate:
        raise Unsupported

    return Probe(capability.name, claim, nobody, payloads, domain, real=True)


def keep(store: Store, verdict: Verdict, created_at: str) -> Digest:
    """Keep a verdict in the store, and return the digest by which a claim names it as its evidence."""
    name = f"{LEDGER}probe/{verdict.capability}"
    try:
        store.header(name)
    except NotFound:
        store.create(RunHeader(name, verdict.capability, created_at))
    store.append(name, [Entry("verdict", verdict.to_json())])
    return verdict.evidence
