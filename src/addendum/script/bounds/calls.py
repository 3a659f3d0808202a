"""Calls of script functions: closures, arguments, coroutines, recursion.

A call is inlined with its arguments, so a helper that is used with 3 and with 6 items costs 9 calls, and a
function handed to a retry helper is counted as often as that helper calls it. A recursion is followed as long
as its arguments change; one that comes back with the same arguments has no bound that follows from the source.
"""

from __future__ import annotations

import ast
from dataclasses import dataclass, field

from addendum.script.bounds.contents import elements, mix, of_a_call, plain, unknown
from addendum.script.bounds.expressions import positions
from addendum.script.bounds.loops import reaches
from addendum.script.bounds.machine import CALLED, EXPRESSIONS, MAX_DEPTH, Machine, TooInvolved
from addendum.script.bounds.state import Cost, Key, State, plus
from addendum.script.bounds.values import (
    BOTTOM,
    INF,
    NONE,
    TOP,
    Act,
    Closure,
    Coro,
    Num,
    Obj,
    Seq,
    V,
    has_field,
    join,
    join_all,
    literal,
    renumbered,
)


@dataclass(slots=True)
class Args:
    """The evaluated arguments of a call; `star` and `double` join what `*` and `**` pass."""

    items: list[V] = field(default_factory=list)
    star: V | None = None
    named: dict[str, V] = field(default_factory=dict)
    double: V | None = None

    def all(self) -> list[V]:
        """Every value that is passed."""
        extra = [value for value in (self.star, self.double) if value is not None]
        return [*self.items, *self.named.values(), *extra]


def arguments(machine: Machine, node: ast.Call, st: State) -> Args:
    """Evaluate a call's arguments, left to right."""
    args = Args()
    for part in node.args:
        if isinstance(part, ast.Starred):
            value = machine.eval(part.value, st)
            known = positions(value, st) if args.star is None else None
            if known is not None:
                args.items += known
            else:
                args.star = join(args.star or BOTTOM, elements(value, st))
        elif args.star is not None:
            args.star = join(args.star, machine.eval(part, st))
        else:
            args.items.append(machine.eval(part, st))
    for keyword in node.keywords:
        value = machine.eval(keyword.value, st)
        if keyword.arg is not None:
            args.named[keyword.arg] = value
            continue
        fields = None
        if len(value.refs) == 1 and not value.top:
            obj = st.heap[next(iter(value.refs))]
            if all(has_field(obj, name) for name, _ in obj.fields or ()):
                fields = obj.fields
        if fields is not None:
            args.named.update({str(name): item for name, item in fields})
        else:
            args.double = join(args.double or BOTTOM, mix((value,), st))
    return args


def define(machine: Machine, node: ast.FunctionDef | ast.AsyncFunctionDef, st: State) -> None:
    """A def: its defaults are evaluated now, its name is bound to the closure."""
    value = make(machine, node, st)
    machine.bind(node, node.name, value, st)


def make(machine: Machine, node: ast.FunctionDef | ast.AsyncFunctionDef | ast.Lambda, st: State) -> V:
    """The closure of a def or lambda."""
    spec = node.args
    defaults: list[tuple[str, V]] = []
    named = [*spec.posonlyargs, *spec.args]
    for param, default in zip(named[len(named) - len(spec.defaults) :], spec.defaults, strict=True):
        defaults.append((param.arg, plain(machine.eval(default, st))))
    for param, extra in zip(spec.kwonlyargs, spec.kw_defaults, strict=True):
        if extra is not None:
            defaults.append((param.arg, plain(machine.eval(extra, st))))
    return V(funcs=frozenset((machine.closure(node, machine.act, tuple(defaults)),)))


def bind_params(machine: Machine, closure: Closure, args: Args, st: State) -> tuple[tuple[str, V], ...]:
    """Match arguments with parameters; what doesn't fit raises at run time and is left out here."""
    spec = closure.node.args
    given = list(args.items)
    out: dict[str, V] = {}
    defaults = dict(closure.defaults)
    for param in [*spec.posonlyargs, *spec.args]:
        name = param.arg
        if given:
            out[name] = given.pop(0)
        elif name in args.named:
            out[name] = args.named[name]
        else:
            out[name] = _left(name, defaults, args)
    for param in spec.kwonlyargs:
        name = param.arg
        out[name] = args.named[name] if name in args.named else _left(name, defaults, args)
    if spec.vararg is not None:
        if args.star is None:
            inner = BOTTOM
            for value in given:
                inner = join(inner, value)
            out[spec.vararg.arg] = V(seq=Seq(len(given), len(given), inner, tuple(given)))
        else:
            out[spec.vararg.arg] = V(seq=Seq(0, INF, _joined(args.star, given)))
    if spec.kwarg is not None:
        rest = {name: plain(value) for name, value in args.named.items() if name not in out}
        elem = BOTTOM
        for value in rest.values():
            elem = join(elem, value)
        if args.double is not None:
            elem = join(elem, args.double)
        known = tuple(rest.items()) if args.double is None else None
        names = join_all(literal(name) for name in rest) if args.double is None else TOP
        hi = len(rest) if args.double is None else INF
        lo = len(rest) if args.double is None else 0
        out[spec.kwarg.arg] = machine.new(st, Obj("dict", lo, hi, elem, names, fields=known, site=spec.kwarg))
    return tuple(out.items())


