"""Known escapes from restricted Python: none is accepted, whichever way it is written.

One file per kind; its first line names the rule that has to refuse it, and why. What is too large for a file is made
here. The kinds come from the change logs of RestrictedPython, published escapes of workflow engines, and CPython's
tracker.
"""

from __future__ import annotations

from pathlib import Path

import pytest

from addendum.script.checker import check

HERE = Path(__file__).parent
SCRIPTS = sorted(HERE.glob("*.txt"))


def _body(text: str) -> str:
    return f"async def orchestrate(ctx, args):\n    {text}\n"


def _pad(text: str) -> str:
    return "async def orchestrate(ctx, args):\n" + text + "    return 1\n"


LARGE = {
    "brackets": _body("return " + "(" * 5000 + ")" * 5000),
    "open brackets": _body("return " + "(" * 30000),
    "mixed brackets": _body("return " + "[({" * 10000),
    "brackets over lines": _body("return " + "(\n" * 1500 + ")\n" * 400),
    "nots": _body("return " + "not " * 2000 + "1"),
    "minus signs": _body("return " + "-" * 8000 + "1"),
    "lambdas": _body("return " + "lambda: " * 1000 + "1"),
    "conditional expressions": _body("return " + "1 if args else " * 500 + "0"),
    "attributes": _body("return args" + ".a" * 4000),
    "calls": _body("return args" + "()" * 4000),
    "subscripts": _body("return args" + "[0]" * 2500),
    "a sum": _body("return " + "1+" * 4000 + "1"),
    "a sum over lines": _body("return (\n" + "    1 +\n" * 1900 + "    1)"),
    "powers": _body("return " + "9**" * 1000 + "9"),
    "nested lists": _body("return " + "[" * 199 + "]" * 199),
    "nested dicts": _body("return " + "{1:" * 150 + "1" + "}" * 150),
    "nested f-strings": _body("return " + "f'{" * 50 + "1" + "}'" * 50),
    "blocks": "async def orchestrate(ctx, args):\n"
    + "".join(" " * (n + 1) + "if args:\n" for n in range(120))
    + " " * 121
    + "return 1\n",
    "elifs": _pad(
        "    if args:\n        pass\n" + "".join(f"    elif args == {n}:\n        pass\n" for n in range(900))
    ),
    "a long line": _body("return '" + "a" * 20000 + "'"),
    "too many bytes": _body("return 1") + "# " + "x" * 70000,
    "too many lines": _body("return 1") + "\n" * 3000,
    "parameters": "def f(" + ", ".join(f"a{n}=1" for n in range(900)) + "):\n    return 1\n",
    "a surrogate": _body("return '\ud800'"),
    "not Python": "\x7fELF" + "\x00" * 100,
    "decorators": "@eval\n" * 1500 + "def f():\n    return 1\n",
    "a backslash at the end": _body("return 1 \\"),
    "escapes": _body("return '" + "\\N{DIGIT ONE}" * 600 + "\\N{NO SUCH NAME}'"),
    "doubling calls": "".join(
        f"async def f{n}(ctx):\n    await f{n + 1}(ctx)\n    await f{n + 1}(ctx)\n\n\n" for n in range(24)
    )
    + 'async def f24(ctx):\n    await ctx.run("text.generate", {"prompt": "x"})\n\n\n'
    + _body("await f0(ctx)"),
    "doubling recursion": "async def f(ctx, n):\n    if n <= 0:\n        return await ctx.run('a.b', {})\n"
    "    await f(ctx, n - 1)\n    await f(ctx, n - 1)\n\n\n" + _body("await f(ctx, 22)"),
    "nested loops": "async def orchestrate(ctx, args):\n"
    + "".join("    " * (n + 1) + f"while args[{n}]:\n" for n in range(14))
    + "    " * 15
    + "await ctx.run('a.b', {})\n",
    "closures that make closures": "def f(g):\n    async def h(ctx):\n        await g(ctx)\n        await g(ctx)\n"
    "    return h\n\n\n"
    "async def orchestrate(ctx, args):\n    async def g(ctx):\n        await ctx.run('a.b', {})\n"
    + "    g = f(g)\n" * 60
    + "    await g(ctx)\n",
}


@pytest.mark.parametrize("path", SCRIPTS, ids=lambda path: path.stem)
def test_an_escape_is_refused(path: Path) -> None:
    """The rule that the first line names refuses the script."""
    text = path.read_bytes().decode("utf-8")
    rule = text[2:5]
    report = check(text)
    assert not report.ok
    assert rule in {violation.rule for violation in report.errors}, [str(v) for v in report.violations]


@pytest.mark.parametrize("kind", list(LARGE))
def test_a_bomb_is_refused(kind: str) -> None:
    """A text made to cost the checker time, stack or memory is answered, and not with a yes."""
    assert not check(LARGE[kind]).ok


def test_nothing_that_is_no_script_raises() -> None:
    """Pieces of every escape, cut anywhere, are answered with a report."""
    for path in SCRIPTS:
        text = path.read_bytes().decode("utf-8")
        for cut in range(0, len(text), 37):
            assert check(text[:cut]).revision
            assert check(text[cut:]).revision
