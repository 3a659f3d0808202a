"""One attempt at a run: from the history to an end that is written down."""

from __future__ import annotations

import threading
from collections.abc import Iterable
from dataclasses import dataclass, field, replace
from typing import Any

from addendum import canon
from addendum.authority.grant import from_json
from addendum.broker.desk import open_desk
from addendum.broker.dispatch import Dispatcher
from addendum.broker.draft import Draft
from addendum.broker.drive import Drive, Ending
from addendum.broker.reconcile import ask_providers, commit_answers, unresolved
from addendum.broker.settle import Settler
from addendum.canon import Digest, Json
from addendum.errors import StoreError
from addendum.kernel.calls import Call
from addendum.kernel.decide import Rule
from addendum.kernel.loop import Loop
from addendum.kernel.policy import Allowances, Policy
from addendum.kernel.sources import Fate
from addendum.ports import Session
from addendum.records.history import History
from addendum.records.stored import Entry
from addendum.runs import delegate
from addendum.runs.context import Context, confined
from addendum.runs.locate import locate
from addendum.runs.prepare import Scene, retried, script
from addendum.runs.result import StepResult


@dataclass(slots=True)
class Attempt:
    """An attempt about to be driven. `how` is run, resume or revise: a run begins with its `drive` entry, the others
    write it here. `expected` are expression-matched records."""

    context: Context
    scene: Scene
    how: str
    args: Json
    expected: frozenset[int] = frozenset()
    rebound: int = 0
    stop: threading.Event = field(default_factory=threading.Event)

    def run(self) -> StepResult:
        """Drive the run, and write how it ended. Raises `SandboxMissing` when its backend isn't here."""
        journal = self.scene.journal
        dispatcher = self.context.dispatcher(self.context.provider, self.context.loop)
        try:
            ask_providers(journal, self.context.catalog, dispatcher, self.stop)
            commit_answers(journal)
            if self.how != "run":
                self._write_drive(journal.history.drives + 1)
            number = journal.history.drives
            self.notice({"event": "began", "drive": number, "revision": journal.history.revision, "how": self.how})
            drive = self._drive(number, dispatcher)
            ending = drive.run()
            locate(self.scene.program, ending.where)
            result = self._end(drive, ending, number)
            drive.settler.desk.close(self.context.ledgers)
            delegate.upwards(self.context, journal.history.parent)
            if drive.missing is not None:
                raise drive.missing
            return result
        finally:
            dispatcher.close()

    def _write_drive(self, number: int) -> None:
        scene, journal = self.scene, self.scene.journal
        revision = journal.history.revision
        entry, blobs = drive_entry(self.context, number, revision, self.how, scene.policy, scene.allowances)
        journal.append(entry, blobs=blobs)

    def _drive(self, number: int, dispatcher: Dispatcher) -> Drive:
        scene, context = self.scene, self.context
        journal = scene.journal
        revision = journal.history.revision
        again = retried(journal.history, scene.allowances.retry)
        notice = self.notice if context.watched else None

        def loop() -> Loop:
            return Loop(scene.claims(revision, again), notice, context.max_payload)

        def session(computed: float) -> Session:
            limits = confined(context.limits, grant, journal.history.computed)
            left = replace(limits, total_seconds=max(0.001, limits.total_seconds - computed)) if computed else limits
            return context.sandbox.open(
                script(scene.program), canon.plain(self.args), limits=left, nonce=context.clock.token()
            )

        def fingerprint(call: Call) -> str:
            position = scene.program.positions.get(call.site_position)
            return position.fingerprint or "" if position is not None else ""

        grant, first = from_json(journal.history.grant or {}), loop()
        settler = Settler(
            journal=journal,
            rule=Rule(
                claims=first.claims,
                catalog=context.catalog,
                grant=grant,
                policy=scene.policy,
                allowances=scene.allowances,
                drive=number,
                attempts=dict(journal.history.attempts),
                expected=self.expected,
            ),
            desk=open_desk(journal, grant, context.catalog, context.clock, ledgers=context.ledgers),
            dispatcher=dispatcher,
            clock=context.clock,
            notice=notice,
            draft=Draft(journal.run, revision, number, fingerprint, context.clock, grant.principal),
            backoff=context.backoff,
            schemas=context.schemas,
        )
        return Drive(
            settler=settler,
            open_session=session,
            new_loop=loop,
            max_result=context.max_result,
            stop_requested=self.stop,
            loop=first,
        )

    def notice(self, event: dict[str, Any]) -> None:
        self.context.tell({"run": self.scene.journal.run, **event})

    def _end(self, drive: Drive, ending: Ending, number: int) -> StepResult:
        journal, settler, claims = self.scene.journal, drive.settler, drive.loop.claims
        ending = _without_args(_unfinished(ending, journal.history), self.args)
        orphans = (
            [
                record
                for record in self.scene.start
                if record.seq not in claims.claimed and record.seq not in settler.commits.superseded
            ]
            if ending.status == "completed"
            else []
        )
        if orphans and self.scene.policy.orphans == "stop":
            ending = Ending(
                "stopped",
                "orphans",
                message=f"The revision leaves committed calls unused: {len(orphans)}.",
                hint="Use them, or accept that with --policy orphans=warn.",
                value=ending.value,
                where=ending.where,
            )
        blobs: dict[Digest, bytes] = {}
        body: dict[str, Any] = {
            "drive": number,
            "status": ending.status,
            "stop": ending.stop,
            "error": ending.error,
            "message": ending.message,
            "hint": ending.hint,
            "where": canon.freeze(ending.where),
            "open": _open(drive.loop, ending.status),
            "orphans": [record.seq for record in orphans],
            **settler.accounts.whole(),
            "at_ms": round(self.context.clock.now() * 1000),
            "counts": self._counts(drive, len(orphans)),
            "replayed": spans(seq for seq in claims.handed if journal.history.records[seq].drive != number),
        }
        if ending.status == "completed":
            result, blobs = drive.result_ref(ending.value)
            body["result"] = result.body()
        last = [*_anchors(drive, journal.history.revision), Entry("end", body)]
        try:
            delegate.end(self.context, journal, settler.accounts, ending.status, last, blobs)
        except StoreError as error:
            if ending.stop != "store_unavailable":
                ending = Ending("stopped", "store_unavailable", None, error.message, error.hint, where=ending.where)
        found = self._result(drive, ending, body, orphans)
        told = ("dispatched", "executed", "replayed", "cost")
        self.notice(
            {
                "event": "ended",
                "drive": number,
                "status": found.status,
                "stop": found.stop,
                "error": found.error,
                **{name: body["counts"][name] for name in told},
            }
        )
        return found

    def _counts(self, drive: Drive, orphans: int) -> dict[str, int]:
        tally = drive.settler.commits.tally
        return {
            "dispatched": tally.dispatched,
            "executed": tally.executed,
            "replayed": drive.loop.served,
            "rebound": self.rebound + drive.rebound,
            "superseded": tally.superseded,
            "repeats": tally.repeats,
            "orphans": orphans,
            "cost": tally.cost,
        }

    def _result(self, drive: Drive, ending: Ending, body: dict[str, Any], orphans: list[Any]) -> StepResult:
        history = self.scene.journal.history
        found = StepResult(
            run=self.scene.journal.run,
            status=ending.status,
            stop=ending.stop,
            error=ending.error,
            message=ending.message,
            hint=ending.hint,
            committed=history.committed,
            counterexamples=_kinds(ending),
            result=ending.value if ending.status == "completed" else None,
            total_cost=sum(totals.cost for totals in history.totals.values()),
            revision=history.revision,
            **body["counts"],
        )
        found.details = {
            "where": ending.where,
            "orphans": [record.identity or record.origin for record in orphans],
            "unsaved": drive.settler.commits.unsaved,
            "unresolved": [attempt.identity for attempt in unresolved(history) if attempt.side_effecting],
        }
        return found


