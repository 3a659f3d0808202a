"""The brief: all that a model is told about a run that it is to mend, or to begin, as one value (DESIGN section 9).

`Brief.to_json` is the structured form; `addendum.repair.text` has the readable one, which is what a model gets. Money
is in nano-dollars inside and decimal text in US dollars in JSON.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Literal, TypeAlias

from addendum.authority.money import usd
from addendum.canon import Json
from addendum.records.entries import Purpose
from addendum.repair.findings import Finding

Fate: TypeAlias = Literal["same", "changed", "gone"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Step:
    """One place on the way to a call: its position, and the line of the source that it is written on (0: not in it)."""

    position: str
    line: int
    expression: str

    def to_json(self) -> dict[str, Any]:
        """Return the step as JSON."""
        return {"position": self.position, "line": self.line or None, "expression": self.expression}


@dataclass(frozen=True, slots=True, kw_only=True)
class Frozen:
    """A place whose calls were paid for: `records` of them, for `cost`. `way` are the frames that lead there, outermost
    first. `fate` is what the run's present source has there; `revision` is the one in whose terms the place is written.
    """

    place: str
    capability: str
    function: str
    line: int
    expression: str
    records: int
    cost: int
    identities: tuple[str, ...]
    revision: int
    fate: Fate = "same"
    way: tuple[Step, ...] = ()

    def to_json(self) -> dict[str, Any]:
        """Return the place as JSON."""
        return {
            "place": self.place,
            "capability": self.capability,
            "function": self.function,
            "line": self.line or None,
            "expression": self.expression,
            "records": self.records,
            "cost_usd": usd(self.cost),
            "identities": list(self.identities),
            "revision": self.revision,
            "fate": self.fate,
            "way": [step.to_json() for step in self.way],
        }


@dataclass(frozen=True, slots=True, kw_only=True)
class Failed:
    """A call that failed, and is asked again by the next attempt if it is `open`."""

    identity: str
    capability: str
    code: str
    message: str
    open: bool
    line: int
    expression: str
    payload: Json = None

    def to_json(self) -> dict[str, Any]:
        """Return the failure as JSON."""
        return {
            "identity": self.identity,
            "capability": self.capability,
            "code": self.code,
            "message": self.message,
            "open": self.open,
            "line": self.line or None,
            "expression": self.expression,
            "payload": self.payload,
        }


@dataclass(frozen=True, slots=True, kw_only=True)
class Ended:
    """How the run's last attempt ended. `chain` are the lines that led there, outermost first."""

    status: str
    stop: str | None = None
    error: str | None = None
    message: str = ""
    hint: str = ""
    identity: str = ""
    chain: tuple[Mapping[str, Json], ...] = ()

    def to_json(self) -> dict[str, Any]:
        """Return the ending as JSON."""
        return {
            "status": self.status,
            "stop": self.stop,
            "error": self.error,
            "message": self.message,
            "hint": self.hint,
            "identity": self.identity or None,
            "chain": [dict(line) for line in self.chain],
        }


@dataclass(frozen=True, slots=True, kw_only=True)
class Last:
    """The last candidate that was refused, and why. `script` may be cut."""

    script: str
    findings: tuple[Finding, ...]
    moves: Mapping[str, str] = field(default_factory=dict)

    def to_json(self) -> dict[str, Any]:
        """Return it as JSON."""
        return {
            "script": self.script,
            "moves": dict(self.moves),
            "counterexamples": [found.to_json() for found in self.findings],
        }


@dataclass(frozen=True, slots=True, kw_only=True)
class Offer:
    """A capability that the grant has. `limits` are its own, with what is used and held of each; `most` is what a call
    may cost, in nano-dollars."""

    name: str
    effect: str
    about: str
    input: Mapping[str, Json]
    output: Mapping[str, Json]
    price: int
    most: int
    waits: bool = False

    def to_json(self) -> dict[str, Any]:
        """Return the capability as JSON."""
        return {
            "name": self.name,
            "effect": self.effect,
            "about": self.about,
            "input": dict(self.input),
            "output": dict(self.output),
            "price_usd": usd(self.price),
            "most_usd": usd(self.most),
            "waits": self.waits,
        }


@dataclass(frozen=True, slots=True, kw_only=True)
class Rule:
    """One rule of the checker, in short."""

    name: str
    title: str
    text: str

    def to_json(self) -> dict[str, Any]:
        """Return the rule as JSON."""
        return {"rule": self.name, "title": self.title, "text": self.text}


@dataclass(frozen=True, slots=True, kw_only=True)
class Brief:
    """`source` is None and `revision` 0 where there is no script yet. `limits` are the grant's, as text, with what is
    used and held of each and the most. `relocation` is the policy; `supersede` and `drops` say what the operator allows
    beyond it."""

    run: str
    purpose: Purpose
    request: str
    args: Json
    source: str | None
    revision: int
    frozen: tuple[Frozen, ...] = ()
    failed: tuple[Failed, ...] = ()
    ended: Ended | None = None
    last: Last | None = None
    catalog: tuple[Offer, ...] = ()
    limits: tuple[Mapping[str, Json], ...] = ()
    rules: tuple[Rule, ...] = ()
    relocation: str = "verified"
    supersede: bool | tuple[str, ...] = False
    drops: tuple[str, ...] = ()

    @property
    def paid(self) -> int:
        """What was paid for the calls of the frozen places, in nano-dollars."""
        return sum(site.cost for site in self.frozen)

    def to_json(self) -> dict[str, Any]:
        """Return the brief as JSON."""
        return {
            "run": self.run,
            "purpose": self.purpose,
            "request": self.request,
            "args": self.args,
            "source": self.source,
            "revision": self.revision,
            "frozen": [site.to_json() for site in self.frozen],
            "failed": [each.to_json() for each in self.failed],
            "ended": self.ended.to_json() if self.ended is not None else None,
            "last": self.last.to_json() if self.last is not None else None,
            "catalog": [offer.to_json() for offer in self.catalog],
            "limits": [dict(limit) for limit in self.limits],
            "rules": [rule.to_json() for rule in self.rules],
            "allowed": {
                "relocation": self.relocation,
                "supersede": self.supersede if isinstance(self.supersede, bool) else list(self.supersede),
                "drops": list(self.drops),
            },
        }
