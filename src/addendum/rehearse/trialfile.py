"""How a real delegate may be tried, as an operator writes it in TOML (`addendum catalog probe NAME --trial FILE`).

payloads = [{path = "a"}, {path = "b"}]
most_calls = 300                       # the budget, with most_usd
most_usd = "1.00"
wait = 2.0                             # seconds that it may wait once
failing = {path = ""}                  # fails after it was accepted
restart = ["systemctl", "restart", "files"]
alone = true                           # no other granted channel reaches the same resource
observe = {capability = "file.count", payload = {}, at = "/count"}

[[other]]                              # instead of alone: each other channel that does
capability = "file.restore"
payload = {path = "a"}
"""

from __future__ import annotations

import subprocess
import time
import tomllib
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, Final

from addendum.authority.catalog import Capability, Catalog
from addendum.authority.money import nano
from addendum.canon import Json
from addendum.errors import ConfigError, UsageError
from addendum.rehearse.probing import Means

_KEYS: Final = frozenset(
    {"payloads", "most_calls", "most_usd", "wait", "failing", "restart", "alone", "observe", "other"}
)
RESTART: Final = 120.0
"""Seconds that a restart may take."""


@dataclass(frozen=True, slots=True)
class TrialFile:
    """The payloads to try, and the means."""

    payloads: tuple[Json, ...]
    means: Means


def parse(text: str, catalog: Catalog, name: str) -> TrialFile:
    """Read a trial. `name` is what errors call the file. Raises `UsageError` and `ConfigError`."""
    try:
        data = tomllib.loads(text)
    except tomllib.TOMLDecodeError as error:
        raise UsageError(f"The trial {name} can't be read: {error}.", hint="It is a file of TOML.") from None
    unknown = sorted(set(data) - _KEYS)
    if unknown:
        raise ConfigError(f"A trial has no {unknown[0]!r}.", hint=f"It has {', '.join(sorted(_KEYS))}.")
    calls, wait = data.get("most_calls", 500), data.get("wait", 0)
    _check(isinstance(calls, int) and not isinstance(calls, bool) and calls > 0, "most_calls", "a number from 1 on")
    _check(
        isinstance(wait, int | float) and not isinstance(wait, bool) and 0 <= wait < 86_400,
        "wait",
        "seconds, less than a day",
    )
    _check(isinstance(data.get("payloads", []), list), "payloads", "a list")
    _check(isinstance(data.get("alone", False), bool), "alone", "true or false")
    others = data.get("other", [])
    _check(isinstance(others, list), "other", "[[other]] tables")
    means = Means(
        most_calls=calls,
        most_cost=nano(data["most_usd"]) if "most_usd" in data else None,
        wait=float(wait),
        observe=_observer(data["observe"], catalog) if "observe" in data else None,
        failing=data.get("failing"),
        others=tuple(_call(each, catalog, "other") for each in others),
        alone=data.get("alone", False),
        restart=_restart(data["restart"]) if "restart" in data else None,
        sleep=time.sleep,
    )
    return TrialFile(tuple(data.get("payloads", [])), means)


def _check(good: bool, what: str, hint: str) -> None:
    if not good:
        raise ConfigError(f"In a trial, {what} is wrong.", hint=f"Write {hint}.")


def _observer(value: Any, catalog: Catalog) -> tuple[Capability, Json, str]:
    capability, payload = _call(value, catalog, "observe", "at")
    pointer = value.get("at", "")
    _check(isinstance(pointer, str) and (not pointer or pointer.startswith("/")), "observe.at", "a JSON pointer")
    _check(capability.effect == "read", "observe", "a capability that only reads")
    return capability, payload, pointer


def _call(value: Any, catalog: Catalog, what: str, *more: str) -> tuple[Capability, Json]:
    _check(
        isinstance(value, Mapping) and set(value) <= {"capability", "payload", *more}, what, "capability and payload"
    )
    name = value.get("capability")
    if not isinstance(name, str) or name not in catalog:
        raise ConfigError(f"In a trial, {what} names {name!r}.", hint="`addendum catalog show` lists what there is.")
    return catalog[name], value.get("payload", {})


def _restart(value: Any) -> Callable[[], None]:
    _check(
        isinstance(value, list) and bool(value) and all(isinstance(each, str) for each in value), "restart", "a command"
    )

    def restart() -> None:
        try:
            subprocess.run(value, check=True, timeout=RESTART, capture_output=True)
        except (OSError, subprocess.SubprocessError) as error:
            raise UsageError(f"The delegate can't be restarted: {error}.", hint="Mend restart in the trial.") from None

    return restart
