"""Whatever opens a session has it made ready first, with the limits that it opens it with."""

from __future__ import annotations

from addendum.authority.grant import everything
from addendum.canon import Json
from addendum.ports import Limits, Script
from addendum.runs.context import Context
from addendum.runs.revise import plan, revise
from addendum.runs.start import resume, start
from addendum.sandbox.embedded import EmbeddedSandbox, EmbeddedSession
from addendum.testing import MemoryStore
from addendum.testing.clock import ManualClock
from addendum.testing.demo import CATALOG, DemoProvider

SOURCE = """
async def orchestrate(ctx, args):
    return (await ctx.run("text.generate", {"prompt": "x"}))["text"]
"""


class Noting(EmbeddedSandbox):
    """A sandbox that notes whether each session that is opened was made ready."""

    def __init__(self) -> None:
        super().__init__(look=lambda: (None, "not looked for"))
        self.ready: list[bool] = []

    def open(self, script: Script, args: Json, *, limits: Limits, nonce: str) -> EmbeddedSession:
        session = super().open(script, args, limits=limits, nonce=nonce)
        self.ready.append(session._ready)
        return session


def test_runs_resumes_plans_and_revisions_find_their_sessions_ready() -> None:
    """A revision opens two: its plan's, and its own."""
    sandbox = Noting()
    context = Context(
        store=MemoryStore(),
        sandbox=sandbox,
        provider=DemoProvider(),
        catalog=CATALOG,
        clock=ManualClock(),
        grant=everything(CATALOG),
    )
    other = SOURCE.replace("return (", "ctx.log('again')\n    return (")
    try:
        assert start(context, SOURCE, {}, run="r").status == "completed"
        assert sandbox.ready == [True]
        assert resume(context, "r").status == "completed"
        assert sandbox.ready == [True] * 2
        assert plan(context, "r", other).plan is not None
        assert sandbox.ready == [True] * 3
        assert revise(context, "r", other).status == "completed"
        assert sandbox.ready == [True] * 5
    finally:
        sandbox.close()