def drive_entry(
    context: Context, number: int, revision: int, how: str, policy: Policy, allowances: Allowances
) -> tuple[Entry, dict[Digest, bytes]]:
    """Return the entry that an attempt begins with, and the catalog that it refers to."""
    supersede = allowances.supersede if isinstance(allowances.supersede, bool) else sorted(allowances.supersede)
    catalog = context.catalog
    body = {
        "drive": number,
        "revision": revision,
        "how": how,
        "policy": policy.to_json(),
        "retry": allowances.retry,
        "supersede": supersede,
        "catalog": catalog.digest,
        "sandbox": context.sandbox.name,
        "at_ms": round(context.clock.now() * 1000),
    }
    return Entry("drive", body), {catalog.digest: catalog.data}


def spans(numbers: Iterable[int]) -> list[list[int]]:
    """Return numbers as spans, first and last: [1, 2, 3, 7] is [[1, 3], [7, 7]]. Few numbers for many replays."""
    found: list[list[int]] = []
    for number in sorted(numbers):
        if found and found[-1][1] == number - 1:
            found[-1][1] = number
        else:
            found.append([number, number])
    return found


def _anchors(drive: Drive, revision: int) -> list[Entry]:
    """Keep the records of calls that are written otherwise, and ask for the same, in the terms of this source."""
    return [
        Entry("rebind", {"record": seq, "identity": at, "revision": revision, "proof": "same_place"})
        for seq, at in drive.loop.rewritten()
    ]


