"""Names, functions and calls of a script, resolved lexically in one walk.

`analyse(tree)` visits every node once and keeps what the rules, the bounds, the sites and the annotator ask
for: the functions with their qualified names, which of them *reach* a call of the outside world, who binds a
name, each node's parent and innermost function, and the nodes by type. Lambdas and comprehensions are frames
for names but not functions: a call in a lambda belongs to the definition it is written in (DESIGN section 2).
"""

from __future__ import annotations

import ast
from collections import defaultdict
from dataclasses import dataclass, field
from typing import Final, Literal

READS: Final = frozenset({"now", "random", "uuid", "sleep"})
FANOUTS: Final = frozenset({"parallel", "pipeline", "dag", "race"})
SHOWN: Final = frozenset({"log", "phase"})
METHODS: Final = frozenset({"run"}) | READS | FANOUTS | SHOWN
COUNTED: Final = METHODS - SHOWN

PURE_BUILTINS: Final = frozenset(
    {
        *("abs", "all", "any", "bool", "chr", "dict", "divmod", "enumerate", "filter", "float", "format"),
        *("frozenset", "int", "isinstance", "iter", "len", "list", "map", "max", "min", "next", "ord", "pow"),
        *("print", "range", "repr", "reversed", "round", "set", "slice", "sorted", "str", "sum", "tuple", "type"),
        *("zip", "CapabilityError", "Exception", "ValueError", "KeyError", "IndexError", "LookupError", "TypeError"),
        *("RuntimeError", "TimeoutError", "ZeroDivisionError", "ArithmeticError", "AttributeError"),
        *("AssertionError", "OverflowError", "StopIteration"),
    }
)
"""Names of builtins that a script may call; calling one reaches nothing."""

FunctionNode = ast.FunctionDef | ast.AsyncFunctionDef

_DEFS: Final = (ast.FunctionDef, ast.AsyncFunctionDef)
COMPREHENSIONS: Final = (ast.ListComp, ast.SetComp, ast.DictComp, ast.GeneratorExp)
_TARGETED: Final = (ast.AnnAssign, ast.NamedExpr)


@dataclass(slots=True, eq=False)
class Function:
    """A function of the script.

    `qualname` is dotted from the outermost function; of several reaching functions with one name the second
    and later have `~1`, `~2` … in source order. `params` are all parameter names in order, star names last.
    """

    name: str
    qualname: str
    node: FunctionNode
    parent: Function | None
    params: tuple[str, ...]
    is_async: bool
    reaches: bool = False


@dataclass(frozen=True, slots=True)
class Parameter:
    """A parameter of a function or lambda that is called."""

    name: str
    owner: FunctionNode | ast.Lambda


@dataclass(frozen=True, slots=True)
class CtxCall:
    """A call of a method of `ctx`: the method, and the capability when it is a literal (only of `run`)."""

    node: ast.Call
    method: str
    capability: str | None = None

    @property
    def kind(self) -> Literal["run", "read", "fanout", "shown"]:
        """Which of the four kinds of methods it is."""
        if self.method == "run":
            return "run"
        return "read" if self.method in READS else "fanout" if self.method in FANOUTS else "shown"


Binding = Function | Parameter | ast.expr | None
"""What a name is bound to at one place: a function, a parameter, the expression assigned, or something else."""


_CALLEES: Final = (Function, Parameter)
_CHOICES: Final = (ast.IfExp, ast.BoolOp)


@dataclass(slots=True, eq=False)
class Names:
    """The names that one module, function, lambda or comprehension binds. `kind` is m, f, l or c."""

    kind: str
    parent: Names | None
    function: Function | None
    node: ast.AST
    bindings: dict[str, list[Binding]] = field(default_factory=dict)
    outer: dict[str, ast.stmt] = field(default_factory=dict)

    def home(self, name: str) -> Names | None:
        """Return the frame whose name this is here, None for a builtin or an undefined name."""
        frame: Names | None = self
        while frame is not None:
            if name in frame.bindings and name not in frame.outer:
                return frame
            frame = frame.parent
        return None


