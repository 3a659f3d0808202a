"""Reading a manual page as a test: the files that it shows, the commands that it runs, and what it says they print.

- `<!-- file: NAME -->` before a block: the block is that file's content.
- `<!-- run: NAME -->` before a Python block: it is a file, and is run; a `text` block right after it is its output.
- a `console` block: each line that begins with `$ ` is run in a shell, in order; the lines below are its output, stdout
  and stderr together. A line `...` stands for any lines. Run names that are made from the time, hexadecimal digests and
  dates may differ.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path

FENCE = re.compile(
    r"(?:^<!-- (?P<mark>file|run): (?P<name>\S+) -->\n)?^```(?P<kind>\w*)\n(?P<text>.*?)^```$", re.MULTILINE | re.DOTALL
)
VOLATILE = (
    (re.compile(r"\b\d{8}-\d{6}-[0-9a-f]{6}\b"), "RUN"),
    (re.compile(r"\b\d{4}-\d\d-\d\d[ T]\d\d:\d\d:\d\d\b"), "DATE"),
    (re.compile(r"\b(?=[0-9a-f]*[0-9])[0-9a-f]{12,64}\b"), "DIGEST"),
    (re.compile(r"─{3,}"), "───"),
)


@dataclass(slots=True)
class Command:
    """A command, and the lines that it is said to print."""

    text: str
    expected: list[str] = field(default_factory=list)


@dataclass(slots=True)
class File:
    """A file that a page shows. With `run` it is a program, and `expected` is its output."""

    name: str
    text: str
    run: bool = False
    expected: list[str] = field(default_factory=list)


def steps(page: Path) -> Iterator[Command | File]:
    """Yield what a page does, in order."""
    program: File | None = None
    for block in FENCE.finditer(page.read_text("utf-8")):
        kind, text = block["kind"], block["text"]
        if kind == "text" and program is not None:
            program.expected = text.splitlines()
        if program is not None:
            yield program
            program = None
        if block["mark"] == "run":
            program = File(block["name"], text, run=True)
        elif block["mark"] == "file":
            yield File(block["name"], text)
        elif kind == "console":
            yield from _commands(text)
    if program is not None:
        yield program


def _commands(text: str) -> Iterator[Command]:
    found: Command | None = None
    for line in text.splitlines():
        if line.startswith("$ "):
            if found is not None:
                yield found
            found = Command(line[2:])
        elif found is None:
            raise AssertionError(f"a console block begins with a command, not with {line!r}")
        elif found.text.endswith("\\") and not found.expected:
            found.text = found.text[:-1] + line.strip()
        else:
            found.expected.append(line)
    if found is not None:
        yield found


def settled(line: str) -> str:
    """Return a line without what differs from one execution to the next."""
    for pattern, name in VOLATILE:
        line = pattern.sub(name, line)
    return " ".join(line.split())


def missing(expected: list[str], printed: str) -> str | None:
    """Return the first line that is expected and doesn't come, None if all do, in order, with `...` for gaps."""
    lines = [settled(line) for line in printed.splitlines() if line.strip()]
    at = 0
    gap = False
    for raw in expected:
        line = settled(raw)
        if not line:
            continue
        if line == "...":
            gap = True
            continue
        if gap:
            found = next((i for i in range(at, len(lines)) if lines[i] == line), None)
        else:
            found = at if at < len(lines) and lines[at] == line else None
        if found is None:
            return raw
        at, gap = found + 1, False
    if not gap and at != len(lines) and expected:
        return f"nothing more than {expected[-1]!r}, but {lines[at]!r} comes"
    return None
