"""Two programs with one principal on one store: what one of them does while the other reserves."""

from __future__ import annotations

from collections.abc import Callable, Iterator
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


def program(store: SqliteStore, sandbox: Sandbox, first: Callable[[], object]) -> tuple[App, list[int]]:
    """Return an App of its own, and what its `a.pay` was called with; `b.first` does `first`."""
    app, paid = App(store=store, sandbox=sandbox), list[int]()

    @app.capability("a.pay", effect="paid", price_usd="0.01")
    def pay(i: int) -> int:
        paid.append(i)
        return i

    @app.capability("b.first", effect="paid", price_usd="0.01")
    def begin() -> int:
        first()
        return 1

    return app, paid


@pytest.fixture
def sandbox() -> Iterator[Sandbox]:
    with closing(EmbeddedSandbox()) as found:
        yield found


@pytest.fixture
def stores(tmp_path: Path) -> Iterator[tuple[SqliteStore, SqliteStore]]:
    """One file, opened twice, as two programs do."""
    path = tmp_path / "store.db"
    with closing(SqliteStore(path)) as one, closing(SqliteStore(path)) as two:
        yield one, two


@pytest.mark.parametrize("name", LIMITS)
def test_what_another_program_takes_between_two_reservations_counts(
    stores: tuple[SqliteStore, SqliteStore], sandbox: Sandbox, name: str
) -> None:
    """Some holds of a fan-out fit what was known, and the look that the next one needs shows that there is less room:
    then those that were taken before it are taken anew."""
    given = grant(LIMITS[name])
    other, theirs = program(stores[0], sandbox, lambda: None)
    app, paid = program(stores[1], sandbox, lambda: other.run(FAN, {"n": 2, "first": False}, grant=given))
    with other, app:
        result = app.run(FAN, {"n": 6, "first": True}, grant=given)
    assert result.status == "paused"
    assert (len(theirs), len(paid)) == (2, 2), "five with the first call"


def test_a_revocation_between_two_reservations_lets_none_of_them_leave(
    stores: tuple[SqliteStore, SqliteStore], sandbox: Sandbox
) -> None:
    """It came before the attempts were written, though after the first holds were looked at."""
    given = grant({"meter": "calls", "max": 4})
    app, paid = program(stores[0], sandbox, lambda: revoke_principal(app._context(), "p"))
    with app:
        result = app.run(FAN, {"n": 6, "first": True}, grant=given)
    assert result.status == "paused"
    assert paid == []
