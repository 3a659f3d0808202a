"""Programs for the bound analysis: a small grammar of what people write, and an interpreter that counts calls.

`generate(random)` makes a script with loops, comprehensions, helpers, closures and fan-outs; `Program.branchless`
says that its number of calls doesn't depend on data, so that the worst case has to be exact. `count(source)` runs
a script under plain CPython with a ctx that only counts.
"""

from __future__ import annotations

import ast
import asyncio
import gc
import warnings
from collections import Counter
from dataclasses import dataclass, field
from random import Random
from typing import Any

LIMIT = 4000
MAX_TICKS = 20_000


class TooMany(BaseException):
    """A run made more calls than any bounded program of the grammar."""


class CapabilityError(Exception):
    """As a script sees it."""

    def __init__(self, code: str, message: str, retryable: bool = False) -> None:
        super().__init__(f"{code}: {message}")
        self.code, self.message, self.retryable = code, message, retryable


class CountingContext:
    """A ctx whose calls are counted, answered with data of unpredictable length, and fail now and then."""

    def __init__(self, random: Random, failing: float) -> None:
        self.calls: Counter[str] = Counter()
        self.random = random
        self.failing = failing

    async def run(self, name: str, payload: Any, take: int = 1) -> Any:
        self.calls[name] += 1
        if sum(self.calls.values()) > LIMIT:
            raise TooMany
        await asyncio.sleep(0)
        if self.random.random() < self.failing:
            raise CapabilityError("timeout", "no answer", True)
        return {"text": "t", "items": list(range(self.random.randrange(30))), "ok": self.random.random() < 0.5}

    async def parallel(self, branches: Any, return_errors: bool = False) -> list[Any]:
        results = await asyncio.gather(*branches, return_exceptions=True)
        if not return_errors:
            for result in results:
                if isinstance(result, BaseException):
                    raise result
        for result in results:
            if isinstance(result, TooMany):
                raise result
        return list(results)

    async def race(self, branches: Any) -> Any:
        for result in (results := await self.parallel(branches, True)):
            if not isinstance(result, Exception):
                return result
        raise results[0]

    async def pipeline(self, items: Any, *stages: Any, return_errors: bool = False) -> list[Any]:
        async def one(item: Any, index: int) -> Any:
            value = item
            for stage in stages:
                value = await stage(value, item, index)
            return value

        return await self.parallel([one(item, index) for index, item in enumerate(items)], return_errors)

    async def dag(self, nodes: Any, return_errors: bool = False) -> dict[str, Any]:
        done: dict[str, Any] = {}
        left = dict(nodes)
        while left:
            name = next(name for name, (_, needs) in left.items() if all(need in done for need in needs))
            function, needs = left.pop(name)
            done[name] = await function(*[done[need] for need in needs])
        return done

    def log(self, text: str) -> None:
        pass


class _Ticks(ast.NodeTransformer):
    """Puts a call in front of each body of a loop or function, so that a run that never ends is ended."""

    def generic_visit(self, node: ast.AST) -> ast.AST:
        super().generic_visit(node)
        if isinstance(node, ast.For | ast.While | ast.FunctionDef | ast.AsyncFunctionDef):
            tick = ast.Expr(ast.Call(ast.Name("_tick", ast.Load()), [], []))
            first = isinstance(node.body[0], ast.Nonlocal)
            node.body.insert(int(first), tick)
        return node


def count(source: str, args: Any, seed: int, failing: float = 0.0) -> Counter[str]:
    """Run a script and return how often each capability was called. Errors of the script end the run."""
    left = [MAX_TICKS]

    def tick() -> None:
        left[0] -= 1
        if left[0] < 0:
            raise TooMany

    space: dict[str, Any] = {"CapabilityError": CapabilityError, "_tick": tick}
    tree = ast.fix_missing_locations(_Ticks().visit(ast.parse(source)))
    ctx = CountingContext(Random(seed), failing)
    gc.freeze()  # what is there already needn't be looked at below, which takes far longer than all else here
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # a script that ends early leaves coroutines behind, a wild one asks `1 is 2`
        exec(compile(tree, "<script>", "exec"), space)
        try:
            asyncio.run(space["orchestrate"](ctx, args))
        except (Exception, TooMany):  # noqa: BLE001 - a script may raise anything
            pass
        space.clear()
        if "jobs" in source:
            gc.collect()  # coroutines that are left behind warn when they are freed, which has to be in here
    gc.unfreeze()
    return ctx.calls


