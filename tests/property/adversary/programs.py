"""A model of workflow scripts, its writer, and a generator of random ones.

Each call, loop and fan-out of the model has a *trail*: the roles that it plays, kept by every edit that preserves its
meaning. A wrapper that an edit puts around code has the empty trail. So the trails along a call's path say what the
call is for, whatever the source around it looks like: `Text.work`.
"""

from __future__ import annotations

import copy
import random
from collections.abc import Iterator
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any, TypeAlias

from addendum import identity as ids
from addendum.script.program import Program, compile_program

CAPABILITIES = ("r.read", "p.make", "s.act", "m.send", "i.put")
WORDS = ("a", "b", "c", "logo")

Trail: TypeAlias = tuple[Any, ...]
Work: TypeAlias = tuple[Any, ...]

# --- expressions --------------------------------------------------------------------------------------------------


@dataclass
class Lit:
    """A text; with a `const` it is written as a constant of the module."""

    text: str
    const: str = ""


@dataclass
class Ref:
    """A variable."""

    var: int


@dataclass
class Cat:
    """An f-string of several expressions."""

    parts: list[Expr]


Expr: TypeAlias = "Lit | Ref | Cat"


@dataclass
class Items:
    """A list that a loop or a fan-out goes over: `keys` say which item is which, `name` is where the args have it."""

    keys: list[int]
    values: list[str]
    name: str = ""


# --- statements ---------------------------------------------------------------------------------------------------


@dataclass
class Call:
    """One call of a capability. `retry`: made through the retry helper. `times`: in a comprehension, so often."""

    trail: Trail
    cap: str
    expr: Expr
    var: int
    take: int = 1
    retry: Trail | None = None
    times: int = 0


@dataclass
class Use:
    """An awaited call of a helper."""

    trail: Trail
    helper: int
    args: list[Expr]
    var: int


@dataclass
class Read:
    """A recorded read."""

    trail: Trail
    method: str
    var: int


@dataclass
class Assign:
    """A variable gets a value, without a call."""

    var: int
    expr: Expr


@dataclass
class Say:
    """A log line, or any statement without a call."""

    text: str


@dataclass
class For:
    """A loop over items; `empty` trail and one item: a wrapper."""

    trail: Trail
    items: Items
    item: int
    body: list[Stmt]


@dataclass
class If:
    """A condition on a variable, None for one that always holds (a wrapper)."""

    test: int | None
    body: list[Stmt]
    orelse: list[Stmt] = field(default_factory=list)


@dataclass
class Try:
    """`handler` None: the error is raised again (a wrapper); with `again` the body is tried once more before that."""

    body: list[Stmt]
    handler: list[Stmt] | None = None
    again: bool = False


@dataclass
class Branch:
    """A branch of a fan-out: a helper with its arguments."""

    trail: Trail
    helper: int
    args: list[Expr]


@dataclass
class Fan:
    """A fan-out. `map` and `sites` go over items; `pipeline` lets them pass the helpers `stages`; `parallel`, `race`
    and `dag` have written branches (a dag's depend on the one before when `chained`)."""

    trail: Trail
    method: str
    var: int
    items: Items | None = None
    helper: int = 0
    stages: list[int] = field(default_factory=list)
    branches: list[Branch] = field(default_factory=list)
    cap: str = ""
    errors: bool = False
    chained: bool = False


Stmt: TypeAlias = "Call | Use | Read | Assign | Say | For | If | Try | Fan"


@dataclass
class Helper:
    """A function: its parameters and what it returns."""

    name: str
    params: list[int]
    body: list[Stmt]
    ret: Expr
    nested: bool = False


