"""A script as the rest of the project sees it: its positions, its functions and its annotated text."""

from __future__ import annotations

import ast
import hashlib
import warnings
from collections.abc import Mapping
from dataclasses import dataclass
from functools import lru_cache
from typing import Final, Literal

from addendum.errors import UsageError
from addendum.script.annotate import annotate
from addendum.script.blocks import number
from addendum.script.bounds import Bounds
from addendum.script.bounds import analyse as bound
from addendum.script.edits import Text
from addendum.script.fanouts import Branches
from addendum.script.normal import digest, without
from addendum.script.scope import COMPREHENSIONS, Scope, analyse
from addendum.script.sites import Block, Body, Item, Loop, Place, Walk

Kind = Literal["site", "call", "loop", "fanout"]

EXCERPT: Final = 120
"""How much of a call's source a position keeps, in characters."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Position:
    """A place in a source that identities rest on (DESIGN section 3).

    `text` is its text form and `block` that without the last part. `capability` is set for sites: a catalog
    name, or `ctx.now`, `ctx.random`, `ctx.uuid`, `ctx.sleep`; `name` is the capability, callee or method. The
    `fingerprint` is a SHA-256 in hex, None for loops. Line and column count from 1, the column in characters;
    `expression` is the call's source on one line, cut. `bound` is how many numbers a frame of it can have: a loop's
    iterations (one more when its test calls), a fan-out's width, or how often a call can run per entry of its
    function or per iteration of its loop; None if no bound follows.
    `loops` are the positions of the loops around it in its function, outermost first. `handed`: what is called isn't
    awaited where it stands, but by a container or by whoever a lambda is given to: their frames are in its path.
    """

    text: str
    kind: Kind
    capability: str | None
    name: str
    function: str
    block: str
    fingerprint: str | None
    line: int
    column: int
    expression: str
    bound: int | None
    loops: tuple[str, ...]
    handed: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Program:
    """One source text, analysed.

    `revision` is the SHA-256 of its UTF-8 bytes. `positions` are by position text, in source order; `functions`
    have the hash of each reaching function by its qualified name, equal for functions that differ only in their
    own name. Line n of `annotated` stands for source line `line_map[n - 1]`.
    """

    source: str
    revision: str
    positions: Mapping[str, Position]
    functions: Mapping[str, str]
    annotated: str
    line_map: tuple[int, ...]


@lru_cache(maxsize=32)
def compile_program(text: str) -> Program:
    """Return the program of a source text that the checker passed; the last few are kept, as a run comes back to them.

    Raises `UsageError` for a text that isn't Python 3.11.
    """
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            tree = ast.parse(text, "<script>", feature_version=(3, 11))
        scope = analyse(tree)
        return build(text, scope, bound(scope))
    except (SyntaxError, ValueError) as error:
        line = getattr(error, "lineno", None) or 1
        raise UsageError(f"The source doesn't parse, line {line}.", hint="Run the checker on it.", line=line) from error
    except (RecursionError, MemoryError) as error:  # what the parser raises for deep nesting depends on its version
        raise UsageError("The source nests too deeply.", hint="Split long expressions.") from error


def build(source: str, scope: Scope, bounds: Bounds) -> Program:
    """Return the program of a source whose tree, names and bounds are known already."""
    walk = Walk(scope).run()
    for body in walk.bodies:
        number(body)
    text = Text(source)
    annotated, line_map = annotate(walk, text, bounds.trusted)  # also puts the places of nodes in f-strings right
    collector = _Positions(text, scope, bounds)
    for body in walk.bodies:
        collector.add(body, body.items)
    return Program(
        source=source,
        revision=hashlib.sha256(source.encode("utf-8", "surrogatepass")).hexdigest(),
        positions=collector.positions,
        functions={
            body.qualname: digest(without(body.text, body.function.node.name))
            for body in walk.bodies
            if body.function is not None and body.function.reaches
        },
        annotated=annotated,
        line_map=line_map,
    )


_ENTERED: Final = (ast.stmt, ast.Lambda, ast.comprehension)


class _Positions:
    """Makes positions of numbered places and loops."""

    def __init__(self, text: Text, scope: Scope, bounds: Bounds) -> None:
        self.positions: dict[str, Position] = {}
        self._text = text
        self._scope = scope
        self._branches = Branches(scope)
        self._bounds = bounds

    def add(self, body: Body, items: list[Item]) -> None:
        """Add the positions of a function's items."""
        for item in items:
            if isinstance(item, Block):
                if item.loop is not None:
                    self._loop(body, item.loop)
                for part in item.parts:
                    self.add(body, part.items)
            elif item.kind != "passed":
                self._place(body, item)

    def _place(self, body: Body, place: Place) -> None:
        node = place.node
        if place.kind == "fanout" and isinstance(node, ast.Call):
            fingerprint = self._branches.fingerprint(node, place.name)
            bound = self._bounds.fanouts.get(node)
        else:
            fingerprint = digest(place.text)
            bound = self._multiplicity(node)
        self.positions[place.position] = Position(
            text=place.position,
            kind=place.kind,  # type: ignore[arg-type]
            capability=place.name if place.kind == "site" else None,
            name=place.name,
            function=body.qualname,
            block=place.block,
            fingerprint=fingerprint,
            line=node.lineno,
            column=self._text.column(node),
            expression=self._text.excerpt(node, EXCERPT),
            bound=bound,
            loops=place.loop.chain() if place.loop is not None else (),
            handed=not place.awaited and not isinstance(self._scope.parent.get(node), ast.Return),
        )

    def _multiplicity(self, node: ast.expr) -> int | None:
        """Return how often a place can be reached per entry of its function, or per iteration of its loop."""
        if isinstance(node, ast.Call) and node in self._bounds.multiplicity:
            return self._bounds.multiplicity[node]
        above: ast.AST | None = node
        while above is not None and not isinstance(above, _ENTERED):
            if isinstance(above, COMPREHENSIONS):
                return None
            above = self._scope.parent.get(above)
        return 1 if isinstance(above, ast.stmt) else None

    def _loop(self, body: Body, loop: Loop) -> None:
        node = loop.node
        bound = self._bounds.loops.get(node)
        if bound is not None and loop.tested:
            bound += 1  # the test that ends the loop has the number of an iteration that isn't entered
        head = node.test if isinstance(node, ast.While) else node.iter
        name = "while" if isinstance(node, ast.While) else "for"
        self.positions[loop.position] = Position(
            text=loop.position,
            kind="loop",
            capability=None,
            name=name,
            function=body.qualname,
            block=loop.position.rsplit("/", 1)[0],
            fingerprint=None,
            line=node.lineno,
            column=self._text.column(node),
            expression=self._text.excerpt(head, EXCERPT),
            bound=bound,
            loops=loop.outer.chain() if loop.outer is not None else (),
        )
