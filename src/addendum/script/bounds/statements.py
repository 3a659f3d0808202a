"""Statements: assignment and unpacking, conditions, loops, `try`, `match`, definitions."""

from __future__ import annotations

import ast
from typing import Final

from addendum.script.bounds.calls import define, reach
from addendum.script.bounds.conditions import fork, hold
from addendum.script.bounds.contents import contents, elements, length, mix, plain, sources, stirred
from addendum.script.bounds.expressions import combine, item_at, positions
from addendum.script.bounds.loops import Step, iterate, reaches
from addendum.script.bounds.machine import STATEMENTS, Exits, Machine, TooInvolved, finish
from addendum.script.bounds.methods import grow, grow_foreign, replace_foreign, spread
from addendum.script.bounds.sharing import shared_length, sharing
from addendum.script.bounds.state import Key, State, nowhere, peak
from addendum.script.bounds.stepping import in_steps
from addendum.script.bounds.values import (
    BOTTOM,
    INF,
    NONE,
    TOP,
    Closure,
    Count,
    Num,
    Obj,
    Seq,
    V,
    has_field,
    interval,
    join,
    renumbered,
)


def expression(machine: Machine, node: ast.Expr, st: State) -> None:
    machine.settle(node.value, st)


def assignment(machine: Machine, node: ast.Assign, st: State) -> None:
    value = machine.eval(node.value, st)
    for target in node.targets:
        assign(machine, target, value, st)


def annotated(machine: Machine, node: ast.AnnAssign, st: State) -> None:
    if node.value is not None:
        assign(machine, node.target, machine.eval(node.value, st), st)


def assign(machine: Machine, target: ast.expr, value: V, st: State) -> None:
    """Bind a target, unpacking where it is a tuple."""
    if isinstance(target, ast.Name):
        machine.store(target, value, st)
    elif isinstance(target, ast.Tuple | ast.List):
        _unpack(machine, target, value, st)
    elif isinstance(target, ast.Starred):
        assign(machine, target.value, value, st)
    elif isinstance(target, ast.Subscript):
        set_item(machine, target, value, st)
    elif isinstance(target, ast.Attribute):
        machine.eval(target.value, st)


def _unpack(machine: Machine, target: ast.Tuple | ast.List, value: V, st: State) -> None:
    machine.used(value)
    known = positions(value, st)
    count = len(target.elts)
    stars = [at for at, part in enumerate(target.elts) if isinstance(part, ast.Starred)]
    inner = join(elements(value, st), BOTTOM)
    if not stars and known is not None and len(known) == count:
        for part, item in zip(target.elts, known, strict=True):
            assign(machine, part, item, st)
            machine.may_stop(st)
        return
    lo, hi = length(value, st)
    for part in target.elts:
        if isinstance(part, ast.Starred):
            rest = Seq(max(0, lo - count + 1), max(0, hi - count + 1), inner)
            assign(machine, part.value, machine.new(st, Obj("list", rest.lo, rest.hi, rest.elem, site=part)), st)
        else:
            assign(machine, part, inner, st)
        machine.may_stop(st)


def set_item(machine: Machine, target: ast.Subscript, value: V, st: State) -> None:
    """`container[key] = value`: a dict may grow by one, a list keeps its length, a slice may add anything."""
    container = machine.eval(target.value, st)
    machine.changes(target, container)
    value = plain(value)
    if isinstance(target.slice, ast.Slice):
        for part in (target.slice.lower, target.slice.upper, target.slice.step):
            if part is not None:
                machine.eval(part, st)
        most = length(value, st)[1]
        grow(machine, container, st, -INF, most, elements(value, st))
        grow_foreign(machine, container, st, most, elements(value, st))
        return
    key = machine.eval(target.slice, st)
    name = target.slice.value if isinstance(target.slice, ast.Constant) else None
    exact = isinstance(target.slice, ast.Constant)
    strong = len(container.refs) == 1 and not container.top
    for ref in container.refs:
        obj = st.heap[ref]
        fields = obj.fields
        added: Count = 0 if obj.kind == "list" else 1
        if fields is not None:
            table = dict(fields)
            if exact and obj.kind == "dict":
                added = 0 if has_field(obj, name) else 1
                table[name] = value if strong and not obj.many and name in table else join(table.get(name, NONE), value)
                if strong and not obj.many and added:
                    table[name] = value
                fields = tuple(table.items())
            elif exact and obj.kind == "list" and name in table:
                table[name] = value if strong and not obj.many else join(table[name], value)
                fields = tuple(table.items())
            else:
                fields = tuple((known, join(old, value)) for known, old in fields)
                if obj.kind == "dict":
                    fields = None
        most = obj.hi + added
        if fields is not None and obj.kind == "dict":
            most = min(most, len(fields))  # it has no other keys
        st.heap[ref] = obj._replace(
            hi=most,
            ghi=obj.ghi + added,
            elem=join(obj.elem, value),
            key=join(obj.key, plain(key)) if obj.kind != "list" else obj.key,
            fields=fields,
            share=None,
            rest=None,
        )
        if obj.family is not None:
            spread(st, ref, obj.family, 0, added, value, plain(key) if obj.kind != "list" else BOTTOM)
    if container.top and not container.refs:
        replace_foreign(machine, value, st)
    else:
        grow_foreign(machine, container, st, 1, value)


