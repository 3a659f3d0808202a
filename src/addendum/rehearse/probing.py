"""Probing a real delegate, and keeping the verdicts: dated, with the digest of what was tried.

A provider is tried through its port. Its effects can't be seen from here, so different results are counted: a channel
that answers the same has reached nothing new, as far as anybody can see. Time, restarts, failures and other channels
can't be made, so at best the verdict is `unknown` with what was tried; a refutation is one all the same.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence

from addendum.authority.catalog import Capability
from addendum.authority.saturation import Saturation, domain_size
from addendum.canon import Digest, Json, digest
from addendum.errors import CapabilityError, NotFound, UnknownOutcome, UsageError
from addendum.ports import LEDGER, Clock, Provider, Request, RunHeader, Store
from addendum.records.stored import Entry
from addendum.rehearse.probe import Caller, Probe, Unsupported, Verdict


class Delegate:
    """A provider's capability as something that can be tried."""

    def __init__(self, provider: Provider, capability: str, clock: Clock) -> None:
        self.provider = provider
        self.capability = capability
        self.clock = clock
        self.results: set[Digest] = set()
        self.made = 0

    def call(self, payload: Json, caller: Caller, *, fail: bool = False) -> None:
        if fail:
            raise Unsupported
        self.together([payload], caller)

    def together(self, payloads: Sequence[Json], caller: Caller) -> None:
        async def all_of_them() -> None:
            await asyncio.gather(*(self._one(payload, caller) for payload in payloads))

        asyncio.run(all_of_them())

    async def _one(self, payload: Json, caller: Caller) -> None:
        self.made += 1
        request = Request(
            capability=self.capability,
            payload=payload,
            key=self.clock.token(),
            run=caller.run,
            identity=f"probe/{self.capability}#0",
            attempt=self.made,
        )
        try:
            reply = await self.provider.dispatch(request)
        except (CapabilityError, UnknownOutcome):
            return  # refused, or nobody knows: no effect that can be seen
        self.results.add(digest(reply.value))

    def effects(self) -> int:
        return len(self.results)

    def passes(self, seconds: float) -> None:
        raise Unsupported

    def restart(self) -> None:
        raise Unsupported

    def others(self) -> Sequence[Callable[[], None]]:
        raise Unsupported


def probe(provider: Provider, capability: Capability, payloads: Sequence[Json], clock: Clock) -> Verdict:
    """Try what a capability claims against its provider; it is really called. Raises `UsageError` without payloads."""
    if len(payloads) < 2 or len({digest(payload) for payload in payloads}) < len(payloads):
        raise UsageError("A probe needs payloads that differ.", hint="Give --payload at least twice.")
    claim = capability.saturation or Saturation("additive")
    domain = domain_size(capability.input, claim.domain) if claim.domain else None
    found = Probe(capability.name, claim, lambda: Delegate(provider, capability.name, clock), payloads, domain)
    return found.run(clock.now(), digest(capability.to_json()))


def keep(store: Store, verdict: Verdict, created_at: str) -> Digest:
    """Keep a verdict in the store, and return the digest by which a claim names it as its evidence."""
    name = f"{LEDGER}probe/{verdict.capability}"
    try:
        store.header(name)
    except NotFound:
        store.create(RunHeader(name, verdict.capability, created_at))
    store.append(name, [Entry("verdict", verdict.to_json())])
    return verdict.evidence