@dataclass(slots=True, eq=False)
class Scope:
    """The walk's result. `index` has the nodes by type in source order, `names` the names by what they are called,
    `parent` each node's parent.

    `frames` has the names that each node stands among, `inner` those that a def, lambda or comprehension opens,
    `homes` the frame whose name each name is: None for a builtin or an undefined one.
    """

    tree: ast.Module
    functions: tuple[Function, ...] = ()
    orchestrate: Function | None = None
    index: defaultdict[type[ast.AST], list[ast.AST]] = field(default_factory=lambda: defaultdict(list))
    names: defaultdict[str, list[ast.Name]] = field(default_factory=lambda: defaultdict(list))
    parent: dict[ast.AST, ast.AST] = field(default_factory=dict)
    frames: dict[ast.AST, Names] = field(default_factory=dict)
    inner: dict[ast.AST, Names] = field(default_factory=dict)
    homes: dict[ast.Name, Names | None] = field(default_factory=dict)
    module: Names = field(init=False)
    depth: int = 0
    deepest: ast.AST | None = None
    _of: dict[ast.AST, Function] = field(default_factory=dict)
    _counted: dict[ast.AST, bool] = field(default_factory=dict)
    _ctx_calls: dict[ast.AST, CtxCall] = field(default_factory=dict)
    _callees: dict[ast.Call, Function | Parameter | None] = field(default_factory=dict)

    def enclosing(self, node: ast.AST) -> Function | None:
        """Return the innermost def around a node; for a def itself, the one around it. None at the top level."""
        frame = self.frames.get(node)
        return frame.function if frame is not None else None

    def function_of(self, node: FunctionNode) -> Function:
        """Return the function that a def node defines. Raises `KeyError` for a node of another tree."""
        return self._of[node]

    def bindings(self, name: ast.Name) -> list[Binding] | None:
        """Return everything that a name may be bound to where it stands; None when the script doesn't bind it."""
        home = self.homes[name]
        return None if home is None else home.bindings[name.id]

    def values(self, expr: ast.expr, _seen: frozenset[str] = frozenset()) -> list[Binding] | None:
        """Return the functions, parameters and lambdas that an expression may be; None when that isn't known.

        Follows names, conditional expressions and `or`/`and`. Builtins stand as their `ast.Name`.
        """
        if type(expr) is ast.Name:
            if expr.id in _seen:
                return None
            bound = self.bindings(expr)
            if bound is None:
                return [expr] if expr.id in PURE_BUILTINS else None
            found: list[Binding] = []
            for binding in bound:
                if isinstance(binding, _CALLEES):
                    found.append(binding)
                    continue
                values = self.values(binding, _seen | {expr.id}) if binding is not None else None
                if values is None:
                    return None
                found += values
            return found
        if isinstance(expr, ast.Lambda):
            return [expr]
        if not isinstance(expr, _CHOICES):
            return None
        found = []
        for arm in [expr.body, expr.orelse] if isinstance(expr, ast.IfExp) else expr.values:
            values = self.values(arm, _seen)
            if values is None:
                return None
            found += values
        return found

    def callee(self, call: ast.Call) -> Function | Parameter | None:
        """Return the script function or the parameter that a call calls, None for anything else.

        Where a name may be several functions, a reaching one is returned.
        """
        if type(call.func) is ast.Attribute:
            return None
        if call not in self._callees:
            self._callees[call] = self._callee(call)
        return self._callees[call]

    def _callee(self, call: ast.Call) -> Function | Parameter | None:
        values = self.values(call.func) or []
        found = [value for value in values if isinstance(value, _CALLEES)]
        for value in found:
            if isinstance(value, Parameter) or value.reaches:
                return value
        return found[0] if found else None

    def ctx_call(self, call: ast.AST) -> CtxCall | None:
        """Return what a call of `ctx.method(...)` is, None for other nodes and unknown methods."""
        if type(call) is not ast.Call:
            return None
        func = call.func
        if type(func) is not ast.Attribute or type(func.value) is not ast.Name:
            return None
        if func.value.id != "ctx" or func.attr not in METHODS:
            return None
        known = self._ctx_calls.get(call)
        if known is None:
            known = self._ctx_calls[call] = self._ctx_call(call, func)
        return known

    def _ctx_call(self, call: ast.Call, func: ast.Attribute) -> CtxCall:
        capability = None
        if func.attr == "run" and call.args:
            first = call.args[0]
            if isinstance(first, ast.Constant) and isinstance(first.value, str):
                capability = first.value
        return CtxCall(call, func.attr, capability)

    def counted(self, call: ast.Call) -> bool:
        """Whether a call can reach the outside: a ctx call but `log` and `phase`, a call of a reaching function,
        of a function parameter, or of a value that isn't known to be pure."""
        known = self._counted.get(call)
        if known is None:
            known = self._counted[call] = self._is_counted(call)
        return known

    def _is_counted(self, call: ast.Call) -> bool:
        func = call.func
        if isinstance(func, ast.Attribute):
            method = self.ctx_call(call)
            return method is not None and method.method in COUNTED
        values = self.values(func)
        if values is None:
            # An undefined name raises before anything happens; it counts only when the script binds it.
            return not isinstance(func, ast.Name) or self.bindings(func) is not None
        return any(self._impure(value) for value in values)

    def _impure(self, value: Binding) -> bool:
        if isinstance(value, Function):
            return value.reaches
        if isinstance(value, ast.Lambda):
            if value not in self._counted:
                self._counted[value] = True  # a lambda that calls itself is not known to be pure
                self._counted[value] = any(
                    isinstance(node, ast.Call) and self.counted(node) for node in ast.walk(value.body)
                )
            return self._counted[value]
        return isinstance(value, Parameter)


