"""Strange names, arguments, grants and sources: a clear typed error, or they work; nothing is half done."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest
from rig import OPAQUE, Work, context, sound

from addendum.errors import ConfigError, NotFound, NotJson, Rejected, UsageError
from addendum.ports import Sandbox
from addendum.runs.revise import plan, revise
from addendum.runs.start import resume, start
from addendum.store.sqlite import SqliteStore
from addendum.testing.memory_store import MemoryStore

ECHO = """
async def orchestrate(ctx, args):
    made = await ctx.run("art.make", {"args": args})
    return [made, args]
"""


@pytest.fixture
def sqlite(tmp_path: Path) -> Iterator[SqliteStore]:
    with closing(SqliteStore(tmp_path / "store.db")) as found:
        yield found


@pytest.mark.parametrize(
    "name",
    [
        "../../etc/passwd",
        "/",
        "a b",
        "-rf",
        "r'; DROP TABLE runs; --",
        "läufe/ünï💥",
        "x" * 5000,
        ".",
        "\n",
        "%s{0}",
        "\x00",
    ],
    ids=lambda name: ascii(name)[:20],
)
def test_a_run_may_have_any_name_that_is_text(name: str, sqlite: SqliteStore, sandbox: Sandbox, tmp_path: Path) -> None:
    """It is a name in the store and nothing else: no file is made of it, and the run can be resumed by it."""
    made = context(sqlite, Work(), sandbox)
    result = start(made, ECHO, {}, run=name)
    assert (result.status, result.run) == ("completed", name)
    again = resume(made, name)
    assert (again.status, again.dispatched) == ("completed", 0)
    assert sound(sqlite, name)
    assert {path.name.partition("-")[0] for path in tmp_path.iterdir()} == {"store.db"}


def test_a_name_that_is_no_text_is_refused_before_anything(sqlite: SqliteStore, sandbox: Sandbox) -> None:
    """A lone surrogate is no text."""
    work = Work()
    with pytest.raises(UsageError):
        start(context(sqlite, work, sandbox), ECHO, {}, run="\ud800")
    assert (work.requests, sqlite.runs()) == ([], [])


def test_without_a_name_each_run_gets_one_of_its_own(store: MemoryStore, sandbox: Sandbox) -> None:
    """An empty name is none."""
    made = context(store, Work(), sandbox)
    names = {start(made, ECHO, {}, run="").run for _ in range(3)}
    assert len(names) == 3


def test_a_name_that_is_taken_is_refused_and_the_run_stays_as_it_was(store: MemoryStore, sandbox: Sandbox) -> None:
    """Starting twice by mistake sends nothing."""
    work = Work()
    made = context(store, work, sandbox)
    start(made, ECHO, {}, run="r")
    with pytest.raises(UsageError, match="already"):
        start(made, ECHO, {}, run="r")
    assert len(work.requests) == 1


@pytest.mark.parametrize(
    "use", [resume, lambda made, run: plan(made, run, ECHO), lambda made, run: revise(made, run, ECHO)]
)
def test_a_run_that_is_not_there_is_a_typed_error(use: Any, store: MemoryStore, sandbox: Sandbox) -> None:
    """It says what was named."""
    with pytest.raises(NotFound, match="nobody"):
        use(context(store, Work(), sandbox), "nobody")


@pytest.mark.parametrize(
    "args",
    [float("nan"), {1: 2}, b"x", {"a": {1, 2}}, OPAQUE, "\ud800", 2**60, [[[]] * 3, {"x": float("inf")}]],
    ids=lambda args: ascii(args)[:30],
)
def test_arguments_that_are_no_json_are_refused_before_anything(
    args: Any, store: MemoryStore, sandbox: Sandbox
) -> None:
    """The error names the place; no run is left behind, and none is revised."""
    work = Work()
    made = context(store, work, sandbox)
    with pytest.raises(NotJson):
        start(made, ECHO, args, run="r")
    assert (work.requests, store.runs()) == ([], [])
    start(made, ECHO, {}, run="r")
    before = store.head("r")
    with pytest.raises(NotJson):
        revise(made, "r", ECHO, args=args)
    assert store.head("r") == before


@pytest.mark.parametrize("args", [None, True, 0, -0.0, 1.0, "", [], "text", {"": {"": ""}}, [None] * 100], ids=repr)
def test_arguments_are_any_json_value(args: Any, store: MemoryStore, sandbox: Sandbox) -> None:
    """A resume sees the same ones as the first attempt."""
    made = context(store, Work(), sandbox)
    first = start(made, ECHO, args, run="r")
    assert first.status == "completed", first.message
    again = resume(made, "r")
    assert (again.dispatched, again.result) == (0, first.result)


def test_arguments_look_the_same_in_every_attempt(store: MemoryStore, sandbox: Sandbox) -> None:
    """The order of keys and the writing of numbers are those that a resume will see."""
    script = """
