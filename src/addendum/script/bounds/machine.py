"""The machine that runs a script on abstract values: activations, statements, and what leaves a block.

It follows the source as the interpreter would, calls inlined at each call site, both arms of a condition that
isn't decided, and a loop's body until nothing new changes (`loops`). What it finds is an upper bound on every
run (an abstract interpretation in the sense of Cousot and Cousot, POPL 1977). Work is limited by `max_steps`;
a script that needs more is `TooInvolved`, which the checker reports.
"""

from __future__ import annotations

import ast
import math
from collections.abc import Callable, Iterable
from typing import Any, Final

from addendum.script.bounds.contents import SWEPT_FROM, mix, of_a_call, plain, sweep
from addendum.script.bounds.state import Cost, State
from addendum.script.bounds.values import (
    ANY_INT,
    ANY_NUMBER,
    NONE,
    TOP,
    Act,
    Closure,
    Coro,
    Count,
    Num,
    Obj,
    V,
    integer,
    join,
    literal,
    reference,
)
from addendum.script.scope import PURE_BUILTINS, SHOWN, Function, Names, Scope

MAX_DEPTH: Final = 26
"""How many calls may be inlined into each other."""

_CARRIERS: Final = (ast.stmt, ast.Lambda)
MUTATORS: Final = frozenset(
    {"append", "extend", "insert", "pop", "remove", "clear", "update", "setdefault", "popitem", "add", "discard"}
    | {"sort", "reverse"}
)
"""Methods that change their receiver."""
CALLING: Final = frozenset({"map", "filter", "sorted", "min", "max"})
"""Builtins that call a function they get."""


class TooInvolved(Exception):
    """The script needs more "steps" or deeper "calls" than the analysis takes, or a "loop" changes too much."""

    def __init__(self, node: ast.AST, why: str = "steps") -> None:
        super().__init__("too involved")
        self.node = node.iter if isinstance(node, ast.comprehension) else node
        self.why = why


class Problem:
    """A loop, comprehension, recursion or fan-out for which no bound was found, and why; or something "unlike" a list
    that is added to one in place."""

    __slots__ = ("kind", "node", "why")

    def __init__(self, kind: str, node: ast.AST, why: str) -> None:
        self.kind = kind
        self.node = node
        self.why = why


class Exits:
    """The states in which a block of statements was left otherwise than at its end."""

    __slots__ = ("breaks", "continues")

    def __init__(self) -> None:
        self.breaks: list[State] = []
        self.continues: list[State] = []


