"""How many iterations counters, lengths and shrinking lists allow (see `loops`)."""

from __future__ import annotations

import ast
from collections.abc import Iterator

from addendum.script.bounds.arithmetic import exact
from addendum.script.bounds.contents import length
from addendum.script.bounds.machine import Machine
from addendum.script.bounds.rounds import Round
from addendum.script.bounds.state import Key, State
from addendum.script.bounds.values import INF, Count, Num, numeric


def iterations(machine: Machine, node: ast.AST, start: State, run: Round) -> tuple[Count, Count]:
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
    for key, at_head in run.head_vars.items():
        head = at_head.num
        if head is None or not key[0]:
            continue
        value, first = back.vars.get(key), start.vars.get(key)
        if value is None or value.num is None or first is None or first.num is None or key in machine.volatile_vars:
            continue
        if value.null or first.null or not (numeric(value) and numeric(first)):
            continue
        num, begin = value.num, first.num
        if num.sym != (run.uid, key, 1):
            continue
        below, above = _beyond(machine, node, key, head) if value.real else (False, False)
        if value.real:
            # No limit holds for what has no order, and far out a float may stay what it is whatever is added.
            head = Num() if at_head.odd or not exact(head) else head
            num = num._replace(lo=-INF, hi=INF) if value.odd or not exact(num) else num
        yield _rising(num.dlo, begin.lo, head.hi - _offset(run, key, high=True), num.hi, before=below)
        yield _rising(-num.dhi, -begin.hi, -(head.lo - _offset(run, key, high=False)), -num.lo, before=above)
    for ident, obj in back.heap.items():
        begin_obj, head_obj = start.heap.get(ident), run.head_heap.get(ident)
        if begin_obj is None or head_obj is None or obj.many or ident in machine.volatile_refs or obj.foreign:
            continue
        yield _rising(obj.glo, begin_obj.lo, head_obj.hi - head_obj.ghi, obj.hi)
        yield _rising(-obj.ghi, -begin_obj.hi, -(head_obj.lo - head_obj.glo), -obj.lo)
    step = machine.steps_of.get(run.uid, 0)
    for value in [value for key, value in back.vars.items() if key in run.head_vars]:
        if value.num is not None and value.num.sym == (run.uid, (0, "index"), 1) and step and value.num.hi != INF:
            low = machine.index_lows.get(run.uid, 0)
            yield INF, (value.num.hi - value.num.dhi - low) // step + 1
    if isinstance(node, ast.While):
        yield _cut(machine, node.test, start, run), INF


def _cut(machine: Machine, test: ast.expr, start: State, run: Round) -> Count:
    """`while xs: ... xs = xs[k:]`: each iteration takes k elements away, as long as there are any."""
    best: Count = INF
    for part in _conditions(test):
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
    num = run.head_vars[key].num
    assert num is not None
    if num.sym != (run.uid, key, 1):
        return INF if high else -INF
    return num.dlo if high else num.dhi


def _conditions(test: ast.expr) -> list[ast.expr]:
    """What all has to hold where a test does."""
    return test.values if isinstance(test, ast.BoolOp) and isinstance(test.op, ast.And) else [test]


def _beyond(machine: Machine, node: ast.AST, key: Key, head: Num) -> tuple[bool, bool]:
    """Whether a loop's test keeps a float below its upper limit at the head, and above its lower one: the limits are
    whole numbers, and the test leaves them out. A counter of whole numbers has the next one as its limit; one that the
    test itself moves may have got there after it was compared."""
    below = above = False
    if not isinstance(node, ast.While):
        return below, above
    if any(isinstance(part, ast.NamedExpr) and machine.place(part.target) == key for part in ast.walk(node.test)):
        return below, above
    for part in _conditions(node.test):
        if not (isinstance(part, ast.Compare) and len(part.ops) == 1):
            continue
        left, op, right = part.left, part.ops[0], part.comparators[0]
        rising = isinstance(op, ast.Lt)
        if isinstance(left, ast.Constant):
            left, right, rising = right, left, not rising
        if not (isinstance(op, ast.Lt | ast.Gt) and isinstance(left, ast.Name) and machine.place(left) == key):
            continue
        if isinstance(right, ast.Constant) and type(right.value) is int:
            below = below or (rising and right.value == head.hi)
            above = above or (not rising and right.value == head.lo)
    return below, above


def _rising(by: Count, first: Count, at_head: Count, at_back: Count, *, before: bool = False) -> tuple[Count, Count]:
    """Iterations of a counter that rises by at least `by` from at least `first`, by its limits at head and back; it
    stays `before` the one at the head if that is so."""
    if by < 1 or abs(first) == INF:
        return INF, INF
    head = (
        max(0, -(-(at_head - first) // by) if before else (at_head - first) // by + 1) if abs(at_head) != INF else INF
    )
    back = max(0, (at_back - first) // by) if abs(at_back) != INF else INF
    return head, back
