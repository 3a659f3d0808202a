"""A checker's report as ruff and rustc show theirs: place, rule, message, the line with a caret, and the fix."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from rich.console import Group, RenderableType
from rich.text import Text

from addendum.cli.printable import line, printable
from addendum.cli.views.words import count, pairs, table

WIDTH = 160
"""Columns of a source line that are shown."""


def report(path: str, source: str, violations: Sequence[Mapping[str, Any]]) -> Group:
    """Return the violations (`Violation.to_json`) of a source for a person."""
    lines = source.splitlines()
    return Group(*(_violation(path, lines, found) for found in violations))


def _violation(path: str, lines: Sequence[str], found: Mapping[str, Any]) -> Group:
    head = Text(f"{line(path)}:{found['line']}:{found['column']}: ", style="bold")
    head.append(found["rule"], style="red" if found["severity"] == "error" else "yellow")
    head.append(f" {line(found['message'])}", style="default")
    parts: list[RenderableType] = [head]
    if 1 <= found["line"] <= len(lines):
        number = str(found["line"])
        text, caret = _excerpt(lines[found["line"] - 1], found["column"])
        parts += [
            Text(f"{number} | ", style="blue").append(text, style="default"),
            Text(f"{' ' * len(number)} | ", style="blue").append(f"{caret}^", style="red"),
        ]
    parts.append(Text("   fix: ", style="green").append(line(found["fix"]), style="default"))
    parts.append(Text())
    return Group(*parts)


def _excerpt(text: str, column: int) -> tuple[str, str]:
    """Return a source line and what stands under it before the caret; a long line is cut around the column."""
    start = max(0, column - WIDTH // 2) if len(text) > WIDTH else 0
    shown = printable(text[start : start + WIDTH])
    before = printable(text[start : column - 1])
    return shown, "".join("\t" if character == "\t" else " " for character in before)


def verdict(reports: Sequence[tuple[str, Sequence[Mapping[str, Any]]]]) -> Text:
    """Return one line on all scripts."""
    errors = sum(1 for _, found in reports for violation in found if violation["severity"] == "error")
    warnings = sum(len(found) for _, found in reports) - errors
    warned = f", {count(warnings, 'warning')}" if warnings else ""
    if not errors:
        return Text(f"{count(len(reports), 'script')} may run{warned}.", style="green")
    return Text(
        f"{count(errors, 'violation')}{warned}; `addendum rule {_first(reports)}` explains the first.", style="red"
    )


def _first(reports: Sequence[tuple[str, Sequence[Mapping[str, Any]]]]) -> str:
    return next(str(v["rule"]) for _, found in reports for v in found if v["severity"] == "error")


def facts(found: Mapping[str, Any], cost: str) -> Group:
    """Return a source's facts (`Facts.to_json`) for a person. `cost` is the worst case's, in words."""
    sites = table("call", "line", "at most", right=("line", "at most"))
    for site in found["callsites"]:
        sites.add_row(site["capability"], str(site["line"]), _bound(site["worst_case"]))
    places = table("loop or fan-out", "line", "bound", right=("line", "bound"))
    for place in (*found["loops"], *found["fanouts"]):
        places.add_row(
            place["kind"],
            str(place["line"]),
            "pure" if place["pure"] and place["bound"] is None else _bound(place["bound"]),
        )
    parts: list[RenderableType] = [sites, Text()]
    if found["loops"] or found["fanouts"]:
        parts += [places, Text()]
    worst = ", ".join(f"{name} {_bound(most)}" for name, most in sorted(found["worst_case"].items()))
    parts.append(pairs([("worst case", worst or "no call"), ("costs at most", cost)]))
    return Group(*parts)


def _bound(number: int | None) -> str:
    return "no bound" if number is None else str(number)
