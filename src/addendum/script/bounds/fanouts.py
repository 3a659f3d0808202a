"""Calls of `ctx`: what one costs, and fan-outs: how wide they are, what their branches cost and return.

A branch may run before, after or between the steps of every other one. So a fan-out is run like a loop whose
iterations are branches in any order, and what a branch changes outside itself is unknown to the others.
"""

from __future__ import annotations

import ast
from collections.abc import Iterable

from addendum.script.bounds.calls import Args, apply, arguments, await_value, run_coro
from addendum.script.bounds.contents import contents, elements, length, mix, plain
from addendum.script.bounds.expressions import positions
from addendum.script.bounds.loops import iterate
from addendum.script.bounds.machine import CALLED, Machine
from addendum.script.bounds.sharing import shared_length
from addendum.script.bounds.state import Cost, Key, State, least, nowhere, peak, plus
from addendum.script.bounds.values import (
    BOTTOM,
    INF,
    NONE,
    TOP,
    Closure,
    Coro,
    Count,
    Num,
    Obj,
    Share,
    V,
    integer,
    join,
    join_all,
    present,
    said,
)
from addendum.script.scope import FANOUTS, READS, SHOWN


def ctx_method(machine: Machine, node: ast.Call, st: State, *, awaited: bool) -> V:
    """`ctx.method(...)`: runs at once when it is awaited, else makes a coroutine."""
    method = node.func.attr if isinstance(node.func, ast.Attribute) else ""
    if method not in FANOUTS:
        for part in [*node.args, *[keyword.value for keyword in node.keywords]]:
            machine.settle(part, st)
        if method in SHOWN:
            return NONE
    else:
        args = arguments(machine, node, st)
        params = [(str(at), value) for at, value in enumerate(args.items)]
        params += list(args.named.items())
        if args.star is not None:
            params.append(("*", args.star))
        if awaited:
            return perform(machine, node, tuple(params), st)
        return _made(machine, node, tuple(params), st)
    if awaited:
        return perform(machine, node, (), st)
    return _made(machine, node, (), st)


def _made(machine: Machine, node: ast.Call, params: tuple[tuple[str, V], ...], st: State) -> V:
    coro = machine.coro(node, None, machine.act, tuple((name, plain(value)) for name, value in params))
    st.spend(coro)
    return V(coros=frozenset((coro,)))


def perform(machine: Machine, node: ast.Call, params: tuple[tuple[str, V], ...], st: State) -> V:
    """What a ctx method does when it is awaited."""
    method = node.func.attr if isinstance(node.func, ast.Attribute) else ""
    if machine.watch is not None:
        machine.watch.absorb(st)  # others run while this is waited for
    if method == "run":
        st.spend(node)
        capability = node.args[0].value if node.args and isinstance(node.args[0], ast.Constant) else None
        if isinstance(capability, str):
            st.spend(capability)
        if machine.handlers:
            machine.handlers[-1].absorb(st)
        return TOP
    if method in READS:
        st.spend(node)
        return TOP
    given = dict(params)
    errors = given.get("return_errors") is not None
    if method == "pipeline":
        return _pipeline(machine, node, params, errors, st)
    if method == "dag":
        return _dag(machine, node, given.get("0", NONE), errors, st)
    if method in ("parallel", "race"):
        source = given.get("0", NONE)
        if "*" in given:
            source = join(source, given["*"])
        return _parallel(machine, node, source, errors, method == "race", st)
    return mix([value for _, value in params], st)


def _parallel(machine: Machine, node: ast.Call, source: V, errors: bool, race: bool, st: State) -> V:
    low, width = length(source, st)
    _note_width(machine, node, width)
    known = positions(source, st)
    coros = _coros(source, st)
    counts = [st.cost.get(coro) for coro in coros]
    costs: dict[Coro, Cost] = {}
    places = {coro: (-2, f"<branch {at} of {_where(node)}>") for at, coro in enumerate(coros)}

    def branch(coro: Coro, state: State) -> V:
        return (
            await_value(machine, run_coro(machine, coro, state), state)
            if coro.closure is None
            else run_coro(machine, coro, state)
        )

    def body(state: State) -> None:
        _one_of(machine, state, [(coro, lambda s, c=coro: branch(c, s), places[coro]) for coro in coros], costs)

    share = shared_length(machine, source, st)
    _branches(machine, node, st, width, body)
    results = {coro: st.vars.pop(places[coro], BOTTOM) for coro in coros}
    _charge(machine, st, width, counts, [costs.get(coro, {}) for coro in coros], known, coros, costs, share)
    return _results(machine, node, st, (low, width), known, results, errors, race)


