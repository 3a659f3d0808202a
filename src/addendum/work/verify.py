"""Verification: recompute what was recorded, from the bytes. It says whether records are intact, never whether the work
is right: a digest proves identity, not that a policy was good."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any, Final

from addendum import canon
from addendum.errors import AddendumError, NotJson, StoreCorrupt, UsageError
from addendum.records.chain import START, chain
from addendum.signing import IN_TOTO, BadSignature, opened
from addendum.work import attest, people
from addendum.work.bench import Admitted, Bench
from addendum.work.codes import Finding, Refused
from addendum.work.execute import REFS
from addendum.work.journal import Attempt, Gate

_STOP: Final = 50


def verify(bench: Bench, admitted: Admitted, given: Mapping[str, bytes], candidate: str = "") -> list[Finding]:
    """Return everything that isn't what was recorded. `given` has files by what they should be (`spec`, `plan`,
    `policy`); `candidate` limits the check to attempts with this tree."""
    findings = list(_given(admitted, given))
    findings += _journal(bench, admitted)
    attempts = [each for each in admitted.journal.state.attempts.values() if each.tree and candidate in ("", each.tree)]
    if candidate and not attempts:
        findings.append(_finding(candidate, "No attempt of this contract left this tree."))
    for attempt in attempts:
        findings += _attempt(bench, admitted, attempt)
    if not candidate:
        for gate in admitted.journal.state.gates:
            if not gate.attempt:
                findings += _gate(bench, admitted, gate)
        findings += _approvals(admitted)
    return findings[:_STOP]


def _finding(subject: str, why: str, code: str = "provenance.mismatch") -> Finding:
    return Finding(code, subject, f"{subject}: {why}")


def _given(admitted: Admitted, given: Mapping[str, bytes]) -> Iterator[Finding]:
    contract = admitted.contract
    expected = {"spec": contract.spec, "plan": contract.plan, "policy": contract.policy}
    for name, data in given.items():
        if canon.sha256(data) != expected[name]:
            yield _finding(name, "The file isn't the one that was admitted.")
    for name, digest in expected.items():
        try:
            admitted.journal.store.blob(digest)
        except StoreCorrupt as error:
            yield _finding(name, error.message)


def _journal(bench: Bench, admitted: Admitted) -> Iterator[Finding]:
    head = START
    for stored in bench.store.entries(admitted.journal.run):
        head = chain(head, stored.kind, canon.canonical(canon.doubles(dict(stored.body)), max_depth=80))
        if head != stored.chain:
            yield _finding(f"journal entry {stored.seq}", "The chain of the journal breaks here.")
            return


def _attempt(bench: Bench, admitted: Admitted, attempt: Attempt) -> Iterator[Finding]:
    name = f"attempt {attempt.number}"
    yield from _tree(bench, name, attempt.tree, attempt.manifest)
    ref = f"{REFS}/{admitted.contract.id[:16]}/{attempt.number}"
    if bench.repository.ref(ref) != attempt.commit:
        yield _finding(ref, f"The ref doesn't hold {name}.")
    elif bench.repository.tree_of(attempt.commit) != attempt.tree:
        yield _finding(ref, f"The commit of {name} has another tree.")
    if attempt.log:
        try:
            bench.store.blob(attempt.log)
        except StoreCorrupt as error:
            yield _finding(f"{name}, log", error.message)
    bound = _statement(bench, attempt.envelope, f"{name}, provenance")
    if isinstance(bound, Finding):
        yield bound
    else:
        yield from _binds(admitted, bound, f"{name}, provenance", attempt.number, attempt.tree, attempt.manifest)
    for gate in attempt.gates:
        yield from _gate(bench, admitted, gate)


def _gate(bench: Bench, admitted: Admitted, gate: Gate) -> Iterator[Finding]:
    for validator, check in gate.checks.items():
        name = f"attempt {gate.attempt}, {validator}"
        bound = _statement(bench, check["envelope"], name)
        if isinstance(bound, Finding):
            yield bound
            continue
        yield from _binds(admitted, bound, name, gate.attempt, gate.tree, gate.manifest)
        said = canon.digest(admitted.contract.snapshot["validators"].get(validator))
        if bound.get(f"validator:{validator}") != {"sha256": said} or bound["colour"] != check["colour"]:
            yield _finding(name, "The statement is about another result.")


def _tree(bench: Bench, name: str, tree: str, manifest: str) -> Iterator[Finding]:
    try:
        same = bench.repository.manifest(bench.repository.flat(tree)) == manifest
    except (UsageError, StoreCorrupt) as error:
        yield _finding(f"{name}, tree {tree}", error.message)
        return
    if not same:
        yield _finding(f"{name}, tree {tree}", "The files aren't those that were judged.")


def _statement(bench: Bench, digest: str, name: str) -> dict[str, Any] | Finding:
    """Return what a kept statement binds."""
    try:
        envelope = canon.parse(bench.store.blob(digest))
        payload = opened(envelope if isinstance(envelope, dict) else {}, bench.key.public, IN_TOTO)
        statement = canon.parse(payload)
    except BadSignature as error:
        return _finding(name, f"The statement isn't signed by this runner: {error}.", "provenance.signature")
    except (StoreCorrupt, NotJson) as error:
        return _finding(name, error.message)
    assert isinstance(statement, dict)
    try:
        return attest.described(statement)
    except (KeyError, TypeError, IndexError):
        return _finding(name, "The statement says something else than was recorded.")


def _binds(
    admitted: Admitted, bound: Mapping[str, Any], name: str, attempt: int, tree: str, manifest: str
) -> Iterator[Finding]:
    contract = admitted.contract
    expected: dict[str, Any] = {
        "candidate": {"gitTree": tree, "sha256": manifest},
        "contract": {"sha256": contract.id},
        "base": contract.base.to_json(),
        "snapshot": {"sha256": canon.digest(dict(contract.snapshot))},
        "attempt": attempt,
    }
    if "spec" in bound:
        expected |= {
            "spec": {"sha256": contract.spec},
            "plan": {"sha256": contract.plan},
            "policy": {"sha256": contract.policy},
        }
    for what, value in expected.items():
        if bound.get(what) != value:
            yield _finding(name, f"The statement binds another {what}.")


def _approvals(admitted: Admitted) -> Iterator[Finding]:
    for seq, body in admitted.journal.state.approvals.items():
        if people.signed(admitted.policy, body["envelope"]) != body["statement"]:
            yield _finding(f"approval {seq}", "It isn't what was signed.", "provenance.signature")


def broken(error: AddendumError) -> list[Finding]:
    """Return what kept a contract from being read at all, as findings."""
    return list(error.findings) if isinstance(error, Refused) else [_finding("the store", error.message)]
