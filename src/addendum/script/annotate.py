"""Writes positions into a script: text edits, so that every line of the user's stays one line.

What is written is the contract with the guest (`addendum.sandbox.guest`), in short:

- each ctx call and each awaited helper gets the path it is made on and its position as leading arguments;
- an async function takes its path from `_wf_at` when it starts, a counted loop keeps its own in `_wf_qN`;
- an end of a slice that a bound rests on is handed to `_wf_end`, which refuses a negative one;
- `except` and `raise` convert between `CapabilityError` and what carries it.

The path is None where the function's own isn't the right one: a coroutine that is started later, by a fan-out,
a helper or another await, takes the path from `_wf_at` at that moment.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Iterable
from typing import Final

from addendum.script.edits import Edits, Text
from addendum.script.fstrings import Field, locate
from addendum.script.normal import body_of
from addendum.script.sites import Block, Body, Item, Loop, Place, Walk

_COMPOUND: Final = (
    *(ast.If, ast.For, ast.AsyncFor, ast.While, ast.Try, ast.TryStar, ast.Match, ast.With, ast.AsyncWith),
    *(ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef),
)
_BEFORE_PAREN: Final = re.compile(rb"(?:[^(#]|#[^\n]*\n)*\(")


def annotate(walk: Walk, text: Text, ends: Iterable[ast.expr] = ()) -> tuple[str, tuple[int, ...]]:
    """Return the annotated text and its line map. The bodies of `walk` are numbered already; `ends` are ends of slices
    that have to be checked, as bounds rest on them."""
    writer = _Writer(text)
    for end in ends:
        writer.wrapped(end, "_wf_end")
    for body in walk.bodies:
        writer.body(body)
    for handler in walk.handlers:
        writer.handler(handler)
    for node in walk.raises:
        writer.raised(node)
    return writer.edits.apply(writer.tail)


class _Writer:
    """Turns places, loops, handlers and raises into edits."""

    def __init__(self, text: Text) -> None:
        self.text = text
        self.edits = Edits(text)
        self.tail: list[str] = []
        self._hoisted: dict[str, str] = {}
        self._fstring: ast.JoinedStr | None = None
        self._showing: list[Field] = []

    def body(self, body: Body) -> None:
        """Annotate one function."""
        function = body.function
        if function is not None and function.is_async and (function.reaches or body.items):
            for statement in body_of(function.node)[:1]:
                self._first(statement, "_wf_p = _wf_at[0]")
        self._items(body.items, body.is_async)

    def _items(self, items: Iterable[Item], is_async: bool) -> None:
        for item in items:
            if isinstance(item, Block):
                if item.loop is not None and is_async:
                    self._loop(item.loop)
                for part in item.parts:
                    self._items(part.items, is_async)
            elif item.kind != "passed":
                self._place(item)

    # --- places -------------------------------------------------------------------------------------------------

    def _place(self, place: Place) -> None:
        node = place.node
        if place.fstring is not None:
            self._locate(place)
        quoted = place.fstring is not None
        leading = f"{self._path(place, quoted)}, {self._literal(place.position, quoted)}"
        if place.kind == "call":
            self.edits.insert(self.text.start(node), f"_wf_call({leading}, ")
            self.edits.insert(self.text.end(node), ")")
            return
        assert isinstance(node, ast.Call)
        opened = _BEFORE_PAREN.match(self.text.data, self.text.end(node.func))
        assert opened is not None
        at = opened.end()
        if not node.args and not node.keywords:
            self.edits.insert(at, leading)
            return
        only = node.args[0] if len(node.args) == 1 and not node.keywords else None
        if isinstance(only, ast.GeneratorExp) and self.text.start(only) == at - 1:
            # It has the call's own parentheses, and needs its own beside other arguments.
            self.edits.insert(at, f"{leading}, (")
            self.edits.insert(self.text.end(only) - 1, ")")
            return
        self.edits.insert(at, f"{leading}, ")

    def _path(self, place: Place, quoted: bool) -> str:
        """Return the expression of the path that a place is reached on."""
        if not place.awaited:
            return "None"
        loop = place.loop
        if loop is None or not place.tested:
            return _prefix(loop)
        outer = f"{_prefix(loop.outer)} + "
        if quoted:  # no quotes in an f-string: the same by a hoisted format
            return f"{outer}{self._literal(f'{loop.position}[%d] > ', quoted)} % (_wf_i{loop.number} + 1)"
        return f'{outer}f"{_escaped(loop.position)}[{{_wf_i{loop.number} + 1}}] > "'

    def _literal(self, text: str, quoted: bool) -> str:
        """Return an expression for a text; in an f-string a name, since a literal may not have its quotes."""
        if not quoted:
            return f'"{_escaped(text)}"'
        name = self._hoisted.get(text)
        if name is None:
            name = self._hoisted[text] = f"_wf_s{len(self._hoisted)}"
            self.tail.append(f'{name} = "{_escaped(text)}"')
        return name

    def _locate(self, place: Place) -> None:
        """Prepare the f-string around a place, once: fields that show their own text show the user's."""
        if place.fstring is not self._fstring:
            assert place.fstring is not None
            self._fstring = place.fstring
            self._showing = [field for field in locate(place.fstring, self.text) if field.shows]
        start, end = self.text.start(place.node), self.text.end(place.node)
        data = self.text.data
        for field in list(self._showing):
            if field.brace < start and end <= field.end:
                shown = data[field.brace + 1 : field.follows].decode("utf-8")
                self.edits.insert(field.brace, f"{{{self._literal(shown, True)}}}")
                self.edits.insert(field.end, "", instead_of=1)
                if data[field.follows : field.follows + 1] == b"}":
                    self.edits.insert(field.follows, "!r")
                self._showing.remove(field)

    # --- statements ---------------------------------------------------------------------------------------------

    def _loop(self, loop: Loop) -> None:
        number = loop.number
        self._before(loop.node, f"_wf_i{number} = -1")
        path = f'{_prefix(loop.outer)} + f"{_escaped(loop.position)}[{{_wf_i{number}}}] > "'
        self._first(loop.node.body[0], f"_wf_i{number} += 1; _wf_q{number} = {path}")

    def _first(self, statement: ast.stmt, added: str) -> None:
        """Write statements before the first one of a block, which may stand behind the block's colon."""
        if isinstance(statement, _COMPOUND):
            self._before(statement, added)
        else:
            self.edits.insert(self.text.start(statement), f"{added}; ")

    def _before(self, statement: ast.stmt, added: str) -> None:
        """Write a line before a compound statement, which always begins a line."""
        text = self.text
        line = min([node.lineno for node in getattr(statement, "decorator_list", ())], default=statement.lineno)
        start = text.starts[line - 1]
        lead = text.data[start : start + statement.col_offset]
        # A line that holds nothing but a backslash belongs to the statement, and has its part in the indentation.
        while line > 1 and text.data[text.starts[line - 2] : text.starts[line - 1]].strip() == b"\\":
            line -= 1
            lead = text.data[text.starts[line - 1] : text.starts[line]] + lead
        self.edits.insert_line(line, lead, added)

    def handler(self, node: ast.ExceptHandler) -> None:
        """Catch what carries a `CapabilityError`, and give the handler the error that it names."""
        if node.type is not None:
            for name in ast.walk(node.type):
                if isinstance(name, ast.Name) and name.id == "CapabilityError":
                    self.edits.insert(self.text.start(name), "_wf_err", instead_of=len(name.id))
        if node.name is not None:
            self._first(node.body[0], f"{node.name} = _wf_cap({node.name})")

    def raised(self, node: ast.Raise) -> None:
        """Raise what carries a `CapabilityError`."""
        for raised in (node.exc, node.cause):
            if raised is not None and not (isinstance(raised, ast.Constant) and raised.value is None):
                self.wrapped(raised, "_wf_exc")

    def wrapped(self, node: ast.expr, function: str) -> None:
        """Hand an expression to a function of the guest."""
        self.edits.insert(self.text.start(node), f"{function}(")
        self.edits.insert(self.text.end(node), ")")


def _prefix(loop: Loop | None) -> str:
    return "_wf_p" if loop is None else f"_wf_q{loop.number}"


def _escaped(text: str) -> str:
    """Return a text as it stands between double quotes, in ASCII."""
    return text.encode("unicode_escape").decode("ascii").replace('"', '\\"')
