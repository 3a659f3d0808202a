"""Admitting a plan: read the proposals, look at what exists, ask the oracles, and sign a contract, or keep a rejection.

Nothing is written but the store's entry: the repository is read only, and only oracles execute anything, confined.
"""

from __future__ import annotations

import datetime
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from addendum import canon
from addendum.authority.catalog import Catalog
from addendum.canon import Digest, Json
from addendum.errors import ConfigError, SandboxMissing
from addendum.ports import RunHeader
from addendum.records.stored import Entry
from addendum.runs import given
from addendum.work import admit, wire
from addendum.work.admit import BASE, REFERENCE, Proposal, Question
from addendum.work.bench import Bench, resolve
from addendum.work.codes import Finding, Refused
from addendum.work.contract import PAYLOAD, Base, Contract
from addendum.work.files import with_files
from addendum.work.intake import Bounds, take
from addendum.work.journal import admissions, name_of
from addendum.work.objects import COMMIT_ID, Flat
from addendum.work.proposal import Plan, Policy
from addendum.work.snapshot import Snapshot
from addendum.work.validate import Checked, pinned, staged


@dataclass(frozen=True, slots=True, kw_only=True)
class Files:
    """What was handed in: the three files' bytes and names. `path` is the policy's, `scripts` reads a script that the
    plan names."""

    spec: bytes
    plan: bytes
    policy: bytes
    path: Path
    scripts: Callable[[str], str]
    names: tuple[str, str, str] = ("the specification", "the plan", "the policy")


@dataclass(frozen=True, slots=True, kw_only=True)
class Admission:
    """A contract with its envelope, or what is against the plan. `run` names the contract's journal."""

    contract: Contract | None = None
    envelope: Mapping[str, Any] = field(default_factory=dict)
    run: str = ""
    findings: tuple[Finding, ...] = ()
    authority: Digest = ""

    def to_json(self) -> dict[str, Json]:
        """Return it as JSON: what a contract.json has, or the rejection."""
        if self.contract is None:
            return {"admitted": False, "findings": [finding.to_json() for finding in self.findings]}
        return {
            "admitted": True,
            "id": self.contract.id,
            "authority_digest": self.contract.authority,
            "contract": self.contract.to_json(),
            "envelope": dict(self.envelope),
        }


def admit_plan(bench: Bench, files: Files, *, supersedes: str = "") -> Admission:
    """Admit a plan. A rejection is a value, and kept. Raises `ConfigError` for files that can't be read."""
    old = resolve(bench.store, supersedes) if supersedes else ""
    try:
        contract, snapshot, scripts = _compile(bench, files, old)
    except Refused as error:
        found = Admission(findings=error.findings)
    except SandboxMissing as error:
        found = Admission(findings=(Finding("sandbox.unavailable", "bubblewrap", str(error)),))
    else:
        return _keep(bench, files, contract, snapshot, scripts, old)
    digests = {name: canon.sha256(data) for name, data in zip(("spec", "plan", "policy"), _texts(files), strict=True)}
    body = {"findings": [each.to_json() for each in found.findings], "at_ms": bench.now(), **digests}
    bench.store.append(
        admissions(bench.store, _iso(bench)),
        [Entry("work.rejection", body)],
        blobs={canon.sha256(data): data for data in _texts(files)},
    )
    bench.notice("rejected", codes=[each.code for each in found.findings])
    return found


def _texts(files: Files) -> tuple[bytes, bytes, bytes]:
    return files.spec, files.plan, files.policy


def _compile(bench: Bench, files: Files, old: str) -> tuple[Contract, Snapshot, dict[str, str]]:
    spec = wire.spec(files.spec, files.names[0])
    plan = wire.plan(files.plan, files.names[1])
    policy = wire.policy(files.policy, files.names[2])
    _grants(plan, policy, bench.scripts.catalog)
    snapshot = bench.look(policy, files.path.parent)
    base = _base(bench, plan.base)
    scripts = {each.name: files.scripts(each.script) for each in plan.slices if each.script}
    proposal = Proposal(
        spec=spec,
        plan=plan,
        policy=policy,
        snapshot=snapshot,
        catalog=bench.scripts.catalog,
        base=base,
        digests=(canon.sha256(files.spec), canon.sha256(files.plan), canon.sha256(files.policy)),
        scripts=scripts,
        supersedes=_contract_id(bench, old),
    )
    findings = admit.check(proposal)
    if findings:
        raise Refused(*findings)
    for name, validator in policy.validators.items():
        pinned(snapshot.files, validator, snapshot.value["validators"][name]["sha256"])
    draft = admit.draft(proposal)
    said = ask(bench, draft, policy, snapshot, files.path.parent)
    colours = {question: checked.colour for question, checked in said.items()}
    concluded = admit.conclude(draft, policy, colours, {question: checked.said for question, checked in said.items()})
    if isinstance(concluded, list):
        raise Refused(*concluded)
    return concluded, snapshot, scripts


