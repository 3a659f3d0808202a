"""What of a script needs a position: one walk that finds it and writes its normal text on the way.

The result is a small tree per function: the *places* (calls and awaits) and the *blocks* that contain one, in
source order. Everything else of the syntax tree is gone, so numbering it costs nothing (`blocks.py`).
"""

from __future__ import annotations

import ast
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Final, Literal, TypeAlias

from addendum.script.normal import Normal
from addendum.script.scope import COUNTED, READS, Function, FunctionNode, Scope

BlockKind = Literal["for", "while", "if", "try", "match"]
PlaceKind = Literal["site", "call", "fanout", "passed"]
"""`passed` is a call that counts but has no position: a coroutine that is handed on, not awaited here."""

NO_NAME: Final = "?"


@dataclass(slots=True, eq=False)
class Loop:
    """A counted loop; `number` is its number in the function, in source order. `tested`: its test calls."""

    node: ast.For | ast.AsyncFor | ast.While
    number: int
    outer: Loop | None
    position: str
    tested: bool

    def chain(self) -> tuple[str, ...]:
        """Return the positions of this loop and those around it, outermost first."""
        loop: Loop | None = self
        found: list[str] = []
        while loop is not None:
            found.append(loop.position)
            loop = loop.outer
        return tuple(reversed(found))


@dataclass(slots=True, eq=False)
class Place:
    """A call, or an await of something that is no call.

    `node` is the expression without its `await`; `name` the callee, method or capability. `awaited`: directly,
    so that the function's own path is the right one. `fstring` is the outermost f-string around it. `position`,
    `block`, `loop` and `tested` (it stands in the test of `loop`) are set when the function is numbered.
    """

    kind: PlaceKind
    node: ast.expr
    name: str
    awaited: bool
    fstring: ast.JoinedStr | None
    text: str = ""
    position: str = ""
    block: str = ""
    loop: Loop | None = None
    tested: bool = False

    @property
    def label(self) -> str:
        """The last part of the position, without its ordinal."""
        if self.kind == "call":
            return "await" if not isinstance(self.node, ast.Call) else f"{self.name}()"
        return self.name


@dataclass(slots=True, eq=False)
class Part:
    """One part of a compound statement that counts: its suffix (`.else`, `.except.0`, "" for the body)."""

    suffix: str
    items: list[Item]


@dataclass(slots=True, eq=False)
class Block:
    """A compound statement with a counted part. `position` is set when a loop is numbered, with `loop`."""

    kind: BlockKind
    node: ast.stmt
    parts: list[Part] = field(default_factory=list)
    loop: Loop | None = None


Item: TypeAlias = Place | Block


@dataclass(slots=True, eq=False)
class Body:
    """One function of the script, or the module (`function` None): its items and the normal text but its name."""

    function: Function | None
    items: list[Item] = field(default_factory=list)
    text: str = ""
    loops: list[Loop] = field(default_factory=list)

    @property
    def qualname(self) -> str:
        """The function's qualified name, as positions have it."""
        return "<module>" if self.function is None else self.function.qualname

    @property
    def is_async(self) -> bool:
        """Whether the body can await, and so has a path of its own."""
        return self.function is not None and self.function.is_async