_UNTOLD: Final = (ast.Subscript, ast.Name, ast.BinOp)
"""What makes a list of unknown data, or something else that is as long."""


def _lists(value: V, st: State) -> bool:
    """Whether a value is made of displays of lists, and nothing else."""
    if value.top or value.text is not None or value.seq is not None:
        return False
    return all(isinstance(st.heap[ref].site, ast.List) for ref in value.refs)


def _is_list(value: V, st: State) -> bool:
    """Whether a value is a list, and nothing else."""
    if value.top or value.text is not None or value.num is not None or value.seq is not None or not value.refs:
        return False
    return all(st.heap[ref].kind == "list" and not isinstance(st.heap[ref].site, _UNTOLD) for ref in value.refs)


def _is_no_list(value: V, st: State) -> bool:
    """Whether a value can be walked and is no list."""
    if value.top or any(st.heap[ref].kind not in ("dict", "set") for ref in value.refs):
        return False
    return bool(value.refs or value.seq is not None or value.text is not None)


def augmented(machine: Machine, node: ast.AugAssign, st: State) -> None:
    """`x += y`: in place for a list, else like `x = x + y`."""
    target = node.target
    if isinstance(target, ast.Name):
        old = machine.load(target, st)
    elif isinstance(target, ast.Subscript) and not isinstance(target.slice, ast.Slice):
        container = machine.eval(target.value, st)
        old = item_at(container, target.slice, machine.eval(target.slice, st), st)
    else:
        old = TOP
    right = machine.eval(node.value, st)
    machine.changes(node, old)
    kind = type(node.op)
    if kind is ast.Add and _is_list(old, st) and _is_no_list(right, st):
        machine.problem("unlike", node, "unlike")
    if kind is ast.Add and old.refs:
        low, high = length(right, st)
        if any(isinstance(st.heap[ref].site, _UNTOLD) for ref in old.refs) and not _lists(right, st):
            low = 0  # it may be a text, and what has the same text keeps it
        grow(machine, old, st, low, high, elements(right, st))
        if not old.top and old.num is None and old.seq is None and old.text is None:
            return
    if (old.top and not isinstance(target, ast.Name)) or (old.top and kind is ast.Add and not right.num):
        grow_foreign(machine, old, st, length(right, st)[1], elements(right, st))
    only = old.num is None and old.seq is None and old.text is None
    if kind is ast.Mult and old.refs:
        grow(machine, old, st, -INF, INF, BOTTOM)
        if only:
            return
    if kind in (ast.BitOr, ast.Sub, ast.BitAnd, ast.BitXor) and old.refs:
        added = elements(right, st)
        grow(machine, old, st, -INF if kind is not ast.BitOr else 0, length(right, st)[1], added, added)
        for ref in old.refs:
            obj = st.heap[ref]
            st.heap[ref] = obj._replace(elem=join(obj.elem, contents(right, st)), fields=None)
        if only:
            return
    value = combine(machine, kind, old, right, st, node)
    if old.refs:
        value = join(value, V(refs=old.refs))  # a list is still the same one, whatever else it may be
    if isinstance(target, ast.Name):
        machine.store(target, value, st)
    elif isinstance(target, ast.Subscript):
        set_item(machine, target, value, st)


def condition(machine: Machine, node: ast.If, st: State) -> None:
    other = fork(machine, node.test, st)
    if not st.dead and not other.dead:
        machine.steps -= (len(st.vars) + len(st.heap)) >> 5
    if not st.dead:
        machine.block(node.body, st)
    if not other.dead:
        machine.block(node.orelse, other)
    if not st.dead and not other.dead:
        _views(machine, st, other)
        _views(machine, other, st)
    st.absorb(other)