@dataclass
class Program:
    """A generated script. `branchless`: every run makes the same calls."""

    source: str
    branchless: bool


@dataclass
class _Scope:
    lists: list[str] = field(default_factory=list)
    numbers: list[str] = field(default_factory=list)
    helpers: list[tuple[str, str]] = field(default_factory=list)
    depth: int = 0
    loop: bool = False
    counter: bool = False


class _Writer:
    def __init__(self, random: Random, *, exact: bool) -> None:
        self.random = random
        self.exact = exact
        self.lines: list[str] = []
        self.serial = 0
        self.budget = random.randrange(5, 16)

    def fresh(self, prefix: str) -> str:
        self.serial += 1
        return f"{prefix}{self.serial}"

    def pick(self, options: list[Any]) -> Any:
        return self.random.choice(options)

    def emit(self, indent: int, text: str) -> None:
        self.lines.append("    " * indent + text)

    # ---- expressions

    def sequence(self, scope: _Scope) -> str:
        """A list whose length follows from the source; fixed in an exact program."""
        small = self.random.randrange(1, 5)
        options = [
            f"list(range({small}))",
            str([0] * small),
            "LETTERS",
            f"LETTERS[:{small}]",
            '"a b c".split()',
            "list((1, 2, 3))",
            f"args['items'][:{small}]",
            f"args['items'][{small}:{small + 3}]",
            "list({'a': 1, 'b': 2}.items())",
        ]
        if scope.lists:
            name = self.pick(scope.lists)
            options += [
                name,
                name,
                f"sorted({name}, key=str)",
                f"list(reversed({name}))",
                f"list(enumerate({name}))",
                f"list(zip({name}, {self.pick(scope.lists)}))",
                f"[x for x in {name}]",
                f"{name} + {self.pick(scope.lists)}",
                "list(dict.fromkeys([1, 2, 3]))",
                f"[(x, y) for x in {name} for y in LETTERS]",
                f"{name}[:]",
                f"[*{name}, 1]",
                f"list(map(lambda v: v, {name}))",
            ]
            if not self.exact:
                options += [
                    f"{name}[:{small}]",
                    f"{name}[-{small}:]",
                    f"{name}[1:]",
                    f"{name}[::2]",
                    f"[x for x in {name} if str(x) > '2']",
                    f"list(filter(None, {name}))",
                    f"({name} if args['flag'] else LETTERS)",
                    f"({name} or LETTERS)",
                    f"{name}[:min(len({name}), {small})]",
                    f"list(set_of({name}))",
                ]
        if not self.exact:
            options += [
                f"args['many'][:min(int(args['n']), {small})]",
                f"(args.get('many') or [])[:{small}]",
                "args['many'][:LIMITS['small']]",
            ]
        return str(self.pick(options))

    def bound(self, scope: _Scope) -> str:
        small = self.random.randrange(1, 4)
        options = [f"range({small})", "range(N)", f"range(1, {small + 1})", f"range({small}, 0, -1)", "range(0, 6, 2)"]
        if scope.lists:
            name = self.pick(scope.lists)
            options += [f"range(len({name}))", f"enumerate({name})", f"reversed({name})", name]
            if not self.exact:
                options += [f"range(min(len({name}), {small}))", f"zip({name}, LETTERS)"]
        if not self.exact:
            options += [f"range(min(int(args['n']), {small}))", f"range(max(0, {small} - 1))"]
        return str(self.pick([*options, self.sequence(scope)]))

    # ---- statements

    def block(self, indent: int, scope: _Scope, size: int) -> None:
        wrote = False
        for _ in range(size):
            if self.budget <= 0:
                break
            self.budget -= 1
            self.statement(indent, scope)
            wrote = True
        if not wrote:
            self.call(indent, scope)

    def statement(self, indent: int, scope: _Scope) -> None:
        kinds = [self.call, self.call, self.assign, self.assign, self.append_loop, self.fan_out, self.helper_call]
        if scope.depth < 3:
            kinds += [self.loop, self.loop, self.counter, self.comprehension, self.jobs]
            kinds += [self.chunks, self.pipeline, self.grouped]
            if not self.exact:
                kinds += [self.branch, self.guarded, self.attempt, self.early, self.queue]
        self.pick(kinds)(indent, scope)

    def call(self, indent: int, scope: _Scope) -> None:
        self.emit(indent, f"await ctx.run('c.{self.pick('abc')}', {{'x': 1}})")

    def assign(self, indent: int, scope: _Scope) -> None:
        name = (
            self.pick(scope.lists) if scope.lists and self.random.random() < 0.3 and not scope.loop else self.fresh("v")
        )
        self.emit(indent, f"{name} = {self.sequence(scope)}")
        if name not in scope.lists:
            scope.lists.append(name)

    def inner(self, scope: _Scope, *, loop: bool = False) -> _Scope:
        inner = _Scope(list(scope.lists), list(scope.numbers), scope.helpers, scope.depth + 1, loop or scope.loop)
        inner.counter = scope.counter and not loop
        return inner

    def loop(self, indent: int, scope: _Scope) -> None:
        self.emit(indent, f"for {self.fresh('i')} in {self.bound(scope)}:")
        self.block(indent + 1, self.inner(scope, loop=True), self.random.randrange(1, 3))

    def append_loop(self, indent: int, scope: _Scope) -> None:
        name = self.fresh("w")
        self.emit(indent, f"{name} = []")
        self.emit(indent, f"for k in {self.bound(scope)}:")
        grow = self.pick([f"{name}.append(k)", f"{name}.append(k)", f"{name}.extend([k, k])", f"{name} += [k]"])
        self.emit(
            indent + 1, grow if self.exact else self.pick([grow, f"{name}.insert(0, k)", f"if k: {name}.append(k)"])
        )
        scope.lists.append(name)

    def counter(self, indent: int, scope: _Scope) -> None:
        name = self.fresh("n")
        limit = self.random.randrange(1, 4)
        form = self.random.randrange(6)
        inner = self.inner(scope, loop=True)
        inner.counter = True  # a `continue` would skip the step, and the loop would have no bound
        if form == 0:
            self.emit(indent, f"{name} = 0")
            self.emit(indent, f"while {name} < {limit}:")
            self.emit(indent + 1, f"{name} += 1")
            self.block(indent + 1, inner, 1)
        elif form == 1:
            self.emit(indent, f"{name} = {limit}")
            self.emit(indent, f"while {name} > 0:")
            self.block(indent + 1, inner, 1)
            self.emit(indent + 1, f"{name} = {name} - 1")
        elif form == 2:
            self.emit(indent, f"{name} = 0")
            self.emit(indent, "while True:")
            self.emit(indent + 1, f"if {name} >= {limit}:")
            self.emit(indent + 2, "break")
            self.block(indent + 1, inner, 1)
            self.emit(indent + 1, f"{name} += 1")
        elif form == 3:
            self.emit(indent, f"{name} = []")
            self.emit(indent, f"while len({name}) < {limit}:")
            self.block(indent + 1, inner, 1)
            self.emit(indent + 1, f"{name}.append(1)")
        elif form == 4:
            self.emit(indent, f"{name} = list(range({limit}))")
            self.emit(indent, f"while {name}:")
            self.emit(indent + 1, f"{name}.pop()")
            self.block(indent + 1, inner, 1)
        else:
            self.emit(indent, f"{name} = 0")
            self.emit(indent, f"while ({name} := {name} + 1) <= {limit}:")
            self.block(indent + 1, inner, 1)

    def comprehension(self, indent: int, scope: _Scope) -> None:
        call = f"await ctx.run('c.{self.pick('abc')}', {{}})"
        name = self.fresh("r")
        form = self.pick(
            [f"[{call} for x in {self.bound(scope)}]", f"[{call} for x in {self.bound(scope)} for y in range(2)]"]
        )
        self.emit(indent, f"{name} = {form}")
        scope.lists.append(name)

    def fan_out(self, indent: int, scope: _Scope) -> None:
        errors = "" if self.exact else self.pick(["", ", return_errors=True"])
        name = self.fresh("p")
        form = self.pick(
            [
                f"[one(x) for x in {self.sequence(scope)}]",
                "[one(1), two(2)]",
                f"[ctx.run('c.a', {{}}) for x in {self.sequence(scope)}]",
                "[one(1), *[two(x) for x in LETTERS]]",
            ]
        )
        self.emit(indent, f"{name} = await ctx.parallel({form}{errors})")
        scope.lists.append(name)

    def jobs(self, indent: int, scope: _Scope) -> None:
        name = self.fresh("j")
        self.emit(indent, f"{name} = []")
        self.emit(indent, f"for x in {self.bound(scope)}:")
        self.emit(indent + 1, f"{name}.append({self.pick(['one', 'two'])}(x))")
        if self.random.random() < 0.4:
            self.emit(indent, f"{name}.append({self.pick(['one', 'two'])}(0))")
        self.emit(indent, f"await ctx.parallel({name})")

    def chunks(self, indent: int, scope: _Scope) -> None:
        name, size = self.fresh("rows"), self.random.randrange(1, 4)
        self.emit(indent, f"{name} = {self.sequence(scope)}")
        self.emit(indent, f"for start in range(0, len({name}), {size}):")
        part = f"{name}[start:start + {size}]"
        if self.random.random() < 0.5:
            self.emit(indent + 1, f"await ctx.parallel([one(r) for r in {part}])")
        else:
            self.emit(indent + 1, f"for r in {part}:")
            self.emit(indent + 2, "await ctx.run('c.b', {})")

    def pipeline(self, indent: int, scope: _Scope) -> None:
        name = self.fresh("q")
        self.emit(indent, f"{name} = await ctx.pipeline({self.sequence(scope)}, stage_a, stage_b)")
        scope.lists.append(name)

    def grouped(self, indent: int, scope: _Scope) -> None:
        name = self.fresh("g")
        self.emit(indent, f"{name} = {{}}")
        self.emit(indent, f"for at, x in enumerate({self.sequence(scope)}):")
        if self.exact:
            self.emit(indent + 1, f"{name}[at] = [x]")
        else:
            self.emit(indent + 1, f"{name}.setdefault(str(at % 2), []).append(x)")
        self.emit(indent, f"for key, value in {name}.items():")
        self.emit(indent + 1, "for y in value:")
        self.emit(indent + 2, "await ctx.run('c.c', {})")

    def helper_call(self, indent: int, scope: _Scope) -> None:
        form = self.random.randrange(5)
        if form == 0:
            self.emit(indent, f"await each(ctx, {self.sequence(scope)})")
        elif form == 1:
            self.emit(indent, f"await again({self.random.randrange(1, 4)}, lambda: ctx.run('c.a', {{}}))")
        elif form == 2:
            self.emit(indent, f"await deeper(ctx, {self.random.randrange(0, 4)})")
        elif form == 3:
            name = self.fresh("h")
            self.emit(indent, f"{name} = twice({self.sequence(scope)})")
            scope.lists.append(name)
        else:
            self.emit(indent, f"await wrapped(one)({self.random.randrange(3)})")

    # ---- what depends on data

    def branch(self, indent: int, scope: _Scope) -> None:
        self.emit(
            indent, f"if {self.pick(['args[chr(102) + chr(108) + chr(97) + chr(103)]', 'len(args[chr(97)]) > 2'])}:"
        )
        self.block(indent + 1, self.inner(scope), 1)
        if self.random.random() < 0.6:
            self.emit(indent, "else:")
            self.block(indent + 1, self.inner(scope), 1)

    def guarded(self, indent: int, scope: _Scope) -> None:
        name = self.fresh("d")
        limit = self.random.randrange(1, 4)
        form = self.random.randrange(3)
        if form == 0:
            self.emit(indent, f"for {name}, x in enumerate(args['many']):")
            self.emit(indent + 1, f"if {name} >= {limit}:")
            self.emit(indent + 2, "break")
            self.emit(indent + 1, "await ctx.run('c.a', {})")
        elif form == 1:
            self.emit(indent, f"{name} = []")
            self.emit(indent, "for x in args['many']:")
            self.emit(indent + 1, f"if len({name}) >= {limit}:")
            self.emit(indent + 2, "break")
            self.emit(indent + 1, f"{name}.append(await ctx.run('c.b', {{}}))")
        else:
            self.emit(indent, f"{name} = args['many']")
            self.emit(indent, f"if len({name}) > {limit}:")
            self.emit(indent + 1, f"{name} = {name}[:{limit}]")
            self.emit(indent, f"for x in {name}:")
            self.emit(indent + 1, "await ctx.run('c.c', {})")

    def attempt(self, indent: int, scope: _Scope) -> None:
        name = self.fresh("t")
        self.emit(indent, f"for {name} in range({self.random.randrange(1, 4)}):")
        self.emit(indent + 1, "try:")
        self.block(indent + 2, self.inner(scope, loop=True), 1)
        self.emit(indent + 1, "except CapabilityError as err:")
        self.emit(indent + 2, self.pick(["continue", "ctx.log(err.code)", "await ctx.run('c.c', {})"]))
        self.emit(indent + 1, self.pick(["else:", "finally:"]))
        self.emit(indent + 2, "ctx.log('x')")

    def early(self, indent: int, scope: _Scope) -> None:
        if scope.loop:
            self.emit(indent, "if args['flag']:")
            self.emit(indent + 1, "break" if scope.counter else self.pick(["break", "continue"]))
        else:
            self.emit(indent, "if args['n'] > 90:")
            self.emit(indent + 1, "return None")

    def queue(self, indent: int, scope: _Scope) -> None:
        name, rounds = self.fresh("queue"), self.fresh("rounds")
        self.emit(indent, f"{name} = {self.sequence(scope)}")
        self.emit(indent, f"{name} = list({name})")
        self.emit(indent, f"{rounds} = 0")
        self.emit(indent, f"while {name} and {rounds} < {self.random.randrange(1, 5)}:")
        self.emit(indent + 1, f"{rounds} += 1")
        self.emit(indent + 1, f"{name}.pop(0)")
        self.emit(indent + 1, "reply = await ctx.run('c.b', {})")
        self.emit(indent + 1, "if reply['ok']:")
        self.emit(indent + 2, f"{name}.append(1)")


