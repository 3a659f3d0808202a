"""Executing slices: an exported workspace, a confined command or a workflow script, and the bytes that come back.

The route table decides who executes, never the plan; what the runner finds has to be what was admitted, under the
lease, before anything is started. Each eligible slice is tried once a call.
"""

from __future__ import annotations

import graphlib
import os
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

from addendum import canon
from addendum.canon import Json
from addendum.errors import ConfigError, SandboxMissing, UsageError
from addendum.ports import Command, Ran
from addendum.signing import IN_TOTO
from addendum.work import attest, gate, scripted, snapshot, wire
from addendum.work.admit import route_for, unsatisfied
from addendum.work.bench import Admitted, Bench, current, holding
from addendum.work.codes import Finding, Refused, refuse
from addendum.work.contract import Slice
from addendum.work.gate import Candidate, Verdict
from addendum.work.intake import Bounds, Taken, Untakable, take
from addendum.work.objects import LINK, Flat
from addendum.work.paths import granted
from addendum.work.progress import Progress, Ready
from addendum.work.proposal import Confines, Route
from addendum.work.workspace import export, give, scratch, size

REFS: Final = "refs/addendum/attempts"
INSIDE: Final = "/workspace"
REFUSES: Final = 3
"""The exit code by which an executor says that it can't do it."""
MOST_COVERED: Final = 200
ENVIRONMENT: Final = {"PATH": "/usr/local/bin:/usr/bin:/bin", "HOME": "/tmp", "LANG": "C.UTF-8"}


@dataclass(frozen=True, slots=True, kw_only=True)
class Left:
    """What an attempt left: how it came out, its files (None if they can't be taken in), and what was said."""

    outcome: str
    taken: Taken | None = None
    findings: tuple[Finding, ...] = ()
    log: bytes = b""
    details: Mapping[str, Json] = field(default_factory=dict)


def work(bench: Bench, run: str, *, only: str = "", executor: str = "", script: str | None = None) -> list[Verdict]:
    """Try every eligible slice once, or `only` one; return a verdict each. `script` stands in for the slice's script.

    Raises `Refused` when what is here isn't what was admitted, or nothing may be started."""
    with holding(bench, run) as admitted:
        current(admitted)
        unchanged(bench, admitted)
        found: list[Verdict] = []
        for slice_ in _order(admitted, only):
            progress = Progress(bench, admitted)
            if not only and not isinstance(progress.done(slice_), Finding):
                continue
            ready = eligible(bench, admitted, slice_)
            if isinstance(ready, Finding):
                if only:
                    raise Refused(ready)
                continue
            found.append(_attempt(bench, admitted, slice_, ready, executor, script))
        return found


def _order(admitted: Admitted, only: str) -> list[Slice]:
    contract = admitted.contract
    if only:
        named = contract.slice(only)
        if named is None:
            names = ", ".join(each.name for each in contract.slices)
            raise UsageError(f"The contract has no slice {only!r}.", hint=f"It has {names}.")
        return [named]
    by_name = {each.name: each for each in contract.slices}
    order = graphlib.TopologicalSorter({each.name: each.after for each in contract.slices}).static_order()
    return [by_name[name] for name in order]


def unchanged(bench: Bench, admitted: Admitted) -> None:
    """Raise `Refused` unless what exists here is what was admitted (`snapshot.mismatch`)."""
    path = Path(admitted.journal.state.contract["policy"])
    try:
        policy = wire.policy(path.read_bytes(), str(path))
    except OSError as error:
        raise ConfigError(f"The policy {path} can't be read: {error.strerror}.", hint="Put it back.") from None
    now = bench.look(policy, path.parent)
    found = snapshot.differences(admitted.contract.snapshot, now.value)
    if not found and policy != admitted.policy:
        # A ceiling that was lowered, or a key that lost its role: what was admitted isn't what the operator says now.
        found = [Finding("snapshot.mismatch", "the policy", "The policy isn't what it was when the plan was admitted.")]
    if found:
        raise Refused(*found)