def _views(machine: Machine, one: State, other: State) -> None:
    """Where a condition told a list's length in `one`, and `other` gave its name another list, keep what was told.

    Else the arms would meet in a list of any length: `if len(xs) > 5: xs = xs[:5]`.
    """
    for ref, obj in list(one.heap.items()):
        wide = other.heap.get(ref)
        if wide is None or wide is obj or obj.hi >= wide.hi or obj.ghi != wide.ghi:
            continue
        for key, value in one.vars.items():
            if ref in value.refs and ref not in other.vars.get(key, BOTTOM).refs:
                view = machine.link(one, ref, obj)
                one.vars[key] = value._replace(refs=(value.refs - {ref}) | view.refs)


MAX_UNROLLED = 12
"""How many elements are walked one by one, when they are functions or lists of different lengths."""


def for_loop(machine: Machine, node: ast.For, st: State) -> None:
    iterable = machine.eval(node.iter, st)
    machine.walked(node.iter, iterable, st)
    if _unroll(machine, node, iterable, st):
        return
    enter, known = walk(machine, node.target, iterable, st)

    def body(state: State) -> None:
        machine.block(node.body, state)

    share = shared_length(machine, iterable, st)
    run = sharing(machine, st, share)
    bound, breaks, back = iterate(machine, node, st, known, enter, body)
    close_loop(machine, node, st, bound, back, "loop", known)
    run(bound == known and not back.dead, back)
    if node.orelse and not st.dead:
        machine.block(node.orelse, st)
    for state in breaks:
        st.absorb(state)


def apart(iterable: V, st: State) -> list[V] | None:
    """The elements to walk one by one: few, known, and different in what they call or how long they are."""
    known = positions(iterable, st)
    if known is None or not 1 < len(known) <= MAX_UNROLLED:
        return None
    if iterable.refs and any(st.heap[ref].many or st.heap[ref].foreign for ref in iterable.refs):
        return None
    if not any(_tells(item) for item in known):
        return None
    return known if any(item != known[0] for item in known[1:]) else None


def _tells(value: V) -> bool:
    """Whether a value is, or a tuple holds, a function, a coroutine or a list."""
    if value.funcs or value.coros or value.refs:
        return True
    return value.seq is not None and any(_tells(item) for item in value.seq.items or ())


def _unroll(machine: Machine, node: ast.For, iterable: V, st: State) -> bool:
    """Walk a display of functions or lists element by element; False if the loop has to be run as one."""
    known = apart(iterable, st)
    if known is None:
        return False
    before = {ref: st.heap[ref] for ref in sources(iterable)[1]}
    trial = st.copy()
    marks = len(machine.returns), len(machine.ends)
    exits = Exits()
    machine.exits.append(exits)
    for item in known:
        assign(machine, node.target, item, trial)
        machine.may_stop(trial)
        machine.block(node.body, trial)
        for state in exits.continues:
            trial.absorb(state)
        exits.continues.clear()
        if trial.dead:
            break
    machine.exits.pop()
    states = [trial, *exits.breaks]
    if any(stirred(before, state) for state in states):
        del machine.returns[marks[0] :], machine.ends[marks[1] :]
        return False
    machine.note(machine.loops, node, len(known))
    st.become(trial)
    if node.orelse and not st.dead:
        machine.block(node.orelse, st)
    for state in exits.breaks:
        st.absorb(state)
    return True


def close_loop(machine: Machine, node: ast.AST, st: State, bound: Count, back: State, kind: str, known: Count) -> None:
    """Record a loop's bound, and the problem when there is none and an iteration costs a call."""
    machine.note(machine.loops, node, bound)
    if bound > machine.max_bound and not back.dead and reaches(back.cost):
        machine.problem(kind, node, "huge" if bound != INF else "grows" if known != INF else "unbounded")


