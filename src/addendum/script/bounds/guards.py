"""What a condition says about variables: deciding it, and narrowing a state to the arm where it holds.

Knows comparisons of names, `len(name)` and sums with bounded integers, truth of counts and of lists, and their
combination with `not`, `and`, `or`. Anything else says nothing, which is always right.
"""

from __future__ import annotations

import ast
from typing import Final

from addendum.script.bounds.arithmetic import calculated, exact
from addendum.script.bounds.contents import length
from addendum.script.bounds.machine import Machine, constant
from addendum.script.bounds.state import State
from addendum.script.bounds.values import INF, TOP, Count, Num, Obj, V, integer, numeric, present

_FLIP: Final[dict[type[ast.cmpop], type[ast.cmpop]]] = {
    ast.Lt: ast.Gt,
    ast.Gt: ast.Lt,
    ast.LtE: ast.GtE,
    ast.GtE: ast.LtE,
    ast.Eq: ast.Eq,
    ast.NotEq: ast.NotEq,
}
_SAME: Final = (ast.Is, ast.Eq)
_OTHER: Final = (ast.IsNot, ast.NotEq)
_NEGATE: Final[dict[type[ast.cmpop], type[ast.cmpop]]] = {
    ast.Lt: ast.GtE,
    ast.Gt: ast.LtE,
    ast.LtE: ast.Gt,
    ast.GtE: ast.Lt,
    ast.Eq: ast.NotEq,
    ast.NotEq: ast.Eq,
}


def figure(machine: Machine, node: ast.expr, st: State) -> V | None:
    """The number that an expression without effects is, None if it may be anything else."""
    if isinstance(node, ast.Constant):
        number = constant(node.value) if isinstance(node.value, int | float) else None
        return None if number is None or (number.num or Num()).lo == -INF else number
    if isinstance(node, ast.Name):
        found = machine.load(node, st)
        return found if numeric(found) and not found.null else None
    if isinstance(node, ast.NamedExpr):
        return figure(machine, node.target, st)
    if isinstance(node, ast.BinOp):
        left, right = figure(machine, node.left, st), figure(machine, node.right, st)
        return None if left is None or right is None else calculated(type(node.op), left, right)
    if isinstance(node, ast.UnaryOp) and isinstance(node.op, ast.USub):
        inner = figure(machine, node.operand, st)
        if inner is None or inner.num is None:
            return None
        return V(num=Num(-inner.num.hi, -inner.num.lo), real=inner.real, odd=inner.odd)
    sized = _sized(node)
    if sized is not None:
        return integer(*length(machine.load(sized, st), st))
    return None


def peek(machine: Machine, node: ast.expr, st: State) -> Num | None:
    """The interval that an expression without effects lies in, None if it may be anything but a number."""
    found = figure(machine, node, st)
    return None if found is None else found.num


def _sized(node: ast.expr) -> ast.Name | None:
    """The name in `len(name)`."""
    if isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id == "len" and len(node.args) == 1:
        argument = node.args[0]
        if isinstance(argument, ast.Name) and not node.keywords:
            return argument
    return None


def decide(machine: Machine, node: ast.expr, st: State) -> bool | None:
    """The truth of a condition if it is the same on every run that gets here, else None."""
    if isinstance(node, ast.UnaryOp) and isinstance(node.op, ast.Not):
        inner = decide(machine, node.operand, st)
        return None if inner is None else not inner
    if isinstance(node, ast.BoolOp):
        if node in machine.busy:
            return None
        stop = isinstance(node.op, ast.Or)
        verdicts = [decide(machine, part, st) for part in node.values]
        if stop in verdicts:
            return stop
        return None if None in verdicts else not stop
    if isinstance(node, ast.Compare):
        if len(node.ops) != 1 or not _settled(machine, node):
            return None
        left, right = peek(machine, node.left, st), peek(machine, node.comparators[0], st)
        if left is None or right is None:
            return None
        verdict = _decide_pair(type(node.ops[0]), left, right)
        differs = isinstance(node.ops[0], ast.NotEq)
        if verdict is not differs and (_odd(machine, node.left, st) or _odd(machine, node.comparators[0], st)):
            return None
        return verdict
    if isinstance(node, ast.Constant):
        return bool(node.value)
    if isinstance(node, ast.Name):
        number = peek(machine, node, st)
        if number is not None and not _odd(machine, node, st):
            return False if number.lo == number.hi == 0 else True if number.lo > 0 or number.hi < 0 else None
    return None


