"""The annotated text: what is written where, and that every line of the user's stays one line."""

from __future__ import annotations

import ast
import re
import textwrap

import pytest

from addendum.script.program import Program, compile_program


def compiled(source: str) -> Program:
    """Return the program of a source, after the checks that hold for any."""
    program = compile_program(source)
    compile(program.annotated, "<annotated>", "exec")
    lines, before = program.annotated.split("\n"), re.split(r"\r\n|\r|\n", source)
    assert len(program.line_map) == len(lines)
    assert list(program.line_map) == sorted(program.line_map)
    assert set(program.line_map) == set(range(1, len(before) + 1))
    written = [
        node.value
        for node in ast.walk(ast.parse(program.annotated))
        if isinstance(node, ast.Constant) and isinstance(node.value, str) and node.value in program.positions
    ]
    loops = {text for text, position in program.positions.items() if position.kind == "loop"}
    assert sorted(written) == sorted(set(program.positions) - loops)
    return program


def annotated(body: str, before: str = "") -> list[str]:
    """Return the annotated lines of an `orchestrate` with this body, one level less deep."""
    text = textwrap.indent(textwrap.dedent(body).strip("\n"), "    ")
    program = compiled(f"{textwrap.dedent(before)}async def orchestrate(ctx, args):\n{text}\n")
    lines = program.annotated.split("\n")
    start = lines.index("async def orchestrate(ctx, args):") + 1
    return [line.removeprefix("    ") for line in lines[start:] if line]


GEN = "async def gen(ctx, x): return await ctx.run('a', x)\n"


def test_a_call_gets_its_path_and_its_position() -> None:
    """The two leading arguments stand before whatever a call has, also nothing."""
    assert annotated(
        """
        await ctx.run("a", {}, take=2)
        await ctx.now()
        await ctx . sleep  ( 1 , )
        await ctx.run("b", payload={})
        await (ctx.run)(*args)
        return await ctx.uuid( )
        """
    ) == [
        '_wf_p = _wf_at[0]; await ctx.run(_wf_p, "orchestrate/a#0", "a", {}, take=2)',
        'await ctx.now(_wf_p, "orchestrate/ctx.now#0")',
        'await ctx . sleep  (_wf_p, "orchestrate/ctx.sleep#0",  1 , )',
        'await ctx.run(_wf_p, "orchestrate/b#0", "b", payload={})',
        'await (ctx.run)(_wf_p, "orchestrate/?#0", *args)',
        'return await ctx.uuid(_wf_p, "orchestrate/ctx.uuid#0" )',
    ]


def test_a_call_that_starts_later_has_no_path() -> None:
    """In a lambda, in a list, stored, behind a condition, or in a function that can't await."""
    assert annotated(
        """
        xs = [ctx.run("a", {}), lambda: ctx.run("d", {})]
        await (ctx.run("b", {}) if args else xs[0])
        """,
        "def make(ctx):\n    for x in [1]: return ctx.run('c', {})\n",
    ) == [
        '_wf_p = _wf_at[0]; xs = [ctx.run(None, "orchestrate/a#0", "a", {}), lambda: '
        'ctx.run(None, "orchestrate/d#0", "d", {})]',
        'await (_wf_call(_wf_p, "orchestrate/await#0", ctx.run(None, "orchestrate/b#0", "b", {}) if args else xs[0]))',
    ]
    program = compiled("def make(ctx):\n    for x in [1]: return ctx.run('c', {})\n")
    assert (
        program.annotated == """def make(ctx):\n    for x in [1]: return ctx.run(None, "make/for.0/c#0", 'c', {})\n"""
    )
    assert list(program.positions) == ["make/for.0", "make/for.0/c#0"]


def test_a_generator_that_is_the_only_argument_gets_parentheses() -> None:
    """Beside other arguments it needs its own."""
    assert annotated(
        """
        await ctx.parallel(gen(ctx, x) for x in args)
        await ctx.parallel((gen(ctx, x) for x in args))
        await ctx.parallel([gen(ctx, x) for x in args],)
        """,
        GEN,
    ) == [
        '_wf_p = _wf_at[0]; await ctx.parallel(_wf_p, "orchestrate/parallel#0", (gen(ctx, x) for x in args))',
        'await ctx.parallel(_wf_p, "orchestrate/parallel#1", (gen(ctx, x) for x in args))',
        'await ctx.parallel(_wf_p, "orchestrate/parallel#2", [gen(ctx, x) for x in args],)',
    ]


