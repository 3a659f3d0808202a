"""How a command fails: one sentence with a code and a way out on stderr, or the same as JSON; never a traceback.

| exit code | says |
| --- | --- |
| 0 | the asked-for verdict is positive |
| 1 | an internal error, a store that doesn't answer, or an output that can't be written |
| 2 | usage |
| 3 | a typed rejection |
| 4 | undecided: waiting, unresolved, missing, busy |
| 130 | interrupted outside of a run, or at a question |
"""

from __future__ import annotations

import os
import sys
import traceback
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from typing import Any

import typer

from addendum.cli.output import dumps, nowhere
from addendum.cli.printable import line
from addendum.errors import AddendumError, CapabilityError, Stop

DEBUG = "ADDENDUM_DEBUG"
INTERRUPTED = 130


@dataclass(frozen=True, slots=True)
class Failure:
    """An exception as a person sees it."""

    code: str
    message: str
    hint: str
    exit_code: int
    facts: dict[str, Any] = field(default_factory=dict)

    def text(self) -> str:
        """Return the sentence."""
        return f"error[{self.code}]: {line(f'{self.message} {self.hint}'.strip())}"

    def to_json(self) -> dict[str, Any]:
        """Return the error as JSON."""
        body: dict[str, Any] = {"error": self.code, "message": self.message, "hint": self.hint}
        facts = {name: fact for name, fact in self.facts.items() if _plain(fact)}
        return {**body, "facts": facts} if facts else body


def failure(error: BaseException, program: str = "addendum") -> Failure:
    """Return how an exception is shown."""
    match error:
        case AddendumError():
            return Failure(error.code, error.message, error.hint, error.exit_code, error.facts)
        case Stop():
            return Failure(error.kind, error.message, error.hint, 3, error.facts)
        case CapabilityError():
            return Failure(error.code, error.message, "", 3)
        case typer.TyperException():
            return _usage(error, program)
        case typer.Abort() | KeyboardInterrupt():
            return Failure("interrupted", "Interrupted.", "Nothing more was sent.", INTERRUPTED)
        case _:
            return Failure(
                "internal",
                f"Something went wrong inside Addendum: {type(error).__name__}: {error}.",
                f"Please report it in the project's issue tracker, with what {DEBUG}=1 prints.",
                1,
            )


def report(error: BaseException, *, json: bool, program: str = "addendum", exactly: Callable[[str], str] = str) -> int:
    """Print an exception on stderr and return the exit code. `exactly` makes a hint's commands ones to be copied."""
    found = failure(error, program)
    found = replace(found, hint=exactly(found.hint))
    if found.code == "interrupted" and sys.stderr.isatty():
        sys.stderr.write("\n")  # the terminal shows ^C in the line that was being written
    if os.environ.get(DEBUG) and not isinstance(error, typer.TyperException):
        traceback.print_exception(error, file=sys.stderr)
    try:
        sys.stderr.write((dumps(found.to_json(), indent=None) if json else found.text()) + "\n")
        sys.stderr.flush()
    except OSError:
        nowhere(sys.stderr)  # the exit code says it
    return found.exit_code


def _usage(error: Any, program: str) -> Failure:
    message = error.format_message() if hasattr(error, "format_message") else str(error)
    context = getattr(error, "ctx", None)
    path = context.command_path if context is not None else program
    message = " ".join(message.split())
    return Failure("usage", message if message.endswith((".", "?")) else f"{message}.", f"See `{path} --help`.", 2)


def _plain(value: object) -> bool:
    return value is None or isinstance(value, bool | int | float | str | list | dict)
