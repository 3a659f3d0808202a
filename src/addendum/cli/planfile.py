"""A plan in a file, so that what was looked at is what is applied: the candidate, what is allowed, the plan itself."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

from addendum.canon import Json
from addendum.cli import inputs
from addendum.errors import UsageError
from addendum.kernel.policy import Allowances, Policy
from addendum.plan import Of

FORMAT: Final = "addendum-plan/1"


@dataclass(frozen=True, slots=True, kw_only=True)
class PlanFile:
    """`source` None is the run's own; `has_args` is whether `args` replace the run's. `plan` is `plan.to_json`."""

    run: str
    source: str | None = None
    name: str = ""
    """What the script is called, as a rule its file."""
    has_args: bool = False
    args: Json = None
    policy: Mapping[str, Any] = field(default_factory=dict)
    allowances: Allowances = field(default_factory=Allowances)
    plan: Mapping[str, Any] = field(default_factory=dict)

    @property
    def at(self) -> tuple[int, str]:
        """The journal that the plan was made from."""
        at = self.plan["at"]
        return at["seq"], at["chain"]

    @property
    def of(self) -> Of:
        """What the plan was of."""
        return Of(*(self.plan["at"][name] for name in Of._fields))

    def to_json(self) -> dict[str, Any]:
        """Return the file's content."""
        return {
            "format": FORMAT,
            "run": self.run,
            "source": self.source,
            "name": self.name,
            "args": {"value": self.args} if self.has_args else None,
            "policy": dict(self.policy),
            "allowances": self.allowances.to_json(),
            "plan": dict(self.plan),
        }


def write(path: Path, found: PlanFile) -> None:
    """Write a plan. Raises `UsageError`."""
    try:
        path.write_text(json.dumps(found.to_json(), ensure_ascii=False, indent=2) + "\n", "utf-8")
    except OSError as error:
        raise UsageError(f"{path} can't be written: {error.strerror}.", hint="Name another file with --out.") from None


def read(path: Path) -> PlanFile:
    """Read a plan. Raises `UsageError` for a file that is none."""
    data: Any = inputs.parsed(str(path), inputs.read_text(str(path), "a plan"))
    try:
        if data["format"] != FORMAT:
            raise KeyError("format")
        if not isinstance(data["run"], str) or not isinstance(data["source"], str | None):
            raise TypeError("run, source")
        allowed = data["allowances"]
        supersede = allowed["supersede"]
        Policy().override(data["policy"])
        return PlanFile(
            run=data["run"],
            source=data["source"],
            name=str(data.get("name", "")),
            has_args=data["args"] is not None,
            args=data["args"]["value"] if data["args"] is not None else None,
            policy=data["policy"],
            allowances=Allowances(
                supersede=supersede if isinstance(supersede, bool) else frozenset(supersede),
                retry=allowed["retry"],
                drops=tuple(allowed["drops"]),
                moves=dict(allowed["moves"]),
            ),
            plan={**data["plan"], "at": {name: data["plan"]["at"][name] for name in ("seq", "chain", *Of._fields)}},
        )
    except (KeyError, TypeError, AttributeError, IndexError):
        raise UsageError(f"{path} is no plan.", hint="Write one with `addendum plan RUN SCRIPT --out FILE`.") from None
