"""Two programs with one principal on one store: what one of them does while the other reserves."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

from addendum import App
from addendum.authority.grant import Grant, from_json
from addendum.ports import Sandbox
from addendum.runs.operate import revoke_principal
from addendum.sandbox.embedded import EmbeddedSandbox
from addendum.store.sqlite import SqliteStore

LIMITS = {
    "calls": {"meter": "calls", "max": 5},
    "cost": {"meter": "cost_usd", "max": "0.05"},
}
FAN = """
async def orchestrate(ctx, args):
    if args["first"]:
        await ctx.run("b.first", {})
    return await ctx.parallel([ctx.run("a.pay", {"i": i}) for i in range(min(args["n"], 8))])
"""


def grant(limit: dict[str, Any]) -> Grant:
    """Return a grant of the principal p."""
    return from_json(
        {
            "worst_case": "at_run_time",
            "principal": "p",
            "limits": [{**limit, "scope": "principal"}],
            "capabilities": {"a.pay": {}, "b.first": {}},
        }
    )


def program(path: Path, sandbox: Sandbox, first: Callable[[], object]) -> tuple[App, list[int]]:
    """Return an App of its own, and what its `a.pay` was called with; `b.first` does `first`."""
    app, paid = App(store=SqliteStore(path), sandbox=sandbox), list[int]()

    @app.capability("a.pay", effect="paid", price_usd="0.01")
    def pay(i: int) -> int:
        paid.append(i)
        return i

    @app.capability("b.first", effect="paid", price_usd="0.01")
    def begin() -> int:
        first()
        return 1

    return app, paid


@pytest.mark.parametrize("name", LIMITS)
def test_what_another_program_takes_between_two_reservations_counts(tmp_path: Path, name: str) -> None:
    """Some holds of a fan-out fit what was known, and the look that the next one needs shows that there is less room:
    then those that were taken before it are taken anew."""
    given = grant(LIMITS[name])
    with closing(EmbeddedSandbox()) as sandbox:
        other, theirs = program(tmp_path / "store.db", sandbox, lambda: None)
        app, paid = program(
            tmp_path / "store.db", sandbox, lambda: other.run(FAN, {"n": 2, "first": False}, grant=given)
        )
        result = app.run(FAN, {"n": 6, "first": True}, grant=given)
        assert result.status == "paused"
        assert (len(theirs), len(paid)) == (2, 2), "five with the first call"


def test_a_revocation_between_two_reservations_lets_none_of_them_leave(tmp_path: Path) -> None:
    """It came before the attempts were written, though after the first holds were looked at."""
    given = grant({"meter": "calls", "max": 4})
    with closing(EmbeddedSandbox()) as sandbox:
        app, paid = program(tmp_path / "store.db", sandbox, lambda: revoke_principal(app._context(), "p"))
        result = app.run(FAN, {"n": 6, "first": True}, grant=given)
        assert result.status == "paused"
        assert paid == []
