"""Methods of lists, dicts, sets and texts: how they change lengths, and what they return."""

from __future__ import annotations

import ast
from collections.abc import Callable

from addendum.script.bounds.calls import Args, arguments
from addendum.script.bounds.contents import SPILLED, contents, elements, length, mix, plain, unknown
from addendum.script.bounds.expressions import item_at
from addendum.script.bounds.machine import CALLED, MUTATORS, Machine, finish
from addendum.script.bounds.state import State
from addendum.script.bounds.values import (
    ANY_FAMILY,
    ANY_INT,
    BOTTOM,
    INF,
    NONE,
    TOP,
    Count,
    Num,
    Obj,
    Seq,
    V,
    has_field,
    join,
    join_all,
    literal,
    numeric,
    said,
    span,
)


def grow(machine: Machine, value: V, st: State, lo: Count, hi: Count, elem: V, key: V = BOTTOM) -> None:
    """Change the length of every object that a value may be by something in [lo, hi], and add to what they hold."""
    strong = len(value.refs) == 1 and not value.top and value.seq is None
    elem = plain(elem)
    for ref in value.refs:
        obj = st.heap[ref]
        exact = strong and not obj.many
        low = lo if exact else min(0, lo)
        high = hi if exact else max(0, hi)
        st.heap[ref] = obj._replace(
            lo=max(0, obj.lo + low),
            hi=max(0, obj.hi + high),
            glo=obj.glo + low,
            ghi=obj.ghi + high,
            elem=join(obj.elem, elem),
            key=join(obj.key, plain(key)) if key != BOTTOM else obj.key,
            fields=None if obj.kind != "dict" or elem != BOTTOM or lo < 0 else obj.fields,
            share=None,
            rest=None,
        )
        if obj.family is not None:
            spread(st, ref, obj.family, low, high, elem, key)


def spread(st: State, ref: int, family: int, lo: Count, hi: Count, elem: V, key: V) -> None:
    """Change the other views of an object as well."""
    for other, obj in st.heap.items():
        if other == ref or obj.family is None:
            continue
        if obj.family != family and ANY_FAMILY not in (family, obj.family):
            continue
        low, high = min(0, lo), max(0, hi)
        st.heap[other] = obj._replace(
            lo=max(0, obj.lo + low),
            hi=obj.hi + high,
            glo=obj.glo + low,
            ghi=obj.ghi + high,
            elem=join(obj.elem, elem),
            key=join(obj.key, plain(key)) if key != BOTTOM else obj.key,
            fields=None,
            share=None,
            rest=None,
        )


def grow_foreign(machine: Machine, value: V, st: State, by: Count, elem: V = BOTTOM) -> None:
    """Unknown data changed: so may every list that is part of it, and what was put into it may come out anywhere."""
    if not value.top:
        return
    keep(machine, st, elem)
    for ref, obj in st.heap.items():
        if obj.foreign:
            st.heap[ref] = obj._replace(
                lo=0,
                hi=obj.hi + by,
                glo=-INF,
                ghi=obj.ghi + by,
                elem=join(obj.elem, join(TOP, elem)),
                key=join(obj.key, TOP),
                fields=None,
                share=None,
                rest=None,
            )


def replace_foreign(machine: Machine, value: V, st: State) -> None:
    """An entry of unknown data got another value: lists in it keep their length, dicts may get one more."""
    keep(machine, st, value)
    for ref, obj in st.heap.items():
        if obj.foreign:
            by = 0 if obj.kind == "list" else 1
            st.heap[ref] = obj._replace(
                hi=obj.hi + by,
                ghi=obj.ghi + by,
                elem=join(obj.elem, join(TOP, value)),
                key=join(obj.key, TOP) if by else obj.key,
                fields=None,
            )


def keep(machine: Machine, st: State, value: V) -> None:
    """Note that a value was put into unknown data: lists in it may change there, functions may be called from there."""
    if not (value.refs or value.funcs or value.coros or value.seq):
        return
    held = mix((value,), st)
    for ref in held.refs:
        st.heap[ref] = st.heap[ref]._replace(foreign=True)
    if held.funcs or held.coros:
        st.vars[SPILLED] = join(st.vars.get(SPILLED, BOTTOM), held)


