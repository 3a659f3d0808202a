"""Violations in the formats of others: SARIF 2.1.0 (OASIS), and the workflow commands of GitHub Actions."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from addendum.cli.manual import Page

SCHEMA = "https://json.schemastore.org/sarif-2.1.0.json"


def sarif(
    reports: Sequence[tuple[str, Sequence[Mapping[str, Any]]]], manual: Iterable[Page], version: str
) -> dict[str, Any]:
    """Return a SARIF log of all scripts' violations. Columns count characters, as the checker's do."""
    rules = [
        {"id": page.rule, "shortDescription": {"text": page.title}, "help": {"text": page.text}} for page in manual
    ]
    return {
        "$schema": SCHEMA,
        "version": "2.1.0",
        "runs": [
            {
                "tool": {"driver": {"name": "addendum", "version": version, "rules": rules}},
                "columnKind": "unicodeCodePoints",
                "results": [_result(path, found) for path, violations in reports for found in violations],
            }
        ],
    }


def _result(path: str, found: Mapping[str, Any]) -> dict[str, Any]:
    region = {"startLine": found["line"], "startColumn": found["column"]}
    return {
        "ruleId": found["rule"],
        "level": found["severity"],
        "message": {"text": f"{found['message']} {found['fix']}".strip()},
        "locations": [{"physicalLocation": {"artifactLocation": {"uri": path}, "region": region}}],
    }


def github(reports: Sequence[tuple[str, Sequence[Mapping[str, Any]]]]) -> Iterable[str]:
    """Yield a workflow command for each violation."""
    for path, violations in reports:
        for found in violations:
            place = (
                f"file={_property(path)},line={found['line']},col={found['column']},title={_property(found['rule'])}"
            )
            text = f"{found['rule']} {found['message']} {found['fix']}"
            yield f"::{found['severity']} {place}::{_data(text.strip())}"


def _data(text: str) -> str:
    return text.replace("%", "%25").replace("\r", "%0D").replace("\n", "%0A")


def _property(text: str) -> str:
    return _data(text).replace(":", "%3A").replace(",", "%2C")