_HEAD = """LETTERS = ["a", "b", "c"]
N = 2
LIMITS = {"small": 2, "large": 5}


def set_of(values):
    return [v for v in values if str(v) != "zz"]


def twice(values):
    out = []
    for value in values:
        out.append(value)
        out.append(value)
    return out


async def each(ctx, values):
    done = []
    for value in values:
        done.append(await ctx.run("c.a", {"v": 1}))
    return done


async def again(times, action):
    last = None
    for _ in range(times):
        last = await action()
    return last


async def deeper(ctx, depth=0):
    await ctx.run("c.b", {"depth": depth})
    if depth >= 3:
        return depth
    return await deeper(ctx, depth + 1)


def wrapped(action):
    async def inner(value):
        await action(value)
        return await action(value)
    return inner


async def orchestrate(ctx, args):
    async def one(value):
        return await ctx.run("c.a", {"v": 1})

    async def two(value):
        await ctx.run("c.b", {"v": 1})
        return await ctx.run("c.c", {"v": 1})

    async def stage_a(value, item, index):
        return await ctx.run("c.a", {"v": 1})

    async def stage_b(value, item, index):
        for _ in range(2):
            await ctx.run("c.b", {"v": 1})
        return value

"""


def generate(random: Random, *, exact: bool) -> Program:
    """Write a program; without anything that depends on data if `exact`."""
    writer = _Writer(random, exact=exact)
    scope = _Scope()
    writer.emit(1, f"v0 = {writer.sequence(scope)}")
    scope.lists.append("v0")
    while writer.budget > 0:
        writer.block(1, scope, 3)
    writer.emit(1, "return 1")
    return Program(_HEAD + "\n".join(writer.lines) + "\n", exact)