def _coros(source: V, st: State) -> list[Coro]:
    inner = elements(source, st)
    return sorted(inner.coros, key=lambda coro: (coro.node.lineno, coro.node.col_offset, coro.act.key, id(coro)))


def _where(node: ast.Call) -> str:
    return f"{node.lineno}:{node.col_offset}"


def _note_width(machine: Machine, node: ast.Call, width: Count) -> None:
    machine.note(machine.fanouts, node, width)
    if width > machine.max_bound:
        machine.problem("fanout", node, "unbounded" if width == INF else "huge")


def _one_of(
    machine: Machine, state: State, branches: list[tuple[Coro, object, tuple[int, str]]], costs: dict[Coro, Cost]
) -> None:
    """Run each branch on a copy of the state; the state becomes the join of before and after any of them."""
    ends: list[State] = []
    for coro, run, place in branches:
        one = state.copy()
        one.cost = {}
        failed = _guarded(machine, [coro.closure] if coro.closure is not None else [])
        value = run(one)  # type: ignore[operator]
        costs[coro] = _with_failures(machine, failed, one, state)
        one.vars[place] = join(plain(value), one.vars.get(place, BOTTOM))
        ends.append(one)
    for one in ends:
        state.absorb(one)


def _guarded(machine: Machine, functions: Iterable[Closure]) -> tuple[int, State | None]:
    """Prepare for errors that end a branch: where the raised ones will be, and what it may have changed by then."""
    failed = nowhere() if any(machine.mutates(function.node) for function in functions) else None
    if failed is not None:
        machine.handlers.append(failed)
    return len(machine.ends), failed


def _with_failures(machine: Machine, failures: tuple[int, State | None], one: State, state: State) -> Cost:
    """What a branch costs, also if it ends by an error; what it changed before the error stays changed."""
    mark, failed = failures
    cost = one.cost
    if failed is not None:
        machine.handlers.pop()
        cost = peak(cost, failed.cost)
        failed.cost = {}
        state.absorb(failed)
    for end in machine.ends[mark:]:
        cost = peak(cost, end.cost)
        end.cost = {}
        state.absorb(end)
    del machine.ends[mark:]
    return cost


def _branches(machine: Machine, node: ast.Call, st: State, width: Count, body: object) -> None:
    """Run the branches like iterations, again with what they changed unknown when there are several."""
    start_cost = st.cost
    # A fan-out is a barrier: an error leaves it when all branches have ended, so no state inside is seen outside.
    saved, machine.exits, machine.handlers = (machine.exits, machine.handlers), [], []
    ends = len(machine.ends)

    def enter(state: State, uid: int) -> frozenset[int]:
        return frozenset()

    first = st.copy()
    seen = nowhere()
    outer, machine.watch = machine.watch, seen
    iterate(machine, node, st, width, enter, body)  # type: ignore[arg-type]
    if width > 1:
        changed, grown = _seen_changes(first, st, seen)
        if changed or grown:
            volatile = machine.volatile_vars, machine.volatile_refs
            machine.volatile_vars, machine.volatile_refs = volatile[0] | changed, volatile[1] | grown
            for ref, obj in [*st.heap.items(), *seen.heap.items()]:
                first.heap.setdefault(ref, obj)
            for key in changed:
                value = join(join(first.vars[key], st.vars[key]), join(seen.vars.get(key, BOTTOM), TOP))
                first.vars[key] = value._replace(num=Num()) if value.num is not None else value
            iterate(machine, node, first, width, enter, body)  # type: ignore[arg-type]
            machine.volatile_vars, machine.volatile_refs = volatile
            st.become(first)
    machine.watch = outer
    if outer is not None:
        outer.absorb(seen)
    machine.exits, machine.handlers = saved
    del machine.ends[ends:]
    st.cost = start_cost


