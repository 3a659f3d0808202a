"""Builtin functions: which of them keep, join or cut lengths, and which call a function for each element."""

from __future__ import annotations

import ast
from collections.abc import Callable, Iterable
from typing import Any, Final

from addendum.script.bounds.arithmetic import endless, exact
from addendum.script.bounds.calls import Args, apply, arguments
from addendum.script.bounds.contents import contents, elements, length, mix, plain
from addendum.script.bounds.expressions import FLAG, MAX_ITEMS, falling, positions
from addendum.script.bounds.guards import figure
from addendum.script.bounds.loops import iterate, reaches
from addendum.script.bounds.machine import CALLED, Machine
from addendum.script.bounds.state import State, visit
from addendum.script.bounds.values import (
    ANY_INT,
    ANY_NUMBER,
    BOTTOM,
    INF,
    NONE,
    TOP,
    Closure,
    Count,
    Num,
    Obj,
    Seq,
    Share,
    V,
    integer,
    join,
    join_all,
    literal,
    numeric,
    said,
    span,
    wordy,
)

Builtin = Callable[[Machine, ast.Call, Args, State], V]


def builtin(machine: Machine, node: ast.Call, name: str, st: State) -> V:
    """A call of a builtin, or of a name that nothing defines."""
    if name in _PLAIN and node not in machine.busy:
        return FLAG if name in _FLAGS else TOP
    args = arguments(machine, node, st)
    handler = BUILTINS.get(name)
    if name in _WALKING:
        for value in args.items:
            machine.used(value)
    if handler is not None and args.star is None and args.double is None:
        return handler(machine, node, args, st)
    held = args.all()
    for value in held:
        if value.funcs and not all(machine.is_inert(closure) for closure in value.funcs):
            each(machine, node, value, [mix(held, st)], INF, st)  # nobody knows for how many it is called
    if any(value.funcs or value.coros or value.refs or value.seq for value in held) and name not in _PLAIN:
        return mix(held, st)
    return TOP


_PLAIN = frozenset(
    {"str", "repr", "isinstance", "print", "format", "type", "any", "all", "bool", "float", "chr", "ord"}
)


_WALKING = frozenset({"len", "list", "tuple", "sorted", "zip", "enumerate", "reversed", "sum", "set", "iter", "int"})
_FLAGS = frozenset({"isinstance", "any", "all", "bool"})


def each(
    machine: Machine,
    node: ast.Call,
    func: V,
    values: list[V],
    count: Count,
    st: State,
    live: frozenset[int] = frozenset(),
) -> tuple[Count, V]:
    """Call a function for each of `count` elements, which come from the `live` objects; how many there are at most, and
    the join of what it returns."""
    if not func.funcs:
        return count, mix(values, st) if any(v.funcs or v.coros or v.refs for v in values) else TOP
    if all(machine.is_inert(closure) for closure in func.funcs) and not any(v.funcs or v.coros for v in values):
        trial = st.copy()
        out = apply(machine, node, func, Args(list(values)), trial)
        fresh: list[int] = []
        visit(out, fresh.append)
        if all(ref in st.heap for ref in fresh):
            return count, out
    place = (machine.act.key, f"<map {node.lineno}:{node.col_offset}>")

    def enter(state: State, uid: int) -> frozenset[int]:
        return live

    def body(state: State) -> None:
        value = apply(machine, node, func, Args(list(values)), state)
        state.vars[place] = plain(value)

    bound, _, back = iterate(machine, node, st, count, enter, body)
    if bound == INF and not back.dead and reaches(back.cost):
        machine.problem("comprehension", node, "unbounded")
    return bound, st.vars.pop(place, BOTTOM)


def call_key(
    machine: Machine,
    node: ast.Call,
    args: Args,
    elem: V,
    count: Count,
    st: State,
    live: frozenset[int] = frozenset(),
) -> None:
    """The effects of a `key=` function; its result doesn't matter."""
    key = args.named.get("key")
    if key is not None and key.funcs and not all(machine.is_inert(closure) for closure in key.funcs):
        each(machine, node, key, [elem], count, st, live)


