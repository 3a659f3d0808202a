"""A scenario as it is written in YAML: strictly read, so that a typo is an error and no expectation that holds."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

import yaml

from addendum.errors import UsageError
from addendum.testing.demo import CATALOG

ACTIONS: Final = ("run", "resume", "revise", "plan", "reconcile", "approve", "grant")
BESIDE: Final = {
    "run": {"crash", "policy", "args"},
    "resume": {"crash", "policy", "args", "supersede", "retry"},
    "revise": {"crash", "policy", "args", "supersede", "retry", "drop", "moves"},
    "plan": {"policy", "args", "supersede", "retry", "drop", "moves"},
    "reconcile": set(),
    "approve": set(),
    "grant": set(),
}
EXPECT: Final = frozenset(
    {
        "status",
        "stop",
        "error",
        "dispatched",
        "executed",
        "replayed",
        "committed",
        "rebound",
        "superseded",
        "orphans",
        "repeats",
        "gate",
        "counterexamples",
        "frontier",
        "certificate",
        "result",
    }
)
WORDS: Final = {
    "status": ("completed", "failed", "stopped", "paused", "waiting", "not_admitted", "planned", "crashed"),
    "gate": ("accepted", "stopped"),
    "certificate": ("ok", "differences"),
}
"""What an expectation can be at all: a typo would never hold."""
TOP: Final = {"name", "about", "args", "grant", "provider", "policy", "steps"}
FAULT: Final = {"capability", "dispatch", "code", "message", "retryable", "where", "times"}


class NotAScenario(UsageError):
    """The file isn't a scenario: what is wrong, and where."""

    code = "not_a_scenario"


@dataclass(frozen=True, slots=True)
class Crash:
    """Where the host is killed: at the n-th dispatch of a capability, `before_commit` or `in_flight`."""

    capability: str
    dispatch: int
    when: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Step:
    """One step: its action, the action's value, what stands beside it, and what is expected."""

    action: str
    value: Any
    crash: Crash | None = None
    policy: Mapping[str, object] = field(default_factory=dict)
    args: Any = None
    has_args: bool = False
    supersede: Any = False
    retry: str = "open"
    drop: tuple[str, ...] = ()
    moves: Mapping[str, str] = field(default_factory=dict)
    expect: Mapping[str, Any] = field(default_factory=dict)


@dataclass(frozen=True, slots=True, kw_only=True)
class Scenario:
    """A whole episode. `fail` are the provider's faults as they are written."""

    name: str
    about: str = ""
    args: Any = field(default_factory=dict)
    grant: Any = None
    results: Mapping[str, Any] = field(default_factory=dict)
    fail: tuple[Mapping[str, Any], ...] = ()
    order: str = "given"
    policy: Mapping[str, object] = field(default_factory=dict)
    steps: tuple[Step, ...] = ()
    data: Any = None
    """The scenario as it was written, for a process that plays one of its steps."""


class _Loader(yaml.SafeLoader):
    """The safe loader; a key that stands twice is an error, as in JSON."""


def _mapping(loader: _Loader, node: yaml.MappingNode, deep: bool = False) -> dict[Any, Any]:
    found: dict[Any, Any] = {}
    for key_node, value_node in node.value:
        key = loader.construct_object(key_node, deep=True)
        if key in found:
            raise yaml.constructor.ConstructorError(None, None, f"the key {key!r} stands twice", key_node.start_mark)
        found[key] = loader.construct_object(value_node, deep=True)
    return found


_Loader.add_constructor(yaml.resolver.BaseResolver.DEFAULT_MAPPING_TAG, _mapping)


def load(path: Path) -> Scenario:
    """Read a scenario. Raises `NotAScenario` that names the file and the place."""
    try:
        data = yaml.load(path.read_text("utf-8"), Loader=_Loader)
    except OSError as error:
        raise NotAScenario(f"{path} can't be read: {error.strerror}.", hint="Name a YAML file.") from None
    except (yaml.YAMLError, UnicodeDecodeError, RecursionError, ValueError) as error:
        raise NotAScenario(
            f"{path} is no YAML: {' '.join(str(error).split())}.", hint="docs/how-to/rehearse.md has the format."
        ) from None
    return parse(data, str(path))


def parse(data: object, where: str) -> Scenario:
    """Read a scenario from data. Raises `NotAScenario`."""
    top = _table(data, where, TOP)
    if not isinstance(top.get("name"), str):
        raise _wrong(where, "it has no name")
    provider = _table(top.get("provider", {}), f"{where}: provider", {"results", "fail", "order"})
    order = provider.get("order", "given")
    if order not in ("given", "reversed"):
        raise _wrong(where, f"provider.order is {order!r}, not reversed")
    steps = top.get("steps")
    if not isinstance(steps, list) or not steps:
        raise _wrong(where, "it has no steps")
    found = Scenario(
        name=top["name"],
        about=str(top.get("about", "")),
        args=top.get("args", {}),
        grant=top.get("grant"),
        results=_results(provider.get("results", {}), f"{where}: provider.results"),
        fail=tuple(
            _fault(fault, f"{where}: provider.fail[{i}]")
            for i, fault in enumerate(_list(provider.get("fail", []), where))
        ),
        order=order,
        policy=_table(top.get("policy", {}), f"{where}: policy", None),
        steps=tuple(_step(step, f"{where}: step {i}") for i, step in enumerate(steps, 1)),
        data=top,
    )
    if found.steps[0].action != "run":
        raise _wrong(where, "the first step has to be a run")
    return found


