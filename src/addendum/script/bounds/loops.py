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
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Final

from addendum.script.bounds.machine import Exits, Machine, TooInvolved, length, mix
from addendum.script.bounds.state import Cost, Key, State, plus, visit
from addendum.script.bounds.values import (
    BOTTOM,
    INF,
    TOP,
    Closure,
    Coro,
    Count,
    Num,
    Obj,
    Seq,
    V,
    join,
    join_family,
    join_obj,
    times,
)

MAX_ROUNDS: Final = 6
Step = Callable[[State, int], frozenset[int]]
"""Begins an iteration, and says which lists are walked lazily."""


@dataclass(slots=True)
class Round:
    """One run of the body: the state at its start, where it goes back to the start, and what one iteration costs."""

    uid: int
    walked: frozenset[int]
    missing: set[Key]
    head_nums: dict[Key, Num]
    head_heap: dict[int, Obj]
    back: State
    breaks: list[State]
    thrown: State | None


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
    assuming = True
    bases: dict[int, Obj] = {}
    while True:
        rounds += 1
        del machine.returns[mark[0] :], machine.ends[mark[1] :]
        if searching and rounds > 1:
            machine.quiet += 1
        try:
            run = _run(machine, start, cover, enter, body, assuming)
        finally:
            if searching and rounds > 1:
                machine.quiet -= 1
        if assuming and not _assumed_rightly(machine, run):
            assuming = False
            cover, rounds = start.copy(), 0
            bases.clear()
            bound = completed = known
            searching = known == INF
            continue
        if run.back.dead:
            bound, completed = min(known, 1), 0
        elif known != INF and _grew_while_walked(run):
            known = bound = completed = INF
            searching = True
        wider, same = _widen(machine, start, cover, run, INF if searching else bound, rounds, bases)
        if same:
            if not searching:
                cover = wider
                break
            searching = False
            if not run.back.dead:
                bound, completed = _count(machine, node, start, run)
            narrowed, _ = _widen(machine, start, start, run, bound, 1, bases)
            cover = narrowed
            rounds = max(rounds, 2)
            continue
        if rounds > MAX_ROUNDS:
            bound = completed = INF
            wider = _surrender(wider, start)
            if rounds > MAX_ROUNDS + 4:
                raise TooInvolved(node)
        cover = wider
    return bound, _finish(machine, start, cover, run, (bound, completed), mark), run.back


def _run(
    machine: Machine, start: State, cover: State, enter: Step, body: Callable[[State], None], assuming: bool
) -> Round:
    """Run enter and body once, from a state that covers the start of an iteration."""
    uid = machine.fresh()
    state = cover.copy()
    state.cost = {}
    state.shared = {}
    for key, value in state.vars.items():
        num = value.num
        if num is not None:
            state.vars[key] = value._replace(num=Num(num.lo, num.hi, (uid, key, 1), 0, 0))
    for ident, obj in state.heap.items():
        if obj.glo or obj.ghi:
            state.heap[ident] = obj._replace(glo=0, ghi=0)
    outer_missing, machine.missing = machine.missing, set()
    exits = Exits()
    machine.exits.append(exits)
    thrown: State | None = None
    if machine.handlers:
        thrown = state.copy()
        machine.handlers.append(thrown)
    machine.active.append(uid)
    machine.begins[uid] = dict(state.vars)
    if assuming:
        machine.starts[uid] = start
    walked = enter(state, uid)
    head_nums = {key: value.num for key, value in state.vars.items() if value.num is not None}
    head_heap = dict(state.heap)
    if not state.dead:
        body(state)
    if thrown is not None:
        machine.handlers.pop()
    machine.exits.pop()
    machine.active.pop()
    del machine.begins[uid]
    for other in exits.continues:
        state.absorb(other)
    missing, machine.missing = machine.missing, outer_missing | machine.missing
    return Round(uid, walked, missing, head_nums, head_heap, state, exits.breaks, thrown)


def _assumed_rightly(machine: Machine, run: Round) -> bool:
    """Whether what `!=` was taken for (see `guards.assume`) holds: the counter moves by single steps, one way."""
    del machine.starts[run.uid]
    for what, rising in machine.assumed.pop(run.uid, ()):
        if isinstance(what, int):
            obj = run.back.heap.get(what)
            low, high = (obj.glo, obj.ghi) if obj is not None else (0, 0)
        else:
            value = run.back.vars.get(what)
            num = value.num if value is not None else None
            if run.back.dead:
                continue
            if num is None or num.sym != (run.uid, what, 1):
                return False
            low, high = num.dlo, num.dhi
        if not run.back.dead and not (0 <= low and high <= 1 if rising else -1 <= low and high <= 0):
            return False
    return True


