"""The crash window, closed by a person or by the provider's own word (DESIGN section 4)."""

from __future__ import annotations

import threading
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from addendum import canon
from addendum.authority.catalog import Catalog
from addendum.broker.dispatch import Dispatcher
from addendum.broker.journal import Journal, stow
from addendum.canon import Digest, Json
from addendum.errors import NotJson
from addendum.records import entries
from addendum.records.entries import Attempt, Ref, Settled
from addendum.records.history import History
from addendum.records.outcome import Success
from addendum.records.stored import Entry, Stored


def unresolved(history: History) -> list[Attempt]:
    """Return the attempts that were sent and have no result; those that wait for a person are not among them."""
    return [attempt for attempt in history.attempts.values() if not attempt.waits]


def waiting(history: History) -> list[Attempt]:
    """Return the open approvals: questions that nobody has answered."""
    return [attempt for seq, attempt in history.attempts.items() if attempt.waits and seq not in history.answers]


@dataclass(frozen=True, slots=True)
class Question:
    """What a rule of the grant asks a person about one call. `most` is what the call may cost, in nano-dollars;
    `instead` is the payload that was asked about before at the same place, if this is another one."""

    seq: int
    identity: str
    capability: str
    digest: Digest
    rule: str
    most: int
    payload: Ref
    instead: Ref | None = None
    key: str = ""


def questions(history: History) -> list[Question]:
    """Return the open questions of the grant's rules, oldest first."""
    return [
        Question(
            seq,
            body["identity"],
            body["capability"],
            body["digest"],
            body["rule"],
            body["most"],
            entries.ref(body["payload"]),
            entries.ref(body["instead"]["payload"]) if "instead" in body else None,
        )
        for seq, body in history.asks.items()
    ]


def difference(before: Json, after: Json, at: str = "") -> dict[str, list[Json]]:
    """Return what differs between two values, by JSON pointer: what was and what is, null for nothing."""
    if isinstance(before, dict) and isinstance(after, dict):
        found: dict[str, list[Json]] = {}
        for key in sorted({*before, *after}):
            token = key.replace("~", "~0").replace("/", "~1")
            found.update(difference(before.get(key), after.get(key), f"{at}/{token}"))
        return found
    return {} if before == after else {at: [before, after]}


def answered(attempt: Attempt, value: Json, by: str, *, cost: int = 0) -> tuple[Entry, dict[Digest, bytes]]:
    """Return the record that an attempt gets from the outside, and the blob it may need. `by` says who answered."""
    blobs: dict[Digest, bytes] = {}
    result = stow(canon.canonical(value), value, blobs)
    settled = Settled(
        identity=attempt.identity,
        capability=attempt.capability,
        fingerprint=attempt.fingerprint,
        digest=attempt.digest,
        outcome=Success(value),
        result=result,
        revision=attempt.revision,
        drive=attempt.drive,
        attempt=attempt.seq,
        cost=cost,
        supersedes=attempt.supersedes,
        by=by,
    )
    return settled.entry(), blobs


def commit_answers(journal: Journal) -> list[Stored]:
    """Write the records for answers of people that no record holds yet, and return them."""
    history = journal.history
    found = [
        answered(history.attempts[seq], body["result"], body["by"])
        for seq, body in history.answers.items()
        if seq in history.attempts
    ]
    if not found:
        return []
    blobs = {digest: data for _, some in found for digest, data in some.items()}
    return journal.append(*(entry for entry, _ in found), blobs=blobs)


def abandoned(attempts: Sequence[Attempt], by: str, reason: str) -> list[Entry]:
    """Return the entries that declare attempts void: each call may be sent once more."""
    return [Entry("abandon", {"attempt": attempt.seq, "by": by, "reason": reason}) for attempt in attempts]


def ask_providers(
    journal: Journal, catalog: Catalog, dispatcher: Dispatcher, stop: threading.Event
) -> list[dict[str, Any]]:
    """Ask providers that can say it what became of unresolved attempts, by their idempotency keys.

    Returns what was resolved. An answer that isn't JSON leaves the attempt as it is. Those that take long to answer
    don't cost the run's lease, and once a stop is asked for no other is asked.
    """
    found: list[dict[str, Any]] = []
    for attempt in unresolved(journal.history):
        if stop.is_set():
            break
        capability = catalog.get(attempt.capability)
        if capability is None or not capability.lookup:
            continue
        reply = dispatcher.lookup(attempt.capability, attempt.key)
        if journal.lease is not None:
            journal.store.renew(journal.lease)
        if reply is None:
            continue
        cost = capability.price if reply.usage.cost is None else reply.usage.cost
        try:
            entry, blobs = answered(attempt, reply.value, "lookup", cost=cost)  # type: ignore[arg-type]
        except NotJson:
            continue
        journal.append(entry, blobs=blobs)
        found.append({"identity": attempt.identity, "capability": attempt.capability, "attempt": attempt.number})
    return found
