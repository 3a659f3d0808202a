"""Approval rules of a grant: which calls a person is asked about first (DESIGN section 7).

| when | asks before |
| --- | --- |
| `always` | every call |
| `above_cost` | a call that may cost more than `usd` |
| `nth` | every call from the `n`-th of its capability on |
| `irreversible` | a call whose effect can't be undone |

With a `capability` a rule is about that one, without about all. An approval is for one payload, by its digest, and for
one call: a changed payload asks again. There is no rule that approves in advance.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any, Final, Literal, cast

from addendum.authority.catalog import Capability
from addendum.authority.money import nano, usd
from addendum.errors import ConfigError

WHEN: Final = ("always", "above_cost", "nth", "irreversible")

APPROVE: Final = Capability(
    name="human.approve",
    effect="read",
    waits=True,
    about="Ask a person.",
    input={
        "type": "object",
        "properties": {"question": {"type": "string"}, "context": {"type": "object"}},
        "required": ["question"],
        "additionalProperties": False,
    },
)
"""What is always there: a person's answer, given by `addendum approve`."""


@dataclass(frozen=True, slots=True)
class Approval:
    """One rule. `cost` in nano-dollars, for `above_cost`; `n` counts from 1, for `nth`."""

    when: Literal["always", "above_cost", "nth", "irreversible"]
    capability: str | None = None
    cost: int = 0
    n: int = 0

    def __str__(self) -> str:
        """Name the rule in words."""
        name = self.capability or "every capability"
        match self.when:
            case "always":
                return f"{name}: always"
            case "above_cost":
                return f"{name}: above ${usd(self.cost)}"
            case "nth":
                return f"{name}: from call {self.n} on"
            case "irreversible":
                return f"{name}: irreversible effects"

    def applies(self, capability: Capability, before: int) -> bool:
        """Whether a call has to be asked about. `before`: how many calls of its capability were made already."""
        if self.capability not in (None, capability.name) or capability.waits:
            return False
        match self.when:
            case "always":
                return True
            case "above_cost":
                return capability.reserve > self.cost
            case "nth":
                return before + 1 >= self.n
            case "irreversible":
                return capability.effect == "irreversible"

    def to_json(self) -> dict[str, Any]:
        """Return the rule as it is written in a file."""
        found: dict[str, Any] = {"when": self.when}
        if self.capability is not None:
            found["capability"] = self.capability
        if self.when == "above_cost":
            found["usd"] = usd(self.cost)
        if self.when == "nth":
            found["n"] = self.n
        return found


def needed(rules: Iterable[Approval], capability: Capability, before: int) -> Approval | None:
    """Return the first rule by which a call has to be asked about."""
    return next((rule for rule in rules if rule.applies(capability, before)), None)


def from_json(value: object) -> tuple[Approval, ...]:
    """Read the approval rules of a grant. Raises `ConfigError`."""
    if not isinstance(value, list):
        raise ConfigError("In a grant, approval has to be a list.", hint='Write [[approval]] with when = "always".')
    return tuple(_rule(item, f"approval[{index}]") for index, item in enumerate(value))


def _rule(value: object, where: str) -> Approval:
    data: Mapping[str, Any] = value if isinstance(value, Mapping) else {}
    when = data.get("when")
    if when not in WHEN:
        raise ConfigError(f"In a grant, {where} has when = {when!r}.", hint=f"Write one of {', '.join(WHEN)}.")
    own = {"above_cost": {"usd"}, "nth": {"n"}}.get(cast("str", when), set())
    if set(data) - {"when", "capability"} != own:
        raise ConfigError(
            f"In a grant, {where} has the keys {', '.join(data)}.",
            hint="A rule has when and capability; above_cost has usd, nth has n.",
        )
    capability, n = data.get("capability"), data.get("n", 0)
    if capability is not None and not isinstance(capability, str):
        raise ConfigError(f"In a grant, {where} has the capability {capability!r}.", hint="Write its name.")
    if when == "nth" and (isinstance(n, bool) or not isinstance(n, int) or n < 1):
        raise ConfigError(f"In a grant, {where} has n = {n!r}.", hint="Write a number from 1 on.")
    return Approval(cast("Any", when), capability, nano(data["usd"]) if "usd" in data else 0, n)
