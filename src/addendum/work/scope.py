"""The first half of the gate: whether a candidate's real diff lies within what a slice was granted. Pure."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Literal

from addendum.work.codes import Finding
from addendum.work.objects import Flat, Item, changed
from addendum.work.paths import collisions, fault, granted, shown

Verb = Literal["create", "modify", "delete"]
VERBS: tuple[Verb, ...] = ("create", "modify", "delete")


@dataclass(frozen=True, slots=True)
class Change:
    """One path that differs. `before` and `after` are what stands there, None for nothing."""

    path: bytes
    before: Item | None
    after: Item | None

    @property
    def verb(self) -> Verb:
        """What was done, in in-toto's words."""
        if self.before is None:
            return "create"
        return "delete" if self.after is None else "modify"

    def to_json(self) -> dict[str, str]:
        """Return the change as JSON."""
        return {"path": shown(self.path), "kind": self.verb}


@dataclass(frozen=True, slots=True, kw_only=True)
class Scope:
    """What a slice may change. `edits` has patterns by verb; sizes are in bytes."""

    edits: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    protected: tuple[str, ...] = ()
    modes: Literal["unchanged", "executable"] = "unchanged"
    max_files: int = 100
    max_bytes: int = 10_000_000
    max_file_bytes: int = 10_000_000


def changes(base: Flat, candidate: Flat) -> list[Change]:
    """Return the differences of two trees, path by path: a rename is a deletion and a creation."""
    return [Change(*each) for each in changed(base, candidate)]


def judge(base: Flat, candidate: Flat, scope: Scope, sizes: Mapping[str, int]) -> list[Finding]:
    """Return what is out of scope. `sizes` has the bytes of each blob that the candidate brought in."""
    found = changes(base, candidate)
    findings: list[Finding] = []
    for change in found:
        findings.extend(_path(change, scope))
        findings.extend(_item(change, base, candidate, scope))
        size = sizes.get(change.after.id, 0) if change.after is not None else 0
        if size > scope.max_file_bytes:
            findings.append(_finding("file.size", change, f"has {size:,} bytes; the limit is {scope.max_file_bytes:,}"))
    new = [change.path for change in found if change.after is not None]
    for path, other in collisions(candidate, new):
        text = f"{shown(path)} and {shown(other)} are one name on some systems."
        findings.append(Finding("path.collision", shown(path), text, {"other": shown(other)}))
    findings.extend(_total(found, scope, sizes))
    return findings


def _path(change: Change, scope: Scope) -> Iterator[Finding]:
    wrong = fault(change.path) if change.after is not None else None
    if wrong is not None:
        yield _finding(wrong[0], change, f"can't be: {wrong[1]}")
    if not granted(scope.edits.get(change.verb, ()), change.path):
        yield _finding("scope.path", change, "isn't granted")
    if granted(scope.protected, change.path):
        yield _finding("scope.protected", change, "is protected")


def _item(change: Change, base: Flat, candidate: Flat, scope: Scope) -> Iterator[Finding]:
    before, after = change.before, change.after
    if after is not None and after.kind != "file":
        yield _finding("scope.kind", change, f"is a {after.kind} now")
    elif before is not None and after is not None and before.kind != after.kind:
        yield _finding("scope.kind", change, f"was a {before.kind}")
    elif before is None and after is not None:
        if _replaced(change.path, base, candidate):
            yield _finding("scope.kind", change, "makes a folder of what was a file, or a file of a folder")
        if scope.modes == "unchanged" and after.mode != 0o100644:
            yield _finding("scope.mode", change, "is new and executable")
    elif before is not None and after is not None and before.mode != after.mode and scope.modes == "unchanged":
        yield _finding("scope.mode", change, f"had the mode {before.mode:o} and has {after.mode:o}")


def _replaced(path: bytes, base: Flat, candidate: Flat) -> bool:
    """Whether a new path needs a folder where the base has a file, or stands where the base has a folder."""
    at = path.find(b"/")
    while at != -1:
        if path[:at] in base and path[:at] not in candidate:
            return True
        at = path.find(b"/", at + 1)
    below = path + b"/"
    return any(other.startswith(below) for other in base)


def _total(found: list[Change], scope: Scope, sizes: Mapping[str, int]) -> Iterator[Finding]:
    if len(found) > scope.max_files:
        text = f"{len(found):,} files differ; the limit is {scope.max_files:,}."
        yield Finding("scope.size", "the candidate", text, {"files": len(found), "limit": scope.max_files})
    total = sum(sizes.get(change.after.id, 0) for change in found if change.after is not None)
    if total > scope.max_bytes:
        text = f"{total:,} bytes are new; the limit is {scope.max_bytes:,}."
        yield Finding("scope.size", "the candidate", text, {"bytes": total, "limit": scope.max_bytes})


def _finding(code: str, change: Change, why: str) -> Finding:
    text = shown(change.path)
    return Finding(code, text, f"{text} {why} ({change.verb}).", change.to_json())
