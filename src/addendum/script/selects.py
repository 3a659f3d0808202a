"""The select table of a script: what `select` can yield, after which calls, and how often (`addendum convert`).

Any script of this language is a loop of select and call already: nothing has to be rewritten for it. The table shows
how: one row for each place that can be pending, with the places that may have been settled last before it.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from addendum.script.checker import examine
from addendum.script.program import Position
from addendum.script.report import Report

START = "start"
AGAIN = "the iteration before"


@dataclass(frozen=True, slots=True)
class Select:
    """One place. `position` has the bounds of its loops in it, `what` is a capability, a function or a fan-out; `most`
    is how often a whole run can be there, for a fan-out its width (None: no bound). `within` is the fan-out whose
    branch it is ("" for none); `after` are the places that may be the last before it, or the function's `start`."""

    line: int
    position: str
    what: str
    most: int | None
    within: str
    after: tuple[str, ...]

    def to_json(self) -> dict[str, Any]:
        """Return the row as JSON."""
        return {
            "line": self.line,
            "position": self.position,
            "what": self.what,
            "most": self.most,
            "within": self.within,
            "after": list(self.after),
        }


def table(source: str) -> tuple[Report, tuple[Select, ...]]:
    """Return the checker's report on a source, and its select table: empty for one that isn't accepted."""
    report, program = examine(source)
    if program is None:
        return report, ()
    most = {(site.line, site.column): site.worst_case for site in report.facts.callsites}
    found = [place for place in program.positions.values() if place.kind != "loop"]
    inside = dict(_inside(found, _ends(source)))
    return report, tuple(
        Select(
            line=place.line,
            position=_bounded(place, program.positions),
            what=place.capability or f"{place.name}{'()' if place.kind == 'call' else ''}",
            most=most.get((place.line, place.column), place.bound),
            within=inside.get(place.text, ""),
            after=_after(place, found[:index], inside),
        )
        for index, place in enumerate(found)
    )


def _bounded(place: Position, positions: Mapping[str, Position]) -> str:
    """Return a position with the bound of each loop beside it: `orchestrate/for.0[<6]/image.generate#0`."""
    text = place.text
    for loop in reversed(place.loops):
        bound = positions[loop].bound
        if text.startswith(loop + "/"):
            text = f"{loop}[{'' if bound is None else f'<{bound}'}]{text[len(loop) :]}"
    return text


def _ends(source: str) -> dict[tuple[int, int], tuple[int, int]]:
    """Return where each call ends, by where it begins: lines from 1, columns from 1 in characters."""
    lines = source.encode("utf-8").split(b"\n")

    def at(line: int, offset: int) -> tuple[int, int]:
        return line, len(lines[line - 1][:offset].decode("utf-8", "replace")) + 1

    return {
        at(node.lineno, node.col_offset): at(node.end_lineno or node.lineno, node.end_col_offset or 0)
        for node in ast.walk(ast.parse(source))
        if isinstance(node, ast.Call)
    }


def _inside(found: Sequence[Position], ends: Mapping[tuple[int, int], tuple[int, int]]) -> Iterator[tuple[str, str]]:
    """Yield (place, fan-out) for what is written inside a fan-out's call; the innermost fan-out comes last."""
    for fanout in (each for each in found if each.kind == "fanout"):
        first = (fanout.line, fanout.column)
        for place in found:
            if place.function == fanout.function and first < (place.line, place.column) < ends.get(first, first):
                yield place.text, fanout.text


def _after(place: Position, earlier: Sequence[Position], inside: Mapping[str, str]) -> tuple[str, ...]:
    """Return what may be the last before a place: the last in each way through the statements before it."""
    found: list[str] = []
    seen: set[tuple[str, str]] = set()
    mine = place.block.split("/")
    around = inside.get(place.text, "")
    looped = bool(place.loops)
    for other in reversed(earlier):
        if other.function != place.function or inside.get(other.text) or other.text == around:
            continue
        theirs = other.block.split("/")
        depth = _common(mine, theirs)
        if depth == len(theirs):
            found.append(other.text)
            break
        construct = _construct(theirs[depth])
        if depth < len(mine) and _construct(mine[depth]) == construct and not construct.startswith("try"):
            continue  # another arm of the same statement
        key = ("/".join(theirs[:depth]) + construct, theirs[depth])
        if key not in seen:
            seen.add(key)
            found.append(other.text)
    else:
        found.append(START)
    if looped and not any(text != START and place.loops[-1] + "/" in text + "/" for text in found):
        found.append(AGAIN)
    return tuple(found)


def _common(first: Sequence[str], second: Sequence[str]) -> int:
    depth = 0
    while depth < min(len(first), len(second)) and first[depth] == second[depth]:
        depth += 1
    return depth


def _construct(segment: str) -> str:
    """Return the statement that a block belongs to: `if.0` for `if.0.else`."""
    return ".".join(segment.split(".")[:2])
