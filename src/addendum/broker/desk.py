"""The desk that every call passes before it is sent: is it within the grant, has it to be asked about, is there room.

What it writes, it writes in one transaction: the attempts, and their holds in the accounts of the run's principal.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from addendum.authority.accounts import Accounts, Hold, Later, Over
from addendum.authority.approval import needed
from addendum.authority.book import counts, targets
from addendum.authority.catalog import Capability, Catalog
from addendum.authority.grant import Grant, Limit, moment
from addendum.authority.permit import room
from addendum.broker.journal import Journal, stow
from addendum.broker.lineage import Lineage
from addendum.broker.principal import ENDS, Ledger, Ledgers, settling
from addendum.broker.schema import Schemas
from addendum.canon import Digest
from addendum.errors import JournalMoved, NotFound
from addendum.kernel.calls import Call
from addendum.kernel.decide import Execute
from addendum.kernel.loop import Halt
from addendum.ports import Beside, Clock
from addendum.records import entries
from addendum.records.entries import Settled
from addendum.records.stored import Entry, Stored


@dataclass(frozen=True, slots=True)
class Asked:
    """A call that waits for a person's word, by the seq of the question."""

    seq: int


@dataclass(slots=True)
class Desk:
    """`ledger` are the accounts of the grant's principal, None if it names none; `lineage` are the runs that the grant
    came out of."""

    journal: Journal
    accounts: Accounts
    clock: Clock
    ledger: Ledger | None = None
    lineage: Lineage | None = None
    schemas: Schemas = field(default_factory=Schemas)
    _fresh: bool = False
    _taken: int = 0
    """How many holds were taken since `look`."""
    promised: dict[tuple[str, Digest], tuple[int, int]] = field(default_factory=dict)
    """Calls that go under a permit and whose attempts aren't written: the permit's seq, and what they may cost."""

    @property
    def grant(self) -> Grant:
        """What the run may do."""
        return self.accounts.grant

    def outside(self, call: Call) -> Halt | None:
        """Return the stop for a payload that the grant's narrowing leaves out."""
        schema = self.grant.where.get(call.capability)
        if not schema or call.refused:
            return None
        problem = self.schemas.problem(schema, call.payload)
        if not problem:
            return None
        return Halt(
            "denied",
            f"The call {call.identity} of {call.capability} is outside the grant: {problem}.",
            "Keep the payload within the grant's where, or give the run a wider grant.",
            call,
            {"where": problem},
        )

    # --- approval ----------------------------------------------------------------------------------------------

    def ask(self, decision: Execute, capability: Capability, ahead: int) -> Execute | Asked | Halt:
        """Return the decision if nobody has to be asked, or was and said yes; else the question. `ahead` calls of the
        capability are on their way already."""
        history, call = self.journal.history, decision.call
        totals = history.totals.get(capability.name)
        rule = needed(self.grant.approvals, capability, (totals.calls if totals else 0) + ahead)
        if rule is None:
            return decision
        permit = self._permit(call, capability)
        if permit:
            return replace(decision, approval=permit)
        word = history.allowed.get((call.identity, call.capability, call.digest))
        if word is not None:
            return replace(decision, approval=word["ask"]) if word["approved"] else _declined(call, word)
        for seq, body in history.asks.items():
            if (body["identity"], body["capability"], body["digest"]) == (call.identity, call.capability, call.digest):
                return Asked(seq)
        blobs: dict[Digest, bytes] = {}
        body = {
            "identity": call.identity,
            "capability": call.capability,
            "digest": call.digest,
            "payload": stow(call.data, call.payload, blobs).body(),
            "rule": str(rule),
            "most": capability.reserve,
        }
        before = history.last_asks.get(call.identity)
        if before is not None and before["digest"] != call.digest:
            body["instead"] = {"digest": before["digest"], "payload": before["payload"]}
        (stored,) = [entry for entry in self.journal.append(Entry("ask", body), blobs=blobs) if entry.kind == "ask"]
        return Asked(stored.seq)

    def _permit(self, call: Call, capability: Capability) -> int:
        """Return the seq of a permit that has one left for a call, which is then promised to it; 0 for none."""
        mine = (call.identity, call.digest)
        if mine in self.promised:
            return self.promised[mine][0]
        for seq, given in self.journal.history.permits.items():
            others = [(key[1], cost) for key, (of, cost) in self.promised.items() if of == seq]
            if not room(given, call.capability, call.digest, capability.reserve, self.clock.now(), others):
                continue
            if "where" in given.body and self.schemas.problem(given.body["where"], call.payload):
                continue
            self.promised[mine] = (seq, capability.reserve)
            return seq
        return 0

    def word(self, seq: int, decision: Execute, capability: Capability) -> Execute | Halt | None:
        """Return what a person said to a question, None as long as nobody did."""
        call = decision.call
        word = self.journal.history.allowed.get((call.identity, call.capability, call.digest))
        if word is None or word["ask"] != seq:
            permit = self._permit(call, self.accounts.bounded(capability))
            return replace(decision, approval=permit) if permit else None
        return replace(decision, approval=seq) if word["approved"] else _declined(call, word)

    # --- room --------------------------------------------------------------------------------------------------

    def news(self) -> None:
        """See what others wrote: a revocation, another process's holds."""
        if self.ledger is not None:
            self.ledger.read()
            self.accounts.revoked = self.ledger.revoked
        if self.lineage is not None:
            self.accounts.above = self.lineage.bar(self.clock.now())
        self.journal.news()
        self._fresh = True

    def look(self, moved: bool) -> None:
        """Begin to reserve. What is known is good enough as long as nothing `moved`: attempts are written only if it
        still holds, and no call is held up without a look at what others wrote."""
        self._fresh, self._taken = False, 0
        if moved or self.lineage is not None:
            self.news()

    def reserve(self, capability: Capability, call: Call) -> Hold | Over | Later:
        """Take a hold for a call, or say which limit is in the way. Raises `JournalMoved` if that took a look at what
        others wrote and there was something: what was held for others since `look` was held on an older view, and has
        to be given back and taken anew."""
        found = self.accounts.reserve(capability, len(call.data), call.payload, self.clock.now())
        if not isinstance(found, Hold) and not self._fresh:
            known = self._known()
            self.news()
            if self._taken and self._known() != known:
                raise JournalMoved("Others wrote to the accounts meanwhile.", hint="Look again.")
            found = self.accounts.reserve(capability, len(call.data), call.payload, self.clock.now())
        self._taken += isinstance(found, Hold)
        return found

    def give_back(self, holds: Iterable[Hold]) -> None:
        """Undo holds that weren't written."""
        for hold in holds:
            self.accounts.undo(hold)

    def _known(self) -> tuple[int, int]:
        """Return how far the accounts and the run's journal were read."""
        return (self.ledger.seq if self.ledger is not None else 0, self.journal.history.seq)

    def question(self, capability: Capability, call: Call) -> Over | None:
        """Say which limit is in the way of a question to a person, which is a call of the run like others."""
        self.news()
        return self.accounts.question(capability, len(call.data), call.payload, self.clock.now())

    def write(
        self, new: Sequence[Entry], blobs: Mapping[Digest, bytes], taken: Sequence[tuple[int, Hold]]
    ) -> list[Stored]:
        """Write attempts with their holds, by the attempts' numbers. Raises `JournalMoved`, with the holds given back,
        when somebody else was first: another process of the principal, or a child that was given something."""
        run, history, ledger = self.journal.run, self.journal.history, self.ledger
        if ledger is None:
            beside = Beside(run, own=history.seq)
        else:
            beside = ledger.beside([((run, number), hold) for number, hold in taken], self.clock.now(), history.seq)
        ended = settling(run, history, new)
        if ended is not None:
            new, beside = self._ending(new, beside, ended)
        try:
            stored = self.journal.append(*new, blobs=blobs, beside=beside)
        except JournalMoved:
            self.give_back(hold for _, hold in taken)
            if ledger is not None:
                ledger.lost((run, number) for number, _ in taken)
            raise
        self.accounts.written()
        if ledger is not None:
            ledger.wrote(beside)
            ledger.rest()
        self._fresh = False
        if self.promised:
            for entry in new:
                self.promised.pop((entry.body.get("identity", ""), entry.body.get("digest", "")), None)
        return stored

    def _ending(self, new: Sequence[Entry], beside: Beside, ended: Beside) -> tuple[Sequence[Entry], Beside]:
        """Let attempts whose end is written before others settle in their accounts; return what is still to be written,
        and what is beside it."""
        if ended.run == beside.run and self.ledger is not None:
            return new, beside._replace(entries=[*ended.entries, *beside.entries])
        if self.ledger is None:
            return new, ended._replace(own=beside.own)
        # They are held in the accounts of another principal.
        ends = [entry for entry in new if entry.kind in ENDS]
        alone = self.journal.history.seq + len(ends)
        self.journal.append(*ends)
        # What somebody else wrote before them was folded in with them: then these don't come next.
        return [entry for entry in new if entry.kind not in ENDS], beside._replace(own=alone)

    def close(self, ledgers: Ledgers) -> None:
        """Give the principal's accounts back, once nothing more is reserved here."""
        if self.ledger is not None:
            self.journal.ledger = None
            ledgers.keep(self.ledger, self.clock.now() - _longest(self.grant))
            self.ledger = None


