"""The grant: what a person or a policy allows a run, per capability and in total (DESIGN section 7).

A limit has one shape wherever it stands, `{meter, max, per, scope}`:

- `calls` (dispatches), `cost_usd`, `tokens`, `bytes_out` (payloads), `bytes_in` (results), `seconds` (time that
  providers worked; for the whole run: time that the run was driven), `in_flight` (calls at the same time), `agents`
  (calls of capabilities that run a tool loop of their own), `journal_bytes` (payloads and results), `journal_records`
  (entries that calls leave), and `distinct:POINTER` (different values at a JSON pointer in the payloads);
- per call also `tokens_in` (what a payload may have, counted before it is sent); of the run also `script_seconds` (time
  that the script computed in its sandbox) and `log_bytes` (text that it logged);
- with `by`, a JSON pointer, `calls`, `cost_usd` and `bytes_out` are counted for each value there: each destination;
- `per` is `run` (the default), `call`, a sliding window (`minute`, `hour`, `day`, seconds, or an ISO 8601 duration as
  in `P1D`), or `lifetime`: all runs of the principal;
- `scope` is `capability` beneath a capability, `run` beside them, or `principal`: all runs that name the same one.

A call over an `in_flight` or window limit waits; over any other it isn't sent and the run pauses. Free text (`about`)
is no part of the authority: `digest` leaves it out.
"""

from __future__ import annotations

import datetime
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace
from typing import Any, Final, Literal, TypeAlias, cast

from addendum.authority import approval
from addendum.authority.approval import Approval
from addendum.authority.money import nano, usd
from addendum.authority.pointer import tokens
from addendum.canon import MAX_INT, Digest, Json, digest
from addendum.errors import ConfigError

Meter: TypeAlias = str
METERED: Final = (
    "calls",
    "cost_usd",
    "tokens",
    "bytes_out",
    "bytes_in",
    "seconds",
    "in_flight",
    "agents",
    "journal_bytes",
    "journal_records",
)
"""The meters that each call takes from, in the order in which its amounts stand in one tuple."""
METERS: Final = (*METERED, "tokens_in", "script_seconds", "log_bytes")
"""Every meter that is a plain word; `distinct:POINTER` is one for each pointer, and `cost` is read as `cost_usd`."""
DISTINCT: Final = "distinct:"
OF_RUN: Final = ("script_seconds", "log_bytes")
"""What the script itself takes, whatever it calls: limits of the run."""
BY: Final = ("calls", "cost_usd", "bytes_out")
"""What can be counted for each value at a JSON pointer of the payloads, a destination say."""
WINDOWS: Final = {"minute": 60.0, "hour": 3600.0, "day": 86400.0}
WINDOWED: Final = ("calls", "cost_usd", "bytes_out", "agents")
"""What is known of a call when it leaves, so that a sliding window can be exact."""
INFLUENCE: Final = ("L0", "L1", "L2")
"""How far results of a model may steer a script; see `addendum.script.influence`."""
Per: TypeAlias = Literal["run", "call", "lifetime"] | float
Scope: TypeAlias = Literal["capability", "run", "principal"]
_DURATION: Final = re.compile(r"P(?:(\d+)D)?(?:T(?:(\d+)H)?(?:(\d+)M)?(?:(\d+)S)?)?")
_PRINCIPAL: Final = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,99}")


ENDS: Final = {
    "expires": "the grant ends at {1}",
    "revoked": "the grant was revoked",
    "principal_revoked": "the authority of {0} was revoked",
    "parent_expires": "the grant of {0}, which this one came out of, ends at {1}",
    "parent_revoked": "the grant of {0}, which this one came out of, was revoked",
    "returned": "{0} took back what was left of this grant",
    "frozen": "{0} is frozen: it reported more than its declared maximum",
}
"""What bars every call whatever it asks for, as limits of their own; `capability` names a run or principal for some."""
WAYS_OUT: Final = {
    **dict.fromkeys(ENDS, "Give the run another grant with `addendum grant RUN FILE`"),
    **dict.fromkeys(("parent_expires", "parent_revoked"), "Give {0} another grant with `addendum grant {0} FILE`"),
    "principal_revoked": "Give it back with `addendum revoke {0} --principal --restore`",
}
"""What helps against each of these."""