def eligible(bench: Bench, admitted: Admitted, slice_: Slice) -> Ready | Finding:
    """Return the tree that a slice gets. A union of several results is judged as a whole first."""
    progress = Progress(bench, admitted)
    ready = progress.input(slice_)
    if isinstance(ready, Finding) or progress.union_accepted(ready):
        return ready
    verdict = judge_union(bench, admitted, ready)
    if verdict.verdict == "accepted":
        return ready
    text = f"The results of {', '.join(ready.union)} don't hold together: {verdict.findings[0].message}"
    return Finding("graph.merge_conflict", slice_.name, text, {"code": verdict.findings[0].code})


def judge_union(bench: Bench, admitted: Admitted, ready: Ready) -> Verdict:
    """Judge the union of several slices' results by all their validators."""
    flat = bench.repository.flat(ready.tree)
    candidate = Candidate(
        attempt=0,
        slice=None,
        tree=ready.tree,
        manifest=bench.repository.manifest(flat),
        flat=flat,
        input=admitted.contract.base.tree,
    )
    return gate.judge(bench, admitted, candidate)


# --- one attempt --------------------------------------------------------------------------------------------------


def _attempt(
    bench: Bench, admitted: Admitted, slice_: Slice, ready: Ready, executor: str, script: str | None
) -> Verdict:
    if slice_.review and slice_.people:
        number = begin(bench, admitted, slice_, "run", "people", "", ready.tree)
        flat = dict(bench.repository.flat(ready.tree))
        return finish(bench, admitted, slice_, ready.tree, number, Left(outcome="candidate", taken=Taken(flat)))
    used = len(admitted.journal.state.runs_of(slice_.name))
    if used >= slice_.attempts:
        raise refuse("budget.attempts", slice_.name, f"{slice_.name} had its {used} attempts.", attempts=used)
    named = executor or slice_.suggested
    route = route_for(named, admitted.policy)
    why = unsatisfied(route, named, slice_.needs, bool(slice_.script), admitted.policy)
    if why or route is None:
        raise refuse("route.unsatisfied", slice_.name, why)
    try:
        bench.confinement.profile()
    except SandboxMissing as error:
        raise refuse("sandbox.unavailable", "bubblewrap", str(error)) from None
    flat = bench.repository.flat(ready.tree)
    if not route.script:
        _real_folders(flat, slice_)
    number = begin(bench, admitted, slice_, "run", route.name, route.identity or bench.operator, ready.tree)
    if route.script:
        text = admitted.scripts[slice_.script] if script is None else script
        left = _of_script(scripted.run(bench, admitted, slice_, flat, text), flat)
    else:
        try:
            left = _command(bench, admitted, slice_, route, flat)
        except SandboxMissing as error:
            left = Left(outcome="failed", findings=(Finding("sandbox.unavailable", "bubblewrap", str(error)),))
    return finish(bench, admitted, slice_, ready.tree, number, left)


def begin(
    bench: Bench, admitted: Admitted, slice_: Slice, how: str, route: str, actor: str, tree: str, **more: Any
) -> int:
    """Write down that an attempt begins; return its number."""
    number = max(admitted.journal.state.attempts, default=0) + 1
    body = {"attempt": number, "slice": slice_.name, "how": how, "route": route, "actor": actor, "input": tree}
    admitted.journal.append("work.attempt", {**body, "at_ms": bench.now(), **more})
    bench.notice("attempt", contract=admitted.contract.id, slice=slice_.id, attempt=number)
    return number


def _command(bench: Bench, admitted: Admitted, slice_: Slice, route: Route, flat: Flat) -> Left:
    confines = admitted.policy.confines
    with scratch("work") as folder:
        place = folder / "workspace"
        export(flat, bench.repository.data, place)
        open_ = _writable(place, slice_)
        owner = bench.confinement.owner
        if owner is not None:
            give(place, owner)
        ran = bench.confinement.run(
            Command(
                argv=route.argv,
                shown=(*((path, path) for path in route.shown), (str(place), INSIDE)),
                writable=tuple((_below(str(place), at), _below(INSIDE, at)) for at in open_),
                covered=tuple(_covered(place, flat, slice_, open_)),
                folder=INSIDE,
                environment=tuple({**ENVIRONMENT, **route.environment}.items()),
                stdin=canon.canonical(brief(admitted, slice_)),
                seconds=slice_.seconds,
                memory=confines.memory,
                processes=confines.processes,
                file_bytes=confines.file_bytes,
                output=confines.output,
                watch=lambda: _too_large(place, confines),
            )
        )
        return _left(ran, place, flat, slice_, confines)