def method(machine: Machine, node: ast.Call, func: ast.Attribute, st: State) -> V:
    """`receiver.name(...)`."""
    name = func.attr
    if isinstance(func.value, ast.Name) and func.value.id in ("json", "math", "re") and machine.is_module(func.value):
        args = arguments(machine, node, st)
        if func.value.id == "math" and name in ("ceil", "floor", "trunc"):
            value = args.items[0] if len(args.items) == 1 else TOP
            # The ends of the interval are whole, so a whole number near one in it is in it as well.
            return V(num=Num(value.num.lo, value.num.hi)) if value.num is not None and numeric(value) else ANY_INT
        return mix(args.all(), st)
    if name == "fromkeys" and isinstance(func.value, ast.Name) and func.value.id == "dict":
        from addendum.script.bounds.functions import fromkeys

        return fromkeys(machine, node, arguments(machine, node, st), st)
    if name in TEXT and node not in machine.busy:
        return TOP
    receiver = machine.eval(func.value, st)
    machine.used(receiver)
    args = arguments(machine, node, st)
    if name in MUTATORS:
        machine.changes(node, receiver)
    handler = METHODS.get(name)
    if handler is not None:
        out = handler(machine, node, receiver, args, st)
        if name in MUTATORS:
            machine.may_stop(st)
        return out
    if receiver.refs or receiver.funcs or receiver.coros or receiver.seq:
        return mix([receiver, *args.all()], st)
    return TOP if not any(v.refs or v.funcs or v.coros for v in args.all()) else mix(args.all(), st)


TEXT = frozenset(
    {
        *(
            "strip",
            "lstrip",
            "rstrip",
            "lower",
            "upper",
            "title",
            "capitalize",
            "casefold",
            "replace",
            "join",
            "format",
        ),
        *(
            "startswith",
            "endswith",
            "isdigit",
            "isalpha",
            "isalnum",
            "isspace",
            "removeprefix",
            "removesuffix",
            "zfill",
        ),
        *("center", "ljust", "rjust", "encode"),
    }
)
"""Methods that only a text has, and whose result no loop is bounded by."""

Method = Callable[[Machine, ast.Call, V, Args, State], V]


def _first(args: Args) -> V:
    return args.items[0] if args.items else args.star or NONE


def append(machine: Machine, node: ast.Call, receiver: V, args: Args, st: State) -> V:
    grow(machine, receiver, st, 1, 1, _first(args))
    grow_foreign(machine, receiver, st, 1, _first(args))
    return NONE


def insert(machine: Machine, node: ast.Call, receiver: V, args: Args, st: State) -> V:
    value = args.items[1] if len(args.items) > 1 else mix(args.all(), st)
    grow(machine, receiver, st, 1, 1, value)
    grow_foreign(machine, receiver, st, 1, value)
    return NONE


def extend(machine: Machine, node: ast.Call, receiver: V, args: Args, st: State) -> V:
    value = _first(args)
    lo, hi = length(value, st)
    grow(machine, receiver, st, lo, hi, elements(value, st))
    grow_foreign(machine, receiver, st, hi, elements(value, st))
    return NONE


def add(machine: Machine, node: ast.Call, receiver: V, args: Args, st: State) -> V:
    grow(machine, receiver, st, 0, 1, _first(args))
    grow_foreign(machine, receiver, st, 1, _first(args))
    return NONE


def pop(machine: Machine, node: ast.Call, receiver: V, args: Args, st: State) -> V:
    """Removes one, unless a default makes it harmless."""
    most: Count = 0 if len(args.items) > 1 or any(st.heap[ref].kind == "dict" for ref in receiver.refs) else -1
    out = contents(receiver, st)
    for value in args.items[1:]:
        out = join(out, value)
    if most:
        _may_have_none(machine, receiver, st)
    grow(machine, receiver, st, -1, most, BOTTOM)
    grow_foreign(machine, receiver, st, 0)
    return out


def _may_have_none(machine: Machine, receiver: V, st: State) -> None:
    """What is taken out of something empty is an error: that bounds how often it is done, and comes after what an
    iteration has done until then."""
    if length(receiver, st)[0] == 0:
        finish(machine, st)


def popitem(machine: Machine, node: ast.Call, receiver: V, args: Args, st: State) -> V:
    key, value = elements(receiver, st), contents(receiver, st)
    _may_have_none(machine, receiver, st)
    grow(machine, receiver, st, -1, -1, BOTTOM)
    grow_foreign(machine, receiver, st, 0)
    return V(seq=Seq(2, 2, join(key, value), (key, value)))


