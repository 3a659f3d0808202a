"""The dispatch rule of DESIGN section 4 for a call that has no record, as one ordered table.

The first row that applies decides. Rows stop the run or let it go on; nothing here acts.

| row | applies when | then |
| --- | --- | --- |
| `unresolved` | an attempt without a result is equal, or stands at the identity | stop (a read-only one is retried) |
| `divergent` | the identity's own record isn't equal, its place is intact, nobody claimed it | stop, or supersede |
| `ambiguous` | rule 4 of the matching | stop |
| `ungranted` | the capability isn't in the catalog or not granted | stop |
| `repeated` | the ledger finds an equal call that was paid for, and the policy denies it | stop |
| – | else | execute |
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import TypeAlias

from addendum.authority.catalog import Catalog
from addendum.authority.grant import Grant
from addendum.kernel import ledger
from addendum.kernel.calls import Call
from addendum.kernel.claims import Ambiguous, Claims
from addendum.kernel.doubt import exchanged
from addendum.kernel.ledger import Finding
from addendum.kernel.loop import Halt
from addendum.kernel.policy import Allowances, Policy
from addendum.kernel.sources import Fate
from addendum.records.entries import Attempt
from addendum.records.history import Record


@dataclass(frozen=True, slots=True)
class Execute:
    """A call may be sent, as far as identities go. `supersedes` is the record whose new version it is; `retries` an
    attempt without a result that is void by this; `finding` a warning of the ledger."""

    call: Call
    supersedes: Record | None = None
    finding: Finding | None = None
    retries: Attempt | None = None
    approval: int = 0
    """The seq of the question that a person said yes to, 0 if none was asked."""


@dataclass(frozen=True, slots=True)
class Wait:
    """A person was asked already; the call waits for the answer to this attempt."""

    call: Call
    attempt: Attempt


Decision: TypeAlias = Execute | Wait | Halt


@dataclass(slots=True)
class Rule:
    """What decides: the matching, the authority, and the policies of this attempt.

    `expected` are the seqs of records that are expression-matched: their calls are still to come.
    """

    claims: Claims
    catalog: Catalog
    grant: Grant
    policy: Policy
    allowances: Allowances
    drive: int
    attempts: dict[int, Attempt]
    expected: frozenset[int] = frozenset()
    _open: dict[str, list[Attempt]] = field(default_factory=dict)

    def __post_init__(self) -> None:
        for attempt in self.attempts.values():
            self._open.setdefault(attempt.identity, []).append(attempt)

    def asked(self, attempt: Attempt) -> None:
        """A person was asked in this attempt at the run: an execution that starts again waits for the same answer."""
        self.attempts[attempt.seq] = attempt
        self._open.setdefault(attempt.identity, []).append(attempt)

    def decide(self, call: Call) -> Decision:
        """Apply the table to one call. Most are new altogether: no row is asked about what isn't there."""
        known, equal = call.identity in self.claims.prefix, bool(self.claims.equals(call.call))
        superseded = self.superseding(call) if known or self.claims.sources.history.replacing else None
        retried = self._unresolved(call) if self.attempts else None
        if isinstance(retried, Halt | Wait):
            return retried
        halt = (
            (self._divergent(call, superseded) if known else None)
            or (self._ambiguous(call) if equal else None)
            or self._ungranted(call)
        )
        if halt is not None:
            return halt
        finding = self.finding(call) if equal and superseded is None else None
        if finding is not None and finding.denied:
            return _repeated(finding)
        return Execute(call, superseded, finding, retried)

    def superseding(self, call: Call) -> Record | None:
        """Return the committed record whose new version a call would be, if the operator allows that, or has done."""
        record = self.claims.prefix.get(call.identity)
        if record is None or not record.ok:
            return self._tried(call, record)
        if record.is_read or record.given_up or record.seq in self.claims.claimed or record.call == call.call:
            return None  # what was given up needs no new version: it waits for whoever puts its call back
        if record.seq in self.expected or not (self.allowances.may_supersede(call.identity) or self._allowed(record)):
            return None
        return record

    def _tried(self, call: Call, failed: Record | None) -> Record | None:
        """Return the record whose new version failed, if a call is the next try of that."""
        history = self.claims.sources.history
        failed = failed or self.claims.failed.get(call.identity)
        replaced = history.records.get(history.replacing.get(call.identity, 0))
        if failed is None or replaced is None or failed.call != call.call:
            return None
        free = replaced.identity is None and not replaced.superseded and replaced.seq not in self.claims.claimed
        return replaced if free else None

    def _allowed(self, record: Record) -> bool:
        """Whether a revision that goes on was admitted though a record's call is written otherwise: the gate lets that
        pass for a new version that was allowed, and for a call that is expected elsewhere."""
        claims = self.claims
        return bool(claims.revision) and claims.fate(record) is Fate.CHANGED and claims.expected(record) is None

    def finding(self, call: Call) -> Finding | None:
        """Ask the ledger."""
        capability = self.catalog.get(call.capability)
        return ledger.find(
            call,
            self.claims.equals(call.call),
            self.claims.sources,
            drive=self.drive,
            policy=self.policy.ledger,
            side_effecting=capability is None or capability.side_effecting,
        )

    def doubt(self, late: Sequence[tuple[Call, Record]] = ()) -> Halt | None:
        """Look at what was claimed since the last look: may equal calls have taken each other's records? `late` was
        claimed just now, because nothing else could go on: an equal record may still be reached, unless it is where
        it was expected."""
        if not late and not self.claims.unsure:
            return None
        unforeseen = [call for call, record in late if record.ok and not self.claims.foreseen(record, call)]
        found = [seen for call in unforeseen if (seen := self.claims.reachable(call)) is not None]
        if self.claims.unsure:
            found += exchanged(self.claims, tuple(self.claims.unsure))
            self.claims.unsure.clear()
        return _unclear(found[0]) if found else None

    def _unresolved(self, call: Call) -> Halt | Wait | Attempt | None:
        here = self._open.get(call.identity, [])
        for attempt in here:
            if attempt.waits and (attempt.capability, attempt.digest) == call.call:
                return Wait(call, attempt)
        equal = [a for a in self.attempts.values() if not a.waits and (a.capability, a.digest) == call.call]
        for attempt in [*(a for a in here if not a.waits), *equal]:
            if attempt.side_effecting:
                return unresolved(call, attempt)
        return next((a for a in here if not a.waits), None)

    def _divergent(self, call: Call, superseded: Record | None) -> Halt | None:
        record = self.claims.diverges(call)
        if record is None or superseded is not None:
            return None
        return Halt(
            "divergence",
            f"The call {call.identity} of {call.capability} was committed with another payload.",
            "Put the payload back, or allow the new one with --supersede changed.",
            call,
            {"record": record.seq},
        )

    def _ambiguous(self, call: Call) -> Halt | None:
        found = self.claims.moved(call)
        if not isinstance(found, Ambiguous):
            found = self.claims.reachable(call) or self.claims.twin(call)
        return _unclear(found) if found is not None else None

    def _ungranted(self, call: Call) -> Halt | None:
        if call.is_read or (call.capability in self.catalog and call.capability in self.grant.capabilities):
            return None
        known = call.capability in self.catalog
        return Halt(
            "denied",
            f"The capability {call.capability} is not {'granted to this run' if known else 'in the catalog'}.",
            "Grant it with `addendum grant RUN FILE`."
            if known
            else "Go on with the provider that has it (--provider MODULE:APP), or register it.",
            call,
        )