def brief(admitted: Admitted, slice_: Slice) -> dict[str, Json]:
    """Return what an executor is told, on its standard input. It is a description, not a permission."""
    return {
        "contract": admitted.contract.id,
        "slice": slice_.name,
        "intent": slice_.intent,
        "edits": {verb: list(patterns) for verb, patterns in slice_.scope.edits.items()},
        "criteria": list(slice_.criteria),
        "workspace": INSIDE,
        "seconds": slice_.seconds,
    }


def _folders(slice_: Slice) -> list[str]:
    """Return the folders of a slice's grants, outermost ones only; "" is the whole workspace."""
    folders: set[str] = set()
    for patterns in slice_.scope.edits.values():
        for pattern in patterns:
            names = pattern.split("/")[:-1]
            fixed = names[: next((index for index, name in enumerate(names) if "*" in name), len(names))]
            folders.add("/".join(fixed))
    return sorted(each for each in folders if not any(_inside(each, other) for other in folders))


def _real_folders(flat: Flat, slice_: Slice) -> None:
    """Raise `Refused` if a granted folder goes through a link of the tree: mounting it would lead out of here."""
    for folder in _folders(slice_):
        names = folder.encode("utf-8").split(b"/")
        for end in range(1, len(names) + 1):
            item = flat.get(b"/".join(names[:end]))
            if item is not None:
                where = b"/".join(names[:end]).decode("utf-8", "replace")
                raise refuse("file.symlink", where, f"The granted folder {where} is a {item.kind} in the tree.")


def _writable(place: Path, slice_: Slice) -> list[str]:
    """Make the folders of a slice's grants, and return them."""
    found = _folders(slice_)
    for name in found:
        os.makedirs(place / name, exist_ok=True)
    return found


def _inside(folder: str, other: str) -> bool:
    return folder != other and (other == "" or folder.startswith(f"{other}/"))


def _below(root: str, name: str) -> str:
    return f"{root}/{name}" if name else root


def _covered(place: Path, flat: Flat, slice_: Slice, open_: list[str]) -> list[tuple[str, str]]:
    """Return the protected files within writable folders: they are mounted over, read-only."""
    found: list[tuple[str, str]] = []
    for path, item in flat.items():
        if item.kind != "file" or item.mode == LINK or not granted(slice_.scope.protected, path):
            continue
        name = path.decode("utf-8", "surrogateescape")
        if any(folder == "" or name.startswith(f"{folder}/") for folder in open_) and len(found) < MOST_COVERED:
            found.append((f"{place}/{name}", f"{INSIDE}/{name}"))
    return found


def _too_large(place: Path, confines: Confines) -> str:
    entries, used = size(place, confines.workspace_entries)
    if entries > confines.workspace_entries:
        return f"It made more than {confines.workspace_entries:,} files."
    if used > confines.workspace_bytes:
        return f"It wrote more than {confines.workspace_bytes:,} bytes."
    return ""


def _left(ran: Ran, place: Path, flat: Flat, slice_: Slice, confines: Confines) -> Left:
    log = ran.stdout + (b"\n" if ran.stdout and ran.stderr else b"") + ran.stderr
    details: dict[str, Json] = {"exit": ran.code, "micros": round(ran.seconds * 1_000_000), "over": ran.over}
    bounds = Bounds(
        entries=confines.workspace_entries, file_bytes=slice_.scope.max_file_bytes, bytes=confines.workspace_bytes
    )
    refused: tuple[Finding, ...] = ()
    try:
        taken = take(place, flat, bounds)
    except Untakable as error:
        refused, taken = error.findings, error.rest
    outcome, findings = _outcome(ran, slice_, refused, unchanged=taken.flat == flat)
    return Left(outcome=outcome, taken=taken, findings=findings, log=log, details=details)


