"""Looking at runs: the same fold, shown. Nothing here writes.

Every view is a value with `to_json`; money is in nano-dollars inside and exact decimal text in US dollars in JSON.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any, Literal, TypeAlias

from addendum.authority.money import usd
from addendum.broker.reconcile import waiting
from addendum.canon import Json
from addendum.errors import NotFound
from addendum.ports import RunHeader, Store
from addendum.records import entries
from addendum.records.certificate import Certificate, Difference, certificate
from addendum.records.entries import Attempt, Body, Ref
from addendum.records.history import History, Record
from addendum.records.stored import Stored
from addendum.runs.advice import Advice, advise
from addendum.runs.drafts import DraftView, as_attempt, drafts
from addendum.runs.drafts import value as value

CallState: TypeAlias = Literal[
    "committed",
    "failed",
    "in_flight",
    "unresolved",
    "interrupted",
    "waiting",
    "orphaned",
    "superseded",
    "unbound",
    "retried",
]
"""`failed` stands in the trace (handled or open), `retried` is a failure that was tried again, `interrupted` is a
read-only attempt without a result, `unbound` a result that a revision left without identity."""

AttemptState: TypeAlias = Literal[
    "committed", "failed", "retried", "abandoned", "in_flight", "unresolved", "interrupted", "waiting"
]


def certified(store: Store, run: str) -> str:
    """Recompute a run's certificate from the store: "ok" or "differences"."""
    return "ok" if not certificate(store.entries(run), store.blob, sites=False).differences else "differences"


def beginning(store: Store, run: str, head: str, count: int) -> list[Difference]:
    """Compare with a certificate that was taken when the journal had `count` entries: is what it covered still there?

    A chain that is recomputed from the store can't tell that its end was cut off; a certificate kept elsewhere can.
    """
    if count == 0:
        return []
    last = next(iter(store.entries(run, after=count - 1, upto=count)), None)
    if last is None:
        there, _ = store.head(run)
        return [Difference(count, f"the certificate covers {count} entries, the store has {there}")]
    if last.chain != head:
        return [Difference(count, "the chain is another one than in the certificate")]
    return []


def certify(store: Store, run: str) -> Certificate:
    """Recompute a run's certificate with its frozen sites. Raises `NotFound`."""
    store.header(run)
    return certificate(store.entries(run), store.blob)


# --- one reading of a journal -------------------------------------------------------------------------------------


@dataclass(slots=True)
class Reading:
    """A run's journal, read once: its history, and what the history doesn't keep."""

    header: RunHeader
    live: bool
    """Whether a process drives it now."""
    history: History = field(default_factory=History)
    failures: dict[int, Body] = field(default_factory=dict)
    tried: dict[int, tuple[Attempt, AttemptState, Body]] = field(default_factory=dict)
    """Every attempt by its seq: how it ended, and the body of the entry that ended it."""
    payloads: dict[int, Ref] = field(default_factory=dict)
    drafted: dict[int, Body] = field(default_factory=dict)
    """What came of each draft, by the draft's seq."""
    replays: dict[int, int] = field(default_factory=dict)
    replayed: int = 0
    how: dict[int, str] = field(default_factory=dict)

    def take(self, stored: Stored) -> None:
        """Fold one entry in."""
        body = stored.body
        match stored.kind:
            case "attempt":
                attempt = entries.attempt(stored.seq, body)
                self.tried[stored.seq] = (attempt, "waiting" if attempt.waits else self._open(attempt), {})
                self.payloads[stored.seq] = attempt.payload
            case "record":
                if "failure" in body:
                    self.failures[stored.seq] = body["failure"]
                self._close(body["attempt"], "failed" if "failure" in body else "committed", body)
            case "retry":
                self._close(body["attempt"], "retried", body)
            case "abandon":
                self._close(body["attempt"], "abandoned", body)
            case "drafted":
                self.drafted.setdefault(body["attempt"], body)
            case "end":
                self._ended(body)
            case _:
                pass
        self.history.take(stored)

    def _open(self, attempt: Attempt) -> AttemptState:
        if self.live:
            return "in_flight"
        return "unresolved" if attempt.side_effecting else "interrupted"

    def _close(self, seq: int, state: AttemptState, body: Body) -> None:
        if seq in self.tried:
            self.tried[seq] = (self.tried[seq][0], state, body)

    def _ended(self, body: Body) -> None:
        """Count how often each record was served in a drive that wasn't the one that paid for it."""
        self.replayed += body["counts"]["replayed"]
        for first, last in body.get("replayed", ()):
            for seq in range(first, last + 1):
                record = self.history.records.get(seq)
                if record is not None and record.drive < body["drive"]:
                    self.replays[seq] = self.replays.get(seq, 0) + 1

    @property
    def status(self) -> str:
        """How the run stands: as its last drive ended; `running`, `interrupted` (the process is gone), `requested` (it
        has a request and no script yet), or `created` (it has a script that was never run)."""
        if self.live:
            return "running"
        if self.history.request is not None and not self.history.revisions:
            return "requested"
        if self.history.driving:
            return "interrupted"
        return self.history.ended.status if self.history.ended is not None else "created"

    @property
    def ended(self) -> Body:
        """The body of the last drive's end; empty while there is none."""
        return {} if self.history.ended is None or self.history.driving else self.history.ended.body

    @property
    def cost(self) -> int:
        """What the run cost so far."""
        return sum(totals.cost for totals in self.history.totals.values())