@dataclass
class Model:
    """A whole script. `names` are the names of variables that were renamed."""

    body: list[Stmt] = field(default_factory=list)
    helpers: dict[int, Helper] = field(default_factory=dict)
    names: dict[int, str] = field(default_factory=dict)
    consts: dict[str, str] = field(default_factory=dict)
    fresh: int = 0
    style: int = 0
    ret: list[int] = field(default_factory=list)
    words: tuple[str, ...] = WORDS
    """What payloads are made of: with one word, all that aren't made of results are equal."""
    capabilities: tuple[str, ...] = CAPABILITIES

    def new(self) -> int:
        """Return a number that nothing has."""
        self.fresh += 1
        return self.fresh

    def copy(self) -> Model:
        """Return a copy to edit."""
        return copy.deepcopy(self)

    def blocks(self) -> Iterator[list[Stmt]]:
        """Yield every list of statements."""
        for body in [self.body, *(helper.body for helper in self.helpers.values())]:
            yield from blocks(body)

    def statements(self) -> Iterator[Stmt]:
        """Yield every statement."""
        for block in self.blocks():
            yield from block

    @property
    def args(self) -> dict[str, list[str]]:
        """The args that the script is run with."""
        found = {}
        for statement in self.statements():
            if isinstance(statement, For | Fan) and statement.items is not None and statement.items.name:
                found[statement.items.name] = list(statement.items.values)
        return found


def blocks(body: list[Stmt]) -> Iterator[list[Stmt]]:
    """Yield a list of statements and every one inside."""
    yield body
    for statement in body:
        for inner in inside(statement):
            yield from blocks(inner)


def inside(statement: Stmt) -> list[list[Stmt]]:
    """Return the lists of statements right inside a statement."""
    match statement:
        case For():
            return [statement.body]
        case If():
            return [statement.body, statement.orelse]
        case Try():
            return [statement.body] if statement.handler is None else [statement.body, statement.handler]
        case _:
            return []


def expressions(statement: Stmt) -> list[Expr]:
    """Return the expressions right in a statement."""
    match statement:
        case Call() | Assign():
            return [statement.expr]
        case Use():
            return list(statement.args)
        case Fan():
            return [argument for branch in statement.branches for argument in branch.args]
        case If(test=int() as test):
            return [Ref(test)]
        case _:
            return []


def refs(expr: Expr) -> Iterator[int]:
    """Yield the variables of an expression."""
    match expr:
        case Ref(var):
            yield var
        case Cat(parts):
            for part in parts:
                yield from refs(part)
        case Lit():
            pass


def lits(expr: Expr) -> Iterator[Lit]:
    """Yield the literals of an expression."""
    match expr:
        case Lit():
            yield expr
        case Cat(parts):
            for part in parts:
                yield from lits(part)
        case Ref():
            pass


# --- validity -----------------------------------------------------------------------------------------------------


def valid(model: Model) -> bool:
    """Whether every variable is set before it is used, and every helper is there and calls only older ones."""
    scope: set[int] = set()
    if not _sound(model.body, scope) or not set(model.ret) <= scope:
        return False
    for number, helper in model.helpers.items():
        scope = set(helper.params)
        if not _sound(helper.body, scope) or not set(refs(helper.ret)) <= scope:
            return False
        if any(
            other not in model.helpers or model.helpers[other].nested or other == number for other in used(helper.body)
        ):
            return False
    if any(other not in model.helpers for other in used(model.body)):
        return False
    return not _cyclic(model)


def _cyclic(model: Model) -> bool:
    depth: dict[int, int] = {}

    def visit(number: int) -> bool:
        if depth.get(number) == 1:
            return True
        if depth.get(number) == 2:
            return False
        depth[number] = 1
        found = any(visit(other) for other in used(model.helpers[number].body))
        depth[number] = 2
        return found

    return any(visit(number) for number in model.helpers)


def used(body: list[Stmt]) -> list[int]:
    """Return the helpers that statements use."""
    found: list[int] = []
    for block in blocks(body):
        for statement in block:
            if isinstance(statement, Use):
                found.append(statement.helper)
            elif isinstance(statement, Fan):
                found += [branch.helper for branch in statement.branches] + statement.stages
                if statement.method == "map":
                    found.append(statement.helper)
    return found


def _sound(body: list[Stmt], scope: set[int]) -> bool:
    for statement in body:
        if any(var not in scope for expr in expressions(statement) for var in refs(expr)):
            return False
        match statement:
            case For(trail=trail):
                inner = scope if not trail else set(scope)
                inner.add(statement.item)
                if not statement.body or not _sound(statement.body, inner):
                    return False
            case If(test=None):
                if not statement.body or not _sound(statement.body, scope):
                    return False
            case If():
                if not _sound(statement.body, set(scope)) or not _sound(statement.orelse, set(scope)):
                    return False
                if not statement.body:
                    return False
            case Try(handler=None):
                if not statement.body or not _sound(statement.body, scope):
                    return False
            case Try():
                tried, handled = set(scope), set(scope)
                if not statement.body or not _sound(statement.body, tried) or not _sound(statement.handler, handled):
                    return False
                scope |= tried & handled
            case Say():
                pass
            case _:
                scope.add(statement.var)
    return True


