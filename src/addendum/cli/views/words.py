"""The few shapes that every view shares: a state's colour, money, a pair of label and text, a table."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from rich import box
from rich.table import Table
from rich.text import Text

from addendum.cli.printable import line, printable
from addendum.runs.advice import Advice

COLOURS = {
    "completed": "green",
    "planned": "green",
    "accepted": "green",
    "committed": "green",
    "ok": "green",
    "failed": "red",
    "stopped": "red",
    "not_admitted": "red",
    "unresolved": "red",
    "differences": "red",
    "paused": "yellow",
    "waiting": "yellow",
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


def advice(items: Iterable[Advice]) -> Table:
    """Return what to do next."""
    found = Table.grid(padding=(0, 2))
    found.add_column(style="dim", no_wrap=True)
    found.add_column(style="bold", overflow="fold")
    found.add_column(style="dim", overflow="fold")
    for index, item in enumerate(items):
        found.add_row("next" if not index else "", line(item.command), line(item.why))
    return found


def count(number: int, noun: str) -> str:
    """Return a number with its noun."""
    return f"{number} {noun}{'' if number == 1 else 's'}"
