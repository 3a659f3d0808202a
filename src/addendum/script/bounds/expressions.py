"""Expressions that aren't calls: constants, names, displays, arithmetic, conditions, subscripts, slices."""

from __future__ import annotations

import ast
from typing import Any

from addendum.script.bounds.arithmetic import calculated
from addendum.script.bounds.conditions import fork
from addendum.script.bounds.contents import contents, elements, length, mix, plain, unknown
from addendum.script.bounds.guards import decide, refine
from addendum.script.bounds.machine import EXPRESSIONS, Machine, constant
from addendum.script.bounds.state import State
from addendum.script.bounds.values import (
    ANY_INT,
    BOTTOM,
    INF,
    NONE,
    TOP,
    Count,
    Num,
    Obj,
    Seq,
    Share,
    Text,
    V,
    has_field,
    integer,
    join,
    join_all,
    literal,
    numeric,
    present,
    said,
    span,
    times,
    wordy,
)

FLAG = integer(0, 1)
MAX_ITEMS = 64
"""How many elements of a display are told apart."""
MAX_TEXT = 1000
"""How long a text that is put together may be to be known by its letters."""


def formatted(machine: Machine, node: ast.JoinedStr, st: State) -> V:
    if node not in machine.busy:
        return TOP
    for part in node.values:
        if isinstance(part, ast.FormattedValue):
            machine.eval(part.value, st)
            if part.format_spec is not None:
                machine.eval(part.format_spec, st)
    return TOP


def display(machine: Machine, node: ast.List | ast.Tuple | ast.Set, st: State) -> V:
    """A list, tuple or set display, stars included."""
    items: list[V] | None = []
    lo: Count = 0
    hi: Count = 0
    elem = BOTTOM
    for part in node.elts:
        if isinstance(part, ast.Starred):
            value = machine.eval(part.value, st)
            seen = positions(value, st)
            if seen is not None and items is not None:
                items += seen
            else:
                items = None
            low, high = length(value, st)
            lo, hi = lo + low, hi + high
            elem = join(elem, elements(value, st))
        else:
            value = machine.eval(part, st)
            if items is not None:
                items.append(value)
            lo, hi = lo + 1, hi + 1
            elem = join(elem, value)
    if isinstance(node, ast.Tuple):
        known = tuple(items) if items is not None and len(items) <= MAX_ITEMS else None
        return V(seq=Seq(lo, hi, elem, known))
    elem = plain(elem)
    fields = None
    if isinstance(node, ast.List) and items is not None and len(items) <= MAX_ITEMS:
        fields = tuple((at, plain(item)) for at, item in enumerate(items))
    kind = "list" if isinstance(node, ast.List) else "set"
    return machine.new(st, Obj(kind, lo if kind == "list" else min(lo, 1), hi, elem, fields=fields, site=node))


def positions(value: V, st: State) -> list[V] | None:
    """The elements of a sequence one by one, when each is known."""
    if value.top or value.text is not None:
        return None
    if value.seq is not None and not value.refs and value.seq.items is not None:
        return list(value.seq.items)
    if value.seq is not None and not value.refs and value.seq.view == ("values",) and len(value.seq.live) == 1:
        obj = st.heap[next(iter(value.seq.live))]
        if obj.kind == "dict" and obj.fields is not None and obj.lo == obj.hi == len(obj.fields) and not obj.many:
            return [entry for _, entry in obj.fields]
        return None
    if value.seq is None and len(value.refs) == 1:
        obj = st.heap[next(iter(value.refs))]
        if obj.kind == "list" and obj.fields is not None and not obj.many and obj.lo == obj.hi == len(obj.fields):
            return [item for _, item in sorted(obj.fields, key=lambda pair: int(pair[0]))]
    return None