def read(store: Store, run: str) -> Reading:
    """Read a run's journal. Raises `NotFound`."""
    found = Reading(store.header(run), store.driven(run))
    for stored in store.entries(run):
        found.take(stored)
    return found


# --- the list -----------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True, kw_only=True)
class Summary:
    """One run in a list. `waits` counts open approvals, `unresolved` attempts without a result."""

    run: str
    name: str
    created_at: str
    status: str
    stop: str | None
    revision: int
    committed: int
    waits: int
    unresolved: int
    cost: int

    def to_json(self) -> dict[str, Any]:
        """Return the summary as JSON."""
        return {
            "run": self.run,
            "name": self.name,
            "created_at": self.created_at,
            "status": self.status,
            "stop": self.stop,
            "revision": self.revision,
            "committed": self.committed,
            "waiting": self.waits,
            "unresolved": self.unresolved,
            "cost_usd": usd(self.cost),
        }


def summarize(found: Reading) -> Summary:
    """Return a run as it stands in a list."""
    states = [state for _, state, _ in found.tried.values()]
    return Summary(
        run=found.header.run,
        name=found.header.name,
        created_at=found.header.created_at,
        status=found.status,
        stop=found.ended.get("stop"),
        revision=found.history.revision,
        committed=found.history.committed,
        waits=sum(1 for seq in found.history.attempts if found.tried[seq][1] == "waiting"),
        unresolved=states.count("unresolved"),
        cost=found.cost,
    )


def listing(store: Store, *, newest: int = 0) -> list[Summary]:
    """Return all runs, or the newest so many, newest first."""
    headers = list(reversed(store.runs()))
    return [summarize(read(store, header.run)) for header in (headers[:newest] if newest else headers)]


# --- one run ------------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True, kw_only=True)
class CallView:
    """One call: where it stands, what became of it, what it cost, and how often it was served again.

    `rebound_from` is the identity of its commit, if it has another one now. `open` is whether a failure is tried again
    by the next attempt. `seq` is its record's, or its attempt's while there is none.
    """

    seq: int
    identity: str
    capability: str
    state: CallState
    cost: int
    replays: int
    revision: int
    digest: str
    rebound_from: str | None = None
    open: bool = False
    failure: Mapping[str, Any] | None = None

    def to_json(self) -> dict[str, Any]:
        """Return the call as JSON."""
        return {
            "seq": self.seq,
            "identity": self.identity,
            "capability": self.capability,
            "state": self.state,
            "cost_usd": usd(self.cost),
            "replays": self.replays,
            "revision": self.revision,
            "digest": self.digest,
            "rebound_from": self.rebound_from,
            "open": self.open,
            "failure": dict(self.failure) if self.failure is not None else None,
        }


