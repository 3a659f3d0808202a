"""Programs: positions with their facts, hashes of functions, fingerprints of fan-outs."""

from __future__ import annotations

import ast
import hashlib
import sys
import textwrap

import pytest

from addendum.errors import UsageError
from addendum.script.bounds import Bounds
from addendum.script.program import Position, build, compile_program
from addendum.script.scope import analyse


def positions(source: str) -> dict[str, Position]:
    return dict(compile_program(textwrap.dedent(source)).positions)


def test_a_position_says_where_and_what_it_is() -> None:
    """Lines and columns count from 1, columns in characters; the expression is one line."""
    found = positions(
        """\
        async def gen(ctx, x): return await ctx.run("a.b", x)
        async def orchestrate(ctx, args):
            for é in ["ü", await gen(ctx,
                                     args)]:
                ß = "é"; await ctx.parallel([gen(ctx, é)])
        """
    )
    assert {text: (p.kind, p.capability, p.name, p.function, p.block, p.loops) for text, p in found.items()} == {
        "gen/a.b#0": ("site", "a.b", "a.b", "gen", "gen", ()),
        "orchestrate/gen()#0": ("call", None, "gen", "orchestrate", "orchestrate", ()),
        "orchestrate/for.0": ("loop", None, "for", "orchestrate", "orchestrate", ()),
        "orchestrate/for.0/parallel#0": (
            "fanout",
            None,
            "parallel",
            "orchestrate",
            "orchestrate/for.0",
            ("orchestrate/for.0",),
        ),
    }
    assert {text: (p.line, p.column, p.expression) for text, p in found.items()} == {
        "gen/a.b#0": (1, 37, 'ctx.run("a.b", x)'),
        "orchestrate/gen()#0": (3, 26, "gen(ctx, args)"),
        "orchestrate/for.0": (3, 5, '["ü", await gen(ctx, args)]'),
        "orchestrate/for.0/parallel#0": (5, 24, "ctx.parallel([gen(ctx, é)])"),
    }
    assert found["orchestrate/for.0"].fingerprint is None


def test_a_long_expression_is_cut() -> None:
    """What is kept of a call is for people."""
    found = positions(f"async def orchestrate(ctx, args): return await ctx.run('a', '{'x' * 200}')")
    assert len(found["orchestrate/a#0"].expression) == 120


def test_a_comment_inside_a_call_does_not_hide_the_rest() -> None:
    """The expression is one line, so a comment can't stand in it."""
    found = positions("async def orchestrate(ctx, args):\n  await ctx.run('a', # one\n  {'b': 1})\n")
    assert found["orchestrate/a#0"].expression == "ctx.run('a', {'b': 1})"


def test_a_fingerprint_covers_the_call_and_not_its_await() -> None:
    """Awaited or handed on, in a helper or not, the same call has the same fingerprint."""
    found = positions(
        """
        async def orchestrate(ctx, args):
            await ctx.run("a", {"x": 1, "y": args})
            await ctx.parallel([ctx.run('a', {'y': args, 'x': 0x1})])
            await ctx.run("a", {"x": 1, "y": args}, take=2)
        """
    )
    one, two, three = (found[f"orchestrate/a#{number}"].fingerprint for number in range(3))
    assert one == two != three


def test_a_program_knows_its_revision() -> None:
    """The revision is the SHA-256 of the text as it was given."""
    source = "async def orchestrate(ctx, args):\r\n    return 'é'\r\n"
    program = compile_program(source)
    assert program.revision == hashlib.sha256(source.encode()).hexdigest()
    assert program.source == source
    assert program.positions == {}
    assert program.functions == {}


@pytest.mark.parametrize("source", ["def", "x = '\0'", "x = '\ud800'", "f(" * 500, "x = " + "-" * 5000 + "1"])
def test_a_text_that_is_no_python_is_a_usage_error(source: str) -> None:
    """Nothing else leaves, whatever the parser raises."""
    with pytest.raises(UsageError):
        compile_program(source)


# --- functions ----------------------------------------------------------------------------------------------------