def dictionary(machine: Machine, node: ast.Dict, st: State) -> V:
    """A dict display; entries with constant keys are told apart, and `**` is merged in."""
    fields: dict[Any, V] | None = {}
    elem = last = BOTTOM
    keys = _keys(machine, node)
    extra: Count = 0
    sure: set[Any] = set()
    for key, value_node in zip(node.keys, node.values, strict=True):
        value = plain(machine.eval(value_node, st))
        if key is None:
            for ref in value.refs:
                obj = st.heap[ref]
                elem, keys = join(elem, obj.elem), join(keys, obj.key)
                if fields is not None and obj.fields is not None and len(value.refs) == 1 and not value.top:
                    for name, entry in obj.fields:
                        here = has_field(obj, name)
                        fields[name] = entry if here else join(present(entry), fields.get(name, NONE))
                        sure |= {name} if here else set()
                else:
                    fields = None
                extra += obj.hi
            if value.top or not value.refs:
                fields, extra = None, extra + length(value, st)[1]
                elem, keys = join(elem, elements(value, st)), join(keys, TOP)
            continue
        if value is not last:
            elem = join(elem, value)
            last = value
        if type(key) is not ast.Constant:
            keys = join(keys, plain(machine.eval(key, st)))
        extra += 1
        if fields is not None:
            if type(key) is ast.Constant and len(fields) < MAX_ITEMS:
                fields[key.value] = value
                sure.add(key.value)
            else:
                fields = None
    known = None if fields is None else tuple(fields.items())
    hi = extra if fields is None else min(extra, len(fields)) if fields else extra
    lo: Count = 0 if fields is None else len(sure)
    return machine.new(st, Obj("dict", lo, hi, elem, keys, fields=known, site=node))


def _keys(machine: Machine, node: ast.Dict) -> V:
    """The constants among a display's keys, which are the same each time."""
    found = machine.constants.get(node)
    if found is None:
        found = join_all(constant(key.value) for key in node.keys if type(key) is ast.Constant)
        machine.constants[node] = found
    return found


def binary(machine: Machine, node: ast.BinOp, st: State) -> V:
    left, right = machine.eval(node.left, st), machine.eval(node.right, st)
    return combine(machine, type(node.op), left, right, st, node)


def combine(machine: Machine, kind: type[ast.operator], left: V, right: V, st: State, node: ast.AST) -> V:
    """The value of a binary operation on two values."""
    if left.num is not None and right.num is not None and numeric(left) and numeric(right):
        return calculated(kind, left, right)
    if kind is ast.Add and (wordy(left) or wordy(right)):
        # What is added to a text is one, as nothing else can be.
        low, high = length(left, st), length(right, st)
        one, two = said(left), said(right)
        if one is not None and two is not None and len(one) + len(two) <= MAX_TEXT:
            return literal(one + two)
        return V(text=(low[0] + high[0], low[1] + high[1]))
    if kind is ast.Mult and ((wordy(left) and numeric(right)) or (numeric(left) and wordy(right))):
        return _copied(left, right)
    if (left.num is not None or left.text is not None) and (right.num is not None or right.text is not None):
        return join(V(top=True, num=Num()), mix((left, right), st))  # a number, a text, a list: one of several
    if kind is ast.Add and (left.refs or left.seq or right.refs or right.seq) and left.text is None:
        return concatenated(machine, left, right, st, node)
    if kind is ast.Mult and (left.refs or left.seq or right.refs or right.seq):
        return repeated(machine, left, right, st, node)
    if kind is ast.BitOr and (left.refs or right.refs):
        low, high = length(left, st), length(right, st)
        value, keys = join(contents(left, st), contents(right, st)), join(elements(left, st), elements(right, st))
        shape = "dict" if any(st.heap[ref].kind == "dict" for ref in left.refs | right.refs) else "set"
        return machine.new(st, Obj(shape, max(low[0], high[0]), low[1] + high[1], value, keys, site=node))
    if kind in (ast.Sub, ast.BitAnd) and left.refs:
        return machine.new(st, Obj("set", 0, length(left, st)[1], elements(left, st), site=node))
    if left.num is not None or right.num is not None:
        return join(ANY_INT, mix((left, right), st)) if _holds(left) or _holds(right) else V(top=True, num=Num())
    if not _holds(left) and not _holds(right):
        return TOP
    return mix((left, right), st)


