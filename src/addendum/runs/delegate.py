"""Giving a child run a grant out of another run's, and bringing back what it didn't use (DESIGN section 7).

What is given is an entry of the parent's journal, written in the transaction that gives it to the child, and only if
the parent's journal is still the one that was looked at; a parent's attempt is written under the same condition. So the
parent's remaining shrinks exactly once, whoever else delegates, reserves or dies at that moment.

A child has its share until it is over: completed, failed or stopped, and none of its own children has one; a paused or
waiting child keeps it, and so does one whose process was killed. Going on with a child takes the share out anew.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Final, NoReturn, TypeVar

from addendum.authority.accounts import Accounts
from addendum.authority.ceiling import Outside
from addendum.authority.delegation import share_out, shared
from addendum.authority.grant import Grant, from_json
from addendum.broker.desk import open_desk
from addendum.broker.journal import Journal
from addendum.canon import Digest
from addendum.errors import JournalMoved, Rejected, RunBusy, StoreError, UsageError
from addendum.ports import Beside, RunHeader
from addendum.records.history import History
from addendum.records.stored import Entry
from addendum.runs.context import Context

T = TypeVar("T")

OVER: Final = ("completed", "failed", "stopped")
"""Ends of a run after which its share goes back."""
EXCEEDS: Final = "authority.delegation_exceeds_parent"
BARRED: Final = "authority.parent_barred"
HELD: Final = "authority.children_hold_more"


def offered(context: Context, parent: str, grant: Grant, child: str = "") -> tuple[Journal, Grant]:
    """Return a parent's journal, and what a child gets of its grant; what `child` has or had of it counts as left.

    Raises `Rejected` for more than is left, and for a parent without authority; `NotFound`, `ConfigError`.
    """
    journal = Journal(context.store, parent)
    history = journal.read()
    if history.grant is None:
        raise UsageError(f"The run {parent} never started.", hint="Name a run that has a grant.")
    own, now = from_json(history.grant), context.clock.now()
    accounts = _accounts(context, journal, own)
    barred = accounts.barred("", now)
    if barred is not None:
        raise Rejected(
            f"The run {parent} has nothing to give: {barred.limit}.",
            hint=f"`addendum grant {parent} FILE` gives it authority again.",
            reason=BARRED,
        )
    found = share_out(own, grant, lambda limit: accounts.left(limit, child))
    if isinstance(found, tuple):
        _refuse(found, f"`addendum meters {parent}` shows what is left.", EXCEEDS)
    return journal, found


def give(context: Context, journal: Journal, parent: str, grant: Grant, by: str = "") -> Grant:
    """Give a run a grant out of its parent's; return what it gets. Raises as `offered` does."""

    def write(entry: Entry, beside: Beside) -> Grant:
        journal.append(entry, beside=beside)
        return from_json(journal.history.grant or {})

    return _written_out_of(context, parent, grant, journal.run, by or context.operator, write)


def begin(
    context: Context,
    header: RunHeader,
    parent: str,
    grant: Grant,
    new: Sequence[Entry],
    blobs: Mapping[Digest, bytes] | None,
) -> Journal:
    """Begin a run with a grant out of its parent's, and further entries; return its journal. Raises as `offered`."""

    def write(entry: Entry, beside: Beside) -> Journal:
        return Journal.begun(context.store, header, [entry, *new], blobs=blobs, beside=beside)

    return _written_out_of(context, parent, grant, header.run, context.operator, write)


def _written_out_of(
    context: Context, parent: str, grant: Grant, child: str, by: str, write: Callable[[Entry, Beside], T]
) -> T:
    """Write a child's grant, with what the parent gives beside it, as often as the parent's journal has changed."""
    while True:
        above, within = offered(context, parent, grant, child)
        entry = Entry("grant", {"grant": within.to_json(), "by": by, "parent": parent})
        try:
            return write(entry, _delegated(context, above, child, within, by))
        except JournalMoved:
            continue


def again(context: Context, journal: Journal) -> None:
    """Take a child's share out of its parent's grant once more, if it went back. Raises as `offered` does."""
    history = journal.history
    while history.parent and not history.revoked:
        own = from_json(history.grant or {})
        above = Journal(context.store, history.parent)
        given = above.read().children.get(journal.run)
        if given is not None and given[1] is None:
            return
        above, within = offered(context, history.parent, own, journal.run)
        entry = Entry("grant", {"grant": within.to_json(), "by": context.operator, "parent": history.parent})
        changed = [entry] if within.digest != own.digest else []
        try:
            journal.append(*changed, beside=_delegated(context, above, journal.run, within, context.operator))
        except JournalMoved:
            continue
        return


