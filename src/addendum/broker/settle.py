"""Settling calls: decide, check, reserve, write the attempt, dispatch; then commit what came back.

The order is the crash window's proof. An attempt is durable before its request leaves, and a result is durable before
the script sees it; result, usage and the hold's release are one transaction. Between the two a kill leaves an attempt
without a record, which is what *unresolved* means.

    decide ─ halt? ─ schema ─ reserve ─ [attempt durable] ─ dispatch ┄┄ answer ─ [record durable] ─ hand over
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

from addendum import canon
from addendum.authority.accounts import Accounts, Hold, Later, Over
from addendum.authority.catalog import Capability
from addendum.authority.money import nano
from addendum.broker.dispatch import Answered, Dispatcher
from addendum.broker.flights import Flight, Flights
from addendum.broker.journal import Journal, stow
from addendum.broker.reads import read
from addendum.broker.schema import Schemas
from addendum.canon import Digest, Json
from addendum.errors import FAILURE_CODES, CapabilityError, ConfigError, NotJson, StoreError
from addendum.kernel.calls import Call
from addendum.kernel.decide import Execute, Rule, Wait
from addendum.kernel.loop import Halt
from addendum.ports import Clock, Request
from addendum.records import entries
from addendum.records.entries import Attempt, Settled
from addendum.records.history import Record
from addendum.records.outcome import Failure, Success
from addendum.records.stored import Entry, Stored

BACKOFF = 0.5
"""Seconds before the first retry; each next one waits twice as long."""
MESSAGE = 2000
"""Characters of a provider's own message that are kept."""


@dataclass(slots=True)
class Tally:
    """What a drive did: dispatches, successes, new versions, ledger findings."""

    dispatched: int = 0
    executed: int = 0
    superseded: int = 0
    repeats: int = 0
    cost: int = 0


