"""What stands in the journal of a principal's accounts, as entries: holds, and what settles them."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, TypeAlias

from addendum.authority.book import Hold
from addendum.records.stored import Entry

Key: TypeAlias = "tuple[str, int]"
"""A run and the number of one of its attempts."""


def hold_entry(key: Key, hold: Hold, at: float) -> Entry:
    """Return the entry that a call is about to be sent, at a time in seconds since 1970."""
    run, number = key
    return Entry("hold", {"run": run, "attempt": number, "at_ms": round(at * 1000), **hold_body(hold)})


def settle_entry(key: Key, cost: int, tokens: int, bytes_in: int, micros: int) -> Entry:
    """Return the entry that says what became of a call: what it really took, in nano-dollars and microseconds."""
    run, number = key
    body: dict[str, Any] = {"run": run, "attempt": number}
    if bytes_in:
        body["bytes_in"] = bytes_in
    if cost:
        body["cost"] = cost
    if micros:
        body["micros"] = micros
    if tokens:
        body["tokens"] = tokens
    return Entry("settle", body)


def hold_body(hold: Hold) -> dict[str, Any]:
    """Return a hold as it stands in an entry; what is nothing is left out."""
    found: dict[str, Any] = {"capability": hold.capability, "cost": hold.cost, "bytes_out": hold.bytes_out}
    if hold.bytes_in:
        found["bytes_in"] = hold.bytes_in
    if hold.tokens:
        found["tokens"] = hold.tokens
    if hold.seconds:
        found["micros"] = round(hold.seconds * 1_000_000)
    if hold.agentic:
        found["agentic"] = True
    if hold.targets:
        found["targets"] = dict(hold.targets)
    return found


def hold_from(body: Mapping[str, Any]) -> Hold:
    """Read a hold from an entry."""
    return Hold(
        body["capability"],
        body["cost"],
        body["bytes_out"],
        body.get("bytes_in", 0),
        body.get("tokens", 0),
        body.get("micros", 0) / 1_000_000,
        body.get("agentic", False),
        targets=body.get("targets", {}),
    )
