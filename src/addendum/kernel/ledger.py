"""The ledger: before a call at a new identity is sent, was an equal one paid for already? (DESIGN section 4)"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Literal, TypeAlias

from addendum import identity as ids
from addendum.kernel.calls import Call
from addendum.kernel.sources import Sources, within
from addendum.records.history import Record

LedgerPolicy: TypeAlias = Literal["off", "warn", "deny", "auto"]


@dataclass(frozen=True, slots=True)
class Finding:
    """A call that looks like one that was paid for. A *repeat* stands at a place that the record's source had, beyond
    that source's bounds; a *look-alike* at a place that is new to it, or only has the number of another call's."""

    kind: Literal["repeat", "look-alike"]
    call: Call
    record: Record
    denied: bool


def find(
    call: Call,
    equal: Iterable[Record],
    sources: Sources,
    *,
    drive: int,
    policy: LedgerPolicy,
    side_effecting: bool,
) -> Finding | None:
    """Return the worst finding for a call among the records that are equal to it, None if there is none.

    Only what an earlier attempt paid for counts. A place that the record's own source had, within that source's
    bounds, is no finding; for a moved record its original source counts.
    """
    if policy == "off":
        return None
    worst: Finding | None = None
    for record in equal:
        if not record.ok or record.drive >= drive:
            continue
        program = sources.program(record.source)
        if not sources.has_place(record.source, call.place):
            kind: Literal["repeat", "look-alike"] = "look-alike"
        elif within(call.parts, program):
            continue
        else:
            widened = ids.place(record.origin) == call.place or sources.had_written(record.source, call.place)
            kind = "repeat" if widened else "look-alike"
        denied = policy == "deny" or (policy == "auto" and kind == "repeat" and side_effecting)
        if worst is None or (kind == "repeat" and worst.kind == "look-alike"):
            worst = Finding(kind, call, record, denied)
        if kind == "repeat":
            break
    return worst
