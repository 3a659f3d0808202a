"""The options that several commands share, with one help text each."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, TypeAlias

import typer

Json: TypeAlias = Annotated[bool, typer.Option("--json", help="Print JSON on stdout; errors are JSON on stderr.")]
Store: TypeAlias = Annotated[
    str | None,
    typer.Option("--store", metavar="PATH", help="The store's file (default: .addendum/store.db).", show_default=False),
]
Sandbox: TypeAlias = Annotated[
    str | None,
    typer.Option(
        "--sandbox",
        metavar="NAME",
        help="Where the script runs; see `addendum sandbox list` (default: monty).",
        show_default=False,
    ),
]
Provider: TypeAlias = Annotated[
    str | None,
    typer.Option(
        "--provider",
        metavar="NAME",
        help="`demo`, a services file (`services.toml`), or `MODULE:NAME` of an `addendum.App` (default: demo).",
        show_default=False,
    ),
]
Grant: TypeAlias = Annotated[
    str | None,
    typer.Option(
        "--grant",
        metavar="FILE",
        help="What the run may use: a TOML or JSON file; everything, without limits, if none is named.",
        show_default=False,
    ),
]
Parent: TypeAlias = Annotated[
    str | None,
    typer.Option(
        "--parent",
        metavar="RUN",
        help="A run whose grant this one's comes out of; what it doesn't use goes back at its end.",
        show_default=False,
    ),
]
Log: TypeAlias = Annotated[
    str | None,
    typer.Option(
        "--log",
        metavar="FILE|-",
        help="Write each event as a line of JSON: a file, or `-` for stderr.",
        show_default=False,
    ),
]

Run: TypeAlias = Annotated[
    str,
    typer.Argument(
        metavar="RUN", help="A run: its name, an unambiguous beginning of it, or `last`.", show_default=False
    ),
]
Script: TypeAlias = Annotated[
    str, typer.Argument(metavar="SCRIPT", help="A workflow script, or `-` for standard input.", show_default=False)
]
Args: TypeAlias = Annotated[
    str | None,
    typer.Option(
        "--args",
        metavar="FILE|JSON|-",
        help="The script's args: JSON, a file of JSON (`@FILE` always means a file), or `-` for standard input.",
        show_default=False,
    ),
]
Policy: TypeAlias = Annotated[
    list[str] | None,
    typer.Option(
        "--policy",
        metavar="NAME=VALUE",
        help="A policy of the run: relocation=strict|declared|verified, ledger=off|warn|deny|auto, orphans=warn|stop.",
        show_default=False,
    ),
]
Relocation: TypeAlias = Annotated[
    str | None,
    typer.Option("--relocation", metavar="VALUE", help="Short for --policy relocation=VALUE.", show_default=False),
]
Supersede: TypeAlias = Annotated[
    list[str] | None,
    typer.Option(
        "--supersede",
        metavar="changed|IDENTITY",
        help="Allow a new version of a committed call: of the one at an identity, or of every one that changes.",
        show_default=False,
    ),
]
Retry: TypeAlias = Annotated[
    str,
    typer.Option("--retry", metavar="open|all|none", help="Which recorded failures are tried again."),
]
Drop: TypeAlias = Annotated[
    list[str] | None,
    typer.Option(
        "--drop",
        metavar="IDENTITY|PLACE",
        help="Give up the committed calls at an identity, or at a site with its static path.",
        show_default=False,
    ),
]
Move: TypeAlias = Annotated[
    list[str] | None,
    typer.Option(
        "--move",
        metavar="OLD=NEW",
        help="Declare that a place (site and static path) is now another one.",
        show_default=False,
    ),
]
Request: TypeAlias = Annotated[
    str,
    typer.Option(
        "--request",
        metavar="TEXT",
        help="What the script is for, kept with the run for whoever repairs it.",
        show_default=False,
    ),
]
Model: TypeAlias = Annotated[
    str | None,
    typer.Option(
        "--model",
        metavar="PROVIDER:MODEL",
        help="Who writes it (default: [author] of the services file); scripted:FILE.json answers from a file.",
        show_default=False,
    ),
]
Attempts: TypeAlias = Annotated[
    int, typer.Option("--max-attempts", metavar="N", help="How often the model is asked at most.")
]
Out: TypeAlias = Annotated[
    Path | None, typer.Option("--out", metavar="FILE", help="Write it to a file as well.", show_default=False)
]