def _base(bench: Bench, named: str) -> Base:
    if not COMMIT_ID.fullmatch(named):
        raise Refused(Finding("revision.unpinned", named, f"The plan's base is {named!r}, not a commit's full id."))
    tree = bench.repository.tree_of(named)
    if tree is None:
        raise Refused(Finding("revision.unknown", named, f"The repository has no commit {named}."))
    return Base(commit=named, tree=tree, sha256=bench.repository.manifest(bench.repository.flat(tree)))


def _contract_id(bench: Bench, run: str) -> str:
    if not run:
        return ""
    first = next(iter(bench.store.entries(run, upto=1)))
    return canon.digest(canon.doubles(dict(first.body["contract"])))


# --- oracles ------------------------------------------------------------------------------------------------------


def _grants(plan: Plan, policy: Policy, catalog: Catalog) -> None:
    """Check the rules and narrowings of grants. Raises `ConfigError`: one that is about nothing would let all pass."""
    above = policy.ceiling.grant
    known = {**dict.fromkeys([*policy.tools, *above.capabilities]), **with_files(catalog)}
    for grant in (above, *(each.grant for each in plan.slices if each.grant is not None)):
        given.named(replace(grant, capabilities={}), known)
        given.narrowings(grant)


def ask(bench: Bench, draft: Contract, policy: Policy, snapshot: Snapshot, folder: Path) -> dict[Question, Checked]:
    """Ask every oracle of a draft: each validator about the base, the reference and its mutants."""
    base = bench.repository.flat(draft.base.tree)
    questions = admit.questions(draft, policy)
    said: dict[Question, Checked] = {}
    for about in dict.fromkeys(question.about for question in questions):
        with _laid(bench, base, policy, folder, about) as (flat, blobs):
            read = _reader(bench, blobs)
            with staged(flat, read, snapshot.files, bench.confinement, policy.confines) as ready:
                for question in questions:
                    if question.about == about:
                        said[question] = ready.run(policy.validators[question.validator])
    return said


@contextmanager
def _laid(
    bench: Bench, base: Flat, policy: Policy, folder: Path, about: str
) -> Iterator[tuple[Flat, Mapping[str, bytes]]]:
    """Give the base, or the base with a folder of the policy's laid over it."""
    if about == BASE:
        yield base, {}
        return
    name = policy.reference if about == REFERENCE else about
    if name.startswith("/") or ".." in Path(name).parts or not (folder / name).is_dir():
        raise ConfigError(f"The policy names {name!r}, which is no folder beside it.", hint="Put it there.")
    taken = take(folder / name, base, Bounds(), overlay=True)
    yield taken.flat, taken.blobs


def _reader(bench: Bench, blobs: Mapping[str, bytes]) -> Callable[[str], bytes]:
    def read(name: str) -> bytes:
        return blobs[name] if name in blobs else bench.repository.data(name)

    return read


# --- keeping ------------------------------------------------------------------------------------------------------


def _keep(
    bench: Bench, files: Files, contract: Contract, snapshot: Snapshot, scripts: Mapping[str, str], old: str
) -> Admission:
    run = name_of(contract.id)
    envelope = bench.key.sign(canon.canonical(contract.to_json()), PAYLOAD)
    found = Admission(contract=contract, envelope=envelope, run=run, authority=contract.authority)
    if run in {header.run for header in bench.store.runs()}:
        return found  # the same plan against the same things is the same contract
    blobs = [*_texts(files), *snapshot.files.values(), *(text.encode("utf-8") for text in scripts.values())]
    bench.store.create(RunHeader(run, contract.slices[0].name, _iso(bench)))
    body = {
        "contract": contract.to_json(),
        "envelope": envelope,
        "at_ms": bench.now(),
        "by": bench.operator,
        "repository": str(bench.repository.path),
        "policy": str(files.path),
    }
    bench.store.append(run, [Entry("work.contract", body)], blobs={canon.sha256(data): data for data in blobs})
    if old:
        bench.store.append(old, [Entry("work.superseded", {"by": contract.id, "at_ms": bench.now()})])
    bench.notice("admitted", contract=contract.id)
    return found


def _iso(bench: Bench) -> str:
    return datetime.datetime.fromtimestamp(bench.clock.now(), datetime.UTC).isoformat(timespec="seconds")