def _outcome(
    ran: Ran, slice_: Slice, refused: tuple[Finding, ...], *, unchanged: bool
) -> tuple[str, tuple[Finding, ...]]:
    """Return how an attempt came out: what the executor says first, what it left then."""
    name = slice_.name
    if ran.timed_out:
        return "timed_out", (Finding("attempt.timed_out", name, ran.over),)
    if ran.over:
        return "failed", (Finding("attempt.failed", name, ran.over),)
    if ran.code == REFUSES:
        return "refused", (Finding("attempt.refused", name, "The executor says that it can't do it."),)
    if ran.code:
        text = f"The executor ended with the exit code {ran.code}."
        return "failed", (Finding("attempt.failed", name, text, {"exit": ran.code}),)
    if refused:
        return "rejected", refused
    if unchanged and not slice_.review:
        return "no_change", (Finding("attempt.no_change", name, "The executor changed nothing."),)
    return "candidate", ()


def _of_script(done: scripted.Done, flat: Flat) -> Left:
    if done.findings:
        return Left(outcome=done.outcome, taken=done.taken, findings=done.findings, details=done.details)
    if done.taken.flat == dict(flat):
        finding = Finding("attempt.no_change", "the script", "The script changed no file.")
        return Left(outcome="no_change", taken=done.taken, findings=(finding,), details=done.details)
    return Left(outcome="candidate", taken=done.taken, details=done.details)


def finish(
    bench: Bench,
    admitted: Admitted,
    slice_: Slice,
    tree: str,
    number: int,
    left: Left,
    against: tuple[Finding, ...] = (),
) -> Verdict:
    """Keep what an attempt left, for ever, and judge it if it is a candidate."""
    body: dict[str, Any] = {
        "attempt": number,
        "outcome": left.outcome,
        "findings": [each.to_json() for each in left.findings],
        "details": dict(left.details),
        "at_ms": bench.now(),
    }
    blobs: dict[str, bytes] = {}
    if left.log:
        body["log"] = canon.sha256(left.log)
        blobs[body["log"]] = left.log
    if left.taken is not None:
        kept = bench.repository.write(left.taken.flat, left.taken.blobs.values())
        parent = admitted.contract.base.commit
        message = f"Attempt {number} at {slice_.name}\n\nContract: {admitted.contract.id}\n"
        commit = bench.repository.commit(kept, [parent], message, bench.now() // 1000)
        bench.repository.keep(f"{REFS}/{admitted.contract.id[:16]}/{number}", commit)
        manifest = bench.repository.manifest(left.taken.flat)
        attempt = admitted.journal.state.attempts[number]
        facts: dict[str, Json] = {"how": attempt.how, "route": attempt.route, "input": tree, "outcome": left.outcome}
        statement = attest.provenance(
            admitted.contract, slice_, number, attest.subject(kept, manifest), facts, bench.key.public
        )
        digest, envelope = bench.sign(statement, IN_TOTO)
        blobs[digest] = envelope
        body |= {"tree": kept, "manifest": manifest, "commit": commit, "envelope": digest}
    admitted.journal.append("work.end", body, blobs)
    if left.outcome != "candidate" or left.taken is None:
        verdict = gate.verdict_of(left.findings)
        return Verdict(
            verdict=verdict,
            findings=left.findings,
            slice=slice_.name,
            attempt=number,
            tree=body.get("tree", ""),
            outcome=left.outcome,
        )
    candidate = Candidate(
        attempt=number,
        slice=slice_,
        tree=body["tree"],
        manifest=body["manifest"],
        flat=left.taken.flat,
        input=tree,
        sizes={name: len(data) for name, data in left.taken.blobs.items()},
        against=against,
    )
    return gate.judge(bench, admitted, candidate)