def _holds(value: V) -> bool:
    return bool(value.refs or value.funcs or value.coros or value.seq)


def _copied(left: V, right: V) -> V:
    """`text * n`: n times as long."""
    text, factor = (left, right) if left.num is None else (right, left)
    assert text.text is not None
    assert factor.num is not None
    lo, hi = span(text.text)
    return V(text=(times(lo, max(0, factor.num.lo)), times(hi, max(0, factor.num.hi))))


def concatenated(machine: Machine, left: V, right: V, st: State, node: ast.AST) -> V:
    """`a + b` of lists or tuples: a new sequence as long as both."""
    low, high = length(left, st), length(right, st)
    one, two = positions(left, st), positions(right, st)
    items = one + two if one is not None and two is not None and len(one) + len(two) <= MAX_ITEMS else None
    elem = join(elements(left, st), elements(right, st))
    if left.refs or right.refs or left.top or right.top:
        fields = None if items is None else tuple((at, plain(item)) for at, item in enumerate(items))
        return machine.new(st, Obj("list", low[0] + high[0], low[1] + high[1], plain(elem), fields=fields, site=node))
    return V(seq=Seq(low[0] + high[0], low[1] + high[1], elem, None if items is None else tuple(items)))


def repeated(machine: Machine, left: V, right: V, st: State, node: ast.AST) -> V:
    """`[x] * n`: n times as long."""
    many, factor = (left, right) if right.num is not None else (right, left)
    lo, hi = length(many, st)
    count = factor.num or Num()
    most = times(hi, max(0, count.hi if not factor.top else INF))
    least = times(lo, max(0, count.lo)) if not factor.top else 0
    known = positions(many, st)
    fields = None
    if known is not None and least == most <= MAX_ITEMS:
        fields = tuple(enumerate([plain(item) for item in known] * int(count.lo)))
    if not many.refs and not many.top and known is not None and fields is not None:
        return V(seq=Seq(least, most, elements(many, st), tuple(item for _, item in fields)))
    return machine.new(st, Obj("list", least, most, plain(elements(many, st)), fields=fields, site=node))


def unary(machine: Machine, node: ast.UnaryOp, st: State) -> V:
    if isinstance(node.op, ast.Not):
        if node in machine.busy:
            machine.eval(node.operand, st)
        return FLAG
    value = machine.eval(node.operand, st)
    if value.num is not None and not value.top:
        if isinstance(node.op, ast.USub):
            return V(num=Num(-value.num.hi, -value.num.lo), real=value.real, odd=value.odd)
        if isinstance(node.op, ast.UAdd):
            return V(num=value.num, real=value.real, odd=value.odd)
    return V(top=value.top, num=Num(), real=value.real, odd=value.odd)


def compare(machine: Machine, node: ast.Compare, st: State) -> V:
    if node not in machine.busy:
        return FLAG
    machine.eval(node.left, st)
    for part in node.comparators:
        machine.eval(part, st)
    return FLAG


def either(machine: Machine, node: ast.BoolOp, st: State) -> V:
    """`and`, `or`: any operand; later ones run only if the earlier ones let them."""
    out = machine.eval(node.values[0], st)
    wanted = isinstance(node.op, ast.And)
    left_out: list[State] = []
    for before, operand in zip(node.values, node.values[1:], strict=False):
        verdict = decide(machine, before, st)
        if verdict is not None and verdict is not wanted:
            break
        skipped = st.copy()
        refine(machine, before, not wanted, skipped)
        left_out.append(skipped)
        refine(machine, before, wanted, st)
        value = machine.eval(operand, st)
        out = value if out == NONE and not wanted else join(out if wanted else present(out), value)
    for state in left_out:
        st.absorb(state)
    return out


def conditional(machine: Machine, node: ast.IfExp, st: State) -> V:
    other = fork(machine, node.test, st)
    value = BOTTOM if st.dead else machine.eval(node.body, st)
    if not other.dead:
        value = join(value, machine.eval(node.orelse, other))
    st.absorb(other)
    return value