def analyse(tree: ast.Module) -> Scope:
    """Walk a tree once and resolve its names. Pure; raises nothing for a tree that `compile` accepts."""
    scope = Scope(tree)
    functions = _walk(scope, tree)
    _resolve(scope)
    scope.functions = tuple(functions)
    _reach(scope, functions)
    _number(functions)
    for function in functions:
        if function.parent is None and function.name == "orchestrate" and function.is_async:
            scope.orchestrate = function
            break
    return scope


_FIELDS: Final[dict[type[ast.AST], tuple[str, ...]]] = {}
_SKIP: Final = frozenset({"ctx", "op", "ops", "type_comment", "type_ignores", "kind", "id", "attr", "arg", "n", "s"})
_COMMON: Final[frozenset[type[ast.AST]]] = frozenset(
    {
        *(ast.Return, ast.Assign, ast.AugAssign, ast.For, ast.While, ast.If, ast.Try, ast.Raise, ast.Assert, ast.Expr),
        *(ast.BoolOp, ast.BinOp, ast.UnaryOp, ast.IfExp, ast.Dict, ast.Set, ast.Await, ast.Compare, ast.Call),
        *(ast.keyword, ast.JoinedStr, ast.Attribute, ast.Subscript, ast.Starred, ast.List, ast.Tuple, ast.Slice),
        *(ast.Pass, ast.Break, ast.Continue),
    }
)
"""Types whose fields outside `_SKIP` hold nodes, lists of nodes and None, and nothing else."""


def _fields(kind: type[ast.AST]) -> tuple[str, ...]:
    """The fields of a node type that can hold nodes, last first (the walk's stack turns the order round)."""
    return tuple(
        name for name in reversed(kind._fields) if name not in _SKIP or (name == "ops" and kind is not ast.Compare)
    )


