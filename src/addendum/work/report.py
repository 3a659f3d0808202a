"""What happened under a contract, with nothing left out: every attempt, every expected run, and what is missing."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass
from typing import Any

from addendum.canon import Json
from addendum.errors import NotFound
from addendum.work import scope
from addendum.work.bench import Admitted, Bench
from addendum.work.codes import Finding
from addendum.work.contract import Slice
from addendum.work.journal import Attempt, Gate
from addendum.work.progress import Progress

NO_VERDICT = ("error", "timeout")


@dataclass(frozen=True, slots=True)
class Report:
    """The report as JSON, and the exit status: 4 while something is missing."""

    value: dict[str, Any]

    @property
    def exit_code(self) -> int:
        """Return 0 when everything that was expected has a verdict, else 4."""
        incomplete = ("interrupted", "not_run")
        return 4 if self.value["runs"]["missing"] or any(self.value[name] for name in incomplete) else 0


def report(admitted: Admitted) -> Report:
    """Return everything that the journal has on a contract."""
    state, contract = admitted.journal.state, admitted.contract
    counts = _counts(state.gates)
    attempts = list(state.attempts.values())
    accepted = [each for each in attempts if each.verdict == "accepted"]
    oracles = sum(1 + (oracle.reference is not None) + len(oracle.mutants) for oracle in contract.oracles)
    value: dict[str, Any] = {
        "contract": contract.id,
        "superseded": state.superseded or None,
        "slices": [_slice(admitted, name) for name in (each.name for each in contract.slices)],
        "attempts": [_attempt(each) for each in attempts],
        "outcomes": dict(Counter(each.outcome or "interrupted" for each in attempts)),
        "interrupted": sum(1 for each in attempts if not each.outcome),
        "not_run": [each.name for each in contract.slices if not any(a.slice == each.name for a in attempts)],
        "accepted_unaided": len({each.slice for each in accepted if each.how == "run" and each.route != "people"}),
        "corrected": len({each.slice for each in accepted if each.how == "correction"}),
        "corrections": sum(1 for each in attempts if each.how == "correction"),
        "runs": counts,
        "findings": [finding.to_json() for finding in _missing_runs(state.gates)],
        "oracles": {"expected": oracles, "ran": oracles},
        "unions": [_gate(gate) for gate in state.gates if not gate.attempt],
        "promotions": [dict(body) for body in state.promoted],
        "promoted": bool(state.promoted),
    }
    return Report(value)


def _counts(gates: list[Gate]) -> dict[str, int]:
    """Count each planned run of a validator: what isn't there, or has no verdict, is missing."""
    expected = sum(len(gate.expected) for gate in gates)
    colours = Counter(str(check["colour"]) for gate in gates for check in gate.checks.values())
    ran = colours["green"] + colours["red"]
    return {
        "expected": expected,
        "ran": ran,
        "passed": colours["green"],
        "failed": colours["red"],
        "crashed": colours["error"],
        "timed_out": colours["timeout"],
        "missing": expected - ran,
    }


def _slice(admitted: Admitted, name: str) -> dict[str, Json]:
    slice_ = admitted.contract.slice(name)
    assert slice_ is not None
    used = len(admitted.journal.state.runs_of(name))
    gate = admitted.journal.state.current(name)
    planned = slice_.attempts if not (slice_.review and slice_.people) else 1
    return {
        "name": name,
        "id": slice_.id,
        "attempts": {"granted": planned, "used": used},
        "verdict": gate.verdict if gate is not None else None,
        "tree": gate.tree if gate is not None else None,
    }


def _attempt(each: Attempt) -> dict[str, Any]:
    return {
        "attempt": each.number,
        "slice": each.slice,
        "how": each.how,
        "route": each.route or None,
        "actor": each.actor,
        "outcome": each.outcome or "interrupted",
        "tree": each.tree or None,
        "commit": each.commit or None,
        "log": each.log or None,
        "findings": each.findings,
        "details": dict(each.details),
        "gates": [_gate(gate) for gate in each.gates],
    }


def detail(bench: Bench, admitted: Admitted, number: int) -> dict[str, Any]:
    """Return one attempt with what it changed, and what its executor printed. Raises `NotFound`."""
    found = admitted.journal.state.attempts.get(number)
    if found is None:
        known = len(admitted.journal.state.attempts)
        raise NotFound(
            f"There is no attempt {number}.", hint=f"The contract has {known}; `addendum work report` lists them."
        )
    changes: list[dict[str, str]] = []
    if found.tree:
        before, after = bench.repository.flat(found.input), bench.repository.flat(found.tree)
        changes = [change.to_json() for change in scope.changes(before, after)]
    printed = bench.store.blob(found.log).decode("utf-8", "replace") if found.log else ""
    return {**_attempt(found), "changes": changes, "printed": printed}


def _gate(gate: Gate) -> dict[str, Any]:
    return {
        "tree": gate.tree,
        "expected": list(gate.expected),
        "checks": {name: check["colour"] for name, check in gate.checks.items()},
        "missing": [name for name in gate.expected if _missing(gate, name)],
        "verdict": gate.verdict or None,
        "findings": gate.findings,
    }


def _missing_runs(gates: list[Gate]) -> list[Finding]:
    return [
        Finding(
            "validator.missing", name, f"{name} has no verdict on attempt {gate.attempt}.", {"attempt": gate.attempt}
        )
        for gate in gates
        for name in gate.expected
        if _missing(gate, name)
    ]


def _missing(gate: Gate, name: str) -> bool:
    check = gate.checks.get(name)
    return check is None or check["colour"] in NO_VERDICT


def _made(used: int, slice_: Slice) -> str:
    """Return how many attempts were made, of how many; what people review may be handed in again without a limit."""
    return f"{used}" if slice_.review and slice_.people else f"{used} of {slice_.attempts}"


def status(bench: Bench, admitted: Admitted) -> dict[str, Any]:
    """Return where a contract stands, and what is next."""
    progress = Progress(bench, admitted)
    state = admitted.journal.state
    slices: list[dict[str, Json]] = []
    for each in admitted.contract.slices:
        ready, done = progress.input(each), progress.done(each)
        slices.append(
            {
                "name": each.name,
                "done": not isinstance(done, Finding),
                "eligible": not isinstance(ready, Finding),
                "why": done.message if isinstance(done, Finding) else "",
                "attempts": _made(len(state.runs_of(each.name)), each),
            }
        )
    final = progress.final()
    return {
        "contract": admitted.contract.id,
        "base": admitted.contract.base.commit,
        "authority_digest": admitted.contract.authority,
        "superseded": state.superseded or None,
        "slices": slices,
        "result": None if isinstance(final, Finding) else final.tree,
        "promoted": bool(state.promoted),
    }