def test_a_renamed_function_has_the_same_hash() -> None:
    """Its own name is abstracted where it calls itself; docstrings, comments and annotations don't count."""
    functions = compile_program(
        textwrap.dedent(
            """
            async def one(ctx, n):
                "A docstring."
                await ctx.run("a", {"n": n})  # a comment
                return await one(ctx, n - 1) if n else None
            async def two(ctx, n: int) -> object:
                await ctx.run('a', {'n': n})
                return (await two(ctx, n - 1)) if n else None
            async def other(ctx, n):
                await ctx.run("a", {"n": n})
                return await one(ctx, n - 1) if n else None
            async def orchestrate(ctx, args):
                async def one(ctx, n):
                    await ctx.run("a", {"n": n})
                    return await one(ctx, n - 1) if n else None
                async def inner():
                    async def deep(): return await ctx.now()
                    return await deep()
                def pure(): return 1
                await inner()
            """
        )
    ).functions
    assert list(functions) == [
        "one",
        "two",
        "other",
        "orchestrate",
        "orchestrate.one",
        "orchestrate.inner",
        "orchestrate.inner.deep",
    ]
    assert functions["one"] == functions["two"] == functions["orchestrate.one"] != functions["other"]


def test_a_changed_body_or_signature_has_another_hash() -> None:
    """Parameters, defaults, order of statements, async or not."""
    bodies = [
        "async def f(ctx, a): return await ctx.run('a', a)",
        "async def f(ctx, b): return await ctx.run('a', b)",
        "async def f(ctx, a=1): return await ctx.run('a', a)",
        "async def f(ctx, a, *b): return await ctx.run('a', a)",
        "async def f(ctx, *, a): return await ctx.run('a', a)",
        "async def f(ctx, a): await ctx.run('a', a)",
        "def f(ctx, a): return ctx.run('a', a)",
        "async def f(ctx, a):\n  x = 1\n  return await ctx.run('a', a)",
    ]
    assert len({compile_program(body).functions["f"] for body in bodies}) == len(bodies)


# --- fan-outs -----------------------------------------------------------------------------------------------------

HELPERS = """
async def gen(ctx, x): return await ctx.run("g", x)
async def rev(ctx, x): return await ctx.run("r", x)
async def retry(make): return await make()
def prompt(x): return {"p": x}
def jobs(ctx): return [gen(ctx, 1)]
"""


def fanout(body: str) -> str:
    """Return the fingerprint of the first fan-out of an `orchestrate` with this body."""
    text = textwrap.indent(body, "    ")
    found = positions(f"{HELPERS}\nasync def orchestrate(ctx, args):\n{text}\n")
    fingerprint = next(position for position in found.values() if position.kind == "fanout").fingerprint
    assert fingerprint is not None
    return fingerprint


@pytest.mark.parametrize(
    "same",
    [
        [
            "await ctx.parallel([gen(ctx, 1), gen(ctx, 2)])",
            "await ctx.parallel([gen(ctx, x) for x in args])",
            "await ctx.parallel(gen(ctx, x) for x in args[:3])",
            "await ctx.parallel([gen(ctx, prompt(x)) for x in sorted(args)], return_errors=True)",
            "xs = [gen(ctx, 1)]\nawait ctx.parallel(xs)",
            "xs = []\nfor x in args: xs.append(gen(ctx, x))\nawait ctx.parallel(xs)",
            "xs = []\nxs += [gen(ctx, x) for x in args]\nys = xs[:2]\nawait ctx.parallel(ys + ys)",
            "xs = []\nxs.extend(gen(ctx, x) for x in args)\nawait ctx.parallel(list(xs))",
            "await ctx.parallel([*[gen(ctx, x) for x in args], gen(ctx, await rev(ctx, 1))])",
            "items = await ctx.run('plan', {})\nawait ctx.parallel([gen(ctx, i) for i in items if await ctx.now()])",
            "make = lambda x: gen(ctx, x)\nawait ctx.parallel([make(x) for x in args])",
        ],
        [
            "await ctx.parallel([gen(ctx, 1), rev(ctx, 2)])",
            "await ctx.parallel([gen(ctx, 1), rev(ctx, 2), gen(ctx, 3)])",
        ],
        ["await ctx.parallel([ctx.run('g', {})])", "await ctx.parallel([ctx.run('g', {'x': x}) for x in args])"],
        [
            "await ctx.parallel([retry(lambda: gen(ctx, x)) for x in args])",
            "await ctx.parallel([retry(lambda: gen(ctx, prompt(1)))])",
        ],
        ["await ctx.parallel(jobs(ctx))", "xs = jobs(ctx)\nawait ctx.parallel(xs)"],
        [
            "await ctx.dag({'a': (gen, []), 'b': (rev, ['a'])})",
            "await ctx.dag({'x': (rev, []), 'y': (gen, [])})",
            "nodes = {}\nnodes['a'] = (gen, [])\nnodes['b'] = (rev, ['a'])\nawait ctx.dag(nodes)",
        ],
        ["await ctx.pipeline([1, 2], gen, rev)", "await ctx.pipeline(args, gen, rev)"],
    ],
)
def test_a_fan_out_is_the_same_for_another_list(same: list[str]) -> None:
    """How the list came about, how long it is and what it iterates over don't matter."""
    assert len({fanout(body) for body in same}) == 1


