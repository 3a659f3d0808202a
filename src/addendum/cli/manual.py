"""The rules' manual: each rule's page is the docstring of its module, with the examples that are packaged beside it."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from dataclasses import dataclass
from importlib import resources
from typing import Final

from addendum.errors import NotFound

PACKAGE: Final = "addendum.script.rules"
_FILE: Final = re.compile(r"r(\d\d)_\w+\.py")


@dataclass(frozen=True, slots=True)
class Page:
    """One rule's page: its name (`R03`), its first line, and the whole text."""

    rule: str
    title: str
    text: str

    def to_json(self) -> dict[str, str]:
        """Return the page as JSON."""
        return {"rule": self.rule, "title": self.title, "text": self.text}


def pages() -> Iterator[Page]:
    """Yield every rule's page, in order. The modules are read, not imported."""
    folder = resources.files(PACKAGE)
    for entry in sorted(folder.iterdir(), key=lambda entry: entry.name):
        found = _FILE.fullmatch(entry.name)
        if found is None:
            continue
        text = ast.get_docstring(ast.parse(entry.read_text("utf-8"))) or ""
        rule = f"R{found[1]}"
        title = text.partition("\n")[0].removesuffix(".") or rule
        yield Page(rule, title, text)


def page(rule: str) -> Page:
    """Return one rule's page. Raises `NotFound`."""
    names = []
    for found in pages():
        if found.rule == rule.upper():
            return found
        names.append(found.rule)
    raise NotFound(f"There is no rule {rule!r}.", hint=f"There are {', '.join(names)}.", rule=rule)
