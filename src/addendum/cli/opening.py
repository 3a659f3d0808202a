"""Opening what a command works with: settings, the store, the context, and the run that was named."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

from addendum.errors import NotFound
from addendum.runs.names import resolve

if TYPE_CHECKING:
    from addendum.authority.grant import Grant
    from addendum.cli.output import Output
    from addendum.config import Settings
    from addendum.ports import Store
    from addendum.runs.context import Context

__all__ = ["context", "exists", "resolve", "settings", "share", "store", "ways_out"]


def settings(**overrides: str | None) -> Settings:
    """Read the settings: file, environment, then the command line's options."""
    from addendum import config

    return config.load(overrides=overrides)


@contextmanager
def context(chosen: Settings, observer: Callable[[Mapping[str, Any]], None] | None = None) -> Iterator[Context]:
    """Open the parts that the settings name, and close them in the end. The grant of a new run is the settings'."""
    from addendum import wiring
    from addendum.cli import inputs

    with ExitStack() as closing:
        opened = wiring.open_context(chosen, observer=observer)
        closing.callback(wiring.shut_context, opened)
        watchers = wiring.open_watchers(chosen, lambda: opened.catalog, opened.provider)
        closing.callback(watchers.close)
        opened.observer = watchers.behind(opened.observer)
        if chosen.grant:
            opened.grant = inputs.grant(chosen.grant, opened.catalog)
        if chosen.ceiling:
            opened.ceiling = inputs.grant(chosen.ceiling, opened.catalog)
        yield opened


def ways_out(output: Output, violations: Iterable[Mapping[str, Any]]) -> list[dict[str, Any]]:
    """Return violations whose fixes can be copied; a capability that isn't there may be that of a provider that nobody
    named, where the catalog is the demo's."""
    demo = settings(provider=output.provider).provider == "demo"
    found = []
    for each in violations:
        unknown = demo and each["rule"] == "R08" and each["capability"]
        more = " The catalog is the demo provider's: name another one with --provider." if unknown else ""
        found.append({**each, "fix": output.exactly(each["fix"]) + more})
    return found


def share(context: Context, parent: str | None, *, named: bool) -> tuple[str, Grant | None]:
    """Return the run whose grant a new one's comes out of ("" for none), and what the new one is to get of it: the
    context's grant if one was `named`, else None. Raises `NotFound`, `UsageError`."""
    above = resolve(context.store, parent) if parent is not None else ""
    return above, context.grant if above and named else None


@contextmanager
def store(chosen: Settings, maker: str = "run SCRIPT") -> Iterator[Store]:
    """Open the store for looking at it: one that isn't there yet is not made, `maker` is the command that makes it.
    Raises `NotFound`."""
    from addendum import wiring

    if not exists(chosen):
        raise NotFound(
            f"There is no store {chosen.store} here.",
            hint=f"`addendum {maker}` makes it, or name another one with --store.",
            store=chosen.store,
        )
    opened = wiring.open_store(chosen.store)
    try:
        yield opened
    finally:
        opened.close()


def exists(chosen: Settings) -> bool:
    """Whether the store is there; one that is no file always is."""
    return "://" in chosen.store or chosen.store == "memory:" or Path(chosen.store).exists()
