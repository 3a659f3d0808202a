"""Loops: how often a body runs, and what many iterations do to variables, lists and cost.

The body is run on a state that covers the start of every iteration. Integers get a symbol for their value at
that moment and lists a growth counter, so that one run shows what *each* iteration adds; a change that isn't
an addition has to be stable, or becomes unknown. A counter that rises by at least d in every iteration and is
known to be at most H where the body starts (or ends) bounds the number of iterations by (H - start) / d + 1:
that covers `while n < K`, `while True` with a guard and a `break`, `len(done) < K`, countdowns and queues that
only shrink, whatever the way they are written.
"""

from __future__ import annotations

import ast
from collections.abc import Callable
from typing import Final

from addendum.script.bounds.counters import iterations
from addendum.script.bounds.machine import Machine, TooInvolved
from addendum.script.bounds.rounds import Round, Step, assumed_rightly, grew_while_walked, reaches, run_once
from addendum.script.bounds.state import Cost, Part, State, peak, plus
from addendum.script.bounds.values import INF, Count, Num, Obj, renumbered
from addendum.script.bounds.widening import surrender, widen

__all__ = ["Step", "iterate", "reaches"]

MAX_ROUNDS: Final = 6
_STATEMENTS: Final = frozenset({ast.For, ast.While})


def iterate(
    machine: Machine, node: ast.AST, st: State, known: Count, enter: Step, body: Callable[[State], None]
) -> tuple[Count, list[State], State]:
    """Run a loop on `st`, whose state then is the one where the loop ends by itself.

    `known` is the bound that the iterable gives (INF: none). `enter(state, round)` binds the target or takes
    the test, `body` runs the rest. Returns the bound, the states of the breaks and the last run's back edge.
    """
    start = st
    cover = st.copy()
    bound = completed = known
    mark = (len(machine.returns), len(machine.ends))
    searching = known == INF
    rounds = 0
    assuming = type(node) in _STATEMENTS
    bases: dict[int, Obj] = {}
    acts = len(machine.acts)
    while True:
        rounds += 1
        del machine.returns[mark[0] :], machine.ends[mark[1] :]
        if searching and rounds > 1:
            machine.quiet += 1
        try:
            run = run_once(machine, start, cover, enter, body, assuming)
        finally:
            if searching and rounds > 1:
                machine.quiet -= 1
        if assuming and not assumed_rightly(machine, run):
            assuming, cover, rounds = False, start.copy(), 0
            bases.clear()
            bound = completed = known
            searching = known == INF
            continue
        if run.back.dead:
            bound, completed = min(known, 1), 0
        elif known != INF and grew_while_walked(run):
            known = bound = completed = INF
            searching = True
        wider, same = widen(machine, start, cover, run, INF if searching else bound, rounds, bases)
        if same:
            if not searching:
                cover = wider
                break
            searching = False
            if not run.back.dead:
                bound, completed = iterations(machine, node, start, run)
            narrowed, _ = widen(machine, start, start, run, bound, 1, bases)
            cover = narrowed
            rounds = max(rounds, 2)
            continue
        if rounds > MAX_ROUNDS:
            bound = completed = INF
            wider = surrender(wider.copy(), start)
            if rounds > MAX_ROUNDS + 4:
                raise TooInvolved(node, "loop")
        cover = wider
    if bound > 1:
        for act in list(machine.acts.values())[acts:]:
            act.reentered = True  # there is one for each iteration
    return bound, _finish(machine, start, cover, run, (bound, completed), mark), run.back


def _finish(
    machine: Machine, start: State, cover: State, run: Round, bounds: tuple[Count, Count], mark: tuple[int, int]
) -> list[State]:
    """Turn the last run's exits into states after the loop, with the cost of all iterations before them."""
    each = run.back.cost if not run.back.dead else {}
    started, completed = bounds
    before = max(0, min(started - 1, completed))
    pre = start.cost
    shared_before = run.back.shared if not run.back.dead else {}

    def leave(state: State) -> None:
        cost = plus(plus(pre, state.cost), each, before)
        state.cost = plus(plus(cost, _own(run, state.shared, shared_before)), state.late)
        state.late = start.late
        state.shared = _outer_shared(start, run, state.shared, before)
        _outward(state, cover, run.uid)

    for state in run.breaks:
        leave(state)
    for state, _ in machine.returns[mark[0] :]:
        leave(state)
    for state in machine.ends[mark[1] :]:
        leave(state)
    if run.thrown is not None:
        leave(run.thrown)
        machine.handlers[-1].absorb(run.thrown)
    cost = plus(plus(pre, each, completed), _own(run, shared_before, {}))
    shared = _outer_shared(start, run, shared_before, before)
    late = start.late
    start.become(cover)
    start.late = late
    start.cost = cost
    start.shared = shared
    return [state for state in run.breaks if not state.dead]


def _own(run: Round, last: dict[Part, Cost], earlier: dict[Part, Cost]) -> Cost:
    """What all parts of this loop cost together, each as much as in the dearest of the last iteration and an earlier
    one."""
    out: Cost = {}
    for part in last.keys() | earlier.keys():
        if part[0] == run.uid:
            out = plus(out, peak(last.get(part, {}), earlier.get(part, {})))
    return out


def _outer_shared(start: State, run: Round, last: dict[Part, Cost], before: Count) -> dict[Part, Cost]:
    """The shares of enclosing loops: what was there, every iteration's, and the last one's."""
    out = start.shared
    for part, cost in (run.back.shared if not run.back.dead else {}).items():
        if part[0] != run.uid:
            out = {**out, part: plus(out.get(part, {}), cost, before)}
    for part, cost in last.items():
        if part[0] != run.uid:
            out = {**out, part: plus(out.get(part, {}), cost)}
    return out


def _outward(state: State, cover: State, uid: int) -> None:
    """Express a state that leaves an iteration in the symbols and growth counters outside the loop."""
    for key, value in state.vars.items():
        num = value.num
        if num is None or num.sym is None or num.sym[0] != uid:
            continue
        source = cover.vars.get(num.sym[1])
        outer = None if source is None else source.num
        if outer is None or outer.sym is None or num.sym[2] != 1:
            state.vars[key] = renumbered(value, Num(num.lo, num.hi))
        else:
            moved = Num(num.lo, num.hi, outer.sym, outer.dlo + num.dlo, outer.dhi + num.dhi)
            state.vars[key] = renumbered(value, moved)
    for ident, obj in state.heap.items():
        base = cover.heap.get(ident)
        if base is not None and (base.glo or base.ghi):
            state.heap[ident] = obj._replace(glo=base.glo + obj.glo, ghi=base.ghi + obj.ghi)
