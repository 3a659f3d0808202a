"""The named SQL statements: read from text files, one set for all dialects and a file for what a dialect does its own
way."""

from __future__ import annotations

import pkgutil
import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final, Literal

Placeholders = Literal["named", "pyformat"]
"""How a driver wants its parameters: `:run` (sqlite3) or `%(run)s` (psycopg)."""

_OPENING: Final = re.compile(r"^-- ([a-z_]+): (.+\.)$")
_PARAMETER: Final = re.compile(r"(?<![:\w]):([a-z_]+)")


@dataclass(frozen=True, slots=True)
class Statement:
    """One SQL statement, without its semicolon, and the sentence that says what it does."""

    name: str
    purpose: str
    sql: str


def parse(text: str) -> dict[str, Statement]:
    """Return the statements of a file by name. A comment line "name: sentence." opens each; others are remarks.

    Raises `ValueError` for a name that stands twice, or has no statement.
    """
    found: dict[str, Statement] = {}
    name, purpose, lines = "", "", list[str]()

    def close() -> None:
        sql = "\n".join(lines).strip().removesuffix(";")
        if name in found or bool(name) != bool(sql):
            raise ValueError(f"The statement {name!r} stands twice, or there is no text or no name.")
        if name:
            found[name] = Statement(name, purpose, sql)

    for line in text.splitlines():
        opening = _OPENING.match(line)
        if opening:
            close()
            name, purpose = opening.groups()
            lines = []
        elif not line.startswith("--"):
            lines.append(line)
    close()
    return found


def load(dialect: str, placeholders: Placeholders = "named") -> Mapping[str, str]:
    """Return the SQL text of every statement of a dialect by name, with the placeholders of its driver."""
    statements = parse(resource("statements.sql")) | parse(resource(f"{dialect}.sql"))
    texts = {name: statement.sql for name, statement in statements.items()}
    if placeholders == "pyformat":
        return {name: _PARAMETER.sub(r"%(\1)s", sql.replace("%", "%%")) for name, sql in texts.items()}
    return texts


def resource(name: str) -> str:
    """Return the text of a file in this package's folder sql/."""
    data = pkgutil.get_data(__package__, f"sql/{name}")
    if data is None:
        raise FileNotFoundError(f"sql/{name} is missing from the package; install it again.")
    return data.decode("utf-8")