def _settled(machine: Machine, node: ast.Compare) -> bool:
    """Whether the operands still are what was compared: evaluating one has changed no other."""
    if node not in machine.busy:
        return True
    named = False
    for part in (node.left, *node.comparators):
        if part in machine.busy and (named or not isinstance(part, ast.NamedExpr | ast.Call | ast.Await)):
            return False
        named = named or not isinstance(part, ast.Constant)
    return True


def _odd(machine: Machine, node: ast.expr, st: State) -> bool:
    """Whether a number may be the one that is neither smaller than, nor equal to, nor larger than any other."""
    found = figure(machine, node, st)
    return found is not None and found.odd


def _decide_pair(op: type[ast.cmpop], a: Num, b: Num) -> bool | None:
    if op is ast.Lt:
        return True if a.hi < b.lo else False if a.lo >= b.hi else None
    if op is ast.LtE:
        return True if a.hi <= b.lo else False if a.lo > b.hi else None
    if op in (ast.Gt, ast.GtE):
        return _decide_pair(_FLIP[op], b, a)
    if op is ast.Eq:
        return True if a.lo == a.hi == b.lo == b.hi != INF else False if a.hi < b.lo or a.lo > b.hi else None
    if op is ast.NotEq:
        same = _decide_pair(ast.Eq, a, b)
        return None if same is None else not same
    # 1 and True are equal, but not the same.
    apart = a.hi < b.lo or a.lo > b.hi
    return (op is ast.IsNot) if apart and op in (ast.Is, ast.IsNot) else None


def refine(machine: Machine, node: ast.expr, truth: bool, st: State) -> None:
    """Narrow a state to the runs on which a condition, already evaluated, was `truth`; dead if there are none."""
    if isinstance(node, ast.UnaryOp) and isinstance(node.op, ast.Not):
        refine(machine, node.operand, not truth, st)
    elif isinstance(node, ast.BoolOp):
        if node in machine.busy:
            return
        if isinstance(node.op, ast.And) is truth:
            for part in node.values:
                refine(machine, part, truth, st)
        else:
            _any_of(machine, node.values, truth, st)
    elif isinstance(node, ast.Compare):
        if not _settled(machine, node):
            return
        if len(node.ops) == 1:
            _none(machine, node, truth, st)
            _pair(machine, node.left, type(node.ops[0]), node.comparators[0], truth, st)
        elif truth:
            lefts = [node.left, *node.comparators]
            for left, op, right in zip(lefts, node.ops, node.comparators, strict=False):
                _pair(machine, left, type(op), right, True, st)
    elif isinstance(node, ast.NamedExpr):
        refine(machine, node.target, truth, st)
    elif isinstance(node, ast.Name):
        _truthy(machine, node, truth, st)
    elif isinstance(node, ast.Constant):
        if bool(node.value) is not truth:
            st.dead = True
    elif _sized(node) is not None:
        zero = ast.Constant(0)
        _pair(machine, node, ast.Gt if truth else ast.LtE, zero, True, st)


def _none(machine: Machine, node: ast.Compare, truth: bool, st: State) -> None:
    """`x is None`, `x is not None`: where it isn't None."""
    kind, right, left = type(node.ops[0]), node.comparators[0], node.left
    if not isinstance(right, ast.Constant) or right.value is not None or (kind in _SAME) is truth:
        return
    if isinstance(left, ast.NamedExpr):
        left = left.target
    if isinstance(left, ast.Name) and (kind in _SAME or kind in _OTHER):
        _present(machine, left, st)


def _present(machine: Machine, name: ast.Name, st: State) -> None:
    key = machine.place(name)
    value = st.vars.get(key) if key is not None else None
    if key is not None and value is not None and key not in machine.volatile_vars:
        st.vars[key] = present(value)


def _any_of(machine: Machine, parts: list[ast.expr], truth: bool, st: State) -> None:
    """`a or b` holds, or `a and b` doesn't: the join over which one it was."""
    out: State | None = None
    for part in parts:
        one = st.copy()
        refine(machine, part, truth, one)
        if one.dead:
            continue
        if out is None:
            out = one
        else:
            out.absorb(one)
    if out is None:
        st.dead = True
    else:
        st.become(out)


