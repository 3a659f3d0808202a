"""The normal text: equal for what can't change a payload, different for what can."""

from __future__ import annotations

import ast

import pytest

from addendum.errors import UsageError
from addendum.script.normal import Normal, constant, without


def normal(expression: str) -> str:
    return Normal().text(ast.parse(expression, mode="eval").body)


def normal_body(statements: str) -> str:
    return Normal().block(ast.parse(statements).body)


@pytest.mark.parametrize(
    "same",
    [
        ("f( 1,2 )", "f(1, 2)", "f(\n  1,  # one\n  2,\n)", "(f)(1, (2))"),
        ("'a'", '"a"', "u'a'", "r'a'", "'''a'''", r"'\x61'", "('' 'a')", "f'a'", "'' f'a' ''"),
        ("16", "0x10", "0b10000", "1_6", "0o20"),
        ("1.5", "1.50", "15e-1", "1_5e-1"),
        ("b'a'", 'b"a"', "rb'a'", r"b'\x61'"),
        ("f'a{x}b'", "'a' f'{x}' 'b'", "f'a' f'{x}b'", "f'''a{ x }b'''", "f'a{x:}b'"),
        ("f'{{{x}}}'", "'{' f'{x}' '}'"),
        ("f(a=1, b=x)", "f(b=x, a=1)"),
        ("{'a': 1, 'b': [x]}", "{'b': [x], 'a': 1}"),
        ("f({'a': {'c': 1, 'd': 2}, 'b': 2})", "f({'b': 2, 'a': {'d': 2, 'c': 1}})"),
        ("a and b and c", "(a and b) and c", "a and (b and c)"),
        ("lambda x: x", "lambda x : (x)"),
        ("x[1:2]", "x[1 : 2 : ]"),
        ("(1,)", "1,"),
        ("ctx . run ('a')", "ctx.run('a')", "(ctx.run)('a')"),
    ],
)
def test_what_cannot_change_a_payload_is_the_same(same: tuple[str, ...]) -> None:
    """Formatting, comments, quotes, parentheses, spelling of numbers, pieces of strings, order of pure keys."""
    assert len({normal(text) for text in same}) == 1


@pytest.mark.parametrize(
    "different",
    [
        ("1", "True", "1.0", "'1'", "b'1'", "1j", "-1"),
        ("0", "False", "None", "''", "0.0", "-0.0", "..."),
        ("f(a=g(), b=h())", "f(b=h(), a=g())"),
        ("f(a=(x := 1), b=x)", "f(b=x, a=(x := 1))"),
        ("f(a=1, **k, b=2)", "f(b=2, **k, a=1)"),
        ("{'a': f(), 'b': 1}", "{'b': 1, 'a': f()}"),
        ("{'a': 1, **x}", "{**x, 'a': 1}"),
        ("{1: 'a', True: 'b'}", "{True: 'b', 1: 'a'}"),
        ("{x: 1, 'a': 2}", "{'a': 2, x: 1}"),
        ("[1, 2]", "[2, 1]", "(1, 2)", "{1, 2}"),
        ("f'{x}'", "f'{x!r}'", "f'{x!s}'", "f'{x:>3}'", "f'{x:>{n}}'", "f'{x=}'", "f'{x = }'", "x", "'{x}'"),
        ("a + b", "a - b", "b + a", "a + b + c"),
        ("a + (b + c)", "(a + b) + c"),
        ("a < b", "a <= b", "a < b < c", "(a < b) < c"),
        ("f(x)", "g(x)", "f(y)", "f(*x)", "f(**x)", "f(x=x)", "f", "f()", "f([x])"),
        ("x.a", "x.b", "x['a']", "y.a"),
        ("a if b else c", "c if b else a", "a or b"),
        ("[x for x in y]", "{x for x in y}", "(x for x in y)", "[x for x in y if x]", "[x for x in z]"),
        ("lambda x: x", "lambda y: y", "lambda x=1: x", "lambda *x: x", "lambda **x: x", "lambda x, /: x"),
        ("'e\\u0301'", "'\\xe9'"),
        ("'a'", "'\\ud800'", "'\\\\ud800'"),
    ],
)
def test_what_can_change_a_payload_differs(different: tuple[str, ...]) -> None:
    """Types, names, operators, order of items, conversions and formats."""
    assert len({normal(text) for text in different}) == len(different)


def test_statements_differ_where_they_mean_something_else() -> None:
    """No two of these bodies are written the same."""
    bodies = [
        "x = 1",
        "x = y = 1",
        "x += 1",
        "x: int",
        "return_ = 1",
        "pass",
        "if a: b\nelse: c",
        "if a: c\nelse: b",
        "if a:\n  if b: c",
        "for x in y: z",
        "for x in y: pass\nelse: z",
        "while x: y",
        "try: x\nexcept KeyError: y",
        "try: x\nexcept KeyError as e: y",
        "try: x\nfinally: y",
        "match x:\n  case 1: y",
        "match x:\n  case 1 if z: y",
        "match x:\n  case [1, *_]: y",
        "match x:\n  case {'a': 1, **r}: y",
        "match x:\n  case {'a': 1}: y",
        "match x:\n  case None: y",
        "match x:\n  case None | 1: y",
        "match x:\n  case z: y",
        "match x:\n  case int(): y",
        "raise x",
        "raise x from None",
        "raise x from y",
        "assert x",
        "assert x, y",
        "nonlocal_ = x",
        "def f(): x",
        "async def f(): x",
        "def f(a): x",
        "def f(a=1): x",
        "def g(): x",
        "import json",
        "import math",
        "from math import pi",
        "from math import pi as x",
        "global x",
        "del x",
        "with x: y",
    ]
    assert len({normal_body(body) for body in bodies}) == len(bodies)


def test_annotations_and_docstrings_change_nothing() -> None:
    """What only a reader sees is not written."""
    assert normal_body("def f(a: int, *b: str) -> int:\n  'doc'\n  x: int = 1\n") == normal_body(
        "def f(a, *b):\n  x = 1"
    )


def test_a_name_is_abstracted_where_it_is_used_and_nowhere_else() -> None:
    """Constants, attributes and keywords of the same spelling stay."""
    text = normal("f(f, f.f, f=1, g='f')")
    assert without(text, "f") == without(normal("h(h, h.f, f=1, g='f')"), "h")
    assert without(text, "f") != without(normal("h(h, h.h, f=1, g='f')"), "h")
    assert without(normal(r"f('\x01f\x02')"), "f") != without(normal(r"g('\x01g\x02')"), "g")


def test_long_integers_have_a_text() -> None:
    """Python refuses to write very long integers in decimal digits."""
    assert constant(1 << 40_000) != constant(1 << 40_001)


def test_what_is_not_in_the_language_is_refused() -> None:
    """A node type that no version knows yet is an error, not a guess."""

    class Future(ast.expr):
        pass

    with pytest.raises(UsageError, match="Future"):
        Normal().text(Future())
