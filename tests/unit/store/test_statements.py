"""The named statements: how they are read, and that every one of them is used and explained."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from addendum.store import sql_store
from addendum.store.statements import Statement, load, parse, resource

PACKAGE = Path(sql_store.__file__).parent


def test_a_statement_has_a_name_and_a_sentence() -> None:
    """A comment with a name opens a statement; other comments and the semicolon aren't part of it."""
    text = (
        "-- Remarks: not a name.\n\n-- one: Do it.\nSELECT 1\n-- in between\nFROM x;\n\n-- two: Undo it.\nROLLBACK;\n"
    )

    assert {
        "one": Statement("one", "Do it.", "SELECT 1\nFROM x"),
        "two": Statement("two", "Undo it.", "ROLLBACK"),
    } == parse(text)


@pytest.mark.parametrize("text", ["-- a: A.\nX;\n-- a: B.\nY;", "-- a: A.\n-- b: B.\nX;", "SELECT 1;"])
def test_a_broken_file_is_noticed(text: str) -> None:
    """A name twice, a name without text and text without a name are errors, not statements that get lost."""
    with pytest.raises(ValueError, match="statement"):
        parse(text)


def test_placeholders_of_another_driver() -> None:
    """The same text serves a driver that writes parameters otherwise; casts and times aren't parameters."""
    texts = load("sqlite", "pyformat")

    assert "VALUES (%(run)s, %(name)s, %(created_at)s)" in texts["add_run"]
    assert load("sqlite").keys() == texts.keys()
    assert not any(re.search(r"(?<!:):[a-z]", sql) for sql in texts.values())


def test_every_statement_is_used() -> None:
    """Each name in the files stands in the code in quotes, and each statement's sentence is one."""
    code = "".join(path.read_text() for path in PACKAGE.glob("*.py"))
    statements = parse(resource("statements.sql")) | parse(resource("sqlite.sql"))

    assert [name for name in statements if f'"{name}"' not in code] == []
    assert all(statement.purpose[0].isupper() for statement in statements.values())
