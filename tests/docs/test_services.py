"""The page on the services file has every key of every kind."""

from __future__ import annotations

import importlib
from pathlib import Path

import pytest

from addendum import wiring
from addendum.providers.service import Spec
from addendum.servicesfile import Author

PAGE = (Path(__file__).resolve().parents[2] / "docs" / "reference" / "services.md").read_text("utf-8")


def section(start: str) -> str:
    """Return a section of the page, from its heading to the next one."""
    assert start in PAGE, f"there is no {start!r}"
    return PAGE.partition(start)[2].partition("\n### ")[0]


@pytest.mark.parametrize("kind", wiring.KINDS)
def test_each_key_is_documented(kind: str) -> None:
    """A kind that somebody adds, or a key, has to be told of; and each has a description where it is declared."""
    made = importlib.import_module(f"addendum.providers.{kind}").Spec
    own, common = section(f'### kind = "{kind}"'), section('## [capability."NAME"]')
    for name, field in made.model_fields.items():
        assert field.description, f"{kind}.{name}"
        assert f"| `{name}` |" in (common if name in Spec.model_fields else own), f"{kind}.{name}"


def test_each_key_of_the_author_is_documented() -> None:
    """Who writes scripts stands there, too."""
    for name in Author.model_fields:
        assert f"| `{name}` |" in section("## [author]")
