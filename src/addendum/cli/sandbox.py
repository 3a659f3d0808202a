"""sandbox list, sandbox verify: where scripts can run here."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any

import typer

from addendum.cli import options
from addendum.cli.output import Output
from addendum.errors import SandboxError

app = typer.Typer(no_args_is_help=True, help="Where scripts run: which backends are here, and whether they confine.")


@app.command("list")
def list_(json: options.Json = False) -> int:
    """List the backends, and whether each can run a script here. Exit code 0 if the chosen one can, else 4."""
    from addendum.cli import opening

    chosen = opening.settings().sandbox
    found = [_try(name) for name in _names()]
    output = Output(json)
    if json:
        output.value([{**item, "chosen": item["name"] == chosen} for item in found])
    else:
        output.show(_table(found, chosen))
    return 0 if any(item["available"] for item in found if item["name"] == chosen) else 4


@app.command()
def verify(
    names: Annotated[
        list[str] | None,
        typer.Argument(
            metavar="[NAME...]", help="Backends; every one that is here if none is named.", show_default=False
        ),
    ] = None,
    json: options.Json = False,
) -> int:
    """Run the acceptance checks on backends: what a script that no checker would let pass could reach.

    Exit code 0: every check passes or doesn't apply; 3: one fails.
    """
    import tempfile

    from addendum import wiring

    output = Output(json)
    chosen = names or [item["name"] for item in map(_try, _names()) if item["available"]]
    found: dict[str, list[dict[str, str]]] = {}
    for name in chosen:
        with tempfile.TemporaryDirectory(prefix="addendum-verify-") as folder:
            found[name] = wiring.verify_sandbox(name, Path(folder))
        if not json:
            output.show(_findings(name, found[name]))
    if json:
        output.value(found)
    failed = any(item["verdict"] == "failed" for items in found.values() for item in items)
    return 3 if failed or not found else 0


def _names() -> tuple[str, ...]:
    from addendum import wiring

    names: tuple[str, ...] = wiring.SANDBOXES
    return names


def _try(name: str) -> dict[str, Any]:
    """Run a script that does nothing."""
    from addendum import wiring
    from addendum.ports import Limits
    from addendum.runs.prepare import script
    from addendum.script.program import compile_program

    try:
        sandbox = wiring.open_sandbox(name)
    except SandboxError as error:
        return {"name": name, "available": False, "why": str(error)}
    try:
        session = sandbox.open(script(compile_program(NOTHING)), {}, limits=Limits(), nonce="0" * 32)
        try:
            session.advance(None)
        finally:
            session.close()
    except SandboxError as error:
        return {"name": name, "available": False, "why": str(error)}
    finally:
        sandbox.close()
    return {"name": name, "available": True, "why": ""}


NOTHING = "async def orchestrate(ctx, args):\n    return None\n"


def _table(found: list[dict[str, Any]], chosen: str) -> Any:
    from rich.text import Text

    from addendum.cli.printable import line
    from addendum.cli.views.words import table

    listed = table("sandbox", "here", "why not", fold=("why not",))
    for item in found:
        name = Text(item["name"]).append("  (chosen)" if item["name"] == chosen else "", style="dim")
        listed.add_row(
            name, Text("yes", style="green") if item["available"] else Text("no", style="red"), line(item["why"])
        )
    return listed


VERDICTS = {"passed": "green", "failed": "bold red", "not_applicable": "dim"}


def _findings(name: str, found: list[dict[str, str]]) -> Any:
    from rich.console import Group
    from rich.text import Text

    from addendum.cli.printable import line
    from addendum.cli.views.words import table

    listed = table(name, "check", "seen", fold=("seen",))
    for item in found:
        verdict = Text(item["verdict"].replace("_", " "), style=VERDICTS[item["verdict"]])
        listed.add_row(
            verdict, item["check"], Text(line(item["tried"])).append(f"\n{line(item['detail'])}", style="dim")
        )
    passed = sum(1 for item in found if item["verdict"] == "passed")
    failed = sum(1 for item in found if item["verdict"] == "failed")
    style = "bold red" if failed else "green"
    return Group(
        listed,
        Text(f"{name}: {passed} passed, {failed} failed, {len(found) - passed - failed} don't apply\n", style=style),
    )