class Machine:
    """One analysis. `eval` and `block` are the whole interface of the idiom families to each other."""

    def __init__(self, scope: Scope, max_steps: int, max_bound: int = 10**6) -> None:
        self.scope = scope
        self.steps = max_steps
        self.max_bound = max_bound
        self.homes = scope.homes
        self.constants: dict[ast.Constant | ast.Dict, V] = {}
        self.acts: dict[tuple[Any, ...], Act] = {}
        self.act = Act(scope.module, 0, None, None)
        self.returns: list[tuple[State, V]] = []
        self.exits: list[Exits] = []
        self.handlers: list[State] = []
        self.ends: list[State] = []
        self.stack: list[tuple[Closure, tuple[Any, ...]]] = []
        self.volatile_vars: frozenset[tuple[int, str]] = frozenset()
        self.volatile_refs: frozenset[int] = frozenset()
        self.quiet = 0
        self.loops: dict[ast.AST, Count] = {}
        self.fanouts: dict[ast.AST, Count] = {}
        self.problems: dict[tuple[str, ast.AST], Problem] = {}
        self.steps_of: dict[int, Count] = {}
        self.index_lows: dict[int, Count] = {}
        self.active: list[int] = []
        self.paid: list[Cost] = []
        self.watch: State | None = None
        self.starts: dict[int, State] = {}
        self.begins: dict[int, dict[tuple[int, str], V]] = {}
        self.assumed: dict[int, list[tuple[int | tuple[int, str], bool, Count]]] = {}
        self.cut: set[int] = set()
        self.made: dict[ast.Call, None] = {}
        self.ran: set[ast.Call] = set()
        self.misused: dict[ast.Call, None] = {}
        self.set_walks: dict[ast.AST, None] = {}
        self.trusted: dict[ast.expr, None] = {}
        self.missing: set[tuple[int, str]] = set()
        self.shared: frozenset[int] = frozenset()
        self.changed: dict[ast.AST, None] = {}
        self._coros: dict[tuple[Any, ...], Coro] = {}
        self._closures: dict[tuple[Any, ...], Closure] = {}
        self._captured: set[tuple[Names, str]] | None = None
        self._keepers: set[Names] | None = None
        self._mutates: dict[ast.AST, bool] = {}
        self._inert: dict[ast.AST, bool] = {}
        self._suspects: list[tuple[Names, ast.AST]] | None = None
        self.main = scope.orchestrate.node.body if scope.orchestrate is not None else None
        self.busy = self._busy()
        self._reads: dict[ast.AST, dict[tuple[Names, str], None]] = {}
        self._next = 1
        self.room = SWEPT_FROM

    def fresh(self) -> int:
        """A new number, for a heap object or a loop round."""
        self._next += 1
        return self._next

    def activation(self, names: Names, parent: Act, *key: Any) -> Act:
        """The activation of these names for this key; the same key gives the same one again."""
        full = (names, parent, *key)
        found = self.acts.get(full)
        if found is None:
            found = self.acts[full] = Act(names, self.fresh(), parent, names.function)
        else:
            found.reentered = True
        return found

    def coro(self, node: ast.Call, closure: Closure | None, act: Act, params: tuple[tuple[str, V], ...]) -> Coro:
        """The coroutine with these parts."""
        key = (node, closure, act, params)
        found = self._coros.get(key)
        if found is None:
            found = self._coros[key] = Coro(node, closure, act, params)
            self.made[node] = None
        return found

    def closure(self, node: Any, act: Act, defaults: tuple[tuple[str, V], ...]) -> Closure:
        """The closure with these parts."""
        key = (node, act, defaults)
        found = self._closures.get(key)
        if found is None:
            found = self._closures[key] = Closure(node, act, defaults)
        return found

    def link(self, st: State, ref: int, obj: Obj) -> V:
        """Another view of an object on the heap: what is changed through either counts for both."""
        family = st.heap[ref].family or ref
        st.heap[ref] = st.heap[ref]._replace(family=family)
        return self.new(st, obj._replace(family=family))

    def new(self, st: State, obj: Obj) -> V:
        """Put an object on the heap and return a reference to it."""
        self._next = ident = self._next + 1
        st.heap[ident] = obj
        return reference(ident)

    def _holder(self, home: Names | None) -> Act | None:
        """The activation that holds the variables of a scope, seen from the current one; None for builtins."""
        act: Act | None = self.act
        while act is not None and act.names is not home:
            act = act.parent
        return act

    def place(self, name: ast.Name) -> tuple[int, str] | None:
        """The key of the variable that a name means in the current activation; None for a builtin."""
        act = self._holder(self.homes[name])
        return None if act is None else (act.key, name.id)

    def load(self, name: ast.Name, st: State) -> V:
        """The value of a name; `NONE` where it is a builtin or isn't bound yet."""
        act = self._holder(self.homes[name])
        if act is None:
            return NONE
        key = (act.key, name.id)
        value = st.vars.get(key)
        if value is None or key in st.partial:
            self.missing.add(key)
        return NONE if value is None else value

    def store(self, name: ast.Name, value: V, st: State) -> None:
        """Bind a name. A variable that an older activation's closures may still see is joined, not replaced."""
        act = self._holder(self.homes[name])
        if act is None:
            return
        key = (act.key, name.id)
        if key[0] != self.act.key and of_a_call(value):
            value = plain(value)
        if key in self.volatile_vars:
            value = join(join(value, TOP), st.vars.get(key, NONE))
        elif act.reentered and self.is_captured(name):
            value = join(value, st.vars.get(key, NONE))
        st.vars[key] = value
        if key in st.partial:
            st.partial -= {key}

    def bind(self, node: ast.AST, name: str, value: V, st: State) -> None:
        """Bind a name that isn't an `ast.Name` (a handler's, a pattern's, a function's) where `node` stands."""
        act = self._holder(self.scope.frames[node].home(name))
        if act is not None:
            key = (act.key, name)
            if key in self.volatile_vars:
                value = join(join(value, TOP), st.vars.get(key, NONE))
            st.vars[key] = join(value, st.vars.get(key, value)) if act.reentered else value
            st.partial -= {key}

    def is_captured(self, name: ast.Name) -> bool:
        """Whether a nested function or lambda reads a variable of this one."""
        if self._captured is None:
            self._captured = set()
            frames = self.scope.frames
            for node, home in self.homes.items():
                if home is not None and home is not frames[node]:
                    self._captured.add((home, node.id))
        home = self.homes.get(name)
        return home is not None and (home, name.id) in self._captured

    def _busy(self) -> set[ast.AST]:
        """The expressions with an effect in them, up to their statement; evaluating any other changes nothing."""
        busy: set[ast.AST] = set()
        parent = self.scope.parent
        nodes: list[ast.AST] = [*self.scope.index.get(ast.Await, ()), *self.scope.index.get(ast.NamedExpr, ())]
        nodes += [call for call in self.scope.index.get(ast.Call, ()) if self._has_effect(call)]
        for node in nodes:
            at: ast.AST | None = node
            while at is not None and at not in busy:
                busy.add(at)
                if isinstance(at, _CARRIERS):
                    break
                at = parent.get(at)
        return busy

    def _has_effect(self, call: ast.AST) -> bool:
        func = call.func  # type: ignore[attr-defined]
        if type(func) is ast.Attribute:
            if type(func.value) is ast.Name and func.value.id == "ctx":
                return func.attr not in SHOWN
            return func.attr in MUTATORS
        if not isinstance(func, ast.Name):
            return True
        if self.homes[func] is None and func.id in PURE_BUILTINS and func.id not in CALLING:
            return False
        values = self.scope.values(func)
        if values is None:
            return True
        for value in values:
            if isinstance(value, Function):
                if value.reaches or self.mutates(value.node):
                    return True
            elif not isinstance(value, ast.Name):
                return True
        if func.id not in CALLING:
            return False
        assert isinstance(call, ast.Call)
        given = [*call.args[: func.id in ("map", "filter")], *[k.value for k in call.keywords if k.arg == "key"]]
        return not all(_is_plain(self, part) for part in given)

    def keeps_names(self, names: Names) -> bool:
        """Whether a function or lambda made among these names may still see them after they are left."""
        if self._keepers is None:
            self._keepers = set()
            for frame in self.scope.inner.values():
                if frame.kind in "fl":
                    outer = frame.parent
                    while outer is not None and outer not in self._keepers:
                        self._keepers.add(outer)
                        outer = outer.parent
        return names in self._keepers

    def mutates(self, node: ast.AST) -> bool:
        """Whether a function may change an object or an outer variable, itself or through what it calls."""
        found = self._mutates.get(node)
        if found is None:
            self._mutates[node] = False  # for a function that is being looked at: it changes nothing by calling itself
            inner = self.scope.inner[node]
            found = self._mutates[node] = any(
                _within(frame, inner) and self._changes(part) for frame, part in self._changers()
            )
        return found

    def _changers(self) -> list[tuple[Names, ast.AST]]:
        """The nodes that may change something, with the names they stand among."""
        if self._suspects is None:
            index, frames = self.scope.index, self.scope.frames
            nodes: list[ast.AST] = [*index.get(ast.AugAssign, ()), *index.get(ast.Nonlocal, ())]
            nodes += [part for part in index.get(ast.Subscript, ()) if isinstance(part.ctx, ast.Store)]  # type: ignore[attr-defined]
            for call in index.get(ast.Call, ()):
                func = call.func  # type: ignore[attr-defined]
                if isinstance(func, ast.Attribute):
                    if func.attr in MUTATORS:
                        nodes.append(call)
                elif not isinstance(func, ast.Name) or self.scope.bindings(func) is not None:
                    nodes.append(call)
            self._suspects = [(frames[node], node) for node in nodes]
        return self._suspects

    def _changes(self, part: ast.AST) -> bool:
        if isinstance(part, ast.Call):
            if isinstance(part.func, ast.Attribute):
                return part.func.attr in MUTATORS
            values = self.scope.values(part.func)
            if values is None:
                return True
            return any(
                self.mutates(value.node)
                if isinstance(value, Function)
                else not isinstance(value, ast.Name | ast.Lambda)
                for value in values
            )
        if isinstance(part, ast.Subscript):
            return isinstance(part.ctx, ast.Store)
        return isinstance(part, ast.AugAssign | ast.Nonlocal)

    def captured(self, closure: Closure, st: State) -> list[V]:
        """The values of the outer variables that a function's body reads."""
        names = self._reads.get(closure.node)
        if names is None:
            names = {}
            inner = self.scope.inner[closure.node]
            for part in ast.walk(closure.node):
                if isinstance(part, ast.Name) and part in self.scope.frames:
                    home = self.scope.frames[part].home(part.id)
                    if home is not None and not _within(home, inner):
                        names[(home, part.id)] = None
            self._reads[closure.node] = names
        found = []
        for home, name in names:
            act: Act | None = closure.act
            while act is not None and act.names is not home:
                act = act.parent
            if act is not None and (act.key, name) in st.vars:
                found.append(st.vars[(act.key, name)])
        return found

    def rebound(self) -> set[str]:
        """The names that a function may bind although they are variables of an outer one."""
        return {name for node in self.scope.index.get(ast.Nonlocal, ()) for name in node.names}  # type: ignore[attr-defined]

    def is_inert(self, closure: Closure) -> bool:
        """Whether calling a function can't reach a call nor change anything."""
        node = closure.node
        known = self._inert.get(node)
        if known is None:
            if isinstance(node, ast.Lambda):
                reaches = any(isinstance(part, ast.Call) and self.scope.counted(part) for part in ast.walk(node.body))
            else:
                reaches = self.scope.function_of(node).reaches
            known = self._inert[node] = not reaches and not self.mutates(node)
        return known

    def is_module(self, name: ast.Name) -> bool:
        """Whether a name is an imported module."""
        bound = self.scope.bindings(name)
        return bound is not None and bound == [None] and name.id in self.scope.module.bindings

    def note(self, table: dict[ast.AST, Count], node: ast.AST, count: Count) -> None:
        """Record a bound, unless the state is only a trial; the largest one counts."""
        if not self.quiet and count >= table.get(node, 0):
            table[node] = count

    def problem(self, kind: str, node: ast.AST, why: str) -> None:
        """Record that a bound is missing, unless the state is only a trial."""
        if not self.quiet:
            self.problems.setdefault((kind, node), Problem(kind, node, why))

    def used(self, value: V) -> None:
        """Note that a value is used as data: subscripted, walked, measured. A coroutine is none."""
        if value.coros and not value.top:
            for coro in value.coros:
                self.misused[coro.node] = None

    def trusts(self, end: ast.expr) -> bool:
        """Whether an end of a slice may be taken for a count: the annotation can have it checked at run time.

        In an f-string it can't, as the places of nodes in one aren't known on every version of Python."""
        at: ast.AST | None = end
        while at is not None and not isinstance(at, _CARRIERS):
            if isinstance(at, ast.JoinedStr):
                return False
            at = self.scope.parent.get(at)
        self.trusted[end] = None
        return True

    def walked(self, node: ast.AST, value: V, st: State) -> None:
        """Note that a value is walked in order; a set has none."""
        self.used(value)
        if any(st.heap[ref].kind == "set" for ref in value.refs):
            self.set_walks[node] = None

    def changes(self, node: ast.AST, value: V) -> None:
        """Note that a value is changed in place; what top-level names hold belongs to the module (`shared`)."""
        if not self.quiet and not value.top and not self.shared.isdisjoint(value.refs):
            self.changed[node] = None

    def tick(self, node: ast.AST) -> None:
        self.steps -= 1
        if self.steps < 0:
            raise TooInvolved(node)

    def block(self, statements: Iterable[ast.stmt], st: State) -> None:
        """Run statements on a state, which then is the state at their end, or dead."""
        for statement in statements:
            self.steps -= 1
            if self.steps < 0:
                raise TooInvolved(statement)
            STATEMENTS[type(statement)](self, statement, st)
            self.may_stop(st)
            if st.dead:
                return
            if statements is self.main and len(st.heap) > self.room:
                sweep(st)
                self.room = max(SWEPT_FROM, 2 * len(st.heap))  # what is live is looked at again once there is as much

    def may_stop(self, st: State) -> None:
        """Note that an error may leave a `try` body here; also in the middle of a statement that changed something."""
        if self.handlers:
            self.handlers[-1].absorb(st)

    def settle(self, node: ast.expr, st: State) -> None:
        """Evaluate an expression for its effects only."""
        if node in self.busy:
            self.eval(node, st)

    def eval(self, node: ast.expr, st: State) -> V:
        """Evaluate an expression on a state, with its effects."""
        self.steps -= 1
        if self.steps < 0:
            raise TooInvolved(node)
        kind = type(node)
        if kind is ast.Name:
            return self.load(node, st)  # type: ignore[arg-type]
        if kind is ast.Constant:
            value = self.constants.get(node)  # type: ignore[call-overload]
            if value is None:
                value = self.constants[node] = constant(node.value)  # type: ignore[attr-defined, index]
            return value  # type: ignore[no-any-return]
        return EXPRESSIONS[kind](self, node, st)