def walk(machine: Machine, target: ast.expr, iterable: V, st: State) -> tuple[Step, Count]:
    """How a loop over a value begins an iteration, and how many there are at most."""
    hi = length(iterable, st)[1]
    live, read = sources(iterable)
    step: Count = 0
    low: Count = 0
    seq = iterable.seq
    if seq is not None:
        if seq.step and not iterable.refs and not iterable.top:
            step = seq.step
            first = seq.elem.num or (seq.elem.seq.items[0].num if seq.elem.seq and seq.elem.seq.items else None)
            low = first.lo if first is not None else -INF
            step = step if low != -INF else 0

    known = {ref: st.heap[ref] for ref in read}
    used = _used(seq.made, st) if seq is not None and seq.made else None

    def enter(state: State, uid: int) -> frozenset[int]:
        elem = elements(iterable, state)
        if used is not None and _used(seq.made, state) != used:  # type: ignore[union-attr]
            raise TooInvolved(target, "loop")  # what is computed while it is walked depends on what the loop changes
        if seq is not None and not seq.view and stirred(known, state):
            now = V(refs=read)
            more = mix((now,), state) if _nested(elem) else elements(now, state)
            elem = _outgrown(elem, more, indexed=bool(seq.step))
        if step:
            machine.steps_of[uid] = step
            machine.index_lows[uid] = low
            elem = _indexed(elem, uid)
        elif elem.num is not None:
            elem = renumbered(elem, interval(elem.num.lo, elem.num.hi, (uid, (0, "item"), 1)))
        assign(machine, target, elem, state)
        return live

    return enter, hi


def _nested(elem: V) -> bool:
    """Whether an element is a tuple with another one in it, as those of an iterator over an iterator are."""
    return elem.seq is not None and any(item.seq is not None for item in elem.seq.items or (elem.seq.elem,))


def _used(functions: frozenset[Closure], st: State) -> tuple[dict[Key, V], dict[int, Obj]]:
    """What functions read."""
    variables, objects = reach([*functions], [], st)
    inside = {key: plain(st.vars[key]) for key in variables}
    return inside, {ref: st.heap[ref]._replace(glo=0, ghi=0) for ref in objects}


def _outgrown(elem: V, more: V, *, indexed: bool) -> V:
    """The element of an iterator whose sources have changed since it was made: any index, and what is there now."""
    if elem.num is not None:
        elem = renumbered(elem, Num(elem.num.lo, INF))
    if elem.seq is not None and elem.seq.items:
        first, *rest = elem.seq.items
        first = renumbered(first, Num(first.num.lo, INF)) if indexed and first.num is not None else join(first, more)
        items = (first, *[join(item, more) for item in rest])
        return elem._replace(seq=elem.seq._replace(items=items, elem=join(elem.seq.elem, join(more, first))))
    return join(elem, more)


def _indexed(elem: V, uid: int) -> V:
    """The loop's element with the symbol of the loop's index on it, or on its first item."""
    sym = (uid, (0, "index"), 1)
    if elem.num is not None:
        return renumbered(elem, Num(elem.num.lo, elem.num.hi, sym))
    if elem.seq is not None and elem.seq.items and elem.seq.items[0].num is not None:
        first = elem.seq.items[0]
        num = first.num
        assert num is not None
        marked = renumbered(first, Num(num.lo, num.hi, sym))
        return elem._replace(seq=elem.seq._replace(items=(marked, *elem.seq.items[1:])))
    return elem


def while_loop(machine: Machine, node: ast.While, st: State) -> None:
    breaks = in_steps(machine, node, st)
    if breaks is None:
        breaks = _counted(machine, node, st)
    if node.orelse and not st.dead:
        machine.block(node.orelse, st)
    for state in breaks:
        st.absorb(state)


def _counted(machine: Machine, node: ast.While, st: State) -> list[State]:
    def enter(state: State, uid: int) -> frozenset[int]:
        hold(machine, node.test, True, state)
        return frozenset()

    def body(state: State) -> None:
        machine.block(node.body, state)

    bound, breaks, back = iterate(machine, node, st, INF, enter, body)
    close_loop(machine, node, st, bound, back, "loop", INF)
    endless = st.copy() if bound == INF else None
    hold(machine, node.test, False, st)  # the test that fails is evaluated once more
    if st.dead and endless is not None:
        finish(machine, endless)  # it never ends by itself, but what it cost until then was spent
    return breaks


def leave_by(machine: Machine, node: ast.Break | ast.Continue, st: State) -> None:
    if machine.exits:
        exits = machine.exits[-1]
        (exits.breaks if isinstance(node, ast.Break) else exits.continues).append(st.copy())
    st.dead = True


