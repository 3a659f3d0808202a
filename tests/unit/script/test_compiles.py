"""What the compiler refuses is refused, though it is only asked about trees that aren't made of plain forms."""

from __future__ import annotations

import ast
import warnings
from pathlib import Path
from random import Random

import pytest

from addendum.script.checker import check
from addendum.script.compiles import certain
from addendum.script.scope import analyse
from addendum.script.source import Source, read

CORPUS = sorted((Path(__file__).parents[2] / "corpus" / "scripts").glob("*.py"))

STATEMENTS = """\
return 1

await ctx.run('a.b', {})

break

continue

yield 1

(yield)

nonlocal q

global args

nonlocal args

def f(a, a): pass

lambda a, a: 1

lambda *a, a: 1

lambda: await x

lambda: (yield)

*a, *b = c

x = *a

for x in *a, b: pass

print(*a, *b)

f(a=1, a=2)

f(**a, **b)

a, *b = c

[i := 0 for i in x]

[j for i in (j := 1, 2)]

[[await y for y in x] for z in x]

print(await y for y in z)

[await y for y in z]

{await y: 1 for y in z}

[y async for y in z]

def g(): return [await q for q in z]

def g(): await x

async def g(): await x

async def g(): return [await q for q in z]

def g(): return

for i in x:
    def h(): break

for i in x: pass
else: break

while 1:
    if x: break

while 1: continue

for i in x:
    for j in y: pass
    else: break

for i in x:
    lambda: 1
    continue

async with x: pass

try: pass
except: pass
except E: pass

try: pass
except E: pass
except: pass

try: pass
finally: pass

match x:
    case _: pass
    case 1: pass

match x:
    case (a, a): pass

match x:
    case a | b: pass

match x:
    case {1: a, 1: b}: pass

match x:
    case C(a=1, a=2): pass

match x:
    case [*a, *b]: pass

__debug__ = 1

x.__debug__ = 3

f(__debug__=1)

def __debug__(): pass

x.__dｅbug__ = 3

f(__dｅbug__=1)

def f(__debug__): pass

for __debug__ in x: pass

import json as __debug__

__dｅbug__ += 1

del __debug__

from __future__ import annotations

from __future__ import braces

from m import *

import json

class A:
    return 1

class A: pass

a: int = 1
global a

x: (yield) = 1

x: (await y) = 1

x: [int] = 2

def f(a: (yield)): pass

def f(a: (await y)): pass

def f(a: (b := 1)): pass

def f() -> (yield): pass

def f(a: list[int] | None = None) -> 'str': pass

x = f'{await y}'

x = f'{(yield)}'

del x

(x): int = 1

async def q():
    yield 1
    return 2

1()

1 is 1

assert (1, 2)

x[*a]

x = [*a, *b]

x = {**a, 'b': 1}

for a.b in x: pass

f(x for x in y)

[x for x in y if await z]

with a as b: pass

print(x, *y, z=1)
"""

LINES = [
    *STATEMENTS.strip().split("\n\n"),
    "\n".join("    " * depth + "for i in x:" for depth in range(21)) + f"\n{'    ' * 21}pass",
    "\n".join("    " * depth + ("try:" if depth % 2 else "while x:") for depth in range(7)) + f"\n{'    ' * 7}pass",
    "x = " + "1 + " * 90 + "1",
]
"""Statements of all kinds, right and wrong ones, each put at several places."""


def _texts() -> list[str]:
    found = []
    for line in LINES:
        for before, depth in (
            ("", 0),
            ("async def orchestrate(ctx, args):\n", 1),
            ("def helper(x):\n", 1),
            ("async def orchestrate(ctx, args):\n    for each in args:\n", 2),
            ("async def orchestrate(ctx, args):\n    def inner():\n", 2),
        ):
            found.append(before + "\n".join("    " * depth + part for part in line.split("\n")) + "\n")
    random = Random(7)
    for path in CORPUS:
        lines = path.read_text(encoding="utf-8").split("\n")
        for _ in range(12):
            spoilt = list(lines)
            at = random.randrange(len(spoilt))
            indent = " " * (len(spoilt[at]) - len(spoilt[at].lstrip()))
            spoilt[at:at] = [indent + part for part in random.choice(LINES).split("\n")]
            if random.random() < 0.5:
                at = random.randrange(len(spoilt))
                spoilt[at] = random.choice([spoilt[at].replace("async ", ""), spoilt[at][4:], "    " + spoilt[at]])
            found.append("\n".join(spoilt))
    return found


def _compiles(tree: ast.Module) -> bool:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        try:
            compile(tree, "<script>", "exec", dont_inherit=True)
        except SyntaxError:
            return False
    return True


def test_what_is_certain_compiles_and_what_does_not_compile_is_refused() -> None:
    """On statements of all kinds in all places, and on scripts with such a statement in them."""
    certainly = refused = 0
    for text in _texts():
        source = read(text)
        if not isinstance(source, Source):
            continue
        known, compiles = certain(analyse(source.tree), text), _compiles(source.tree)
        assert compiles or not known, text
        certainly += known
        if not compiles:
            refused += 1
            assert [violation.rule for violation in check(text).violations] == ["R00"], text
    assert certainly > 100
    assert refused > 100


@pytest.mark.parametrize("path", [path for path in CORPUS if path.stem != "m16"], ids=lambda path: str(path.stem))
def test_scripts_that_models_write_are_made_of_plain_forms(path: Path) -> None:
    """So the compiler isn't asked about them, but for one that defines a class."""
    text = path.read_text(encoding="utf-8")
    assert certain(analyse(ast.parse(text)), text)
