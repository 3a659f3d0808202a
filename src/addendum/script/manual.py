"""The rules' manual: each rule's page with its examples, packaged beside the rules. The tests run the same files."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from importlib import resources
from typing import Final

from addendum.errors import NotFound

PACKAGE: Final = "addendum.script.rules"


@dataclass(frozen=True, slots=True)
class Page:
    """One rule's page: its name (`R03`), its title, and the whole text as Markdown, examples included."""

    rule: str
    title: str
    text: str

    def to_json(self) -> dict[str, str]:
        """Return the page as JSON."""
        return {"rule": self.rule, "title": self.title, "text": self.text}


def pages() -> Iterator[Page]:
    """Yield every rule's page, in order."""
    folder = resources.files(PACKAGE) / "pages"
    for entry in sorted(folder.iterdir(), key=lambda entry: entry.name):
        if not entry.name.endswith(".md"):
            continue
        rule = entry.name.removesuffix(".md")
        heading, _, text = entry.read_text("utf-8").partition("\n")
        yield Page(rule, heading.removeprefix("# ").removeprefix(rule).strip(), text.strip())


def page(rule: str) -> Page:
    """Return one rule's page. Raises `NotFound`."""
    names = []
    for found in pages():
        if found.rule == rule.upper():
            return found
        names.append(found.rule)
    raise NotFound(f"There is no rule {rule!r}.", hint=f"There are {', '.join(names)}.", rule=rule)
