"""A counterexample: one reason why a candidate isn't admitted, with everything that a repair needs to know."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any, Literal, TypeAlias

Kind: TypeAlias = Literal["ambiguous", "call_changed", "capability_changed", "divergence", "removed"]

ADMITTED: dict[str, str] = {
    "removed": "Put the call back where it was, move it so that the shadow replay can prove it, "
    "or declare --drop {place!r}.",
    "call_changed": "Put the call expression back and add a new call beside it, "
    "or allow a new version with --supersede changed.",
    "capability_changed": "Put the committed call back and call the other capability beside it, "
    "or declare --drop {place!r}.",
    "divergence": "Let the payload be what it was, or allow a new version with --supersede changed.",
    "ambiguous": "Say take=2 in the call that is new work, declare the move, or --drop the record that is given up.",
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Counterexample:
    """`place` is the site and static path of the committed calls, `position` the one that is at fault; `committed` and
    `now` are source lines (text of the expression, line number 0 where there is none); `records` of them with `cost`
    nano-dollars hang on it. `before` and `after` are payloads, for a divergence."""

    kind: Kind
    place: str
    position: str
    capability: str
    identities: tuple[str, ...]
    committed: tuple[str, int]
    now: tuple[str, int]
    records: int
    cost: int
    admitted: str
    message: str
    seqs: tuple[int, ...] = ()
    call: str = ""
    digests: tuple[str, str] = ("", "")

    def joined(self, other: Counterexample) -> Counterexample:
        """Return the counterexample with another one's records, of the same kind and place."""
        return replace(
            self,
            identities=(*self.identities, *other.identities),
            records=self.records + other.records,
            cost=self.cost + other.cost,
            seqs=(*self.seqs, *other.seqs),
        )

    def to_json(self) -> dict[str, Any]:
        """Return the counterexample as a model gets it."""
        return {
            "kind": self.kind,
            "place": self.place,
            "position": self.position,
            "capability": self.capability,
            "identities": list(self.identities),
            "committed": {"expression": self.committed[0], "line": self.committed[1]},
            "now": {"expression": self.now[0], "line": self.now[1]} if self.now[1] else None,
            "records": self.records,
            "cost": self.cost,
            "message": self.message,
            "admitted": self.admitted,
            "call": self.call or None,
        }
