"""What many iterations do to variables and lists, from what one iteration does to them (see `loops`)."""

from __future__ import annotations

from addendum.script.bounds.aging import aging as age
from addendum.script.bounds.contents import mix, plain
from addendum.script.bounds.machine import Machine
from addendum.script.bounds.rounds import Round
from addendum.script.bounds.state import Key, State
from addendum.script.bounds.values import (
    INF,
    NONE,
    TOP,
    Count,
    Num,
    Obj,
    V,
    join,
    join_family,
    join_obj,
    renumbered,
    span,
    times,
)


def widen(
    machine: Machine, start: State, cover: State, run: Round, bound: Count, rounds: int, bases: dict[int, Obj]
) -> tuple[State, bool]:
    """The state that covers `bound` iterations of what the run showed, and whether it is the one that was covered.

    It isn't when a variable that an iteration binds may be read, or taken out of the loop, by a later one that doesn't.
    """
    back = run.back
    if back.dead:
        return cover, True
    same = True
    out: State | None = None  # made when something is wider
    aging = age(machine, start, cover, run)
    if aging:
        back.cost = aging.cost(back.cost)
        back.shared = {part: aging.cost(cost) for part, cost in back.shared.items()}
    begin_vars, begin_heap = run.begin_vars, run.begin_heap
    for key, value in [item for item in back.vars.items() if begin_vars.get(item[0]) is not item[1]]:
        old = cover.vars.get(key)
        if aging:
            value = aging.value(value)
        if old is None:
            out = out or cover.copy()
            out.vars[key] = plain(value)
            same = (
                same
                and key not in run.missing
                and all(key in left.vars and key not in left.partial for left in run.left)
            )
            continue
        if old is value:
            continue
        new = _wider_value(machine, start.vars.get(key, old), old, value, (run.uid, key, 1), bound, rounds)
        if new != old:
            out = out or cover.copy()
            out.vars[key] = new
            same = False
    for ident, obj in [item for item in back.heap.items() if begin_heap.get(item[0]) is not item[1]]:
        if aging and ident in aging.names:
            continue
        before = cover.heap.get(ident)
        if before is None:
            continue
        if aging:
            obj = aging.object(obj)
        wider = _wider_object(start.heap.get(ident) or bases.get(ident, before), before, obj, bound, rounds)
        if wider != before:
            out = out or cover.copy()
            out.heap[ident] = wider
            same = False
    if aging:
        out = out or cover.copy()
        for ident, obj in aging.merged(back).items():
            known = out.heap.get(ident)
            if ident not in start.heap:
                bases[ident] = join_obj(bases[ident], obj) if ident in bases else obj
            out.heap[ident] = obj if known is None else _merged(known, obj, rounds)
            if known is None or out.heap[ident] != known:
                same = same and known is not None and not _matters(known, out.heap[ident])
    return out or cover, same


def _merged(known: Obj, obj: Obj, rounds: int) -> Obj:
    """What stands for the objects of earlier iterations and one more; what still grows in them grows without end."""
    both = join_obj(known, obj)
    if rounds <= 2 or both == known:
        return both
    fields = both.fields
    if fields is not None and known.fields is not None:
        old = dict(known.fields)
        fields = tuple([(name, _stretched(old.get(name, value), value)) for name, value in fields])
    return both._replace(elem=_stretched(known.elem, both.elem), key=_stretched(known.key, both.key), fields=fields)


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
        if renumbered(value, None) == renumbered(old, None):
            if rounds > 1 and old.num.lo <= moved.lo and old.num.hi >= moved.hi:
                return old
            return renumbered(old, moved)
        value, old = renumbered(value, moved), renumbered(old, moved)
    elif num is not None and num.sym is not None and num.sym[0] == own[0]:
        value = renumbered(value, Num(num.lo, num.hi))
    if value.seq is not None:
        value = value._replace(seq=plain(V(seq=value.seq)).seq)  # what is in a tuple is of one iteration
    new = join(old, value)
    if rounds > 1 and new != old:
        new = _stretched(old, new)
    if rounds > 3 and new != old:
        new = _spilled(new)
    return new


def _spilled(value: V) -> V:
    """Unknown data that holds what the value, or a tuple in it, holds."""
    out = V(True, Num(), None, value.refs, value.funcs, value.coros, None, True, odd=True)
    if value.seq is not None:
        out = out._replace(refs=out.refs | value.seq.live | value.seq.read)
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
    if new.text is not None and new.text != old.text and old.text is not None:
        lo, hi = span(new.text)
        new = new._replace(text=(lo if lo >= span(old.text)[0] else 0, hi if hi <= span(old.text)[1] else INF))
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
        fields = None
        if now.fields is not None and old.fields is not None:
            left, right = dict(old.fields), dict(now.fields)
            if left.keys() <= right.keys():
                # An entry that the iteration made isn't there when the first one begins.
                wider = tuple((name, join(left.get(name, NONE), _flat(right[name]))) for name in right)
                fields = wider if rounds == 1 or dict(wider) == left else None
    if fields is not None and now.kind == "dict":
        hi = min(hi, len(fields))
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
        return renumbered(value, Num(num.lo, num.hi))
    return value


def surrender(state: State, start: State) -> State:
    """Give up on whatever isn't stable: its length and value are unknown, what it holds is kept."""
    for key, value in state.vars.items():
        if value != start.vars.get(key):
            state.vars[key] = _spilled(value)
    for ident, obj in state.heap.items():
        if obj != start.heap.get(ident):
            elem = mix((obj.elem, obj.key), state)
            state.heap[ident] = obj._replace(lo=0, hi=INF, elem=elem, key=join(obj.key, TOP), fields=None, many=True)
    return state