def _unclear(found: Ambiguous) -> Halt:
    call = found.call
    return Halt(
        "divergence",
        f"The call {call.identity} of {call.capability} is equal to a committed one, "
        "and it can't be told whether it is that one.",
        "Say take=2 in the script if a second artifact is wanted, declare the move, or drop the committed one.",
        call,
        {"ambiguous": found.rule, "records": [record.seq for record in found.records]},
    )


def unresolved(call: Call, attempt: Attempt) -> Halt:
    """Return the stop for a call whose earlier attempt has no result."""
    where = "An attempt of it" if attempt.identity == call.identity else f"An equal call at {attempt.identity}"
    return Halt(
        "unresolved",
        f"{where} was sent and has no result: it may have had its effect. "
        f"{call.capability} is not sent again by itself.",
        "Find out what became of it, then `addendum reconcile RUN` with the result, or declare it abandoned.",
        call,
        {"attempt": attempt.seq, "key": attempt.key},
    )


def _repeated(finding: Finding) -> Halt:
    call = finding.call
    return Halt(
        "repeat",
        f"The call {call.identity} would pay again for what {finding.record.origin} paid for: "
        f"a {finding.kind} of {call.capability}.",
        "Say take=2 in the script if a second artifact is wanted, or allow it with --policy ledger=warn.",
        call,
        {"record": finding.record.seq, "finding": finding.kind},
    )
