"""What comes back from a family of runs while somebody goes on with one of them: no more is spent than was granted."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

import pytest

from addendum import App, CapabilityError
from addendum.errors import Rejected
from addendum.ports import Beside
from addendum.records.stored import Entry, Stored
from addendum.sandbox.embedded import EmbeddedSandbox
from addendum.store.sqlite import SqliteStore

MOST = 10
SOURCE = """
async def orchestrate(ctx, args):
    if args["ask"]:
        await ctx.run("person.ask", {})
    if args["fails"]:
        await ctx.run("moody.call", {})
    for i in range(CALLS):
        await ctx.run("art.make", {"i": i})
    return CALLS
"""


class Between(SqliteStore):
    """A store where something happens in front of the first append that `when` says so of."""

    when: Callable[[str, Sequence[Entry], Beside | None], bool] | None = None
    then: Callable[[], object] = staticmethod(lambda: None)

    def append(self, run: str, entries: Sequence[Entry], **more: Any) -> list[Stored]:
        """Append entries."""
        if self.when is not None and self.when(run, entries, more.get("beside")):
            self.when = None
            self.then()
        return super().append(run, entries, **more)


class Family:
    """G has ten calls of art.make; P is its child. Two Apps, as if in two processes, drive their runs."""

    def __init__(self, path: Path) -> None:
        self.made: list[int] = []
        self.well = False
        self.sandbox = EmbeddedSandbox(look=lambda: (None, "not looked for"))
        self.store, other = Between(path), SqliteStore(path)
        self.one, self.other = (App(store=store, sandbox=self.sandbox) for store in (self.store, other))
        for app in (self.one, self.other):
            self.register(app)
        self.run("G", 1, MOST)

    def register(self, app: App) -> None:
        """Give an App its capabilities."""

        @app.capability("art.make", effect="paid")
        def make(i: int) -> int:
            self.made.append(i)
            return i

        @app.capability("moody.call", effect="read")
        def moody() -> int:
            if not self.well:
                raise CapabilityError("moody", "not today", retryable=False)
            return 1

        app.capability("person.ask", effect="read", waits=True)

    def run(
        self,
        name: str,
        calls: int,
        most: int,
        parent: str = "",
        *,
        ask: bool = False,
        fails: bool = False,
        app: Any = None,
    ) -> str:
        """Start a run, and return its status."""
        grant = {
            "capabilities": {
                "art.make": {"limits": [{"meter": "calls", "max": most}]},
                "moody.call": {},
                "person.ask": {},
            },
            "worst_case": "at_run_time",
        }
        source, args = SOURCE.replace("CALLS", str(calls)), {"ask": ask, "fails": fails}
        found = (app or self.one).run(source, args, run=name, parent=parent, grant=grant)
        status: str = found.status
        return status

    def resume_well(self, name: str) -> str:
        """Go on with a run by the other App, whose mood is better."""
        self.well = True
        status: str = self.other.resume(name).status
        return status


@pytest.fixture
def family(tmp_path: Path) -> Iterator[Family]:
    """A family, closed afterwards."""
    found = Family(tmp_path / "s.db")
    yield found
    found.one.close()
    found.other.close()
    found.sandbox.close()


def _share_of_p_comes_back(run: str, entries: Sequence[Entry], beside: Beside | None) -> bool:
    return not entries and beside is not None and beside.run == "G"


def spent(family: Family) -> None:
    """Assert that G's other child gets no more than is left, and that all together stay within what G has."""
    left = MOST - len(family.made)
    with pytest.raises(Rejected, match="G"):
        family.run("D", left + 1, left + 1, "G")
    assert family.run("E", left, left, "G") == "completed"
    assert len(family.made) == MOST


def share_comes_back_while(family: Family, ends: str, status: str, goes_on: str) -> None:
    """End a child of P, which is over by then, and let a child go on at the moment when P's share goes back to G."""
    for name in ("P", ends):
        family.one.approve(name, {"ok": True})
    assert family.one.resume("P").status == "completed"
    after: list[str] = []
    family.store.when, family.store.then = _share_of_p_comes_back, lambda: after.append(family.resume_well(goes_on))
    assert family.one.resume(ends).status == status
    assert after == ["completed"]
    spent(family)


def test_a_child_that_goes_on_while_its_end_brings_its_parents_share_back(family: Family) -> None:
    """Its lease is free by then."""
    assert family.run("P", 1, 6, "G", ask=True) == "waiting"
    assert family.run("C", 3, 4, "P", ask=True, fails=True) == "waiting"
    share_comes_back_while(family, ends="C", status="failed", goes_on="C")


def test_a_sibling_that_goes_on_while_a_childs_end_brings_its_parents_share_back(family: Family) -> None:
    """It failed before, so that its own share had gone back."""
    assert family.run("P", 1, 7, "G", ask=True) == "waiting"
    assert family.run("C2", 3, 3, "P", fails=True) == "failed"
    assert family.run("C", 0, 1, "P", ask=True) == "waiting"
    share_comes_back_while(family, ends="C", status="completed", goes_on="C2")


def test_a_child_that_begins_and_ends_in_front_of_its_parents_end(family: Family) -> None:
    """What it spent isn't in what the parent had counted."""

    def ends(run: str, entries: Sequence[Entry], beside: Beside | None) -> bool:
        return run == "P" and any(entry.kind == "end" for entry in entries)

    after: list[str] = []
    family.store.when = ends
    family.store.then = lambda: after.append(family.run("C", 3, 4, "P", app=family.other))
    assert family.run("P", 1, 6, "G") == "completed"
    assert after == ["completed"]
    spent(family)
