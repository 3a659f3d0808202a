"""The closed list of rejection codes, `layer.reason`, and the finding that carries one.

A rejection is a value with a code, a subject and evidence; what isn't foreseen here is an error, never a rejection.
An *undecided* code (exit 4) says that something is missing or not yet known; every other one (exit 3) is a refusal.
docs/reference/work-rejections.md explains each; a test holds the page and this table together.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Final

from addendum.canon import Json
from addendum.errors import Rejected

WAYS: Final[Mapping[str, str]] = {
    "spec.unbound_criterion": "Bind the criterion to a validator of the policy, or to a person with `human:ROLE`.",
    "spec.unresolved_question": "Answer the question in the specification, or mark it as not blocking.",
    "revision.unpinned": "Write the base as a full commit id (40 hexadecimal digits).",
    "revision.unknown": "Fetch the commit into the repository, or name another base.",
    "graph.cycle": "Break the cycle in `after`.",
    "graph.unknown_predecessor": "Name a slice of this plan in `after`, and give every slice a name of its own.",
    "graph.not_eligible": "Wait until every predecessor is accepted for the tree that this slice would get.",
    "graph.merge_conflict": "Put one slice after the other with `after`, so that the second sees the first's result.",
    "capability.missing": "Name a capability that exists, or have the operator add it to the policy.",
    "capability.version": "Ask for the version that exists.",
    "route.unsatisfied": "Choose an executor whose modes satisfy what the slice needs, or have the operator add one.",
    "authority.exceeds_ceiling": "Ask for less, or have the operator raise the ceiling.",
    "authority.delegation_exceeds_parent": "Lower the slices' budgets: together they may not exceed the contract's.",
    "snapshot.mismatch": "Admit the plan again with `--supersedes CONTRACT`, or restore what changed.",
    "sandbox.unavailable": "Install bubblewrap (Debian: `apt install bubblewrap`) and allow user namespaces.",
    "bound.unbounded": "Give every loop and fan-out of the script a bound that follows from its source.",
    "bound.exceeds_budget": "Lower the script's bounds, or ask for a larger budget.",
    "script.rejected": "Mend what the checker names; `addendum rule R02` explains a rule.",
    "oracle.baseline_not_red": "A goal validator has to fail on the base: one that passes there shows nothing.",
    "oracle.baseline_not_green": "A guard has to pass on the base: mend the base, or the guard.",
    "oracle.reference_not_green": "Mend the validator, or the reference: the one has to pass on the other.",
    "oracle.guard_inert": "Name a mutant that the guard turns red on, outside the candidate's process.",
    "scope.path": "Leave the path alone, or ask for it in a new plan.",
    "scope.kind": "Keep files files: links, submodules, and a folder in a file's place aren't granted.",
    "scope.mode": "Restore the file's mode.",
    "scope.protected": "Leave the file alone: the operator keeps it out of every plan's reach.",
    "scope.size": "Change fewer files, or smaller ones.",
    "path.reserved": "Choose another name: this one means something to git or to an operating system.",
    "path.control": "Remove invisible and control characters from the name.",
    "path.not_nfc": "Write the name in Unicode's composed form (NFC).",
    "path.encoding": "Write the name in UTF-8.",
    "path.collision": "Choose a name that differs by more than case from the other one.",
    "file.symlink": "Put a file in the link's place; a link of the base may stay as it is.",
    "file.special": "Remove the pipe, socket or device.",
    "file.hardlink": "Make a copy in the hard link's place.",
    "file.size": "Make the file smaller.",
    "validator.failed": "Mend the candidate: the validator's report says what it found.",
    "validator.error": "Mend the validator: it crashed, or reported nothing that counts as evidence.",
    "validator.timeout": "Raise the validator's timeout, or find out why it doesn't end.",
    "validator.missing": "Run `addendum work gate` again: a validator that was planned has no result.",
    "validator.tampered": "Restore the validator's files, or pin their new digest in the policy.",
    "provenance.stale_base": "Make the change against the contract's base, or admit the plan against the new one.",
    "provenance.mismatch": "Something is not what was recorded: keep it for a closer look, and restore a copy.",
    "provenance.signature": "The signature is not by a trusted key, or the text was changed: use the signed original.",
    "budget.attempts": "The slice's attempts are used up: admit a new plan that grants more.",
    "budget.calls": "Ask for more calls in the slice's grant.",
    "budget.cost": "Ask for more money in the slice's grant.",
    "budget.tokens": "Ask for more tokens in the slice's grant.",
    "budget.bytes": "Ask for more bytes in the slice's grant.",
    "budget.distinct": "Ask for more different values in the slice's grant.",
    "budget.deadline": "The grant's time is over: admit a new plan under a policy that grants a later one.",
    "budget.seconds": "Ask for more time in the slice's grant.",
    "attempt.unresolved": "Write back what became of the call, or declare it abandoned: `addendum reconcile`.",
    "attempt.no_change": "The executor changed nothing, which is a valid outcome; try another executor or plan.",
    "attempt.failed": "The executor's report says why; its output is kept with the attempt.",
    "attempt.refused": "The executor says that it can't do it, which is a valid outcome; change the plan.",
    "attempt.timed_out": "Grant the slice more time, or find out why the executor doesn't end.",
    "approval.missing": "Have a person with the role approve: `addendum work approve`.",
    "approval.stale": "The approval is for something else: have it given for what is there now.",
    "approval.self": "Have somebody else approve: nobody approves their own work.",
    "approval.replayed": "An approval counts once: have a new one given.",
    "promotion.unapproved": "Have a person with the role `promote` approve this promotion: `addendum work approve`.",
    "promotion.stale": "The approval is for another tree: have this one approved.",
    "promotion.conflict": "The ref has moved: admit the plan against where it is now.",
}
"""Every code, and the way out."""

UNDECIDED: Final = frozenset(
    {
        "graph.not_eligible",
        "validator.timeout",
        "validator.missing",
        "attempt.unresolved",
        "attempt.timed_out",
        "approval.missing",
        "promotion.unapproved",
    }
)


@dataclass(frozen=True, slots=True)
class Finding:
    """One reason against something. `subject` is what it is about (a path, a slice, a validator), `evidence` facts."""

    code: str
    subject: str
    message: str
    evidence: Mapping[str, Json] = field(default_factory=dict)

    def __post_init__(self) -> None:
        """Hold to the closed list."""
        if self.code not in WAYS:
            raise KeyError(self.code)

    @property
    def undecided(self) -> bool:
        """Whether something is missing, rather than wrong."""
        return self.code in UNDECIDED

    @property
    def hint(self) -> str:
        """The way out."""
        return WAYS[self.code]

    def to_json(self) -> dict[str, Json]:
        """Return the finding as JSON."""
        return {
            "code": self.code,
            "layer": self.code.partition(".")[0],
            "subject": self.subject,
            "message": self.message,
            "hint": self.hint,
            "evidence": dict(self.evidence),
        }


def exit_code(findings: Iterable[Finding]) -> int:
    """Return 0 without findings, 4 if all of them are undecided, else 3."""
    listed = list(findings)
    if not listed:
        return 0
    return 4 if all(finding.undecided for finding in listed) else 3


class Refused(Rejected):
    """A typed rejection on its way out of where it was found; `findings` has at least one."""

    def __init__(self, *findings: Finding) -> None:
        first = findings[0]
        super().__init__(f"{first.code}: {first.message}", hint=first.hint)
        self.findings = findings


def refuse(code: str, subject: str, message: str, **evidence: Json) -> Refused:
    """Return an exception with one finding."""
    return Refused(Finding(code, subject, message, evidence))
