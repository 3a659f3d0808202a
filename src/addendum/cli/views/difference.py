"""A unified diff with a mark at each line that committed calls stand on."""

from __future__ import annotations

from rich.console import Group
from rich.text import Text

from addendum.cli.printable import printable
from addendum.cli.views.words import count
from addendum.runs.difference import Difference, Line

SIGNS = {"same": (" ", ""), "old": ("-", "red"), "new": ("+", "green")}


def difference(found: Difference) -> Group:
    """Return two revisions beside each other, as a unified diff."""
    lines = [
        Text(f"--- {found.run} revision {found.old}", style="bold"),
        Text(f"+++ {found.run} revision {found.new}", style="bold"),
    ]
    if not found.hunks:
        lines = [Text(f"Revisions {found.old} and {found.new} of {found.run} have the same source.")]
    for hunk in found.hunks:
        lines.append(Text(f"  {hunk.header}", style="cyan"))
        lines.extend(_line(line) for line in hunk.lines)
    if not found.same_args:
        lines.append(Text("The args are different."))
    if any(line.frozen for hunk in found.hunks for line in hunk.lines):
        lines.append(Text("● a committed call stands on this line", style="dim"))
    return Group(*lines)


def _line(line: Line) -> Text:
    sign, style = SIGNS[line.side]
    text = Text("● " if line.frozen else "  ", style="yellow")
    text.append(f"{sign}{printable(line.text)}", style=style)
    if line.frozen > 1:
        text.append(f"  ({count(line.frozen, 'call')})", style="dim")
    return text