@dataclass(frozen=True, slots=True)
class Limit:
    """At most `most` of a meter. Money in nano-dollars, times in seconds; `per` is "run", "call", "lifetime" or a
    window in seconds. `capability` is None for a limit of all of them. `principal`: over all runs of the
    grant's principal. `by`: for each value at this JSON pointer of the payloads."""

    meter: Meter
    most: int | float
    per: Per = "run"
    capability: str | None = None
    principal: bool = False
    by: str = ""

    def __str__(self) -> str:
        """Name the limit as in a grant: `image.generate: calls <= 6 per run`."""
        if self.meter in ENDS:
            return ENDS[self.meter].format(self.capability, moment(self.most))
        per = f" per {self.per:.15g} s" if isinstance(self.per, float) else f" per {self.per}"
        scope = self.capability or ("all runs of the principal" if self.principal else "the whole run")
        if self.principal and self.capability is not None:
            scope += " in all runs of the principal"
        each = f" for each {self.by}" if self.by else ""
        return f"{scope}: {self.meter} <= {self.amount(self.most)}{'' if self.meter == 'in_flight' else per}{each}"

    @property
    def name(self) -> str:
        """Name what it is a limit of, without the amount."""
        return f"{self.capability}: {self.meter}" if self.capability is not None else self.meter

    @property
    def key(self) -> tuple[object, ...]:
        """What it is a limit of: two with the same key say the same of another amount."""
        return (self.meter, self.per, self.capability, self.principal, self.by)

    @property
    def scope(self) -> Scope:
        """What the limit is counted over."""
        return "principal" if self.principal else "run" if self.capability is None else "capability"

    def amount(self, value: int | float) -> str:
        """Write an amount of this meter."""
        return f"${usd(int(value))}" if self.meter == "cost_usd" else f"{value:.15g}"

    def plain(self, value: int | float | None) -> str | int | float | None:
        """Return an amount of this meter as JSON: money in US dollars as text."""
        return usd(int(value)) if value is not None and self.meter == "cost_usd" else value

    def to_json(self) -> dict[str, Any]:
        """Return the limit as it is written in a file."""
        found = {"meter": self.meter, "max": self.plain(self.most), "per": self.per}
        if self.principal:
            found["scope"] = "principal"
        return {**found, "by": self.by} if self.by else found


def of_whole(limit: Limit) -> bool:
    """Whether a limit is of the run as a whole, and not of its calls."""
    return limit.capability is None and limit.meter in (*OF_RUN, "seconds")


