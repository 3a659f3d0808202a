"""What the checker answers: violations and facts (DESIGN section 2, "The checker").

A report is a value. `ok` is false when a violation has severity "error"; a warning (R07's outer state changed
in a branch) leaves the script runnable. Lines and columns count from 1, columns in characters.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from typing import Literal

Severity = Literal["error", "warning"]


@dataclass(frozen=True, slots=True)
class Violation:
    """One broken rule: where, what is wrong with which expression, and how to write it instead; `capability` is the
    one that R08 or R09 is about."""

    rule: str
    line: int
    column: int
    message: str
    fix: str
    severity: Severity = "error"
    expression: str = ""
    capability: str = ""

    def to_json(self) -> dict[str, object]:
        """Return the violation as a JSON object with a key per field."""
        return {
            "rule": self.rule,
            "line": self.line,
            "column": self.column,
            "message": self.message,
            "fix": self.fix,
            "severity": self.severity,
            "expression": self.expression,
            "capability": self.capability,
        }

    def __str__(self) -> str:
        return f"{self.line}:{self.column}: {self.rule} {self.message} {self.fix}"


@dataclass(frozen=True, slots=True)
class Callsite:
    """One `ctx.run` in the source: how often a whole run can reach it at most (None: no bound follows)."""

    capability: str
    line: int
    column: int
    worst_case: int | None

    def to_json(self) -> dict[str, object]:
        """Return the callsite as a JSON object."""
        return {
            "capability": self.capability,
            "line": self.line,
            "column": self.column,
            "worst_case": self.worst_case,
        }


@dataclass(frozen=True, slots=True)
class Bounded:
    """A loop or a fan-out and its bound: iterations per entry, or branches per call. `pure` reaches no call."""

    kind: str
    line: int
    column: int
    bound: int | None
    pure: bool = False

    def to_json(self) -> dict[str, object]:
        """Return the loop or fan-out as a JSON object."""
        return {
            "kind": self.kind,
            "line": self.line,
            "column": self.column,
            "bound": self.bound,
            "pure": self.pure,
        }


@dataclass(frozen=True, slots=True)
class Flow:
    """From a call (`source`, its line) to what its result decides, at a line and column, in the source's words.

    The levels are those of `addendum.script.influence`."""

    level: str
    decides: str
    source: str
    source_line: int
    line: int
    column: int
    expression: str

    def to_json(self) -> dict[str, object]:
        """Return the flow as a JSON object."""
        return {
            "level": self.level,
            "decides": self.decides,
            "source": self.source,
            "source_line": self.source_line,
            "line": self.line,
            "column": self.column,
            "expression": self.expression,
        }


def level(flows: Iterable[Flow]) -> str:
    """Return the highest level of some flows, L0 for none."""
    return max((flow.level for flow in flows), default="L0")


@dataclass(frozen=True, slots=True)
class Facts:
    """What follows from the source whether or not it is accepted."""

    callsites: tuple[Callsite, ...] = ()
    loops: tuple[Bounded, ...] = ()
    fanouts: tuple[Bounded, ...] = ()
    worst_case: Mapping[str, int | None] = field(default_factory=dict)
    find_flows: Callable[[], tuple[Flow, ...]] = field(default=tuple, compare=False, repr=False)

    @property
    def flows(self) -> tuple[Flow, ...]:
        """Decisions that results of calls have a part in; their highest level is `influence`. Found when asked for."""
        return self.find_flows()

    @property
    def influence(self) -> str:
        """How far results steer the script: L0, L1 or L2."""
        return level(self.flows)

    def to_json(self) -> dict[str, object]:
        """Return the facts as a JSON object."""
        return {
            "callsites": [site.to_json() for site in self.callsites],
            "loops": [loop.to_json() for loop in self.loops],
            "fanouts": [fanout.to_json() for fanout in self.fanouts],
            "worst_case": dict(self.worst_case),
            "influence": self.influence,
            "flows": [flow.to_json() for flow in self.flows],
        }


@dataclass(frozen=True, slots=True)
class Report:
    """The checker's verdict on one source text, violations in source order."""

    violations: tuple[Violation, ...]
    facts: Facts
    revision: str = ""

    @property
    def ok(self) -> bool:
        """Whether no violation is an error."""
        return not any(violation.severity == "error" for violation in self.violations)

    @property
    def errors(self) -> tuple[Violation, ...]:
        """The violations that keep the script from running."""
        return tuple(violation for violation in self.violations if violation.severity == "error")

    @property
    def warnings(self) -> tuple[Violation, ...]:
        """The violations that a script may have and run."""
        return tuple(violation for violation in self.violations if violation.severity == "warning")

    def to_json(self) -> dict[str, object]:
        """Return the report as a JSON object: ok, revision, violations, facts."""
        return {
            "ok": self.ok,
            "revision": self.revision,
            "violations": [violation.to_json() for violation in self.violations],
            "facts": self.facts.to_json(),
        }
