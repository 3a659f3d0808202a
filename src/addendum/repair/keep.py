"""What an attempt leaves in the run's journal: a `draft` before the model is asked, with what it may cost at most, and
a `drafted` with what came of it. Money of the loop is money of the run, bounded by its grant like everything else.

A process that is gone leaves a draft without an end. Its hold stays held, so that nothing else can spend it; whoever
starts the loop next counts it as spent in full (`settle_lost`): more than that it can't have cost.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any, Final

from addendum import canon
from addendum.authority.accounts import Hold, Later, Over
from addendum.authority.approval import Approval, needed
from addendum.authority.book import bounded
from addendum.authority.catalog import WRITE, Capability
from addendum.authority.grant import Limit
from addendum.broker import fit
from addendum.broker.desk import Asked, Desk, open_desk
from addendum.broker.journal import Journal, stow
from addendum.canon import Digest, Json
from addendum.errors import JournalMoved
from addendum.kernel.calls import Call
from addendum.kernel.decide import Execute
from addendum.kernel.loop import Halt
from addendum.ports import Model, Prompt
from addendum.records.entries import Draft, Drafted, Purpose, Ref
from addendum.records.stored import Entry
from addendum.repair import prompt as prompts
from addendum.repair.answer import Candidate, kept
from addendum.repair.findings import Finding
from addendum.runs.context import Context
from addendum.runs.start import granted

MAX_ANSWER: Final = 512 * 1024
"""Bytes of an answer that are taken; a larger one counts as one without a script."""
TRIES: Final = 20
"""How often a reservation is tried again when another process of the principal was first."""
IDENTITY: Final = "repair/repair.write#0"
"""Where a model call of the loop stands in questions of a grant's rules: no script has such a place."""


@dataclass(frozen=True, slots=True)
class Barred:
    """Why the model isn't asked. `status` is `paused` (a limit), `waiting` (a person is asked) or `stopped` (one said
    no); `limit` names the limit."""

    status: str
    message: str
    hint: str
    limit: str = ""


@dataclass(frozen=True, slots=True)
class Reserved:
    """A draft that is in the journal, with its hold."""

    draft: Draft
    hold: Hold
    timeout: float