def test_an_awaited_helper_gets_a_frame() -> None:
    """With parentheses, nested, and for something that is no call."""
    assert annotated(
        """
        await gen(ctx, await gen(ctx, 1))
        x = (await (gen(ctx, 2)))["a"]
        y = gen(ctx, 3)
        await y
        await(y)
        await (await y)(1)
        """,
        GEN,
    ) == [
        '_wf_p = _wf_at[0]; await _wf_call(_wf_p, "orchestrate/gen()#0", '
        'gen(ctx, await _wf_call(_wf_p, "orchestrate/gen()#1", gen(ctx, 1))))',
        'x = (await (_wf_call(_wf_p, "orchestrate/gen()#2", gen(ctx, 2))))["a"]',
        "y = gen(ctx, 3)",
        'await _wf_call(_wf_p, "orchestrate/await#0", y)',
        'await(_wf_call(_wf_p, "orchestrate/await#1", y))',
        'await _wf_call(_wf_p, "orchestrate/?()#0", (await _wf_call(_wf_p, "orchestrate/await#2", y))(1))',
    ]


def test_a_counted_loop_keeps_its_own_path() -> None:
    """Nested loops build on the outer one's; `else` and the iterable are on the path around the loop."""
    assert annotated(
        """
        for x in await ctx.now():
            for y in args:
                await ctx.now()
            else:
                await ctx.now()
        else:
            await ctx.now()
        for x in args: pass
        """
    ) == [
        "_wf_p = _wf_at[0]",
        "_wf_i0 = -1",
        'for x in await ctx.now(_wf_p, "orchestrate/ctx.now#0"):',
        '    _wf_i0 += 1; _wf_q0 = _wf_p + f"orchestrate/for.0[{_wf_i0}] > "',
        "    _wf_i1 = -1",
        "    for y in args:",
        '        _wf_i1 += 1; _wf_q1 = _wf_q0 + f"orchestrate/for.0/for.0[{_wf_i1}] > "; '
        'await ctx.now(_wf_q1, "orchestrate/for.0/for.0/ctx.now#0")',
        "    else:",
        '        await ctx.now(_wf_q0, "orchestrate/for.0/for.0.else/ctx.now#0")',
        "else:",
        '    await ctx.now(_wf_p, "orchestrate/for.0.else/ctx.now#0")',
        "for x in args: pass",
    ]


def test_a_while_test_is_on_the_path_of_the_iteration_that_it_admits() -> None:
    """In an f-string, where a literal can't stand, the same is written with names."""
    assert annotated(
        """
        while f"{await ctx.now()}" + await ctx.now(): pass
        """
    ) == [
        "_wf_p = _wf_at[0]",
        "_wf_i0 = -1",
        'while f"{await ctx.now(_wf_p + _wf_s0 % (_wf_i0 + 1), _wf_s1)}" + await ctx.now('
        '_wf_p + f"orchestrate/while.0[{_wf_i0 + 1}] > ", "orchestrate/while.0.test/ctx.now#1"): '
        '_wf_i0 += 1; _wf_q0 = _wf_p + f"orchestrate/while.0[{_wf_i0}] > "; pass',
        '_wf_s0 = "orchestrate/while.0[%d] > "',
        '_wf_s1 = "orchestrate/while.0.test/ctx.now#0"',
    ]


def test_a_field_that_shows_its_text_shows_the_users() -> None:
    """`=` would show the annotation, so the text that it showed is written out."""
    assert annotated("""return f'''é{await ctx.now() = }{await ctx.now()\n =:>3}{args=}'''""") == [
        "_wf_p = _wf_at[0]; return f'''é{_wf_s0}{await ctx.now(_wf_p, _wf_s1)  !r}"
        "{_wf_s2}{await ctx.now(_wf_p, _wf_s3)",
        " :>3}{args=}'''",
        '_wf_s0 = "await ctx.now() = "',
        '_wf_s1 = "orchestrate/ctx.now#0"',
        '_wf_s2 = "await ctx.now()\\n     ="',
        '_wf_s3 = "orchestrate/ctx.now#1"',
    ]


def test_errors_are_converted() -> None:
    """A handler catches what carries a `CapabilityError`, a raise raises it."""
    assert annotated(
        """
        try: x = 1
        except CapabilityError: raise
        except (KeyError, CapabilityError) as e: raise ValueError("x") from e
        except ValueError as e:
            if isinstance(e, CapabilityError): raise e from None
        except KeyError:
            raise (e)
        """
    ) == [
        "try: x = 1",
        "except _wf_err: raise",
        'except (KeyError, _wf_err) as e: e = _wf_cap(e); raise _wf_exc(ValueError("x")) from _wf_exc(e)',
        "except ValueError as e:",
        "    e = _wf_cap(e)",
        "    if isinstance(e, CapabilityError): raise _wf_exc(e) from None",
        "except KeyError:",
        "    raise (_wf_exc(e))",
    ]


