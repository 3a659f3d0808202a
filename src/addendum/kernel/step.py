"""The loop exposed: K as a JSON value, and what it leads to (DESIGN section 1, `addendum step`).

    {"format": 1, "source": "...", "args": {...}, "trace": [
        {"identity": "...", "capability": "...", "digest": "...", "result": ...},
        {"identity": "...", "capability": "...", "digest": "...", "failure": {"code", "message", "retryable"}}]}

An outside driver in any language asks for the pending calls of a K, settles one of them, and asks for the next K. The
trace is in the order in which results were handed over. A race's winner enters the trace by itself.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any, Final

from addendum import canon
from addendum.canon import Json
from addendum.errors import UsageError
from addendum.kernel.calls import Call
from addendum.kernel.claims import Claims
from addendum.kernel.loop import Loop
from addendum.kernel.shadow import OneByOne, Shadow, shadow
from addendum.kernel.sources import Sources
from addendum.ports import End, Raised, Returned, Session
from addendum.records.entries import Ref, Revision, Settled
from addendum.records.history import History, Record
from addendum.records.outcome import Failure, Outcome, Success
from addendum.records.stored import Stored
from addendum.script.program import Program

FORMAT: Final = 1


@dataclass(slots=True)
class State:
    """K: a source, its args, and the trace of settled calls in order."""

    source: str
    args: Json
    trace: list[dict[str, Any]] = field(default_factory=list)

    def to_json(self) -> dict[str, Any]:
        """Return K as JSON."""
        return {"format": FORMAT, "source": self.source, "args": self.args, "trace": self.trace}


def read(value: object) -> State:
    """Read a K. Raises `UsageError` that says what is wrong with it."""
    if not isinstance(value, dict) or value.get("format") != FORMAT:
        raise UsageError(
            "This is no K of format 1.", hint='Start with {"format": 1, "source": ..., "args": {}, "trace": []}.'
        )
    missing = [name for name in ("source", "args", "trace") if name not in value]
    if missing:
        raise UsageError(f"This K has no {missing[0]}.", hint="K is complete and explicit: nothing of it is guessed.")
    if not isinstance(value["source"], str) or not isinstance(value["trace"], list):
        raise UsageError(
            "The source of this K is no text, or its trace is no list.", hint="See `addendum step --help`."
        )
    for index, settled in enumerate(value["trace"]):
        texts = ("identity", "capability", "digest")
        if not isinstance(settled, dict) or not all(isinstance(settled.get(name), str) for name in texts):
            raise UsageError(
                f"Entry {index} of the trace has no identity, capability and digest.",
                hint="Copy them from the pending call that it settles.",
            )
        if ("result" in settled) == ("failure" in settled):
            raise UsageError(
                f"Entry {index} of the trace needs either a result or a failure.", hint="Keep exactly one of the two."
            )
        failed = settled.get("failure", {"code": ""})
        if not isinstance(failed, dict) or not isinstance(failed.get("code"), str):
            raise UsageError(f"The failure in entry {index} of the trace has no code.")
    return State(value["source"], value["args"], list(value["trace"]))


def settled(call: dict[str, Any], *, result: Json = None, failure: dict[str, Any] | None = None) -> dict[str, Any]:
    """Return the entry of a trace that settles a pending call. Raises `UsageError`, `NotJson`."""
    entry = {name: call[name] for name in ("identity", "capability", "digest")}
    if failure is None:
        canon.canonical(result)
        return {**entry, "result": result}
    if not isinstance(failure.get("code"), str):
        raise UsageError(
            "A failure needs a code.", hint='Write {"code": "timeout", "message": "", "retryable": false}.'
        )
    return {
        **entry,
        "failure": {
            "code": failure["code"],
            "message": str(failure.get("message", "")),
            "retryable": bool(failure.get("retryable", False)),
        },
    }


@dataclass(slots=True)
class Step:
    """What K leads to: the calls that wait, in order, or the end. `state` is K with what entered it by itself."""

    state: State
    pending: list[dict[str, Any]]
    end: End | None

    def to_json(self) -> dict[str, Any]:
        """Return the step as `addendum step` prints it."""
        end: dict[str, Any] | None = None
        match self.end:
            case Returned(value):
                end = {"status": "completed", "result": value}
            case Raised() as raised:
                end = {
                    "status": "failed",
                    "error": raised.code or raised.type,
                    "message": raised.message,
                    "identity": raised.identity or None,
                }
            case None:
                pass
        return {"pending": self.pending, "end": end, "k": self.state.to_json()}


def step(state: State, program: Program, open_session: Callable[[], Session]) -> Step:
    """Run a script over K to quiescence. Pure but for the session, which is closed. Raises what the session raises,
    and `UsageError` when the trace holds a call that the script doesn't make with that digest."""
    history, outcomes = _history(state, program)
    args_digest = canon.digest(state.args)
    claims = Claims(
        prefix=dict(history.prefix),
        records=list(history.records.values()),
        sources=Sources(history, program, lambda digest: program.source, lambda text: program, args_digest),
        relocation="strict",
        revision=1,
    )
    made_up: dict[int, Json] = {}

    def outcome(record: Record) -> Outcome:
        return Success(made_up[record.seq]) if record.seq in made_up else outcomes[record.seq]

    session = open_session()
    try:
        found = shadow(Loop(claims), OneByOne(session, outcome), made_up, frozenset({"ctx.race"}))
    finally:
        session.close()
    assert isinstance(found, Shadow)
    _unused(claims, found.end is not None)
    for call, value in found.pretended:
        state.trace.append(
            {"identity": call.identity, "capability": call.capability, "digest": call.digest, "result": value}
        )
    return Step(state, [_pending(call) for call in found.pending], found.end)


def _pending(call: Call) -> dict[str, Any]:
    return {
        "identity": call.identity,
        "capability": call.capability,
        "payload": call.payload,
        "take": call.take,
        "digest": call.digest,
        "refused": call.refused or None,
    }


def _unused(claims: Claims, ended: bool) -> None:
    for record in claims.records:
        asked = claims.made.get(record.origin)
        if asked is not None and asked != record.call and not record.is_read:
            raise UsageError(
                f"The trace holds {record.origin} with another digest than the script asks for.",
                hint="The K belongs to another source or other args.",
                identity=record.origin,
            )
        if ended and record.seq not in claims.claimed and record.ok:
            raise UsageError(
                f"The trace holds {record.origin}, which the script never calls.",
                hint="The K belongs to another source or other args.",
                identity=record.origin,
            )


def _history(state: State, program: Program) -> tuple[History, dict[int, Outcome]]:
    history = History()
    outcomes: dict[int, Outcome] = {}
    first = Revision(number=1, source=program.revision, args=Ref(0), args_digest=canon.digest(state.args))
    history.take(Stored(1, "revision", first.body(), ""))
    for seq, entry in enumerate(state.trace, 2):
        failed = entry.get("failure")
        outcome: Outcome = (
            Success(canon.plain(entry["result"]))
            if failed is None
            else Failure(failed["code"], failed.get("message", ""), bool(failed.get("retryable")), entry["identity"])
        )
        outcomes[seq] = outcome
        record = Settled(
            identity=entry["identity"],
            capability=entry["capability"],
            fingerprint="",
            digest=entry["digest"],
            outcome=outcome,
            result=Ref(0) if failed is None else None,
            revision=1,
            drive=1,
        )
        history.take(Stored(seq, "record", record.body(), ""))
    return history, outcomes