def _left(name: str, defaults: dict[str, V], args: Args) -> V:
    value = defaults.get(name, BOTTOM)
    for extra in (args.star, args.double):
        if extra is not None:
            value = join(value, extra)
    return value if value != BOTTOM else NONE


def _joined(first: V, rest: list[V]) -> V:
    for value in rest:
        first = join(first, value)
    return first


def call(machine: Machine, node: ast.Call, st: State, *, awaited: bool = False) -> V:
    """Any call expression."""
    func = node.func
    if isinstance(func, ast.Attribute):
        if isinstance(func.value, ast.Name) and func.value.id == "ctx":
            return CALLED["ctx"](machine, node, st, awaited=awaited)
        value = CALLED["method"](machine, node, func, st)
        return await_value(machine, value, st) if awaited else value
    if isinstance(func, ast.Name) and machine.place(func) is None:
        value = CALLED["builtin"](machine, node, func.id, st)
        return await_value(machine, value, st) if awaited else value
    target = machine.eval(func, st)
    args = arguments(machine, node, st)
    return apply(machine, node, target, args, st, awaited=awaited)


def apply(machine: Machine, node: ast.Call, target: V, args: Args, st: State, *, awaited: bool = False) -> V:
    """Call a value. Each function it may be is run; sync ones at once, async ones when they are awaited."""
    out = BOTTOM
    if not target.funcs or target.top:
        out = mix(args.all(), st) if any(v.funcs or v.coros or v.refs for v in args.all()) else TOP
    ends: list[State] = []
    closures = sorted(target.funcs, key=lambda closure: (closure.node.lineno, closure.node.col_offset, closure.act.key))
    for closure in closures:
        state = st if len(closures) == 1 else st.copy()
        params = bind_params(machine, closure, args, state)
        if isinstance(closure.node, ast.AsyncFunctionDef):
            if awaited:
                value = run_body(machine, closure, params, state, node, machine.act)
            else:
                coro = machine.coro(node, closure, machine.act, tuple((name, plain(item)) for name, item in params))
                state.spend(coro)
                value = V(coros=frozenset((coro,)))
        else:
            value = run_body(machine, closure, params, state, node, machine.act)
            if awaited:
                value = await_value(machine, value, state)
        out = join(out, value)
        if state is not st:
            ends.append(state)
    if ends:
        st.dead = True
        for state in ends:
            st.absorb(state)
    return out


def await_value(machine: Machine, value: V, st: State) -> V:
    """`await value`: runs each coroutine that it may be, once."""
    coros = sorted(value.coros, key=lambda coro: (coro.node.lineno, coro.node.col_offset, coro.act.key))
    out = unknown(value, st) if value.top else BOTTOM
    if len(coros) == 1 and not value.top:
        return run_coro(machine, coros[0], st)
    ends: list[State] = []
    for coro in coros:
        state = st.copy()
        out = join(out, run_coro(machine, coro, state))
        ends.append(state)
    for state in ends:
        st.absorb(state)
    return out if out != BOTTOM else NONE


def run_coro(machine: Machine, coro: Coro, st: State) -> V:
    """Run a coroutine that was made before."""
    machine.ran.add(coro.node)
    if coro.closure is None:
        return CALLED["perform"](machine, coro.node, coro.params, st)
    return run_body(machine, coro.closure, coro.params, st, coro.node, coro.act)


def run_body(
    machine: Machine, closure: Closure, params: tuple[tuple[str, V], ...], st: State, node: ast.Call, caller: Act
) -> V:
    """Run a function's body on a state."""
    signature = tuple(plain(value) for _, value in params)
    active = [at for at, (other, _) in enumerate(machine.stack) if other is closure]
    if active and _comes_back(machine, closure, signature, active):
        machine.cut.add(active[0])
        _escape(machine, closure, params, st)
        return mix([*[value for _, value in params], *machine.captured(closure, st)], st)
    if len(machine.stack) >= MAX_DEPTH:
        raise TooInvolved(node, "calls")
    act = machine.activation(machine.scope.inner[closure.node], closure.act, node, caller)
    for name, value in params:
        key = (act.key, name)
        num = value.num
        if num is not None and num.sym is None:
            # Within one call a parameter is one number: `x[start:start + 5]` has at most five elements.
            value = renumbered(value, Num(num.lo, num.hi, (-act.key, key, 1)))
        st.vars[key] = join(value, st.vars[key]) if key in st.vars else value
        if key in st.partial:
            st.partial -= {key}
    level = len(machine.stack)
    before = st.cost
    machine.stack.append((closure, signature))
    saved = machine.act, machine.exits, machine.returns
    machine.act, machine.exits, machine.returns = act, [], []
    try:
        if isinstance(closure.node, ast.Lambda):
            out = machine.eval(closure.node.body, st)
        else:
            machine.block(closure.node.body, st)
            if not st.dead:
                machine.returns.append((st.copy(), NONE))
            out = BOTTOM
            st.dead = True
            for state, value in machine.returns:
                st.absorb(state)
                out = join(out, value)
    finally:
        machine.act, machine.exits, machine.returns = saved
        machine.stack.pop()
    if of_a_call(out):
        out = plain(out)
    if level in machine.cut:
        machine.cut.discard(level)
        _unbounded_recursion(machine, closure, node, st, before)
    if not machine.keeps_names(act.names):
        st.forget([(act.key, name) for name in act.names.bindings])
    return out