@dataclass(slots=True)
class Desked:
    """The accounts of one loop. `model` is who is asked."""

    context: Context
    journal: Journal
    model: Model
    timeout: float
    desk: Desk = field(init=False)

    def __post_init__(self) -> None:
        grant = granted(self.journal)
        self.desk = open_desk(self.journal, grant, self.context.catalog, self.context.clock)

    def capability(self, asked: Prompt) -> Capability:
        """What asking the model this is, in the words of a catalog: with the most that this very prompt may take."""
        most = self.model.bound(asked)
        return Capability(
            name=WRITE,
            effect="read",
            price=self.model.most if most.cost is None else most.cost,
            timeout=self.timeout,
            retries=0,
            max_result=MAX_ANSWER,
            most_tokens=None if self.model.most_tokens is None else most.tokens,
            model=self.model.name,
            about="A model writes or mends the script.",
        )

    def reserve(self, purpose: Purpose, attempt: int, asked: Prompt) -> Reserved | Barred:
        """Write the draft with its hold, or say what stands in the way."""
        capability = bounded(self.capability(asked), self.desk.grant)
        value: Json = prompts.to_json(asked)
        data = canon.canonical(value)
        call = Call(0, IDENTITY, WRITE, value, data, canon.sha256(data))
        for _ in range(TRIES):
            self.desk.news()
            approval = self._asked(call, capability)
            if isinstance(approval, Barred):
                return approval
            hold = self.desk.reserve(capability, call)
            if isinstance(hold, Over | Later):
                return _limited(hold)
            blobs: dict[Digest, bytes] = {}
            draft = Draft(
                number=self.journal.history.attempted + 1,
                purpose=purpose,
                attempt=attempt,
                model=self.model.name,
                capability=WRITE,
                prompt=stow(data, value, blobs),
                revision=self.journal.history.revision,
                hold=hold.cost,
                tokens=hold.tokens,
                at=self.context.clock.now(),
                principal=self.desk.grant.principal,
                approval=approval,
            )
            try:
                stored = self.desk.write([Entry("draft", draft.body())], blobs, [(draft.number, hold)])
            except JournalMoved:
                continue
            seq = next(entry.seq for entry in stored if entry.kind == "draft")
            return Reserved(self.journal.history.drafts[seq], hold, capability.timeout)
        return Barred("paused", "Other runs of the principal reserve all the time.", "Try again later.")

    def _asked(self, call: Call, capability: Capability) -> int | Barred:
        """Return the question that a person said yes to, 0 if a rule of the grant names this capability for none.

        Rules for all capabilities are about what scripts call: whoever starts the loop is a person that was asked."""
        grant = self.desk.grant
        totals = self.journal.history.totals.get(WRITE)
        mine = [rule for rule in grant.approvals if rule.capability == WRITE]
        rule: Approval | None = needed(mine, capability, totals.calls if totals else 0)
        if rule is None:
            return 0
        found = self.desk.ask(Execute(call), capability, 0)
        match found:
            case Asked():
                hint = "`addendum approve RUN` answers, then ask for the repair again."
                return Barred("waiting", f"The grant asks a person before a model is asked ({rule}).", hint)
            case Halt():
                return Barred("stopped", found.message, "Change the grant, or write the script yourself.")
            case Execute():
                return found.approval

    def settle(self, reserved: Reserved, drafted: Drafted, blobs: dict[Digest, bytes]) -> None:
        """Write what came of a draft, and give its hold back. A model that reports more than its maximum is frozen."""
        entries = [Entry("drafted", drafted.body())]
        over = self._overrun(reserved, drafted)
        if over is not None:
            entries.append(over)
        self.journal.append(*entries, blobs=blobs)
        self.desk.accounts.settle(reserved.hold)

    def _overrun(self, reserved: Reserved, drafted: Drafted) -> Entry | None:
        most, known = reserved.hold.cost, self.model.most_tokens is not None
        body: dict[str, Any] = {"capability": WRITE, "attempt": reserved.draft.seq}
        if most > 0 and drafted.cost > most:
            return Entry("freeze", {**body, "meter": "cost_usd", "reported": drafted.cost, "declared": most})
        if known and drafted.tokens > reserved.hold.tokens:
            declared = reserved.hold.tokens
            return Entry("freeze", {**body, "meter": "tokens", "reported": drafted.tokens, "declared": declared})
        return None


def settle_lost(journal: Journal) -> list[Draft]:
    """Count the drafts of processes that are gone as spent in full, and return them."""
    lost = list(journal.history.drafts.values())
    note = "the process that asked the model is gone: counted as spent in full"
    for draft in lost:
        drafted = Drafted(attempt=draft.seq, verdict="lost", cost=draft.hold, tokens=draft.tokens, note=note)
        journal.append(Entry("drafted", drafted.body()))
    return lost


def candidate_blob(candidate: Candidate, blobs: dict[Digest, bytes]) -> Digest:
    """Put a candidate's script among the blobs, and return its digest. Of one that is far too large, its beginning."""
    data = kept(candidate.script)
    digest = canon.sha256(data)
    blobs[digest] = data
    return digest


def findings_ref(found: tuple[Finding, ...], blobs: dict[Digest, bytes]) -> Ref:
    """Return a reference to findings as they are kept."""
    value = fit.sound(canon.freeze([each.to_json() for each in found]))
    return stow(canon.canonical(value), value, blobs)


def _limited(found: Over | Later) -> Barred:
    limit: Limit = found.limit
    if isinstance(found, Later):
        return Barred(
            "paused", f"The limit {limit} is reached for now.", "Ask again later, or raise the limit.", str(limit)
        )
    return Barred(
        "paused",
        found.sentence("asking a model"),
        f"{found.way_out}.",
        str(limit),
    )
