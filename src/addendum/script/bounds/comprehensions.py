"""Comprehensions and generator expressions: as many elements as their iterables allow, each filter may drop some."""

from __future__ import annotations

import ast
from typing import Final

from addendum.script.bounds.conditions import hold
from addendum.script.bounds.contents import length, plain, sources, stirred
from addendum.script.bounds.loops import iterate, reaches
from addendum.script.bounds.machine import EXPRESSIONS, Machine
from addendum.script.bounds.sharing import shared_length, sharing
from addendum.script.bounds.state import State
from addendum.script.bounds.statements import apart, assign, walk
from addendum.script.bounds.values import BOTTOM, INF, NONE, Act, Count, Obj, Share, V, join_all, times

_LISTS: Final = (ast.ListComp, ast.GeneratorExp)
Comprehension = ast.ListComp | ast.SetComp | ast.DictComp | ast.GeneratorExp


def comprehension(machine: Machine, node: Comprehension, st: State) -> V:
    """Run the generators as nested loops; the value of the last run is the element."""
    first = machine.eval(node.generators[0].iter, st)
    act = machine.act
    names = machine.scope.inner[node]
    machine.act = machine.activation(names, act, node)
    if len(node.generators) == 1 and not node.generators[0].ifs and isinstance(node, _LISTS):
        known = apart(first, st)
        out = None if known is None else _one_by_one(machine, node, known, first, act, st)
        if out is not None:
            return out
    place, place_key = (machine.act.key, "<element>"), (machine.act.key, "<key>")
    try:
        lo, hi, share = _generate(machine, node, 0, first, st, place, place_key)
    finally:
        key = machine.act.key
        machine.act = act
    elem = st.vars.pop(place, BOTTOM)
    entry = st.vars.pop(place_key, NONE)
    if not machine.keeps_names(names):
        st.forget([(key, name) for name in names.bindings])
    if isinstance(node, ast.DictComp):
        return machine.new(st, Obj("dict", min(lo, 1), hi, elem, entry, site=node))
    if isinstance(node, ast.SetComp):
        return machine.new(st, Obj("set", min(lo, 1), hi, elem, site=node))
    return machine.new(st, Obj("list", lo, hi, elem, site=node, share=share))


def _one_by_one(
    machine: Machine, node: ast.ListComp | ast.GeneratorExp, known: list[V], walked: V, act: Act, st: State
) -> V | None:
    """Walk a display of functions or lists element by element, see `statements.apart`; None if it changes meanwhile."""
    names = machine.act.names
    items = []
    before = {ref: st.heap[ref] for ref in sources(walked)[1]}
    trial = st.copy()
    for item in known:
        assign(machine, node.generators[0].target, item, trial)
        items.append(plain(machine.eval(node.elt, trial)))
    if stirred(before, trial) or any(trial.heap[ref].lo < obj.lo for ref, obj in before.items()):
        return None
    st.become(trial)
    key = machine.act.key
    machine.act = act
    if not machine.keeps_names(names):
        st.forget([(key, name) for name in names.bindings])
    machine.note(machine.loops, node, len(items))
    machine.note(machine.loops, node.generators[0], len(items))
    fields = tuple(enumerate(items))
    return machine.new(st, Obj("list", len(items), len(items), join_all(items), fields=fields, site=node))


def _generate(
    machine: Machine,
    node: Comprehension,
    at: int,
    iterable: V,
    st: State,
    place: tuple[int, str],
    place_key: tuple[int, str],
) -> tuple[Count, Count, Share | None]:
    """Run generator `at` and those inside it; return how many elements they make, at least and at most."""
    generator = node.generators[at]
    machine.walked(generator.iter, iterable, st)
    low = length(iterable, st)[0]
    least = {ref: st.heap[ref].lo for ref in sources(iterable)[1]}
    if generator.ifs:
        low = 0
    inner: list[tuple[Count, Count]] = []
    parts: list[Count] = []
    enter, known = walk(machine, generator.target, iterable, st)

    def body(state: State) -> None:
        inner.clear()
        parts.clear()
        for test in generator.ifs:
            hold(machine, test, True, state)
            if state.dead:
                inner.append((0, 0))
                return
        if at + 1 < len(node.generators):
            nested = machine.eval(node.generators[at + 1].iter, state)
            low, most, share = _generate(machine, node, at + 1, nested, state, place, place_key)
            inner.append((low, most))
            if share is not None and share.loop == machine.active[-1] and at + 2 == len(node.generators):
                parts.append(share.total)
            return
        inner.append((1, 1))
        if isinstance(node, ast.DictComp):
            state.vars[place_key] = plain(machine.eval(node.key, state))
            state.vars[place] = plain(machine.eval(node.value, state))
        else:
            state.vars[place] = plain(machine.eval(node.elt, state))

    share = shared_length(machine, iterable, st)
    finish = sharing(machine, st, share)
    bound, _, back = iterate(machine, generator, st, known, enter, body)
    if at == 0:
        machine.note(machine.loops, node, bound)
    machine.note(machine.loops, generator, bound)
    if bound > machine.max_bound and not back.dead and reaches(back.cost):
        machine.problem("comprehension", node, "huge" if bound != INF else "grows" if known != INF else "unbounded")
    finish(bound == known and not back.dead and reaches(back.cost), back)
    each = inner[0] if inner else (0, 0)
    if any(st.heap[ref].lo < few for ref, few in least.items()):
        low = 0  # what is walked got shorter
    # A test that stops an index makes no list shorter: Python still walks the rest.
    most = times(bound, each[1])
    if parts and not back.dead:
        most = min(most, parts[0])
    kept = share if at + 1 == len(node.generators) and bound == known else None
    return times(low, each[0]), most, kept


EXPRESSIONS.update(
    {
        ast.ListComp: comprehension,
        ast.SetComp: comprehension,
        ast.DictComp: comprehension,
        ast.GeneratorExp: comprehension,
    }
)