Handler = Callable[[Machine, Any, State], None]
Evaluator = Callable[[Machine, Any, State], V]


class _Statements(dict[type[ast.AST], Handler]):
    def __missing__(self, kind: type[ast.AST]) -> Handler:
        return unknown_statement


class _Expressions(dict[type[ast.AST], Evaluator]):
    def __missing__(self, kind: type[ast.AST]) -> Evaluator:
        return unknown_expression


STATEMENTS: Final = _Statements()
"""Filled once, at import, by the modules of this package."""
EXPRESSIONS: Final = _Expressions()
"""Filled once, at import, by the modules of this package; names and constants have no need of it."""


CALLED: Final[dict[str, Callable[..., V]]] = {}
"""How each kind of call is run: `ctx`, `perform`, `builtin`, `method`. Filled like the two above."""


def finish(machine: Machine, st: State) -> None:
    """A run, or a `try` body, ends here by an error, or never."""
    if st.dead:
        return
    if machine.handlers:
        machine.handlers[-1].absorb(st)
    else:
        machine.ends.append(st.copy())


def constant(value: object) -> V:
    """What a constant is."""
    if isinstance(value, str):
        return literal(value)
    if isinstance(value, int):
        return integer(int(value)) if abs(value) < 10**15 else ANY_INT
    if isinstance(value, float):
        return V(num=Num(math.floor(value), math.ceil(value)), real=True) if abs(value) < 10**15 else ANY_NUMBER
    return NONE if value is None else TOP


