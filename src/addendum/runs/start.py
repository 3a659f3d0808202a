"""Starting a run, and going on with one."""

from __future__ import annotations

import datetime
import threading
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any, Final

from addendum import canon
from addendum.authority.catalog import changes
from addendum.authority.ceiling import meet
from addendum.authority.grant import Grant, from_json
from addendum.broker.journal import Journal, stow
from addendum.canon import Digest, Json
from addendum.errors import Rejected, StoreCorrupt, StoreError, UsageError
from addendum.kernel.policy import Allowances, Policy
from addendum.ports import Lease, RunHeader, Store
from addendum.records import entries
from addendum.records.entries import Revision
from addendum.records.stored import Entry
from addendum.runs import delegate
from addendum.runs.admit import Admission, admit
from addendum.runs.context import Context
from addendum.runs.execute import Attempt, drive_entry
from addendum.runs.given import narrowings
from addendum.runs.prepare import named, scene
from addendum.runs.result import StepResult
from addendum.script.program import compile_program

CHANGED: Final = "A changed capability gives another result: `addendum catalog accept RUN` goes on with it."
GONE: Final = (
    "The run was begun with another provider, or this one has changed: name that one with --provider. Where it is gone "
    "for good, `addendum catalog accept RUN` goes on without it."
)


@contextmanager
def driving(context: Context, run: str) -> Iterator[Journal]:
    """Hold a run's lease, with its journal read. Raises `NotFound` and `RunBusy`."""
    with _held(Journal(context.store, run, context.store.acquire(run))) as journal:
        journal.read()
        yield journal


@contextmanager
def beginning(
    context: Context, header: RunHeader, grant: Grant, parent: str, new: Sequence[Entry], blobs: Mapping[Digest, bytes]
) -> Iterator[Journal]:
    """Begin a run with its grant, out of its parent's if it has one, and what comes next; hold its lease. If its first
    entries can't be written, there is no such run. Raises `UsageError` for a name that is taken, `Rejected` for more
    than a parent has left by now."""
    if parent:
        journal = delegate.begin(context, header, parent, grant, new, blobs)
    else:
        given = Entry("grant", {"grant": grant.to_json(), "by": context.operator})
        journal = Journal.begun(context.store, header, [given, *new], blobs=blobs)
    with _held(journal):
        yield journal


@contextmanager
def _held(journal: Journal) -> Iterator[Journal]:
    """Give a journal's lease back, unless its driver's last entry did."""
    try:
        yield journal
    finally:
        if journal.lease is not None:
            give_back(journal.store, journal.lease)


def give_back(store: Store, lease: Lease) -> None:
    """Give a lease back. A store that doesn't answer hides nothing that was found out: the lease ends by itself."""
    try:
        store.release(lease)
    except StoreError:
        return


def policy_of(journal: Journal, changes: Mapping[str, object] | None) -> Policy:
    """Return the run's policies, as its last attempt had them, with the changes of this one."""
    kept = {name: choice for name, choice in journal.history.policy.items() if isinstance(choice, str)}
    return Policy().override(kept).override(changes or {})


def not_admitted(run: str, admission: Admission, committed: int = 0) -> StepResult:
    """Return the result for a source that the checker or the grant refuses."""
    return StepResult(
        run=run,
        status="not_admitted",
        message=admission.message,
        hint=admission.hint,
        committed=committed,
        details={"admission": admission.to_json()},
    )


def revision_entry(
    number: int, source: str, args: Json, allowances: Allowances, request: str = "", name: str = ""
) -> tuple[Entry, dict[Digest, bytes], Revision]:
    """Return the entry that makes a source and its args a revision, with the blobs it needs."""
    blobs: dict[Digest, bytes] = {}
    text = source.encode("utf-8")
    digest = canon.sha256(text)
    blobs[digest] = text
    data = canon.canonical(args)
    found = Revision(
        number=number,
        source=digest,
        args=stow(data, args, blobs),
        args_digest=canon.sha256(data),
        moves=dict(allowances.moves),
        drops=allowances.drops,
        request=stow(canon.canonical(request), request, blobs) if request else None,
        name=name,
    )
    return Entry("revision", found.body()), blobs, found