def _open(loop: Loop, status: str) -> list[int]:
    """Return the failures that are open after an attempt: those after which a failed run asked nothing more, and those
    that were open or to be tried again, and that this attempt handed to nobody and didn't send. A race was over first,
    or the run failed before it came there: the script had neither the old failure nor another answer."""
    failed, claims = status == "failed", loop.claims
    history, made = claims.sources.history, claims.made
    found = set(loop.handled.open) if failed else set()
    before = history.open_failures.union(record.seq for record in claims.failed.values())
    left = [history.records[seq] for seq in before if seq not in claims.claimed]
    if not left:
        return sorted(found)
    asked = set(made.values())
    unsent = {call for at, call in made.items() if history.prefix.get(at) is claims.failed.get(at)}
    for record in left:
        at = record.identity
        if at is None:
            continue  # it has another answer
        to_come = at not in made and (claims.fate(record) is Fate.SAME or record.call not in asked)
        if record.call in unsent or (failed and to_come):
            found.add(record.seq)
    return sorted(found)


def _unfinished(ending: Ending, history: History) -> Ending:
    """A run isn't completed while something that it sent may have had its effect and nobody knows: a race's loser, say,
    for which the script doesn't wait."""
    lost = [attempt for attempt in unresolved(history) if attempt.side_effecting]
    if ending.status != "completed" or not lost:
        return ending
    first = lost[0]
    return Ending(
        "stopped",
        "unresolved",
        message=f"The script came to its end, but the call {first.identity} of {first.capability} was sent and has no "
        "result: it may have had its effect.",
        hint="Find out what became of it, then `addendum reconcile RUN` with the result, or declare it abandoned.",
        where={"identity": first.identity, "capability": first.capability, "attempt": first.seq, "key": first.key},
    )


def _without_args(ending: Ending, args: Json) -> Ending:
    """Tell whoever started a run without args that its script wanted some: a bare KeyError doesn't."""
    trace = ending.where.get("trace") or []
    if ending.status != "failed" or ending.error != "KeyError" or args or not trace:
        return ending
    if not any(f"args[{quote}{ending.message}{quote}]" in str(trace[-1]["expression"]) for quote in "'\""):
        return ending
    hint = "The run has no args, and its script reads some: give them with `addendum resume RUN --args FILE|JSON`."
    return replace(ending, hint=hint)


def _kinds(ending: Ending) -> list[str]:
    if ending.stop != "divergence":
        return []
    return ["ambiguous" if "ambiguous" in ending.where else "divergence"]