def range_(machine: Machine, node: ast.Call, args: Args, st: State) -> V:
    nums = [value.num if value.num is not None and not value.top else Num() for value in args.items]
    if not nums or len(nums) > 3:
        return TOP
    start = Num(0, 0) if len(nums) == 1 else nums[0]
    stop = nums[0] if len(nums) == 1 else nums[1]
    step = nums[2] if len(nums) == 3 else Num(1, 1)
    if step.lo > 0:
        return V(seq=_rising(start, stop, step)._replace(share=falling(machine, start, stop.hi)))
    if step.hi < 0:
        distance = start.hi - stop.lo
        hi = max(0, -(-distance // -step.hi)) if abs(distance) != INF else INF
        return V(seq=Seq(0, hi, integer(stop.lo + 1, start.hi)))
    return V(seq=Seq(0, INF, ANY_INT))


def _rising(start: Num, stop: Num, step: Num) -> Seq:
    distance = stop.hi - start.lo
    if start.sym is not None and start.sym == stop.sym:
        distance = min(distance, stop.dhi - start.dlo)
    hi = max(0, -(-distance // step.lo)) if abs(distance) != INF else (INF if distance > 0 else 0)
    lo: Count = 0
    if start.lo == start.hi and stop.lo == stop.hi and step.lo == step.hi:
        lo = hi
    top = max(start.lo, stop.hi - 1) if stop.hi != INF else INF
    return Seq(lo, hi, integer(start.lo, top), None, frozenset(), None, step.lo if start.lo != -INF else 0)


def len_(machine: Machine, node: ast.Call, args: Args, st: State) -> V:
    lo, hi = length(args.items[0], st) if args.items else (0, INF)
    return integer(lo, hi)


def extreme(machine: Machine, node: ast.Call, args: Args, st: State) -> V:
    """`min`, `max`: of several numbers the interval, of a collection one of its elements."""
    smallest = isinstance(node.func, ast.Name) and node.func.id == "min"
    if len(args.items) == 1:
        source = args.items[0]
        inner = elements(source, st)
        call_key(machine, node, args, inner, length(source, st)[1], st, _sources([source])[0])
        known = positions(source, st)
        out = _extreme(known, smallest) if known and args.named.get("key") is None else inner
        default = args.named.get("default")
        return join(out, default) if default is not None else out
    held = BOTTOM
    for value in args.items:
        held = join(held, value)
    call_key(machine, node, args, held, len(args.items), st)
    if args.named.get("key") is not None:
        return held
    return _extreme(args.items, smallest)


def _extreme(values: list[V], smallest: bool) -> V:
    nums = [value.num for value in values if value.num is not None and numeric(value)]
    if not nums:
        out = BOTTOM
        for value in values:
            out = join(out, value)
        return out
    complete = len(nums) == len(values)
    real = not complete or any(value.real for value in values)
    odd = not complete or any(value.odd for value in values)
    if smallest:
        # An operand of which nothing is known can only make the minimum smaller.
        low: Count = min(num.lo for num in nums) if complete else -INF
        return V(num=Num(low, min(num.hi for num in nums)), real=real, odd=odd)
    high: Count = max(num.hi for num in nums) if complete else INF
    return V(num=Num(max(num.lo for num in nums), high), real=real, odd=odd)


def listed(machine: Machine, node: ast.Call, args: Args, st: State) -> V:
    """`list`, `sorted`: a new list as long as the argument."""
    if not args.items:
        return machine.new(st, Obj("list", 0, 0, BOTTOM, fields=(), site=node))
    source = args.items[0]
    lo, hi = length(source, st)
    inner = elements(source, st)
    if isinstance(node.func, ast.Name) and node.func.id == "list":
        machine.walked(node.args[0], source, st)
    call_key(machine, node, args, inner, hi, st)
    share = _share(source, st)
    known = positions(source, st) if isinstance(node.func, ast.Name) and node.func.id == "list" else None
    fields = tuple((at, plain(item)) for at, item in enumerate(known)) if known and len(known) <= MAX_ITEMS else None
    return machine.new(st, Obj("list", lo, hi, plain(inner), fields=fields, site=node, share=share))


def _share(value: V, st: State) -> Share | None:
    if value.seq is not None and not value.refs:
        return value.seq.share
    if len(value.refs) == 1 and value.seq is None:
        return st.heap[next(iter(value.refs))].share
    return None


def tuple_(machine: Machine, node: ast.Call, args: Args, st: State) -> V:
    if not args.items:
        return V(seq=Seq(0, 0, BOTTOM, ()))
    lo, hi = length(args.items[0], st)
    known = positions(args.items[0], st)
    return V(seq=Seq(lo, hi, elements(args.items[0], st), None if known is None else tuple(known)))


def set_(machine: Machine, node: ast.Call, args: Args, st: State) -> V:
    if not args.items:
        return machine.new(st, Obj("set", 0, 0, BOTTOM, site=node))
    lo, hi = length(args.items[0], st)
    return machine.new(st, Obj("set", min(lo, 1), hi, plain(elements(args.items[0], st)), site=node))


def dict_(machine: Machine, node: ast.Call, args: Args, st: State) -> V:
    """`dict()`, `dict(mapping)`, `dict(pairs)`, `dict(name=...)`."""
    named = {name: plain(value) for name, value in args.named.items()}
    elem = BOTTOM
    for value in named.values():
        elem = join(elem, value)
    lo: Count = len(named)
    hi: Count = len(named)
    keys = join_all(literal(name) for name in named)
    fields: dict[Any, V] | None = dict(named)
    if args.items:
        source = args.items[0]
        low, high = length(source, st)
        lo, hi = max(lo, min(low, 1)), hi + high
        pair = elements(source, st)
        if source.refs and all(st.heap[ref].kind == "dict" for ref in source.refs) and not source.top:
            keys, elem = join(keys, pair), join(elem, contents(source, st))
            inner = st.heap[next(iter(source.refs))].fields if len(source.refs) == 1 else None
            fields = {**dict(inner), **named} if inner is not None else None
        else:
            keys, elem = join(keys, contents(pair, st)), join(elem, contents(pair, st))
            two = positions(pair, st) if pair.seq is not None else None
            if two is not None and len(two) == 2:
                elem = two[1]
                for value in named.values():
                    elem = join(elem, value)
            fields = None
    known = tuple(fields.items()) if fields is not None else None
    return machine.new(st, Obj("dict", lo, hi, plain(elem), plain(keys), fields=known, site=node))


def fromkeys(machine: Machine, node: ast.Call, args: Args, st: State) -> V:
    """`dict.fromkeys(names, value)`: at most as long as the names."""
    if not args.items:
        return NONE
    lo, hi = length(args.items[0], st)
    value = args.items[1] if len(args.items) > 1 else NONE
    return machine.new(st, Obj("dict", min(lo, 1), hi, plain(value), plain(elements(args.items[0], st)), site=node))


def reversed_(machine: Machine, node: ast.Call, args: Args, st: State) -> V:
    if not args.items:
        return NONE
    source = args.items[0]
    lo, hi = length(source, st)
    known = positions(source, st)
    items = None if known is None else tuple(reversed(known))
    live, read, made = _sources([source])
    return V(seq=Seq(lo, hi, elements(source, st), items, live, read=read, made=made))


def _sources(values: Iterable[V]) -> tuple[frozenset[int], frozenset[int], frozenset[Closure]]:
    """What a lazy iterator over values reads while it is walked: the objects that end the walk, others, functions."""
    live: frozenset[int] = frozenset()
    read: frozenset[int] = frozenset()
    made: frozenset[Closure] = frozenset()
    for value in values:
        live = live | value.refs
        if value.seq is not None:
            live, read, made = live | value.seq.live, read | value.seq.read, made | value.seq.made
    return live, read, made


def enumerate_(machine: Machine, node: ast.Call, args: Args, st: State) -> V:
    if not args.items:
        return NONE
    source = args.items[0]
    lo, hi = length(source, st)
    first = args.items[1] if len(args.items) > 1 else args.named.get("start", integer(0))
    start = first.num if first.num is not None and not first.top else Num()
    index = integer(start.lo, start.hi + max(0, hi - 1))
    inner = elements(source, st)
    live, read, made = _sources([source])
    known = positions(source, st)
    items = None
    if known is not None:
        items = tuple(_pair(integer(start.lo + at, start.hi + at), item) for at, item in enumerate(known))
    return V(seq=Seq(lo, hi, _pair(index, inner), items, live, _share(source, st), 1, (), read, made))


def _pair(first: V, second: V) -> V:
    return V(seq=Seq(2, 2, join(first, second), (first, second)))


def zip_(machine: Machine, node: ast.Call, args: Args, st: State) -> V:
    """As long as the shortest."""
    if not args.items:
        return V(seq=Seq(0, 0, BOTTOM, ()))
    lengths = [length(value, st) for value in args.items]
    parts = tuple(elements(value, st) for value in args.items)
    inner = join_all(parts)
    hi = min(high for _, high in lengths)
    # The shortest one ends the walk, so only if it grows does the walk get longer.
    live = _sources([value for value, (_, high) in zip(args.items, lengths, strict=True) if high == hi])[0]
    every, read, made = _sources(args.items)
    row = V(seq=Seq(len(parts), len(parts), inner, parts))
    return V(seq=Seq(min(low for low, _ in lengths), hi, row, None, live, read=every | read, made=made))


def map_(machine: Machine, node: ast.Call, args: Args, st: State) -> V:
    if len(args.items) < 2:
        return TOP
    sources = args.items[1:]
    lengths = [length(value, st) for value in sources]
    hi = min(high for _, high in lengths)
    live = _sources([value for value, (_, high) in zip(sources, lengths, strict=True) if high == hi])[0]
    every, read, made = _sources(sources)
    hi, result = each(machine, node, args.items[0], [elements(value, st) for value in sources], hi, st, live)
    low = min(length(value, st)[0] for value in sources)
    share = _share(sources[0], st) if len(sources) == 1 else None
    made = made | args.items[0].funcs
    return V(seq=Seq(low, hi, result, None, live, share, read=every | read, made=made))


def filter_(machine: Machine, node: ast.Call, args: Args, st: State) -> V:
    if len(args.items) < 2:
        return TOP
    source = args.items[1]
    hi = length(source, st)[1]
    inner = elements(source, st)
    test = args.items[0]
    live, read, made = _sources([source])
    if test.funcs and not all(machine.is_inert(closure) for closure in test.funcs):
        hi, _ = each(machine, node, test, [inner], hi, st, live)
        made = made | test.funcs
    return V(seq=Seq(0, hi, inner, None, live, _share(source, st), read=read, made=made))


def int_(machine: Machine, node: ast.Call, args: Args, st: State) -> V:
    """`int`, `round`, `abs`: a number stays where it is known to be."""
    value = args.items[0] if args.items else integer(0)
    name = node.func.id if isinstance(node.func, ast.Name) else ""
    if name == "int" and len(node.args) == 1:
        value = _written(machine, node.args[0], st) or value
    num = value.num
    if name == "int" and len(args.all()) == 1 and wordy(value):
        return _parsed(value)
    if num is None or not numeric(value):
        if name == "abs":
            return V(num=Num(0, INF), real=True, odd=True)
        return ANY_NUMBER if len(args.all()) > 1 else ANY_INT
    if name == "abs":
        low = 0 if num.lo <= 0 <= num.hi else min(abs(num.lo), abs(num.hi))
        return V(num=Num(low, max(abs(num.lo), abs(num.hi))), real=value.real, odd=value.odd)
    if len(args.all()) > 1:
        return ANY_NUMBER  # `round(7, -1)` is 10
    # A float becomes a whole number that is no farther out; of a whole number, the symbol stays as well.
    return V(num=Num(num.lo, num.hi) if value.real else num)


def _written(machine: Machine, node: ast.expr, st: State) -> V | None:
    """The number `n` in `str(n)`: what is read back is that, or an error."""
    if isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id == "str" and len(node.args) == 1:
        return figure(machine, node.args[0], st) if machine.homes[node.func] is None else None
    return None


def _parsed(value: V) -> V:
    """`int(text)`: the number that a known text is, else one of no more digits than the text has letters."""
    text = said(value)
    if text is not None and len(text) <= _DIGITS:
        try:
            return integer(int(text))
        except ValueError:
            return ANY_INT  # an error, so no number
    assert value.text is not None
    digits = span(value.text)[1]
    return ANY_INT if digits > _DIGITS else V(num=Num(1 - 10 ** max(0, int(digits) - 1), 10 ** int(digits) - 1))


_DIGITS: Final = 15


def sum_(machine: Machine, node: ast.Call, args: Args, st: State) -> V:
    """A sum of bounded numbers is bounded; a sum of lists is as long as all of them."""
    if not args.items:
        return NONE
    source = args.items[0]
    hi = length(source, st)[1]
    inner = elements(source, st)
    start = args.items[1] if len(args.items) > 1 else args.named.get("start", integer(0))
    if inner.refs or start.refs:
        lengths = length(inner, st)
        most = (hi * lengths[1] if hi and lengths[1] else 0) + length(start, st)[1]
        held = join(elements(inner, st), elements(start, st))
        return machine.new(st, Obj("list", 0, most, plain(held), site=node))
    if inner.num is None or start.num is None or hi == INF or not (numeric(inner) and numeric(start)):
        return V(top=True, num=Num())
    low = min(0, inner.num.lo) * hi if hi else 0
    high = max(0, inner.num.hi) * hi if hi else 0
    num = Num(start.num.lo + low, start.num.hi + high)
    if not (inner.real or start.real):
        return V(num=num)
    odd = inner.odd or start.odd or endless(inner.num) or endless(start.num)
    return V(num=num if exact(num) else Num(), real=True, odd=odd)


def next_(machine: Machine, node: ast.Call, args: Args, st: State) -> V:
    out = elements(args.items[0], st) if args.items else NONE
    return join(out, args.items[1]) if len(args.items) > 1 else out


def iter_(machine: Machine, node: ast.Call, args: Args, st: State) -> V:
    source = args.items[0] if args.items else NONE
    live, read, made = _sources([source])
    if source.refs and not source.top and source.seq is None and source.text is None:
        return V(seq=Seq(INF, 0, BOTTOM, None, live, view=("iter",)))
    return V(seq=Seq(0, length(source, st)[1], elements(source, st), None, live, read=read, made=made))


def flag(machine: Machine, node: ast.Call, args: Args, st: State) -> V:
    return integer(0, 1)


def divmod_(machine: Machine, node: ast.Call, args: Args, st: State) -> V:
    return V(seq=Seq(2, 2, ANY_NUMBER, (ANY_NUMBER, ANY_NUMBER)))


BUILTINS: dict[str, Builtin] = {
    "range": range_,
    "len": len_,
    "min": extreme,
    "max": extreme,
    "list": listed,
    "sorted": listed,
    "tuple": tuple_,
    "set": set_,
    "frozenset": set_,
    "dict": dict_,
    "reversed": reversed_,
    "enumerate": enumerate_,
    "zip": zip_,
    "map": map_,
    "filter": filter_,
    "int": int_,
    "round": int_,
    "abs": int_,
    "sum": sum_,
    "next": next_,
    "iter": iter_,
    "isinstance": flag,
    "any": flag,
    "all": flag,
    "bool": flag,
    "divmod": divmod_,
}

CALLED.update({"builtin": builtin})
