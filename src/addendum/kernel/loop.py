"""The loop of DESIGN section 1, as a generator that yields what it needs and never waits.

Whoever drives it answers each request; a run, a plan, a step by hand are the same loop with another driver:

| request | the driver | answers with |
| --- | --- | --- |
| `Start` | opens the session and runs the script to quiescence | a `Turn`, or `Astray` |
| `HandOver` | hands a record's outcome over (and others after it) and runs on to quiescence | the same |
| `Bind` | notes that records belong to other identities from here on | None, or a `Halt` |
| `Settle` | decides on new calls, and sends those that may be sent | what is settled at once, a `Halt`, or `Held` |
| `Wait` | waits until at least one call in flight is settled | those records in order; none if nothing can come |

The rules that the loop keeps: results are handed over one at a time, and the script runs to quiescence in between;
while any pending call has a record, the one with the lowest sequence number is handed over; calls are given to
`Settle` only when none has. Recorded reads and race winners are settled before anything is sent.

Results are handed over in batches where that comes to the same (`kernel.batch`): the loop then takes the same steps,
one for each `Handed` event, and goes astray if one of them isn't the step that it would have taken by itself.
"""

from __future__ import annotations

import heapq
from collections import deque
from collections.abc import Callable, Generator, Iterable, Iterator
from dataclasses import dataclass, field
from typing import Any, Final, TypeAlias

from addendum import canon
from addendum.errors import NotJson, StopKind
from addendum.identity import JOIN
from addendum.kernel import binding
from addendum.kernel.batch import MOST, Batches
from addendum.kernel.binding import Binding
from addendum.kernel.calls import Call, Handled, raced
from addendum.kernel.claims import Ambiguous, Claims
from addendum.kernel.equals import EqualKey
from addendum.kernel.sources import Fate
from addendum.ports import End, FanOut, Handed, Issued, RaceEnded, Said, Served, Turn
from addendum.records.history import Record

PRETENDED: Final = frozenset({"ctx.race", "ctx.sleep"})
"""Recorded reads that stop no shadow: their answers depend on nothing outside."""


@dataclass(frozen=True, slots=True)
class Start:
    """Start the script."""


@dataclass(frozen=True, slots=True)
class HandOver:
    """Hand a record's outcome to a call, and those of `batch` after it, all in one turn."""

    call: Call
    record: Record
    batch: tuple[tuple[Call, Record], ...] = ()


@dataclass(frozen=True, slots=True)
class Bind:
    """These calls claimed records of other identities (trace-proven)."""

    claims: tuple[tuple[Call, Record], ...]
    late: bool = False
    """They come after what went before: they were claimed when nothing else could go on, or are `lost`."""
    lost: bool = False
    """A race's losers made the calls: what they are after is handed to nobody, now or in a replay."""


@dataclass(frozen=True, slots=True)
class Settle:
    """These calls have no record."""

    calls: tuple[Call, ...]


@dataclass(frozen=True, slots=True)
class Wait:
    """Nothing can go on without an answer."""


@dataclass(frozen=True, slots=True)
class Held:
    """The answer to `Settle` of a driver that sends nothing: the calls wait, and may still claim a record."""


Request: TypeAlias = Start | HandOver | Bind | Settle | Wait


@dataclass(frozen=True, slots=True)
class Halt:
    """A stop: what was found at which call, and the way out. Nothing is sent after it."""

    kind: StopKind
    message: str
    hint: str = ""
    call: Call | None = None
    facts: dict[str, Any] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Finished:
    """The script came to its end."""

    end: End


@dataclass(frozen=True, slots=True)
class Halted:
    """The run was stopped."""

    halt: Halt


@dataclass(frozen=True, slots=True)
class Suspended:
    """Every strand waits for a call that nobody is going to answer now."""

    calls: tuple[Call, ...]


@dataclass(frozen=True, slots=True)
class Astray:
    """The script asked for something else than what travelled ahead of it, did something else than what a `batch` rests
    on, or took too long for a turn with either: start again without that. `identity` is that of the call or fan-out
    where it was seen; empty if nothing may travel ahead."""

    identity: str
    batch: bool = False


Result: TypeAlias = Finished | Halted | Suspended | Astray
Reply: TypeAlias = "Turn | Astray | list[Record] | Halt | Held | None"


_LATE: Final = 1 << 59
"""Above every sequence number: the order of claims that are made late, within one execution."""
LATE: Final = (*((here, apart) for here in (True, False) for apart in (0, 1, 2)), (True, 3), (False, 3))
EARLY: Final = ((True, 0), (False, 0), (False, 1))
"""The passes of a matching: only records of a call's own place or all, and how unlike branches may be. What a call that
failed would take from another comes last, when nothing else is found."""