def walrus(machine: Machine, node: ast.NamedExpr, st: State) -> V:
    value = machine.eval(node.value, st)
    machine.store(node.target, value, st)
    machine.may_stop(st)
    return value


def attribute(machine: Machine, node: ast.Attribute, st: State) -> V:
    value = machine.eval(node.value, st)
    machine.used(value)
    return mix((value,), st)


def starred(machine: Machine, node: ast.Starred, st: State) -> V:
    return machine.eval(node.value, st)


def subscript(machine: Machine, node: ast.Subscript, st: State) -> V:
    value = machine.eval(node.value, st)
    machine.used(value)
    if isinstance(node.slice, ast.Slice):
        return sliced(machine, node, value, node.slice, st)
    index = machine.eval(node.slice, st)
    return item_at(value, node.slice, index, st)


def item_at(value: V, node: ast.expr, index: V, st: State) -> V:
    """`value[index]`: the entry, if container and index are known well enough, else any entry."""
    key: Any = None
    if isinstance(node, ast.Constant):
        key = node.value
    elif index.text is not None:
        key = said(index)
    elif index.num is not None and index.num.lo == index.num.hi and numeric(index) and not index.null:
        key = int(index.num.lo)
    if key is None:
        return contents(value, st)
    out = unknown(value, st) if value.top else BOTTOM
    if value.seq is not None:
        items = value.seq.items
        if items is not None and isinstance(key, int) and -len(items) <= key < len(items):
            out = join(out, items[key])
        else:
            out = join(out, contents(V(seq=value.seq), st))
    for ref in value.refs:
        obj = st.heap[ref]
        found = None
        if obj.fields is not None:
            at = key
            if obj.kind == "list" and isinstance(key, int) and key < 0 and obj.lo == obj.hi:
                at = key + int(obj.hi)
            for each, entry in obj.fields:
                if each == at:
                    found = entry
        out = join(out, obj.elem if found is None else found)
    return join(out, contents(V(text=value.text), st)) if value.text else out


