"""Loops that end because what they walk gets shorter in every round, by more than counting shows.

`while len(entries) > 1: entries = winners` has no counter: each round halves a list. If the list that the test asks
about has a known length, the rounds are run one after the other, as long as it gets shorter in each.
"""

from __future__ import annotations

import ast
from typing import Final

from addendum.script.bounds.conditions import fork
from addendum.script.bounds.contents import length
from addendum.script.bounds.machine import Exits, Machine
from addendum.script.bounds.state import State, nowhere
from addendum.script.bounds.values import INF, Count

MAX_STEPS: Final = 12
"""How many rounds are run one by one."""


def in_steps(machine: Machine, node: ast.While, st: State) -> list[State] | None:
    """Run a loop round by round on `st`, whose state then is the one where it ends by its test.

    Returns the states of the breaks; None, with nothing changed, if its rounds have to be counted in another way.
    """
    lists = _asked(machine, node, st)
    if not lists:
        return None
    machine.quiet += 1
    outer = machine.handlers
    machine.handlers = [*outer, nowhere()] if outer else outer
    marks = len(machine.returns), len(machine.ends)
    try:
        ends = _rounds(machine, node, st.copy(), lists)
    finally:
        machine.handlers = outer
        machine.quiet -= 1
        del machine.returns[marks[0] :], machine.ends[marks[1] :]
    if ends is None:
        return None
    found = _rounds(machine, node, st, lists)  # the same again, for its problems and its ways out
    assert found is not None
    return found


def _asked(machine: Machine, node: ast.While, st: State) -> list[ast.Name]:
    """The lists of known lengths that the test asks about, or, where that is a constant, the conditions in the body."""
    tests: list[ast.expr] = [node.test]
    if isinstance(node.test, ast.Constant):
        tests = [part.test for part in ast.walk(node) if isinstance(part, ast.If)]
    names = [part for test in tests for part in ast.walk(test) if isinstance(part, ast.Name)]
    return [name for name in names if _size(machine, name, st) < INF]


def _size(machine: Machine, name: ast.Name, st: State) -> Count:
    key = machine.place(name)
    value = st.vars.get(key) if key is not None and key not in machine.volatile_vars else None
    if value is None or value.top or value.num is not None or not (value.refs or value.seq):
        return INF
    return length(value, st)[1]


def _rounds(machine: Machine, node: ast.While, st: State, lists: list[ast.Name]) -> list[State] | None:
    done = nowhere()
    exits = Exits()
    machine.exits.append(exits)
    try:
        for step in range(MAX_STEPS + 1):
            done.absorb(fork(machine, node.test, st))
            if st.dead:
                machine.note(machine.loops, node, step)
                st.become(done)
                return exits.breaks
            if not _shorter(machine, node, st, exits, lists):
                return None
    finally:
        machine.exits.pop()
    return None


def _shorter(machine: Machine, node: ast.While, st: State, exits: Exits, lists: list[ast.Name]) -> bool:
    """Run one round, and say whether it made one of the lists shorter; it did if there is none after it."""
    before = [_size(machine, name, st) for name in lists]
    machine.block(node.body, st)
    for state in exits.continues:
        st.absorb(state)
    exits.continues.clear()
    return st.dead or any(_size(machine, name, st) < then for name, then in zip(lists, before, strict=True))
