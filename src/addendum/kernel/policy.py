"""The policies of a run: each opt-out is explicit and named (DESIGN sections 4 and 5)."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any, Final, Literal, TypeAlias, cast

from addendum.errors import ConfigError
from addendum.kernel.claims import Relocation
from addendum.kernel.ledger import LedgerPolicy

Orphans: TypeAlias = Literal["warn", "stop"]
Retry: TypeAlias = Literal["open", "all", "none"]

CHOICES: Final[Mapping[str, tuple[str, ...]]] = {
    "relocation": ("strict", "declared", "verified"),
    "ledger": ("off", "warn", "deny", "auto"),
    "orphans": ("warn", "stop"),
}


@dataclass(frozen=True, slots=True)
class Policy:
    """How a run treats moved calls, repeated payments and orphans. Kept in the run, changed only on request."""

    relocation: Relocation = "verified"
    ledger: LedgerPolicy = "auto"
    orphans: Orphans = "warn"

    def to_json(self) -> dict[str, Any]:
        """Return the policies by name."""
        return {"relocation": self.relocation, "ledger": self.ledger, "orphans": self.orphans}

    def override(self, changes: Mapping[str, object]) -> Policy:
        """Return the policy with some of its choices changed. Raises `ConfigError` for an unknown one."""
        for name, choice in changes.items():
            if name not in CHOICES:
                raise ConfigError(f"There is no policy {name!r}.", hint=f"There are {', '.join(CHOICES)}.")
            if choice not in CHOICES[name]:
                raise ConfigError(
                    f"The policy {name} can't be {choice!r}.", hint=f"It is one of {', '.join(CHOICES[name])}."
                )
        return replace(self, **cast("dict[str, Any]", dict(changes)))


@dataclass(frozen=True, slots=True, kw_only=True)
class Allowances:
    """What the operator allows for one attempt, beyond the policies: never implied, never kept.

    `supersede`: True for every committed call that changes (`--supersede changed`), or the identities it is allowed
    for. `drops`: identities or static paths whose records are given up. `moves`: static paths, old to new.
    """

    supersede: bool | frozenset[str] = False
    retry: Retry = "open"
    drops: tuple[str, ...] = ()
    moves: Mapping[str, str] = field(default_factory=dict)

    def __post_init__(self) -> None:
        if self.retry not in ("open", "all", "none"):
            raise ConfigError(f"What is tried again can't be {self.retry!r}.", hint="It is one of open, all, none.")

    def to_json(self) -> dict[str, Any]:
        """Return what is allowed by name."""
        return {
            "supersede": self.supersede if isinstance(self.supersede, bool) else sorted(self.supersede),
            "retry": self.retry,
            "drops": list(self.drops),
            "moves": dict(self.moves),
        }

    def may_supersede(self, identity: str) -> bool:
        """Whether a committed call may be replaced by a new version."""
        return self.supersede if isinstance(self.supersede, bool) else identity in self.supersede
