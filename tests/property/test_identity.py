"""What holds for the identities of any script: positions stay, text keeps its meaning, no two calls share one."""

from __future__ import annotations

import ast
import asyncio
import json
import random
from collections import Counter
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from addendum import identity
from addendum.script.bounds import Bounds
from addendum.script.normal import Normal
from addendum.script.program import Position, Program, build
from addendum.script.scope import analyse

pytestmark = [
    pytest.mark.slow,
    pytest.mark.filterwarnings("ignore:coroutine .* was never awaited:RuntimeWarning"),
]

# --- a guest ------------------------------------------------------------------------------------------------------


class CapabilityError(Exception):
    """What a script may catch."""


class Guest:
    """The smallest thing that runs a script, annotated or not, and writes down the calls that it makes.

    `calls` has (identity, capability, payload as JSON text); the identity is "" for a text without annotations. A
    capability that begins with `bad` fails.
    """

    def __init__(self, *, annotated: bool) -> None:
        self.annotated = annotated
        self.at = [""]
        self.used: Counter[str] = Counter()
        self.calls: list[tuple[str, str, str]] = []

    def run(self, source: str) -> object:
        """Run a script's `orchestrate`; return its result, or the error's text."""
        names: dict[str, Any] = {
            "_wf_at": self.at,
            "_wf_call": self._call,
            "_wf_err": CapabilityError,
            "_wf_cap": lambda error: error,
            "_wf_exc": lambda error: error,
            "_wf_end": lambda value: value,
            "CapabilityError": CapabilityError,
        }
        exec(compile(source, "<script>", "exec"), names)
        try:
            return asyncio.run(names["orchestrate"](Context(self), {}))
        except (CapabilityError, ValueError) as error:
            return repr(error)

    def enter(self, prefix: str | None, position: str) -> str:
        text = (self.at[0] if prefix is None else prefix) + position
        self.used[text] += 1
        return text if self.used[text] == 1 else f"{text}:{self.used[text] - 1}"

    async def _call(self, prefix: str | None, position: str, awaited: Awaitable[object]) -> object:
        self.at[0] = self.enter(prefix, position) + " > "
        return await awaited

    def leading(self, arguments: tuple[Any, ...]) -> tuple[str | None, str, list[Any]]:
        return (arguments[0], arguments[1], list(arguments[2:])) if self.annotated else ("", "", list(arguments))

    async def capability(self, arguments: tuple[Any, ...], payload: object) -> object:
        prefix, position, rest = self.leading(arguments)
        text = self.enter(prefix, position) if self.annotated else ""
        if len(self.calls) == 200:
            raise ValueError("That is enough.")
        self.calls.append((text, rest[0], json.dumps(rest[1] if len(rest) > 1 else payload, sort_keys=True)))
        await asyncio.sleep(0)
        if rest[0].startswith("bad"):
            raise CapabilityError(rest[0])
        return {"n": len(self.calls[-1][2]) % 3}


class Context:
    """The `ctx` of a guest."""

    def __init__(self, guest: Guest) -> None:
        self._guest = guest

    async def run(self, *arguments: Any, payload: object = None, take: int = 1) -> object:
        return await self._guest.capability(arguments, payload)

    async def now(self, *arguments: Any) -> object:
        return await self._guest.capability((*arguments, "ctx.now"), {})

    async def _branch(self, path: str, awaited: Awaitable[object]) -> object:
        self._guest.at[0] = path
        return await awaited

    async def parallel(self, *arguments: Any, return_errors: bool = False) -> object:
        prefix, position, rest = self._guest.leading(arguments)
        frame = self._guest.enter(prefix, position)
        lines = [self._branch(f"{frame}[{index}] > ", awaited) for index, awaited in enumerate(rest[0])]
        ended = await asyncio.gather(*lines, return_exceptions=True)
        for end in ended:
            if isinstance(end, BaseException) and not return_errors:
                raise end
        return [repr(end) if isinstance(end, BaseException) else end for end in ended]

    async def pipeline(self, *arguments: Any) -> object:
        prefix, position, rest = self._guest.leading(arguments)
        frame = self._guest.enter(prefix, position)
        items, *stages = rest

        async def through(path: str, item: object, index: int) -> object:
            value = item
            for stage in stages:
                self._guest.at[0] = path
                value = await stage(value, item, index)
            return value

        return await asyncio.gather(
            *[through(f"{frame}[{index}] > ", item, index) for index, item in enumerate(list(items))]
        )

    async def dag(self, *arguments: Any) -> object:
        prefix, position, rest = self._guest.leading(arguments)
        frame = self._guest.enter(prefix, position)
        done: dict[str, object] = {}
        for name, (function, needs) in rest[0].items():
            self._guest.at[0] = f"{frame}[{json.dumps(name)}] > "
            done[name] = await function(*[done[need] for need in needs])
        return done

    async def race(self, *arguments: Any) -> object:
        ended = await self.parallel(*arguments, return_errors=True)
        assert isinstance(ended, list)
        return ended[0]

    def log(self, text: object) -> None:
        pass


