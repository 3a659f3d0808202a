"""Driving a run: the loop's live driver, one plain thread from the first turn to the end of the last call in flight."""

from __future__ import annotations

import queue
import threading
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

from addendum import canon
from addendum.broker import fit
from addendum.broker.dispatch import Answered
from addendum.broker.journal import stow
from addendum.broker.reconcile import commit_answers
from addendum.broker.relay import Relay
from addendum.broker.settle import Settler
from addendum.broker.shortcuts import Shortcuts
from addendum.canon import Digest, Json
from addendum.errors import LimitExceeded, NotJson, SandboxError, SandboxMissing, StoreError
from addendum.kernel.loop import (
    Astray,
    Bind,
    Finished,
    Halt,
    Halted,
    HandOver,
    Loop,
    Reply,
    Request,
    Result,
    Settle,
    Start,
    Suspended,
    Wait,
)
from addendum.ports import End, Raised, Returned, Session
from addendum.records.entries import Ref
from addendum.records.history import Record
from addendum.records.stored import Entry

POLL = 0.25
"""Seconds between two looks for what an operator wrote while nothing else happens."""
MOST_TEXT = 16 * 1024
"""Characters that are kept of the error that a script ended with."""
RENEW = 10.0
"""Seconds between two signs of life of the lease."""


@dataclass(slots=True)
class Ending:
    """How a drive ended, before it is written."""

    status: str
    stop: str | None = None
    error: str | None = None
    message: str = ""
    hint: str = ""
    value: Json = None
    where: dict[str, Any] = field(default_factory=dict)


