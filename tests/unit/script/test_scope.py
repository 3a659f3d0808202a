"""Names, functions and calls: who is called, who reaches, what is counted, and what functions are called."""

from __future__ import annotations

import ast
import textwrap

import pytest

from addendum.script.scope import Function, Parameter, Scope, analyse


def _scope(text: str) -> Scope:
    return analyse(ast.parse(textwrap.dedent(text)))


def _calls(scope: Scope) -> dict[str, ast.Call]:
    return {ast.unparse(node): node for node in scope.index[ast.Call] if isinstance(node, ast.Call)}


NESTED = """
    def pure(x):
        return x

    async def gen(ctx, x):
        return await ctx.run("a.b", {"x": pure(x)})

    async def retry(action):
        return await action()

    async def orchestrate(ctx, args):
        async def one(x):
            async def inner():
                return await gen(ctx, x)
            return await inner()
        show = lambda x: pure(x)
        call = lambda: ctx.run("c.d", {})
        steps = [one, gen]
        for step in steps:
            await step(ctx, show(1))
        ctx.log(str(len(steps)))
        await retry(call)
        return await ctx.parallel([one(1), call()])
"""


def test_functions_have_qualified_names_and_reach_what_they_mention() -> None:
    """A function reaches if its body, or a function that it mentions, can reach a call, or if it calls a parameter."""
    scope = _scope(NESTED)
    assert [(f.qualname, f.reaches, f.is_async) for f in scope.functions] == [
        ("pure", False, False),
        ("gen", True, True),
        ("retry", True, True),
        ("orchestrate", True, True),
        ("orchestrate.one", True, True),
        ("orchestrate.one.inner", True, True),
    ]
    assert scope.orchestrate is scope.functions[3]
    assert scope.functions[5].parent is scope.functions[4]
    assert scope.functions[1].params == ("ctx", "x")


@pytest.mark.parametrize(
    ("call", "counted"),
    [
        ("pure(x)", False),
        ("ctx.run('a.b', {'x': pure(x)})", True),
        ("action()", True),
        ("gen(ctx, x)", True),
        ("step(ctx, show(1))", True),
        ("show(1)", False),
        ("call()", True),
        ("ctx.log(str(len(steps)))", False),
        ("len(steps)", False),
        ("retry(call)", True),
        ("ctx.parallel([one(1), call()])", True),
    ],
)
def test_calls_that_can_reach_the_outside_are_counted(call: str, counted: bool) -> None:
    """Pure helpers, builtins, `log` and `phase` are not."""
    scope = _scope(NESTED)
    assert scope.counted(_calls(scope)[call]) is counted


def test_a_callee_is_a_function_a_parameter_or_nothing_known() -> None:
    """Names are resolved lexically; a local that is bound to functions stands for one of them."""
    scope = _scope(NESTED)
    calls = _calls(scope)
    gen = scope.callee(calls["gen(ctx, x)"])
    assert isinstance(gen, Function)
    assert gen.qualname == "gen"
    assert isinstance(scope.callee(calls["action()"]), Parameter)
    assert scope.callee(calls["step(ctx, show(1))"]) is None
    assert scope.callee(calls["len(steps)"]) is None


def test_a_call_in_a_lambda_belongs_to_the_def_it_is_written_in() -> None:
    """Lambdas and comprehensions are no functions."""
    scope = _scope(NESTED)
    function = scope.enclosing(_calls(scope)["ctx.run('c.d', {})"])
    assert function is scope.orchestrate


def test_ctx_calls_know_method_and_capability() -> None:
    """Only a literal capability is known."""
    scope = _scope(
        "async def orchestrate(ctx, args):\n    await ctx.run(args, {})\n    await ctx.now()\n    ctx.other()\n"
    )
    methods = [scope.ctx_call(call) for call in scope.index[ast.Call]]
    assert [(m.method, m.capability, m.kind) if m else None for m in methods] == [
        ("run", None, "run"),
        ("now", None, "read"),
        None,
    ]


def test_reaching_functions_of_one_name_are_numbered_and_pure_ones_take_no_number() -> None:
    """In source order; a nested function carries its parent's number."""
    scope = _scope(
        """
        async def orchestrate(ctx, args):
            if args:
                async def gen(x):
                    return await ctx.run("a.b", {})
            elif ctx:
                def gen(x):
                    return x
            else:
                async def gen(x):
                    async def deep():
                        return await ctx.run("a.b", {})
                    return await deep()
            return await gen(1)
        """
    )
    assert [f.qualname for f in scope.functions] == [
        "orchestrate",
        "orchestrate.gen",
        "orchestrate.gen",
        "orchestrate.gen~1",
        "orchestrate.gen~1.deep",
    ]


def test_names_follow_pythons_scopes() -> None:
    """A walrus leaves a comprehension, `nonlocal` binds outside, a loop variable hides an outer name."""
    scope = _scope(
        """
        x = 1
        def f(a):
            y = 2
            def g():
                nonlocal y
                y = lambda: 3
                return y()
            z = [(w := i) for i in a]
            return w, x, [x for x in z], g
        """
    )
    homes = {}
    for node in scope.index[ast.Name]:
        assert isinstance(node, ast.Name)
        home = scope.frames[node].home(node.id)
        homes.setdefault(node.id, set()).add(None if home is None else home.kind)
    assert homes["w"] == {"f"}
    assert homes["y"] == {"f"}
    assert homes["i"] == {"c"}
    assert homes["x"] == {"m", "c"}


def test_every_node_has_its_parent_and_is_indexed_once() -> None:
    """In the order of the source, with all that `ast.walk` finds but contexts, operators and argument lists."""
    tree = ast.parse(textwrap.dedent(NESTED))
    scope = analyse(tree)
    skipped = (ast.expr_context, ast.operator, ast.cmpop, ast.unaryop, ast.boolop, ast.arguments, ast.Module)
    expected = {node for node in ast.walk(tree) if not isinstance(node, skipped)}
    indexed = [node for nodes in scope.index.values() for node in nodes]
    assert len(indexed) == len(set(indexed))
    assert set(indexed) == expected
    assert set(scope.parent) == expected
