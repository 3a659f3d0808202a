"""What a generator of programs writes with: lines, names that nothing else has, and choices."""

from __future__ import annotations

from random import Random


class Lines:
    """A program that is being written. `left` is how many statements it may still get."""

    def __init__(self, random: Random, statements: int) -> None:
        self.random = random
        self.lines: list[str] = []
        self.left = statements
        self.serial = 0

    def pick(self, *options: str) -> str:
        """Choose one of some texts."""
        return self.random.choice(options)

    def emit(self, indent: int, text: str) -> None:
        """Write a line."""
        self.lines.append("    " * indent + text)

    def fresh(self, stem: str) -> str:
        """Return a name that the program doesn't have yet."""
        self.serial += 1
        return f"{stem}{self.serial}"
