"""What speaks against a candidate: one reason, as a model gets it back and as the journal keeps it."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any, Final, Literal, TypeAlias

from addendum.authority.money import usd
from addendum.canon import Json
from addendum.gate.counterexample import Counterexample
from addendum.kernel.claims import Relocation
from addendum.plan import Plan
from addendum.script.report import Violation

Guard: TypeAlias = Literal["answer", "checker", "calls", "capabilities", "gate", "plan"]
"""In the order in which they look at a candidate."""

SHOWN: Final = 40
"""How many findings of one candidate are kept."""
PAYLOAD: Final = 2000
"""Characters of a payload's JSON that a finding has."""

OUT: Final[Mapping[str, str]] = {
    "removed": "Put the call back where it was: the same function, the same enclosing blocks, the same expression.",
    "call_changed": "Write the call expression as it was, and make new calls beside or behind it.",
    "capability_changed": "Put the committed call back, and call the other capability behind it.",
    "divergence": "Let this call ask for exactly what it asked for: compute its payload as before.",
    "ambiguous": "Write take=2 in the call that is new work.",
}
"""What a model can do about a counterexample of the gate. Drops and new versions are an operator's to allow."""
MOVED: Final = " If it only stands elsewhere now, name its old and its new place in `moves`."
"""And unless the policy is `strict`."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Finding:
    """`kind` is stable; `message` says what is wrong and `way_out` what would be admitted. `line` is the candidate's, 0
    for none; `facts` are the details."""

    guard: Guard
    kind: str
    message: str
    way_out: str
    line: int = 0
    facts: Mapping[str, Json] = field(default_factory=dict)

    def to_json(self) -> dict[str, Any]:
        """Return the finding as JSON."""
        return {
            "guard": self.guard,
            "kind": self.kind,
            "message": self.message,
            "way_out": self.way_out,
            "line": self.line or None,
            "facts": dict(self.facts),
        }


def from_json(data: Mapping[str, Any]) -> Finding:
    """Read a finding back."""
    return Finding(
        guard=data["guard"],
        kind=data["kind"],
        message=data["message"],
        way_out=data["way_out"],
        line=data["line"] or 0,
        facts=data["facts"],
    )


def violations(found: Iterable[Violation]) -> list[Finding]:
    """Return the checker's errors; what isn't granted is a matter of the envelope (R08)."""
    return [
        Finding(
            guard="capabilities" if each.rule in ("R08", "R09") else "checker",
            kind=each.rule,
            message=each.message,
            way_out=each.fix,
            line=each.line,
            facts={"column": each.column, "expression": each.expression},
        )
        for each in found
        if each.severity == "error"
    ]


def counterexample(example: Counterexample, plan: Plan, relocation: Relocation) -> Finding:
    """Return a counterexample of the gate, or of the plan if it is a divergence, with both payloads."""
    facts: dict[str, Json] = {
        "place": example.place,
        "position": example.position,
        "capability": example.capability,
        "committed": {"line": example.committed[1], "expression": example.committed[0]},
        "now": {"line": example.now[1], "expression": example.now[0]} if example.now[1] else None,
        "records": example.records,
        "cost_usd": usd(example.cost),
        "identities": list(example.identities[:SHOWN]),
    }
    if example.call:
        facts["call"] = example.call
    for each in plan.diverging:
        if example.kind == "divergence" and each.identity == example.call:
            facts["payload_committed"] = plan.committed.get(each.seq)
            facts["payload_now"] = each.now
    return Finding(
        guard="plan" if example.kind == "divergence" else "gate",
        kind=example.kind,
        message=example.message,
        way_out=OUT[example.kind]
        + (MOVED if example.kind in ("removed", "ambiguous") and relocation != "strict" else ""),
        line=example.now[1],
        facts=facts,
    )
