"""The grant: what a person or a policy allows a run, per capability and in total (DESIGN section 7).

A limit has one shape wherever it stands, `{meter, max, per}`:

- `calls` (dispatches), `cost_usd`, `tokens`, `bytes_out` (payloads), `bytes_in` (results), `seconds` (time that
  providers worked; for the whole run: time that the run was driven), `journal_bytes` (payloads and results), and
  `in_flight` (calls at the same time);
- `per` is `run` (the default), `call`, or a time window: `minute`, `hour`, `day` or a number of seconds.

A call over an `in_flight` or window limit waits; over any other it isn't sent and the run pauses.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Final, Literal, TypeAlias, cast

from addendum.authority.money import nano
from addendum.canon import MAX_INT
from addendum.errors import ConfigError

Meter: TypeAlias = Literal[
    "calls", "cost_usd", "tokens", "bytes_out", "bytes_in", "seconds", "in_flight", "journal_bytes"
]
METERS: Final = ("calls", "cost_usd", "tokens", "bytes_out", "bytes_in", "seconds", "in_flight", "journal_bytes")
WINDOWS: Final = {"minute": 60.0, "hour": 3600.0, "day": 86400.0}
WINDOWED: Final = ("calls", "cost_usd")


@dataclass(frozen=True, slots=True)
class Limit:
    """At most `most` of a meter. Money in nano-dollars, times in seconds; `per` is "run", "call" or a window in
    seconds. `capability` is None for a limit of the whole run."""

    meter: Meter
    most: int | float
    per: Literal["run", "call"] | float = "run"
    capability: str | None = None

    def __str__(self) -> str:
        """Name the limit as in a grant: `image.generate: calls <= 6 per run`."""
        from addendum.authority.money import usd

        amount = f"${usd(int(self.most))}" if self.meter == "cost_usd" else f"{self.most:g}"
        per = f" per {self.per:g} s" if isinstance(self.per, float) else f" per {self.per}"
        scope = self.capability or "the whole run"
        return f"{scope}: {self.meter} <= {amount}{'' if self.meter == 'in_flight' else per}"


@dataclass(frozen=True, slots=True)
class Grant:
    """Capabilities with their limits, and limits of the whole run. `worst_case` says whether a script whose worst case
    is above a limit is refused before it starts, or stopped by the limit at run time."""

    capabilities: Mapping[str, tuple[Limit, ...]] = field(default_factory=dict)
    limits: tuple[Limit, ...] = ()
    worst_case: Literal["refuse", "at_run_time"] = "refuse"

    def over(self, capability: str) -> tuple[Limit, ...]:
        """Return every limit that a call of a capability counts against."""
        return (*self.capabilities.get(capability, ()), *self.limits)

    def to_json(self) -> dict[str, Any]:
        """Return the grant as it is written in a file; `from_json` reads it back."""
        return {
            "capabilities": {
                name: {"limits": [_write(limit) for limit in limits]} for name, limits in self.capabilities.items()
            },
            "limits": [_write(limit) for limit in self.limits],
            "worst_case": self.worst_case,
        }


def _write(limit: Limit) -> dict[str, Any]:
    from addendum.authority.money import usd

    most: Any = usd(int(limit.most)) if limit.meter == "cost_usd" else limit.most
    return {"meter": limit.meter, "max": most, "per": limit.per}


def everything(capabilities: Mapping[str, object]) -> Grant:
    """Return a grant of every capability of a catalog, without limits."""
    return Grant(dict.fromkeys(capabilities, ()))


def from_json(value: object) -> Grant:
    """Read a grant from TOML or JSON data. Raises `ConfigError` that names the place of what is wrong."""
    data = _table(value, "the grant", {"capabilities", "limits", "worst_case"})
    capabilities: dict[str, tuple[Limit, ...]] = {}
    for name, entry in _table(data.get("capabilities", {}), "capabilities", None).items():
        spec = _table(entry if entry is not None else {}, f"capabilities.{name}", {"limits"})
        capabilities[name] = _limits(spec.get("limits", []), f"capabilities.{name}.limits", name)
    worst_case = data.get("worst_case", "refuse")
    if worst_case not in ("refuse", "at_run_time"):
        raise ConfigError(f"worst_case is {worst_case!r}.", hint="Write refuse or at_run_time.")
    return Grant(
        capabilities,
        _limits(data.get("limits", []), "limits", None),
        cast("Literal['refuse', 'at_run_time']", worst_case),
    )


def _table(value: object, where: str, allowed: set[str] | None) -> Mapping[str, Any]:
    if not isinstance(value, Mapping):
        raise ConfigError(f"In a grant, {where} has to be a table, not {value!r}.", hint="See `addendum grant --help`.")
    if allowed is not None and (unknown := sorted(set(value) - allowed)):
        raise ConfigError(f"In a grant, {where} has no {unknown[0]!r}.", hint=f"It has {', '.join(sorted(allowed))}.")
    return value


def _limits(value: object, where: str, capability: str | None) -> tuple[Limit, ...]:
    if not isinstance(value, list):
        raise ConfigError(f"In a grant, {where} has to be a list.", hint='Write [{meter = "calls", max = 10}].')
    return tuple(_limit(item, f"{where}[{index}]", capability) for index, item in enumerate(value))


def _limit(value: object, where: str, capability: str | None) -> Limit:
    data = _table(value, where, {"meter", "max", "per"})
    meter = data.get("meter")
    if meter not in METERS:
        raise ConfigError(f"In a grant, {where} has the meter {meter!r}.", hint=f"The meters are {', '.join(METERS)}.")
    most = data.get("max")
    if meter == "cost_usd":
        try:
            amount: int | float = nano(most)
        except ConfigError as error:
            raise ConfigError(f"In a grant, {where} has a wrong max: {error.message}", hint=error.hint) from None
    elif isinstance(most, bool) or not isinstance(most, int | float) or not 0 <= most <= MAX_INT:
        raise ConfigError(f"In a grant, {where} has the max {most!r}.", hint="Write a number that is not negative.")
    else:
        amount = most
    per = data.get("per", "run")
    if isinstance(per, str) and per in WINDOWS:
        per = WINDOWS[per]
    elif isinstance(per, int | float) and not isinstance(per, bool) and 0 < per <= MAX_INT:
        per = float(per)
    elif per not in ("run", "call"):
        raise ConfigError(
            f"In a grant, {where} has per = {per!r}.", hint="Write run, call, minute, hour, day or seconds."
        )
    if isinstance(per, float) and meter not in WINDOWED:
        raise ConfigError(
            f"In a grant, {where} limits {meter} per time.", hint=f"Only {' and '.join(WINDOWED)} can be."
        )
    return Limit(cast("Meter", meter), amount, per, capability)