def _delegated(context: Context, parent: Journal, child: str, grant: Grant, by: str) -> Beside:
    at = round(context.clock.now() * 1000)
    body = {"child": child, "grant": grant.to_json(), "by": by, "at_ms": at}
    return Beside(parent.run, [Entry("delegate", body)], parent.history.seq)


def coming_back(journal: Journal, accounts: Accounts, now: float) -> Beside | None:
    """Return what tells a run's parent that it is over, and what it used, as long as nobody gave a child of it anything
    meanwhile; None while it, or a child of it, isn't over."""
    history = journal.history
    if not history.parent or any(child.living for child in accounts.children):
        return None
    body = {"child": journal.run, "at_ms": round(now * 1000), **accounts.used().to_json()}
    return Beside(history.parent, [Entry("return", body)], own=history.seq)


def end(
    context: Context,
    journal: Journal,
    accounts: Accounts,
    status: str,
    new: Sequence[Entry],
    blobs: dict[Digest, bytes],
) -> None:
    """Write a drive's last entries, and beside them the rest of the run's grant back to its parent, if it has one and
    the run is over with this status: as often as somebody gave a child of it something meanwhile."""
    while True:
        beside = coming_back(journal, accounts, context.clock.now()) if over(journal.history, status) else None
        try:
            journal.append(*new, blobs=blobs, beside=beside, last=True)
        except JournalMoved:
            if beside is None:
                raise
            journal.read()
            continue
        return


def over(history: History, status: str = "") -> bool:
    """Whether a run's share goes back: with the `status` of a drive that ends now, or as its journal has it."""
    if history.revoked:
        return True
    return (status or (history.ended.status if history.ended is not None and not history.driving else "")) in OVER


def bring_back(context: Context, journal: Journal) -> None:
    """Give the rest of a run's grant back to its parent, if it is over; nobody else may drive it."""
    history = journal.history
    while history.parent and over(history):
        accounts = _accounts(context, journal, from_json(history.grant or {}))
        beside = coming_back(journal, accounts, context.clock.now())
        if beside is None:
            return
        above = Journal(context.store, history.parent)
        known = above.read().children.get(journal.run, ({}, None))[1]
        if known is not None and {**known, "at_ms": 0} == {**beside.entries[0].body, "at_ms": 0}:
            return
        try:
            journal.append(beside=beside)
        except JournalMoved:  # a child of it was begun, or goes on, or is over
            journal.read()
            continue
        upwards(context, history.parent)
        return


def upwards(context: Context, run: str) -> None:
    """Give the rest of an ancestor's grant back, too, if it was only waiting for its children; "" is nobody's."""
    if not run:
        return
    try:
        lease = context.store.acquire(run)
    except (RunBusy, StoreError):
        return  # it is driven: its own end does it
    try:
        journal = Journal(context.store, run, lease)
        journal.read()
        bring_back(context, journal)
    finally:
        try:
            context.store.release(lease)
        except StoreError:
            pass  # it ends by itself


def change(context: Context, journal: Journal, grant: Grant, by: str) -> None:
    """Give a run that is nobody's child another grant. Raises `Rejected` for one that is less than its children have:
    what was given away can't be taken back by writing less."""
    while True:
        history = journal.history
        if history.children:
            accounts = _accounts(context, journal, grant)
            found = []
            for limit in filter(shared, grant.every):
                given = accounts.delegated(limit)[1]
                if given and sum(accounts.level(limit)) > limit.most:
                    rest = max(0, limit.most - sum(accounts.level(limit)) + given)
                    found.append(Outside(str(limit), f"{rest:.15g}", f"{given:.15g} with children", "what is given"))
            for child in accounts.children:
                for name in sorted(set(child.grant.capabilities) - set(grant.capabilities)) if child.living else ():
                    found.append(Outside(f"capabilities.{name}", f"no {name}", f"{child.run} has it", "what is given"))
            if found:
                _refuse(tuple(found), "Revoke the children first: `addendum revoke CHILD`.", HELD)
        entry = Entry("grant", {"grant": grant.to_json(), "by": by})
        try:
            journal.append(entry, beside=Beside(journal.run, own=history.seq))
        except JournalMoved:
            journal.read()
            continue
        return


def _accounts(context: Context, journal: Journal, grant: Grant) -> Accounts:
    return open_desk(journal, grant, context.catalog, context.clock, write=False).accounts


def _refuse(found: tuple[Outside, ...], hint: str, reason: str) -> NoReturn:
    more = f" ({len(found) - 1} more)" if len(found) > 1 else ""
    raise Rejected(f"{found[0]}{more}", hint=hint, reason=reason, outside=[each.to_json() for each in found])
