"""From a run's history to a matching: what is in the prefix, what may be claimed, what is tried again."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass, field

from addendum import identity as ids
from addendum.broker.journal import DAMAGED, Journal
from addendum.errors import NotFound, StoreCorrupt
from addendum.kernel.claims import Claims
from addendum.kernel.policy import Allowances, Policy, Retry
from addendum.kernel.sources import Sources
from addendum.ports import Script
from addendum.records.history import History, Record
from addendum.script.program import Program, compile_program


@dataclass(slots=True)
class Scene:
    """A candidate before a run's history. `dropped` are the records that the operator gave up."""

    journal: Journal
    program: Program
    args_digest: str
    policy: Policy
    allowances: Allowances
    dropped: list[Record] = field(default_factory=list)
    start: list[Record] = field(default_factory=list)
    """The committed results that have an identity as the attempt begins."""

    def claims(self, revision: int, again: Collection[int] | None = None) -> Claims:
        """Return a fresh matching. `revision` is the candidate's number, 0 for a plan; `again` are the failures that
        are tried again, where that was decided before: an attempt's own failures are none of them."""
        history = self.journal.history
        if again is None:
            again = retried(history, self.allowances.retry)
        gone = {record.seq for record in self.dropped}.union(again)
        prefix = {at: record for at, record in history.prefix.items() if record.seq not in gone}
        records = [
            record for record in history.records.values() if record.seq not in gone and _claimable(record, revision)
        ]
        return Claims(
            prefix=prefix,
            records=records,
            sources=self.sources(),
            relocation=self.policy.relocation,
            moves=dict(self.allowances.moves),
            revision=revision,
            failed={at: record for at, record in history.prefix.items() if record.seq in again},
        )

    def sources(self) -> Sources:
        """Return the candidate beside the programs of the run's revisions."""
        return Sources(self.journal.history, self.program, self.load, compile_program, self.args_digest)

    def load(self, digest: str) -> str:
        """Return the text of one of the run's sources."""
        try:
            return self.journal.store.blob(digest).decode("utf-8")
        except UnicodeDecodeError:
            raise StoreCorrupt(f"The source {digest[:12]} in the store is no UTF-8 text.", hint=DAMAGED) from None


def scene(journal: Journal, program: Program, args_digest: str, policy: Policy, allowances: Allowances) -> Scene:
    """Set the scene for a candidate. Raises `NotFound` for a drop or a move that names nothing of this run."""
    found = Scene(journal, program, args_digest, policy, allowances)
    history = journal.history
    found.start = [r for r in history.prefix.values() if r.ok and not r.is_read]
    places = (
        {record.seq: ids.place(record.identity or record.origin) for record in history.records.values()}
        if allowances.drops
        else {}
    )
    for drop in allowances.drops:
        hits = [r for r in history.records.values() if drop in (r.identity, places[r.seq]) and r.identity is not None]
        if not hits:
            raise NotFound(
                f"No record of this run stands at {drop!r}.",
                hint=_identities(journal.run),
                drop=drop,
            )
        found.dropped.extend(record for record in hits if record not in found.dropped)
    return found


def _identities(run: str) -> str:
    return f"`addendum show {run}` lists identities; a static path is an identity without its numbers."


def named(run: str, history: History, allowances: Allowances) -> None:
    """Raise `NotFound` for a new version or a move that is allowed where nothing stands: a typo allows nothing."""
    hint = _identities(run)
    if not isinstance(allowances.supersede, bool):
        for identity in sorted(allowances.supersede):
            if identity not in history.prefix:
                raise NotFound(f"No record of this run stands at {identity!r}.", hint=hint, supersede=identity)
    if allowances.moves:
        places = {ids.place(record.identity or record.origin) for record in history.records.values()}
        for old in allowances.moves:
            if old not in places:
                raise NotFound(f"No record of this run stands at the place {old!r}.", hint=hint, move=old)


def retried(history: History, retry: Retry) -> set[int]:
    """Return the failures that this attempt tries again (DESIGN section 4)."""
    if retry == "none":
        return set()
    if retry == "open":
        return set(history.open_failures)
    done: dict[tuple[str, str], int] = {}
    for record in history.records.values():
        if record.ok:
            done[record.call] = record.seq
    return {
        record.seq
        for record in history.prefix.values()
        if not record.ok and not record.is_read and done.get(record.call, 0) < record.seq
    }


def _claimable(record: Record, revision: int) -> bool:
    """Whether a record can still belong to a call: it stands somewhere, or is a result without identity."""
    if record.identity is not None:
        return True
    if not record.ok or record.is_read:
        return False
    return not record.superseded or record.superseded == revision


def script(program: Program) -> Script:
    """Return what a sandbox gets of a program."""
    return Script(
        annotated=program.annotated,
        line_map=program.line_map,
        positions=frozenset(program.positions),
        source=program.source,
    )