class Walk(Normal):
    """Passes every node of a script once. `bodies`, `handlers` and `raises` are complete after `run`."""

    def __init__(self, scope: Scope) -> None:
        super().__init__()
        self.scope = scope
        self.bodies: list[Body] = []
        self.handlers: list[ast.ExceptHandler] = []
        self.raises: list[ast.Raise] = []
        self._items: list[Item] = []
        self._fstring: ast.JoinedStr | None = None
        self.table[ast.Await] = self.await_
        self.table[ast.Raise] = self.raise_

    def run(self) -> Walk:
        """Walk the whole tree."""
        module = Body(None, self._items)
        self.bodies.append(module)
        self.block(self.scope.tree.body)
        return self

    # --- places -------------------------------------------------------------------------------------------------

    def await_(self, node: ast.Await) -> str:
        """Note an await; of a call it is the call that has the position."""
        value = node.value
        if isinstance(value, ast.Call):
            text = self._called(value, awaited=True)
        else:
            place = Place("call", value, NO_NAME, True, self._fstring)
            self._items.append(place)
            text = place.text = self.text(value)
        self.effects += 1
        return f"(Await {text})"

    def call(self, node: ast.Call) -> str:
        """Note a call that isn't awaited where it stands."""
        return self._called(node, awaited=False)

    def _called(self, node: ast.Call, *, awaited: bool) -> str:
        place = self._place(node, awaited)
        if place is None:
            return Normal.call(self, node)
        self._items.append(place)
        place.text = Normal.call(self, node)
        return place.text

    def _place(self, node: ast.Call, awaited: bool) -> Place | None:
        func = node.func
        if isinstance(func, ast.Attribute):
            made = self.scope.ctx_call(node)
            if made is not None:
                if made.method not in COUNTED:
                    return None
                if made.kind == "fanout":
                    return Place("fanout", node, made.method, awaited, self._fstring)
                name = f"ctx.{made.method}" if made.method in READS else made.capability or NO_NAME
                return Place("site", node, name, awaited, self._fstring)
            return Place("call", node, NO_NAME, True, self._fstring) if awaited else None
        name = func.id if isinstance(func, ast.Name) else NO_NAME
        if awaited:
            callee = self.scope.callee(node)
            pure = isinstance(callee, Function) and not callee.reaches
            return None if pure else Place("call", node, name, True, self._fstring)
        return Place("passed", node, name, False, self._fstring) if self.scope.counted(node) else None

    def joined(self, node: ast.JoinedStr) -> str:
        """Remember the outermost f-string: what stands in it is located and written in another way."""
        if self._fstring is not None:
            return Normal.joined(self, node)
        self._fstring = node
        text = Normal.joined(self, node)
        self._fstring = None
        return text

    # --- functions ----------------------------------------------------------------------------------------------

    def function(self, node: FunctionNode) -> str:
        """Give a function its own items; decorators and defaults belong to the function around it."""
        head = self.head(node)
        body = Body(self.scope.function_of(node))
        self.bodies.append(body)
        outer, self._items = self._items, body.items
        body.text = f"({head} {self.body(node)})"
        self._items = outer
        return f"(def {node.name} {body.text})"

    # --- blocks -------------------------------------------------------------------------------------------------

    def _inner(self, statements: Sequence[ast.stmt]) -> tuple[str, list[Item]]:
        """Return the normal text of statements, and their items apart from those around them."""
        outer = self._items
        items: list[Item] = []
        self._items = items
        text = self.block(statements)
        self._items = outer
        return text, items

    def _keep(self, kind: BlockKind, node: ast.stmt, *parts: tuple[str, list[Item]]) -> None:
        """Note a compound statement if one of its parts counts."""
        counted = [Part(suffix, items) for suffix, items in parts if items]
        if counted:
            self._items.append(Block(kind, node, counted))

    def for_(self, node: ast.For | ast.AsyncFor) -> str:
        """Target and iterable belong to the block around the loop."""
        target, iterable = self.text(node.target), self.text(node.iter)
        body, items = self._inner(node.body)
        orelse, others = self._inner(node.orelse)
        self._keep("for", node, ("", items), (".else", others))
        return f"({node.__class__.__name__} {target} {iterable} {body} {orelse})"

    def while_(self, node: ast.While) -> str:
        """The test is a block of its own: it runs once more than the body."""
        outer = self._items
        tested: list[Item] = []
        self._items = tested
        test = self.text(node.test)
        self._items = outer
        body, items = self._inner(node.body)
        orelse, others = self._inner(node.orelse)
        self._keep("while", node, (".test", tested), ("", items), (".else", others))
        return f"(while {test} {body} {orelse})"

    def if_(self, node: ast.If) -> str:
        """Tests belong to the block around the chain, arms are numbered when they count."""
        test = self.text(node.test)
        body, items = self._inner(node.body)
        arms = [items] if items else []
        orelse, last = self._chain(node.orelse, arms) if node.orelse else ("[]", [])
        parts = [(f".{number}", arm) for number, arm in enumerate(arms)]
        self._keep("if", node, *parts, (".else", last))
        return f"(if {test} {body} {orelse})"

    def _chain(self, statements: Sequence[ast.stmt], arms: list[list[Item]]) -> tuple[str, list[Item]]:
        """Continue an if/elif chain: an `else` whose only counted statement is an `if` is no level of its own.

        Appends the chain's further arms to `arms`; returns the normal text and the items of the last `else`.
        """
        apart = [(statement, *self._inner([statement])) for statement in statements]
        text = f"[{' '.join([text[1:-1] for _, text, _ in apart])}]"
        counted = [(statement, items) for statement, _, items in apart if items]
        if len(counted) != 1 or not isinstance(counted[0][0], ast.If):
            return text, [item for _, items in counted for item in items]
        last: list[Item] = []
        for item in counted[0][1]:
            if isinstance(item, Place):
                self._items.append(item)  # called in the test
                continue
            for part in item.parts:
                if part.suffix == ".else":
                    last = part.items
                else:
                    arms.append(part.items)
        return text, last

    def try_(self, node: ast.Try) -> str:
        """Handlers are numbered when they count."""
        body, items = self._inner(node.body)
        caught: list[list[Item]] = []
        handlers = " ".join([self._handler(handler, caught) for handler in node.handlers])
        orelse, others = self._inner(node.orelse)
        final, last = self._inner(node.finalbody)
        parts = [(f".except.{number}", found) for number, found in enumerate(caught)]
        self._keep("try", node, ("", items), *parts, (".else", others), (".finally", last))
        return f"({node.__class__.__name__} {body} [{handlers}] {orelse} {final})"

    def _handler(self, node: ast.ExceptHandler, caught: list[list[Item]]) -> str:
        self.handlers.append(node)
        outer = self._items
        items: list[Item] = []
        self._items = items
        text = Normal.handler(self, node)
        self._items = outer
        if items:
            caught.append(items)
        return text

    def match(self, node: ast.Match) -> str:
        """The subject belongs to the block around it, patterns and guards to their case."""
        subject = self.text(node.subject)
        outer, found = self._items, list[list[Item]]()
        texts = []
        for case in node.cases:
            items: list[Item] = []
            self._items = items
            texts.append(self.case(case))
            if items:
                found.append(items)
        self._items = outer
        self._keep("match", node, *[(f".case.{number}", items) for number, items in enumerate(found)])
        return f"(match {subject} {' '.join(texts)})"

    def raise_(self, node: ast.Raise) -> str:
        """Note a raise: the guest converts what it raises."""
        self.raises.append(node)
        return self.plain(node)