async def orchestrate(ctx, args):
    return await ctx.run("art.make", {"seen": f"{args}", "keys": [k for k in args]})
"""
    work = Work()
    made = context(store, work, sandbox)
    first = start(made, script, {"z": 1.0, "a": -0.0, "m": 1e3}, run="r")
    again = resume(made, "r")
    assert (first.status, again.status, again.dispatched) == ("completed", "completed", 0)
    other = revise(made, "r", script + "\n", args={"z": 1.0, "a": -0.0, "m": 1e3})
    assert (other.status, other.dispatched) == ("completed", 0)


def test_large_arguments_are_kept_whole(sqlite: SqliteStore, sandbox: Sandbox) -> None:
    """Half a megabyte goes through the sandbox and the store, and comes back."""
    args = {"text": "é" * 250_000}
    script = ECHO.replace('{"args": args}', '{"size": len(args["text"])}')
    made = context(sqlite, Work(), sandbox)
    assert start(made, script, args, run="r").status == "completed"
    assert resume(made, "r").result == [{"n": 1}, args]


@pytest.mark.slow
def test_arguments_that_are_too_large_for_the_sandbox_are_a_typed_end(store: MemoryStore, sandbox: Sandbox) -> None:
    """Forty megabytes: a limit's name, or they work; never an untyped crash."""
    work = Work()
    result = start(context(store, work, sandbox), ECHO, "x" * 40_000_000, run="r")
    assert (result.status, result.error) == ("failed", "sandbox_limit")
    assert result.message
    assert work.requests == []


@pytest.mark.parametrize(
    "source",
    ["", "\x00", "\ud800", "def", "x = 1", "import os", "async def orchestrate(ctx, args):\n\treturn 1\n  return 2",
     "async def orchestrate(ctx, args):\n    return " + "(" * 300 + ")" * 300, "\ufeff", "a" * 100],
    ids=lambda source: ascii(source)[:20],
)  # fmt: skip
def test_a_source_that_is_no_workflow_is_not_admitted_and_leaves_no_run(
    source: str, store: MemoryStore, sandbox: Sandbox
) -> None:
    """A verdict with its lines, not an exception out of the parser."""
    result = start(context(store, Work(), sandbox), source, {}, run="r")
    assert (result.status, result.exit_code) == ("not_admitted", 3)
    assert result.message
    assert store.runs() == []


def test_a_source_of_a_megabyte_is_a_verdict_too(store: MemoryStore, sandbox: Sandbox) -> None:
    """It is over the limit on size, and is told so at once."""
    source = ECHO + "# " + "x" * 2_000_000
    result = start(context(store, Work(), sandbox), source, {}, run="r")
    assert result.status == "not_admitted"


def test_a_result_that_is_no_json_ends_the_run_as_failed(store: MemoryStore, sandbox: Sandbox) -> None:
    """What was paid for is kept; the script can be mended."""
    script = 'async def orchestrate(ctx, args):\n    await ctx.run("art.make", {})\n    return {1: 2}\n'
    result = start(context(store, Work(), sandbox), script, {}, run="r")
    assert result.status in ("failed", "not_admitted")
    assert result.message


def test_a_policy_that_is_none_is_refused_before_anything(store: MemoryStore, sandbox: Sandbox) -> None:
    """The error says which there are."""
    for policy in ({"ledger": "never"}, {"nothing": "x"}, {"ledger": ["warn"]}):
        with pytest.raises(ConfigError) as caught:
            start(context(store, Work(), sandbox), ECHO, {}, run="r", policy=policy)
        assert caught.value.hint
    assert store.runs() == []


def test_a_plan_that_was_made_before_the_run_changed_is_not_applied(store: MemoryStore, sandbox: Sandbox) -> None:
    """What a person agreed to is what is done, or nothing is."""
    work = Work()
    made = context(store, work, sandbox)
    start(made, ECHO, {}, run="r")
    drawn = plan(made, "r", ECHO + "\n")
    assert drawn.plan is not None
    resume(made, "r")
    before = store.head("r")
    with pytest.raises(Rejected, match="changed"):
        revise(made, "r", ECHO + "\n", at=drawn.plan.at)
    assert store.head("r") == before