def compiled(source: str) -> Program:
    """Return the program of a script, without bounds: they have their own tests, and take longer."""
    return build(source, analyse(ast.parse(source)), Bounds())


def run_both(source: str) -> tuple[Program, Guest]:
    """Run a script as it is and annotated; both have to do the same. Returns the program and its annotated run."""
    program = compiled(source)
    plain, annotated = Guest(annotated=False), Guest(annotated=True)
    assert annotated.run(program.annotated) == plain.run(source)
    assert [call[1:] for call in annotated.calls] == [call[1:] for call in plain.calls]
    return program, annotated


# --- scripts ------------------------------------------------------------------------------------------------------


class Writer:
    """Writes a script of everything that people write, from a seed. It ends, whatever the calls return."""

    def __init__(self, seed: int) -> None:
        self.random = random.Random(seed)
        self.fresh = 0

    def script(self) -> str:
        """Return the source of a script."""
        helpers = [f"h{number}" for number in range(self.random.randint(0, 3))]
        lines = ["LIMIT = 3", ""]
        for number, name in enumerate(helpers):
            lines += self.function(name, helpers[:number], 2)
        lines += self.function("orchestrate", helpers, 3)
        return "\n".join(lines) + "\n"

    def function(self, name: str, helpers: list[str], depth: int) -> list[str]:
        """Return the lines of a function that may call the helpers before it, or itself a few times."""
        if name == "orchestrate":
            head, prelude = "async def orchestrate(ctx, args):", ["make = lambda i: ctx.run('made', {'i': i})", "n = 2"]
        else:
            head, prelude = f"async def {name}(ctx, make, n):", []
        if self.random.random() < 0.4:
            prelude.insert(0, '"""A docstring."""')
        body = [*prelude, "xs = [1, 2]"]
        if self.random.random() < 0.3:
            inner = self.function(f"{name}_inner", [], 1)
            body += inner
            helpers = [*helpers, f"{name}_inner"]
        for _ in range(self.random.randint(1, 4)):
            body += self.statement(helpers, depth)
        if name != "orchestrate" and self.random.random() < 0.3:
            body += ["if n > 0:", f"    await {name}(ctx, make, n - 1)"]
        return [head, *indented(body), f"    return {self.value(helpers)}", ""]

    def pick(self, *choices: str) -> str:
        """Return one of the choices."""
        return self.random.choice(choices)

    def name(self) -> str:
        """Return a new name."""
        self.fresh += 1
        return f"v{self.fresh}"

    def call(self, helpers: list[str]) -> str:
        """Return a coroutine, not awaited."""
        made = [f"ctx.run('{self.pick('a', 'b', 'c.d')}', {{'n': {self.random.randint(0, 3)}, 'x': xs}})", "make(n)"]
        made += [f"{helper}(ctx, lambda i: ctx.run('l', {{'i': i}}), n - 1)" for helper in helpers]
        made += ["ctx.run('e', payload={'k': [x for x in xs]})", "ctx.now()"]
        return self.pick(*made)

    def value(self, helpers: list[str]) -> str:
        """Return an expression that calls something."""
        one, two = self.call(helpers), self.call(helpers)
        plain = one.replace('"', "'")
        return self.pick(
            f"await {one}",
            f"(await {one}, await ({two}))",
            f"[await {one} for _ in range(2)]",
            f"{{k: await {one} for k in 'ab' if await {two}}}",
            f"await ({one} if n else {two})",
            f"await ctx.parallel([{one}, {two}])",
            f"await ctx.parallel({self.call(helpers)} for _ in range(2))",
            f"await ctx.race([{one}, {two}])",
            f"await ctx.pipeline(xs, lambda v, item, i: {one}, lambda v, item, i: {two})",
            f"await ctx.dag({{'p': (lambda: {one}, []), 'q': (lambda v: {two}, ['p'])}})",
            f'f"{{await {plain}}} and {{(await {two})!r:>9}}"',
            f'f"{{await {plain}=}}" "é" f"{{n}}"',
            f"not await {one}",
            f"(w := await {one})",
            f"sorted([str(await {one}), 'x'])[0]",
        )

    def statement(self, helpers: list[str], depth: int) -> list[str]:
        """Return the lines of a statement that calls something."""
        kinds = ["assign", "assign", "return_if", "stored", "append"]
        if depth:
            kinds += ["for", "while", "if", "try", "match"]
        return list(getattr(self, f"write_{self.random.choice(kinds)}")(helpers, depth - 1))

    def block(self, helpers: list[str], depth: int) -> list[str]:
        """Return the lines of one or two statements, indented."""
        lines = self.statement(helpers, depth)
        if self.random.random() < 0.3:
            lines += self.statement(helpers, depth)
        return indented(lines)

    def write_assign(self, helpers: list[str], depth: int) -> list[str]:
        return [f"{self.name()} = {self.value(helpers)}"]

    def write_return_if(self, helpers: list[str], depth: int) -> list[str]:
        return [f"if not {self.value(helpers)}: return {self.value(helpers)}"]

    def write_stored(self, helpers: list[str], depth: int) -> list[str]:
        name = self.name()
        return [f"{name} = {self.call(helpers)}", f"{name} = await {name}"]

    def write_append(self, helpers: list[str], depth: int) -> list[str]:
        name = self.name()
        lines = [f"{name} = []", "for x in xs:", f"    {name}.append({self.call(helpers)})"]
        return [*lines, f"await ctx.parallel({name}, return_errors=True)"]

    def write_for(self, helpers: list[str], depth: int) -> list[str]:
        head = self.pick("for x in range(2):", f"for x in [await {self.call(helpers)}]:")
        lines = [head, *self.block(helpers, depth)]
        if self.random.random() < 0.3:
            lines += ["    if x: continue", *self.block(helpers, depth)]
        if self.random.random() < 0.3:
            lines += ["else:", *self.block(helpers, depth)]
        return lines

    def write_while(self, helpers: list[str], depth: int) -> list[str]:
        name = self.name()
        test = self.pick(f"{name} < 2", f"{name} < 2 and [await {self.call(helpers)}]")
        lines = [f"{name} = 0", f"while {test}:", f"    {name} += 1", *self.block(helpers, depth)]
        return lines + (["else:", *self.block(helpers, depth)] if self.random.random() < 0.3 else [])

    def write_if(self, helpers: list[str], depth: int) -> list[str]:
        lines = [f"if {self.pick('n', f'await {self.call(helpers)}')}:", *self.block(helpers, depth)]
        for _ in range(self.random.randint(0, 2)):
            lines += [f"elif {self.pick('n > 1', f'await {self.call(helpers)}')}:", *self.block(helpers, depth)]
        return lines + (["else:", *self.block(helpers, depth)] if self.random.random() < 0.5 else [])

    def write_try(self, helpers: list[str], depth: int) -> list[str]:
        lines = ["try:", *self.block(helpers, depth), "    await ctx.run('bad', {})"]
        if self.random.random() < 0.4:
            lines += ["except ValueError:", *self.block(helpers, depth)]
        lines += ["except CapabilityError as e:", *self.block(helpers, depth)]
        return lines + (["else:", *self.block(helpers, depth)] if self.random.random() < 0.3 else [])

    def write_match(self, helpers: list[str], depth: int) -> list[str]:
        lines = [f"match {self.pick('n', f'await {self.call(helpers)}')}:"]
        lines += ["    case 1:", *indented(self.block(helpers, depth))]
        lines += ["    case {'n': k} if await ctx.now():", *indented(self.block(helpers, depth))]
        return [*lines, "    case _:", *indented(self.block(helpers, depth))]


