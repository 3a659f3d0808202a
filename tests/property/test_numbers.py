"""A number is the same wherever it goes: through arguments, payloads, results and the store, now and in a replay."""

from __future__ import annotations

import tempfile
from pathlib import Path
from typing import Any

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st
from tests.sandboxes import need

from addendum import App
from addendum.canon import canonical, plain

NUMBERS = st.floats(allow_nan=False, allow_infinity=False) | st.floats(-1e22, 1e22).map(lambda n: float(round(n)))
VALUES = st.recursive(
    NUMBERS, lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.sampled_from("abc"), inner), max_leaves=8
)
SCRIPT = """
async def orchestrate(ctx, args):
    first = await ctx.run("a.echo", {"x": args["x"]})
    second = await ctx.run("a.echo", {"x": first["x"], "again": [args, first]})
    return [args, first, second]
"""
LARGE = [1.5e18, -9007199254740992.0, 9007199254740994.0, 1e16, 123456789012345680000.0, 9.99999999999999e20, 1e21]
LONG = [{"a": 1e20 + n * 1e5} for n in range(300)]
"""So many that they are a blob."""


def opened(path: Path, backend: str, sent: list[bytes]) -> App:
    """Return an app, as a new process has it; what its capability is given goes to `sent`."""
    app = App(store=path, sandbox=backend)

    @app.capability("a.echo", effect="paid", price_usd="0.01")
    def echo(x: object, again: object = None) -> object:
        """Return what was sent."""
        sent.append(canonical({"x": x, "again": again}))
        return {"x": x, "again": again}

    return app


def check(value: Any, backend: str) -> None:
    """Run a script over a value, and see it replayed, planned, revised and certified in apps of their own."""
    with tempfile.TemporaryDirectory() as folder:
        path, sent = Path(folder, "r.db"), list[bytes]()
        with opened(path, backend, sent) as app:
            first = app.run(SCRIPT, {"x": value}, run="r")
        assert (first.status, first.message, first.dispatched) == ("completed", "", 2)
        arg = {"x": plain(value)}
        one = {**arg, "again": None}
        assert repr(plain(first.result)) == repr(plain([arg, one, {**arg, "again": [arg, one]}]))
        with opened(path, backend, sent) as app:
            again = app.resume("r")
        assert (again.status, again.dispatched, again.replayed) == ("completed", 0, 2)
        assert repr(again.result) == repr(first.result)
        with opened(path, backend, sent) as app:
            planned = app.plan("r", SCRIPT + "\n\n").result
            assert (planned.status, planned.replayed, planned.frontier) == ("planned", 2, 0)
            revised = app.revise("r", SCRIPT.replace("return [args,", "return [1, args,"))
        assert (revised.status, revised.dispatched, revised.replayed) == ("completed", 0, 2)
        assert canonical(revised.result[1:]) == canonical(first.result)
        with opened(path, backend, sent) as app:
            assert app.certificate("r").verdict == "ok"
        assert len(sent) == 2


@pytest.mark.slow
@given(value=VALUES)
@example(value=LARGE)
@example(value=LONG)
def test_numbers_stay_what_they_are_in_a_run_and_its_replays(value: Any) -> None:
    check(value, "monty")


@pytest.mark.slow
@settings(max_examples=5)
@given(value=VALUES)
@example(value=LARGE)
def test_numbers_stay_what_they_are_on_cpython_too(value: Any) -> None:
    need("bwrap")
    check(value, "bwrap")