def _seen_changes(first: State, last: State, seen: State) -> tuple[frozenset[Key], frozenset[int]]:
    """The variables and objects that branches change, be it only until they go on from a wait: the others see it.

    What an object is in between, if that isn't what it is in the end, is put into `first`.
    """
    changed = set()
    for key, value in first.vars.items():
        if _changed(value, last.vars.get(key, value)) or _changed(value, seen.vars.get(key, value)):
            changed.add(key)
    grown = set()
    for ref, obj in list(first.heap.items()):
        end, mid = last.heap[ref], seen.heap.get(ref, obj)
        if (end.lo, end.hi) != (obj.lo, obj.hi) or (mid.lo, mid.hi) != (obj.lo, obj.hi):
            grown.add(ref)
        if mid.hi > end.hi or mid.lo < end.lo or _replaced(obj, end, mid):
            grown.add(ref)
            elem, names = join_all([obj.elem, end.elem, mid.elem]), join_all([obj.key, end.key, mid.key])
            most = INF if mid.hi > end.hi else obj.hi
            first.heap[ref] = obj._replace(lo=0, hi=most, elem=plain(elem), key=plain(names), fields=None, share=None)
    return frozenset(changed), frozenset(grown)


def _replaced(first: Obj, last: Obj, seen: Obj) -> bool:
    """Whether an entry got another value, or has another one in between."""
    if seen is first and last is first:
        return False
    begin: dict[object, V] = dict(first.fields or ())
    between: dict[object, V] = dict(seen.fields or ())
    end: dict[object, V] = dict(last.fields or ())
    if any(end.get(name, value) != value or between.get(name, value) != value for name, value in begin.items()):
        return True
    return any(present(value) != present(end.get(name, value)) for name, value in between.items())


def _changed(before: V, after: V) -> bool:
    """Whether a variable was bound anew; the symbol that an iteration gives it doesn't count."""
    if before is after or before == after:
        return False
    left, right = before.num, after.num
    same = left is not None and right is not None and (left.lo, left.hi) == (right.lo, right.hi)
    return not (same and before._replace(num=None) == after._replace(num=None))


def _charge(
    machine: Machine,
    st: State,
    width: Count,
    counts: list[Count | None],
    costs: list[Cost],
    known: list[V] | None,
    coros: list[Coro],
    by_coro: dict[Coro, Cost],
    share: Share | None,
) -> None:
    """Charge the branches: width times the dearest, and no more than once for each coroutine that was made.

    In a loop those that earlier iterations made are paid for by what is charged in each; the rest falls due if the loop
    is left at once. Those that were made before the loop are in no such account.
    """
    dearest: Cost = {}
    for cost in costs:
        dearest = peak(dearest, cost)
    total = plus({}, dearest, width)
    if known is not None:
        exact: Cost = {}
        for item in known:
            one: Cost = {}
            for coro in item.coros:
                one = peak(one, by_coro.get(coro, {}))
            exact = plus(exact, one)
        total = least(total, exact)
    late: Cost = {}
    before = any(coro in paid for paid in machine.paid for coro in coros)
    if counts and all(count is not None for count in counts) and not before:
        made: Cost = {}
        for count, cost in zip(counts, costs, strict=True):
            made = plus(made, cost, count or 0)
        whole, total = total, least(total, made)
        late = {key: count - total.get(key, 0) for key, count in whole.items() if count > total.get(key, 0)}
    # What is left of these coroutines, if anything, is counted by the width of the list it is in.
    st.cost = {key: count for key, count in st.cost.items() if key not in by_coro}
    if share is not None:
        st.divide(share, dearest)
    else:
        st.charge(total)
        if machine.active:
            st.late = plus(st.late, late)


def _results(
    machine: Machine,
    node: ast.Call,
    st: State,
    lengths: tuple[Count, Count],
    known: list[V] | None,
    results: dict[Coro, V],
    errors: bool,
    race: bool,
) -> V:
    every = BOTTOM
    for value in results.values():
        every = join(every, value)
    if race:
        return every if every != BOTTOM else TOP
    failed = TOP if errors else BOTTOM
    fields = None
    if known is not None:
        items = []
        for item in known:
            one = failed
            for coro in item.coros:
                one = join(one, results.get(coro, TOP))
            items.append(plain(one) if one != BOTTOM else NONE)
        fields = tuple(enumerate(items))
    elem = join(every, failed)
    return machine.new(
        st, Obj("list", lengths[0], lengths[1], elem if elem != BOTTOM else NONE, fields=fields, site=node)
    )


