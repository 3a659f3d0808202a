"""What people decide: approvals, bound to what they are for and signed by a key that the policy names.

An approval counts once. Nobody approves what they made: not the runner, not an executor's identity, not who corrected.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from addendum import canon
from addendum.canon import Json
from addendum.errors import NotJson, UsageError
from addendum.signing import BadSignature, Key, opened
from addendum.work.attest import APPROVAL
from addendum.work.bench import Admitted, Bench
from addendum.work.codes import Finding, refuse
from addendum.work.contract import Slice
from addendum.work.proposal import Policy


@dataclass(frozen=True, slots=True)
class Approved:
    """The approvals that count, by their place in the journal, and what is against or missing."""

    findings: tuple[Finding, ...] = ()
    approvals: tuple[int, ...] = ()


def holder(policy: Policy, key: Key) -> str:
    """Return whose key it is. Raises `UsageError`."""
    for name, public in policy.keys.items():
        if public == key.public:
            return name
    raise UsageError("The policy doesn't know this key.", hint="Name the key file of one of the policy's [key.NAME].")


def approve(bench: Bench, admitted: Admitted, key: Key, subject: Mapping[str, Json], note: str = "") -> int:
    """Record a person's approval of a subject; return its place in the journal.

    `subject` is {"slice", "tree"} or {"promote", "old", "tree"}."""
    statement: dict[str, Json] = {
        "contract": admitted.contract.id,
        "subject": dict(subject),
        "by": holder(admitted.policy, key),
        "note": note,
        "at_ms": bench.now(),
        "nonce": bench.clock.token(),
    }
    return record(admitted, key.sign(canon.canonical(statement), APPROVAL))


def record(admitted: Admitted, envelope: Mapping[str, Any]) -> int:
    """Record an approval that was signed elsewhere. Raises `Refused` for one that is there, or isn't for here."""
    statement = signed(admitted.policy, envelope)
    if statement is None:
        raise refuse("provenance.signature", "the approval", "The approval isn't signed by a key of the policy.")
    if statement["contract"] != admitted.contract.id:
        raise refuse("approval.stale", "the approval", "The approval is for another contract.")
    for other in admitted.journal.state.approvals.values():
        if other["statement"] == statement:
            raise refuse("approval.replayed", "the approval", "This approval is recorded already.")
    admitted.journal.append("work.approval", {"statement": statement, "envelope": dict(envelope)})
    return admitted.journal.state.seq


def signed(policy: Policy, envelope: Mapping[str, Any]) -> dict[str, Any] | None:
    """Return what somebody of the policy signed, None if nobody did."""
    for name, public in policy.keys.items():
        try:
            found = canon.parse(opened(envelope, public, APPROVAL))
        except (BadSignature, NotJson):
            continue
        if isinstance(found, dict) and found.get("by") == name:
            return found
    return None


def approved(admitted: Admitted, slice_: Slice, tree: str, runner: str) -> Approved:
    """Return whether every role of a slice approved this tree."""
    findings: list[Finding] = []
    approvals: list[int] = []
    for role in slice_.people:
        subject = {"slice": slice_.name, "tree": tree}
        found = search(admitted, role, subject, runner)
        if isinstance(found, Finding):
            findings.append(found)
        else:
            approvals.append(found)
    return Approved(tuple(findings), tuple(dict.fromkeys(approvals)))


def search(admitted: Admitted, role: str, subject: Mapping[str, Json], runner: str) -> int | Finding:
    """Return the newest approval of a subject by somebody who has the role, or what is in the way."""
    promotion = "promote" in subject
    kind = "promote" if promotion else "slice"
    holders = admitted.policy.holders(role)
    stale: Finding | None = None
    for seq, body in sorted(admitted.journal.state.approvals.items(), reverse=True):
        statement = body["statement"]
        about = statement["subject"]
        if about.get(kind) != subject[kind] or statement["by"] not in holders:
            continue
        if signed(admitted.policy, body["envelope"]) != statement:
            return Finding("provenance.signature", statement["by"], "A recorded approval isn't what was signed.")
        if seq in admitted.journal.state.used:
            stale = stale or Finding("approval.replayed", statement["by"], "The approval was used already.")
            continue
        if about != dict(subject):
            code = _stale(promotion, about, subject)
            stale = stale or Finding(code, statement["by"], "The approval is for something else.", {"approved": about})
            continue
        if admitted.policy.keys[statement["by"]] in _makers(admitted, str(subject["tree"]), runner):
            return Finding("approval.self", statement["by"], f"{statement['by']} made what is to be approved.")
        return seq
    if stale is not None:
        return stale
    missing = "promotion.unapproved" if promotion else "approval.missing"
    return Finding(missing, role, f"Nobody with the role {role} has approved this.", {"subject": dict(subject)})


def _stale(promotion: bool, about: Mapping[str, Any], subject: Mapping[str, Json]) -> str:
    if not promotion:
        return "approval.stale"
    return "promotion.stale" if about.get("tree") != subject["tree"] else "promotion.conflict"


def _makers(admitted: Admitted, tree: str, runner: str) -> set[str]:
    """Return the keys of whoever made what is in a tree: the runner, and for the attempts that the slices stand on now,
    and those that left this tree, the executor's identity or who corrected."""
    state = admitted.journal.state
    standing = {gate.attempt for each in admitted.contract.slices if (gate := state.current(each.name)) is not None}
    makers = {runner}
    for attempt in state.attempts.values():
        if attempt.number not in standing and attempt.tree != tree:
            continue
        route = admitted.policy.routes.get(attempt.route)
        for name in (attempt.actor, route.identity if route is not None else ""):
            if name.startswith("key:") and name.removeprefix("key:") in admitted.policy.keys:
                makers.add(admitted.policy.keys[name.removeprefix("key:")])
    return makers
