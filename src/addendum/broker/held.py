"""What stands in the journal of a principal's accounts, as entries: holds, and what settles them.

Every call writes one of each, so their canonical bytes are put together here instead of being worked out of the body:
the keys are known, and so is their order. What is rare, or isn't ASCII, is left to the store.
"""

from __future__ import annotations

from collections.abc import Mapping
from json.encoder import encode_basestring
from typing import Any, TypeAlias

from addendum.authority.book import Hold
from addendum.canon import MAX_INT
from addendum.records.stored import Entry

Key: TypeAlias = "tuple[str, int]"
"""A run and the number of one of its attempts."""


def hold_entry(key: Key, hold: Hold, at: float) -> Entry:
    """Return the entry that a call is about to be sent, at a time in seconds since 1970."""
    run, number = key
    at_ms = round(at * 1000)
    name, cost, out, back, tokens, seconds, agentic, _, targets = hold
    if seconds or agentic or cost > MAX_INT or out > MAX_INT or back > MAX_INT or tokens > MAX_INT:
        return Entry("hold", {"run": run, "attempt": number, "at_ms": at_ms, **hold_body(hold)})
    body: dict[str, Any] = {
        "run": run,
        "attempt": number,
        "at_ms": at_ms,
        "capability": name,
        "cost": cost,
        "bytes_out": out,
    }
    taken = seen = said = ""
    if back:
        body["bytes_in"] = back
        taken = f',"bytes_in":{back}'
    if targets:
        body["targets"] = targets
        values = [f'{encode_basestring(meter)}:"{targets[meter]}"' for meter in sorted(targets)]
        seen = f',"targets":{{{",".join(values)}}}'
    if tokens:
        body["tokens"] = tokens
        said = f',"tokens":{tokens}'
    text = (
        f'{{"at_ms":{at_ms},"attempt":{number}{taken},"bytes_out":{out},"capability":{encode_basestring(name)},'
        f'"cost":{cost},"run":{encode_basestring(run)}{seen}{said}}}'
    )
    return Entry("hold", body, text.encode() if text.isascii() else None)


def settle_entry(key: Key, cost: int, tokens: int, bytes_in: int, micros: int) -> Entry:
    """Return the entry that says what became of a call: what it really took, in nano-dollars and microseconds."""
    run, number = key
    body: dict[str, Any] = {"run": run, "attempt": number}
    back = paid = took = said = ""
    if bytes_in:
        body["bytes_in"] = bytes_in
        back = f',"bytes_in":{bytes_in}'
    if cost:
        body["cost"] = cost
        paid = f',"cost":{cost}'
    if micros:
        body["micros"] = micros
        took = f',"micros":{micros}'
    if tokens:
        body["tokens"] = tokens
        said = f',"tokens":{tokens}'
    text = f'{{"attempt":{number}{back}{paid}{took},"run":{encode_basestring(run)}{said}}}'
    rare = cost > MAX_INT or tokens > MAX_INT or bytes_in > MAX_INT or micros > MAX_INT or not text.isascii()
    return Entry("settle", body, None if rare else text.encode())


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
