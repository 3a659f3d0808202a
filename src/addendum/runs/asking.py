"""What a run asks a person: calls that a person answers, and calls that the grant's rules want to have approved."""

from __future__ import annotations

from typing import Any

from addendum.broker.journal import Journal
from addendum.broker.reconcile import questions, waiting
from addendum.ports import Store


def open_asks(store: Store, run: str) -> list[dict[str, Any]]:
    """Return what nobody has answered yet, oldest first: identity, idempotency key ("" for a question of the grant),
    capability, the rule that asks ("" for a call that a person answers), payload. Raises `NotFound`."""
    store.header(run)
    journal = Journal(store, run)
    history = journal.read()
    found = [(attempt.seq, attempt.key, attempt, "") for attempt in waiting(history)]
    found += [(each.seq, each.key, each, each.rule) for each in questions(history)]  # type: ignore[misc]
    return [
        {
            "identity": each.identity,
            "key": key,
            "capability": each.capability,
            "rule": rule,
            "payload": journal.value(each.payload),
        }
        for _, key, each, rule in sorted(found, key=lambda item: item[0])
    ]