def test_a_fan_out_differs_for_another_method_or_function() -> None:
    """Which functions its branches run, in which order where the index tells them apart."""
    bodies = [
        "await ctx.parallel([])",
        "await ctx.race([])",
        "await ctx.parallel([gen(ctx, 1)])",
        "await ctx.race([gen(ctx, 1)])",
        "await ctx.parallel([rev(ctx, 1)])",
        "await ctx.parallel([gen(ctx, 1), rev(ctx, 1)])",
        "await ctx.parallel([rev(ctx, 1), gen(ctx, 1)])",
        "await ctx.parallel([ctx.run('gen', {})])",
        "await ctx.parallel([ctx.run('g', {})])",
        "await ctx.parallel([retry(lambda: gen(ctx, 1))])",
        "await ctx.parallel([retry(lambda: rev(ctx, 1))])",
        "await ctx.parallel([ctx.race([gen(ctx, 1)])])",
        "await ctx.pipeline(args, gen)",
        "await ctx.pipeline(args, gen, gen)",
        "await ctx.pipeline(args, gen, rev)",
        "await ctx.pipeline(args, rev, gen)",
        "await ctx.dag({'a': (gen, [])})",
        "await ctx.dag({'a': (gen, []), 'b': (lambda: ctx.run('x', {}), [])})",
    ]
    assert len({fanout(body) for body in bodies}) == len(bodies)


# --- bounds and size ----------------------------------------------------------------------------------------------


def test_bounds_are_those_of_the_numbers_that_a_frame_can_have() -> None:
    """A loop's iterations, a fan-out's width, how often a call runs; one more for a while whose test calls."""
    found = positions(
        """
        async def orchestrate(ctx, args):
            for x in args["items"][:5]:
                await ctx.run("a", {"x": x})
            n = 0
            while n < 3:
                n += 1
                await ctx.now()
            n = 0
            while n < 3 and await ctx.random():
                n += 1
            y = [await ctx.run("b", {"i": i}) for i in range(4)]
            await ctx.parallel([ctx.run("c", {"i": i}) for i in range(6)])
            made = ctx.run("d", {})
            return await made
        """
    )
    assert {text.removeprefix("orchestrate/"): position.bound for text, position in found.items()} == {
        "for.0": 5,
        "for.0/a#0": 1,
        "while.0": 3,
        "while.0/ctx.now#0": 1,
        "while.1": 4,
        "while.1.test/ctx.random#0": 1,
        "b#0": 4,
        "parallel#0": 6,
        "c#0": 6,
        "d#0": 1,
        "await#0": 1,
    }


def test_the_work_is_linear_in_the_number_of_sites() -> None:
    """Twice the sites, in f-strings too, are twice the function calls."""

    def work(sites: int) -> int:
        plain = "".join(f"    x{n} = await ctx.run('a', {{'n': {n}}})\n" for n in range(sites))
        fields = "".join(f"{{await ctx.run('b', {n})}}\n" for n in range(sites))
        source = f"async def orchestrate(ctx, args):\n{plain}    return f'''{fields}'''\n"
        scope = analyse(ast.parse(source))
        calls = 0

        def count(frame: object, event: str, argument: object) -> None:
            nonlocal calls
            calls += 1

        before = sys.getprofile()
        sys.setprofile(count)
        try:
            program = build(source, scope, Bounds())
        finally:
            sys.setprofile(before)
        assert len(program.positions) == 2 * sites
        return calls

    assert work(400) < 2.1 * work(200)
