"""What is in a value: its elements, its length, all that it may hold; and which objects nothing leads to any more."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final

from addendum.script.bounds.state import State, visit
from addendum.script.bounds.values import BOTTOM, INF, TOP, Count, Obj, Seq, V, interval, join, renumbered, span

SPILLED: Final = (-4, "spilled")
"""Where the functions and coroutines are that were put into unknown data: a variable no script can name."""


def elements(value: V, st: State) -> V:
    """What iterating over a value yields."""
    out = unknown(value, st) if value.top else BOTTOM
    if value.seq is not None:
        out = join(out, _shown(value.seq, st))
    for ref in value.refs:
        obj = st.heap[ref]
        out = join(out, obj.key if obj.kind == "dict" else join(obj.elem, obj.key))
    return join(out, _letters(value)) if value.text else out


def contents(value: V, st: State) -> V:
    """What subscripting a value with an unknown index yields."""
    out = unknown(value, st) if value.top else BOTTOM
    if value.seq is not None:
        out = join(out, _shown(value.seq, st))
    for ref in value.refs:
        out = join(out, st.heap[ref].elem)
    return join(out, _letters(value)) if value.text else out


def _shown(seq: Seq, st: State) -> V:
    """What walking a sequence yields; a view shows what is there now."""
    out = seq.elem
    for ref in seq.live if seq.view else ():
        obj = st.heap[ref]
        if "values" in seq.view:
            out = join(out, obj.elem)
        if "items" in seq.view:
            out = join(out, V(seq=Seq(2, 2, join(obj.key, obj.elem), (obj.key, obj.elem))))
        if "iter" in seq.view:
            out = join(out, elements(V(refs=frozenset((ref,))), st))
    return out


def _letters(value: V) -> V:
    """What a text consists of: itself, if it is one letter long, else texts of one letter."""
    text = value.text
    if text is None or not span(text)[1]:
        return BOTTOM
    return V(text=text if isinstance(text, str) and len(text) == 1 else (1, 1))


def unknown(value: V, st: State) -> V:
    """What may come out of a value that is unknown: data, and whatever it is known to hold."""
    spilled = st.vars.get(SPILLED)
    if spilled is not None:
        return join(spilled, V(True, None, None, value.refs, value.funcs, value.coros))
    if value.refs or value.funcs or value.coros:
        return V(True, None, None, value.refs, value.funcs, value.coros)
    return TOP


def mix(values: Iterable[V], st: State) -> V:
    """Something unknown made of these values: JSON data, or any function or coroutine in them."""
    seen: set[int] = set()
    out = TOP
    todo = list(values)
    while todo:
        value = todo.pop()
        if value.funcs or value.coros or value.refs:
            out = join(out, V(refs=value.refs, funcs=value.funcs, coros=value.coros))
        refs = value.refs
        if value.seq is not None:
            todo += [value.seq.elem, *(value.seq.items or ())]
            refs = refs | value.seq.live | value.seq.read
        for ref in refs - seen:
            seen.add(ref)
            todo += [st.heap[ref].elem, st.heap[ref].key]
    return out


def length(value: V, st: State) -> tuple[Count, Count]:
    """How many elements a value has: at least, at most. A number and None have none: what asks for them raises."""
    lo: Count = INF
    hi: Count = 0
    if value.top:
        lo, hi = 0, INF
    if value.seq is not None:
        lo, hi = min(lo, value.seq.lo), max(hi, value.seq.hi)
        for ref in value.seq.live if value.seq.view else ():
            lo, hi = min(lo, st.heap[ref].lo), max(hi, st.heap[ref].hi)
    for ref in value.refs:
        obj = st.heap[ref]
        lo, hi = min(lo, obj.lo), max(hi, obj.hi)
    if value.text is not None:
        low, high = span(value.text)
        lo, hi = min(lo, low), max(hi, high)
    return (0 if lo == INF else max(0, lo)), max(0, hi)


def sources(iterable: V) -> tuple[frozenset[int], frozenset[int]]:
    """The objects whose growth makes a walk longer, and all that it reads."""
    seq = iterable.seq
    live = iterable.refs if seq is None else iterable.refs | seq.live
    return live, live if seq is None else live | seq.read


def stirred(before: dict[int, Obj], state: State) -> bool:
    """Whether objects have got longer, or hold other things than before."""
    if state.dead:
        return False
    for ref, old in before.items():
        now = state.heap.get(ref, old)
        if now is not old and (now.hi > old.hi or now.ghi > old.ghi or (now.elem, now.key) != (old.elem, old.key)):
            return True
    return False


def plain(value: V) -> V:
    """The value without the symbols of the current iteration, for storing it beyond the iteration."""
    num, seq = value.num, value.seq
    if num is None and seq is None:
        return value
    if num is not None and num.sym is not None:
        value = renumbered(value, interval(num.lo, num.hi))
    if seq is not None and (seq.items or seq.share or seq.elem.num or seq.elem.seq):
        items = None if seq.items is None else tuple(plain(item) for item in seq.items)
        value = value._replace(seq=seq._replace(elem=plain(seq.elem), items=items, share=None))
    return value


def of_a_call(value: V) -> bool:
    """Whether a number in a value is known by a parameter of the call it comes from, which means nothing outside."""
    num, seq = value.num, value.seq
    if num is not None and num.sym is not None and num.sym[0] < 0:
        return True
    return seq is not None and (of_a_call(seq.elem) or any(of_a_call(item) for item in seq.items or ()))


SWEPT_FROM: Final = 120
"""How many objects may be on the heap before it is swept."""


def sweep(st: State) -> None:
    """Forget the objects that no variable leads to. Only between two statements of the entry function."""
    live: set[int] = set()
    todo: list[int] = []

    def seen(ref: int) -> None:
        if ref not in live:
            live.add(ref)
            todo.append(ref)

    for value in st.vars.values():
        if value.refs or value.seq or value.coros or value.funcs:
            visit(value, seen)
    while todo:
        obj = st.heap[todo.pop()]
        visit(obj.elem, seen)
        visit(obj.key, seen)
        for _, value in obj.fields or ():
            visit(value, seen)
    if len(live) < len(st.heap):
        st.heap = {ref: obj for ref, obj in st.heap.items() if ref in live}
