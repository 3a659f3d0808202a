"""The select table: what can be pending, after which calls, how often; and more, smaller calls stay valid."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from addendum.authority.catalog import Capability, Catalog
from addendum.authority.grant import from_json
from addendum.runs.admit import admit
from addendum.script.checker import check
from addendum.script.selects import table

SEQUENTIAL = """async def orchestrate(ctx, args):
    a = await ctx.run("text.generate", {"prompt": "x"})
    b = await ctx.run("text.generate", {"prompt": a["text"]})
    return await ctx.run("mail.send", {"body": b["text"]})
"""
MAPPED = """async def orchestrate(ctx, args):
    found = await ctx.parallel([ctx.run("text.rate", {"n": n}) for n in range(6)])
    good = [each for each in found if each["ok"]]
    return await ctx.parallel([ctx.run("image.generate", {"p": p}) for p in good[:3]])
"""
NESTED = """async def scene(ctx, n):
    text = await ctx.run("text.generate", {"prompt": n})
    for shot in range(3):
        if shot == 0:
            await ctx.run("image.generate", {"prompt": shot})
        else:
            await ctx.run("image.edit", {"prompt": shot})
    return text

async def orchestrate(ctx, args):
    for n in range(4):
        await scene(ctx, n)
    return await ctx.run("video.cut", {})
"""
PIPELINE = """async def orchestrate(ctx, args):
    return await ctx.pipeline(["a", "b"], lambda x: ctx.run("s.one", {"x": x}), lambda y: ctx.run("s.two", {"y": y}))
"""
DAG = """async def orchestrate(ctx, args):
    got = await ctx.dag({"a": (lambda d: ctx.run("s.one", {}), []), "b": (lambda d: ctx.run("s.two", d), ["a"])})
    return await ctx.run("s.end", got)
"""


@pytest.mark.parametrize(
    ("source", "rows"),
    [
        (
            SEQUENTIAL,
            [
                "orchestrate/text.generate#0 | text.generate | 1 |  | start",
                "orchestrate/text.generate#1 | text.generate | 1 |  | orchestrate/text.generate#0",
                "orchestrate/mail.send#0 | mail.send | 1 |  | orchestrate/text.generate#1",
            ],
        ),
        (
            MAPPED,
            [
                "orchestrate/parallel#0 | parallel | 6 |  | start",
                "orchestrate/text.rate#0 | text.rate | 6 | orchestrate/parallel#0 | start",
                "orchestrate/parallel#1 | parallel | 3 |  | orchestrate/parallel#0",
                "orchestrate/image.generate#0 | image.generate | 3 | orchestrate/parallel#1 | orchestrate/parallel#0",
            ],
        ),
        (
            NESTED,
            [
                "scene/text.generate#0 | text.generate | 4 |  | start",
                "scene/for.0[<3]/if.0.0/image.generate#0 | image.generate | 12 |  | scene/text.generate#0, "
                "the iteration before",
                "scene/for.0[<3]/if.0.else/image.edit#0 | image.edit | 12 |  | scene/text.generate#0, "
                "the iteration before",
                "orchestrate/for.0[<4]/scene()#0 | scene() | 1 |  | start, the iteration before",
                "orchestrate/video.cut#0 | video.cut | 1 |  | orchestrate/for.0/scene()#0, start",
            ],
        ),
        (
            PIPELINE,
            [
                "orchestrate/pipeline#0 | pipeline | 2 |  | start",
                "orchestrate/s.one#0 | s.one | 2 | orchestrate/pipeline#0 | start",
                "orchestrate/s.two#0 | s.two | 2 | orchestrate/pipeline#0 | start",
            ],
        ),
        (
            DAG,
            [
                "orchestrate/dag#0 | dag | 2 |  | start",
                "orchestrate/s.one#0 | s.one | 1 | orchestrate/dag#0 | start",
                "orchestrate/s.two#0 | s.two | 1 | orchestrate/dag#0 | start",
                "orchestrate/s.end#0 | s.end | 1 |  | orchestrate/dag#0",
            ],
        ),
    ],
)
def test_the_table_of_each_form(source: str, rows: list[str]) -> None:
    """Sequential, map and filter, nested, pipeline, dag: as they are written, so they are selected."""
    report, found = table(source)
    assert report.ok, report.violations
    said = [f"{r.position} | {r.what} | {r.most} | {r.within} | {', '.join(r.after)}" for r in found]
    assert said == rows


def test_a_script_that_is_refused_has_no_table() -> None:
    """The report says why."""
    report, found = table("async def orchestrate(ctx, args):\n    return eval('1')\n")
    assert (report.ok, found) == (False, ())


ONE = """async def one(ctx, item):
    return await ctx.run("text.rate", {{"item": item}})

async def orchestrate(ctx, args):
    found = await ctx.parallel([one(ctx, item) for item in args["items"][:{width}]])
    {rest}
"""
SPLIT = """async def one(ctx, item):
    parts = []
    for part in range({parts}):
        parts.append(await ctx.run("text.rate", {{"item": item, "part": part}}))
    return parts

async def orchestrate(ctx, args):
    first = await ctx.parallel([one(ctx, item) for item in args["items"][:{cut}]])
    second = await ctx.parallel([one(ctx, item) for item in args["items"][{cut}:{width}]])
    found = first + second
    {rest}
"""
CATALOG = Catalog([Capability(name="text.rate", effect="read")])


@given(st.integers(1, 12), st.integers(0, 12), st.integers(1, 4), st.sampled_from(["return found", "if found[0]:"]))
def test_a_map_that_is_split_keeps_its_level_and_its_bound_says_so(width: int, cut: int, parts: int, rest: str) -> None:
    """A map of one call an item, split into two maps of several smaller calls an item: the same level of influence, the
    worst case times the parts, and a grant for exactly that many lets it start."""
    cut = min(cut, width)
    more = "return found" if rest == "return found" else f'{rest}\n        await one(ctx, "again")'
    whole, split = ONE.format(width=width, rest=more), SPLIT.format(width=width, cut=cut, parts=parts, rest=more)
    before, after = check(whole), check(split)
    assert before.ok, before.violations
    assert after.ok, after.violations
    assert before.facts.influence == after.facts.influence == ("L0" if rest == "return found" else "L1")
    calls = before.facts.worst_case["text.rate"]
    assert calls is not None
    assert after.facts.worst_case["text.rate"] == calls * parts
    for room, admitted in ((calls * parts, True), (calls * parts - 1, False)):
        own = {"limits": [{"meter": "calls", "max": room}]}
        grant = from_json({"capabilities": {"text.rate": own}, "influence": after.facts.influence})
        assert admit(split, CATALOG, grant).admitted is admitted
