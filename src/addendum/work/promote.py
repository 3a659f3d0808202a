"""Promotion: a person's recorded decision, bound to a contract, a tree, a ref and where the ref was.

No other module moves a ref of the repository, and nothing calls this but a command of its own.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from addendum.canon import Json
from addendum.errors import StoreCorrupt, UsageError
from addendum.signing import IN_TOTO, Key
from addendum.work import attest, execute, people
from addendum.work.bench import Admitted, Bench, current, holding
from addendum.work.codes import Finding, Refused, refuse
from addendum.work.progress import Progress, Ready

NOWHERE = "0" * 40


@dataclass(frozen=True, slots=True, kw_only=True)
class Promotion:
    """A ref that was moved."""

    contract: str
    ref: str
    old: str
    new: str
    tree: str
    approvals: tuple[int, ...]

    def to_json(self) -> dict[str, Json]:
        """Return it as JSON."""
        return {
            "promoted": True,
            "contract": self.contract,
            "ref": self.ref,
            "old": self.old,
            "commit": self.new,
            "tree": self.tree,
        }


def full(ref: str) -> str:
    """Return a branch's full name. Raises `UsageError` for what is no branch."""
    name = ref if ref.startswith("refs/") else f"refs/heads/{ref}"
    bad = set(" ~^:?*[\\\x7f") | {chr(code) for code in range(32)}
    if (
        not name.startswith("refs/heads/")
        or bad & set(name)
        or ".." in name
        or "//" in name
        or name.endswith(("/", ".", ".lock"))
    ):
        raise UsageError(f"{ref!r} is no branch.", hint="Name a branch, as in main or refs/heads/main.")
    return name


def result(bench: Bench, admitted: Admitted) -> Ready:
    """Return what the whole work comes to; a union is judged as a whole first. Raises `Refused`."""
    progress = Progress(bench, admitted)
    ready = progress.final()
    if isinstance(ready, Finding):
        raise Refused(ready)
    if not progress.union_accepted(ready):
        verdict = execute.judge_union(bench, admitted, ready)
        if verdict.verdict != "accepted":
            raise Refused(*verdict.findings)
    return ready


def subject(bench: Bench, admitted: Admitted, ref: str) -> dict[str, Json]:
    """Return what an approval of a promotion is for, as things stand."""
    return {"promote": ref, "old": bench.repository.ref(ref) or NOWHERE, "tree": result(bench, admitted).tree}


def approve(bench: Bench, run: str, ref: str, key: Key, note: str = "") -> Mapping[str, Json]:
    """Record a person's approval of a promotion; return what it is for."""
    with holding(bench, run) as admitted:
        current(admitted)
        execute.unchanged(bench, admitted)
        about = subject(bench, admitted, full(ref))
        people.approve(bench, admitted, key, about, note)
        return about


def approve_slice(bench: Bench, run: str, slice_: str, key: Key, note: str = "") -> Mapping[str, Json]:
    """Record a person's approval of what a slice would be judged with; return what it is for."""
    with holding(bench, run) as admitted:
        current(admitted)
        execute.unchanged(bench, admitted)
        chosen = admitted.contract.slice(slice_)
        if chosen is None:
            raise UsageError(f"The contract has no slice {slice_!r}.", hint="`addendum work status` lists them.")
        ready = execute.eligible(bench, admitted, chosen)
        if isinstance(ready, Finding):
            raise Refused(ready)
        trees = [
            each.tree for each in admitted.journal.state.attempts.values() if each.slice == chosen.name and each.tree
        ]
        tree = ready.tree if chosen.review or not trees else trees[-1]
        about: dict[str, Json] = {"slice": chosen.name, "tree": tree}
        people.approve(bench, admitted, key, about, note)
        return about


def promote(bench: Bench, run: str, ref: str) -> Promotion:
    """Move a ref to what was approved, if it is still where it was. Raises `Refused`."""
    name = full(ref)
    with holding(bench, run) as admitted:
        current(admitted)
        execute.unchanged(bench, admitted)
        again = _unfinished(bench, admitted, name)
        if again is not None:
            return again
        ready = result(bench, admitted)
        if bench.repository.checked_out(name):
            raise UsageError(f"{name} is checked out there.", hint="Promote to another branch, and merge that by hand.")
        old = bench.repository.ref(name) or NOWHERE
        base = admitted.contract.base.commit
        found = people.search(admitted, "promote", {"promote": name, "old": old, "tree": ready.tree}, bench.key.public)
        if isinstance(found, Finding):
            raise Refused(found)
        if old not in (base, NOWHERE):
            text = f"{name} is at {old}, and the contract is for {base}."
            raise refuse("promotion.conflict", name, text, expected=base, actual=old)
        return _move(bench, admitted, name, old, ready.tree, found)


def _move(bench: Bench, admitted: Admitted, name: str, old: str, tree: str, approval: int) -> Promotion:
    statement = admitted.journal.state.approvals[approval]["statement"]
    message = f"Promote contract {admitted.contract.id[:16]}\n\nApproved-by: {statement['by']}\n"
    new = bench.repository.commit(tree, [admitted.contract.base.commit], message, bench.now() // 1000)
    body = {"ref": name, "old": old, "new": new, "tree": tree, "approvals": [approval], "at_ms": bench.now()}
    admitted.journal.append("work.promoting", body)
    if not bench.repository.move(name, old, new):
        raise refuse("promotion.conflict", name, f"{name} isn't at {old} any more.", expected=old)
    return _recorded(bench, admitted, body)


def _unfinished(bench: Bench, admitted: Admitted, name: str) -> Promotion | None:
    """Finish a promotion that was interrupted after its ref had moved."""
    done = {body["new"] for body in admitted.journal.state.promoted}
    for body in admitted.journal.state.promoting.values():
        if body["ref"] == name and body["new"] not in done and bench.repository.ref(name) == body["new"]:
            return _recorded(bench, admitted, body)
    return None


def _recorded(bench: Bench, admitted: Admitted, body: Mapping[str, Any]) -> Promotion:
    tree = bench.repository.tree_of(body["new"])
    if tree is None or tree != body["tree"]:
        raise StoreCorrupt(f"The promoted commit has the tree {tree}.", hint="Keep the repository for a closer look.")
    manifest = bench.repository.manifest(bench.repository.flat(tree))
    statement = {
        "_type": attest.STATEMENT,
        "subject": attest.subject(tree, manifest),
        "predicateType": "urn:addendum:promotion:v1",
        "predicate": {
            "contract": admitted.contract.id,
            "ref": body["ref"],
            "old": body["old"],
            "new": body["new"],
            "approvals": [admitted.journal.state.approvals[seq]["statement"] for seq in body["approvals"]],
        },
    }
    digest, envelope = bench.sign(statement, IN_TOTO)
    admitted.journal.append("work.promoted", {**body, "envelope": digest}, {digest: envelope})
    bench.notice("promoted", contract=admitted.contract.id, candidate=tree)
    return Promotion(
        contract=admitted.contract.id,
        ref=body["ref"],
        old=body["old"],
        new=body["new"],
        tree=tree,
        approvals=tuple(body["approvals"]),
    )
