"""The end of a slice that a bound rests on: the worst case holds on every backend, whatever the end turns out to be."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from addendum.canon import Json
from addendum.ports import Issued, Raised, Returned, Sandbox
from addendum.runs.prepare import script
from addendum.sandbox.embedded import EmbeddedSandbox
from addendum.script.checker import check
from addendum.script.program import compile_program
from addendum.testing.driving import drive
from addendum.testing.process_sandbox import ProcessSandbox

ITEMS: list[Json] = list(range(40))
SOURCES = {
    "a loop": 'for x in args["items"][: min(args["n"], 3)]:\n        await ctx.run("a.b", {"x": x})',
    "a variable": 'n = min(int(args["n"]), 3)\n    for x in args["items"][:n]:\n        await ctx.run("a.b", {"x": x})',
    "a fan-out": 'await ctx.parallel([ctx.run("a.b", {"x": x}) for x in args["items"][:(min(args["n"], 3))]])',
    "a start, too": 'for x in args["items"][0 : min(args["n"], 3)]:\n        await ctx.run("a.b", {"x": x})',
    "a comparison": (
        'n = args["n"]\n    if n > 3:\n        n = 3\n'
        '    for x in args["items"][:n]:\n        await ctx.run("a.b", {"x": x})'
    ),
    "an end in a lambda": (
        'cut = lambda xs, n: xs[: min(n, 3)]\n    for x in cut(args["items"], args["n"]):\n'
        '        await ctx.run("a.b", {"x": x})'
    ),
    "a slice of a slice": (
        'for x in args["items"][: min(args["n"], 3)][: min(args["n"], 5)]:\n        await ctx.run("a.b", {"x": x})'
    ),
}


@pytest.fixture(scope="module", params=["embedded", "process"])
def sandbox(request: pytest.FixtureRequest) -> Iterator[Sandbox]:
    """An interpreter of each kind."""
    opened = EmbeddedSandbox() if request.param == "embedded" else ProcessSandbox()
    yield opened
    opened.close()


@pytest.mark.parametrize("name", SOURCES)
@pytest.mark.parametrize("n", [-39, -1, 0, 2, 3, 99])
def test_no_end_lets_more_calls_through_than_the_worst_case(sandbox: Sandbox, name: str, n: int) -> None:
    """An end that is counted from the back is an error that a person understands; any other means what it says."""
    source = f"async def orchestrate(ctx, args):\n    {SOURCES[name]}\n    return 0\n"
    report = check(source)
    assert report.ok, [str(violation) for violation in report.errors]
    assert dict(report.facts.worst_case) == {"a.b": 3}
    events, end = drive(sandbox, script(compile_program(source)), {"items": ITEMS, "n": n})
    made = sum(isinstance(event, Issued) for event in events)
    if n < 0:
        assert isinstance(end, Raised)
        assert end.type == "ValueError"
        assert "max(0" in end.message
        assert made == 0
    else:
        assert isinstance(end, Returned)
        assert made == min(n, 3)


@pytest.mark.parametrize(
    "end",
    ["max(0, min(args['n'], 3))", "min(len(args['items']), 3)", "min(abs(args['n']), 3)", "3", "-1", "-3", "None", ""],
)
def test_what_is_known_not_to_matter_is_left_alone(end: str) -> None:
    """An end that can't be negative isn't checked, and no end of a list that has a bound without it."""
    source = (
        "async def orchestrate(ctx, args):\n"
        f"    for x in args['items'][:9][:{end}]:\n        await ctx.run('a.b', {{'x': x}})\n"
    )
    assert check(source).ok
    assert "_wf_end" not in compile_program(source).annotated
