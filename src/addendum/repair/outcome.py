"""How a loop came out, as one value: every attempt of it, and the candidate that was accepted, if one was."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Final, Literal, TypeAlias

from addendum.authority.money import usd
from addendum.plan import to_json as plan_json
from addendum.records.entries import DraftVerdict, Purpose
from addendum.repair.findings import Finding
from addendum.runs.result import StepResult
from addendum.runs.revise import Drawn

Status: TypeAlias = Literal[
    "accepted",
    "applied",
    "refused",
    "failed",
    "stopped",
    "paused",
    "waiting",
    "unresolved",
    "resumable",
]
"""`refused`: no candidate was admitted; `failed`: the model said no; `paused`: a limit of the grant; `waiting`: a
person has to answer first; `unresolved`: a call was sent and has no result; `resumable`: nothing failed that a script
could mend."""
EXIT: Final[Mapping[str, int]] = {"accepted": 0, "applied": 0, "refused": 3, "failed": 3, "stopped": 3}


@dataclass(frozen=True, slots=True, kw_only=True)
class Tried:
    """One attempt: what was answered, what the guards found, what it took. `draft` is the seq of its entry."""

    draft: int
    attempt: int
    verdict: DraftVerdict
    cost: int = 0
    tokens: int = 0
    seconds: float = 0.0
    model: str = ""
    reason: str = ""
    candidate: str | None = None
    moves: Mapping[str, str] = field(default_factory=dict)
    drops: tuple[str, ...] = ()
    findings: tuple[Finding, ...] = ()
    failure: tuple[str, str] | None = None
    note: str = ""

    def to_json(self) -> dict[str, Any]:
        """Return the attempt as JSON."""
        return {
            "draft": self.draft,
            "attempt": self.attempt,
            "verdict": self.verdict,
            "cost_usd": usd(self.cost),
            "tokens": self.tokens,
            "seconds": round(self.seconds, 3),
            "model": self.model or None,
            "reason": self.reason or None,
            "candidate": self.candidate,
            "moves": dict(self.moves),
            "drops": list(self.drops),
            "counterexamples": [found.to_json() for found in self.findings],
            "failure": {"code": self.failure[0], "message": self.failure[1]} if self.failure is not None else None,
            "note": self.note or None,
        }


@dataclass(slots=True, kw_only=True)
class Outcome:
    """`message` says in a sentence how it ended, `hint` what to do next. `candidate` is the accepted script, `drawn`
    its plan; `revision` is the one that it became, 0 if it didn't. `applied` is what executing it came to, if somebody
    asked for that."""

    run: str
    purpose: Purpose
    status: Status
    message: str = ""
    hint: str = ""
    limit: str = ""
    attempts: tuple[Tried, ...] = ()
    lost: int = 0
    candidate: str | None = None
    moves: Mapping[str, str] = field(default_factory=dict)
    drops: tuple[str, ...] = ()
    reason: str = ""
    drawn: Drawn | None = None
    worst_case: Mapping[str, Any] = field(default_factory=dict)
    revision: int = 0
    total_cost: int = 0
    at: tuple[int, str] | None = None
    """The run's journal as the loop left it (last seq and chain): what was judged is applied to that one or not."""
    applied: StepResult | None = None

    @property
    def accepted(self) -> bool:
        """Whether a candidate was accepted."""
        return self.candidate is not None

    @property
    def cost(self) -> int:
        """What the attempts cost, in nano-dollars."""
        return sum(tried.cost for tried in self.attempts)

    @property
    def cost_usd(self) -> str:
        """What the attempts cost, as exact decimal text in US dollars."""
        return usd(self.cost)

    @property
    def exit_code(self) -> int:
        """The exit status of a command that ends with this."""
        if self.applied is not None:
            return self.applied.exit_code
        return EXIT.get(self.status, 4)

    def to_json(self) -> dict[str, Any]:
        """Return the outcome as JSON."""
        drawn = self.drawn
        facts = drawn.admission.report.facts.to_json() if drawn is not None else None
        return {
            "run": self.run,
            "purpose": self.purpose,
            "status": self.status,
            "message": self.message,
            "hint": self.hint,
            "limit": self.limit or None,
            "attempts": [tried.to_json() for tried in self.attempts],
            "lost": self.lost,
            "candidate": self.candidate,
            "moves": dict(self.moves),
            "drops": list(self.drops),
            "reason": self.reason or None,
            "plan": plan_json(drawn.plan) if drawn is not None and drawn.plan is not None else None,
            "facts": facts,
            "worst_case": dict(self.worst_case),
            "revision": self.revision,
            "cost_usd": self.cost_usd,
            "total_cost_usd": usd(self.total_cost),
            "applied": self.applied.to_json() if self.applied is not None else None,
        }
