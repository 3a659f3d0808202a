"""What it costs to match a wide fan-out of equal calls that was moved: counted, not timed."""

from __future__ import annotations

import sys
from types import FrameType
from typing import Any

import pytest
from adversary.programs import Text
from adversary.world import World

COUNTED = ("/addendum/kernel/", "/addendum/gate/")
ONE = """
async def one(ctx, i):
    return (await ctx.run("p.make", {"p": "same"}))["t"]
"""
DEEP = """
async def deep(ctx, i):
    return (await ctx.run("p.make", {"p": "same"}))["t"]

async def one(ctx, i):
    return await deep(ctx, i)
"""
FAN = "await ctx.parallel([one(ctx, i) for i in range(N)])"
EVERY = f"""
async def every(ctx):
    return {FAN}
"""
TWO = [f"a = {FAN}", f"b = {FAN}"]
EDITS = {
    "a loop around both": (TWO, ["for k in range(1):", *(f"    {line}" for line in TWO)], ONE),
    "the helper written otherwise inside": (TWO, TWO, DEEP),
    "both at once": (TWO, ["for k in range(1):", *(f"    {line}" for line in TWO)], DEEP),
    "one into a function, another beside it": (TWO[:1], ["a = await every(ctx)", TWO[1]], ONE + EVERY),
    "the first of two into a function": (TWO, ["a = await every(ctx)", TWO[1]], ONE + EVERY),
    "one of two left out": (TWO, TWO[:1], ONE),
    "both into one function": (TWO, ["a = await every(ctx)", "b = await every(ctx)"], ONE + EVERY),
}


def script(lines: list[str], width: int, helpers: str) -> Text:
    """Return a script with fan-outs of a width."""
    body = "\n".join(f"    {line}" for line in lines)
    source = f"{helpers}\nasync def orchestrate(ctx, args):\n{body}\n    return 1\n"
    return Text(source.replace("N", str(width)), {}, {})


def work(edit: str, width: int) -> int:
    """Plan an edit, and count the calls of the functions of the kernel and the gate."""
    old, new, helpers = EDITS[edit]
    world = World()
    world.run(script(old, width, ONE))
    calls = 0

    def count(frame: FrameType, event: str, arg: Any) -> None:
        nonlocal calls
        calls += event == "call" and any(part in frame.f_code.co_filename for part in COUNTED)

    text = script(new, width, helpers)
    world._note(text)
    before = sys.getprofile()
    sys.setprofile(count)
    try:
        world.plan(text)
    finally:
        sys.setprofile(before)
    return calls


@pytest.mark.slow
@pytest.mark.parametrize("edit", EDITS)
def test_a_fan_out_of_equal_calls_costs_in_proportion_to_its_width(edit: str) -> None:
    """Three times as wide is about three times the work, whether the edit is admitted or ambiguous: no call is compared
    with each equal record on its own. If it were, it would be nine times the work."""
    assert work(edit, 180) < 4.5 * work(edit, 60)
