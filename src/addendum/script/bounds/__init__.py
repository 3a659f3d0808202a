"""How often loops, fan-outs and calls can run at most: an upper bound on every run (DESIGN section 2, R03 and R05).

`analyse` runs the script on abstract values (`machine`), one idiom family a module. What has no bound is None
in the tables and a `Problem` for the rules.
"""

from __future__ import annotations

import ast
from dataclasses import dataclass, field
from typing import Final

from addendum.script.bounds import comprehensions, expressions, fanouts, functions, methods, statements
from addendum.script.bounds.calls import Args, bind_params, run_body
from addendum.script.bounds.contents import mix
from addendum.script.bounds.machine import Machine, Problem, TooInvolved
from addendum.script.bounds.state import Cost, State, peak
from addendum.script.bounds.values import INF, TOP, Count
from addendum.script.scope import COMPREHENSIONS, Scope

__all__ = ["Bounds", "Problem", "analyse"]

_FAMILIES = (comprehensions, expressions, fanouts, functions, methods, statements)
"""Imported for what they register with the machine."""


@dataclass(slots=True)
class Bounds:
    """The bounds by node, None where there is none.

    `loops`: iterations of a `for` or `while` per entry, and of a comprehension's generators. `fanouts`: width
    per call. `multiplicity`: how often a call can run per entry of its function body or loop iteration.
    `calls_per_run`: worst case of one `ctx.run` over a whole run. `worst_case`: by capability. `set_walks` are
    expressions that are walked and may be sets; `unawaited` calls make coroutines that nobody runs, `misused`
    ones make coroutines that are read as data. `trusted` are ends of slices that are taken not to be negative,
    which has to be checked where they are computed. `changed` are changes of what top-level names hold, under whatever
    name. `entered` are the functions that a run can come to.
    """

    loops: dict[ast.AST, int | None] = field(default_factory=dict)
    fanouts: dict[ast.Call, int | None] = field(default_factory=dict)
    multiplicity: dict[ast.Call, int | None] = field(default_factory=dict)
    calls_per_run: dict[ast.Call, int | None] = field(default_factory=dict)
    worst_case: dict[str, int | None] = field(default_factory=dict)
    problems: tuple[Problem, ...] = ()
    set_walks: tuple[ast.AST, ...] = ()
    unawaited: tuple[ast.Call, ...] = ()
    misused: tuple[ast.Call, ...] = ()
    trusted: tuple[ast.expr, ...] = ()
    changed: tuple[ast.AST, ...] = ()
    entered: frozenset[ast.AST] = frozenset()


def analyse(scope: Scope, max_steps: int = 24_000, max_bound: int = 1_000_000) -> Bounds:
    """Bound every loop, fan-out and call that the script's entry can reach. Pure; raises nothing."""
    machine = Machine(scope, max_steps, max_bound)
    st = State({}, {}, {})
    cost: Cost = {}
    try:
        machine.block(scope.tree.body, st)
        machine.shared = mix([value for (act, _), value in st.vars.items() if act == machine.act.key], st).refs
        if scope.orchestrate is not None and not st.dead:
            cost = _run(machine, scope, st)
    except TooInvolved as error:
        machine.quiet = 0
        machine.problem("involved", error.node, error.why)
    except (RecursionError, KeyError, IndexError, TypeError, ValueError, ArithmeticError, AssertionError):
        # What the analysis itself can't do is no bound either.
        machine.quiet = 0
        machine.problem("involved", scope.orchestrate.node if scope.orchestrate else scope.tree, "steps")
    return _tables(machine, scope, cost)


def _run(machine: Machine, scope: Scope, st: State) -> Cost:
    assert scope.orchestrate is not None
    node = scope.orchestrate.node
    closures = [c for key, value in st.vars.items() if key == (0, "orchestrate") for c in value.funcs if c.node is node]
    if not closures:
        return {}
    start = ast.Call(ast.Name("orchestrate"), [], [], lineno=node.lineno, col_offset=node.col_offset)
    params = bind_params(machine, closures[0], Args([TOP, TOP]), st)
    run_body(machine, closures[0], params, st, start, machine.act)
    cost = st.cost
    for end in machine.ends:
        cost = peak(cost, end.cost)
    return cost


def _tables(machine: Machine, scope: Scope, cost: Cost) -> Bounds:
    involved = any(problem.kind == "involved" for problem in machine.problems.values())
    out = Bounds(
        problems=tuple(sorted(machine.problems.values(), key=_place)),
        set_walks=tuple(machine.set_walks),
        trusted=tuple(machine.trusted),
        changed=tuple(machine.changed),
        entered=frozenset() if involved else frozenset([act.names.node for act in machine.acts.values()]),
    )
    if not involved:
        out.unawaited = tuple(node for node in machine.made if node not in machine.ran)
        out.misused = tuple(machine.misused)
    for node, count in machine.loops.items():
        out.loops[node] = _whole(count)
    for fanout, count in machine.fanouts.items():
        assert isinstance(fanout, ast.Call)
        out.fanouts[fanout] = _whole(count)
    for call in scope.index[ast.Call]:
        assert isinstance(call, ast.Call)
        method = scope.ctx_call(call)
        if method is not None and method.method == "run":
            out.calls_per_run[call] = None if involved else _whole(cost.get(call, 0))
            name = method.capability
            if name is not None and name not in out.worst_case:
                out.worst_case[name] = None if involved else _whole(cost.get(name, 0))
    for call in scope.index[ast.Call]:
        assert isinstance(call, ast.Call)
        if scope.counted(call):
            out.multiplicity[call] = None if involved else _multiplicity(scope, machine, cost, call)
    return out


def _whole(count: Count) -> int | None:
    return None if count == INF else int(count)


def _place(problem: Problem) -> tuple[int, int]:
    return getattr(problem.node, "lineno", 0), getattr(problem.node, "col_offset", 0)


_ENTERED: Final = frozenset({ast.For, ast.While, ast.AsyncFunctionDef})
_CALLED: Final = frozenset({ast.Lambda, ast.FunctionDef})


def _multiplicity(scope: Scope, machine: Machine, cost: Cost, call: ast.Call) -> int | None:
    """The product of the bounds of the comprehensions around a call, up to the loop or function it stands in.

    A call in a lambda or a sync function runs as often as that is called, so its count over a run stands for it.
    """
    total: Count = 1
    node: ast.AST = call
    while True:
        above = scope.parent.get(node)
        kind = type(above)
        if above is None or kind in _ENTERED:
            return _whole(total)
        if kind in _CALLED:
            return _whole(cost[call]) if call in cost else None
        if isinstance(above, COMPREHENSIONS):
            for at, generator in enumerate(above.generators):
                if node is generator and at == 0 and not _within(scope, call, generator.ifs):
                    break
                total *= machine.loops.get(generator, 1) or 1
                if node is generator:
                    break
        node = above


def _within(scope: Scope, node: ast.AST, roots: list[ast.expr]) -> bool:
    while node is not None:
        if node in roots:
            return True
        node = scope.parent.get(node)  # type: ignore[assignment]
    return False