def _comes_back(machine: Machine, closure: Closure, signature: tuple[V, ...], active: list[int]) -> bool:
    """Whether to stop following a recursion: it repeats its arguments, or it is pure and its result doesn't matter."""
    if any(machine.stack[at][1] == signature for at in active):
        return True
    if isinstance(closure.node, ast.Lambda):
        return len(active) > 1
    return not machine.scope.function_of(closure.node).reaches


def _unbounded_recursion(machine: Machine, closure: Closure, node: ast.Call, st: State, before: Cost) -> None:
    """A function came back to itself: if that costs a call, it may cost it any number of times."""
    own = {key: count - before.get(key, 0) for key, count in st.cost.items() if count > before.get(key, 0)}
    if reaches(own) or _has_call(machine, closure):
        where = _recursive_call(machine, closure) or node
        machine.problem("recursion", where, "recursion")
        st.cost = plus(st.cost, dict.fromkeys(own, INF))


def _has_call(machine: Machine, closure: Closure) -> bool:
    """Whether a ctx call stands in a function's own body."""
    return any(
        isinstance(part, ast.Call) and machine.scope.ctx_call(part) is not None and machine.scope.counted(part)
        for part in ast.walk(closure.node)
    )


def _recursive_call(machine: Machine, closure: Closure) -> ast.Call | None:
    """The call in a function's body that leads back to it, the first one by name."""
    name = getattr(closure.node, "name", None)
    for part in ast.walk(closure.node):
        if isinstance(part, ast.Call) and isinstance(part.func, ast.Name) and part.func.id == name:
            return part
    return None


def _escape(machine: Machine, closure: Closure, params: tuple[tuple[str, V], ...], st: State) -> None:
    """What a recursion that isn't followed may change: everything it can reach, if it changes anything."""
    if not machine.mutates(closure.node):
        return
    roots, objects = reach([closure], [value for _, value in params], st)
    rebound = machine.rebound()
    for key in roots:
        if key[1] in rebound:
            st.vars[key] = join(st.vars[key], TOP)
    held = mix([*[value for _, value in params], *[st.vars[key] for key in roots]], st)
    for ref in objects:
        obj = st.heap[ref]
        elem = join(obj.elem, held)
        st.heap[ref] = obj._replace(lo=0, hi=INF, glo=-INF, ghi=INF, fields=None, elem=elem, share=None)


def reach(closures: list[Closure], values: list[V], st: State) -> tuple[list[Key], set[int]]:
    """The variables and objects that functions can get at: their own, what they are given, what others in there
    hold."""
    acts: set[int] = set()
    objects: set[int] = set()
    variables: list[Key] = []
    while closures or values:
        while closures:
            act: Act | None = closures.pop().act
            while act is not None and act.key not in acts:
                acts.add(act.key)
                found = [key for key in st.vars if key[0] == act.key]
                variables += found
                values += [st.vars[key] for key in found]
                act = act.parent
        value = values.pop() if values else BOTTOM
        closures += [*value.funcs, *[coro.closure for coro in value.coros if coro.closure is not None]]
        values += [inner for coro in value.coros for _, inner in coro.params]
        values += [inner for function in value.funcs for _, inner in function.defaults]
        if value.seq is not None:
            values += [value.seq.elem, *(value.seq.items or ())]
            closures += value.seq.made
        refs = value.refs if value.seq is None else value.refs | value.seq.live | value.seq.read
        for ref in refs - objects:
            objects.add(ref)
            obj = st.heap[ref]
            values += [obj.elem, obj.key, *[entry for _, entry in obj.fields or ()]]
    return variables, objects


def lambda_(machine: Machine, node: ast.Lambda, st: State) -> V:
    return make(machine, node, st)


def awaited(machine: Machine, node: ast.Await, st: State) -> V:
    if isinstance(node.value, ast.Call):
        return call(machine, node.value, st, awaited=True)
    return await_value(machine, machine.eval(node.value, st), st)


EXPRESSIONS.update({ast.Call: call, ast.Lambda: lambda_, ast.Await: awaited})
