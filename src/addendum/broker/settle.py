"""Settling calls: decide, check, reserve, write the attempt, dispatch; then commit what came back.

The order is the crash window's proof. An attempt is durable before its request leaves, and a result is durable before
the script sees it; result, usage and the hold's release are one transaction. Between the two a kill leaves an attempt
without a record, which is what *unresolved* means.

    decide ─ halt? ─ schema ─ reserve ─ [attempt durable] ─ dispatch ┄┄ answer ─ [record durable] ─ hand over
"""

from __future__ import annotations

from collections import deque
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple

from addendum import canon
from addendum.authority.accounts import Accounts, Hold, Later, Over
from addendum.authority.catalog import Capability
from addendum.authority.grant import Limit
from addendum.authority.money import usd
from addendum.broker.commit import Commits, Done, Notice
from addendum.broker.desk import Asked, Desk, overrun
from addendum.broker.dispatch import Answered, Dispatcher
from addendum.broker.draft import Draft
from addendum.broker.fit import MESSAGE
from addendum.broker.flights import Flight, Flights
from addendum.broker.journal import Journal, stow
from addendum.broker.outcomes import charged, count
from addendum.broker.reads import read, sleep
from addendum.broker.schema import Schemas
from addendum.canon import Digest
from addendum.errors import CapabilityError, JournalMoved
from addendum.kernel.calls import Call
from addendum.kernel.decide import Execute, Rule, Wait
from addendum.kernel.ledger import Finding
from addendum.kernel.loop import Halt
from addendum.ports import Clock
from addendum.records import entries
from addendum.records.entries import Attempt
from addendum.records.history import Record
from addendum.records.outcome import Failure, Success
from addendum.records.stored import Entry

GRACE = 30.0
"""Seconds beyond its time limit after which a call counts as lost, though nobody said so: a handler that blocks the
event loop keeps the loop from saying it."""
BACKOFF = 0.5
"""Seconds before the first retry; each next one waits twice as long."""


class Ready(NamedTuple):
    """A call with its hold, about to be sent for the so manieth time."""

    decision: Execute
    capability: Capability
    hold: Hold
    tries: int


