"""The gate: a candidate is judged from its bytes, by the real diff and by the operator's validators.

A verdict says what was found here and nothing more. Nothing in this module, or below it, moves a ref.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any, Final

from addendum.canon import Digest, Json
from addendum.errors import StoreCorrupt
from addendum.signing import IN_TOTO
from addendum.work import attest, people, scope
from addendum.work.bench import Admitted, Bench
from addendum.work.codes import Finding, exit_code
from addendum.work.contract import Slice
from addendum.work.objects import Flat
from addendum.work.validate import Checked, pinned, staged

SCOPE: Final = "scope"


@dataclass(frozen=True, slots=True, kw_only=True)
class Candidate:
    """What is judged. `input` is the tree that it was made from; `attempt` is 0 for a union, which has no slice."""

    attempt: int
    slice: Slice | None
    tree: str
    manifest: Digest
    flat: Flat
    input: str
    sizes: Mapping[str, int] = field(default_factory=dict)
    against: tuple[Finding, ...] = ()
    """What is known against it already."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Verdict:
    """`accepted`, `rejected` or `undecided`, at this gate only."""

    verdict: str
    findings: tuple[Finding, ...]
    slice: str
    attempt: int
    tree: str
    checks: Mapping[str, str] = field(default_factory=dict)
    outcome: str = "candidate"

    @property
    def exit_code(self) -> int:
        """The exit status of a command that ends with this."""
        return 0 if self.verdict == "accepted" else exit_code(self.findings) or 3

    def to_json(self) -> dict[str, Json]:
        """Return the verdict as JSON."""
        first = self.findings[0].code if self.findings else None
        return {
            "verdict": self.verdict,
            "scope": "slice-gate",
            "code": first,
            "slice": self.slice,
            "attempt": self.attempt,
            "outcome": self.outcome,
            "tree": self.tree or None,
            "checks": dict(self.checks),
            "findings": [finding.to_json() for finding in self.findings],
        }


def verdict_of(findings: Iterable[Finding]) -> str:
    """Return the verdict that findings come to."""
    return {0: "accepted", 4: "undecided"}.get(exit_code(findings), "rejected")


def judge(bench: Bench, admitted: Admitted, candidate: Candidate) -> Verdict:
    """Judge a candidate and write down what was found. Raises `SandboxMissing` before anything is written."""
    bench.confinement.profile()
    name = candidate.slice.name if candidate.slice is not None else ""
    findings = list(candidate.against)
    findings += _changes(bench, candidate)
    checks: dict[str, Checked] = {SCOPE: _scope(findings)}
    validators = () if findings else _validators(admitted, candidate)
    admitted.journal.append(
        "work.gate",
        {
            "attempt": candidate.attempt,
            "slice": name,
            "tree": candidate.tree,
            "manifest": candidate.manifest,
            "input": candidate.input,
            "expected": [SCOPE, *validators],
            "at_ms": bench.now(),
        },
    )
    _said(bench, admitted, candidate, SCOPE, checks[SCOPE])
    for each, checked in _run(bench, admitted, candidate, validators):
        checks[each] = checked
        _said(bench, admitted, candidate, each, checked)
        finding = checked.finding(each)
        if finding is not None:
            findings.append(finding)
    approvals: tuple[int, ...] = ()
    if candidate.slice is not None and candidate.slice.people and not findings:
        approved = people.approved(admitted, candidate.slice, candidate.tree, bench.key.public)
        findings += approved.findings
        approvals = approved.approvals
    return _written(bench, admitted, candidate, findings, checks, approvals)


def _run(
    bench: Bench, admitted: Admitted, candidate: Candidate, validators: tuple[str, ...]
) -> Iterator[tuple[str, Checked]]:
    if not validators:
        return
    policy = admitted.policy
    with staged(candidate.flat, bench.repository.data, admitted.files, bench.confinement, policy.confines) as ready:
        for name in validators:
            pinned(admitted.files, policy.validators[name], admitted.digests[name])
            yield name, ready.run(policy.validators[name])


def _changes(bench: Bench, candidate: Candidate) -> list[Finding]:
    """Return what the diff against the input shows, by the trees alone."""
    if candidate.slice is None:
        return []
    before = bench.repository.flat(candidate.input)
    sizes = dict(candidate.sizes)
    for change in scope.changes(before, candidate.flat):
        if change.after is not None and change.after.kind == "file" and change.after.id not in sizes:
            try:
                sizes[change.after.id] = len(bench.repository.data(change.after.id))
            except StoreCorrupt as error:
                return [Finding("provenance.mismatch", change.after.id, error.message)]
    return scope.judge(before, candidate.flat, candidate.slice.scope, sizes)


def _scope(findings: list[Finding]) -> Checked:
    checks = {finding.code: False for finding in findings}
    return Checked("red" if findings else "green", checks or {"scope": True})


def _validators(admitted: Admitted, candidate: Candidate) -> tuple[str, ...]:
    if candidate.slice is not None:
        return candidate.slice.validators
    # a union: whatever judged its parts judges the whole
    return tuple(dict.fromkeys(name for each in admitted.contract.slices for name in each.validators))


def _said(bench: Bench, admitted: Admitted, candidate: Candidate, name: str, checked: Checked) -> None:
    about = attest.subject(candidate.tree, candidate.manifest)
    statement = attest.test_result(admitted.contract, candidate.slice, candidate.attempt, about, name, checked)
    digest, envelope = bench.sign(statement, IN_TOTO)
    body: dict[str, Any] = {
        "validator": name,
        "colour": checked.colour,
        "checks": dict(checked.checks),
        "why": checked.why,
        "micros": round(checked.seconds * 1_000_000),
        "envelope": digest,
    }
    admitted.journal.append("work.check", body, {digest: envelope})
    bench.notice(
        "checked",
        contract=admitted.contract.id,
        slice=candidate.slice.id if candidate.slice else "",
        candidate=candidate.tree,
        validator=name,
        result=checked.colour,
    )


def _written(
    bench: Bench,
    admitted: Admitted,
    candidate: Candidate,
    findings: list[Finding],
    checks: Mapping[str, Checked],
    approvals: tuple[int, ...],
) -> Verdict:
    verdict = Verdict(
        verdict=verdict_of(findings),
        findings=tuple(findings),
        slice=candidate.slice.name if candidate.slice is not None else "",
        attempt=candidate.attempt,
        tree=candidate.tree,
        checks={name: each.colour for name, each in checks.items()},
    )
    admitted.journal.append(
        "work.verdict",
        {
            "attempt": candidate.attempt,
            "verdict": verdict.verdict,
            "findings": [finding.to_json() for finding in findings],
            "approvals": list(approvals),
            "at_ms": bench.now(),
        },
    )
    bench.notice("verdict", contract=admitted.contract.id, candidate=candidate.tree, verdict=verdict.verdict)
    return verdict
