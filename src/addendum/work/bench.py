"""What every use case of work contracts works with, put together by `addendum.wiring`; and a contract as it was
admitted, with the very files that were pinned."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from addendum import canon
from addendum.canon import Digest, Json
from addendum.errors import ConfigError, NotFound, NotJson, StoreCorrupt, UsageError
from addendum.ports import Clock, Confinement, Store
from addendum.runs.context import Context
from addendum.signing import BadSignature, Key, opened
from addendum.work import wire
from addendum.work.codes import Refused, refuse
from addendum.work.contract import PAYLOAD, Contract, read
from addendum.work.journal import WorkJournal, contracts, name_of
from addendum.work.objects import Flat, Repository
from addendum.work.proposal import Policy
from addendum.work.snapshot import Snapshot


def _nobody(event: Mapping[str, Json]) -> None:
    """Watch nothing."""


@dataclass(slots=True, kw_only=True)
class Bench:
    """`key` signs for the runner. `scripts` is what workflow scripts run with. `look` takes the present snapshot of a
    policy in a folder. `observer` is told what happens, in ids; what it does changes nothing."""

    store: Store
    repository: Repository
    confinement: Confinement
    clock: Clock
    key: Key
    scripts: Context
    look: Callable[[Policy, Path], Snapshot]
    operator: str = "operator"
    observer: Callable[[Mapping[str, Json]], None] = _nobody

    def now(self) -> int:
        """Return milliseconds since 1970."""
        return round(self.clock.now() * 1000)

    def notice(self, event: str, **ids: Json) -> None:
        """Tell the observer; an exception in it is dropped."""
        try:
            self.observer({"event": f"work.{event}", **ids})
        except Exception:  # noqa: BLE001 - whoever watches can't change the work
            return

    def sign(self, statement: Mapping[str, Any], kind: str) -> tuple[Digest, bytes]:
        """Return a signed statement as a blob."""
        envelope = canon.canonical(self.key.sign(canon.canonical(dict(statement)), kind))
        return canon.sha256(envelope), envelope


@dataclass(slots=True, kw_only=True)
class Admitted:
    """A contract with its pinned policy and files, and its journal."""

    contract: Contract
    policy: Policy
    files: Mapping[str, bytes]
    scripts: Mapping[Digest, str]
    journal: WorkJournal
    base: Flat

    @property
    def digests(self) -> Mapping[str, Mapping[str, str]]:
        """The digests of each validator's files."""
        found: Mapping[str, Any] = self.contract.snapshot["validators"]
        return {name: each["sha256"] for name, each in found.items()}


def resolve(store: Store, given: str) -> str:
    """Return the journal of a contract: by its id, an unambiguous beginning of it, or `last`. Raises `NotFound`."""
    names = contracts(store)
    if given == "last" and names:
        return names[-1]
    wanted = name_of(given)
    found = [name for name in names if name == wanted or (len(given) >= 4 and name.startswith(wanted))]
    if len(found) == 1:
        return found[0]
    raise NotFound(f"There is no contract {given!r} here.", hint="`addendum work status` lists them.", contract=given)


@contextmanager
def holding(bench: Bench, run: str) -> Iterator[Admitted]:
    """Hold a contract's lease, so that one process works on it at a time. Raises `RunBusy`."""
    lease = bench.store.acquire(run)
    try:
        found = load(bench, run)
        found.journal.lease = lease
        yield found
    finally:
        bench.store.release(lease)


def load(bench: Bench, run: str) -> Admitted:
    """Read a contract with all that it pins. Raises `Refused` (`provenance.*`) if something isn't what was signed."""
    journal = WorkJournal(bench.store, run)
    body = journal.state.contract
    if not body:
        raise NotFound(f"{run} has no contract.", hint="Admit the plan again.")
    contract = authentic(body["contract"], body["envelope"], bench.key.public)
    try:
        policy = wire.policy(bench.store.blob(contract.policy), "the pinned policy")
        files = {
            name: bench.store.blob(digest)
            for each in contract.snapshot["validators"].values()
            for name, digest in each["sha256"].items()
        }
        scripts = {
            each.script: bench.store.blob(each.script).decode("utf-8") for each in contract.slices if each.script
        }
    except StoreCorrupt as error:
        raise refuse("provenance.mismatch", str(error.facts.get("digest", "")), error.message) from None
    try:
        base = bench.repository.flat(contract.base.tree)
        manifest = bench.repository.manifest(base)
    except (UsageError, StoreCorrupt) as error:
        raise refuse("revision.unknown", contract.base.commit, error.message) from None
    if manifest != contract.base.sha256:
        raise refuse("provenance.mismatch", "the base", "The base's files aren't what was admitted.")
    return Admitted(contract=contract, policy=policy, files=files, scripts=scripts, journal=journal, base=base)


def authentic(body: Mapping[str, Any], envelope: Mapping[str, Any], public: str) -> Contract:
    """Return a contract if the runner signed this very text. Raises `Refused`."""
    try:
        payload = opened(envelope, public, PAYLOAD)
    except BadSignature as error:
        raise refuse(
            "provenance.signature", "the contract", f"The contract isn't signed by this runner: {error}."
        ) from None
    body = canon.doubles(dict(body))
    try:
        same = payload == canon.canonical(body)
        contract = read(body)
    except (ConfigError, NotJson) as error:
        raise refuse("provenance.mismatch", "the contract", str(error)) from None
    if not same or canon.canonical(contract.to_json()) != payload:
        raise refuse("provenance.mismatch", "the contract", "The contract isn't what was signed.")
    return contract


def named(bench: Bench, given: str, text: bytes | None) -> str:
    """Return the journal that a contract file or an id means. `text` is the file's content, None for an id.

    Raises `Refused` for a file that isn't what was signed, or isn't in this store."""
    if text is None:
        return resolve(bench.store, given)
    try:
        found = canon.parse(text)
    except NotJson:
        raise UsageError(f"{given} is no JSON.", hint="Name a contract.json, or a contract's id.") from None
    if not isinstance(found, dict) or not isinstance(found.get("contract"), dict):
        raise UsageError(f"{given} is no contract.", hint="Name a contract.json, or a contract's id.")
    contract = authentic(found["contract"], _mapping(found.get("envelope")), bench.key.public)  # type: ignore[arg-type]
    try:
        return resolve(bench.store, contract.id)
    except NotFound:
        raise refuse("provenance.mismatch", given, "This contract isn't in this store.") from None


def _mapping(value: object) -> Mapping[str, Any]:
    return value if isinstance(value, dict) else {}


def current(found: Admitted) -> None:
    """Raise `Refused` for a contract that another one stands in for."""
    if found.journal.state.superseded:
        by = found.journal.state.superseded
        raise refuse("snapshot.mismatch", "the contract", f"Another contract superseded this one: {by[:16]}.", by=by)


__all__ = ["Admitted", "Bench", "Refused", "authentic", "current", "holding", "load", "named", "resolve"]
