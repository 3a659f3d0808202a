"""Batches: results that may be handed over in one turn. Nobody may see that they didn't come one at a time, with the
script quiet in between (DESIGN section 1).

A result leads its strand to where that waits again or ends. Nothing else goes on in between if all are for direct
branches of one `parallel` or `pipeline`, the last of them at the earliest ends its barrier, none of them decides a
race, and none but the last starts a fan-out. The calls show all of that but for the fan-out, which is guessed from the
source and seen when it happens: then the loop goes astray, and its driver starts again, one result at a time. So it is
with the order: a strand may go on to a call whose record comes before the next one's.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Final

from addendum import identity as ids
from addendum.kernel.calls import Call
from addendum.records.history import Record
from addendum.script.program import Program

MOST: Final = 128
"""Results in a batch, at most."""
MOST_BYTES: Final = 1024 * 1024
"""Bytes of JSON in a batch, about: nothing is added to one that has more."""


@dataclass(frozen=True, slots=True)
class Batches:
    """The batches of one execution. `line` are the places in the order of hand-over of the records that there were
    before it, ascending; `size` gives a result's bytes of JSON."""

    line: tuple[int, ...]
    size: Callable[[Record], int]

    def after(
        self, call: Call, record: Record, ready: Iterable[tuple[Call, Record]]
    ) -> tuple[tuple[Call, Record], ...]:
        """Return those of `ready`, in the order of hand-over, that may be in one batch with a call's record."""
        fan = _fan(call)
        if fan is None:
            return ()
        found: list[tuple[Call, Record]] = []
        room = MOST_BYTES - self.size(record)
        for other, next_one in ready:
            if room < 0 or _fan(other) != fan or self._between(record.order, next_one.order):
                break
            found.append((other, next_one))
            record = next_one
            room -= self.size(record)
        return tuple(found)

    def _between(self, before: int, after: int) -> bool:
        """Whether a record stands between two places."""
        following = bisect_right(self.line, before)
        return following < len(self.line) and self.line[following] < after


def batches(program: Program, records: Iterable[Record], size: Callable[[Record], int]) -> Batches | None:
    """Return the batches of a source. None if it has fan-outs in more than one function: a branch of one may start
    another, as far as anybody can see without more."""
    functions = {position.function for position in program.positions.values() if position.kind == "fanout"}
    if len(functions) != 1:
        return None
    return Batches(tuple(sorted(record.order for record in records)), size)


def _fan(call: Call) -> str | None:
    """Return the fan-out that a call's strand is a direct branch of, None if it goes in no batch. A race's decision
    ends strands of its own before it leads its branch on."""
    return None if call.capability == "ctx.race" else ids.fan_out(call.identity)
