"""Bounds: each idiom of `idioms/` is bounded exactly as its heading says, or refused by the rule that it names."""

from __future__ import annotations

import ast
import re
from pathlib import Path

import pytest

from addendum.script.bounds import analyse, contents, machine
from addendum.script.bounds.state import State
from addendum.script.checker import check
from addendum.script.scope import analyse as resolve

IDIOMS = Path(__file__).parent / "idioms"
_BOUNDED = re.compile(r"^# ([^\n]*): ([^\n:]*)\n```python\n(.*?)```", re.DOTALL | re.MULTILINE)
_UNBOUNDED = re.compile(r"^# (R\d\d) ([^\n]*)\n```python\n(.*?)```", re.DOTALL | re.MULTILINE)


def _bounded() -> list[object]:
    text = (IDIOMS / "bounded.md").read_text(encoding="utf-8")
    return [pytest.param(want, code, id=title) for title, want, code in _BOUNDED.findall(text)]


def _unbounded() -> list[object]:
    text = (IDIOMS / "unbounded.md").read_text(encoding="utf-8")
    return [pytest.param(rule, code, id=title) for rule, title, code in _UNBOUNDED.findall(text)]


@pytest.mark.parametrize(("want", "code"), _bounded())
def test_an_idiom_is_bounded(want: str, code: str) -> None:
    """The script is accepted, and the worst case per capability is the one in the heading."""
    report = check(code)
    assert report.ok, [str(violation) for violation in report.errors]
    expected = {part.split()[0]: int(part.split()[1]) for part in want.split(", ")}
    assert dict(report.facts.worst_case) == expected


@pytest.mark.parametrize(("rule", "code"), _unbounded())
def test_an_unbounded_one_is_refused(rule: str, code: str) -> None:
    """The rule in the heading refuses the script."""
    report = check(code)
    assert rule in {violation.rule for violation in report.errors}, [str(v) for v in report.violations]


def test_tables_are_keyed_by_the_nodes_of_the_tree() -> None:
    """Loops, fan-outs, calls per run and multiplicities are found by the node that they are about."""
    tree = ast.parse(
        "async def orchestrate(ctx, args):\n"
        "    for i in range(3):\n"
        "        await ctx.parallel([ctx.run('a.b', {'x': [await ctx.run('c.d', {}) for z in 'uv']})"
        " for x in 'abcd'])\n"
    )
    bounds = analyse(resolve(tree))
    loop = tree.body[0].body[0]  # type: ignore[attr-defined]
    fanout = loop.body[0].value.value
    branch = fanout.args[0].elt
    inner = branch.args[1].values[0].elt.value
    assert bounds.loops[loop] == 3
    assert bounds.fanouts[fanout] == 4
    assert bounds.calls_per_run[branch] == 12
    assert bounds.calls_per_run[inner] == 24
    assert bounds.multiplicity[branch] == 4
    assert bounds.multiplicity[inner] == 8
    assert bounds.multiplicity[fanout] == 1
    assert bounds.worst_case == {"a.b": 12, "c.d": 24}


def test_a_call_in_a_lambda_counts_as_often_as_the_lambda_is_called() -> None:
    """Its multiplicity is its count over the whole run, since each use of the lambda comes back to the same site."""
    tree = ast.parse(
        "async def again(action):\n"
        "    for _ in range(3):\n"
        "        await action()\n"
        "async def orchestrate(ctx, args):\n"
        "    await again(lambda: ctx.run('a.b', {}))\n"
    )
    bounds = analyse(resolve(tree))
    call = tree.body[1].body[0].value.value.args[0].body  # type: ignore[attr-defined]
    assert bounds.multiplicity[call] == 3
    assert bounds.calls_per_run[call] == 3


def test_what_has_no_bound_is_none() -> None:
    """An unbounded loop has no worst case, and neither have the calls in it."""
    tree = ast.parse(
        "async def orchestrate(ctx, args):\n"
        "    for x in args:\n        await ctx.run('a.b', {})\n    await ctx.run('c.d', {})\n"
    )
    bounds = analyse(resolve(tree))
    assert bounds.worst_case == {"a.b": None, "c.d": 1}
    assert list(bounds.loops.values()) == [None]
    assert [problem.kind for problem in bounds.problems] == ["loop"]


def test_work_is_limited() -> None:
    """A script that takes more steps than allowed is not bounded at all, and says so."""
    tree = ast.parse("async def orchestrate(ctx, args):\n" + "    await ctx.run('a.b', {})\n" * 50)
    bounds = analyse(resolve(tree), max_steps=20)
    assert bounds.worst_case == {"a.b": None}
    assert [problem.kind for problem in bounds.problems] == ["involved"]


def test_objects_that_stay_are_not_looked_at_after_each_statement(monkeypatch: pytest.MonkeyPatch) -> None:
    """What nothing leads to any more is looked for once there is twice as much as was left: 800 lines took minutes."""
    swept: list[int] = []

    def sweep(state: State) -> None:
        contents.sweep(state)
        swept.append(len(state.heap))

    monkeypatch.setattr(machine, "sweep", sweep)
    lines = [f"    x{n + 1} = x{n} if args['a'] else [x{n}]\n" for n in range(600)]
    loop = "    for x in x600[:3]:\n        await ctx.run('p.make', {})\n"
    report = check("async def orchestrate(ctx, args):\n    x0 = [1]\n" + "".join(lines) + loop)
    assert report.facts.worst_case == {"p.make": 1}
    assert len(swept) in range(1, 5)
    assert swept[-1] > 300