@dataclass(slots=True)
class Settler:
    """Settles the calls of one drive. `fingerprint` gives a call's site's fingerprint in the running source."""

    journal: Journal
    rule: Rule
    accounts: Accounts
    dispatcher: Dispatcher
    clock: Clock
    notice: Callable[[dict[str, Any]], None]
    revision: int
    drive: int
    fingerprint: Callable[[Call], str]
    backoff: float = BACKOFF
    stopping: bool = False
    flights: Flights = field(default_factory=Flights)
    tally: Tally = field(default_factory=Tally)
    superseded: set[int] = field(default_factory=set)
    unsaved: list[dict[str, Any]] = field(default_factory=list)
    schemas: Schemas = field(default_factory=Schemas)

    # --- new calls ---------------------------------------------------------------------------------------------

    def settle(self, calls: Sequence[Call]) -> list[Record] | Halt:
        """Decide on calls that have no record, and send those that may be sent. Returns what is settled at once.

        Every call is decided before any is sent: a stop is found before an effect.
        """
        if calls[0].is_read:
            return self._reads(calls)
        decisions = [self.rule.decide(call) for call in calls]
        for decision in decisions:
            if isinstance(decision, Halt):
                return decision
        refused: list[Settled] = []
        asks: list[tuple[Execute, Capability]] = []
        for decision in decisions:
            if isinstance(decision, Wait):
                self.flights.asked[decision.attempt.seq] = decision.call
                continue
            assert isinstance(decision, Execute)
            capability = self.rule.catalog[decision.call.capability]
            self._note(decision)
            problem = self._problem(decision.call, capability)
            if problem:
                refused.append(
                    self._settled(decision, Failure("invalid_input", problem, False, decision.call.identity))
                )
            elif capability.waits:
                asks.append((decision, capability))
            else:
                self.flights.queue.append((decision, capability))
        self._ask(asks)
        records = self._commit([(settled, {}) for settled in refused])
        self.admit()
        return records

    def _reads(self, calls: Sequence[Call]) -> list[Record]:
        done: list[tuple[Settled, dict[Digest, bytes]]] = []
        for call in calls:
            if call.capability == "ctx.sleep":
                seconds = call.payload.get("seconds", 0) if isinstance(call.payload, dict) else 0
                if isinstance(seconds, int | float) and seconds > 0:
                    self.flights.at(self.clock.monotonic() + seconds, call)
                    continue
            done.append(self._read(call))
        return self._commit(done)

    def _read(self, call: Call) -> tuple[Settled, dict[Digest, bytes]]:
        value = read(call, self.clock)
        blobs: dict[Digest, bytes] = {}
        result = stow(canon.canonical(value), value, blobs)
        return self._settled(Execute(call), Success(value), result=result), blobs

    def _problem(self, call: Call, capability: Capability) -> str:
        if call.refused:
            return call.refused
        if len(call.data) > capability.max_payload:
            return (
                f"The payload is {len(call.data):,} bytes; {capability.name} takes at most {capability.max_payload:,}."
            )
        problem = self.schemas.problem(capability.input, call.payload)
        return f"The payload doesn't fit {capability.name}: {problem}" if problem else ""

    def _note(self, decision: Execute) -> None:
        finding = decision.finding
        if finding is not None:
            self.tally.repeats += 1
            self.notice(
                {
                    "event": "repeat",
                    "finding": finding.kind,
                    "identity": decision.call.identity,
                    "capability": decision.call.capability,
                    "of": finding.record.origin,
                }
            )

    def _ask(self, asks: list[tuple[Execute, Capability]]) -> None:
        """Ask people: the question is durable, and nobody waits for the answer here."""
        for decision, capability in asks:
            blobs: dict[Digest, bytes] = {}
            attempt = self._attempt(decision, capability, self.journal.history.attempted + 1, blobs)
            (stored,) = self._write([Entry("attempt", attempt.body())], blobs)
            self.flights.asked[stored.seq] = decision.call
            self.tally.dispatched += 1
            self.notice(
                {
                    "event": "asked",
                    "identity": decision.call.identity,
                    "capability": capability.name,
                    "payload": decision.call.payload,
                }
            )

    def admit(self) -> None:
        """Send what is queued, as far as the grant's limits let it: one transaction, then the requests."""
        self.flights.later = None
        ready: list[tuple[Execute, Capability, Hold]] = []
        waiting = self.flights.queue
        self.flights.queue = type(waiting)()
        while waiting and not self.stopping:
            decision, capability = waiting.popleft()
            hold = self.accounts.reserve(capability.name, capability.reserve, len(decision.call.data), self.clock.now())
            match hold:
                case Hold():
                    ready.append((decision, capability, hold))
                case Over():
                    self.flights.blocked.append((decision.call, hold))
                    self.notice({"event": "limit", "identity": decision.call.identity, "limit": str(hold.limit)})
                case Later(at=at):
                    self.flights.queue.append((decision, capability))
                    if at is not None:
                        self.flights.later = at if self.flights.later is None else min(at, self.flights.later)
        if ready:
            self._send(ready)

    def _send(self, ready: list[tuple[Execute, Capability, Hold]]) -> None:
        blobs: dict[Digest, bytes] = {}
        new: list[Entry] = []
        attempts: list[Attempt] = []
        number = self.journal.history.attempted
        for decision, capability, _ in ready:
            number += 1
            if decision.retries is not None:
                new.append(_void(decision.retries))
            attempts.append(self._attempt(decision, capability, number, blobs))
            new.append(Entry("attempt", attempts[-1].body()))
        stored = [entry for entry in self._write(new, blobs) if entry.kind == "attempt"]
        self.accounts.written()
        requests: list[tuple[Request, float]] = []
        for (decision, capability, hold), entry in zip(ready, stored, strict=True):
            attempt = entries.attempt(entry.seq, entry.body)
            self.flights.flying[attempt.number] = Flight(decision, capability, hold, attempt)
            requests.append((self._request(decision.call, attempt), capability.timeout))
            self._sent(decision.call, attempt, 1)
        self.tally.dispatched += len(requests)
        self.dispatcher.send(requests)

    def _sent(self, call: Call, attempt: Attempt, tries: int) -> None:
        self.notice(
            {
                "event": "dispatched",
                "identity": call.identity,
                "capability": call.capability,
                "attempt": attempt.number,
                "try": tries,
                "price": attempt.hold,
            }
        )

    def _request(self, call: Call, attempt: Attempt) -> Request:
        return Request(
            capability=call.capability,
            payload=canon.freeze(call.payload),
            key=attempt.key,
            run=self.journal.run,
            identity=call.identity,
            attempt=attempt.number,
        )

    def _attempt(self, decision: Execute, capability: Capability, number: int, blobs: dict[Digest, bytes]) -> Attempt:
        call = decision.call
        return Attempt(
            number=number,
            identity=call.identity,
            capability=call.capability,
            effect=capability.effect,
            fingerprint=self.fingerprint(call),
            digest=call.digest,
            take=call.take,
            key=canon.sha256("\n".join((self.journal.run, call.identity, call.digest, str(number))).encode()),
            payload=stow(call.data, call.payload, blobs),
            revision=self.revision,
            drive=self.drive,
            hold=capability.reserve,
            at=self.clock.now(),
            waits=capability.waits,
            supersedes=decision.supersedes.seq if decision.supersedes else None,
        )

    # --- answers -----------------------------------------------------------------------------------------------

    def answered(self, answers: Sequence[Answered]) -> list[Record] | Halt:
        """Commit what came back, all in one transaction. Returns the records, or the stop of a lost outcome."""
        done: list[tuple[Settled, dict[Digest, bytes]]] = []
        landed: list[Flight] = []
        again: list[tuple[Flight, CapabilityError, float]] = []
        lost: Flight | None = None
        for answer in answers:
            flight = self.flights.flying.pop(answer.attempt, None)
            if flight is None:
                continue
            error = answer.error
            if answer.unknown:
                if flight.capability.side_effecting:
                    self._lose(flight, answer.unknown)
                    lost = lost or flight
                    continue
                error = CapabilityError("timeout", answer.unknown, retryable=True)
            if error is not None and self._retries(flight, error):
                again.append((flight, error, answer.seconds))
                continue
            landed.append(flight)
            done.append(self._outcome(flight, answer, error))
        records = self._commit(done)
        for flight in landed:
            self.accounts.settle(flight.hold)
        for flight, error, seconds in again:
            self._again(flight, error, seconds)
        if self.flights.queue:
            self.admit()
        if lost is not None:
            return Halt(
                "unresolved",
                f"The call {lost.call.identity} of {lost.call.capability} was sent and its outcome isn't known.",
                "Find out what became of it, then `addendum reconcile RUN` with the result, or declare it abandoned.",
                lost.call,
                {"attempt": lost.attempt.seq, "key": lost.attempt.key},
            )
        return records

    def _lose(self, flight: Flight, why: str) -> None:
        self.accounts.keep(flight.hold)
        self.flights.unknown.append(flight.attempt)
        self.notice(
            {
                "event": "unresolved",
                "identity": flight.call.identity,
                "capability": flight.call.capability,
                "message": why,
            }
        )

    def _retries(self, flight: Flight, error: CapabilityError) -> bool:
        return error.retryable and flight.tries <= flight.capability.retries and not self.stopping

    def _again(self, flight: Flight, error: CapabilityError, seconds: float) -> None:
        """A certain failure that may pass: its attempt ends here, and another one follows after a pause."""
        cost = _charged(error)
        self.tally.cost += cost
        self._write(
            [
                Entry(
                    "retry",
                    {
                        "attempt": flight.attempt.seq,
                        "failure": {"code": error.code, "message": error.message[:MESSAGE], "retryable": True},
                        "cost": cost,
                        "micros": round(seconds * 1_000_000),
                    },
                )
            ],
            {},
        )
        self.accounts.settle(flight.hold)
        pause = max(self.backoff * 2 ** (flight.tries - 1), float(getattr(error, "retry_after", 0.0) or 0.0))
        self.flights.at(self.clock.monotonic() + pause, flight.call, flight)
        self.notice(
            {
                "event": "retry",
                "identity": flight.call.identity,
                "capability": flight.call.capability,
                "code": error.code,
                "message": error.message[:MESSAGE],
                "in": pause,
            }
        )

    def ring(self, now: float) -> list[Record]:
        """Do what is due: end sleeps, and send retries."""
        done: list[tuple[Settled, dict[Digest, bytes]]] = []
        for timer in self.flights.due(now):
            if timer.flight is None:
                done.append(self._read(timer.call))
            else:
                self._retry(timer.flight)
        return self._commit(done)

    def _retry(self, flight: Flight) -> None:
        capability = flight.capability
        hold = self.accounts.reserve(capability.name, capability.reserve, len(flight.call.data), self.clock.now())
        if isinstance(hold, Over):
            self.flights.blocked.append((flight.call, hold))
            return
        if isinstance(hold, Later):
            self.flights.at(self.clock.monotonic() + 0.05, flight.call, flight)
            return
        blobs: dict[Digest, bytes] = {}
        attempt = self._attempt(flight.decision, capability, self.journal.history.attempted + 1, blobs)
        (stored,) = self._write([Entry("attempt", attempt.body())], blobs)
        self.accounts.written()
        flight.attempt = entries.attempt(stored.seq, stored.body)
        flight.hold = hold
        flight.tries += 1
        self.flights.flying[flight.attempt.number] = flight
        self.tally.dispatched += 1
        self._sent(flight.call, flight.attempt, flight.tries)
        self.dispatcher.send([(self._request(flight.call, flight.attempt), capability.timeout)])

    # --- outcomes ----------------------------------------------------------------------------------------------

    def _outcome(
        self, flight: Flight, answer: Answered, error: CapabilityError | None
    ) -> tuple[Settled, dict[Digest, bytes]]:
        blobs: dict[Digest, bytes] = {}
        call, capability = flight.call, flight.capability
        if error is None:
            assert answer.reply is not None
            cost = capability.price if answer.reply.usage.cost is None else answer.reply.usage.cost
            tokens = answer.reply.usage.tokens
            try:
                data = canon.canonical(answer.reply.value, max_bytes=capability.max_result)
                problem = self.schemas.problem(capability.output, answer.reply.value)
                if not problem:
                    value: Json = answer.reply.value  # type: ignore[assignment]
                    settled = self._settled(
                        flight.decision,
                        Success(value),
                        result=stow(data, value, blobs),
                        attempt=flight.attempt.seq,
                        cost=cost,
                        tokens=tokens,
                        seconds=answer.seconds,
                    )
                    return settled, blobs
            except NotJson as bad:
                problem = str(bad)
            failed = Failure(
                "provider_error",
                f"{capability.name} answered what can't be used: {problem}"[:MESSAGE],
                False,
                call.identity,
            )
        else:
            cost, tokens = _charged(error), 0
            code = error.code if error.code in FAILURE_CODES else "provider_error"
            message = error.message if code == error.code else f"{error.code}: {error.message}"
            failed = Failure(code, message[:MESSAGE], error.retryable, call.identity)
        return self._settled(
            flight.decision, failed, attempt=flight.attempt.seq, cost=cost, tokens=tokens, seconds=answer.seconds
        ), blobs

    def _settled(self, decision: Execute, outcome: Success | Failure, **more: Any) -> Settled:
        call = decision.call
        superseded = decision.supersedes
        return Settled(
            identity=call.identity,
            capability=call.capability,
            fingerprint=self.fingerprint(call),
            digest=call.digest,
            outcome=outcome,
            result=more.pop("result", None),
            revision=self.revision,
            drive=self.drive,
            supersedes=superseded.seq if superseded is not None and isinstance(outcome, Success) else None,
            **more,
        )

    def _commit(self, done: list[tuple[Settled, dict[Digest, bytes]]]) -> list[Record]:
        if not done:
            return []
        blobs: dict[Digest, bytes] = {}
        for _, some in done:
            blobs.update(some)
        stored = self._write([Entry("record", settled.body()) for settled, _ in done], blobs, done=done)
        records = []
        for entry in stored:
            record = self.journal.history.records[entry.seq]
            records.append(record)
            self._settle_tally(record, entry)
        return records

    def _settle_tally(self, record: Record, entry: Stored) -> None:
        if record.is_read:
            return
        self.tally.executed += record.ok
        self.tally.cost += record.cost
        replaced = entry.body.get("supersedes")
        if replaced is not None:
            self.tally.superseded += 1
            self.superseded.add(replaced)
        self.notice(
            {
                "event": "settled",
                "identity": record.origin,
                "capability": record.capability,
                "seq": record.seq,
                "ok": record.ok,
                "cost": record.cost,
                "failure": entry.body.get("failure"),
            }
        )

    def _write(
        self,
        new: list[Entry],
        blobs: dict[Digest, bytes],
        done: Sequence[tuple[Settled, dict[Digest, bytes]]] = (),
    ) -> list[Stored]:
        try:
            return self.journal.append(*new, blobs=blobs)
        except StoreError:
            # Paid results that can't be made durable are shown, so that a person can write them back.
            for settled, _ in done:
                if settled.attempt and isinstance(settled.outcome, Success):
                    self.unsaved.append(
                        {
                            "identity": settled.identity,
                            "capability": settled.capability,
                            "attempt": settled.attempt,
                            "result": settled.outcome.value,
                        }
                    )
            raise


def _void(attempt: Attempt) -> Entry:
    return Entry(
        "abandon", {"attempt": attempt.seq, "by": "host", "reason": f"{attempt.effect}: it may be retried by itself"}
    )


def _charged(error: CapabilityError) -> int:
    """Return what a provider charged for a failure, in nano-dollars; a claim that is no amount counts as nothing."""
    try:
        return nano(error.cost_usd)
    except ConfigError:
        return 0
