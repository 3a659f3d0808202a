"""What people and models write, as values: a specification and a plan (untrusted), and the operator's policy (trusted).

None of it is a grant. `admit` makes a contract of the three; free text of a specification or a plan is never an input
of what is granted.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Literal

from addendum.authority.grant import Grant, Limit
from addendum.canon import Json
from addendum.work.scope import Scope

Kind = Literal["check", "judgement"]
Role = Literal["goal", "guard"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Criterion:
    """An invariant or an acceptance criterion. `validators` are names of the policy's, or `human:ROLE`. A `judgement`
    can't be bound to a program alone."""

    id: str
    text: str
    kind: Kind = "check"
    validators: tuple[str, ...] = ()
    invariant: bool = False

    @property
    def people(self) -> tuple[str, ...]:
        """The roles that have to approve."""
        return tuple(name.removeprefix("human:") for name in self.validators if name.startswith("human:"))

    @property
    def programs(self) -> tuple[str, ...]:
        """The validators that are programs."""
        return tuple(name for name in self.validators if not name.startswith("human:"))


@dataclass(frozen=True, slots=True, kw_only=True)
class OpenQuestion:
    """A question of the specification; a blocking one without an answer stops the admission."""

    id: str
    text: str
    blocking: bool = False
    answer: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Spec:
    """A specification. `evidence` has (uri, digest) pairs."""

    goal: str
    criteria: tuple[Criterion, ...] = ()
    evidence: tuple[tuple[str, str], ...] = ()
    questions: tuple[OpenQuestion, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class ProposedSlice:
    """A piece of work that a plan asks for. `after` are names of slices, `needs` are `name@version`, `executor` is a
    hint; `grant` limits what its script may call (None: what the ceiling says). Times in seconds."""

    name: str
    after: tuple[str, ...] = ()
    intent: str = ""
    edits: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    needs: tuple[str, ...] = ()
    executor: str = ""
    attempts: int = 1
    seconds: float = 0.0
    criteria: tuple[str, ...] = ()
    grant: Grant | None = None
    script: str = ""
    args: Json = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Plan:
    """A proposed graph of slices against a base revision."""

    base: str
    slices: tuple[ProposedSlice, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Validator:
    """The operator's program that judges a candidate. `argv` sees the candidate at /candidate and its `files` at
    /policy. `expects` are the ids that its report has to have; with `report` "exit" the exit code is the report, if
    the program said anything. `process` "out": it doesn't run the candidate's code in its own process."""

    name: str
    role: Role
    argv: tuple[str, ...]
    files: tuple[str, ...] = ()
    digest: str = ""
    process: Literal["in", "out"] = "out"
    report: Literal["json", "exit"] = "json"
    expects: tuple[str, ...] = ()
    mutants: tuple[str, ...] = ()
    timeout: float = 30.0

    def to_json(self) -> dict[str, Json]:
        """Return it as JSON."""
        return {
            "role": self.role,
            "argv": list(self.argv),
            "files": list(self.files),
            "process": self.process,
            "report": self.report,
            "expects": list(self.expects),
            "mutants": list(self.mutants),
            "timeout_ms": round(self.timeout * 1000),
        }


@dataclass(frozen=True, slots=True, kw_only=True)
class Route:
    """A way to have a slice executed: a command, or a workflow script through the broker. `modes` are what it can do;
    `identity` is the key of who executes, as in `key:NAME`; `shown` are more files and folders that it sees."""

    name: str
    argv: tuple[str, ...] = ()
    modes: frozenset[str] = frozenset()
    environment: Mapping[str, str] = field(default_factory=dict)
    identity: str = ""
    shown: tuple[str, ...] = ()

    @property
    def script(self) -> bool:
        """Whether it runs a slice's workflow script."""
        return not self.argv

    def to_json(self) -> dict[str, Json]:
        """Return it as JSON."""
        return {
            "argv": list(self.argv),
            "modes": [*sorted(self.modes)],
            "environment": dict(self.environment),
            "identity": self.identity,
            "shown": list(self.shown),
        }


@dataclass(frozen=True, slots=True, kw_only=True)
class Tool:
    """A capability that the policy declares. `modes` are what a route needs to have it; `executable` is a program that
    it stands for, pinned by its bytes."""

    name: str
    version: str
    modes: frozenset[str] = frozenset()
    executable: str = ""
    person: bool = False
    limits: tuple[Mapping[str, Json], ...] = ()

    def to_json(self) -> dict[str, Json]:
        """Return it as JSON."""
        return {
            "version": self.version,
            "modes": [*sorted(self.modes)],
            "executable": self.executable,
            "person": self.person,
            "limits": [dict(limit) for limit in self.limits],
        }


@dataclass(frozen=True, slots=True, kw_only=True)
class Ceiling:
    """The most that any slice gets; `total` is what all slices get together."""

    scope: Scope
    grant: Grant = field(default_factory=Grant)
    total: tuple[Limit, ...] = ()
    attempts: int = 3
    seconds: float = 600.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Confines:
    """Limits of every confined program of this policy. Sizes in bytes."""

    memory: int = 4 * 1024**3
    processes: int = 128
    file_bytes: int = 64 * 1024**2
    workspace_bytes: int = 512 * 1024**2
    workspace_entries: int = 50_000
    output: int = 256 * 1024

    def to_json(self) -> dict[str, Json]:
        """Return them as JSON."""
        return {
            "memory": self.memory,
            "processes": self.processes,
            "file_bytes": self.file_bytes,
            "workspace_bytes": self.workspace_bytes,
            "workspace_entries": self.workspace_entries,
            "output": self.output,
        }


@dataclass(frozen=True, slots=True, kw_only=True)
class Policy:
    """What the operator says: the ceiling, the validators, the routes, the tools, and whose keys have which role."""

    ceiling: Ceiling
    validators: Mapping[str, Validator] = field(default_factory=dict)
    routes: Mapping[str, Route] = field(default_factory=dict)
    tools: Mapping[str, Tool] = field(default_factory=dict)
    keys: Mapping[str, str] = field(default_factory=dict)
    roles: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    reference: str = ""
    default_route: str = ""
    confines: Confines = field(default_factory=Confines)

    def holders(self, role: str) -> dict[str, str]:
        """Return the public keys of those who have a role, by name."""
        names = [name.removeprefix("key:") for name in self.roles.get(role, ())]
        return {name: self.keys[name] for name in names if name in self.keys}


def as_json(value: Any) -> Json:
    """Return a frozen value's JSON, lists for tuples."""
    if isinstance(value, Mapping):
        return {str(key): as_json(item) for key, item in value.items()}
    if isinstance(value, tuple | list):
        return [as_json(item) for item in value]
    found: Json = value
    return found
