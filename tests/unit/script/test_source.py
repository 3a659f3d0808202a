"""Source text: what parses, what is refused before the parser sees it, and that nothing raises."""

from __future__ import annotations

import ast
import hashlib

import pytest

from addendum.script.report import Violation
from addendum.script.source import Limits, Source, parse, revision_of

GOOD = "async def orchestrate(ctx, args):\n    return {'é': [1, (2, 3)]}\n"


def _refused(text: str, limits: Limits | None = None) -> Violation:
    found = parse(text) if limits is None else parse(text, limits)
    assert isinstance(found, Violation), found
    assert found.rule == "R00"
    return found


def test_a_source_has_its_text_tree_lines_and_revision() -> None:
    """The revision is the SHA-256 of the UTF-8 bytes."""
    source = parse(GOOD)
    assert isinstance(source, Source)
    assert source.text == GOOD
    assert isinstance(source.tree, ast.Module)
    assert source.lines[0] == "async def orchestrate(ctx, args):"
    assert source.revision == hashlib.sha256(GOOD.encode()).hexdigest() == revision_of(GOOD)


def test_a_syntax_error_has_its_place() -> None:
    """Line and column count from one."""
    found = _refused("x = 1\ny = (2 +\n")
    assert found.line >= 2
    assert found.column >= 1
    assert "doesn't parse" in found.message


@pytest.mark.parametrize(
    "text",
    [
        "return 1\n",
        "def f():\n    nonlocal x\n",
        "def f(a, a):\n    pass\n",
        "for x in y:\n    await z\n",
        "break\n",
        "f(a=1, a=2)\n",
        "def f():\n    yield\n    return await g()\n",
        "x: int = \n",
        "'''",
        "if 1:\n",
        "\tx\n  y\n",
        "x = 0777\n",
        "a b\n",
        "print 'x'\n",
        "f'{x!}'\n",
        "match = 1\nmatch x:\n",
    ],
)
def test_what_the_compiler_refuses_is_refused(text: str) -> None:
    """Also what only shows after parsing, such as a `return` outside of a function."""
    _refused(text)


@pytest.mark.parametrize(
    ("text", "word"),
    [
        ("x = 1\x00", "control"),
        ("\ufeffx = 1", "control"),
        ("x = 'a\u202eb'", "control"),
        ("x = '\ud800'", "surrogate"),
        ("#" * 70_000, "bytes"),
        ("\n" * 2_001, "lines"),
        ("x = '" + "a" * 9_000 + "'", "characters"),
        ("x = " + "(" * 61 + ")" * 61, "nested"),
        ("x = " + "[{(" * 30, "nested"),
        ("if x:\n" + " " * 120 + "y\n", "indented"),
    ],
)
def test_a_limit_is_checked_before_the_parser(text: str, word: str) -> None:
    """Size, lines, characters, brackets and indentation."""
    assert word in _refused(text).message


@pytest.mark.parametrize(
    "text",
    [
        'x = "((((((((((" * 9 + "]]]]"\n' * 40,
        "# (((((((((( [[[[[[[[[[[[ {{{{{{{{{{\n" * 20 + "x = 1\n",
        "x = '''" + "((((\n[[[[" * 20 + "'''\n",
        "x = [" + "(1),\n" * 300 + "]\n",
        "x = 'it\\'s ('\ny = \"a\\\"(\"\n" * 40,
        "x = f'{y[0]}({z})' + f\"{'('}\"\n" * 40,
        'x = "don\'t ("\n' * 70,
    ],
)
def test_brackets_in_texts_and_comments_dont_nest(text: str) -> None:
    """Nor do brackets that stand side by side."""
    assert isinstance(parse(text), Source)


def test_limits_are_settings() -> None:
    """A caller may ask for less."""
    assert "bytes" in _refused(GOOD, Limits(max_bytes=10)).message
    assert "nested" in _refused(GOOD, Limits(max_brackets=1)).message


def test_line_ends_of_other_systems_are_fine() -> None:
    """A carriage return before the line feed is no control character."""
    assert isinstance(parse(GOOD.replace("\n", "\r\n")), Source)
