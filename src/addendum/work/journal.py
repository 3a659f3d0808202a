"""A contract's journal: everything that happened under it, in the store that only grows. One fold, every view from it.

| kind | says |
| --- | --- |
| `work.contract` | a contract was made, where its repository and policy are, who signed it |
| `work.rejection` | a plan was not admitted (in the journal of admissions, which has no contract) |
| `work.superseded` | another contract stands in this one's place |
| `work.attempt` | an attempt at a slice begins: by an executor, by somebody who presents a candidate, or a correction |
| `work.end` | the attempt ended, and what it left |
| `work.gate` | a candidate is about to be judged, and what is expected to judge it |
| `work.check` | one of these said something |
| `work.verdict` | the gate's verdict |
| `work.approval` | a person approved, bound to what |
| `work.promoting`, `work.promoted` | a ref is about to be moved, and was |
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Final

from addendum.canon import Digest
from addendum.errors import NotFound
from addendum.ports import Lease, RunHeader, Store
from addendum.records.stored import Entry, Stored

ADMISSIONS: Final = "work-admissions"
PREFIX: Final = "work-"


@dataclass(slots=True)
class Gate:
    """A judgement of a candidate. `attempt` is 0 for the union of several slices' results."""

    seq: int
    attempt: int
    slice: str
    tree: str
    manifest: Digest
    input: str
    expected: tuple[str, ...]
    checks: dict[str, Mapping[str, Any]] = field(default_factory=dict)
    verdict: str = ""
    findings: list[Mapping[str, Any]] = field(default_factory=list)
    approvals: tuple[int, ...] = ()


@dataclass(slots=True)
class Attempt:
    """An attempt at a slice. `how` is run, presented or correction; `outcome` is "" until it ended."""

    number: int
    slice: str
    how: str
    route: str
    actor: str
    input: str
    at_ms: int
    outcome: str = ""
    tree: str = ""
    manifest: Digest = ""
    commit: str = ""
    envelope: Digest = ""
    log: Digest = ""
    findings: list[Mapping[str, Any]] = field(default_factory=list)
    details: Mapping[str, Any] = field(default_factory=dict)
    gates: list[Gate] = field(default_factory=list)

    @property
    def verdict(self) -> str:
        """The newest verdict on what it left; "" if there is none."""
        return next((gate.verdict for gate in reversed(self.gates) if gate.verdict), "")


@dataclass(slots=True)
class State:
    """Everything that follows from a contract's journal."""

    contract: Mapping[str, Any] = field(default_factory=dict)
    attempts: dict[int, Attempt] = field(default_factory=dict)
    gates: list[Gate] = field(default_factory=list)
    approvals: dict[int, Mapping[str, Any]] = field(default_factory=dict)
    used: set[int] = field(default_factory=set)
    superseded: str = ""
    promoting: dict[int, Mapping[str, Any]] = field(default_factory=dict)
    promoted: list[Mapping[str, Any]] = field(default_factory=list)
    seq: int = 0
    chain: Digest = ""

    def take(self, stored: Stored) -> None:
        """Fold one more entry in."""
        body, self.seq, self.chain = stored.body, stored.seq, stored.chain
        match stored.kind:
            case "work.contract":
                self.contract = body
            case "work.superseded":
                self.superseded = body["by"]
            case "work.attempt":
                self._attempt(body)
            case "work.end":
                self._end(body)
            case "work.gate":
                self._gate(stored.seq, body)
            case "work.check":
                self.gates[-1].checks[body["validator"]] = body
            case "work.verdict":
                self._verdict(body)
            case "work.approval":
                self.approvals[stored.seq] = body
            case "work.promoting":
                self.promoting[stored.seq] = body
                self.used.update(body["approvals"])
            case "work.promoted":
                self.promoted.append(body)
            case _:
                pass  # of a later version

    def _attempt(self, body: Mapping[str, Any]) -> None:
        number = body["attempt"]
        self.attempts[number] = Attempt(
            number, body["slice"], body["how"], body["route"], body["actor"], body["input"], body["at_ms"]
        )

    def _end(self, body: Mapping[str, Any]) -> None:
        found = self.attempts[body["attempt"]]
        found.outcome = body["outcome"]
        for name in ("tree", "manifest", "commit", "envelope", "log"):
            setattr(found, name, body.get(name, ""))
        found.findings = body["findings"]
        found.details = body.get("details", {})

    def _gate(self, seq: int, body: Mapping[str, Any]) -> None:
        gate = Gate(
            seq,
            body["attempt"],
            body["slice"],
            body["tree"],
            body["manifest"],
            body["input"],
            tuple(body["expected"]),
        )
        self.gates.append(gate)
        if gate.attempt:
            self.attempts[gate.attempt].gates.append(gate)

    def _verdict(self, body: Mapping[str, Any]) -> None:
        gate = self.gates[-1]
        gate.verdict, gate.findings = body["verdict"], body["findings"]
        gate.approvals = tuple(body["approvals"])
        self.used.update(gate.approvals)

    def runs_of(self, slice_: str) -> list[Attempt]:
        """Return the executor's own attempts at a slice. One that waits for a person goes on with the next, and isn't
        an attempt of its own."""
        own = [each for each in self.attempts.values() if each.slice == slice_ and each.how == "run"]
        return [each for each in own if each.outcome != "waiting"]

    def current(self, slice_: str) -> Gate | None:
        """Return the newest judgement on a slice that has a verdict."""
        return next((gate for gate in reversed(self.gates) if gate.slice == slice_ and gate.verdict), None)


class WorkJournal:
    """A contract's journal, read once and grown by appending."""

    def __init__(self, store: Store, run: str, lease: Lease | None = None) -> None:
        self.store = store
        self.run = run
        self.lease = lease
        self.state = State()
        self.read()

    def read(self) -> State:
        """Fold in what the store has and this journal hasn't."""
        for stored in self.store.entries(self.run, after=self.state.seq):
            self.state.take(stored)
        return self.state

    def append(self, kind: str, body: Mapping[str, Any], blobs: Mapping[Digest, bytes] | None = None) -> None:
        """Append an entry durably and fold it in, with whatever others put before it."""
        self.store.append(self.run, [Entry(kind, body)], blobs=blobs, lease=self.lease)
        self.read()


def name_of(contract: str) -> str:
    """Return the name of a contract's journal."""
    return f"{PREFIX}{contract[:16]}"


def contracts(store: Store) -> list[str]:
    """Return the names of all contracts' journals, oldest first."""
    names = [header.run for header in store.runs()]
    return [name for name in names if name.startswith(PREFIX) and name != ADMISSIONS and "/" not in name]


def admissions(store: Store, at: str) -> str:
    """Return the journal of admissions, made when first used."""
    try:
        store.header(ADMISSIONS)
    except NotFound:
        store.create(RunHeader(ADMISSIONS, "rejected plans", at))
    return ADMISSIONS