# --- the writer ---------------------------------------------------------------------------------------------------


@dataclass
class Node:
    """What stands at a position: its trail, and the keys of its branches or iterations (None: their numbers)."""

    trail: Trail
    keys: list[Any] | dict[str, Any] | None = None


RETRY = """\
async def with_retry(ctx, call):
    last = None
    for attempt in range(2):
        try:
            return await call()
        except CapabilityError as e:
            last = e
    raise last
"""


@dataclass
class Text:
    """A written script. `nodes` are by line and kind of position."""

    source: str
    args: dict[str, list[str]]
    nodes: dict[tuple[int, str], Node]

    @cached_property
    def program(self) -> Program:
        """The script's program."""
        return compile_program(self.source)

    def work(self, identity: str) -> Work:
        """Return what a call is for: its trail, and beside it the keys of the branches and iterations."""
        parts = ids.parse(identity)
        trail: list[Any] = []
        keys: list[Any] = []
        for frame in (*parts.path, parts.site):
            position = self.program.positions[frame.position]
            node = self.nodes[position.line, position.kind]
            trail += node.trail
            if not node.trail:
                continue
            if frame.branch is not None:
                keys.append(_key(node, frame.branch))
            elif frame.entry:
                keys.append(("entry", frame.entry))
        return (tuple(trail), tuple(keys))


def _key(node: Node, branch: int | str) -> Any:
    if isinstance(node.keys, dict):
        return node.keys.get(str(branch), branch)
    if node.keys is not None and isinstance(branch, int) and branch < len(node.keys):
        return node.keys[branch]
    return branch