@dataclass(frozen=True, slots=True, kw_only=True)
class RunView:
    """A run as a person looks at it. `result` is its result as a reference, None unless it completed."""

    summary: Summary
    message: str
    error: str | None
    where: Mapping[str, Any]
    calls: tuple[CallView, ...]
    totals: Mapping[str, Mapping[str, Any]]
    drives: int
    replayed: int
    rebinds: int
    policy: Mapping[str, Any]
    advice: tuple[Advice, ...]
    grant: Mapping[str, Any]
    result: Ref | None = None
    request: str = ""
    drafts: tuple[DraftView, ...] = ()

    def to_json(self) -> dict[str, Any]:
        """Return the run as JSON: the keys of its list entry, and all beneath."""
        return {
            **self.summary.to_json(),
            "error": self.error,
            "message": self.message,
            "where": dict(self.where),
            "next": [advice.to_json() for advice in self.advice],
            "calls": [call.to_json() for call in self.calls],
            "totals": {name: dict(totals) for name, totals in self.totals.items()},
            "drives": self.drives,
            "replayed": self.replayed,
            "rebinds": self.rebinds,
            "policy": dict(self.policy),
            "grant": dict(self.grant),
            "request": self.request or None,
            "drafts": [draft.to_json() for draft in self.drafts],
        }


def _script(found: Reading) -> str:
    """Return what the run's present script is called, as a rule its file, "" if nobody said."""
    revisions = found.history.revisions
    if not revisions:
        return found.header.name
    same = [each for each in revisions.values() if each.source == found.history.current.source]
    return next(
        (each.name for each in reversed(same) if each.name), found.header.name if 1 in {e.number for e in same} else ""
    )


def show(store: Store, run: str) -> RunView:
    """Return everything about a run that a person may ask for. Raises `NotFound`."""
    found = read(store, run)
    history, ended = found.history, found.ended
    summary = summarize(found)
    answered = summary.status == "waiting" and not waiting(history) and not history.asks
    return RunView(
        summary=summary,
        message="What it asked is answered." if answered else str(ended.get("message", "")),
        error=ended.get("error"),
        where={} if answered else ended.get("where", {}),
        calls=tuple(calls(found)),
        totals={name: _totals(totals) for name, totals in sorted(history.totals.items())},
        drives=history.drives,
        replayed=found.replayed,
        rebinds=history.rebinds,
        policy=history.policy,
        advice=advise(
            run,
            summary.status,
            stop=summary.stop,
            unresolved=summary.unresolved,
            failures=len(history.open_failures),
            hint=str(ended.get("hint", "")),
            name=_script(found),
            pending=bool(history.pending),
            answered=answered,
        ),
        grant=history.grant or {},
        result=entries.ref(ended["result"]) if "result" in ended else None,
        request=str(value(store, history.request)) if history.request is not None else "",
        drafts=tuple(drafts(store, history, found.drafted, found.live)),
    )


def draft_of(store: Store, run: str, number: int) -> tuple[DraftView, str]:
    """Return one draft of a run, with the script that it came to. Raises `NotFound`."""
    there = read(store, run)
    found = list(drafts(store, there.history, there.drafted, there.live))
    if not 1 <= number <= len(found):
        raise NotFound(f"The run {run} has {len(found)} drafts, no {number}.", hint=f"`addendum show {run} --drafts`.")
    view = found[number - 1]
    if view.script is None:
        raise NotFound(f"Draft {number} of {run} has no script: it is {view.state}.", hint="Name another one.")
    return view, store.blob(view.script).decode("utf-8")


def result_of(store: Store, run: str) -> Json:
    """Return a completed run's result. Raises `NotFound`, for a run that isn't completed too."""
    view = show(store, run)
    if view.result is None:
        raise NotFound(
            f"The run {run} has no result: it is {view.summary.status}.",
            hint=f"`addendum show {run}` says why.",
            run=run,
        )
    return value(store, view.result)


def source_of(store: Store, run: str) -> str:
    """Return the script of a run's current revision. Raises `NotFound`."""
    history = read(store, run).history
    if not history.revisions:
        if history.request is not None:
            raise NotFound(f"The run {run} has no script yet.", hint=f"`addendum repair {run}` goes on.", run=run)
        raise NotFound(f"The run {run} never started.", hint="`addendum runs` lists what there is.", run=run)
    return store.blob(history.current.source).decode("utf-8")