def start(
    context: Context,
    source: str,
    args: Json,
    *,
    grant: Grant | None = None,
    policy: Mapping[str, object] | None = None,
    name: str = "",
    run: str = "",
    request: str = "",
    parent: str = "",
    stop: threading.Event | None = None,
) -> StepResult:
    """Start a run and drive it to its end, a stop, or a wait. With a `parent` its grant comes out of that run's.

    `args` is any JSON value; `request` says what the script is for, for whoever repairs it. Raises `UsageError` for a
    run name that is taken, `NotJson` for other args, `ConfigError` for an unknown policy; a source that isn't admitted
    is a result, and leaves no run behind.
    """
    grant = first_grant(context, grant, parent)
    context.prepare(grant)
    chosen = Policy().override(policy or {})
    canon.canonical(args)
    admission = admit(source, context.catalog, grant)
    if admission.program is None:
        return not_admitted("", admission)
    entry, blobs, revision = revision_entry(1, source, args, Allowances(), request)
    drive, catalog = drive_entry(context, 1, revision.number, "run", chosen, Allowances())
    blobs |= catalog
    with beginning(context, new_header(context, name, run), grant, parent, [entry, drive], blobs) as journal:
        ready = scene(journal, admission.program, revision.args_digest, chosen, Allowances())
        return Attempt(context, ready, "run", args, stop=stop or threading.Event()).run()


def resume(
    context: Context,
    run: str,
    *,
    policy: Mapping[str, object] | None = None,
    allowances: Allowances | None = None,
    stop: threading.Event | None = None,
) -> StepResult:
    """Go on with a run, with the source and args that it has. A completed one stays so where a changed catalog stops
    any other. Raises `NotFound`, `RunBusy`, `ConfigError`."""
    allowances = allowances or Allowances()
    context.prepare()
    with driving(context, run) as journal:
        now = current(journal)
        changed = _over(context, journal, allowances) or catalog_changed(context, journal)
        if changed is not None:
            return changed
        delegate.again(context, journal)
        source = context.store.blob(now.source).decode("utf-8")
        kept = Allowances(
            supersede=allowances.supersede,
            retry=allowances.retry,
            drops=(),
            moves=now.moves,
        )
        program = compile_program(source)
        named(run, journal.history, Allowances(supersede=allowances.supersede))
        ready = scene(journal, program, now.args_digest, policy_of(journal, policy), kept)
        if now.drops:
            ready.dropped = [record for record in journal.history.records.values() if record.given_up == now.number]
        args = journal.value(now.args)
        return Attempt(context, ready, "resume", args, stop=stop or threading.Event()).run()


def current(journal: Journal) -> Revision:
    """Return a run's current revision. Raises `UsageError` for a run that has none."""
    if journal.history.revisions:
        return journal.history.current
    if journal.history.request is not None:
        raise UsageError(
            f"The run {journal.run} has a request and no script yet.",
            hint=f"`addendum repair {journal.run}` has a model write it; `addendum revise {journal.run} SCRIPT` takes "
            "yours.",
        )
    raise UsageError(f"The run {journal.run} never started.", hint="Start it again under another name.")


def new_header(context: Context, name: str, run: str = "") -> RunHeader:
    """Return the header of a run that begins now; without a name of its own in `run` it gets one."""
    at = datetime.datetime.fromtimestamp(context.clock.now(), datetime.UTC).isoformat(timespec="seconds")
    return RunHeader(run or fresh_name(context), name, at)