def remove(machine: Machine, node: ast.Call, receiver: V, args: Args, st: State) -> V:
    finish(machine, st)  # it may not be there
    grow(machine, receiver, st, -1, -1, BOTTOM)
    grow_foreign(machine, receiver, st, 0)
    return NONE


def discard(machine: Machine, node: ast.Call, receiver: V, args: Args, st: State) -> V:
    grow(machine, receiver, st, -1, 0, BOTTOM)
    grow_foreign(machine, receiver, st, 0)
    return NONE


def clear(machine: Machine, node: ast.Call, receiver: V, args: Args, st: State) -> V:
    grow(machine, receiver, st, -INF, 0, BOTTOM)
    grow_foreign(machine, receiver, st, 0)
    return NONE


def order(machine: Machine, node: ast.Call, receiver: V, args: Args, st: State) -> V:
    """`sort`, `reverse`: the same elements at other places."""
    from addendum.script.bounds.functions import call_key

    call_key(machine, node, args, elements(receiver, st), length(receiver, st)[1], st)
    for ref in receiver.refs:
        obj = st.heap[ref]
        if obj.fields is not None:
            st.heap[ref] = obj._replace(fields=None)
    return NONE


def update(machine: Machine, node: ast.Call, receiver: V, args: Args, st: State) -> V:
    value = join_all(args.items) if args.items else args.star or BOTTOM
    hi = len(args.named) + sum(length(item, st)[1] for item in args.items or [value])
    if args.double is not None:
        hi = INF
    if args.star is not None:
        hi, value = INF, join(value, args.star)
    held = join(contents(value, st), mix([*args.named.values()], st) if args.named else BOTTOM)
    pairs = elements(value, st)
    if value.seq is not None or (value.refs and not all(st.heap[ref].kind == "dict" for ref in value.refs)):
        held = join(held, contents(pairs, st))
        pairs = join(pairs, contents(pairs, st))
    for ref in receiver.refs:
        obj = st.heap[ref]
        if obj.kind in ("dict", "any"):
            st.heap[ref] = obj._replace(fields=None, elem=join(obj.elem, plain(held)))
    pairs = join(pairs, TOP if args.double is not None else join_all(literal(name) for name in args.named))
    grow(machine, receiver, st, 0, hi, held, pairs)
    grow_foreign(machine, receiver, st, hi, held)
    return NONE


def get(machine: Machine, node: ast.Call, receiver: V, args: Args, st: State) -> V:
    """`get`, with its default or None."""
    default = args.items[1] if len(args.items) > 1 else NONE
    if not args.items or not node.args or isinstance(node.args[0], ast.Starred):
        return join(contents(receiver, st), default)
    if receiver.top and not (receiver.refs or receiver.seq or receiver.funcs or receiver.coros):
        return join(contents(receiver, st), default)
    found = item_at(receiver, node.args[0], args.items[0], st)
    key = node.args[0]
    if isinstance(key, ast.Constant) and not receiver.top and receiver.seq is None and receiver.refs:
        if all(has_field(st.heap[ref], key.value) for ref in receiver.refs):
            return found
    return join(found, default)


def setdefault(machine: Machine, node: ast.Call, receiver: V, args: Args, st: State) -> V:
    default = args.items[1] if len(args.items) > 1 else NONE
    found = join(contents(receiver, st), default)
    for ref in receiver.refs:
        st.heap[ref] = st.heap[ref]._replace(fields=None)
    grow(machine, receiver, st, 0, 1, default, _first(args))
    grow_foreign(machine, receiver, st, 1, default)
    return found


def _view(receiver: V, st: State, kind: str, elem: V) -> V:
    """What shows the entries of a dict; `elem` are those of unknown data."""
    view = V(seq=Seq(INF, 0, BOTTOM, None, receiver.refs, view=(kind,))) if receiver.refs else BOTTOM
    return view if receiver.refs and not receiver.top else join(view, V(seq=Seq(0, INF, elem)))


def items(machine: Machine, node: ast.Call, receiver: V, args: Args, st: State) -> V:
    key, value = elements(receiver, st), contents(receiver, st)
    return _view(receiver, st, "items", V(seq=Seq(2, 2, join(key, value), (key, value))))


def keys(machine: Machine, node: ast.Call, receiver: V, args: Args, st: State) -> V:
    """A dict is walked by its keys, so it stands for the view of them."""
    return V(top=receiver.top, refs=receiver.refs) if receiver.refs or receiver.top else receiver