_FIELDS.update(
    (kind, _fields(kind))
    for kind in vars(ast).values()
    if isinstance(kind, type) and issubclass(kind, ast.AST) and kind._fields and kind is not ast.Constant
)
_PLAIN_FIELDS: Final = {kind: _FIELDS.get(kind, ()) for kind in _COMMON}


def _walk(scope: Scope, tree: ast.Module) -> list[Function]:
    """Fill the scope's tables, in source order; return the functions in source order."""
    module = scope.module = Names("m", None, None, tree)
    functions: list[Function] = []
    index, parents, frames, names = scope.index, scope.parent, scope.frames, scope.names
    stack: list[tuple[ast.AST, ast.AST, Names, int]] = []
    frames[tree] = module
    stack += [(node, tree, module, 1) for node in reversed(tree.body)]
    push, pop = stack.append, stack.pop
    common, opening = _PLAIN_FIELDS, _OPENING
    deepest = 0
    while stack:
        node, above, frame, depth = pop()
        kind = type(node)
        index[kind].append(node)
        parents[node] = above
        frames[node] = frame
        if depth > deepest:
            deepest, scope.deepest = depth, node
        if kind is ast.Name:
            names[node.id].append(node)  # type: ignore[attr-defined, arg-type]
            if type(node.ctx) is not ast.Load:  # type: ignore[attr-defined]
                _bind(frame, node.id, _assigned(node, above))  # type: ignore[attr-defined]
            continue
        if kind is ast.Constant:
            continue
        depth += 1
        fields = common.get(kind)
        if fields is not None:
            for name in fields:
                value = getattr(node, name)
                if type(value) is list:
                    for item in reversed(value):
                        if item is not None:
                            push((item, node, frame, depth))
                elif value is not None:
                    push((value, node, frame, depth))
        elif kind in opening:
            opening[kind](scope, node, frame, depth, stack, functions)
        else:
            _open_other(node, frame, depth, stack)
    scope.depth = deepest
    return functions


def _open_other(node: ast.AST, frame: Names, depth: int, stack: _Stack) -> None:
    """Whatever the language doesn't have, and what has fields of other kinds."""
    for name in _FIELDS.get(type(node), ()):
        value = getattr(node, name, None)
        items = value if isinstance(value, list) else [value]
        stack += [(item, node, frame, depth) for item in reversed(items) if isinstance(item, ast.AST)]


def _resolve(scope: Scope) -> None:
    """Find the frame whose name each name is."""
    homes, frames = scope.homes, scope.frames
    for text, nodes in scope.names.items():
        for node in nodes:
            frame: Names | None = frames[node]
            while frame is not None and (text not in frame.bindings or text in frame.outer):
                frame = frame.parent
            homes[node] = frame


def _assigned(name: ast.AST, above: ast.AST) -> ast.expr | None:
    """Return the expression whose value a stored name gets as a whole, None when it isn't the whole."""
    if type(above) is ast.Assign and name in above.targets:
        return above.value
    if isinstance(above, _TARGETED) and above.target is name:
        return above.value
    return None


def _bind(frame: Names, name: str, binding: Binding) -> None:
    """Bind a name in the frame that owns it: past comprehensions for a walrus, past `nonlocal`."""
    while frame.parent is not None and name in frame.outer:
        frame.bindings.setdefault(name, [])
        frame = frame.parent
        while frame.parent is not None and (frame.kind == "c" or name not in frame.bindings):
            frame = frame.parent
    frame.bindings.setdefault(name, []).append(binding)


_Stack = list[tuple[ast.AST, ast.AST, Names, int]]