def _pair(machine: Machine, left: ast.expr, op: type[ast.cmpop], right: ast.expr, truth: bool, st: State) -> None:
    if op not in _FLIP:
        return
    ordered = truth is not (op is ast.NotEq)  # NaN isn't among the numbers for which this holds
    if not truth:
        op = _NEGATE[op]
    a, b = peek(machine, left, st), peek(machine, right, st)
    if a is not None and b is not None and _decide_pair(op, a, b) is False:
        st.dead = ordered or not (_odd(machine, left, st) or _odd(machine, right, st))
        return
    if b is not None:
        _limit(machine, left, op, b, ordered, st)
    if a is not None:
        _limit(machine, right, _FLIP[op], a, ordered, st)


def _limit(machine: Machine, node: ast.expr, op: type[ast.cmpop], other: Num, ordered: bool, st: State) -> None:
    """Narrow `node` by `node op other`, where node is a name or `len(name)`, plus or minus a constant."""
    if isinstance(node, ast.BinOp) and isinstance(node.op, ast.Add | ast.Sub):
        by, whole = peek(machine, node.right, st), figure(machine, node, st)
        if by is not None and by.lo == by.hi and exact(by) and exact(other):
            shift = by.lo if isinstance(node.op, ast.Add) else -by.lo
            off = 0 if whole is not None and not whole.real else 1  # a sum of floats is rounded
            _limit(machine, node.left, op, Num(other.lo - shift - off, other.hi - shift + off), ordered, st)
        return
    if isinstance(node, ast.NamedExpr):
        node = node.target
    lo: Count = -INF
    hi: Count = INF
    beyond = 0 if isinstance(node, ast.Name) and _is_real(machine.load(node, st)) else 1
    if op is ast.Lt:
        hi = other.hi - beyond
    elif op is ast.LtE:
        hi = other.hi
    elif op is ast.Gt:
        lo = other.lo + beyond
    elif op is ast.GtE:
        lo = other.lo
    elif op is ast.Eq:
        lo, hi = other.lo, other.hi
    if isinstance(node, ast.Name):
        _narrow(machine, node, op, (lo, hi), other, ordered, st)
        return
    sized = _sized(node)
    if sized is not None:
        if op is ast.NotEq and other.lo == other.hi:
            low, high = length(machine.load(sized, st), st)
            lo = low + 1 if low == other.lo else -INF
            hi = high - 1 if high == other.lo else INF
            if low <= other.lo < high:
                lo, hi = _assume_length(machine, sized, other.lo, st) if lo == -INF else (lo, hi)
        _narrow_length(machine, sized, lo, hi, st)


def _is_real(value: V) -> bool:
    """Whether a number may lie between two whole ones."""
    return value.real or value.top


def _narrow(
    machine: Machine,
    name: ast.Name,
    op: type[ast.cmpop],
    limits: tuple[Count, Count],
    other: Num,
    ordered: bool,
    st: State,
) -> None:
    lo, hi = limits
    key = machine.place(name)
    value = st.vars.get(key) if key is not None else None
    if key is None or value is None or key in machine.volatile_vars:
        return
    num = value.num
    if num is None or value.top:
        # Whatever isn't a number raises when it is compared with one.
        if value.top and (lo != -INF or hi != INF) and not (value.refs or value.seq or value.funcs or value.coros):
            st.vars[key] = V(num=Num(lo, hi), real=True, odd=not ordered)
        return
    if op is ast.NotEq:
        if other.lo != other.hi:
            return
        if value.real and num.lo != num.hi:
            return
        lo = num.lo + 1 if num.lo == other.lo else -INF
        hi = num.hi - 1 if num.hi == other.lo else INF
        if num.lo < other.lo < num.hi:
            lo, hi = _assume_number(machine, key, num, other.lo)
    low, high = max(num.lo, lo), min(num.hi, hi)
    if low > high:
        # What isn't a number differs from one, but raises when it is compared by size.
        if not value.odd and (op is not ast.NotEq or (numeric(value) and not value.null)):
            st.dead = True
        return
    # What was compared by size with a number, or is equal to one, isn't None.
    null = value.null and op is ast.NotEq
    st.vars[key] = value._replace(num=num._replace(lo=low, hi=high), null=null, odd=value.odd and not ordered)


