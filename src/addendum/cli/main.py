"""The command `addendum`: one module a group of commands, and one place where errors become a sentence."""

from __future__ import annotations

import io
import os
import sys
from collections.abc import Sequence
from typing import Annotated, Any

import typer
import typer.main

from addendum.cli import (
    artifact,
    author,
    authority,
    check,
    convert,
    demo,
    drive,
    guide,
    inspect,
    mcp,
    operate,
    pin,
    rehearse,
    repair,
    revising,
    sandbox,
    step,
    work,
)
from addendum.cli.failure import INTERRUPTED, report
from addendum.cli.output import Output, OutputLost, nowhere, writable
from addendum.errors import UsageError

PROGRAM = "addendum"
PANELS = {
    "Scripts": (check.check, check.rule, convert.convert, guide.guide),
    "Runs": (drive.run, drive.resume, revising.plan, revising.revise, author.author, repair.repair),
    "Looking at runs": (
        inspect.runs,
        inspect.show,
        inspect.diff,
        inspect.certificate,
        inspect.attempts,
        authority.meters,
    ),
    "Deciding about runs": (
        operate.reconcile,
        operate.approve,
        operate.permit,
        operate.grant,
        operate.cancel,
        authority.asks,
        authority.revoke,
    ),
    "Serving": (mcp.mcp,),
    "Trying things": (rehearse.rehearse, step.step, demo.demo),
}

authority.app.command()(pin.pin)


def _version(wanted: bool) -> None:
    if wanted:
        from addendum.cli.version import version

        sys.stdout.write(f"{PROGRAM} {version()}\n")
        raise typer.Exit


HELP = ("-h", "--help")


def build() -> Any:
    """Build the command."""
    app = typer.Typer(
        name=PROGRAM,
        no_args_is_help=True,
        rich_markup_mode="markdown",
        add_completion=False,
        pretty_exceptions_enable=False,
        context_settings={"help_option_names": list(HELP)},
    )

    @app.callback()
    def addendum(
        version: Annotated[
            bool, typer.Option("--version", callback=_version, is_eager=True, help="Print the version and exit.")
        ] = False,
    ) -> None:
        """Run workflow scripts that a model wrote, and revise them without paying twice or serving stale results.

        Exit codes: 0 the verdict is positive, 2 usage, 3 a typed rejection, 4 undecided, 1 an internal error.
        """

    for panel, commands in PANELS.items():
        for command in commands:
            app.command(rich_help_panel=panel)(command)
    app.add_typer(authority.app, name="catalog", rich_help_panel="Scripts")
    app.add_typer(artifact.app, name="artifact", rich_help_panel="Looking at runs")
    app.add_typer(sandbox.app, name="sandbox", rich_help_panel="Trying things")
    app.add_typer(work.app, name="work", rich_help_panel="Work contracts")
    command = typer.main.get_command(app)
    _plain_flags(command)
    return command


def _plain_flags(command: Any) -> None:
    """Let the help of a command, and of those beneath it, show a flag without a type: there is nothing to write."""
    shown = command.get_help_option(typer.Context(command, help_option_names=list(HELP)))
    for param in (*command.params, shown):
        if getattr(param, "is_flag", False):
            param.metavar = ""
    for beneath in getattr(command, "commands", {}).values():
        _plain_flags(beneath)


def main(arguments: Sequence[str] | None = None) -> int:
    """Run one command and return its exit code."""
    given = list(sys.argv[1:] if arguments is None else arguments)
    json = "--json" in given
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):
            stream.reconfigure(errors="backslashreplace")  # an output that can't carry a character gets its code
    try:
        code = build()(given, prog_name=PROGRAM, standalone_mode=False)
        sys.stdout.flush()
    except BrokenPipeError:
        # Whoever read the output has enough. Nothing else may be written to it at exit.
        nowhere(sys.stdout)
        return 1
    except BaseException as error:
        if isinstance(error, SystemExit):
            raise
        if isinstance(error, OSError) and not writable():
            error = OutputLost(error)
        elif isinstance(error, FileNotFoundError) and not _here():
            error = UsageError("The current folder was deleted.", hint="Change to one that is there.")
        if isinstance(error, typer.TyperException) and not error.format_message():
            return 2  # the help was printed instead
        return report(error, json=json, program=PROGRAM, exactly=_named_by(given).exactly)
    if code == INTERRUPTED:  # Typer makes this of a KeyboardInterrupt, and says nothing
        return report(KeyboardInterrupt(), json=json, program=PROGRAM)
    return code if isinstance(code, int) else 0


def _here() -> bool:
    """Whether the current folder is there."""
    try:
        os.getcwd()
    except FileNotFoundError:
        return False
    return True


def _named_by(arguments: Sequence[str]) -> Output:
    """Return an output that knows the options of a command line that may have failed before they were read."""
    found: dict[str, str | None] = {}
    for name in ("store", "sandbox", "provider"):
        for index, word in enumerate(arguments):
            if word == f"--{name}":
                found[name] = next(iter(arguments[index + 1 : index + 2]), None)
            elif word.startswith(f"--{name}="):
                found[name] = word.partition("=")[2]
    return Output(store=found.get("store"), sandbox=found.get("sandbox"), provider=found.get("provider"))


if __name__ == "__main__":
    sys.exit(main())