def _pipeline(machine: Machine, node: ast.Call, params: tuple[tuple[str, V], ...], errors: bool, st: State) -> V:
    given = dict(params)
    source = given.get("0", NONE)
    low, width = length(source, st)
    _note_width(machine, node, width)
    stages = [value for name, value in params if name.isdigit() and name != "0"]
    if "*" in given:
        stages.append(given["*"])
        machine.problem("fanout", node, "unbounded")  # nobody knows how many stages there are
    item = elements(source, st)
    index = integer(0, max(0, width - 1))
    costs: list[Cost] = [{}]
    place = (-2, f"<pipeline {_where(node)}>")

    def body(state: State) -> None:
        one = state.copy()
        one.cost = {}
        failed = _guarded(machine, [function for stage in stages for function in stage.funcs])
        value = item
        for stage in stages:
            value = apply(machine, node, stage, Args([value, item, index]), one, awaited=True)
        costs[0] = _with_failures(machine, failed, one, state)
        one.vars[place] = join(plain(value), one.vars.get(place, BOTTOM))
        state.absorb(one)

    share = shared_length(machine, source, st)
    _branches(machine, node, st, width, body)
    result = st.vars.pop(place, BOTTOM)
    if share is not None:
        st.divide(share, costs[0])
    else:
        st.charge(costs[0], width)
    elem = join(result, TOP if errors else BOTTOM)
    return machine.new(st, Obj("list", low, width, elem if elem != BOTTOM else NONE, site=node))


def _dag(machine: Machine, node: ast.Call, source: V, errors: bool, st: State) -> V:
    """Each node's function runs once, after those it depends on, with their results."""
    width = length(source, st)[1]
    _note_width(machine, node, width)
    fields: tuple[tuple[object, V], ...] | None = None
    if len(source.refs) == 1 and not source.top and source.seq is None:
        fields = st.heap[next(iter(source.refs))].fields
    entries = list(fields) if fields is not None else [(None, contents(source, st))]
    costs: dict[object, Cost] = {}
    results: dict[object, V] = {}

    def body(state: State) -> None:
        done: dict[object, V] = {}
        waiting = list(entries)
        one = state.copy()
        while waiting:
            ready = [entry for entry in waiting if all(dep in done for dep in _needs(entry[1], one) or ())]
            for name, entry in ready or waiting:
                needs = _needs(entry, one)
                args = (
                    Args([done.get(dep, TOP) for dep in needs])
                    if needs is not None
                    else Args(star=mix(results.values(), one))
                )
                one.cost = {}
                function = _function(entry, one)
                failed = _guarded(machine, function.funcs)
                value = apply(machine, node, function, args, one, awaited=True)
                costs[name] = _with_failures(machine, failed, one, state)
                one.dead = False
                done[name] = join(plain(value), TOP) if errors else plain(value)
                results[name] = join(done[name], results.get(name, BOTTOM))
            waiting = [entry for entry in waiting if entry[0] not in done]
        for name, value in done.items():
            one.vars[(-2, f"<dag {_where(node)} {name!r}>")] = value
        one.cost = {}
        state.absorb(one)

    _branches(machine, node, st, 2 if width > 1 else width, body)
    for name in list(results):
        results[name] = st.vars.pop((-2, f"<dag {_where(node)} {name!r}>"), results[name])
    for cost in costs.values():
        st.charge(cost, 1 if fields is not None else width)
    every = BOTTOM
    for value in results.values():
        every = join(every, value)
    known = tuple(results.items()) if fields is not None and results else None
    lo = len(results) if known is not None else 0
    return machine.new(st, Obj("dict", min(lo, width), width, every, elements(source, st), fields=known, site=node))


def _function(entry: V, st: State) -> V:
    known = positions(entry, st)
    return known[0] if known else contents(entry, st)


def _needs(entry: V, st: State) -> list[str] | None:
    """The names that a node depends on, when each is known."""
    known = positions(entry, st)
    if known is None or len(known) < 2:
        return None
    names = positions(known[1], st)
    texts = [said(name) for name in names or ()]
    return None if names is None or None in texts else [text for text in texts if text is not None]


CALLED.update({"ctx": ctx_method, "perform": perform})