def call_of(store: Store, run: str, identity: str) -> dict[str, Any]:
    """Return one call with its payload and its result, as JSON. Raises `NotFound`."""
    found = read(store, run)
    view = next((call for call in reversed(list(calls(found))) if call.identity == identity), None)
    if view is None:
        raise NotFound(
            f"The run {run} has no call at {identity!r}.", hint=f"`addendum show {run}` lists them.", run=run
        )
    record = found.history.records.get(view.seq)
    payload = found.payloads.get(view.seq if record is None else record.attempt)
    result = next(iter(store.entries(run, after=view.seq - 1, upto=view.seq))).body.get("result") if record else None
    return {
        **view.to_json(),
        "payload": value(store, payload) if payload is not None else None,
        "result": value(store, entries.ref(result)) if result is not None else None,
    }


def calls(found: Reading) -> Iterable[CallView]:
    """Yield every call of a run in the order in which it was settled; open attempts last."""
    orphans = set(found.ended.get("orphans", ()))
    for record in found.history.records.values():
        if not record.is_read:
            yield _view(found, record, orphans)
    for seq, (attempt, state, _) in found.tried.items():
        if seq in found.history.attempts:
            yield CallView(
                seq=seq,
                identity=attempt.identity,
                capability=attempt.capability,
                state=state,  # type: ignore[arg-type]
                cost=0,
                replays=0,
                revision=attempt.revision,
                digest=attempt.digest,
            )


def _view(found: Reading, record: Record, orphans: set[int]) -> CallView:
    return CallView(
        seq=record.seq,
        identity=record.identity or record.origin,
        capability=record.capability,
        state=_state(record, orphans),
        cost=record.cost,
        replays=found.replays.get(record.seq, 0),
        revision=record.source,
        digest=record.digest,
        rebound_from=record.origin if record.identity not in (None, record.origin) else None,
        open=record.seq in found.history.open_failures,
        failure=found.failures.get(record.seq),
    )


def _state(record: Record, orphans: set[int]) -> CallState:
    if not record.ok:
        return "failed" if record.identity is not None else "retried"
    if record.superseded:
        return "superseded"
    if record.identity is None:
        return "unbound"
    return "orphaned" if record.seq in orphans else "committed"


def _totals(totals: Any) -> dict[str, Any]:
    return {
        "calls": totals.calls,
        "succeeded": totals.succeeded,
        "cost_usd": usd(totals.cost),
        "tokens": totals.tokens,
        "bytes_out": totals.bytes_out,
        "bytes_in": totals.bytes_in,
        "seconds": round(totals.seconds, 3),
    }


# --- attempts -----------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True, kw_only=True)
class AttemptView:
    """One dispatch. `at` is seconds since 1970; `by` and `reason` say who closed it, if a person did."""

    number: int
    identity: str
    capability: str
    effect: str
    state: AttemptState
    at: float
    key: str
    cost: int
    revision: int
    payload: Json
    by: str = ""
    reason: str = ""
    failure: Mapping[str, Any] | None = None

    def to_json(self) -> dict[str, Any]:
        """Return the attempt as JSON."""
        return {
            "number": self.number,
            "identity": self.identity,
            "capability": self.capability,
            "effect": self.effect,
            "state": self.state,
            "at": self.at,
            "key": self.key,
            "cost_usd": usd(self.cost),
            "revision": self.revision,
            "payload": self.payload,
            "by": self.by or None,
            "reason": self.reason or None,
            "failure": dict(self.failure) if self.failure is not None else None,
        }


def attempts(store: Store, run: str, *, open_only: bool = False) -> list[AttemptView]:
    """Return a run's attempts, oldest first, those that asked a model for a script too. Raises `NotFound`."""
    found = read(store, run)
    listed = [
        AttemptView(
            number=attempt.number,
            identity=attempt.identity,
            capability=attempt.capability,
            effect=attempt.effect,
            state=state,
            at=attempt.at,
            key=attempt.key,
            cost=body.get("cost", 0),
            revision=attempt.revision,
            payload=value(store, attempt.payload),
            by=body.get("by", ""),
            reason=body.get("reason", ""),
            failure=body.get("failure"),
        )
        for seq, (attempt, state, body) in found.tried.items()
        if not open_only or seq in found.history.attempts
    ]
    for draft in drafts(store, found.history, found.drafted, found.live):
        if not open_only or draft.seq in found.history.drafts:
            listed.append(AttemptView(**as_attempt(run, draft)))
    return sorted(listed, key=lambda attempt: attempt.number)