def _open_function(
    scope: Scope, node: ast.AST, frame: Names, depth: int, stack: _Stack, functions: list[Function]
) -> None:
    assert isinstance(node, _DEFS)
    arguments = node.args
    params = [*arguments.posonlyargs, *arguments.args, *arguments.kwonlyargs]
    params += [star for star in (arguments.vararg, arguments.kwarg) if star is not None]
    outer = frame.function
    function = Function(
        name=node.name,
        qualname=node.name if outer is None else f"{outer.qualname}.{node.name}",
        node=node,
        parent=outer,
        params=tuple(param.arg for param in params),
        is_async=isinstance(node, ast.AsyncFunctionDef),
    )
    functions.append(function)
    scope._of[node] = function
    _bind(frame, node.name, function)
    inner = scope.inner[node] = Names("f", frame, function, node)
    for param in params:
        inner.bindings[param.arg] = [Parameter(param.arg, node)]
    _declare(node.body, inner)
    stack += [(statement, node, inner, depth) for statement in reversed(node.body)]
    outside = [*node.decorator_list, *_defaults(arguments), *[p.annotation for p in params], node.returns]
    _enter_params(scope, node, params, inner)
    stack += [(item, node, frame, depth) for item in reversed(outside) if item is not None]


_HOLDING: Final[frozenset[type[ast.AST]]] = frozenset(
    {
        *(ast.If, ast.For, ast.While, ast.Try, ast.With, ast.ExceptHandler, ast.AsyncFor, ast.AsyncWith, ast.Match),
        *(ast.match_case, ast.TryStar, ast.Nonlocal, ast.Global),
    }
)


def _declare(statements: list[ast.stmt], inner: Names) -> None:
    """Note `nonlocal` and `global` names before anything is bound, wherever in the function they stand."""
    todo: list[ast.AST] = [statement for statement in statements if type(statement) in _HOLDING]
    while todo:
        item = todo.pop()
        if isinstance(item, ast.Nonlocal | ast.Global):
            for name in item.names:
                inner.outer[name] = item
            continue
        for field_name in ("body", "orelse", "finalbody", "handlers", "cases"):
            held = getattr(item, field_name, None)
            if held:
                todo += [part for part in held if type(part) in _HOLDING]


def _open_lambda(
    scope: Scope, node: ast.AST, frame: Names, depth: int, stack: _Stack, functions: list[Function]
) -> None:
    assert isinstance(node, ast.Lambda)
    arguments = node.args
    params = [*arguments.posonlyargs, *arguments.args, *arguments.kwonlyargs]
    params += [star for star in (arguments.vararg, arguments.kwarg) if star is not None]
    inner = scope.inner[node] = Names("l", frame, frame.function, node)
    for param in params:
        inner.bindings[param.arg] = [Parameter(param.arg, node)]
    _enter_params(scope, node, params, inner)
    stack.append((node.body, node, inner, depth))
    stack += [(item, node, frame, depth) for item in reversed(_defaults(arguments))]


def _enter_params(scope: Scope, node: ast.AST, params: list[ast.arg], inner: Names) -> None:
    for param in params:
        scope.index[ast.arg].append(param)
        scope.parent[param] = node
        scope.frames[param] = inner


def _defaults(arguments: ast.arguments) -> list[ast.expr]:
    return [*arguments.defaults, *[default for default in arguments.kw_defaults if default is not None]]


def _open_comprehension(
    scope: Scope, node: ast.AST, frame: Names, depth: int, stack: _Stack, functions: list[Function]
) -> None:
    assert isinstance(node, COMPREHENSIONS)
    inner = scope.inner[node] = Names("c", frame, frame.function, node)
    result = [node.key, node.value] if isinstance(node, ast.DictComp) else [node.elt]
    stack += [(item, node, inner, depth) for item in reversed(result)]
    for number, generator in reversed(list(enumerate(node.generators))):
        scope.parent[generator] = node
        scope.frames[generator] = inner
        scope.index[ast.comprehension].append(generator)
        stack += [(test, generator, inner, depth) for test in reversed(generator.ifs)]
        stack.append((generator.target, generator, inner, depth))
        stack.append((generator.iter, generator, frame if number == 0 else inner, depth))


