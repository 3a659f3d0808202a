"""Conditions that are evaluated on the way: where they hold, and where they don't.

One that changes something, as `n < 3 and await more()` may, is split where Python splits it: each part is judged by
what held when that part was evaluated.
"""

from __future__ import annotations

import ast

from addendum.script.bounds.guards import decide, refine
from addendum.script.bounds.machine import Machine
from addendum.script.bounds.state import State, nowhere


def fork(machine: Machine, test: ast.expr, st: State) -> State:
    """Evaluate a condition: `st` becomes the state where it holds, what is returned is the one where it doesn't."""
    if test in machine.busy:
        if isinstance(test, ast.BoolOp):
            return _parts(machine, test, st)
        if isinstance(test, ast.UnaryOp) and isinstance(test.op, ast.Not):
            holds = st.copy()
            st.become(fork(machine, test.operand, holds))
            return holds
        machine.eval(test, st)
    verdict = decide(machine, test, st)
    if verdict is True:
        return nowhere()
    other = st.copy()
    if verdict is False:
        st.dead = True
        return other
    refine(machine, test, True, st)
    refine(machine, test, False, other)
    return other


def hold(machine: Machine, test: ast.expr, truth: bool, st: State) -> None:
    """Evaluate a condition, and go on only where it is `truth`."""
    if test in machine.busy:
        other = fork(machine, test, st)
        if not truth:
            st.become(other)
    elif decide(machine, test, st) is not truth:
        refine(machine, test, truth, st)


def _parts(machine: Machine, test: ast.BoolOp, st: State) -> State:
    """`and`, `or`: a part is evaluated only where those before it let it."""
    wanted = isinstance(test.op, ast.And)
    stopped = nowhere()
    for part in test.values:
        other = fork(machine, part, st)
        stopped.absorb(other if wanted else st)
        if not wanted:
            st.become(other)
        if st.dead:
            break
    if wanted:
        return stopped
    going = st.copy()
    st.become(stopped)
    return going