@dataclass(frozen=True, slots=True)
class Grant:
    """Capabilities with their limits, and limits of the whole run. `worst_case` says whether a script whose worst case
    is above a limit is refused before it starts, or stopped by the limit at run time.

    `where` narrows payloads by JSON Schemas, by capability. `expires` is in seconds since 1970, None for never.
    `forbid_together` are combinations of facts or capabilities that may not be granted together. `additive` says
    whether a channel without a meter and without a claim of its own is admitted. `influence` is the highest level of
    model influence that is admitted. `principal` is whose accounts the run counts in, "" for none."""

    capabilities: Mapping[str, tuple[Limit, ...]] = field(default_factory=dict)
    limits: tuple[Limit, ...] = ()
    worst_case: Literal["refuse", "at_run_time"] = "refuse"
    where: Mapping[str, Mapping[str, Json]] = field(default_factory=dict)
    expires: float | None = None
    approvals: tuple[Approval, ...] = ()
    forbid_together: tuple[tuple[str, ...], ...] = ()
    additive: Literal["allow", "refuse"] = "allow"
    influence: Literal["L0", "L1", "L2"] = "L2"
    principal: str = ""
    about: str = ""

    def over(self, capability: str) -> tuple[Limit, ...]:
        """Return every limit that a call of a capability counts against."""
        return (*self.capabilities.get(capability, ()), *self.limits)

    @property
    def every(self) -> Iterator[Limit]:
        """Every limit of it, those of capabilities first."""
        for own in self.capabilities.values():
            yield from own
        yield from self.limits

    def per_call(self, meter: str, capability: str) -> int | float | None:
        """Return the most that one call of a capability may take of a meter by this grant, None if it doesn't say."""
        found = [limit.most for limit in self.over(capability) if limit.meter == meter and limit.per == "call"]
        return min(found) if found else None

    @property
    def digest(self) -> Digest:
        """The SHA-256 of the authority that is granted, whatever is written beside it."""
        return digest(replace(self, about="").to_json())

    def to_json(self) -> dict[str, Any]:
        """Return the grant as it is written in a file; `from_json` reads it back."""
        found: dict[str, Any] = {
            "capabilities": {
                name: {
                    "limits": [limit.to_json() for limit in limits],
                    **({"where": dict(self.where[name])} if name in self.where else {}),
                }
                for name, limits in self.capabilities.items()
            },
            "limits": [limit.to_json() for limit in self.limits],
            "worst_case": self.worst_case,
        }
        if self.expires is not None:
            found["expires"] = moment(self.expires)
        if self.approvals:
            found["approval"] = [rule.to_json() for rule in self.approvals]
        if self.forbid_together:
            found["forbid_together"] = [list(each) for each in self.forbid_together]
        for name, usual in _WORDS.items():
            if getattr(self, name) != usual[0]:
                found[name] = getattr(self, name)
        if self.principal:
            found["principal"] = self.principal
        if self.about:
            found["about"] = self.about
        return found


_WORDS: Final = {"additive": ("allow", "refuse"), "influence": ("L2", "L1", "L0")}
"""Settings of a grant that are one word of several, the usual one first."""


def moment(seconds: float) -> str:
    """Write a time as ISO 8601 text, UTC."""
    return datetime.datetime.fromtimestamp(seconds, datetime.UTC).isoformat()


def everything(capabilities: Mapping[str, object]) -> Grant:
    """Return a grant of every capability of a catalog, without limits."""
    return Grant(dict.fromkeys(capabilities, ()))


def widened(grant: Grant, capabilities: Mapping[str, object]) -> Grant:
    """Return a grant with every capability of a catalog: for one that names none, and only says limits."""
    return replace(grant, capabilities={**everything(capabilities).capabilities, **grant.capabilities})


def from_json(value: object) -> Grant:
    """Read a grant from TOML or JSON data. Raises `ConfigError` that names the place of what is wrong."""
    data = _table(value, "the grant", _KEYS)
    capabilities: dict[str, tuple[Limit, ...]] = {}
    where: dict[str, Mapping[str, Json]] = {}
    for name, entry in _table(data.get("capabilities", {}), "capabilities", None).items():
        spec = _table(entry if entry is not None else {}, f"capabilities.{name}", {"limits", "where"})
        capabilities[name] = _limits(spec.get("limits", []), f"capabilities.{name}.limits", name)
        if "where" in spec:
            where[name] = narrowing(spec["where"], f"capabilities.{name}.where")
    found = Grant(
        capabilities,
        _limits(data.get("limits", []), "limits", None),
        cast("Any", _word(data, "worst_case", ("refuse", "at_run_time"))),
        where=where,
        expires=instant(data.get("expires"), "In a grant, expires"),
        approvals=approval.from_json(data.get("approval", [])),
        forbid_together=_combinations(data.get("forbid_together", [])),
        additive=cast("Any", _word(data, "additive", _WORDS["additive"])),
        influence=cast("Any", _word(data, "influence", _WORDS["influence"])),
        principal=_principal(data.get("principal", "")),
        about=_text(data.get("about", "")),
    )
    for limit in found.every:
        if limit.principal and not found.principal:
            raise ConfigError(f"The grant has the limit {limit} and no principal.", hint='Write principal = "NAME".')
    return found