def _declined(call: Call, word: Mapping[str, Any]) -> Halt:
    note = f" ({word['note']})" if word.get("note") else ""
    return Halt(
        "denied",
        f"{word['by']} declined the call {call.identity} of {call.capability}{note}.",
        "Change the script, or the grant; another payload is asked about anew.",
        call,
        {"ask": word["ask"], "by": word["by"]},
    )


def overrun(settled: Settled, capability: Capability | None) -> Entry | None:
    """Return the entry that freezes a channel whose provider reported more than its declared maximum.

    A capability that nobody gave a price, or a maximum of tokens, declares none.
    """
    found: dict[str, Any] = {}
    if capability is None:
        return None
    if capability.reserve > 0 and settled.cost > capability.reserve:
        found = {"meter": "cost_usd", "reported": settled.cost, "declared": capability.reserve}
    elif capability.most_tokens is not None and settled.tokens > capability.most_tokens:
        found = {"meter": "tokens", "reported": settled.tokens, "declared": capability.most_tokens}
    if not found:
        return None
    return Entry("freeze", {"capability": capability.name, "attempt": settled.attempt, **found})


def open_desk(
    journal: Journal,
    grant: Grant,
    catalog: Catalog,
    clock: Clock,
    *,
    write: bool = True,
    ledgers: Ledgers | None = None,
) -> Desk:
    """Open the accounts of a run, and those of its principal, which may be among `ledgers`; `Desk.close` gives them
    back. Without `write`, a ledger that isn't there isn't made."""
    ledger: Ledger | None = None
    if grant.principal:
        agents = frozenset(name for name, capability in catalog.items() if capability.agentic)
        since, values = clock.now() - _longest(grant), any(counts(limit) for limit in _common(grant))
        ledger = (ledgers or Ledgers()).take(journal.store, grant.principal, agents, since, values)
        ledger.book.only(limit.key for limit in _common(grant))
        if write:
            ledger.prepare(moment(clock.now()))
            journal.ledger = ledger
        try:
            ledger.read()
            if write:
                ledger.rest()
        except NotFound:
            pass
    sent = sent_before(journal, grant)
    accounts = Accounts.of(grant, journal.history, catalog, sent, ledger.book if ledger is not None else None)
    accounts.revoked = ledger is not None and ledger.revoked
    accounts.at = clock.now()
    history = journal.history
    lineage = Lineage(journal.store, journal.run, history.parent) if history.parent else None
    if lineage is not None:
        accounts.above = lineage.bar(accounts.at)
    return Desk(journal, accounts, clock, ledger, lineage)


def _common(grant: Grant) -> list[Limit]:
    return [limit for limit in grant.every if limit.principal]


def _longest(grant: Grant) -> float:
    """Return the longest window of the principal's limits, in seconds; 0 without one."""
    return max((limit.per for limit in _common(grant) if isinstance(limit.per, float)), default=0.0)


def sent_before(journal: Journal, grant: Grant) -> Iterator[Hold]:
    """Yield the run's attempts so far with the values that the grant's limits look at."""
    if not any(counts(limit) and not limit.principal for limit in grant.every):
        return
    for stored in journal.store.entries(journal.run):
        if stored.kind == "attempt":
            body, name = stored.body, stored.body["capability"]
            found = targets(grant, name, journal.value(entries.ref(body["payload"])))
            yield Hold(name, body["hold"], body["payload"]["size"], targets=found)


__all__ = ["Asked", "Desk", "open_desk", "overrun"]