def indented(lines: list[str]) -> list[str]:
    """Return the lines one level deeper."""
    return [f"    {line}" for line in lines]


scripts = st.integers(0, 2**32).map(lambda seed: Writer(seed).script())


# --- edits --------------------------------------------------------------------------------------------------------

PURE = (
    "z1 = [1, 2]",
    "z2: int = 3",
    "if LIMIT: pass",
    "if LIMIT: z3 = 1\nelif not LIMIT: z3 = 2\nelse: z3 = 3",
    "for z4 in [1, 2]:\n    z5 = str(z4)",
    "while False: pass",
    "try:\n    z6 = 1\nexcept KeyError as z7:\n    z6 = 2\nelse:\n    z6 = 3\nfinally:\n    z6 = 4",
    "match LIMIT:\n    case 1: pass\n    case _: z8 = 1",
    "def z9(a):\n    return sorted(a)",
    "async def z10(a):\n    return a",
    "z11 = lambda a: len(a)",
    "z12 = f'{LIMIT} {[len(str(z)) for z in [1]]}'",
    "assert LIMIT",
    "ctx.log('here')",
    "'text'",
)


def insert(tree: ast.Module, chance: random.Random) -> None:
    """Insert something without a call, at a random place of a random function."""
    functions = [node for node in ast.walk(tree) if isinstance(node, ast.AsyncFunctionDef)]
    nodes = [node for node in ast.walk(chance.choice(functions)) if isinstance(node, ast.stmt | ast.ExceptHandler)]
    chance.shuffle(nodes)
    arms: list[ast.stmt] = [ast.parse(chance.choice(PURE)).body[0]]
    for node in nodes:
        if isinstance(node, ast.If) and chance.random() < 0.5:
            node.orelse = [ast.If(test=ast.Constant(False), body=arms, orelse=node.orelse)]
            return
        if isinstance(node, ast.Try) and chance.random() < 0.5:
            node.handlers.insert(0, ast.ExceptHandler(ast.Name("KeyError", ast.Load()), None, arms))
            return
        if isinstance(node, ast.Match) and chance.random() < 0.5:
            node.cases.insert(0, ast.match_case(ast.MatchValue(ast.Constant(99)), None, arms))
            return
        if isinstance(node, ast.For | ast.While | ast.Try) and not node.orelse and chance.random() < 0.5:
            node.orelse = arms
            return
        body = getattr(node, chance.choice(["body", "orelse", "finalbody"]), None)
        if isinstance(body, list) and body and isinstance(body[0], ast.stmt):
            body.insert(chance.randint(0, len(body)), arms[0])
            return


