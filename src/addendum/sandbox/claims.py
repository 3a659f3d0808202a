"""What a guest says in one session, checked against what it may say, as events; and what it is told.

Both interpreters speak through `_wf_host` of guest/body.py: (nonce, kind, a, b, c, d, served). `served` are four lines
for each call that was answered from the table of known answers: identity, capability, take, payload; without
capability and payload, for each call that an answer of a batch reached.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from typing import Final, Never

from addendum.canon import Json, dumps, freeze
from addendum.errors import LimitExceeded, UsageError
from addendum.identity import positive
from addendum.ports import (
    Answer,
    Event,
    FanOut,
    Handed,
    Issued,
    Known,
    Limits,
    RaceEnded,
    Raised,
    Returned,
    Said,
    Script,
    Served,
)
from addendum.records.outcome import Outcome, Success
from addendum.sandbox.frames import known as known_frames
from addendum.sandbox.paths import FAN_OUTS, Paths, refuse

MAX_TEXT: Final = 4096
"""How much of an error's message is kept."""


def _no_constant(name: str) -> Never:
    raise ValueError(name)


_DECODER: Final = json.JSONDecoder(parse_constant=_no_constant)


class Claims:
    """One session's book: what was announced, what waits for an answer, what was used up."""

    def __init__(self, script: Script, limits: Limits, nonce: str) -> None:
        self._script = script
        self._limits = limits
        self._nonce = nonce
        self._paths = Paths(script.positions)
        self._events: list[Event] = []
        self._identities: set[str] = set()
        self._known: set[str] = set()
        self._races: set[str] = set()
        self._failed: set[str] = set()
        self._announced = 0
        self._said = 0
        self._calls = 0
        self.waiting: dict[int, str] = {}
        """Calls without an answer, by number: their identities. A race's losers are taken out."""
        self.ended = False
        """Whether the script itself came to its end, well or not."""
        self._travelling: dict[str, int] = {}
        """Calls of a batch whose answers haven't arrived yet: identities, and numbers."""
        self._hear: dict[str, Callable[[object, object, object, object], None]] = {
            "fan": self._fan,
            "won": self._won,
            "say": self._say,
            "end": self._end,
            "handed": self._handed,
        }

    def hear(self, message: Sequence[object]) -> tuple[int | None, bool]:
        """Take one message. Return the number of the call if it is one, and whether nothing else can run now.

        Raises `ProtocolViolation` and `LimitExceeded`."""
        if len(message) != 7 or message[0] != self._nonce:
            refuse("it isn't of this session")
        _, kind, a, b, c, d, served = message
        if self.ended or not isinstance(kind, str) or (kind != "call" and kind not in self._hear):
            refuse(f"it is out of order or of no known kind: {kind!r}")
        if served != "":
            self._serve(served)
        if kind == "call":
            return self._call(a, b, c, d)
        self._hear[kind](a, b, c, d)
        return None, False

    def drain(self) -> tuple[Event, ...]:
        """Return the events since the last time. Raises `ProtocolViolation` if an answer didn't arrive."""
        if self._travelling:
            refuse(f"it took an answer and never said so: {next(iter(self._travelling))!r}")
        events = tuple(self._events)
        self._events.clear()
        return events

    def answers(self, answers: Sequence[Answer], ahead: Sequence[Known]) -> list[Json]:
        """Settle a call, or those of a batch; return what the guest gets for each, in order: a list for one alone,
        texts for a batch (ADR 0055). In a list, a tuple is a list as well, which is what text makes of it. Raises
        `UsageError`, with nothing settled, if one of them doesn't wait or is there twice."""
        if len(answers) == 1 and answers[0].call in self.waiting:
            return [freeze(self._answer(answers[0], ahead))]
        numbers = {answer.call for answer in answers if answer.call in self.waiting}
        if len(numbers) < len(answers):
            asked = ", ".join(str(answer.call) for answer in answers if answer.call not in numbers) or "one of them"
            raise UsageError(
                f"Call {asked} does not wait for an answer, or for one only.", hint="Answer a pending call, once."
            )
        self._travelling = {self.waiting[answer.call]: answer.call for answer in answers}
        *most, last = answers
        return [*("+" + dumps(self._answer(answer, ())) for answer in most), "!" + dumps(self._answer(last, ahead))]

    def _answer(self, answer: Answer, ahead: Sequence[Known]) -> list[Json]:
        told = self._outcome(answer.outcome, self.waiting.pop(answer.call))
        if ahead:
            told.append(self.table(ahead))
        return told

    def table(self, ahead: Sequence[Known]) -> str:
        """Return the text of a table of known answers."""
        self._known.update(known.identity for known in ahead)
        return dumps({known.identity: self._outcome(known.outcome, known.identity) for known in ahead})

    def returned(self, text: object) -> Returned:
        """Return the end that a result's JSON text says."""
        return Returned(self._parse(text))

    def raised(
        self, kind: str, message: str, lines: Sequence[tuple[int, str]], failure: Sequence[object] = ()
    ) -> Raised:
        """Return the end that an uncaught exception says: its class's name, its text, (annotated line, function) of
        the script's frames, and for a `CapabilityError` its (code, message, retryable, identity)."""
        known = self._script.line_map
        frames = tuple((known[line - 1], name[:200]) for line, name in lines if 1 <= line <= len(known))
        if len(failure) != 4:
            return Raised(kind[:200], message[:MAX_TEXT], frames=known_frames(self._script.source, frames, kind))
        code, said, _, identity = (str(part) for part in failure)
        frames = known_frames(self._script.source, frames, "CapabilityError")
        return Raised(
            "CapabilityError",
            said[:MAX_TEXT],
            code=code[:200],
            identity=identity if identity in self._failed else "",
            frames=frames,
        )

    def _outcome(self, outcome: Outcome, identity: str) -> list[Json]:
        if isinstance(outcome, Success):
            return [1, outcome.value]
        name = outcome.identity or identity
        self._failed.add(name)
        return [0, outcome.code, outcome.message, outcome.retryable, name]

    def _count(self) -> None:
        self._announced += 1
        if self._announced > self._limits.calls:
            over("calls", f"The script made more than {self._limits.calls:,} calls, fan-outs and log lines.")

    def _parse(self, text: object) -> object:
        if not isinstance(text, str):
            refuse("a value isn't JSON text")
        if len(text) > self._limits.message:
            over("message", f"The script sent {len(text):,} characters at once; the limit is {self._limits.message:,}.")
        try:
            value, end = _DECODER.raw_decode(text)
        except (ValueError, RecursionError):
            refuse("a value isn't JSON text")
        if end != len(text):
            refuse("a value isn't JSON text")
        return value

    def _serve(self, served: object) -> None:
        lines = served.split("\n") if isinstance(served, str) else []
        if not lines or len(lines) % 4:
            refuse("what it served is malformed")
        events, known, identities = self._events, self._known, self._identities
        for identity, capability, take, text in zip(*(iter(lines),) * 4, strict=True):
            # The host named it itself, so that it needn't be looked at as a path; whether it is this source's and what
            # is called there, the kernel sees.
            if not capability:
                events.append(Handed(self._arrived(identity)))
                continue
            if identity not in known:
                refuse(f"it served a call that nobody answered: {identity!r}")
            if identity in identities:
                refuse(f"it made a call twice: {identity!r}")
            identities.add(identity)
            self._count()
            events.append(Served(identity, capability, self._parse(text), _take(take), text))

    def _arrived(self, identity: str) -> int:
        number = self._travelling.pop(identity, None)
        if number is None:
            refuse(f"it took an answer that wasn't given to it: {identity!r}")
        return number

    def _call(self, identity: object, capability: object, text: object, take: object) -> tuple[int, bool]:
        if not isinstance(identity, str) or not isinstance(capability, str) or type(take) is not int or take < 1:
            refuse("a call is malformed")
        name, main = self._paths.site(identity)
        race = name == "race"
        if capability != ("ctx.race" if race else name) or (name in FAN_OUTS and not race):
            refuse(f"{capability!r} is called at the place of {name!r}")
        if identity in self._identities:
            refuse(f"it made a call twice: {identity!r}")
        self._identities.add(identity)
        self._count()
        payload = self._parse(text)
        if race:
            self._races.add(identity)
        self._calls += 1
        self.waiting[self._calls] = identity
        self._events.append(Issued(self._calls, identity, capability, payload, take))
        return self._calls, main and not race

    def _fan(self, frame: object, method: object, branches: object, _: object) -> None:
        if not isinstance(frame, str) or not isinstance(method, str) or self._paths.site(frame)[0] != method:
            refuse("a fan-out is malformed")
        if method not in FAN_OUTS:
            refuse(f"{method!r} is no fan-out")
        if isinstance(branches, list) and method == "dag":
            width: int | tuple[str, ...] = tuple(name for name in branches if isinstance(name, str))
        elif type(branches) is int and branches >= 0 and method != "dag":
            width = branches
        else:
            refuse("a fan-out is malformed")
        self._count()
        self._paths.announce(frame, width)
        self._events.append(FanOut(frame, method, width))

    def _won(self, frame: object, winner: object, _: object, __: object) -> None:
        if not isinstance(frame, str) or type(winner) is not int or frame not in self._races:
            refuse("the end of a race is malformed")
        if frame in self.waiting.values():
            refuse("it ended a race before the host decided")
        self._paths.won(frame, winner)
        lost, kept = f"{frame}[", f"{frame}[{winner}] > "
        for number, identity in list(self.waiting.items()):
            if identity.startswith(lost) and not identity.startswith(kept):
                del self.waiting[number]
        self._events.append(RaceEnded(frame, winner))

    def _say(self, kind: object, text: object, _: object, __: object) -> None:
        if not isinstance(text, str) or (kind != "log" and kind != "phase"):
            refuse("a log line is malformed")
        self._count()
        self._said += len(text.encode("utf-8", "surrogatepass"))
        if self._said > self._limits.output:
            over("output", f"The script logged more than {self._limits.output:,} bytes.")
        self._events.append(Said("log" if kind == "log" else "phase", text))

    def _handed(self, *_: object) -> None:
        """What arrived is said with every message."""

    def _end(self, *_: object) -> None:
        self.ended = True


def _take(text: str) -> int:
    """Return a take that was sent as text, within what a script may ask for."""
    if text == "1":
        return 1
    if not positive(text):
        refuse(f"a take is malformed: {text[:20]!r}")
    return int(text)


def over(limit: str, message: str) -> Never:
    """Raise: the script ran over a limit of the sandbox, named by its field in `Limits`."""
    raise LimitExceeded(message, hint="Make the script smaller, or raise the limit.", limit=limit)