class Writer:
    """Writes a model."""

    def __init__(self, model: Model) -> None:
        self.model = model
        self.lines: list[str] = []
        self.nodes: dict[tuple[int, str], Node] = {}

    def write(self) -> Text:
        """Return the text."""
        model = self.model
        retries = any(isinstance(s, Call) and s.retry is not None for s in model.statements())
        for name, value in model.consts.items():
            self.put(0, f"{name} = {value!r}")
        if model.consts:
            self.put(0, "")
        if retries:
            start = len(self.lines)
            self.lines += RETRY.splitlines()
            self.nodes[start + 3, "loop"] = Node(("retry",))
            self.nodes[start + 5, "call"] = Node(("again",))
        for helper in model.helpers.values():
            if not helper.nested:
                self.function(helper, 0)
        self.put(0, "async def orchestrate(ctx, args):")
        for helper in model.helpers.values():
            if helper.nested:
                self.function(helper, 1)
        self.block(model.body, 1)
        self.put(1, f"return [{', '.join(self.name(var) for var in model.ret)}]")
        return Text("\n".join(self.lines) + "\n", model.args, self.nodes)

    def function(self, helper: Helper, depth: int) -> None:
        params = "".join(f", {self.name(var)}" for var in helper.params)
        self.put(depth, f"async def {helper.name}(ctx, args{params}):")
        self.block(helper.body, depth + 1)
        self.put(depth + 1, f"return {self.expr(helper.ret)}")
        self.put(0, "")

    def put(self, depth: int, text: str) -> int:
        """Write a line and return its number."""
        self.lines.append(("    " * depth + text) if text else "")
        return len(self.lines)

    def name(self, var: int) -> str:
        return self.model.names.get(var, f"v{var}")

    def expr(self, expr: Expr) -> str:
        match expr:
            case Lit(text, const):
                return const or f'"{text}"'
            case Ref(var):
                return self.name(var)
            case Cat(parts):
                return (
                    'f"'
                    + "".join(f"{{{self.expr(p)}}}" if not isinstance(p, Lit) or p.const else p.text for p in parts)
                    + '"'
                )

    def items(self, items: Items) -> str:
        if items.name:
            return f'args["{items.name}"][:9]'
        return "[" + ", ".join(f'"{value}"' for value in items.values) + "]"

    def payload(self, call: Call) -> str:
        take = f", take={call.take}" if call.take != 1 else ""
        if self.model.style == 1:
            return f"'{call.cap}', {{'p': {self.expr(call.expr)}}}{take}"
        return f'"{call.cap}", {{"p": {self.expr(call.expr)}}}{take}'

    def use(self, helper: int, args: list[Expr]) -> str:
        given = "".join(f", {self.expr(argument)}" for argument in args)
        return f"{self.model.helpers[helper].name}(ctx, args{given})"

    def block(self, body: list[Stmt], depth: int) -> None:
        if not body:
            self.put(depth, "pass")
        for statement in body:
            if self.model.style == 2:
                self.put(depth, "# and then")
            self.statement(statement, depth)

    def statement(self, statement: Stmt, depth: int) -> None:
        match statement:
            case Call():
                self.call(statement, depth)
            case Use():
                line = self.put(
                    depth, f"{self.name(statement.var)} = await {self.use(statement.helper, statement.args)}"
                )
                self.nodes[line, "call"] = Node(statement.trail)
            case Read(method="sleep"):
                line = self.put(depth, "await ctx.sleep(1)")
                self.nodes[line, "site"] = Node(statement.trail)
                self.put(depth, f'{self.name(statement.var)} = "slept"')
            case Read():
                line = self.put(depth, f"{self.name(statement.var)} = str(await ctx.{statement.method}())")
                self.nodes[line, "site"] = Node(statement.trail)
            case Assign():
                self.put(depth, f"{self.name(statement.var)} = {self.expr(statement.expr)}")
            case Say():
                self.put(depth, statement.text)
            case For():
                head = "range(1)" if not statement.trail else self.items(statement.items)
                line = self.put(depth, f"for {self.name(statement.item)} in {head}:")
                self.nodes[line, "loop"] = Node(statement.trail, list(statement.items.keys))
                self.block(statement.body, depth + 1)
            case If():
                test = "True" if statement.test is None else f"len({self.name(statement.test)}) % 2 == 0"
                self.put(depth, f"if {test}:")
                self.block(statement.body, depth + 1)
                if statement.orelse:
                    self.put(depth, "else:")
                    self.block(statement.orelse, depth + 1)
            case Try(again=True):
                line = self.put(depth, f"for try_{depth} in range(2):")
                self.nodes[line, "loop"] = Node(())
                self.put(depth + 1, "try:")
                self.block(statement.body, depth + 2)
                self.put(depth + 2, "break")
                self.put(depth + 1, "except CapabilityError as e:")
                self.put(depth + 2, f"if try_{depth} == 1:")
                self.put(depth + 3, "raise e")
            case Try():
                self.put(depth, "try:")
                self.block(statement.body, depth + 1)
                self.put(depth, "except CapabilityError as e:")
                if statement.handler is None:
                    self.put(depth + 1, "raise e")
                else:
                    self.block(statement.handler, depth + 1)
            case Fan():
                self.fan(statement, depth)

    def call(self, call: Call, depth: int) -> None:
        name = self.name(call.var)
        if call.retry is not None:
            line = self.put(depth, f'{name} = (await with_retry(ctx, lambda: ctx.run({self.payload(call)})))["t"]')
            self.nodes[line, "call"] = Node(call.retry)
        elif call.times:
            inner = f'(await ctx.run({self.payload(call)}))["t"] for _ in range({call.times})'
            line = self.put(depth, f'{name} = "".join([{inner}])')
        else:
            line = self.put(depth, f'{name} = (await ctx.run({self.payload(call)}))["t"]')
        self.nodes[line, "site"] = Node(call.trail)

    def fan(self, fan: Fan, depth: int) -> None:
        name = self.name(fan.var)
        errors = ", return_errors=True" if fan.errors else ""
        keys: list[Any] | dict[str, Any] = list(fan.items.keys) if fan.items else [b.trail for b in fan.branches]
        match fan.method:
            case "map":
                assert fan.items is not None
                use = self.use(fan.helper, [Ref(-1)])
                line = self.put(
                    depth, f"{name} = await ctx.parallel([{use} for v_ in {self.items(fan.items)}]{errors})"
                )
            case "sites":
                assert fan.items is not None
                site = f'ctx.run("{fan.cap}", {{"p": s_}})'
                line = self.put(
                    depth, f"{name} = await ctx.parallel([{site} for s_ in {self.items(fan.items)}]{errors})"
                )
                self.nodes[line, "site"] = Node(("site",))
            case "pipeline":
                assert fan.items is not None
                stages = ", ".join(f"lambda w, item, i: {self.use(stage, [Ref(-2)])}" for stage in fan.stages)
                line = self.put(depth, f"{name} = await ctx.pipeline({self.items(fan.items)}, {stages}{errors})")
            case "dag":
                line = self.put(depth, f"{name} = await ctx.dag({{")
                keys = {}
                for number, branch in enumerate(fan.branches):
                    node = f"n{branch.trail[-1]}"
                    keys[node] = branch.trail
                    use = self.use(branch.helper, branch.args)
                    needs = (
                        f'lambda d: {use}, ["n{fan.branches[number - 1].trail[-1]}"]'
                        if fan.chained and number
                        else f"lambda: {use}, []"
                    )
                    self.put(depth + 1, f'"{node}": ({needs}),')
                self.put(depth, "})")
            case method:
                line = self.put(depth, f"{name} = await ctx.{method}([")
                for branch in fan.branches:
                    self.put(depth + 1, f"{self.use(branch.helper, branch.args)},")
                self.put(depth, f"]{errors if method == 'parallel' else ''})")
        self.nodes[line, "fanout"] = Node(fan.trail, keys)
        if fan.method == "sites":
            self.put(depth, f'{name} = "+".join([r["t"] if isinstance(r, dict) else "!" for r in {name}])')
        elif fan.method == "dag":
            self.put(depth, f'{name} = "+".join([{name}[k] for k in sorted({name})])')
        elif fan.method != "race":
            self.put(depth, f'{name} = "+".join([r if isinstance(r, str) else "!" for r in {name}])')


