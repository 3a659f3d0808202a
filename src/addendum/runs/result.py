"""How a step came out: run, resume, plan or revise, with the keys of cases/README.md and the details beneath."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from addendum.authority.money import usd
from addendum.canon import Json
from addendum.runs.advice import named

EXIT_CODES = {
    "completed": 0,
    "planned": 0,
    "failed": 3,
    "stopped": 3,
    "not_admitted": 3,
    "paused": 4,
    "waiting": 4,
}


@dataclass(slots=True, kw_only=True)
class StepResult:
    """What a step did. Counts are of calls of capabilities; recorded reads aren't among them. Money in nano-dollars.

    `message` says in a sentence why the step ended as it did, `hint` what to do next.
    """

    run: str
    status: str
    stop: str | None = None
    error: str | None = None
    message: str = ""
    hint: str = ""
    dispatched: int = 0
    executed: int = 0
    replayed: int = 0
    committed: int = 0
    rebound: int = 0
    superseded: int = 0
    orphans: int = 0
    repeats: int = 0
    gate: str | None = None
    counterexamples: list[str] = field(default_factory=list)
    frontier: int | None = None
    certificate: str | None = None
    result: Json = None
    cost: int = 0
    total_cost: int = 0
    revision: int = 0
    details: dict[str, Any] = field(default_factory=dict)

    def __post_init__(self) -> None:
        """Write the run's name into the commands of the hint, so that they can be copied."""
        self.hint = named(self.hint, self.run)

    @property
    def cost_usd(self) -> str:
        """What this step cost, as exact decimal text in US dollars."""
        return usd(self.cost)

    @property
    def total_cost_usd(self) -> str:
        """What the run cost so far, as exact decimal text in US dollars."""
        return usd(self.total_cost)

    @property
    def exit_code(self) -> int:
        """The exit status of a command that ends with this."""
        if self.status == "stopped" and self.stop == "unresolved":
            return 4
        if self.stop == "store_unavailable":
            return 1
        return EXIT_CODES.get(self.status, 1)

    def to_json(self) -> dict[str, Any]:
        """Return the result as JSON."""
        return {
            "run": self.run,
            "status": self.status,
            "stop": self.stop,
            "error": self.error,
            "message": self.message,
            "hint": self.hint,
            "dispatched": self.dispatched,
            "executed": self.executed,
            "replayed": self.replayed,
            "committed": self.committed,
            "rebound": self.rebound,
            "superseded": self.superseded,
            "orphans": self.orphans,
            "repeats": self.repeats,
            "gate": self.gate,
            "counterexamples": self.counterexamples,
            "frontier": self.frontier,
            "certificate": self.certificate,
            "result": self.result,
            "cost_usd": self.cost_usd,
            "total_cost_usd": self.total_cost_usd,
            "revision": self.revision,
            "details": self.details,
        }