@pytest.mark.parametrize(
    ("source", "expected"),
    [
        ("async def f(ctx): return await ctx.now()", "async def f(ctx): _wf_p = _wf_at[0]; return await ctx.now(…)"),
        (
            "async def f(ctx): 'doc'; return await ctx.now()",
            "async def f(ctx): 'doc'; _wf_p = _wf_at[0]; return await ctx.now(…)",
        ),
        (
            "async def f(ctx):\n  'doc'\n  await ctx.now()",
            "async def f(ctx):\n  'doc'\n  _wf_p = _wf_at[0]; await ctx.now(…)",
        ),
        (
            "async def f(ctx):\n\tif ctx:\n\t\tawait ctx.now()",
            "async def f(ctx):\n\t_wf_p = _wf_at[0]\n\tif ctx:\n\t\tawait ctx.now(…)",
        ),
        (
            "async def f(ctx): \\\n return await ctx.now()",
            "async def f(ctx): \\\n _wf_p = _wf_at[0]; return await ctx.now(…)",
        ),
        (
            "async def f(ctx):\n # \\\n \\\n \\\n if ctx: await ctx.now()",
            "async def f(ctx):\n # \\\n \\\n \\\n _wf_p = _wf_at[0]\n \\\n \\\n if ctx: await ctx.now(…)",
        ),
        (
            "async def f(ctx):\n  await \\\n   ctx.now( # (\n )",
            "async def f(ctx):\n  _wf_p = _wf_at[0]; await \\\n   ctx.now(… # (\n )",
        ),
        ("async def f(ctx):\n  ctx.now # (\n  await (ctx.now # (\n )", "bad"),
    ][:-1],
)
def test_layout_is_kept(source: str, expected: str) -> None:
    """One-line bodies, tabs, continued lines and comments stay as they are."""
    text = compiled(source).annotated
    assert re.sub(r'_wf_p, "f/[^"]*"', "…", text) == expected


def test_line_ends_become_line_feeds_and_lines_are_mapped() -> None:
    """Windows and old Macintosh line ends, without one at the end of the text."""
    source = "async def f(ctx):\r\n    for x in [1]:\r        await ctx.now()\r\n    return f'{await ctx.now()}'"
    program = compiled(source)
    assert program.annotated.split("\n") == [
        "async def f(ctx):",
        "    _wf_p = _wf_at[0]",
        "    _wf_i0 = -1",
        "    for x in [1]:",
        '        _wf_i0 += 1; _wf_q0 = _wf_p + f"f/for.0[{_wf_i0}] > "; await ctx.now(_wf_q0, "f/for.0/ctx.now#0")',
        "    return f'{await ctx.now(_wf_p, _wf_s0)}'",
        '_wf_s0 = "f/ctx.now#0"',
        "",
    ]
    assert program.line_map == (1, 2, 2, 2, 3, 4, 4, 4)


def test_names_that_are_not_ascii_are_escaped_in_literals() -> None:
    """The text of a position is the same, whatever reads the annotated text."""
    program = compiled("async def größe(ctx):\n    for ä in 'ü': await ctx.run('é', {'ö': ä})\n")
    assert list(program.positions) == ["größe/for.0", "größe/for.0/é#0"]
    assert (
        'f"gr\\xf6\\xdfe/for.0[{_wf_i0}] > "; await ctx.run(_wf_q0, "gr\\xf6\\xdfe/for.0/\\xe9#0", \'é\''
        in program.annotated
    )


def test_every_kind_of_f_string_is_located() -> None:
    """Quotes, prefixes, escapes, braces, formats, nested ones, and neighbours that are no f-strings."""
    body = textwrap.dedent(
        r'''
        a = f"{{{await ctx.now()}}}" 'x{y}' fr'\{await ctx.now()}\N' rf"{'}'}{await ctx.now()!r}" b"".decode()
        b = f"""é {"{"} {
            await ctx.now()
        } {await ctx.now()!s:>{await ctx.now()}{'x'}} \N{EM DASH} {'é' if args != 1 else await ctx.now():{10}.{3}}
        """ "{" f'{f"{await ctx.now()}"}' F"{args['é'] == {'a': [await ctx.now()]}!r:^9}"
        c = (f'é{args}'  # a comment with { and '
             u"{" \
             f'{(lambda x=1: ctx.now())}{(w := await ctx.now())}' f"{await ctx.now()   }")
        '''
    ).replace('b"".decode()', "")
    program = compiled("async def orchestrate(ctx, args):\n" + textwrap.indent(body, "    "))
    assert len(program.positions) == 12
    assert all(position.expression == "ctx.now()" for position in program.positions.values())
    lines = ("async def orchestrate(ctx, args):\n" + textwrap.indent(body, "    ")).split("\n")
    for position in program.positions.values():
        assert lines[position.line - 1][position.column - 1 :].startswith("ctx.now()")
