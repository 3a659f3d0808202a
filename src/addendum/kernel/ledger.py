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
    places: dict[int, Literal["new", "within", "beyond"]] = {}
    for record in equal:
        if not record.ok or record.drive >= drive:
            continue
        if record.source not in places:
            places[record.source] = _place(call, sources, record.source)
        place = places[record.source]
        if place == "within":
            continue
        kind: Literal["repeat", "look-alike"] = "look-alike"
        if place == "beyond" and (
            ids.place(record.origin) == call.place or sources.had_written(record.source, call.place)
        ):
            kind = "repeat"
        denied = policy == "deny" or (policy == "auto" and kind == "repeat" and side_effecting)
        if worst is None or (kind == "repeat" and worst.kind == "look-alike"):
            worst = Finding(kind, call, record, denied)
        if kind == "repeat":
            break
    return worst


def _place(call: Call, sources: Sources, source: int) -> Literal["new", "within", "beyond"]:
    """Say whether a call's place is new to a source, or the call lies within its bounds there, or beyond them."""
    if not sources.has_place(source, call.place):
        return "new"
    return "within" if within(call.parts, sources.program(source)) else "beyond"