def write(model: Model) -> Text:
    """Return a model's text."""
    names = {-1: "v_", -2: "w"}
    model.names.update(names)
    return Writer(model).write()


# --- the generator ------------------------------------------------------------------------------------------------


class Maker:
    """Makes a random model. `size` bounds the statements of a block."""

    def __init__(self, chance: random.Random, size: int = 4, model: Model | None = None) -> None:
        self.chance = chance
        self.size = size
        self.model = model or Model()

    def make(self) -> Model:
        """Return a model."""
        for _ in range(self.chance.randint(0, 3)):
            self.helper()
        scope: list[int] = []
        self.model.body = self.block(scope, 2, self.chance.randint(1, self.size))
        self.model.ret = list(scope)
        return self.model

    def helper(self) -> int:
        """Add a helper of one parameter."""
        param = self.model.new()
        scope = [param]
        body = self.block(scope, 1, self.chance.randint(1, 2), deep=True)
        number = self.model.new()
        ret = Cat([Ref(var) for var in scope[1:]] or [Ref(param)])
        nested = self.chance.random() < 0.3
        self.model.helpers[number] = Helper(f"h{number}", [param], body, ret, nested)
        return number

    def block(self, scope: list[int], depth: int, count: int, deep: bool = False) -> list[Stmt]:
        """Return statements; those that set a variable for all that follows add it to the scope."""
        return [self.statement(scope, depth, deep) for _ in range(count)]

    def expr(self, scope: list[int]) -> Expr:
        """Return a payload's text: more often than not one that others have too."""
        roll = self.chance.random()
        if scope and roll < 0.35:
            return Ref(self.chance.choice(scope))
        if scope and roll < 0.5:
            return Cat([Lit(self.chance.choice(self.model.words)), Ref(self.chance.choice(scope))])
        return Lit(self.chance.choice(self.model.words))

    def items(self) -> Items:
        """Return a short list, with equal items now and then."""
        size = self.chance.choice([0, 1, 2, 2, 3, 3])
        values = [self.chance.choice(self.model.words) for _ in range(size)]
        if self.chance.random() < 0.6:
            values = [f"{word}{number}" for number, word in enumerate(values)]
        name = f"xs{self.model.new()}" if self.chance.random() < 0.4 else ""
        return Items([self.model.new() for _ in values], values, name)

    def role(self) -> Trail:
        """Return a trail of its own."""
        return (self.model.new(),)

    def callable_helpers(self, deep: bool) -> list[int]:
        """Return the helpers that code may use; a helper can't use a nested one."""
        return [number for number, helper in self.model.helpers.items() if not (deep and helper.nested)]

    def statement(self, scope: list[int], depth: int, deep: bool) -> Stmt:
        """Return a statement."""
        helpers = self.callable_helpers(deep)
        kinds = ["call"] * 5 + ["retry", "times", "read", "say"]
        if helpers:
            kinds += ["use"] * 4 + ["fan"] * 4
        if depth:
            kinds += ["for", "for", "if", "try", "try", "sites"]
        kind = self.chance.choice(kinds)
        return getattr(self, f"make_{kind}")(scope, depth, deep)

    def set(self, scope: list[int]) -> int:
        """Return a new variable of the scope."""
        var = self.model.new()
        scope.append(var)
        return var

    def make_call(self, scope: list[int], depth: int, deep: bool, **more: Any) -> Call:
        expr = self.expr(scope)
        return Call(self.role(), self.chance.choice(self.model.capabilities), expr, self.set(scope), **more)

    def make_retry(self, scope: list[int], depth: int, deep: bool) -> Call:
        return self.make_call(scope, depth, deep, retry=self.role())

    def make_times(self, scope: list[int], depth: int, deep: bool) -> Call:
        return self.make_call(scope, depth, deep, times=self.chance.randint(1, 3))

    def make_read(self, scope: list[int], depth: int, deep: bool) -> Read:
        return Read(self.role(), self.chance.choice(["now", "random", "uuid", "sleep"]), self.set(scope))

    def make_say(self, scope: list[int], depth: int, deep: bool) -> Say:
        return Say(f'ctx.log("line {self.model.new()}")')

    def make_use(self, scope: list[int], depth: int, deep: bool) -> Use:
        helper = self.chance.choice(self.callable_helpers(deep))
        return Use(self.role(), helper, [self.expr(scope)], self.set(scope))

    def make_for(self, scope: list[int], depth: int, deep: bool) -> For:
        item = self.model.new()
        return For(
            self.role(), self.items(), item, self.block([*scope, item], depth - 1, self.chance.randint(1, 2), deep)
        )

    def make_if(self, scope: list[int], depth: int, deep: bool) -> Stmt:
        if not scope:
            return self.make_call(scope, depth, deep)
        test = self.chance.choice(scope)
        orelse = self.block(list(scope), depth - 1, 1, deep) if self.chance.random() < 0.5 else []
        return If(test, self.block(list(scope), depth - 1, 1, deep), orelse)

    def make_try(self, scope: list[int], depth: int, deep: bool) -> Try:
        handler = self.block(list(scope), depth - 1, self.chance.randint(0, 1), deep)
        return Try(self.block(list(scope), depth - 1, self.chance.randint(1, 2), deep), handler)

    def make_sites(self, scope: list[int], depth: int, deep: bool) -> Fan:
        fan = Fan(self.role(), "sites", 0, self.items(), cap=self.chance.choice(self.model.capabilities))
        fan.errors = self.chance.random() < 0.3
        fan.var = self.set(scope)
        return fan

    def make_fan(self, scope: list[int], depth: int, deep: bool) -> Fan:
        helpers = self.callable_helpers(deep)
        fan = Fan(self.role(), self.chance.choice(["map", "map", "parallel", "parallel", "pipeline", "dag", "race"]), 0)
        fan.errors = fan.method in ("map", "parallel", "pipeline") and self.chance.random() < 0.25
        match fan.method:
            case "map":
                fan.items, fan.helper = self.items(), self.chance.choice(helpers)
            case "pipeline":
                fan.items = self.items()
                fan.stages = [self.chance.choice(helpers) for _ in range(self.chance.randint(1, 2))]
            case _:
                fan.branches = [
                    Branch(self.role(), self.chance.choice(helpers), [self.expr(scope)])
                    for _ in range(self.chance.randint(1, 3))
                ]
                fan.chained = self.chance.random() < 0.5
        fan.var = self.set(scope)
        return fan


def make(
    seed: int, size: int = 4, *, words: tuple[str, ...] = WORDS, capabilities: tuple[str, ...] = CAPABILITIES
) -> Model:
    """Return the model of a seed."""
    model = Maker(random.Random(seed), size, Model(words=words, capabilities=capabilities)).make()
    assert valid(model)
    return model