@dataclass(slots=True)
class Drive:
    """One attempt at a run. `open_session` starts a fresh execution of the script, which computed for so many seconds
    before; `new_loop` a fresh matching."""

    settler: Settler
    open_session: Callable[[float], Session]
    new_loop: Callable[[], Loop]
    max_result: int
    stop_requested: threading.Event
    loop: Loop
    rebound: int = 0
    missing: SandboxMissing | None = None
    """The sandbox isn't here: whoever asked for the run is told so, and nothing of it was done."""
    _relay: Relay | None = None
    _shortcuts: Shortcuts = field(init=False)
    _started: float = 0.0
    _renewed: float = 0.0
    _looked: float = 0.0

    def __post_init__(self) -> None:
        self._shortcuts = Shortcuts(self.settler.journal, self.settler.clock)

    def run(self) -> Ending:
        """Drive the script to its end, a stop, or a wait that only a person ends; then let calls in flight land."""
        self._started = self._renewed = self._looked = self.settler.clock.monotonic()
        try:
            ended = self._execute()
        except StoreError as error:
            ended = Ending("stopped", "store_unavailable", None, error.message, error.hint)
        except LimitExceeded as error:
            ended = Ending("failed", None, error.code, error.message, error.hint)
        except SandboxError as error:
            self.missing = error if isinstance(error, SandboxMissing) else None
            ended = Ending("stopped", "sandbox", None, error.message, error.hint)
        finally:
            # Whatever ends it, an error of our own too: calls in flight are paid for.
            self._close()
            self._land()
        return ended

    def _execute(self) -> Ending:
        while True:
            result = self._steps()
            self._close()
            if isinstance(result, Astray):
                self._shortcuts.without(result)
                # Nothing was sent on the strength of what travelled ahead or in a batch: what is in flight, or waits
                # for room, for time or for a person, was asked for.
                self.loop = self.loop.again(self.new_loop())
                self.settler.rule.claims = self.loop.claims
                continue
            return self._ended(result)

    def _steps(self) -> Result:
        accounts = self.settler.accounts
        accounts.logged = 0
        session = self.open_session(accounts.computed)
        self._relay = relay = self._shortcuts.relay(session, self.loop, accounts)
        steps = self.loop.run()
        reply: Reply = None
        while True:
            try:
                request = steps.send(reply)
            except StopIteration as stop:
                result: Result = stop.value
                return result
            if isinstance(request, Settle | Wait) and (astray := relay.astray) and not self.stop_requested.is_set():
                steps.close()  # with a stop requested, nothing is decided: the drive ends
                return astray
            reply = self._answer(request, relay)

    def _answer(self, request: Request, relay: Relay) -> Reply:
        if self.loop.lost:
            self.settler.flights.drop(self.loop.lost)
            self.loop.lost.clear()
        match request:
            case HandOver():
                return relay.hand(request)
            case Settle():
                if self.stop_requested.is_set():
                    return _cancelled()
                halt = self.settler.rule.doubt()
                if halt is not None:
                    return halt
                return self.settler.settle(request.calls)
            case Wait():
                return self._wait()
            case Start():
                return relay.start()
            case Bind(claims, late, lost):
                halt = self.settler.rule.doubt(claims if late and not lost else ())
                if halt is None:
                    self._bind(claims, late)
                return halt

    def _bind(self, claims: Sequence[tuple[Any, Record]], late: bool) -> None:
        settler = self.settler
        new = [
            Entry(
                "rebind",
                {
                    "record": record.seq,
                    "identity": call.identity,
                    "revision": settler.draft.revision,
                    "proof": "trace",
                    "late": late,
                },
            )
            for call, record in claims
        ]
        settler.journal.append(*new)
        self.rebound += sum(1 for _, record in claims if not record.is_read)
        for call, record in claims:
            settler.tell(
                {"event": "rebound", "identity": call.identity, "seq": record.seq, "capability": call.capability}
            )

    # --- waiting -----------------------------------------------------------------------------------------------

    def _wait(self) -> list[Record] | Halt:
        """Wait until something is settled. Empty when nothing can come but from a person."""
        settler, flights = self.settler, self.settler.flights
        while True:
            now = settler.clock.monotonic()
            self._renew(now)
            records = settler.ring(now)
            if records:
                return records
            if self.stop_requested.is_set():
                return _cancelled()
            halt = self._operator(now)
            if halt is not None:
                return halt
            if flights.queue:
                settler.admit()
            if flights.asked or flights.gated or not flights.coming:
                halt = settler.permitted()
                if halt is not None:
                    return halt
                records = self._answers()
                if records or not flights.coming:
                    return records
            found = settler.answered(self._take(self._pause()) or settler.overdue(now))
            if found:
                return found

    def _pause(self) -> float:
        """Return how long to wait for an answer at most, in seconds from now: what went before may have taken long."""
        flights, clock, pause = self.settler.flights, self.settler.clock, POLL
        if flights.timers:
            pause = min(pause, max(0.0, flights.timers[0].due - clock.monotonic()))
        if flights.later is not None:
            pause = min(pause, max(0.01, flights.later - clock.now()))
        return pause

    def _take(self, pause: float) -> list[Answered]:
        """Take every answer that is there; wait for the first one."""
        answers: list[Answered] = []
        source = self.settler.dispatcher.answers
        try:
            item = source.get(timeout=pause) if pause > 0 else source.get_nowait()
            while True:
                if isinstance(item, Answered):
                    answers.append(item)
                if source.empty():
                    return answers
                item = source.get_nowait()
        except queue.Empty:
            return answers

    def _operator(self, now: float) -> Halt | None:
        """See what an operator wrote while this process drives the run."""
        journal = self.settler.journal
        if now - self._looked >= POLL:
            self._looked = now
            journal.news()
        return _cancelled() if journal.cancelled else None

    def _answers(self) -> list[Record]:
        """Commit the answers of people that came meanwhile."""
        journal = self.settler.journal
        stored = commit_answers(journal)
        for entry in stored:
            self.settler.flights.asked.pop(entry.body["attempt"], None)
        return [journal.history.records[entry.seq] for entry in stored]

    def _renew(self, now: float) -> None:
        self.settler.accounts.elapsed = now - self._started
        if now - self._renewed > RENEW and (lease := self.settler.journal.lease) is not None:
            self.settler.journal.store.renew(lease)
            self._renewed = now

    # --- the end -----------------------------------------------------------------------------------------------

    def _ended(self, result: Result) -> Ending:
        match result:
            case Finished(end):
                return self._finished(end)
            case Halted(halt):
                return _halted(halt)
            case Suspended():
                return self._suspended()
            case Astray():  # pragma: no cover - handled by the caller
                raise AssertionError("astray")

    def _finished(self, end: End) -> Ending:
        match end:
            case Returned(value):
                halt = self.settler.rule.doubt()
                if halt is not None:
                    return _halted(halt)
                try:
                    canon.canonical(value, max_bytes=self.max_result)
                except NotJson as error:
                    message = f"The script's result can't be kept. {error.message}"
                    return Ending("failed", None, "not_json", message, error.hint)
                return Ending("completed", value=value)  # type: ignore[arg-type]
            case Raised() as raised:
                frames: Json = [list(frame) for frame in raised.frames]
                where: Any = fit.sound({"identity": raised.identity, "frames": frames, "type": raised.type})
                code = fit.text(raised.code or raised.type)
                return Ending("failed", None, code, fit.text(raised.message, MOST_TEXT), where=where)

    def _suspended(self) -> Ending:
        flights = self.settler.flights
        if flights.blocked:
            call, over = flights.blocked[0]
            return Ending(
                "paused",
                None,
                None,
                over.sentence(call.identity),
                f"{over.way_out}, then `addendum resume RUN`.",
                where={"limit": str(over.limit), "identities": [call.identity for call, _ in flights.blocked]},
            )
        gated = [decision.call for decision, _ in flights.gated.values()]
        count = len(flights.asked) + len(gated)
        return Ending(
            "waiting",
            None,
            None,
            f"{count} call{'s wait' if count != 1 else ' waits'} for a person.",
            "Answer with `addendum approve RUN`, then `addendum resume RUN`.",
            where={"identities": [call.identity for call in (*flights.asked.values(), *gated)]},
        )

    def _land(self) -> None:
        """Let every call in flight come down and be committed. Nothing new is sent."""
        settler = self.settler
        settler.stopping = True
        settler.flights.timers.clear()
        settler.flights.queue.clear()
        while settler.flights.flying:
            answers = self._take(POLL) or settler.overdue(settler.clock.monotonic())
            try:
                settler.answered(answers)
            except StoreError:
                # Its attempt has no record: unresolved, never sent again by itself.
                continue
        try:
            settler.commits.save()
        except StoreError:
            return  # what is lost to the store is in the result

    def _close(self) -> None:
        if self._relay is not None:
            self._relay.close()
            self._relay = None

    def result_ref(self, value: Json) -> tuple[Ref, dict[Digest, bytes]]:
        """Return the script's result as a reference, with the blob it may need."""
        blobs: dict[Digest, bytes] = {}
        return stow(canon.canonical(value), value, blobs), blobs


def _halted(halt: Halt) -> Ending:
    where = dict(halt.facts)
    if halt.call is not None:
        where["identity"] = halt.call.identity
        where["capability"] = halt.call.capability
    return Ending("stopped", halt.kind, None, halt.message, halt.hint, where=where)


def _cancelled() -> Halt:
    return Halt("cancelled", "The run was cancelled.", "`addendum resume RUN` goes on from here.")
