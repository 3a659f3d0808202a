"""A sandbox that isn't here is an error with a way out, and costs a run nothing."""

from __future__ import annotations

from typing import NoReturn

import pytest

from addendum.authority.grant import everything
from addendum.clock import SystemClock
from addendum.errors import SandboxMissing
from addendum.runs.context import Context
from addendum.runs.start import resume, start
from addendum.sandbox.embedded import EmbeddedSandbox
from addendum.testing import MemoryStore
from addendum.testing.demo import CATALOG, DemoProvider

SOURCE = """
async def orchestrate(ctx, args):
    return (await ctx.run("text.generate", {"prompt": "x"}))["text"]
"""


class Nowhere:
    """A backend of which nothing is installed."""

    name = "docker"

    def open(self, *_: object, **__: object) -> NoReturn:
        raise SandboxMissing("There is no Docker engine.", hint="Start it.")

    def close(self) -> None:
        """Nothing was opened."""


def test_a_missing_sandbox_is_raised_and_the_run_goes_on_in_another() -> None:
    """Nothing was sent, the journal says how it ended, and a backend that is here takes the run over."""
    store, provider = MemoryStore(), DemoProvider()
    context = Context(
        store=store,
        sandbox=Nowhere(),
        provider=provider,
        catalog=CATALOG,
        clock=SystemClock(),
        grant=everything(CATALOG),
    )

    with pytest.raises(SandboxMissing, match="Docker"):
        start(context, SOURCE, {}, run="r")

    assert provider.count == {}
    assert not store.driven("r")
    context.sandbox = EmbeddedSandbox()
    try:
        assert resume(context, "r").status == "completed"
    finally:
        context.sandbox.close()