_KEYS: Final = frozenset(
    {
        "capabilities",
        "limits",
        "worst_case",
        "expires",
        "approval",
        "forbid_together",
        "additive",
        "influence",
        "principal",
        "about",
    }
)


def _table(value: object, where: str, allowed: frozenset[str] | set[str] | None) -> Mapping[str, Any]:
    if not isinstance(value, Mapping):
        raise ConfigError(f"In a grant, {where} has to be a table, not {value!r}.", hint="See `addendum grant --help`.")
    if allowed is not None and (unknown := sorted(set(value) - allowed)):
        raise ConfigError(f"In a grant, {where} has no {unknown[0]!r}.", hint=f"It has {', '.join(sorted(allowed))}.")
    return value


def _word(data: Mapping[str, Any], name: str, choices: tuple[str, ...]) -> str:
    found = data.get(name, choices[0])
    if found not in choices:
        raise ConfigError(f"In a grant, {name} is {found!r}.", hint=f"Write {' or '.join(choices)}.")
    return cast("str", found)


def _text(value: object) -> str:
    if not isinstance(value, str):
        raise ConfigError(f"In a grant, about is {value!r}.", hint="Write text; it is for people only.")
    return value


def _principal(value: object) -> str:
    if not isinstance(value, str) or (value and not _PRINCIPAL.fullmatch(value)):
        raise ConfigError(f"In a grant, the principal is {value!r}.", hint='Write a name, as in "team-media".')
    return value


def instant(value: object, what: str) -> float | None:
    """Read a time with its zone, None for none. Raises `ConfigError` that says `what` is wrong."""
    if value is None:
        return None
    try:
        at = value if isinstance(value, datetime.datetime) else datetime.datetime.fromisoformat(cast("str", value))
        if at.tzinfo is None:
            raise ValueError("no time zone")
        return at.astimezone(datetime.UTC).timestamp()  # the last day of all has no such time in every zone
    except (TypeError, ValueError, OverflowError):
        raise ConfigError(
            f"{what} is {value!r}.", hint="Write a time with its zone, as in 2027-01-01T00:00:00Z."
        ) from None


def _combinations(value: object) -> tuple[tuple[str, ...], ...]:
    good = isinstance(value, list) and all(
        isinstance(each, list) and each and all(isinstance(name, str) for name in each) for each in value
    )
    if not good:
        raise ConfigError(
            f"In a grant, forbid_together is {value!r}.",
            hint='Write [["private_read", "untrusted_content", "open_world_write"]].',
        )
    return tuple(tuple(each) for each in cast("list[list[str]]", value))


def narrowing(value: object, place: str) -> Mapping[str, Json]:
    """Read a narrowing of payloads: a JSON Schema, or schemas by JSON pointer, each of which has to be there."""
    table = _table(value, place, None)
    if not table or not all(key.startswith("/") for key in table):
        return cast("Mapping[str, Json]", table)
    schemas: list[Json] = []
    for pointer, below in table.items():
        schema: Json = cast("Json", below)
        for token in reversed(tokens(pointer)):
            schema = {"type": "object", "properties": {token: schema}, "required": [token]}
        schemas.append(schema)
    return {"allOf": schemas}


def _limits(value: object, where: str, capability: str | None) -> tuple[Limit, ...]:
    if not isinstance(value, list):
        raise ConfigError(f"In a grant, {where} has to be a list.", hint='Write [{meter = "calls", max = 10}].')
    return tuple(_limit(item, f"{where}[{index}]", capability) for index, item in enumerate(value))


