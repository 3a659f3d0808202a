"""What an operator does to a run beside driving it: reconcile, approve, change the grant, cancel."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any, TypeVar

from addendum import canon
from addendum.authority.catalog import WRITE
from addendum.authority.grant import Grant
from addendum.authority.permit import Permit
from addendum.broker.journal import Journal
from addendum.broker.principal import ledger_of, settling
from addendum.broker.reconcile import Question, abandoned, answered, questions, unresolved, waiting
from addendum.canon import Digest, Json
from addendum.errors import JournalMoved, NotFound, RunBusy, UsageError
from addendum.ports import Beside
from addendum.records.entries import Attempt
from addendum.records.stored import Entry
from addendum.runs import delegate
from addendum.runs.context import Context
from addendum.runs.given import narrowing
from addendum.runs.start import driving, give_back, under_ceiling

Open = TypeVar("Open", Attempt, Attempt | Question)

UNKNOWN: Any = object()
"""Stands for: the result isn't known."""


def reconcile(
    context: Context,
    run: str,
    *,
    result: Json = UNKNOWN,
    abandon: bool = False,
    which: Sequence[str] = (),
    reason: str = "",
    by: str = "",
) -> list[Attempt]:
    """Close unresolved attempts: with the known result, or as abandoned, which allows each call once more.

    `which` are identities or idempotency keys; all unresolved ones if it is empty. Returns the attempts that were
    closed. Raises `NotFound`, `RunBusy`, `NotJson`, and `UsageError` when nothing is unresolved.
    """
    if abandon is (result is not UNKNOWN):
        raise UsageError("Give the known result, or declare the attempts abandoned.", hint="One of the two.")
    if not abandon:
        canon.canonical(result, max_bytes=context.max_result)
    who = by or context.operator
    with driving(context, run) as journal:
        chosen = _chosen(unresolved(journal.history), which, run)
        if abandon:
            for attempt in chosen:  # each may be held in the accounts of another principal
                journal.append(*abandoned([attempt], who, reason))
            delegate.bring_back(context, journal)
            return chosen
        for attempt in chosen:
            capability = context.catalog.get(attempt.capability)
            entry, blobs = answered(attempt, result, who, cost=capability.price if capability else 0)
            journal.append(entry, blobs=blobs)
        delegate.bring_back(context, journal)
        return chosen


def approve(
    context: Context, run: str, *, approved: bool, note: str = "", which: Sequence[str] = (), by: str = ""
) -> list[Attempt | Question]:
    """Answer open approvals and questions of the grant's rules: those at the identities `which`, else all.

    Returns the ones that were answered. An answer to a question is for its payload, and for one call.

    While another process drives the run, the answers are left for it to pick up. Answering twice has no effect: the
    second, at the same moment too, finds nothing open and raises `UsageError`.
    """
    value: Json = {"approved": approved, "note": note}
    who = by or context.operator
    with _writing(context, run) as (journal, driven):
        chosen = _chosen(_open(journal), which, run, "waits for an approval")
        done: list[Attempt | Question] = []
        for attempt in chosen:
            blobs: dict[Digest, bytes] = {}
            if isinstance(attempt, Question):
                entry = Entry("allow", {"ask": attempt.seq, "approved": approved, "note": note, "by": who})
            elif driven:
                entry = Entry("answer", {"attempt": attempt.seq, "result": value, "by": who})
            else:
                entry, blobs = answered(attempt, value, who)
            if _first(journal, attempt, entry, blobs):
                done.append(attempt)
        return done or _chosen(done, (), run, "waits for an approval")


def _open(journal: Journal) -> list[Attempt | Question]:
    return [*waiting(journal.history), *questions(journal.history)]


def _first(journal: Journal, attempt: Attempt | Question, entry: Entry, blobs: dict[Digest, bytes]) -> bool:
    """Write an answer if nobody has given one, whoever else writes there. Returns whether it was."""
    while any(each.seq == attempt.seq for each in _open(journal)):
        history = journal.history
        beside = settling(journal.run, history, [entry]) or Beside(journal.run)
        try:
            journal.append(entry, blobs=blobs, beside=beside._replace(own=history.seq))
            return True
        except JournalMoved:
            journal.read()
    return False


