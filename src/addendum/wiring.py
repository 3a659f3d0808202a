"""The composition root: the only module that knows all backends."""

from __future__ import annotations

import sys
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import cast

from addendum.authority.catalog import Catalog
from addendum.authority.grant import everything
from addendum.canon import Json
from addendum.clock import SystemClock
from addendum.config import Settings
from addendum.errors import ConfigError
from addendum.ports import Provider, Sandbox, Store
from addendum.providers import demo
from addendum.providers.local import LocalProvider
from addendum.records.history import fold
from addendum.rehearse.runner import Played, Player
from addendum.rehearse.scenario import Scenario
from addendum.runs.context import Context
from addendum.sandbox.embedded import EmbeddedSandbox
from addendum.store.sqlite import SqliteStore

CRASH_CHILD = (sys.executable, "-m", "addendum.cli.crash_child")
SANDBOXES = ("monty", "bwrap")
"""Every backend that a script can be run in, the default first."""


def open_store(where: str) -> Store:
    """Open a store: a path, or `memory:` for one that ends with the process. Raises `ConfigError`."""
    if where == "memory:":
        from addendum.testing.memory_store import MemoryStore

        return MemoryStore()
    if "://" in where:
        raise ConfigError(f"There is no store {where!r}.", hint="Name a path, as in .addendum/store.db.")
    return SqliteStore(Path(where))


def open_sandbox(name: str) -> Sandbox:
    """Open a sandbox by its backend's name. Raises `ConfigError` for an unknown one."""
    if name == "monty":
        return EmbeddedSandbox()
    if name == "bwrap":
        from addendum.sandbox.bwrap import BwrapSandbox

        return BwrapSandbox()
    raise ConfigError(f"There is no sandbox {name!r}.", hint="There are monty and bwrap.")


def verify_sandbox(name: str, folder: Path) -> list[dict[str, str]]:
    """Try the acceptance checks on a backend: check, tried, verdict (passed, failed, not_applicable), detail.

    `folder` is private and empty. Raises `ConfigError` and `SandboxMissing`.
    """
    from addendum.sandbox.acceptance import Subject, verify
    from addendum.sandbox.checks import ALL

    sandbox = open_sandbox(name)
    try:
        found = verify(cast("Subject", sandbox), ALL, folder)
    finally:
        sandbox.close()
    return [{"check": f.check, "tried": f.tried, "verdict": f.verdict, "detail": f.detail} for f in found]


def open_provider(name: str) -> tuple[Provider, Catalog]:
    """Open a provider by name, with its catalog. Raises `ConfigError` for an unknown one."""
    if name == "demo":
        return demo.DemoProvider(), demo.CATALOG
    raise ConfigError(f"There is no provider {name!r}.", hint="There is demo; register your own with addendum.App.")


def open_local(rest: Provider | None = None) -> LocalProvider:
    """Open a provider of registered functions; what none of them takes goes to `rest`."""
    return LocalProvider(rest=rest)


def open_context(
    settings: Settings,
    *,
    provider: Provider | None = None,
    catalog: Catalog | None = None,
    observer: Callable[[Mapping[str, Json]], None] | None = None,
) -> Context:
    """Put the parts together as the settings say."""
    if provider is None or catalog is None:
        provider, catalog = open_provider(settings.provider)
    context = Context(
        store=open_store(settings.store),
        sandbox=open_sandbox(settings.sandbox),
        provider=provider,
        catalog=catalog,
        clock=SystemClock(),
        grant=everything(catalog),
        limits=settings.limits(),
        backoff=settings.backoff,
        operator=settings.operator,
    )
    if observer is not None:
        context.observer = observer
    return context


def recall(context: Context, run: str) -> None:
    """Let the demo provider count on where earlier processes left a run. It is local and has no memory; without this a
    second process would make `mem://image/1` again, and a new image would look like the old one."""
    if isinstance(context.provider, demo.DemoProvider):
        history = fold(context.store.entries(run))
        context.provider.count.update({name: totals.calls for name, totals in history.totals.items()})


def rehearsal_context(folder: Path, provider: demo.DemoProvider) -> Context:
    """Put the production parts together around a scenario's provider."""
    settings = Settings(store=str(folder / "store.db"), backoff=0.0)
    return open_context(settings, provider=provider, catalog=demo.CATALOG)


def rehearse(scenario: Scenario, folder: Path) -> Played:
    """Play a scenario in a folder that is its own."""
    return Player(scenario, folder, rehearsal_context, CRASH_CHILD).play()


def demonstration(
    folder: Path, capability: str, dispatch: int, seconds: float, observer: Callable[[Mapping[str, Json]], None]
) -> Context:
    """Put the production parts together for the demonstration: a provider that fails once and takes its time."""
    settings = Settings(store=str(folder / "store.db"))
    provider = demo.DemoProvider(faults=[demo.Fault(capability, "provider_error", dispatch=dispatch)], seconds=seconds)
    return open_context(settings, provider=provider, catalog=demo.CATALOG, observer=observer)