def _limit(value: object, where: str, capability: str | None) -> Limit:
    data = _table(value, where, {"meter", "max", "per", "scope", "by"})
    meter = "cost_usd" if data.get("meter") == "cost" else data.get("meter")
    distinct = isinstance(meter, str) and meter.startswith(DISTINCT + "/")
    if meter not in METERS and not distinct:
        raise ConfigError(
            f"In a grant, {where} has the meter {meter!r}.",
            hint=f"The meters are {', '.join(METERS)} and distinct:POINTER.",
        )
    if distinct and capability is None:
        raise ConfigError(f"In a grant, {where} counts {meter} over everything.", hint="Put it under its capability.")
    scope = data.get("scope", "run" if capability is None else "capability")
    if scope not in ("principal", "run" if capability is None else "capability"):
        raise ConfigError(
            f"In a grant, {where} has the scope {scope!r}.",
            hint="It is capability beneath a capability and run beside them; either can be principal.",
        )
    per = _per(data.get("per", "lifetime" if scope == "principal" else "run"), where)
    if (per == "lifetime") != (scope == "principal" and not isinstance(per, float) and per != "call"):
        raise ConfigError(
            f"In a grant, {where} is per {per} with the scope {scope}.",
            hint='A lifetime and scope = "principal" belong together; a principal\'s limit can be per time too.',
        )
    if isinstance(per, float) and meter not in WINDOWED:
        raise ConfigError(f"In a grant, {where} limits {meter} per time.", hint=f"Only {', '.join(WINDOWED)} can be.")
    if per == "call" and (distinct or meter in ("in_flight", "agents")):
        raise ConfigError(f"In a grant, {where} limits {meter} per call.", hint="Count it per run.")
    found = Limit(str(meter), _most(str(meter), data.get("max"), where), per, capability, scope == "principal")
    return _special(found, data, where)


def _special(found: Limit, data: Mapping[str, Any], where: str) -> Limit:
    """Return a limit with what only some meters can have."""
    if found.meter == "tokens_in" and found.per != "call":
        raise ConfigError(f"In a grant, {where} limits tokens_in per {found.per}.", hint='Write per = "call".')
    if found.meter in OF_RUN and (found.capability is not None or found.principal or found.per != "run"):
        raise ConfigError(f"In a grant, {where} limits {found.meter}.", hint="Put it beside the capabilities, per run.")
    by = data.get("by", "")
    if not by:
        return found
    whole = found.capability is not None and found.meter in BY and found.per in ("run", "lifetime")
    if not whole or not isinstance(by, str) or not by.startswith("/"):
        raise ConfigError(
            f"In a grant, {where} counts {found.meter} by {by!r}.",
            hint=f"Beneath a capability {', '.join(BY)} can be, per run or lifetime, by a JSON pointer as in /to.",
        )
    return replace(found, by=by)


def _most(meter: str, most: object, where: str) -> int | float:
    if meter == "cost_usd":
        try:
            return nano(most)
        except ConfigError as error:
            raise ConfigError(f"In a grant, {where} has a wrong max: {error.message}", hint=error.hint) from None
    if isinstance(most, bool) or not isinstance(most, int | float) or not 0 <= most <= MAX_INT:
        raise ConfigError(f"In a grant, {where} has the max {most!r}.", hint="Write a number that is not negative.")
    return most


def _per(per: object, where: str) -> Per:
    if isinstance(per, str) and per in WINDOWS:
        return WINDOWS[per]
    if isinstance(per, int | float) and not isinstance(per, bool) and 0 < per <= MAX_INT:
        return float(per)
    if per in ("run", "call", "lifetime"):
        return cast("Per", per)
    parts = _DURATION.fullmatch(per) if isinstance(per, str) else None
    seconds = (
        sum(int(n or 0) * unit for n, unit in zip(parts.groups(), (86400, 3600, 60, 1), strict=True)) if parts else 0
    )
    if not 0 < seconds <= MAX_INT:
        raise ConfigError(
            f"In a grant, {where} has per = {per!r}.",
            hint="Write run, call, lifetime, minute, hour, day, seconds, or a duration as in PT15M.",
        )
    return float(seconds)
