"""Which of two calls of a program comes first."""

from __future__ import annotations

import pytest

from addendum import identity as ids
from addendum.kernel.likeness import order, turn, unlike
from addendum.script.program import compile_program

SOURCE = """
async def pic(ctx, p):
    return await ctx.run("p.make", {"p": p})

async def orchestrate(ctx, args):
    a = await ctx.run("p.make", {"p": 1})
    for i in range(3):
        b = await pic(ctx, i)
        c = await ctx.run("p.make", {"p": i})
    d = await ctx.parallel([pic(ctx, j) for j in range(3)])
    e = await ctx.parallel([pic(ctx, j) for j in range(3)])
    return await ctx.run("p.make", {"p": 2})
"""
LOOP = "orchestrate/for.0[{}] > orchestrate/for.0/"
FAN = "orchestrate/parallel#{}[{}] > pic/p.make#0"


@pytest.mark.parametrize(
    ("one", "two"),
    [
        ("orchestrate/p.make#0", "orchestrate/p.make#1"),
        ("orchestrate/p.make#0", LOOP.format(0) + "p.make#0"),
        (LOOP.format(0) + "pic()#0 > pic/p.make#0", LOOP.format(0) + "p.make#0"),
        (LOOP.format(1) + "p.make#0", LOOP.format(2) + "pic()#0 > pic/p.make#0"),
        (LOOP.format(2) + "p.make#0", FAN.format(0, 1)),
        (FAN.format(0, 2), FAN.format(1, 0)),
        (FAN.format(1, 2), "orchestrate/p.make#1"),
        ("orchestrate/p.make#0:1", "orchestrate/p.make#0:3"),
    ],
)
def test_the_earlier_call_comes_first(one: str, two: str) -> None:
    """By the text, by iteration, by entry; `turn` sorts them likewise."""
    places = {at: number for number, at in enumerate(compile_program(SOURCE).positions)}
    first, second = ids.parse(one), ids.parse(two)
    assert order(first, second, places) < 0 < order(second, first, places)
    assert turn(first, places) < turn(second, places)


def test_branches_of_one_fan_out_come_in_no_order() -> None:
    """They run at once. A call is neither before nor after itself."""
    places = {at: number for number, at in enumerate(compile_program(SOURCE).positions)}
    one, two = ids.parse(FAN.format(0, 1)), ids.parse(FAN.format(0, 2))
    assert order(one, two, places) == order(one, one, places) == 0


def test_what_stands_nowhere_comes_in_no_order() -> None:
    """A position of another source says nothing."""
    one, two = ids.parse("orchestrate/p.make#7"), ids.parse("orchestrate/p.make#0")
    assert order(one, two, {"orchestrate/p.make#0": 0}) == 0


@pytest.mark.parametrize(
    ("there", "here", "found"),
    [
        ("orchestrate/parallel#0[1] > pic/p.make#0", "orchestrate/parallel#1[1] > pic/p.make#0", 0),
        ("orchestrate/parallel#0[2] > pic/p.make#0", LOOP.format(0) + "parallel#0[2] > pic/p.make#0", 1),
        ("orchestrate/parallel#0[0] > pic/p.make#0", LOOP.format(0) + "parallel#0[2] > pic/p.make#0", 2),
        (LOOP.format(1) + "p.make#0", LOOP.format(0) + "for.0[1] > orchestrate/for.0/for.0/p.make#0", 1),
    ],
)
def test_what_a_wrapper_adds_is_left_out_of_numbers_of_its_kind(there: str, here: str, found: int) -> None:
    """A loop around a fan-out adds an iteration: branches are compared with branches."""
    assert unlike(ids.parse(there), ids.parse(here)) == found
    assert unlike(ids.parse(here), ids.parse(there)) == found