def _grew_while_walked(run: Round) -> bool:
    """Whether a list that the loop walks got longer in the body."""
    return not run.back.dead and any(ref in run.back.heap and run.back.heap[ref].ghi > 0 for ref in run.walked)


def _count(machine: Machine, node: ast.AST, start: State, run: Round) -> tuple[Count, Count]:
    """The most iterations that counters and lengths allow to start, and to come to their end.

    `run` began from a state that covers all iterations.
    """
    started: Count = INF
    completed: Count = INF
    for head, done in _limits(machine, node, start, run):
        completed = min(completed, head, done)
        started = min(started, head, done + 1)
    return max(started, 1), max(completed, 0)


def _limits(machine: Machine, node: ast.AST, start: State, run: Round) -> Iterator[tuple[Count, Count]]:
    """Pairs of the most iterations that can start by what holds at the head, and end by what holds at the back."""
    back = run.back
    for key, head in run.head_nums.items():
        value, first = back.vars.get(key), start.vars.get(key)
        if value is None or value.num is None or first is None or first.num is None or key in machine.volatile_vars:
            continue
        if value.top or value.misc or value.refs or value.seq or first.top or first.misc:
            continue
        num, begin = value.num, first.num
        if num.sym != (run.uid, key, 1):
            continue
        yield _rising(num.dlo, begin.lo, head.hi - _offset(run, key, high=True), num.hi)
        yield _rising(-num.dhi, -begin.hi, -(head.lo - _offset(run, key, high=False)), -num.lo)
    for ident, obj in back.heap.items():
        begin_obj, head_obj = start.heap.get(ident), run.head_heap.get(ident)
        if begin_obj is None or head_obj is None or obj.many or ident in machine.volatile_refs or obj.foreign:
            continue
        yield _rising(obj.glo, begin_obj.lo, head_obj.hi - head_obj.ghi, obj.hi)
        yield _rising(-obj.ghi, -begin_obj.hi, -(head_obj.lo - head_obj.glo), -obj.lo)
    step = machine.steps_of.get(run.uid, 0)
    for value in back.vars.values():
        if value.num is not None and value.num.sym == (run.uid, (0, "index"), 1) and step and value.num.hi != INF:
            low = machine.index_lows.get(run.uid, 0)
            yield INF, (value.num.hi - value.num.dhi - low) // step + 1
    if isinstance(node, ast.While):
        yield _cut(machine, node.test, start, run), INF