def _open_walrus(
    scope: Scope, node: ast.AST, frame: Names, depth: int, stack: _Stack, functions: list[Function]
) -> None:
    assert isinstance(node, ast.NamedExpr)
    target = frame
    while target.kind == "c" and target.parent is not None:
        target = target.parent
    stack.append((node.value, node, frame, depth))
    stack.append((node.target, node, target, depth))


def _open_binder(
    scope: Scope, node: ast.AST, frame: Names, depth: int, stack: _Stack, functions: list[Function]
) -> None:
    """Imports, handlers and patterns bind a name that is no `ast.Name`."""
    if isinstance(node, ast.Import | ast.ImportFrom):
        for alias in node.names:
            scope.index[ast.alias].append(alias)
            scope.parent[alias] = node
            scope.frames[alias] = frame
            _bind(frame, (alias.asname or alias.name).split(".")[0], None)
    else:
        name = getattr(node, "name", None) if not isinstance(node, ast.MatchMapping) else node.rest
        if name is not None:
            _bind(frame, name, None)
    for field_name in _FIELDS[type(node)]:
        value = getattr(node, field_name, None)
        items = value if isinstance(value, list) else [value]
        stack += [
            (item, node, frame, depth)
            for item in reversed(items)
            if isinstance(item, ast.AST) and not isinstance(item, ast.alias)
        ]


_OPENING: Final = {
    ast.FunctionDef: _open_function,
    ast.AsyncFunctionDef: _open_function,
    ast.Lambda: _open_lambda,
    ast.ListComp: _open_comprehension,
    ast.SetComp: _open_comprehension,
    ast.DictComp: _open_comprehension,
    ast.GeneratorExp: _open_comprehension,
    ast.NamedExpr: _open_walrus,
    ast.Import: _open_binder,
    ast.ImportFrom: _open_binder,
    ast.ExceptHandler: _open_binder,
    ast.MatchAs: _open_binder,
    ast.MatchStar: _open_binder,
    ast.MatchMapping: _open_binder,
}


def _reach(scope: Scope, functions: list[Function]) -> None:
    """Decide which functions reach: a least fixpoint over who mentions whom."""
    mentions: defaultdict[Function, set[Function]] = defaultdict(set)  # mentioned -> who mentions it
    for text in {function.name for function in functions}:  # only a function's own name is bound to it
        for name in scope.names.get(text, ()):
            user = scope.frames[name].function
            if user is None or type(name.ctx) is not ast.Load:
                continue
            for binding in scope.bindings(name) or ():
                if isinstance(binding, Function):
                    mentions[binding].add(user)
    todo: list[Function] = []

    def mark(function: Function | None) -> None:
        if function is not None and not function.reaches:
            function.reaches = True
            todo.append(function)

    for call in scope.index[ast.Call]:
        assert isinstance(call, ast.Call)
        # Script functions count through `mentions`, so only what is counted without them matters here.
        if scope._is_counted(call):
            mark(scope.frames[call].function)
    for node in scope.index[ast.Await]:
        assert isinstance(node, ast.Await)
        # Whoever awaits a coroutine that was made elsewhere may run a call in it, and needs a frame.
        value = node.value
        if not isinstance(value, ast.Call) or (isinstance(value.func, ast.Attribute) and not scope.ctx_call(value)):
            mark(scope.frames[node].function)
    while todo:
        for user in mentions[todo.pop()]:
            mark(user)
    scope._counted.clear()
    scope._callees.clear()


def _number(functions: list[Function]) -> None:
    """Give the second and later reaching functions of one qualified name their number, outermost first."""
    taken: dict[str, int] = {}
    for function in functions:
        base = function.name if function.parent is None else f"{function.parent.qualname}.{function.name}"
        if function.reaches:
            count = taken.get(base, 0)
            taken[base] = count + 1
            base = base if not count else f"{base}~{count}"
        function.qualname = base
