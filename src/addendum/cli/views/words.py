"""The few shapes that every view shares: a state's colour, money, a pair of label and text, a table."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from rich import box
from rich.console import Console, ConsoleOptions, RenderableType, RenderResult
from rich.padding import Padding
from rich.table import Table
from rich.text import Text

from addendum.cli.printable import line, printable
from addendum.runs.advice import Advice

COLOURS = {
    "completed": "green",
    "planned": "green",
    "accepted": "green",
    "applied": "green",
    "committed": "green",
    "ok": "green",
    "failed": "red",
    "stopped": "red",
    "not_admitted": "red",
    "rejected": "red",
    "refused": "red",
    "unresolved": "red",
    "differences": "red",
    "paused": "yellow",
    "waiting": "yellow",
    "lost": "yellow",
    "unknown": "yellow",
    "requested": "yellow",
    "resumable": "yellow",
    "interrupted": "yellow",
    "orphaned": "yellow",
    "superseded": "yellow",
    "unbound": "yellow",
    "running": "cyan",
    "in_flight": "cyan",
    "rebound": "cyan",
    "replayed": "cyan",
    "new": "magenta",
}


def state(word: str, shown: str = "") -> Text:
    """Return a state in its colour, with spaces for underscores."""
    return Text((shown or word).replace("_", " "), style=COLOURS.get(word, ""))


def pairs(items: Iterable[tuple[str, str | Text]]) -> Table:
    """Return labels and texts in two columns; pairs without a text are left out."""
    table = Table.grid(padding=(0, 2))
    table.add_column(style="dim", no_wrap=True)
    table.add_column(overflow="fold")
    for label, text in items:
        if text:
            table.add_row(label, text if isinstance(text, Text) else printable(text))
    return table


def table(*columns: str, right: Sequence[str] = (), fold: Sequence[str] = ()) -> Table:
    """Return an empty table. Columns in `right` are numbers; those in `fold` wrap, the others never do."""
    found = Table(box=box.SIMPLE_HEAD, pad_edge=False, show_edge=False, header_style="bold")
    for name in columns:
        found.add_column(
            name,
            justify="right" if name in right else "left",
            no_wrap=name not in fold,
            overflow="fold" if name in fold else "ellipsis",
        )
    return found


@dataclass(frozen=True, slots=True)
class _Steps:
    """What to do next: commands beside their reasons or, where there is little room, above them. A command is never
    broken into lines, so that it can be copied."""

    items: tuple[Advice, ...]

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> RenderResult:
        """Yield a table, or lines."""
        if max(len(item.command) for item in self.items) + BESIDE <= options.max_width:
            found = Table.grid(padding=(0, 2))
            found.add_column(style="dim", no_wrap=True)
            found.add_column(style="bold", no_wrap=True)
            found.add_column(style="dim", overflow="fold")
            for index, item in enumerate(self.items):
                found.add_row("next" if not index else "", line(item.command), line(item.why))
            yield found
            return
        for index, item in enumerate(self.items):
            head = Text("next  " if not index else "      ", style="dim", no_wrap=True, overflow="ignore")
            yield head.append(line(item.command), style="not dim bold")
            yield Padding(Text(line(item.why), style="dim"), (0, 0, 0, 6))


BESIDE = 34
"""Columns that a reason and what stands before a command need beside it."""


def advice(items: Iterable[Advice]) -> RenderableType:
    """Return what to do next."""
    return _Steps(tuple(items))


def count(number: int, noun: str) -> str:
    """Return a number with its noun."""
    return f"{number} {noun}{'' if number == 1 else 's'}"