@dataclass(slots=True)
class Settler:
    """Settles the calls of one drive. `notice` is None if nobody watches."""

    journal: Journal
    rule: Rule
    desk: Desk
    dispatcher: Dispatcher
    clock: Clock
    notice: Notice | None
    draft: Draft
    backoff: float = BACKOFF
    stopping: bool = False
    flights: Flights = field(default_factory=Flights)
    schemas: Schemas = field(default_factory=Schemas)
    commits: Commits = field(init=False)

    def __post_init__(self) -> None:
        self.commits = Commits(self.journal, self.notice)

    # --- new calls ---------------------------------------------------------------------------------------------

    def settle(self, calls: Sequence[Call]) -> list[Record] | Halt:
        """Decide on calls that have no record, and send those that may be sent. Returns what is settled at once.

        Every call is decided before any is sent: a stop is found before an effect.
        """
        if calls[0].is_read:
            return self._reads(calls)
        decisions: list[Execute | Wait] = []
        for call in calls:
            decision = self.rule.decide(call)
            if isinstance(decision, Halt):
                return decision
            outside = self.desk.outside(call) if isinstance(decision, Execute) else None
            if outside is not None:
                return outside
            decisions.append(decision)
        refused: list[Done] = []
        asks: list[tuple[Execute, Capability]] = []
        known: list[Record] = []
        for decision in decisions:
            if isinstance(decision, Wait):
                answer = self._answer(decision)
                if answer is None:
                    self.flights.asked[decision.attempt.seq] = decision.call
                else:
                    known.append(answer)
                continue
            call = decision.call
            capability = self.accounts.bounded(self.rule.catalog[call.capability])
            if decision.finding is not None:
                self._note(decision, decision.finding)
            problem = _problem(call, capability, self.schemas)
            if problem:
                failure = Failure("invalid_input", problem, False, call.identity)
                refused.append((self.draft.settled(decision, failure), {}))
            elif capability.waits:
                asks.append((decision, capability))
            else:
                halt = self._gate(decision, capability)
                if halt is not None:
                    return halt
        if asks:
            self._ask(asks)
        if refused:
            known += self.commits.commit(refused)
        self.admit()
        return known

    def _gate(self, decision: Execute, capability: Capability) -> Halt | None:
        """Queue a call, or let it wait for a person whom a rule of the grant asks for."""
        queue = self.flights.queue
        if not self.desk.grant.approvals:
            queue.append((decision, capability, 1))
            return None
        ahead = sum(1 for _, other, _ in queue if other.name == capability.name)
        found = self.desk.ask(decision, capability, ahead)
        match found:
            case Halt():
                return found
            case Asked(seq):
                self.flights.gated[seq] = (decision, capability)
                self._asked(decision.call)
            case Execute():
                queue.append((found, capability, 1))
        return None

    def permitted(self) -> Halt | None:
        """Queue the calls that a person allowed meanwhile."""
        for seq, (decision, capability) in list(self.flights.gated.items()):
            word = self.desk.word(seq, decision, capability)
            if word is None:
                continue
            del self.flights.gated[seq]
            if isinstance(word, Halt):
                return word
            self.flights.queue.append((word, capability, 1))
        return None

    def _answer(self, question: Wait) -> Record | None:
        """Return the record of a question that was answered in this attempt before the script came to it."""
        record = self.journal.history.prefix.get(question.call.identity)
        return record if record is not None and record.attempt == question.attempt.seq else None

    def _reads(self, calls: Sequence[Call]) -> list[Record]:
        done: list[Done] = []
        begun: list[Entry] = []
        for call in calls:
            left, entry = 0.0, None
            if call.capability == "ctx.sleep":
                left, entry = sleep(call, self.journal.history.sleeps.get(call.identity), self.clock)
            if entry is not None:
                begun.append(entry)
            if left > 0:
                self.flights.at(self.clock.monotonic() + left, call)
            else:
                done.append(self._read(call))
        if begun:
            self.commits.write(begun, {})
        return self.commits.commit(done)

    def _read(self, call: Call) -> Done:
        value = read(call, self.clock)
        blobs: dict[Digest, bytes] = {}
        result = stow(canon.canonical(value), value, blobs)
        return self.draft.settled(Execute(call), Success(value), result=result), blobs

    def _note(self, decision: Execute, finding: Finding) -> None:
        self.commits.tally.repeats += 1
        self.tell(
            {
                "event": "repeat",
                "finding": finding.kind,
                "identity": decision.call.identity,
                "capability": decision.call.capability,
                "of": finding.record.origin,
            }
        )

    def tell(self, event: dict[str, Any]) -> None:
        """Tell whoever watches."""
        self.commits.tell(event)

    def _ask(self, asks: list[tuple[Execute, Capability]]) -> None:
        """Ask people: the question is durable, and nobody waits for the answer here."""
        for decision, capability in asks:
            over = self.desk.question(capability, decision.call)
            if over is not None:
                self._block(decision.call, over)
                continue
            blobs: dict[Digest, bytes] = {}
            attempt = self.draft.attempt(decision, capability, self.journal.history.attempted + 1, blobs)
            (stored,) = self.commits.write([attempt.entry()], blobs)
            self.flights.asked[stored.seq] = decision.call
            self.rule.asked(entries.attempt(stored.seq, stored.body))
            self.commits.tally.dispatched += 1
            self._asked(decision.call)

    def _asked(self, call: Call) -> None:
        told = {"identity": call.identity, "capability": call.capability, "payload": call.payload}
        self.tell({"event": "asked", **told})

    def _block(self, call: Call, over: Over) -> None:
        self.flights.blocked.append((call, over))
        self.tell({"event": "limit", "identity": call.identity, "limit": str(over.limit)})

    def admit(self) -> None:
        """Send what is queued, as far as the grant's limits let it: one transaction, then the requests."""
        self.flights.later = None
        waiting = self.flights.queue
        self.flights.queue, moved = type(waiting)(), False
        while waiting and not self.stopping:
            self.desk.look(moved)
            ready: list[Ready] = []
            try:
                self._room(waiting, ready)
                if ready:
                    self._send(ready)
            except JournalMoved:
                # Somebody else was first: nothing was written, and there may be less room now.
                moved = True
                waiting.extendleft((each.decision, each.capability, each.tries) for each in reversed(ready))

    def _room(self, waiting: deque[tuple[Execute, Capability, int]], ready: list[Ready]) -> None:
        """Reserve for the calls that wait, as far as there is room; those that have it go from `waiting` to `ready`.
        Raises `JournalMoved`, with the holds of `ready` given back, if somebody else was first."""
        while waiting:
            decision, capability, tries = waiting[0]
            try:
                hold = self.desk.reserve(capability, decision.call)
            except JournalMoved:
                self.desk.give_back(each.hold for each in ready)
                raise
            waiting.popleft()
            match hold:
                case Hold():
                    ready.append(Ready(decision, capability, hold, tries))
                case Over():
                    self._block(decision.call, hold)
                case Later(at=at):
                    self.flights.queue.append((decision, capability, tries))
                    if at is not None:
                        self.flights.later = at if self.flights.later is None else min(at, self.flights.later)

    def _send(self, ready: Sequence[Ready]) -> None:
        blobs: dict[Digest, bytes] = {}
        new: list[Entry] = []
        attempts: list[Attempt] = []
        taken: list[tuple[int, Hold]] = []
        number = self.journal.history.attempted
        for decision, capability, hold, tries in ready:
            number += 1
            if tries == 1 and decision.retries is not None:
                new.append(_void(decision.retries, "it may be retried by itself"))
            attempt = self.draft.attempt(decision, capability, number, blobs)
            attempts.append(attempt)
            new.append(attempt.entry())
            taken.append((number, hold))
        written = [entry.seq for entry in self.desk.write(new, blobs, taken) if entry.kind == "attempt"]
        attempts = [attempt._replace(seq=seq) for attempt, seq in zip(attempts, written, strict=True)]
        if self.journal.cancelled or self.journal.history.revoked:
            # An operator's word that came before these attempts: none of them leaves.
            self._recall(ready, attempts)
            return
        flying, requests = self.flights.flying, []
        overdue = self.clock.monotonic() + GRACE
        for (decision, capability, hold, tries), attempt in zip(ready, attempts, strict=True):
            timeout = capability.timeout
            flying[attempt.number] = Flight(decision, capability, hold, tries, attempt, overdue + timeout)
            requests.append((self.draft.request(decision.call, attempt), timeout))
            if self.notice is not None:
                self.tell(_dispatched(attempt, tries))
        self.commits.tally.dispatched += len(requests)
        self.dispatcher.send(requests)

    def _recall(self, ready: Sequence[Ready], attempts: Sequence[Attempt]) -> None:
        """Take attempts back that were written and not sent."""
        why = f"the run was {'cancelled' if self.journal.cancelled else 'revoked'} before it was sent"
        self.commits.write([_void(attempt, why) for attempt in attempts], {})
        for each in ready:
            self.accounts.settle(each.hold)
            if self.journal.history.revoked:
                self.flights.blocked.append((each.decision.call, Over(Limit("revoked", 0), 0, 0, 0)))

    # --- answers -----------------------------------------------------------------------------------------------

    def answered(self, answers: Sequence[Answered]) -> list[Record] | Halt:
        """Commit what came back, all in one transaction. Returns the records, or the stop of a lost outcome.

        What there is room for now is sent when these were handed over: until then the script may not want it any more.
        """
        done: list[Done] = []
        alarms: list[Entry] = []
        landed: list[Hold] = []
        again: list[tuple[Flight, CapabilityError, float]] = []
        lost: Flight | None = None
        for answer in answers:
            flight = self.flights.flying.pop(answer.attempt, None)
            if flight is None:
                self._late(answer, done)
                continue
            error = answer.error
            if answer.unknown:
                if flight.capability.side_effecting:
                    self._lose(flight, answer.unknown)
                    lost = lost or flight
                    continue
                spent = usd(flight.hold.cost)  # nobody knows, so the most that it may have cost
                error = CapabilityError("timeout", answer.unknown, retryable=True, cost_usd=spent)
            if error is not None and self._repeats(flight, error):
                again.append((flight, error, answer.seconds))
                continue
            settled = self._outcome(flight, answer, error)
            alarm = overrun(settled[0], flight.declared)
            if alarm is not None:
                alarms.append(alarm)
            done.append(settled)
            landed.append(flight.hold)
        records = self.commits.commit(done, alarms)
        accounts = self.accounts
        for hold in landed:
            accounts.settle(hold)
        for flight, error, seconds in again:
            self._again(flight, error, seconds)
        if lost is not None:
            return _lost(lost)
        return records

    def _repeats(self, flight: Flight, error: CapabilityError) -> bool:
        """Whether a call is tried once more: it may come out otherwise then, and somebody still waits for it."""
        wanted = flight.attempt.identity not in self.flights.gone
        return error.retryable and wanted and flight.tries <= flight.capability.retries

    def overdue(self, now: float) -> list[Answered]:
        """Return that nobody answers, for the calls whose time is over and of which nothing was heard."""
        return [
            Answered(number, flight.capability.timeout, unknown=f"no answer within {flight.capability.timeout:g} s")
            for number, flight in self.flights.flying.items()
            if flight.overdue <= now
        ]

    def _late(self, answer: Answered, done: list[Done]) -> None:
        """Take the outcome of a call that was given up, if it comes after all: it is no longer unresolved."""
        flight = self.flights.lost.get(answer.attempt)
        if flight is None or answer.unknown:
            return
        del self.flights.lost[answer.attempt]
        self.accounts.release(flight.hold)
        done.append(self._outcome(flight, answer, answer.error))

    def _lose(self, flight: Flight, why: str) -> None:
        self.accounts.keep(flight.hold)
        self.flights.lost[flight.attempt.number] = flight
        self.tell(
            {
                "event": "unresolved",
                "identity": flight.call.identity,
                "capability": flight.call.capability,
                "message": why,
            }
        )

    def _again(self, flight: Flight, error: CapabilityError, seconds: float) -> None:
        """A certain failure that may pass: its attempt ends here, and another one follows after a pause. While the
        drive lands, none does: it is no record, so that the next drive tries the call anew."""
        cost = charged(error)
        self.commits.tally.cost += cost
        self.commits.write(
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
        pause = None if self.stopping else max(self.backoff * 2 ** (flight.tries - 1), error.retry_after or 0.0)
        if pause is not None:
            self.flights.at(self.clock.monotonic() + pause, flight.call, flight)
        self.tell(
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
        """Do what is due: end sleeps, and queue retries, which are dispatches like any other."""
        if not self.flights.timers:
            return []
        done: list[Done] = []
        for timer in self.flights.due(now):
            flight = timer.flight
            if flight is None:
                done.append(self._read(timer.call))
            else:
                self.flights.queue.append((flight.decision, flight.capability, flight.tries + 1))
        return self.commits.commit(done)

    # --- outcomes ----------------------------------------------------------------------------------------------

    def _outcome(self, flight: Flight, answer: Answered, error: CapabilityError | None) -> Done:
        blobs: dict[Digest, bytes] = {}
        outcome, data, cost, tokens = count(answer, error, flight.capability, flight.attempt.identity, self.schemas)
        return self.draft.settled(
            flight.decision,
            outcome,
            stow(data, outcome.value, blobs) if isinstance(outcome, Success) else None,
            fingerprint=flight.attempt.fingerprint,
            attempt=flight.attempt.seq,
            cost=cost,
            tokens=tokens,
            seconds=answer.seconds,
        ), blobs

    @property
    def accounts(self) -> Accounts:
        """The accounts that the desk keeps."""
        return self.desk.accounts


def _problem(call: Call, capability: Capability, schemas: Schemas) -> str:
    """Return why a call's payload can't be sent, "" if it can."""
    if call.refused:
        return call.refused
    if len(call.data) > capability.max_payload:
        return f"The payload is {len(call.data):,} bytes; {capability.name} takes at most {capability.max_payload:,}."
    schemas.compile(capability.output)
    problem = schemas.problem(capability.input, call.payload)
    return f"The payload doesn't fit {capability.name}: {problem}" if problem else ""


def _dispatched(attempt: Attempt, tries: int) -> dict[str, Any]:
    return {
        "event": "dispatched",
        "identity": attempt.identity,
        "capability": attempt.capability,
        "attempt": attempt.number,
        "try": tries,
        "price": attempt.hold,
    }


def _lost(flight: Flight) -> Halt:
    return Halt(
        "unresolved",
        f"The call {flight.call.identity} of {flight.call.capability} was sent and its outcome isn't known.",
        "Find out what became of it, then `addendum reconcile RUN` with the result, or declare it abandoned.",
        flight.call,
        {"attempt": flight.attempt.seq, "key": flight.attempt.key},
    )


def _void(attempt: Attempt, why: str) -> Entry:
    return Entry("abandon", {"attempt": attempt.seq, "by": "host", "reason": f"{attempt.effect}: {why}"})
