"""What is about to be written and sent for one call: its attempt, its request, and how it is settled."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from addendum import canon
from addendum.authority.catalog import Capability
from addendum.broker.journal import stow
from addendum.canon import Digest
from addendum.kernel.calls import Call
from addendum.kernel.decide import Execute
from addendum.ports import Clock, Request
from addendum.records.entries import Attempt, Ref, Settled
from addendum.records.outcome import Failure, Success


@dataclass(frozen=True, slots=True)
class Draft:
    """Drafts for one drive of a run. `fingerprint` gives a call's site's fingerprint in the running source; `principal`
    is whose accounts the calls are held in, "" if nobody's."""

    run: str
    revision: int
    drive: int
    fingerprint: Callable[[Call], str]
    clock: Clock
    principal: str = ""

    def attempt(self, decision: Execute, capability: Capability, number: int, blobs: dict[Digest, bytes]) -> Attempt:
        """Return a call's attempt; a large payload is put into `blobs`."""
        call = decision.call
        return Attempt(
            number=number,
            identity=call.identity,
            capability=call.capability,
            effect=capability.effect,
            fingerprint=self.fingerprint(call),
            digest=call.digest,
            take=call.take,
            key=canon.sha256(f"{self.run}\n{call.identity}\n{call.digest}\n{number}".encode()),
            payload=stow(call.data, call.payload, blobs),
            revision=self.revision,
            drive=self.drive,
            hold=capability.reserve,
            at=self.clock.now(),
            waits=capability.waits,
            supersedes=decision.supersedes.seq if decision.supersedes else None,
            principal=self.principal if not capability.waits else "",
            approval=decision.approval,
        )

    def request(self, call: Call, attempt: Attempt) -> Request:
        """Return what the provider gets: a payload of its own, and the attempt's key."""
        return Request(
            capability=call.capability,
            payload=canon.freeze(call.payload),
            key=attempt.key,
            run=self.run,
            identity=call.identity,
            attempt=attempt.number,
        )

    def settled(
        self,
        decision: Execute,
        outcome: Success | Failure,
        result: Ref | None = None,
        *,
        fingerprint: str | None = None,
        attempt: int = 0,
        cost: int = 0,
        tokens: int = 0,
        seconds: float = 0.0,
    ) -> Settled:
        """Return how a call is settled. `fingerprint` is its site's, as its attempt has it; None if it wasn't sent."""
        call, superseded = decision.call, decision.supersedes
        return Settled(
            identity=call.identity,
            capability=call.capability,
            fingerprint=self.fingerprint(call) if fingerprint is None else fingerprint,
            digest=call.digest,
            outcome=outcome,
            result=result,
            revision=self.revision,
            drive=self.drive,
            attempt=attempt,
            cost=cost,
            tokens=tokens,
            seconds=seconds,
            supersedes=superseded.seq if superseded is not None and isinstance(outcome, Success) else None,
        )