def known(position: Position) -> tuple[object, ...]:
    """Return what an edit without a call may not change: all but the line and what is shown."""
    return (
        position.text,
        position.kind,
        position.capability,
        position.name,
        position.function,
        position.block,
        position.fingerprint,
        position.loops,
    )


def positions(source: str) -> list[tuple[object, ...]]:
    """Return the positions of a script."""
    program = compiled(source)
    compile(program.annotated, "<script>", "exec")
    return [known(position) for position in program.positions.values()]


# --- what holds ---------------------------------------------------------------------------------------------------

EXAMPLES = json.loads((Path(__file__).parent.parent / "golden" / "paths.json").read_text(encoding="utf-8"))


@pytest.mark.parametrize("name", EXAMPLES)
def test_identities_are_the_expected_ones(name: str) -> None:
    """Each way to reach a call gives the path that DESIGN section 3 describes."""
    _, guest = run_both("\n".join(EXAMPLES[name]["source"]) + "\n")
    assert [call[0] for call in guest.calls] == EXAMPLES[name]["identities"]


def explain(program: Program, text: str) -> None:
    """Assert that an identity's frames fit together: positions of the program, each in the function entered before."""
    found = identity.parse(text)
    assert str(found) == text
    function: str | None = "orchestrate"
    loops: tuple[str, ...] = ()
    for frame in (*found.path, found.site):
        position = program.positions[frame.position]
        assert function is None or position.function == function, text
        if position.kind == "loop":
            assert isinstance(frame.branch, int)
            loops = (*loops, position.text)
            function = position.function
            continue
        assert loops in (position.loops, ()), text
        loops = ()
        named = [name for name in program.functions if name.rsplit(".", 1)[-1] == position.name]
        function = named[0] if position.kind == "call" and named else None
    assert program.positions[found.site.position].kind == "site"


