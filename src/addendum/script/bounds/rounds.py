"""One round of a loop's analysis: the body run once from a state that covers the start of every iteration."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from addendum.script.bounds.machine import Exits, Machine
from addendum.script.bounds.state import Cost, Key, State
from addendum.script.bounds.values import Coro, Obj, V, interval, renumbered

Step = Callable[[State, int], frozenset[int]]
"""Begins an iteration, and says which lists are walked lazily."""


@dataclass(slots=True)
class Round:
    """One run of the body: the state at its start, where it goes back to the start, and what one iteration costs.
    `left` are the states that leave the loop in it, `breaks` those that stay in the function."""

    uid: int
    begin_vars: dict[Key, V]
    begin_heap: dict[int, Obj]
    walked: frozenset[int]
    missing: set[Key]
    head_vars: dict[Key, V]
    head_heap: dict[int, Obj]
    back: State
    breaks: list[State]
    left: list[State]
    thrown: State | None


def run_once(
    machine: Machine, start: State, cover: State, enter: Step, body: Callable[[State], None], assuming: bool
) -> Round:
    """Run enter and body once, from a state that covers the start of an iteration."""
    uid = machine.fresh()
    state = cover.copy()
    machine.steps -= (len(state.vars) + len(state.heap)) >> 4  # a large state costs more to copy and to compare
    state.cost = {}
    state.shared = {}
    state.late = {}
    for key, value in cover.vars.items():
        num = value.num
        if num is not None and key[0]:  # a module's constants don't change
            state.vars[key] = renumbered(value, interval(num.lo, num.hi, (uid, key, 1)))
    for ident, obj in cover.heap.items():
        if obj.glo or obj.ghi:
            state.heap[ident] = obj._replace(glo=0, ghi=0)
    outer_missing, machine.missing = machine.missing, set()
    exits = Exits()
    machine.exits.append(exits)
    thrown: State | None = None
    if machine.handlers:
        thrown = state.copy()
        machine.handlers.append(thrown)
    marks = len(machine.returns), len(machine.ends)
    machine.active.append(uid)
    machine.paid.append(start.cost)
    begin_vars, begin_heap = state.vars.copy(), state.heap.copy()
    machine.begins[uid] = begin_vars
    if assuming:
        machine.starts[uid] = start
    walked = enter(state, uid)
    if thrown is not None:
        thrown.absorb(state)
    head_vars, head_heap = state.vars.copy(), state.heap.copy()
    if not state.dead:
        body(state)
    if thrown is not None:
        machine.handlers.pop()
    machine.exits.pop()
    machine.active.pop()
    machine.paid.pop()
    del machine.begins[uid]
    for other in exits.continues:
        state.absorb(other)
    missing, machine.missing = machine.missing, outer_missing | machine.missing
    left = [*exits.breaks, *[end for end, _ in machine.returns[marks[0] :]], *machine.ends[marks[1] :]]
    return Round(uid, begin_vars, begin_heap, walked, missing, head_vars, head_heap, state, exits.breaks, left, thrown)


def assumed_rightly(machine: Machine, run: Round) -> bool:
    """Whether what `!=` was taken for (see `guards`) holds: the counter moves by single steps, one way, and the
    test stands on every path back to the start."""
    del machine.starts[run.uid]
    for what, rising, other in machine.assumed.pop(run.uid, ()):
        if run.back.dead:
            continue
        if isinstance(what, int):
            obj = run.back.heap.get(what)
            if obj is None:
                return False
            low, high, lo, hi = obj.glo, obj.ghi, obj.lo, obj.hi
        else:
            value = run.back.vars.get(what)
            num = value.num if value is not None else None
            if value is None or num is None or num.sym != (run.uid, what, 1) or value.real:
                return False
            low, high, lo, hi = num.dlo, num.dhi, num.lo, num.hi
        if rising and not (low >= 0 and high <= 1 and hi <= other):
            return False
        if not rising and not (low >= -1 and high <= 0 and lo >= other):
            return False
    return True


def grew_while_walked(run: Round) -> bool:
    """Whether a list that the loop walks got longer in the body."""
    return not run.back.dead and any(ref in run.back.heap and run.back.heap[ref].ghi > 0 for ref in run.walked)


def reaches(cost: Cost) -> bool:
    """Whether a cost has a call in it; a coroutine that was only made is none yet."""
    return any(count and not isinstance(key, Coro) for key, count in cost.items())
