"""Drive a sandbox without a kernel: annotated scripts written by hand, and a loop that answers their calls."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from typing import Final

from addendum.canon import Json
from addendum.ports import Answer, End, Event, Issued, Known, Limits, RaceEnded, Sandbox, Script, Turn
from addendum.records.outcome import Outcome, Success

_POSITION: Final = re.compile(r'f?"([A-Za-z_][\w.~]*/[^"\[\]{} ]+)(?:"|\[\{)')


def by_hand(text: str, *positions: str) -> Script:
    """Return a script for an annotated text: its lines map to themselves, its positions are found in it."""
    return Script(
        annotated=text,
        line_map=tuple(range(1, text.count("\n") + 2)),
        positions=frozenset({*_POSITION.findall(text), *positions}),
        source=text,
    )


def echo(call: Issued) -> Outcome:
    """Answer a call with its payload, and a race with the guest's own choice."""
    if call.capability == "ctx.race" and isinstance(call.payload, dict):
        return Success({"winner": call.payload["winner"]})
    return Success({"got": call.payload})  # type: ignore[dict-item]


def first(waiting: Sequence[Issued]) -> int:
    """Pick the call that waits for longest."""
    return 0


def drive(
    sandbox: Sandbox,
    script: Script,
    args: Json = None,
    *,
    answer: Callable[[Issued], Outcome] = echo,
    pick: Callable[[Sequence[Issued]], int] = first,
    ahead: Sequence[Known] = (),
    limits: Limits | None = None,
) -> tuple[list[Event], End]:
    """Run a script to its end and return all events and the end; `pick` says which waiting call is answered next."""
    session = sandbox.open(script, args, limits=limits or Limits(), nonce="5e5510115e551011")
    try:
        events: list[Event] = []
        waiting: list[Issued] = []
        turn = session.advance(None, ahead)
        while True:
            note(turn, events, waiting)
            if turn.end is not None:
                return events, turn.end
            call = waiting.pop(pick(waiting))
            turn = session.advance(Answer(call.call, answer(call)))
    finally:
        session.close()


def note(turn: Turn, events: list[Event], waiting: list[Issued]) -> None:
    """Add a turn's events, and keep the calls that wait; a race's losers wait no more."""
    for event in turn.events:
        events.append(event)
        if isinstance(event, Issued):
            waiting.append(event)
        if isinstance(event, RaceEnded):
            lost, kept = f"{event.frame}[", f"{event.frame}[{event.winner}] > "
            waiting[:] = [c for c in waiting if not c.identity.startswith(lost) or c.identity.startswith(kept)]


def issued(events: Sequence[Event]) -> list[str]:
    """Return the identities of the calls, in their order."""
    return [event.identity for event in events if isinstance(event, Issued)]
