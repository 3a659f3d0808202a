"""Gathering a brief: from a run's journal, its grant and the catalog. Nothing here sends or writes."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from addendum import identity as ids
from addendum.authority.grant import from_json as grant_of
from addendum.broker.desk import open_desk
from addendum.broker.journal import Journal
from addendum.canon import Json
from addendum.kernel.claims import Claims
from addendum.kernel.policy import Allowances, Policy
from addendum.kernel.sources import Fate, Sources
from addendum.records import entries
from addendum.records.entries import Purpose
from addendum.records.history import History, Record
from addendum.records.outcome import Failure
from addendum.repair import findings, guide
from addendum.repair.brief import Brief, Ended, Failed, Frozen, Last, Offer, Step
from addendum.runs.context import Context
from addendum.runs.prepare import Scene, scene
from addendum.script.program import Program, compile_program

IDENTITIES = 12
"""How many identities of one place are named."""
FAILURES = 20


def gather(context: Context, journal: Journal, policy: Policy, allowances: Allowances) -> Brief:
    """Return the brief of a run as it stands: to mend its script, or to begin one where it has none."""
    history = journal.history
    purpose: Purpose = "repair" if history.revisions else "author"
    common: dict[str, Any] = {
        "run": journal.run,
        "purpose": purpose,
        "request": str(journal.value(history.request) or ""),
        "catalog": offers(context, history),
        "limits": tuple(limits(context, journal)),
        "rules": guide.rules(),
        "relocation": policy.relocation,
        "supersede": allowances.supersede
        if isinstance(allowances.supersede, bool)
        else tuple(sorted(allowances.supersede)),
        "drops": allowances.drops,
        "last": last(journal),
    }
    if purpose == "author":
        return Brief(args=journal.value(history.request_args), source=None, revision=0, **common)
    program = compile_program(context.store.blob(history.current.source).decode("utf-8"))
    ready = scene(journal, program, history.current.args_digest, policy, Allowances())
    sources = ready.sources()
    return Brief(
        args=journal.value(history.current.args),
        source=program.source,
        revision=history.revision,
        frozen=tuple(frozen(ready, sources)),
        failed=tuple(failures(journal, program)),
        ended=ended(history),
        **common,
    )


def offers(context: Context, history: History) -> tuple[Offer, ...]:
    """Return what the run's grant has of the catalog, in the catalog's order."""
    granted = grant_of(history.grant or {}).capabilities
    return tuple(guide.offer(context.catalog[name]) for name in context.catalog if name in granted)


def limits(context: Context, journal: Journal) -> Iterator[Mapping[str, Json]]:
    """Yield every limit of the run's grant, with what is used and held of it."""
    grant = grant_of(journal.history.grant or {})
    accounts = open_desk(journal, grant, context.catalog, context.clock, write=False).accounts
    for limit in grant.every:
        used, held = (0, 0) if limit.per == "call" else accounts.level(limit)
        yield {"limit": str(limit), "used": limit.amount(used), "held": limit.amount(held)}


def frozen(ready: Scene, sources: Sources) -> Iterator[Frozen]:
    """Yield the places that hold committed results, in the order in which they were paid for first."""
    claims: Claims = ready.claims(0)
    groups: dict[tuple[int, str, str], list[Record]] = {}
    for record in claims.records:
        if record.ok and not record.is_read and record.identity is not None and not record.given_up:
            key = (record.revision, ids.place(record.identity), record.capability)
            groups.setdefault(key, []).append(record)
    for (revision, place, capability), records in groups.items():
        identity = ids.parse(records[0].identity or "")
        fate = sources.fates(revision, identity.positions)
        site = _step(sources, revision, identity.site.position)
        yield Frozen(
            place=place,
            capability=capability,
            function=identity.site.position.partition("/")[0],
            line=site.line,
            expression=site.expression,
            records=len(records),
            cost=sum(record.cost for record in records),
            identities=tuple(record.identity or "" for record in records[:IDENTITIES]),
            revision=revision,
            fate=_fate(fate),
            way=tuple(_step(sources, revision, frame.position) for frame in identity.path),
        )


def _fate(fate: Fate) -> Any:
    return fate.value


def _step(sources: Sources, revision: int, text: str) -> Step:
    """Return a position with its line in the run's present source; without one if it isn't in it as it was."""
    now = sources.at(text) if sources.fate(revision, text) is Fate.SAME else None
    there = now or sources.program(revision).positions.get(text)
    if there is None:
        return Step(position=text, line=0, expression="")
    return Step(position=text, line=there.line if now is not None else 0, expression=there.expression)


def failures(journal: Journal, program: Program) -> Iterator[Failed]:
    """Yield the failures that stand in the trace, open ones first."""
    history = journal.history
    found = [record for record in history.prefix.values() if not record.ok and not record.is_read]
    found.sort(key=lambda record: (record.seq not in history.open_failures, record.seq))
    for record in found[:FAILURES]:
        outcome = journal.outcome(record)
        if not isinstance(outcome, Failure) or record.identity is None:
            continue
        position = program.positions.get(ids.parse(record.identity).site.position)
        yield Failed(
            identity=record.identity,
            capability=record.capability,
            code=outcome.code,
            message=outcome.message,
            open=record.seq in history.open_failures,
            line=position.line if position is not None else 0,
            expression=position.expression if position is not None else "",
            payload=asked(journal, record),
        )


def asked(journal: Journal, record: Record) -> Json:
    """Return what a record's call asked for, None where nothing was sent."""
    for stored in journal.store.entries(journal.run, after=record.attempt - 1, upto=record.attempt):
        if stored.kind == "attempt":
            return journal.value(entries.ref(stored.body["payload"]))
    return None


def ended(history: History) -> Ended | None:
    """Return how the run's last attempt ended, None if it hasn't been driven."""
    if history.ended is None:
        return None
    body = history.ended.body
    where = body.get("where") or {}
    return Ended(
        status=body["status"],
        stop=body.get("stop"),
        error=body.get("error"),
        message=body.get("message") or "",
        hint=body.get("hint") or "",
        identity=str(where.get("identity") or ""),
        chain=tuple(where.get("trace") or ()),
    )


def last(journal: Journal) -> Last | None:
    """Return the last candidate since the run's last revision, if it was refused, with why."""
    if journal.history.last_draft is None:
        return None
    _, body = journal.history.last_draft
    if body["verdict"] != "rejected":
        return None
    script = journal.store.blob(body["candidate"]).decode("utf-8") if "candidate" in body else ""
    found: Any = journal.value(entries.ref(body["findings"])) if "findings" in body else []
    return Last(
        script=script,
        findings=tuple(findings.from_json(each) for each in found),
        moves=dict(body.get("moves", {})),
    )