def permit(context: Context, run: str, given: Permit, *, note: str = "", by: str = "") -> int:
    """Allow a counted aggregate of calls that the grant's rules would ask about, and return the number of the permit.

    A run that is driven sees it at once. Raises `NotFound`, also for a capability that there isn't, and `ConfigError`
    for a schema that is none.
    """
    if given.capability not in {*context.catalog, WRITE}:
        raise NotFound(
            f"There is no capability {given.capability!r} here.",
            hint=f"There are {', '.join(sorted(context.catalog))}.",
        )
    if given.where is not None:
        narrowing("The schema of the permit", given.where)
    with _writing(context, run) as (journal, _):
        body = {**given.body(), "note": note, "by": by or context.operator}
        (stored,) = [entry for entry in journal.append(Entry("permit", body)) if entry.kind == "permit"]
        return stored.seq


def set_grant(context: Context, run: str, grant: Grant, *, by: str = "") -> Grant:
    """Give a run another grant, within the ceiling; it counts from its next attempt on. Returns what it has.

    That of a child comes out of its parent's. Raises `NotFound`, `RunBusy`, and `Rejected` for what lies outside the
    ceiling or the parent's grant, and for less than the run's own children have.
    """
    within, who = under_ceiling(context, grant), by or context.operator
    with driving(context, run) as journal:
        if journal.history.parent:
            return delegate.give(context, journal, journal.history.parent, within, by=who)
        delegate.change(context, journal, within, who)
    return within


def revoke(context: Context, run: str, *, reason: str = "", by: str = "") -> list[str]:
    """End a run's authority: from its next reservation on nothing is sent, until it gets another grant.

    Its children's next reservations see it, too; what a child didn't use goes back to its parent. Returns the
    identities of calls that are held: sent, without an end. Raises `NotFound`.
    """
    with _writing(context, run) as (journal, driven):
        journal.append(Entry("revoke", {"by": by or context.operator, "reason": reason}))
        if not driven:
            delegate.bring_back(context, journal)
        return [attempt.identity for attempt in journal.history.attempts.values() if not attempt.waits]


def revoke_principal(
    context: Context, principal: str, *, restore: bool = False, reason: str = "", by: str = ""
) -> None:
    """End, or give back, the authority of all runs of a principal. Raises `NotFound` if it has no accounts."""
    entry = Entry("restore" if restore else "revoke", {"by": by or context.operator, "reason": reason})
    try:
        context.store.append(ledger_of(principal), [entry])
    except NotFound:
        raise NotFound(
            f"No run has counted for the principal {principal!r} in this store.",
            hint="A grant names it: `principal`. `addendum meters RUN --json` says whose accounts a run counts in.",
        ) from None


def accept_catalog(context: Context, run: str, *, by: str = "") -> str:
    """Accept that the catalog has changed since a run's last attempt. Returns the digest that is accepted.

    Raises `NotFound`, `RunBusy`.
    """
    with driving(context, run) as journal:
        found = context.catalog.digest
        blobs = {found: context.catalog.data}
        journal.append(Entry("catalog", {"catalog": found, "by": by or context.operator}), blobs=blobs)
        return found


def cancel(context: Context, run: str, *, by: str = "") -> bool:
    """Ask for the end of a run. Returns whether a process drives it now, which then stops before its next effect."""
    with _writing(context, run) as (journal, driven):
        if driven:
            journal.append(Entry("cancel", {"by": by or context.operator}))
        return driven


@contextmanager
def _writing(context: Context, run: str) -> Iterator[tuple[Journal, bool]]:
    """Write to a run's journal with its lease, or, while another process drives it, as an operator beside it."""
    try:
        lease = context.store.acquire(run)
    except RunBusy:
        journal = Journal(context.store, run)
        journal.read()
        yield journal, True
        return
    try:
        journal = Journal(context.store, run, lease)
        journal.read()
        yield journal, False
    finally:
        give_back(context.store, lease)


def _chosen(found: list[Open], which: Sequence[str], run: str, what: str = "is unresolved") -> list[Open]:
    if not found:
        raise UsageError(f"Nothing in the run {run} {what}.", hint=f"`addendum show {run}` says what it waits for.")
    if not which:
        return found
    chosen = [attempt for attempt in found if attempt.identity in which or attempt.key in which]
    missing = [name for name in which if not any(name in (a.identity, a.key) for a in chosen)]
    if missing:
        raise NotFound(
            f"Nothing at {missing[0]!r} {what}.", hint="These do: " + "; ".join(attempt.identity for attempt in found)
        )
    return chosen
