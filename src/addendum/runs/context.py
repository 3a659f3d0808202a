"""What every use case works with: the ports, the catalog and the settings, put together by `addendum.wiring`."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace

from addendum.authority.catalog import MAX_PAYLOAD, MAX_RESULT, Catalog
from addendum.authority.grant import Grant
from addendum.broker.dispatch import Dispatcher
from addendum.broker.principal import Ledgers
from addendum.broker.schema import Schemas
from addendum.broker.settle import BACKOFF
from addendum.canon import Json
from addendum.ports import Clock, Limits, Preparing, Provider, Sandbox, Store


def _nobody(event: Mapping[str, Json]) -> None:
    """Watch nothing."""


@dataclass(slots=True, kw_only=True)
class Context:
    """`grant` is the one that a run gets when none is given. `loop` is the event loop that providers run on; None for
    an own one. `limits` are the sandbox's; `backoff` is the pause before a first retry, in seconds. `dispatcher` makes
    what carries calls to the provider and answers back, so that a schedule can be an input."""

    store: Store
    sandbox: Sandbox
    provider: Provider
    catalog: Catalog
    clock: Clock
    grant: Grant
    ceiling: Grant | None = None
    """What no grant of a run may go beyond; None for no ceiling."""
    observer: Callable[[Mapping[str, Json]], None] = _nobody
    loop: asyncio.AbstractEventLoop | None = None
    limits: Limits = field(default_factory=Limits)
    backoff: float = BACKOFF
    max_payload: int = MAX_PAYLOAD
    max_result: int = MAX_RESULT
    operator: str = "operator"
    schemas: Schemas = field(default_factory=Schemas)
    """The capabilities' schemas, compiled once for all runs."""
    ledgers: Ledgers = field(default_factory=Ledgers)
    """Accounts of principals that no run has at the moment, for the next one."""
    dispatcher: Callable[[Provider, asyncio.AbstractEventLoop | None], Dispatcher] = Dispatcher

    @property
    def watched(self) -> bool:
        """Whether anybody watches."""
        return self.observer is not _nobody

    def prepare(self, grant: Grant | None = None, computed: float = 0.0) -> None:
        """Have the sandbox get a session ready while a script is checked, or a journal read: for a run with this grant,
        whose script computed for so many seconds before; for a plan without one."""
        if isinstance(self.sandbox, Preparing):
            self.sandbox.prepare(confined(self.limits, grant, computed) if grant is not None else self.limits)

    def tell(self, event: Mapping[str, Json]) -> None:
        """Tell the observer; an exception in it is dropped."""
        try:
            self.observer(event)
        except Exception:  # noqa: BLE001 - whoever watches can't change the run
            return


def confined(limits: Limits, grant: Grant, computed: float = 0.0) -> Limits:
    """Return the sandbox's limits within those that a grant has for the script itself, which computed for so many
    seconds in earlier attempts."""
    seconds, text = limits.total_seconds, limits.output
    for limit in grant.limits:
        if limit.meter == "script_seconds":
            seconds = min(seconds, max(0.001, limit.most - computed))
        elif limit.meter == "log_bytes":
            text = min(text, int(limit.most))
    return replace(limits, total_seconds=seconds, output=text)