def first_grant(context: Context, grant: Grant | None, parent: str) -> Grant:
    """Return the grant that a new run has: the context's if it is None, within the ceiling, and with a `parent` within
    what that run has left ("" is none). Raises `Rejected`; `UsageError` for a child that doesn't say what it gets."""
    if parent and grant is None:
        raise UsageError("A child needs a grant of its own.", hint="Say what it gets of its parent's.")
    found = under_ceiling(context, context.grant if grant is None else grant)
    return delegate.offered(context, parent, found)[1] if parent else found


def under_ceiling(context: Context, grant: Grant) -> Grant:
    """Return a grant within the ceiling. Raises `Rejected` with what lies outside: nothing is narrowed in silence."""
    narrowings(grant)
    if context.ceiling is None:
        return grant
    found = meet(grant, context.ceiling)
    if isinstance(found, Grant):
        return found
    more = f" ({len(found) - 1} more)" if len(found) > 1 else ""
    raise Rejected(
        f"{found[0]}{more}",
        hint="Ask for less, or have the ceiling raised by whoever owns it.",
        outside=[each.to_json() for each in found],
    )


def catalog_changed(context: Context, journal: Journal) -> StepResult | None:
    """Return the stop for a run whose catalog has changed since its last attempt, in what it called; None if it hasn't,
    or an operator accepted it. `details` have the fields: `catalog`, by capability."""
    found = _fields_changed(context, journal)
    if not found:
        return None
    return StepResult(
        run=journal.run,
        status="stopped",
        stop="denied",
        message=f"The catalog has changed since the last attempt, in what this run called ({_listed(found)}).",
        hint=_way_on(found),
        committed=journal.history.committed,
        details={"catalog": found},
    )


def _over(context: Context, journal: Journal, allowances: Allowances) -> StepResult | None:
    """Return the result of a completed run whose catalog has changed since, from the journal: nothing is run, so
    nothing can be sent. None for any other run, for another script since then, and where something may be sent."""
    history = journal.history
    ended = history.ended
    if ended is None or ended.status != "completed" or history.driving:
        return None
    if allowances.supersede or allowances.retry == "all":
        return None
    if any(stored.kind == "revision" for stored in context.store.entries(journal.run, after=ended.seq)):
        return None
    found = _fields_changed(context, journal)
    if not found:
        return None
    return StepResult(
        run=journal.run,
        status="completed",
        message="It was completed before, and nothing was run. The catalog has changed since, in what this run called "
        f"({_listed(found)}).",
        hint=_way_on(found),
        committed=history.committed,
        result=journal.value(entries.ref(ended.body["result"])),
        total_cost=sum(totals.cost for totals in history.totals.values()),
        revision=history.revision,
        details={"catalog": found},
    )


def _fields_changed(context: Context, journal: Journal) -> dict[str, dict[str, Any]]:
    """Return what has changed in the catalog since the last attempt: of what the run called, by capability and field,
    with what it was and what it is."""
    history = journal.history
    if history.catalog in ("", context.catalog.digest):
        return {}
    try:
        before: Any = canon.loads(journal.store.blob(history.catalog))
    except StoreCorrupt:
        return {}  # written before catalogs were kept
    return changes(before, context.catalog, history.totals)


def _listed(found: Mapping[str, Mapping[str, Any]]) -> str:
    return "; ".join(f"{name}: {', '.join(fields)}" for name, fields in found.items())


def _way_on(found: Mapping[str, Mapping[str, Any]]) -> str:
    return GONE if any("gone" in fields for fields in found.values()) else CHANGED


def granted(journal: Journal) -> Grant:
    """Return the run's grant as it stands."""
    return from_json(journal.history.grant or {})


def fresh_name(context: Context) -> str:
    """Return a name for a run: when it was started, and what nobody else picks."""
    stamp = datetime.datetime.fromtimestamp(context.clock.now(), datetime.UTC).strftime("%Y%m%d-%H%M%S")
    return f"{stamp}-{context.clock.token()[:6]}"
