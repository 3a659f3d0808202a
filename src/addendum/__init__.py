"""Addendum: run workflow scripts that a model wrote, and revise them without paying twice (DESIGN).

The public names; everything else is inside and may change. They are imported when they are first used.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from addendum.app import App as App
    from addendum.app import Planned as Planned
    from addendum.app import reply as reply
    from addendum.authority.catalog import Capability as Capability
    from addendum.authority.catalog import Catalog as Catalog
    from addendum.authority.grant import Grant as Grant
    from addendum.authority.grant import Limit as Limit
    from addendum.errors import AddendumError as AddendumError
    from addendum.errors import CapabilityError as CapabilityError
    from addendum.errors import ConfigError as ConfigError
    from addendum.errors import NotFound as NotFound
    from addendum.errors import NotJson as NotJson
    from addendum.errors import Rejected as Rejected
    from addendum.errors import RunBusy as RunBusy
    from addendum.errors import UnknownOutcome as UnknownOutcome
    from addendum.errors import UsageError as UsageError
    from addendum.ports import Provider as Provider
    from addendum.ports import Reply as Reply
    from addendum.ports import Request as Request
    from addendum.ports import Usage as Usage
    from addendum.runs.events import Event as Event
    from addendum.runs.result import StepResult as StepResult

_WHERE = {
    "App": "app",
    "Planned": "app",
    "reply": "app",
    "Request": "ports",
    "Reply": "ports",
    "Usage": "ports",
    "Provider": "ports",
    "Capability": "authority.catalog",
    "Catalog": "authority.catalog",
    "Grant": "authority.grant",
    "Limit": "authority.grant",
    "Event": "runs.events",
    "StepResult": "runs.result",
    "AddendumError": "errors",
    "CapabilityError": "errors",
    "ConfigError": "errors",
    "NotFound": "errors",
    "NotJson": "errors",
    "Rejected": "errors",
    "RunBusy": "errors",
    "UnknownOutcome": "errors",
    "UsageError": "errors",
}
"""Public names, and the module that each one lives in."""

__all__ = [
    "App",
    "Planned",
    "reply",
    "Request",
    "Reply",
    "Usage",
    "Provider",
    "Capability",
    "Catalog",
    "Grant",
    "Limit",
    "Event",
    "StepResult",
    "AddendumError",
    "CapabilityError",
    "ConfigError",
    "NotFound",
    "NotJson",
    "Rejected",
    "RunBusy",
    "UnknownOutcome",
    "UsageError",
]


def __getattr__(name: str) -> object:
    """Import a public name when it is first used."""
    if name not in _WHERE:
        raise AttributeError(f"module 'addendum' has no attribute {name!r}")
    from importlib import import_module

    value = getattr(import_module(f"addendum.{_WHERE[name]}"), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    """Return the public names."""
    return sorted(__all__)
