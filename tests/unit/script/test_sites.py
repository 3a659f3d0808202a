"""Which calls and blocks have a position, and which numbers they take."""

from __future__ import annotations

import ast
import textwrap

import pytest

from addendum.script.program import compile_program
from addendum.script.scope import analyse
from addendum.script.sites import Block, Place, Walk


def positions(body: str, before: str = "") -> list[str]:
    """Return the positions of an `orchestrate` with this body, in source order."""
    body = textwrap.indent(textwrap.dedent(body), "    ")
    source = f"{textwrap.dedent(before)}\nasync def orchestrate(ctx, args):\n{body}\n"
    return [text.removeprefix("orchestrate/") for text in compile_program(source).positions]


HELPER = "async def gen(ctx, x):\n    return await ctx.run('a', {})\ndef pure(x):\n    return x\n"


@pytest.mark.parametrize(
    ("body", "expected"),
    [
        ("await ctx.run('a', {}); await ctx.run('b', {}); await ctx.run('a', {})", ["a#0", "b#0", "a#1"]),
        ("await ctx.run('a', {'x': await ctx.run('a', {})})", ["a#0", "a#1"]),
        (
            "await ctx.now(); await ctx.random(); await ctx.uuid(); await ctx.sleep(1); await ctx.now()",
            ["ctx.now#0", "ctx.random#0", "ctx.uuid#0", "ctx.sleep#0", "ctx.now#1"],
        ),
        ("if args: await ctx.run('a', {})", ["if.0.0/a#0"]),
        (
            "if args: pass\nelif args: await ctx.run('a', {})\nelse: await ctx.run('b', {})",
            ["if.0.0/a#0", "if.0.else/b#0"],
        ),
        (
            "if args: await ctx.run('a', {})\nelse:\n    x = 1\n    if x: await ctx.run('b', {})\n    x = 2",
            ["if.0.0/a#0", "if.0.1/b#0"],
        ),
        (
            "if args: await ctx.run('a', {})\nelse:\n    if args: await ctx.run('b', {})\n    await ctx.run('c', {})",
            ["if.0.0/a#0", "if.0.else/if.0.0/b#0", "if.0.else/c#0"],
        ),
        ("if await ctx.run('a', {}): pass\nif args: await ctx.run('b', {})", ["a#0", "if.0.0/b#0"]),
        (
            "if args: pass\nelif await ctx.run('a', {}): pass\nelif await ctx.run('a', {}): await ctx.run('b', {})",
            ["a#0", "a#1", "if.0.0/b#0"],
        ),
        ("for x in await ctx.run('a', {}): pass\nfor x in args: await ctx.run('b', {})", ["a#0", "for.0", "for.0/b#0"]),
        ("for x in args: pass\nelse: await ctx.run('a', {})", ["for.0.else/a#0"]),
        (
            "for x in args:\n    for y in args: await ctx.run('a', {})\n    else: await ctx.run('b', {})",
            ["for.0", "for.0/for.0", "for.0/for.0/a#0", "for.0/for.0.else/b#0"],
        ),
        (
            "while await ctx.now(): pass\nelse: await ctx.now()",
            ["while.0", "while.0.test/ctx.now#0", "while.0.else/ctx.now#0"],
        ),
        (
            "try: await ctx.run('a', {})\nexcept KeyError: pass\nexcept ValueError: await ctx.run('b', {})\n"
            "else: await ctx.run('c', {})\nfinally: await ctx.run('d', {})",
            ["try.0/a#0", "try.0.except.0/b#0", "try.0.else/c#0", "try.0.finally/d#0"],
        ),
        (
            "match await ctx.now():\n    case 1: pass\n    case 2 if await ctx.now(): pass\n"
            "    case _: await ctx.now()",
            ["ctx.now#0", "match.0.case.0/ctx.now#0", "match.0.case.1/ctx.now#0"],
        ),
        ("x = lambda: ctx.run('a', {})\nawait x()", ["a#0", "x()#0"]),
        (
            "await gen(ctx, 1); await (gen(ctx, 2)); await ctx.parallel([gen(ctx, 3)])",
            ["gen()#0", "gen()#1", "parallel#0"],
        ),
        ("for x in args: x = pure(x)\nfor x in args: x = [gen(ctx, x)]", ["for.0"]),
        ("x = gen(ctx, 1)\nawait x\nawait (x or x)", ["await#0", "await#1"]),
        (
            "await (lambda: gen(ctx, 1))(); await [gen][0](ctx, 1); await [gen(ctx, 1)].pop()",
            ["?()#0", "?()#1", "?()#2"],
        ),
        ("ctx.log('a'); ctx.phase('b'); print(len(str(pure(1))))", []),
        ("await ctx.run('a', {}) if await ctx.run('a', {}) else await ctx.run('a', {})", ["a#0", "a#1", "a#2"]),
        ("await ctx.race([ctx.pipeline([1], gen), ctx.dag({'x': (gen, [])})])", ["race#0", "pipeline#0", "dag#0"]),
    ],
)
def test_only_what_counts_takes_a_number(body: str, expected: list[str]) -> None:
    """Positions are those of DESIGN section 3, whatever stands between."""
    assert [text for text in positions(body, HELPER) if not text.startswith("gen/")] == expected


def test_a_place_knows_whether_it_is_awaited_where_it_stands() -> None:
    """A call in a lambda, in a list or behind a condition starts later than it is written."""
    tree = ast.parse(
        "async def orchestrate(ctx, args):\n"
        "    await ctx.run('a', {})\n"
        "    await ctx.parallel([ctx.run('b', {}), *[ctx.run('c', {}) for x in args]])\n"
        "    f = lambda: ctx.run('d', {})\n"
        "    await (ctx.run('e', {}) if args else ctx.run('f', {}))\n"
        "    return [await ctx.run('g', {}) for x in args]\n"
    )
    walk = Walk(analyse(tree)).run()
    places = [item for body in walk.bodies for item in body.items if isinstance(item, Place)]
    assert [place.name for place in places if place.awaited] == ["a", "parallel", "?", "g"]
    assert [place.name for place in places if not place.awaited] == ["b", "c", "d", "e", "f"]


def test_blocks_without_a_counted_call_are_not_kept() -> None:
    """The walk's result is as large as what it numbers."""
    tree = ast.parse(
        "async def orchestrate(ctx, args):\n"
        "    for x in args:\n        if x: y = len(x)\n"
        "    while args:\n        try: await ctx.now()\n        except KeyError: pass\n"
    )
    [_, body] = Walk(analyse(tree)).run().bodies
    [block] = body.items
    assert isinstance(block, Block)
    assert block.kind == "while"
    assert [part.suffix for part in block.parts] == [""]


def test_functions_have_their_own_positions() -> None:
    """A nested function is no block of the one around it; defaults belong to the function around it."""
    source = textwrap.dedent(
        """
        async def orchestrate(ctx, args):
            for x in args:
                async def gen(y=await ctx.now()):
                    if y:
                        return await ctx.run("a", {})
                await gen()
        """
    )
    assert list(compile_program(source).positions) == [
        "orchestrate/for.0",
        "orchestrate/for.0/ctx.now#0",
        "orchestrate/for.0/gen()#0",
        "orchestrate.gen/if.0.0/a#0",
    ]


def test_odd_capability_names_make_positions_that_an_identity_can_hold() -> None:
    """The checker refuses them; if one comes here, its text still parses."""
    assert positions("""await ctx.run('a b"[0]:#{é', {})\nawait ctx.run(args, {})""") == [
        "a%20b%22%5B0%5D%3A%23%7Bé#0",
        "?#0",
    ]