def _is_plain(machine: Machine, part: ast.expr) -> bool:
    """Whether a function that is handed to a builtin changes nothing."""
    if isinstance(part, ast.Lambda):
        return not any(
            isinstance(p, ast.Await) or (isinstance(p, ast.Call) and machine._has_effect(p)) for p in ast.walk(part)
        )
    if isinstance(part, ast.Constant):
        return True
    return all(
        isinstance(value, ast.Name)
        or (isinstance(value, Function) and not value.reaches and not machine.mutates(value.node))
        for value in machine.scope.values(part) or (None,)
    )


def _within(frame: Names | None, outer: Names) -> bool:
    """Whether a frame of names is another one, or inside it."""
    while frame is not None:
        if frame is outer:
            return True
        frame = frame.parent
    return False


def unknown_statement(machine: Machine, node: ast.stmt, st: State) -> None:
    """A statement that the language doesn't have: its expressions and blocks are run once, for their calls."""
    for child in ast.iter_child_nodes(node):
        if isinstance(child, ast.expr):
            machine.eval(child, st)
        elif isinstance(child, ast.stmt):
            machine.block([child], st)
        elif isinstance(child, ast.withitem):
            machine.eval(child.context_expr, st)


def unknown_expression(machine: Machine, node: ast.expr, st: State) -> V:
    """An expression without a rule of its own: anything made of its parts."""
    parts = [machine.eval(child, st) for child in ast.iter_child_nodes(node) if isinstance(child, ast.expr)]
    return mix(parts, st) if parts else TOP