def _results(value: object, where: str) -> dict[str, Any]:
    results = _table(value, where, None)
    for name in results:
        _known(name, where)
    return results


def _known(name: str, where: str) -> None:
    """A capability that nobody has is a typo: it would never fail, answer or be killed."""
    if name not in CATALOG:
        raise _wrong(where, f"the demo provider has no capability {name!r}")


def _fault(value: object, where: str) -> Mapping[str, Any]:
    fault = _table(value, where, FAULT)
    if not isinstance(fault.get("capability"), str) or not isinstance(fault.get("code"), str):
        raise _wrong(where, "it needs a capability and a code")
    _known(fault["capability"], where)
    if not isinstance(fault.get("dispatch", 1), int):
        raise _wrong(where, f"dispatch is {fault['dispatch']!r}, not a number")
    if ("dispatch" in fault) == ("where" in fault):
        raise _wrong(where, "it needs either dispatch or where")
    return fault


def _step(value: object, where: str) -> Step:
    data = _table(value, where, None)
    actions = [action for action in ACTIONS if action in data]
    if "grant" in actions and len(actions) > 1:
        raise _wrong(where, "grant is a step of its own")
    if len(actions) != 1:
        had = f", and has {', '.join(map(repr, data)) or 'nothing'}"
        raise _wrong(where, f"it needs exactly one of {', '.join(ACTIONS)}{had}")
    action = actions[0]
    unknown = sorted(set(data) - {action, "expect"} - BESIDE[action])
    if unknown:
        raise _wrong(where, f"{unknown[0]!r} can't stand beside {action}")
    if action in ("run", "revise", "plan") and not isinstance(data[action], str):
        raise _wrong(where, f"{action} needs a source")
    if action == "resume" and data[action] is not True:
        raise _wrong(where, "resume is true")
    if action == "approve" and not isinstance(data[action], bool):
        raise _wrong(where, "approve is true or false")
    if action == "reconcile":
        answer = _table(data[action], where, {"result", "abandon"})
        if len(answer) != 1 or answer.get("abandon", True) is not True:
            raise _wrong(where, "reconcile is {result: VALUE} or {abandon: true}")
    expect = _table(data.get("expect", {}), f"{where}: expect", EXPECT)
    for key, words in WORDS.items():
        if key in expect and expect[key] not in words:
            raise _wrong(where, f"expect.{key} is {expect[key]!r}; it is one of {', '.join(words)}")
    drop = _list(data.get("drop", []), where)
    if data.get("retry", "open") not in ("open", "all", "none"):
        raise _wrong(where, "retry is open, all or none")
    return Step(
        action=action,
        value=data[action],
        crash=_crash(data["crash"], where) if "crash" in data else None,
        policy=_table(data.get("policy", {}), f"{where}: policy", None),
        args=data.get("args"),
        has_args="args" in data,
        supersede=data.get("supersede", False),
        retry=data.get("retry", "open"),
        drop=tuple(str(item) for item in drop),
        moves=_table(data.get("moves", {}), f"{where}: moves", None),
        expect=expect,
    )


def _crash(value: object, where: str) -> Crash:
    data = _table(value, f"{where}: crash", {"capability", "dispatch", "when"})
    when = data.get("when", "before_commit")
    if not isinstance(data.get("capability"), str) or not isinstance(data.get("dispatch"), int):
        raise _wrong(where, "crash needs a capability and a dispatch")
    _known(data["capability"], where)
    if when not in ("before_commit", "in_flight"):
        raise _wrong(where, f"crash.when is {when!r}, not before_commit or in_flight")
    return Crash(data["capability"], data["dispatch"], when)


def _table(value: object, where: str, allowed: frozenset[str] | set[str] | None) -> dict[str, Any]:
    if not isinstance(value, dict) or not all(isinstance(key, str) for key in value):
        raise _wrong(where, "it has to be a table")
    if allowed is not None and (unknown := sorted(set(value) - allowed)):
        raise _wrong(where, f"there is no {unknown[0]!r}; it has {', '.join(sorted(allowed))}")
    return value


def _list(value: object, where: str) -> list[Any]:
    if not isinstance(value, list):
        raise _wrong(where, "a list is needed")
    return value


def _wrong(where: str, what: str) -> NotAScenario:
    return NotAScenario(f"{where}: this is no scenario: {what}.", hint="docs/how-to/rehearse.md has the format.")
