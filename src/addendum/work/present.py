"""Candidates that no executor of ours made: presented by whoever has them, or corrected. One gate for all."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from addendum import canon
from addendum.canon import Json
from addendum.errors import UsageError
from addendum.signing import Key
from addendum.work import execute, people
from addendum.work.attest import CORRECTION
from addendum.work.bench import Admitted, Bench, current, holding
from addendum.work.codes import Finding, Refused
from addendum.work.contract import Slice
from addendum.work.execute import Left, begin, finish
from addendum.work.gate import Verdict
from addendum.work.intake import Bounds, Taken, Untakable, take
from addendum.work.objects import Flat


@dataclass(frozen=True, slots=True, kw_only=True)
class Given:
    """Where a candidate is: a folder laid over the slice's tree, a folder that is the whole tree, or a tree's id.
    `base` is the revision that it says it was made from ("": the contract's)."""

    overlay: Path | None = None
    folder: Path | None = None
    tree: str = ""
    base: str = ""


def present(bench: Bench, run: str, slice_: str, given: Given) -> Verdict:
    """Judge a candidate from elsewhere. It costs the executor no attempt, and is kept like every other."""
    with holding(bench, run) as admitted:
        chosen, tree = _ready(bench, admitted, slice_)
        _there(bench, given)
        number = begin(bench, admitted, chosen, "presented", "", bench.operator, tree)
        return _judge(bench, admitted, chosen, number, tree, given)


def correct(bench: Bench, run: str, slice_: str, given: Given, key: Key, reason: str) -> Verdict:
    """Record a person's correction of a slice's newest candidate, signed, and judge it like every other."""
    with holding(bench, run) as admitted:
        chosen, tree = _ready(bench, admitted, slice_)
        _there(bench, given)
        name = people.holder(admitted.policy, key)
        before = [
            each.tree for each in admitted.journal.state.attempts.values() if each.slice == chosen.name and each.tree
        ]
        left = _take(bench, admitted, chosen, tree, given)
        corrected = "" if left.taken is None else bench.repository.write(left.taken.flat, left.taken.blobs.values())
        statement: dict[str, Json] = {
            "contract": admitted.contract.id,
            "slice": chosen.id,
            "by": name,
            "from_tree": before[-1] if before else tree,
            "to_tree": corrected,
            "reason": reason,
            "at_ms": bench.now(),
        }
        envelope = key.sign(canon.canonical(statement), CORRECTION)
        signed: Mapping[str, Any] = {"correction": statement, "envelope": envelope}
        number = begin(bench, admitted, chosen, "correction", "", f"key:{name}", tree, **signed)
        return finish(bench, admitted, chosen, tree, number, left, _stale(admitted, given))


def _ready(bench: Bench, admitted: Admitted, name: str) -> tuple[Slice, str]:
    current(admitted)
    execute.unchanged(bench, admitted)
    chosen = admitted.contract.slice(name)
    if chosen is None:
        names = ", ".join(each.name for each in admitted.contract.slices)
        raise UsageError(f"The contract has no slice {name!r}.", hint=f"It has {names}.")
    ready = execute.eligible(bench, admitted, chosen)
    if isinstance(ready, Finding):
        raise Refused(ready)
    return chosen, ready.tree


def _judge(bench: Bench, admitted: Admitted, chosen: Slice, number: int, tree: str, given: Given) -> Verdict:
    left = _take(bench, admitted, chosen, tree, given)
    return finish(bench, admitted, chosen, tree, number, left, _stale(admitted, given))


def _there(bench: Bench, given: Given) -> None:
    """Raise `UsageError` for a candidate that isn't there: a slip is no attempt."""
    folder = given.overlay or given.folder
    if given.tree and not bench.repository.has_tree(given.tree):
        raise UsageError(f"The repository has no tree {given.tree!r}.", hint="Write a tree's full id.")
    if folder is not None and folder.is_symlink():
        raise UsageError(f"{folder} is a link.", hint="Name the folder that it leads to.")
    if folder is not None and not folder.is_dir():
        raise UsageError(f"{folder} is no folder.", hint="Name the folder of the candidate.")


def _take(bench: Bench, admitted: Admitted, chosen: Slice, tree: str, given: Given) -> Left:
    flat: Flat = bench.repository.flat(tree)
    confines = admitted.policy.confines
    bounds = Bounds(
        entries=confines.workspace_entries, file_bytes=chosen.scope.max_file_bytes, bytes=confines.workspace_bytes
    )
    if given.tree:
        return Left(outcome="candidate", taken=Taken(dict(bench.repository.flat(given.tree))))
    folder = given.overlay or given.folder
    if folder is None:
        return Left(outcome="candidate", taken=Taken(dict(flat)))
    try:
        return Left(outcome="candidate", taken=take(folder, flat, bounds, overlay=given.overlay is not None))
    except Untakable as error:
        return Left(outcome="rejected", taken=error.rest, findings=error.findings)


def _stale(admitted: Admitted, given: Given) -> tuple[Finding, ...]:
    expected = admitted.contract.base.commit
    if not given.base or given.base == expected:
        return ()
    text = f"The candidate was made against {given.base}, and the contract is for {expected}."
    return (Finding("provenance.stale_base", "the base", text, {"expected": expected, "actual": given.base}),)