def _assume_number(machine: Machine, key: tuple[int, str], num: Num, other: float) -> tuple[float, float]:
    """Take `n != c` for `n < c` if the counter starts below c (or for `n > c` above it); see `_assumed_rightly`.

    A counter that moves by single steps meets c before it passes it. Whether this one does shows at the end of the
    iteration; if not, the loop is analysed again without the assumption.
    """
    loop = machine.active[-1] if machine.active else 0
    start = machine.starts.get(loop)
    if start is None or num.sym != (loop, key, 1) or num.dlo != num.dhi:
        return -INF, INF
    first = start.vars.get(key)
    if first is None or first.num is None or first.null or first.real or not numeric(first):
        return -INF, INF
    if first.num.hi + num.dlo <= other:
        machine.assumed.setdefault(loop, []).append((key, True, other))
        return -INF, other - 1
    if first.num.lo + num.dlo >= other:
        machine.assumed.setdefault(loop, []).append((key, False, other))
        return other + 1, INF
    return -INF, INF


def _assume_length(machine: Machine, name: ast.Name, other: float, st: State) -> tuple[float, float]:
    """The same for `len(xs) != c` of a list that grows by single elements."""
    loop = machine.active[-1] if machine.active else 0
    start = machine.starts.get(loop)
    value = machine.load(name, st)
    if start is None or len(value.refs) != 1 or value.seq or value.top:
        return -INF, INF
    ref = next(iter(value.refs))
    first, now = start.heap.get(ref), st.heap[ref]
    if first is None or now.many or now.foreign or now.glo != now.ghi or ref in machine.volatile_refs:
        return -INF, INF
    if first.hi + now.ghi <= other:
        machine.assumed.setdefault(loop, []).append((ref, True, other))
        return -INF, other - 1
    return -INF, INF


def _narrow_length(machine: Machine, name: ast.Name, lo: float, hi: float, st: State) -> None:
    key = machine.place(name)
    value = st.vars.get(key) if key is not None else None
    if key is None or value is None or key in machine.volatile_vars:
        return
    if value.top:
        if hi != INF:
            # The data may be changed under another name, so growth of unknown data counts for this object too.
            known = Obj("any", max(0, lo), hi, TOP, TOP, foreign=True, site=name)
            ident = machine.fresh()
            st.heap[ident] = known
            st.vars[key] = value._replace(top=False, refs=value.refs | {ident})
        return
    seq = value.seq
    if value.text is not None:
        return
    if seq is not None and (seq.live or seq.read):
        return  # an iterator has no length, and a view has that of what it shows
    if seq is not None and not value.refs:
        low, high = max(seq.lo, lo), min(seq.hi, hi)
        if low > high:
            st.dead = True
            return
        items = seq.items if seq.items is not None and low <= len(seq.items) <= high else None
        st.vars[key] = value._replace(seq=seq._replace(lo=low, hi=high, items=items))
    elif len(value.refs) == 1 and seq is None:
        ref = next(iter(value.refs))
        obj = st.heap[ref]
        if obj.many or ref in machine.volatile_refs:
            return
        low, high = max(obj.lo, lo), min(obj.hi, hi)
        if low > high:
            st.dead = True
        else:
            # Where all entries are there that some path has made, they may be so in another order.
            full = obj.kind == "dict" and obj.lo < low and low >= len(obj.fields or ())
            st.heap[ref] = obj._replace(lo=low, hi=high, fields=None if full and low > 1 else obj.fields)


def _truthy(machine: Machine, name: ast.Name, truth: bool, st: State) -> None:
    if truth:
        _present(machine, name, st)
    value = machine.load(name, st)
    if value.top:
        return
    if value.null:
        return
    if numeric(value):
        zero = Num(0, 0)
        limits: tuple[Count, Count] = (-INF, INF) if truth else (0, 0)
        _narrow(machine, name, ast.NotEq if truth else ast.Eq, limits, zero, not truth, st)
    elif (value.refs or value.seq) and value.num is None and not (value.funcs or value.coros):
        _narrow_length(machine, name, 1 if truth else 0, INF if truth else 0, st)