@dataclass(slots=True)
class Loop:
    """One execution of a script over a prefix. `notice` is told what the script said and what was handed over; None if
    nobody watches."""

    claims: Claims
    notice: Callable[[dict[str, Any]], None] | None = None
    max_payload: int = 1024 * 1024
    handled: Handled = field(default_factory=Handled)
    pending: dict[int, Call] = field(default_factory=dict)
    served: int = 0
    """Records of earlier executions that were handed over, without recorded reads."""
    calls: int = 0
    told: int = 0
    """How many events `notice` had."""
    silent: int = 0
    """So many events were told by an execution that went astray, and aren't told again."""
    batches: Batches | None = None
    """Which results go in batches, None if none does."""
    _ready: list[tuple[int, int, Record]] = field(default_factory=list)
    _unmatched: dict[int, Call] = field(default_factory=dict)
    _fresh: dict[int, Call] = field(default_factory=dict)
    _issuing: dict[int, Call] = field(default_factory=dict)
    """Calls of this turn that have no record of their own."""
    _lost: list[Call] = field(default_factory=list)
    _late: int = 0
    lost: set[str] = field(default_factory=set)
    """Identities of calls that lost a race since the driver looked last: what of them wasn't sent is never sent."""
    _new: set[int] = field(default_factory=set)
    _settling: dict[str, EqualKey] = field(default_factory=dict)
    """Calls that the driver has and that aren't settled: what each identity asked for. None is decided on twice."""
    _waiting: dict[str, Call] = field(default_factory=dict)
    _binding: Binding = field(init=False)

    def __post_init__(self) -> None:
        self._binding = Binding(self.claims.sources.candidate)

    def run(self) -> Generator[Request, Reply, Result]:
        """Yield requests until the script ends, is stopped, or waits for what can't come."""
        turn = yield Start()
        left: deque[int] = deque()
        while True:
            if isinstance(turn, Astray):
                return turn
            assert isinstance(turn, Turn)
            astray = self._ingest(turn, left)
            if astray is not None:
                return astray
            if left:
                binding.refuse("it took an answer and never said so")
            claims = self._match_lost() if self._lost else ()
            if claims and isinstance(reply := (yield Bind(claims, late=True, lost=True)), Halt):
                return Halted(reply)
            claims = self._match_new()
            if claims and isinstance(reply := (yield Bind(claims)), Halt):
                return Halted(reply)
            if turn.end is not None:
                if self.pending:
                    binding.refuse("the script came to its end while calls of it wait")
                return Finished(turn.end)
            while not self._ready:
                claims = self._match(self._unmatched)
                if claims:
                    if isinstance(reply := (yield Bind(claims, late=True)), Halt):
                        return Halted(reply)
                    continue
                settled = yield from self._settle()
                if isinstance(settled, Halt):
                    return Halted(settled)
                if not settled:
                    return Suspended(tuple(self.pending.values()))
                self._arrive(settled)
            step = self._next()
            if step.batch:
                left.extend(call.number for call in (step.call, *(other for other, _ in step.batch)))
            turn = yield step
            step.call.forget()

    def again(self, fresh: Loop) -> Loop:
        """Let a fresh loop do the execution once more that went astray in this one, and return it: nothing is told
        twice, what this one saw settled is new to it, too, and what the driver has it goes on to have."""
        fresh.silent = max(self.told, self.silent)
        fresh._new, fresh._settling = self._new, self._settling
        return fresh

    def rewritten(self) -> list[tuple[int, str]]:
        """Return what was handed over where it stood though it is written otherwise there, or was given up: seq and
        identity. These records, recorded reads too, are kept in the terms of this source, and are in use; a plan and a
        run ask the same."""
        claims, records = self.claims, self.claims.sources.history.records
        return [
            (seq, at)
            for seq, at in claims.handed.items()
            if (record := records.get(seq)) is not None
            and record.identity == at
            and (claims.fate(record) is not Fate.SAME or record.given_up)
        ]

    def _settle(self) -> Generator[Request, Reply, list[Record] | Halt]:
        while self._fresh:
            every = tuple(self._fresh.values())
            calls = tuple(call for call in every if call.is_read) or every
            for call in calls:
                del self._fresh[call.number]
            reply = yield Settle(calls)
            if isinstance(reply, Halt):
                return reply
            if not isinstance(reply, Held):
                for call in calls:
                    self._unmatched.pop(call.number, None)
                    self._settling[call.identity] = call.call
                assert isinstance(reply, list)
                if reply:
                    return reply
        reply = yield Wait()
        if isinstance(reply, Halt):
            return reply
        assert isinstance(reply, list)
        return reply

    def _ingest(self, turn: Turn, left: deque[int]) -> Astray | None:
        """Take what the script did. `left` are the calls of a batch whose answers haven't arrived: their numbers, in
        order. The first of them was taken when it was handed over."""
        first = left[0] if left else None
        for event in turn.events:
            match event:
                case Issued():
                    self._issued(event)
                case Served():
                    if not self._served(event):
                        return Astray(event.identity)
                case FanOut() | RaceEnded() if left:
                    return Astray(event.frame, batch=True)  # another strand may go on before the next answer arrives
                case FanOut():
                    self.claims.see_width(event.frame, event.branches)
                case RaceEnded():
                    self._race_ended(event)
                case Handed(number) if number == first:
                    left.popleft()
                    first = None
                case Handed(number):
                    if not self._arrived(number, left):
                        return Astray(self.pending[number].identity if number in self.pending else "", batch=True)
                case Said():
                    self._tell({"event": event.kind, "text": event.text})
        return None

    def _arrived(self, number: int, left: deque[int]) -> bool:
        """Take the step that hands one more result over, if it is the one that would be taken now."""
        if self._match_new():
            return False
        if not left or left.popleft() != number or not self._ready or self._ready[0][1] != number:
            return False
        self._take().call.forget()
        return True

    def _issued(self, event: Issued) -> None:
        if event.call in self.pending:
            binding.refuse(f"two calls have the number {event.call}")
        call = self._call(event)
        self.pending[call.number] = self._waiting[call.identity] = call
        record = self._own(call)
        if record is not None:
            heapq.heappush(self._ready, (record.order, call.number, record))
        elif call.identity in self._settling:
            if self._settling[call.identity] != call.call:
                binding.refuse(f"it asks for something else than before: {call.identity!r}")
        else:
            self._unmatched[call.number] = self._fresh[call.number] = self._issuing[call.number] = call

    def _served(self, event: Served) -> bool:
        call = self._recorded(event) or self._call(event)
        record = self._own(call)
        if record is None:
            return False
        self._hand(call, record)
        call.forget()
        return True

    def _recorded(self, event: Served) -> Call | None:
        """Return a call that is, by its text, the one that was recorded at its identity, whose place is as it was: it
        was bound to the source's positions when it was committed, and its payload needn't be written anew."""
        claims, text, take = self.claims, event.text, event.take
        there = claims.prefix.get(event.identity)
        if there is None or text is None or type(take) is not int or event.capability != there.capability:
            return None
        if claims.fate(there) is not Fate.SAME or event.identity in claims.made:
            return None
        if canon.payload_digest(text.encode("utf-8", "surrogatepass"), take) != there.digest:
            return None
        return self._called(Call(0, event.identity, there.capability, None, b"", there.digest, take))

    def _call(self, event: Issued | Served) -> Call:
        claims, identity = self.claims, event.identity
        self._binding.check(event)
        if identity in claims.made:
            binding.refuse(f"it made a call twice: {identity!r}")
        there = claims.prefix.get(identity)
        if there is None or claims.fate(there) is not Fate.SAME:
            self._binding.check_path(identity)
        refused = ""
        try:
            data = canon.canonical(event.payload, max_bytes=self.max_payload)
        except NotJson as error:
            refused, data = str(error), b"null"
        digest = canon.payload_digest(data, event.take)
        if there is not None and there.digest == digest:
            digest = there.digest  # one text for both: a long run has many
        number = event.call if isinstance(event, Issued) else 0
        payload: Any = event.payload if not refused else None
        return self._called(Call(number, identity, event.capability, payload, data, digest, event.take, refused))

    def _called(self, call: Call) -> Call:
        self.calls += not call.is_read
        self.claims.see(call)
        self.handled.called(call)
        return call

    def _own(self, call: Call) -> Record | None:
        record = self.claims.own(call)
        if record is not None:
            self.claims.take(call, record)
        return record

    def _match_new(self) -> tuple[tuple[Call, Record], ...]:
        """Let the calls that were just made claim what they may claim at once."""
        if not self._issuing:
            return ()
        found = self._match(self._issuing, early=True)
        self._issuing.clear()
        return found

    def _match(self, numbers: Iterable[int], *, early: bool = False) -> tuple[tuple[Call, Record], ...]:
        """Let calls that have no record of their own claim a vacated one (rule 2), like places and branches first.

        `early`, right when they are made, so that results are handed over in the order of their sequence numbers: only
        where the call stands where the record's was expected, or branches and iterations are the same and nothing can
        be learned any more. The others when nothing else is ready.
        """
        unmatched, equals = self._unmatched, self.claims.equals
        numbers = [number for number in numbers if (call := unmatched.get(number)) and equals(call.call)]
        if not numbers:
            return ()
        found: list[tuple[Call, Record]] = []
        for here, apart in EARLY if early else LATE:
            if apart == 3 and (found or not self.claims.failed):
                break
            for number in numbers:
                call = unmatched.get(number)
                if call is None:
                    continue
                record = self.claims.moved(call, apart=apart, here=here)
                if record is None or isinstance(record, Ambiguous):
                    continue
                doubtful = early and (apart > 0 or self.claims.reachable(call) is not None)
                if doubtful and not self.claims.foreseen(record, call):
                    continue
                self.claims.take(call, record)
                found.append((call, record))
                del unmatched[number]
                self._fresh.pop(number, None)
        found.sort(key=lambda claim: claim[1].order)
        for call, record in found:
            self._late += not early
            heapq.heappush(self._ready, (record.order if early else _LATE + self._late, call.number, record))
        return tuple(found)

    def _match_lost(self) -> tuple[tuple[Call, Record], ...]:
        """Let the calls of a race's losers have the records of their place: they are handed over to nobody."""
        found: list[tuple[Call, Record]] = []
        for call in self._lost:
            record = self.claims.moved(call, here=True)
            if isinstance(record, Record):
                self.claims.take(call, record)
                found.append((call, record))
        self._lost.clear()
        return tuple(found)

    def _arrive(self, records: list[Record]) -> None:
        """Calls in flight were settled."""
        for record in records:
            self._new.add(record.seq)
            self._settling.pop(record.origin, None)
            call = self._waiting.get(record.origin)
            # A race's loser is finished and kept, but nobody waits for it any more.
            if call is not None:
                self.claims.claimed[record.seq] = call
                heapq.heappush(self._ready, (record.seq, call.number, record))

    def _next(self) -> HandOver:
        step = self._take()
        if self.batches is None or not self._ready:
            return step
        batch = self.batches.after(step.call, step.record, self._upcoming())
        return HandOver(step.call, step.record, batch) if batch else step

    def _upcoming(self) -> Iterator[tuple[Call, Record]]:
        """Yield what is ready, in the order of hand-over, as much as goes into a batch."""
        _, number, record = self._ready[0]
        yield self.pending[number], record  # mostly it is this one that ends a batch, and the others needn't be sorted
        for _, number, record in heapq.nsmallest(MOST - 1, self._ready)[1:]:
            yield self.pending[number], record

    def _take(self) -> HandOver:
        _, number, record = heapq.heappop(self._ready)
        call = self.pending.pop(number)
        self._waiting.pop(call.identity, None)
        self._unmatched.pop(number, None)
        self._hand(call, record)
        return HandOver(call, record)

    def _hand(self, call: Call, record: Record) -> None:
        self.claims.handed[record.seq] = call.identity
        if not record.ok:
            self.handled.handed(record.seq, call.parts)
        if record.source == self.claims.revision and not self.claims.beyond:
            self.claims.beyond = record.capability not in PRETENDED or self._overtook(call)
        if record.is_read:
            return
        replayed = record.seq not in self._new
        self.served += replayed
        if self.notice is not None:
            self._tell(
                {
                    "event": "replayed" if replayed else "handed_over",
                    "identity": call.identity,
                    "capability": call.capability,
                    "seq": record.seq,
                    "ok": record.ok,
                }
            )

    def _overtook(self, call: Call) -> bool:
        """Whether a sleep was over while another branch of its race waits for new work: a shadow can't know that."""
        if call.capability != "ctx.sleep" or not self.claims.revision:
            return False
        return raced(call, [other for other in self.pending.values() if other.capability not in PRETENDED])

    def _tell(self, event: dict[str, Any]) -> None:
        if self.notice is None:
            return
        self.told += 1
        if self.told > self.silent:
            self.notice(event)

    def _race_ended(self, event: RaceEnded) -> None:
        """The losers' calls are nobody's: none is sent any more, none is handed over."""
        winner = f"{event.frame}[{event.winner}]{JOIN}"
        lost = [
            number
            for number, call in self.pending.items()
            if call.identity.startswith(f"{event.frame}[") and not call.identity.startswith(winner)
        ]
        for number in lost:
            identity = self.pending.pop(number).identity
            self.lost.add(identity)
            self._waiting.pop(identity, None)
            self._fresh.pop(number, None)
            call = self._unmatched.pop(number, None)
            self._issuing.pop(number, None)
            if call is not None:
                self._lost.append(call)
        gone = set(lost)
        if gone:
            self._ready = [entry for entry in self._ready if entry[1] not in gone]
            heapq.heapify(self._ready)