def sliced(machine: Machine, node: ast.AST, value: V, part: ast.Slice, st: State) -> V:
    """`value[a:b:c]`: a new sequence whose length follows from the ends."""
    lo, hi = length(value, st)
    start = None if part.lower is None else _end(part.lower, machine.eval(part.lower, st), 0)
    stop = None if part.upper is None else _end(part.upper, machine.eval(part.upper, st), INF)
    step = None if part.step is None else _end(part.step, machine.eval(part.step, st), 1)
    backward = step is not None and step.lo <= 0
    most = hi if backward else slice_length(hi, start, stop)
    if not backward and part.upper is not None:
        honest = slice_length(hi, start, stop, trusting=False)
        if most < honest and not machine.trusts(part.upper):
            most = honest
    if step is not None and step.lo > 1 and most != INF and not backward:
        most = -(-most // step.lo)
    least = lo if start is None and stop is None and step is None else 0
    if start is None and stop is not None and stop.lo >= 0 and step is None:
        least = min(lo, stop.lo)
    rest = _rest(machine, node, part, start, stop, st)
    if wordy(value) and value.text is not None and rest is None:
        return _cut(value.text, (start, stop, step), (least, most))
    elem = elements(value, st)
    share = _share(machine, hi, start, stop)
    if value.seq is not None and not value.top and not value.refs and value.text is None:
        return V(seq=Seq(least, most, elem, None, frozenset(), share))
    return machine.new(st, Obj("list", least, most, plain(elem), site=node, share=share, rest=rest))


def _cut(text: Text, ends: tuple[Num | None, Num | None, Num | None], size: tuple[Count, Count]) -> V:
    """A slice of a text: known if the text and the ends are, else how long it is."""
    if isinstance(text, str) and all(end is None or end.lo == end.hi for end in ends):
        start, stop, step = [None if end is None else int(end.lo) for end in ends]
        if step != 0:
            return literal(text[start:stop:step])
    return V(text=size)


def _rest(
    machine: Machine, node: ast.AST, part: ast.Slice, start: Num | None, stop: Num | None, st: State
) -> tuple[int, tuple[int, str], int] | None:
    """For `xs[k:]` with k from 1 on, where xs is still what it was when the iteration began: what is left of it."""
    if not isinstance(node, ast.Subscript) or not isinstance(node.value, ast.Name) or not machine.active:
        return None
    if start is None or start.lo < 1 or start.lo == INF or stop is not None or part.step is not None:
        return None
    key = machine.place(node.value)
    loop = machine.active[-1]
    if key is None or machine.begins.get(loop, {}).get(key) is not st.vars.get(key):
        return None
    if any(st.heap[ref].ghi > 0 for ref in st.vars[key].refs):
        return None
    return loop, key, int(start.lo)


def _end(node: ast.expr, value: V, missing: Count) -> Num | None:
    """The number that an end of a slice is, None where there is none; `missing` is what it stands for where it may be
    None."""
    if isinstance(node, ast.Constant) and node.value is None:
        return None
    if value.top or value.num is None:
        return Num()
    if value.null:
        return Num(min(value.num.lo, missing), max(value.num.hi, missing))
    return value.num


def slice_length(hi: Count, start: Num | None, stop: Num | None, *, trusting: bool = True) -> Count:
    """The most elements that `x[start:stop]` has when x has at most `hi`.

    An end of which only the upper limit is known (`min(n, CONST)`) is trusted to be a count, so not negative: the
    annotation has that checked at run time (see `Machine.trusts`).
    """
    most = hi
    if start is not None and start.hi < 0:
        most = min(most, -start.lo)
    elif start is not None and start.lo > 0 and most != INF:
        most = max(0, most - start.lo)
    if start is not None and stop is not None and start.sym is not None and start.sym == stop.sym:
        # Whatever the ends are, also negative ones: what lies between them is no more than their distance.
        most = min(most, max(0, stop.dhi - start.dlo))
    if stop is None:
        return most
    if stop.hi < 0:
        return max(0, min(most, hi + stop.hi))
    if stop.lo < 0 and (stop.lo != -INF or not trusting):
        return most
    end = stop.hi
    if start is not None and start.lo >= 0:
        end = max(0, end - start.lo)
    elif start is not None and start.hi >= 0:
        end = max(end, 0)
    return min(most, end)


def _share(machine: Machine, hi: Count, start: Num | None, stop: Num | None) -> Share | None:
    """For `x[i:i + k]` where the loop's index i rises by at least k: the slices are disjoint parts of x. And for
    `x[i + k:]`, which gets shorter as i rises."""
    if start is None or start.sym is None or hi == INF or start.lo < 0:
        return None
    if stop is None:
        return falling(machine, start, hi)
    if start.sym != stop.sym:
        return None
    loop = start.sym[0]
    step = machine.steps_of.get(loop, 0)
    if start.sym[1] == (0, "index") and start.dlo == start.dhi and stop.dhi - start.dlo <= step * start.sym[2]:
        return Share(loop, hi, machine.fresh())
    return None


def falling(machine: Machine, start: Num, stop: Count) -> Share | None:
    """What is left from a loop's rising index on to a fixed end, over all iterations: n, n - 1, n - 2 and so on."""
    if start.sym is None or start.sym[1:] != ((0, "index"), 1) or abs(stop) == INF:
        return None
    loop = start.sym[0]
    step, low = machine.steps_of.get(loop, 0), machine.index_lows.get(loop, -INF) + start.dlo
    if step < 1 or abs(low) == INF:
        return None
    most = max(0, stop - low)
    rounds = -(-most // step)
    return Share(loop, rounds * most - step * (rounds * (rounds - 1) // 2), machine.fresh())


EXPRESSIONS.update(
    {
        ast.JoinedStr: formatted,
        ast.List: display,
        ast.Tuple: display,
        ast.Set: display,
        ast.Dict: dictionary,
        ast.BinOp: binary,
        ast.UnaryOp: unary,
        ast.Compare: compare,
        ast.BoolOp: either,
        ast.IfExp: conditional,
        ast.NamedExpr: walrus,
        ast.Attribute: attribute,
        ast.Starred: starred,
        ast.Subscript: subscript,
    }
)
