"""What a command prints: values on stdout, everything that is said about the work on stderr.

With `--json`, stdout has the JSON and nothing else. Colours and live output are for terminals only.
"""

from __future__ import annotations

import json
import os
import re
import shlex
import sys
from collections.abc import Iterable, Mapping
from contextlib import suppress
from dataclasses import replace
from typing import TYPE_CHECKING, Any, TextIO

from addendum.cli.printable import escaped, printable
from addendum.errors import AddendumError

if TYPE_CHECKING:
    from rich.console import Console, RenderableType

    from addendum.runs.advice import Advice

WIDE = 200
"""Columns of a table that no terminal limits: a file or a pipe shouldn't cut an identity."""


def dumps(value: object, *, indent: int | None = 2) -> str:
    """Return JSON text that any output can carry, and in which no text of others can do anything to a terminal."""
    encoding = (getattr(sys.stdout, "encoding", None) or "utf-8").lower().replace("-", "")
    return escaped(json.dumps(value, ensure_ascii=encoding != "utf8", indent=indent))


_QUOTED = re.compile(r"`(addendum [^`]+)`")
_STORE, _PROVIDER, _ALL = ("--store",), ("--store", "--provider"), ("--store", "--sandbox", "--provider")
TAKEN: Mapping[str, tuple[str, ...]] = {
    **dict.fromkeys(("run", "resume", "plan", "revise", "author", "repair"), _ALL),
    **dict.fromkeys(("grant", "permit", "catalog accept"), _PROVIDER),
    **dict.fromkeys(("runs", "show", "diff", "certificate", "attempts", "meters", "artifact"), _STORE),
    **dict.fromkeys(("reconcile", "approve", "cancel", "asks", "revoke"), _STORE),
    "catalog show": ("--provider",),
}
"""Which of these options a command needs to do the same as the one that names it."""


class OutputLost(AddendumError):
    """What a command has to say can't be written to standard output. The command itself has done its work."""

    code = "output_lost"

    def __init__(self, why: OSError) -> None:
        super().__init__(
            f"Standard output can't be written: {why.strerror or why}.",
            hint="Make room, or send it elsewhere. A run that was driven stands as it ended: `addendum runs` lists it.",
        )


def writable() -> bool:
    """Whether standard output takes anything, asked with an empty line; one that doesn't gets nothing more."""
    try:
        os.write(sys.stdout.fileno(), b"\n")
    except OSError:
        nowhere(sys.stdout)
        return False
    return True


def nowhere(stream: TextIO) -> None:
    """Have a stream that nobody reads, or that is full, lead nowhere: else Python tries again when it ends."""
    with suppress(OSError):
        os.dup2(os.open(os.devnull, os.O_WRONLY), stream.fileno())


class Output:
    """Where one command prints. `json` is whether it was asked for JSON; the others are options that were given, which
    the commands that it names have to be given too."""

    def __init__(
        self, json: bool = False, *, store: str | None = None, sandbox: str | None = None, provider: str | None = None
    ) -> None:
        self.json = json
        self._given = {"--store": store, "--sandbox": sandbox, "--provider": provider}
        self._consoles: dict[str, Console] = {}

    @property
    def out(self) -> Console:
        """The console of stdout."""
        return self._console("stdout", sys.stdout)

    @property
    def err(self) -> Console:
        """The console of stderr."""
        return self._console("stderr", sys.stderr)

    @property
    def provider(self) -> str | None:
        """The provider that was named as an option."""
        return self._given["--provider"]

    @property
    def interactive(self) -> bool:
        """Whether a person can be asked."""
        return not self.json and sys.stdin.isatty() and sys.stderr.isatty()

    def exact(self, command: str) -> str:
        """Return a command of `addendum` with the options that this one was given, so that it can be copied."""
        words = command.split()
        if "--help" in words:
            return command
        taken = TAKEN.get(words[1], TAKEN.get(" ".join(words[1:3]), ()))
        more = [
            f" {name} {shlex.quote(value)}"
            for name, value in self._given.items()
            if value and name in taken and name not in words
        ]
        return command + "".join(more)

    def exactly(self, hint: str) -> str:
        """Return a hint in which every command that it quotes can be copied."""
        return _QUOTED.sub(lambda quoted: f"`{self.exact(quoted[1])}`", hint)

    def advice(self, steps: Iterable[Advice]) -> tuple[Advice, ...]:
        """Return what to do next as exact commands."""
        return tuple(replace(step, command=self.exact(step.command)) for step in steps)

    def value(self, value: object, *, indent: int | None = 2) -> None:
        """Print a JSON value on stdout."""
        sys.stdout.write(dumps(value, indent=indent) + "\n")
        sys.stdout.flush()

    def raw(self, text: str) -> None:
        """Print text on stdout as it is: no colours, no wrapping. On a terminal, what it would obey is written out."""
        text = printable(text) if sys.stdout.isatty() else text
        sys.stdout.write(text if text.endswith("\n") else text + "\n")
        sys.stdout.flush()

    def show(self, *parts: RenderableType) -> None:
        """Print for a person, on stdout."""
        self._print(self.out, parts)

    def say(self, *parts: RenderableType) -> None:
        """Say something about the work, on stderr; nothing with `--json`."""
        if not self.json:
            try:
                self._print(self.err, parts)
            except OSError:
                nowhere(sys.stderr)

    def _print(self, console: Console, parts: tuple[RenderableType, ...]) -> None:
        if console.is_terminal:
            console.print(*parts, markup=False, highlight=False)
            return
        # Elsewhere lines are as long as they are: nothing is cut, nothing is padded.
        with console.capture() as captured:
            console.print(*parts, markup=False, highlight=False, soft_wrap=True)
        console.file.write("".join(f"{line.rstrip()}\n" for line in captured.get().splitlines()))
        console.file.flush()

    def _console(self, name: str, file: TextIO) -> Console:
        found = self._consoles.get(name)
        if found is None:
            from rich.console import Console

            class Piped(Console):
                def on_broken_pipe(self) -> None:
                    raise

            settings: dict[str, Any] = {} if file.isatty() or "COLUMNS" in os.environ else {"width": WIDE}
            found = self._consoles[name] = Piped(file=file, soft_wrap=False, **settings)
        return found