def returned(machine: Machine, node: ast.Return, st: State) -> None:
    value = NONE
    if node.value is not None:
        if len(machine.stack) > 1:
            value = machine.eval(node.value, st)
        else:
            machine.settle(node.value, st)  # nobody walks the result of the run
    if not st.dead:
        machine.returns.append((st.copy(), value))
    st.dead = True


def raised(machine: Machine, node: ast.Raise, st: State) -> None:
    for part in (node.exc, node.cause):
        if part is not None:
            machine.settle(part, st)
    finish(machine, st)
    st.dead = True


def attempt(machine: Machine, node: ast.Try, st: State) -> None:
    """`try`: a handler starts from the join of all places in the body; `finally` runs on every way out."""
    exits = machine.exits[-1] if machine.exits else Exits()
    marks = (len(machine.returns), len(exits.breaks), len(exits.continues))
    thrown = st.copy()
    machine.handlers.append(thrown)
    try:
        machine.block(node.body, st)
    finally:
        machine.handlers.pop()
    ends: list[State] = []
    escaped = nowhere()
    if node.finalbody:
        machine.handlers.append(escaped)  # what is raised on the way to `finally`
    if not st.dead:
        machine.block(node.orelse, st)
    for handler in node.handlers:
        state = thrown.copy()
        if handler.type is not None:
            machine.eval(handler.type, state)
        if handler.name is not None:
            machine.bind(handler, handler.name, TOP, state)
        machine.block(handler.body, state)
        ends.append(state)
    for state in ends:
        st.absorb(state)
    if node.finalbody:
        machine.handlers.pop()
    if node.finalbody:
        thrown = thrown.copy()
        thrown.absorb(escaped)
        machine.block(node.finalbody, thrown)
    # What goes on from here has paid for it too, unless it is in a loop that nothing else leaves.
    if machine.active or machine.handlers or st.dead or peak(st.cost, thrown.cost) != st.cost:
        finish(machine, thrown)
    if node.finalbody:
        _finally(machine, node, exits, marks)
        if not st.dead:
            machine.block(node.finalbody, st)


def _finally(machine: Machine, node: ast.Try, exits: Exits, marks: tuple[int, int, int]) -> None:
    """Run `finally` on the states that left the statement on another way since the marks were taken."""
    states = [state for state, _ in machine.returns[marks[0] :]]
    states += exits.breaks[marks[1] :] + exits.continues[marks[2] :]
    for state in states:
        machine.block(node.finalbody, state)


def matched(machine: Machine, node: ast.Match, st: State) -> None:
    subject = machine.eval(node.subject, st)
    inside = mix((subject,), st)
    inside = join(inside, subject)
    ends: list[State] = []
    for case in node.cases:
        state = st.copy()
        for part in ast.walk(case.pattern):
            if isinstance(part, ast.MatchAs | ast.MatchStar) and part.name is not None:
                whole = part is case.pattern
                machine.bind(part, part.name, subject if whole else inside, state)
            elif isinstance(part, ast.MatchMapping) and part.rest is not None:
                machine.bind(part, part.rest, inside, state)
        if case.guard is not None:
            other = fork(machine, case.guard, state)
            st.absorb(state)
            st.absorb(other)
        if not state.dead:
            machine.block(case.body, state)
        ends.append(state)
        if isinstance(case.pattern, ast.MatchAs) and case.pattern.pattern is None and case.guard is None:
            st.dead = True
            break
    for state in ends:
        st.absorb(state)


def definition(machine: Machine, node: ast.FunctionDef | ast.AsyncFunctionDef, st: State) -> None:
    define(machine, node, st)


def asserted(machine: Machine, node: ast.Assert, st: State) -> None:
    finish(machine, fork(machine, node.test, st))


def nothing(machine: Machine, node: ast.stmt, st: State) -> None:
    return


STATEMENTS.update(
    {
        ast.Expr: expression,
        ast.Assign: assignment,
        ast.AnnAssign: annotated,
        ast.AugAssign: augmented,
        ast.If: condition,
        ast.For: for_loop,
        ast.While: while_loop,
        ast.Break: leave_by,
        ast.Continue: leave_by,
        ast.Return: returned,
        ast.Raise: raised,
        ast.Try: attempt,
        ast.Match: matched,
        ast.FunctionDef: definition,
        ast.AsyncFunctionDef: definition,
        ast.Assert: asserted,
        ast.Pass: nothing,
        ast.Import: nothing,
        ast.ImportFrom: nothing,
        ast.Nonlocal: nothing,
        ast.Global: nothing,
    }
)