@given(scripts)
def test_no_two_calls_share_an_identity(source: str) -> None:
    """Annotated, a script does what it did, and each call has an identity of its own whose frames fit together."""
    program, guest = run_both(source)
    texts = [call[0] for call in guest.calls]
    assert len(set(texts)) == len(texts)
    for text in texts:
        explain(program, text)


@given(scripts, st.integers(0, 2**32), st.integers(1, 4))
def test_a_statement_without_a_call_moves_nothing(source: str, seed: int, count: int) -> None:
    """Whatever is inserted without a call (statement, arm, handler, case, function), every position stays."""
    tree = ast.parse(source)
    chance = random.Random(seed)
    for _ in range(count):
        insert(tree, chance)
    changed = ast.unparse(ast.fix_missing_locations(tree))
    assert positions(changed) == positions(source), changed


@given(scripts, st.sampled_from(["unparse", "tabs", "crlf", "spread"]))
def test_formatting_changes_nothing(source: str, how: str) -> None:
    """Written otherwise, a script has the same positions, fingerprints and functions."""
    match how:
        case "unparse":
            changed = ast.unparse(ast.parse(source))
        case "tabs":
            changed = "\n".join(
                "\t" * ((len(line) - len(line.lstrip())) // 4) + line.lstrip() for line in source.split("\n")
            )
        case "crlf":
            changed = source.replace("\n", "  # a comment\r\n# and one more\r\n\r\n")
        case _:
            changed = "\n".join(
                line if 'f"' in line else line.replace("await ctx.run(", "await (  ctx . run)\\\n  (  # (\n")
                for line in source.split("\n")
            )
    assert positions(changed) == positions(source), changed
    assert compiled(changed).functions == compiled(source).functions


def mutants(call: ast.expr) -> list[tuple[str, Callable[[], None], Callable[[], None]]]:
    """Return every change of one name or constant in an expression: what, how to make it, how to take it back."""
    found = []
    for node in ast.walk(call):
        for field, change in (("id", "other"), ("attr", "other"), ("arg", "other"), ("value", None)):
            old = getattr(node, field, None)
            if field == "value":
                if not isinstance(node, ast.Constant):
                    continue
                change = {1: True, 0: False}.get(old, f"{old}") if not isinstance(old, str) else old + "x"
            elif not isinstance(old, str):
                continue
            found.append(
                (
                    f"{ast.dump(node)} {field}",
                    lambda node=node, field=field, change=change: setattr(node, field, change),
                    lambda node=node, field=field, old=old: setattr(node, field, old),
                )
            )
    return found


@given(st.integers(0, 2**32))
def test_a_changed_name_or_constant_changes_the_fingerprint(seed: int) -> None:
    """No name and no constant in a call can be another without another fingerprint."""
    expression = ast.parse(Writer(seed).value(["h0"]), mode="eval").body
    before = Normal().text(expression)
    for what, make, take_back in mutants(expression):
        make()
        assert Normal().text(expression) != before, what
        take_back()
    assert Normal().text(expression) == before