def values(machine: Machine, node: ast.Call, receiver: V, args: Args, st: State) -> V:
    return _view(receiver, st, "values", contents(receiver, st))


def copy(machine: Machine, node: ast.Call, receiver: V, args: Args, st: State) -> V:
    out = unknown(receiver, st) if receiver.top else BOTTOM
    for ref in sorted(receiver.refs):
        obj = st.heap[ref]
        out = join(out, machine.new(st, obj._replace(glo=0, ghi=0, many=False, foreign=False, site=node, family=None)))
    return out if out != BOTTOM else receiver


def split(machine: Machine, node: ast.Call, receiver: V, args: Args, st: State) -> V:
    """`split`: exact for a constant text, at most one more than a constant `maxsplit`."""
    constants = [part.value for part in node.args if isinstance(part, ast.Constant)]
    text = said(receiver)
    if text is not None and len(constants) == len(node.args) and not node.keywords:
        backward = isinstance(node.func, ast.Attribute) and node.func.attr == "rsplit"
        try:
            parts = (text.rsplit if backward else text.split)(*constants)  # type: ignore[arg-type]
        except (TypeError, ValueError):
            parts = []
        known = [literal(part) for part in parts]
        fields = tuple(enumerate(known)) if len(parts) <= 64 else None
        return machine.new(st, Obj("list", len(parts), len(parts), join_all(known), fields=fields, site=node))
    most = args.items[1] if len(args.items) > 1 else args.named.get("maxsplit")
    hi: Count = INF
    if most is not None and most.num is not None and not most.top and most.num.lo >= 0:
        hi = most.num.hi + 1
    return machine.new(st, Obj("list", 0, hi, TOP, site=node))


def lines(machine: Machine, node: ast.Call, receiver: V, args: Args, st: State) -> V:
    text = said(receiver)
    if text is not None:
        known = [literal(line) for line in text.splitlines()]
        elem = TOP if args.all() else join_all(known)
        return machine.new(st, Obj("list", len(known), len(known), elem, site=node))
    return machine.new(st, Obj("list", 0, INF, TOP, site=node))


def partition(machine: Machine, node: ast.Call, receiver: V, args: Args, st: State) -> V:
    return V(seq=Seq(3, 3, TOP, (TOP, TOP, TOP)))


def _may_be_empty(value: V) -> bool:
    """Whether a value may be the empty text."""
    return value.top or (value.text is not None and not span(value.text)[0])


def number(machine: Machine, node: ast.Call, receiver: V, args: Args, st: State) -> V:
    """`index`, `count`, `find`: no more than the length, at least -1."""
    hi = length(receiver, st)[1]
    name = node.func.attr if isinstance(node.func, ast.Attribute) else ""
    if name == "count" and _may_be_empty(_first(args)):
        hi += 1  # the empty text is in a text once more than it has letters
    low = -1 if name in ("find", "rfind") else 0
    return ANY_INT if hi == INF else V(num=ANY_INT.num._replace(lo=low, hi=hi))  # type: ignore[union-attr]


def same_set(machine: Machine, node: ast.Call, receiver: V, args: Args, st: State) -> V:
    hi = length(receiver, st)[1]
    inner = elements(receiver, st)
    name = node.func.attr if isinstance(node.func, ast.Attribute) else ""
    if name in ("union", "symmetric_difference"):
        for value in args.all():
            hi += length(value, st)[1]
            inner = join(inner, elements(value, st))
    return machine.new(st, Obj("set", 0, hi, plain(inner), site=node))


METHODS: dict[str, Method] = {
    "append": append,
    "insert": insert,
    "extend": extend,
    "add": add,
    "pop": pop,
    "popitem": popitem,
    "remove": remove,
    "discard": discard,
    "clear": clear,
    "sort": order,
    "reverse": order,
    "update": update,
    "get": get,
    "setdefault": setdefault,
    "items": items,
    "keys": keys,
    "values": values,
    "copy": copy,
    "split": split,
    "rsplit": split,
    "splitlines": lines,
    "partition": partition,
    "rpartition": partition,
    "index": number,
    "count": number,
    "find": number,
    "rfind": number,
    "union": same_set,
    "intersection": same_set,
    "difference": same_set,
    "symmetric_difference": same_set,
}

CALLED.update({"method": method})
