"""A slice that a workflow script executes: a run of its own in the same store, under the slice's grant.

The run's name is the slice's, so a retried slice goes on with it: what was paid for is replayed, not paid again. A
changed script is a revision of the run, with the same rules as everywhere.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Final

from addendum import canon
from addendum.authority.grant import Limit
from addendum.canon import Json
from addendum.errors import NotFound
from addendum.kernel.policy import Allowances
from addendum.runs import revise as revising
from addendum.runs import start as starting
from addendum.runs.result import StepResult
from addendum.work.bench import Admitted, Bench
from addendum.work.codes import Finding
from addendum.work.contract import Slice
from addendum.work.files import Files, with_files, written
from addendum.work.intake import Taken, lay
from addendum.work.objects import Flat

_METERS: Final = {
    "calls": "budget.calls",
    "cost_usd": "budget.cost",
    "tokens": "budget.tokens",
    "bytes_out": "budget.bytes",
    "bytes_in": "budget.bytes",
    "journal_bytes": "budget.bytes",
    "seconds": "budget.seconds",
    "in_flight": "budget.calls",
    "agents": "budget.calls",
    "journal_records": "budget.bytes",
    "distinct": "budget.distinct",
}
_METER: Final = re.compile(r": (\w+)(?::\S+)? <=")


@dataclass(frozen=True, slots=True)
class Done:
    """How a script's run came out, and the files that it comes to."""

    taken: Taken
    outcome: str
    findings: tuple[Finding, ...] = ()
    details: Mapping[str, Json] = field(default_factory=dict)


def run_name(admitted: Admitted, slice_: Slice) -> str:
    """Return the name of a slice's run."""
    return f"{admitted.journal.run}/{slice_.name}"


def run(bench: Bench, admitted: Admitted, slice_: Slice, flat: Flat, source: str) -> Done:
    """Run a slice's script, or go on with its run."""
    name = run_name(admitted, slice_)
    files = Files(flat, bench.repository.data, slice_.scope, bench.scripts.provider)
    # The time of all attempts together: the run is one, however often it is gone on with.
    seconds = Limit("seconds", slice_.seconds * slice_.attempts)
    grant = replace(slice_.grant, limits=(*slice_.grant.limits, seconds))
    context = replace(
        bench.scripts, store=bench.store, provider=files, catalog=with_files(bench.scripts.catalog), grant=grant
    )
    before = _known(bench, name)
    if before is None:
        result = starting.start(context, source, canon.plain(slice_.args), grant=grant, name=slice_.name, run=name)
    else:
        files.changes.update(written(bench.store, name))
        if before == source:
            result = starting.resume(context, name)
        else:
            result = revising.revise(context, name, source, allowances=Allowances())
    orphans = result.details.get("orphans", [])
    there = _known(bench, name) is not None
    changes = written(bench.store, name, frozenset(str(each) for each in orphans)) if there else {}
    return Done(lay(flat, changes), *came_out(slice_, result), _details(name, result))


def _known(bench: Bench, name: str) -> str | None:
    """Return the source that a run has, None if there is no such run."""
    from addendum.broker.journal import Journal

    try:
        bench.store.header(name)
    except NotFound:
        return None
    history = Journal(bench.store, name).read()
    return bench.store.blob(history.current.source).decode("utf-8") if history.revisions else None


def came_out(slice_: Slice, result: StepResult) -> tuple[str, tuple[Finding, ...]]:
    """Return an attempt's outcome for how its run ended, and what is against it."""
    if result.status == "completed":
        return "candidate", ()
    where = result.details.get("where")
    limit = where.get("limit") if isinstance(where, Mapping) else None
    code, outcome = "attempt.failed", "failed"
    if result.status == "waiting":
        code, outcome = "approval.missing", "waiting"
    if result.status == "stopped" and result.stop == "unresolved":
        code = "attempt.unresolved"
    elif result.status == "paused":
        named = _METER.search(str(limit))
        code = _METERS.get(named[1], code) if named is not None else code
        code = "budget.deadline" if str(limit).startswith("the grant ends") else code
    elif result.status == "failed" and result.error == "refused":
        code, outcome = "attempt.refused", "refused"
    text = result.message or f"The script's run is {result.status}."
    return outcome, (Finding(code, slice_.name, text, {"run": result.run, "hint": result.hint}),)


def _details(name: str, result: StepResult) -> dict[str, Json]:
    return {
        "run": name,
        "status": result.status,
        "dispatched": result.dispatched,
        "replayed": result.replayed,
        "cost": result.cost,
        "total_cost": result.total_cost,
    }