def _cut(machine: Machine, test: ast.expr, start: State, run: Round) -> Count:
    """`while xs: ... xs = xs[k:]`: each iteration takes k elements away, as long as there are any."""
    parts = test.values if isinstance(test, ast.BoolOp) and isinstance(test.op, ast.And) else [test]
    best: Count = INF
    for part in parts:
        name = part
        if isinstance(part, ast.Compare) and isinstance(part.ops[0], ast.Gt) and isinstance(part.left, ast.Call):
            zero = part.comparators[0]
            if isinstance(zero, ast.Constant) and zero.value == 0 and part.left.args:
                name = part.left.args[0]
        if not isinstance(name, ast.Name):
            continue
        key = machine.place(name)
        if key is None or key in machine.volatile_vars:
            continue
        value, first = run.back.vars.get(key), start.vars.get(key)
        if value is None or first is None or value.top or value.num or value.seq or len(value.refs) != 1:
            continue
        obj = run.back.heap[next(iter(value.refs))]
        total = length(first, start)[1]
        if obj.rest is not None and obj.rest[:2] == (run.uid, key) and total != INF:
            best = min(best, -(-total // obj.rest[2]))
    return best


def _offset(run: Round, key: Key, *, high: bool) -> Count:
    """How much the test itself (a walrus) has moved the counter since the iteration began."""
    num = run.head_nums[key]
    if num.sym != (run.uid, key, 1):
        return INF if high else -INF
    return num.dlo if high else num.dhi


def _rising(by: Count, first: Count, at_head: Count, at_back: Count) -> tuple[Count, Count]:
    """Iterations of a counter that rises by at least `by`, from at least `first`, limited at the head or at the back."""
    if by < 1 or abs(first) == INF:
        return INF, INF
    head = max(0, (at_head - first) // by + 1) if abs(at_head) != INF else INF
    back = max(0, (at_back - first) // by) if abs(at_back) != INF else INF
    return head, back


def _widen(
    machine: Machine, start: State, cover: State, run: Round, bound: Count, rounds: int, bases: dict[int, Obj]
) -> tuple[State, bool]:
    """The state that covers `bound` iterations of what the run showed, and whether it is the one that was covered."""
    back = run.back
    if back.dead:
        return cover, True
    same = True
    out = cover.copy()
    aging = _aging(machine, start, cover, back)
    if aging:
        back.cost = aging.cost(back.cost)
        back.shared = {loop: aging.cost(cost) for loop, cost in back.shared.items()}
    for key, value in back.vars.items():
        old = cover.vars.get(key)
        if aging:
            value = aging.value(value)
        if old is None:
            out.vars[key] = _flat(value)
            same = same and key not in run.missing
            continue
        if old is value:
            continue
        new = _wider_value(machine, start.vars.get(key, old), old, value, (run.uid, key, 1), bound, rounds)
        if new != old:
            out.vars[key] = new
            same = False
    for ident, obj in back.heap.items():
        if ident in aging.names if aging else False:
            continue
        before = cover.heap.get(ident)
        if before is None:
            continue
        if aging:
            obj = aging.object(obj)
        wider = _wider_object(start.heap.get(ident) or bases.get(ident, before), before, obj, bound, rounds)
        if wider != before:
            out.heap[ident] = wider
            same = False
    if aging:
        for ident, obj in aging.merged(back).items():
            known = out.heap.get(ident)
            if ident not in start.heap:
                bases[ident] = join_obj(bases[ident], obj) if ident in bases else obj
            out.heap[ident] = obj if known is None else join_obj(known, obj)
            if known is None or out.heap[ident] != known:
                same = same and known is not None and not _matters(known, out.heap[ident])
    return out, same


def _matters(old: Obj, new: Obj) -> bool:
    return old._replace(glo=0, ghi=0) != new._replace(glo=0, ghi=0)


def _wider_value(
    machine: Machine, first: V, old: V, value: V, own: tuple[int, Key, int], bound: Count, rounds: int
) -> V:
    num = value.num
    if num is not None and num.sym == own and old.num is not None and first.num is not None:
        base = first.num
        lo = base.lo + times(bound, num.dlo) if num.dlo < 0 else base.lo
        hi = base.hi + times(bound, num.dhi) if num.dhi > 0 else base.hi
        dlo = base.dlo + times(bound, num.dlo) if num.dlo < 0 else base.dlo
        dhi = base.dhi + times(bound, num.dhi) if num.dhi > 0 else base.dhi
        sym = base.sym if abs(dlo) != INF and abs(dhi) != INF else None
        moved = Num(min(lo, base.lo), max(hi, base.hi), sym, dlo if sym else 0, dhi if sym else 0)
        if value._replace(num=None) == old._replace(num=None):
            if rounds > 1 and old.num.lo <= moved.lo and old.num.hi >= moved.hi:
                return old
            return old._replace(num=moved)
        value, old = value._replace(num=moved), old._replace(num=moved)
    elif num is not None and num.sym is not None and num.sym[0] == own[0]:
        value = value._replace(num=Num(num.lo, num.hi))
    new = join(old, value)
    if rounds > 1 and new != old:
        new = _stretched(old, new)
    if rounds > 3 and new != old:
        new = _spilled(new)
    return new


def _spilled(value: V) -> V:
    """Unknown data that holds what the value, or a tuple in it, holds."""
    out = V(True, Num(), None, value.refs, value.funcs, value.coros, None, True)
    if value.seq is not None:
        for item in (value.seq.elem, *(value.seq.items or ())):
            out = join(out, _spilled(item))
    return out


def _stretched(old: V, new: V) -> V:
    """Widen what still grows to infinity."""
    if new.num is not None and old.num is not None and new.num != old.num:
        new = new._replace(
            num=Num(
                new.num.lo if new.num.lo >= old.num.lo else -INF,
                new.num.hi if new.num.hi <= old.num.hi else INF,
            )
        )
    if new.seq is not None and old.seq is not None and new.seq != old.seq:
        new = new._replace(
            seq=new.seq._replace(
                lo=new.seq.lo if new.seq.lo >= old.seq.lo else 0,
                hi=new.seq.hi if new.seq.hi <= old.seq.hi else INF,
                items=None,
                elem=join(new.seq.elem, _stretched(old.seq.elem, new.seq.elem)),
            )
        )
    return new


def _wider_object(first: Obj, old: Obj, now: Obj, bound: Count, rounds: int) -> Obj:
    if now is old:
        return old
    hi = first.hi + times(bound, now.ghi) if now.ghi > 0 else first.hi
    lo = max(0, first.lo + times(bound, now.glo)) if now.glo < 0 else first.lo
    hi, lo = max(hi, first.hi), min(lo, first.lo)
    if rounds > 1 and old.hi > hi:
        hi = old.hi
    if rounds > 1 and old.lo < lo:
        lo = old.lo
    elem, key = join(old.elem, _flat(now.elem)), join(old.key, _flat(now.key))
    if rounds > 2:
        elem, key = _stretched(old.elem, elem), _stretched(old.key, key)
    fields = old.fields
    if now.fields != old.fields:
        if now.fields is None or old.fields is None or rounds > 1:
            fields = None
        else:
            left, right = dict(old.fields), dict(now.fields)
            if left.keys() <= right.keys():
                fields = tuple(
                    (name, join(left[name], _flat(right[name])) if name in left else join(_flat(right[name]), BOTTOM))
                    for name in right
                )
            else:
                fields = None
    return Obj(
        now.kind,
        lo,
        hi,
        elem,
        key,
        fields,
        first.glo + (times(bound, now.glo) if now.glo < 0 else 0),
        first.ghi + (times(bound, now.ghi) if now.ghi > 0 else 0),
        old.many or now.many,
        old.foreign or now.foreign,
        old.site,
        old.share if old.share == now.share else None,
        join_family(old.family, now.family),
    )


def _flat(value: V) -> V:
    num = value.num
    if num is not None and num.sym is not None:
        return value._replace(num=Num(num.lo, num.hi))
    return value


def _surrender(state: State, start: State) -> State:
    """Give up on whatever isn't stable: its length and value are unknown, what it holds is kept."""
    for key, value in state.vars.items():
        if value != start.vars.get(key):
            state.vars[key] = _spilled(value)
    for ident, obj in state.heap.items():
        if obj != start.heap.get(ident):
            elem = mix((obj.elem, obj.key), state)
            state.heap[ident] = obj._replace(lo=0, hi=INF, elem=elem, key=join(obj.key, TOP), fields=None, many=True)
    return state


def reaches(cost: Cost) -> bool:
    """Whether a cost has a call in it; a coroutine that was only made is none yet."""
    return any(count and not isinstance(key, Coro) for key, count in cost.items())


# ---- objects that an iteration made and the next one still sees


class _Aging:
    """Renames the objects that one iteration made to the one that stands for those of all earlier iterations."""

    def __init__(self, machine: Machine, names: dict[int, int]) -> None:
        self.machine = machine
        self.names = names

    def refs(self, refs: frozenset[int]) -> frozenset[int]:
        return frozenset(self.names.get(ref, ref) for ref in refs) if refs else refs

    def value(self, value: V) -> V:
        if not (value.refs or value.seq or value.coros or value.funcs):
            return value
        seq = value.seq
        if seq is not None:
            items = None if seq.items is None else tuple(self.value(item) for item in seq.items)
            seq = Seq(seq.lo, seq.hi, self.value(seq.elem), items, self.refs(seq.live), seq.share, seq.step)
            if seq == value.seq:
                seq = value.seq
        refs = self.refs(value.refs)
        funcs = frozenset(self.closure(closure) for closure in value.funcs) if value.funcs else value.funcs
        coros = frozenset(self.coro(coro) for coro in value.coros) if value.coros else value.coros
        if seq is value.seq and refs == value.refs and funcs == value.funcs and coros == value.coros:
            return value
        return value._replace(seq=seq, refs=refs, funcs=funcs, coros=coros)

    def closure(self, closure: Closure) -> Closure:
        if not closure.defaults:
            return closure
        defaults = self.parts(closure.defaults)
        return closure if defaults == closure.defaults else self.machine.closure(closure.node, closure.act, defaults)

    def coro(self, coro: Coro) -> Coro:
        params = self.parts(coro.params)
        if params == coro.params:
            return coro
        return self.machine.coro(coro.node, coro.closure, coro.act, params)

    def parts(self, parts: tuple[tuple[str, V], ...]) -> tuple[tuple[str, V], ...]:
        return tuple((name, self.value(value)) for name, value in parts)

    def cost(self, cost: Cost) -> Cost:
        out: Cost = {}
        for key, count in cost.items():
            key = self.coro(key) if isinstance(key, Coro) else key
            out[key] = out.get(key, 0) + count
        return out

    def object(self, obj: Obj) -> Obj:
        fields = obj.fields
        if fields is not None:
            fields = tuple((name, self.value(value)) for name, value in fields)
        return obj._replace(elem=self.value(obj.elem), key=self.value(obj.key), fields=fields)

    def merged(self, state: State) -> dict[int, Obj]:
        out: dict[int, Obj] = {}
        for ident, target in self.names.items():
            obj = self.object(state.heap[ident])._replace(many=True, glo=0, ghi=0, share=None, rest=None)
            out[target] = obj if target not in out else join_obj(out[target], obj)
        return out


def _aging(machine: Machine, start: State, cover: State, back: State) -> _Aging | None:
    """The renaming for the objects that are new in an iteration; None when none outlives it."""
    fresh = [ident for ident in back.heap if ident not in cover.heap]
    if not fresh:
        return None
    live: set[int] = set()
    todo: list[int] = []

    def seen(ref: int) -> None:
        if ref not in live:
            live.add(ref)
            todo.append(ref)

    for value in back.vars.values():
        if value.refs or value.seq or value.coros or value.funcs:
            visit(value, seen)
    for ident in cover.heap:
        seen(ident)
    while todo:
        obj = back.heap.get(todo.pop())
        if obj is not None:
            visit(obj.elem, seen)
            visit(obj.key, seen)
            for _, value in obj.fields or ():
                visit(value, seen)
    names: dict[int, int] = {}
    by_site: dict[ast.AST | None, int] = {}
    for ident, obj in cover.heap.items():
        if obj.many and obj.site is not None and ident not in start.heap:
            by_site.setdefault(obj.site, ident)
    for ident in fresh:
        if ident in live:
            site = back.heap[ident].site
            target = by_site.get(site) if site is not None else None
            if target is None:
                target = by_site[site] = ident
            names[ident] = target
    for ident in fresh:
        if ident not in live:
            del back.heap[ident]
    return _Aging(machine, names) if names else None


# ---- leaving the loop


def _finish(
    machine: Machine, start: State, cover: State, run: Round, bounds: tuple[Count, Count], mark: tuple[int, int]
) -> list[State]:
    """Turn the last run's exits into states after the loop, with the cost of all iterations before them."""
    each = run.back.cost if not run.back.dead else {}
    started, completed = bounds
    before = max(0, min(started - 1, completed))
    pre = start.cost
    own_shared = run.back.shared.get(run.uid, {})

    def leave(state: State) -> None:
        cost = plus(plus(pre, state.cost), each, before)
        state.cost = plus(cost, state.shared.get(run.uid, own_shared))
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
    cost = plus(plus(pre, each, completed), own_shared if not run.back.dead else {})
    shared = _outer_shared(start, run, run.back.shared if not run.back.dead else {}, before)
    out = cover.copy()
    start.become(out)
    start.cost = cost
    start.shared = shared
    return [state for state in run.breaks if not state.dead]


def _outer_shared(start: State, run: Round, last: dict[int, Cost], before: Count) -> dict[int, Cost]:
    """The shares of enclosing loops: what was there, every iteration's, and the last one's."""
    out = start.shared
    for loop, cost in (run.back.shared if not run.back.dead else {}).items():
        if loop != run.uid:
            out = {**out, loop: plus(out.get(loop, {}), cost, before)}
    for loop, cost in last.items():
        if loop != run.uid:
            out = {**out, loop: plus(out.get(loop, {}), cost)}
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
            state.vars[key] = value._replace(num=Num(num.lo, num.hi))
        else:
            moved = Num(num.lo, num.hi, outer.sym, outer.dlo + num.dlo, outer.dhi + num.dhi)
            state.vars[key] = value._replace(num=moved)
    for ident, obj in state.heap.items():
        base = cover.heap.get(ident)
        if base is not None and (base.glo or base.ghi):
            state.heap[ident] = obj._replace(glo=base.glo + obj.glo, ghi=base.ghi + obj.ghi)
