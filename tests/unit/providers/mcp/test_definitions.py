"""Pins: what a person looked at is what counts, and nothing else."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from addendum.errors import ConfigError
from addendum.providers.mcp.definitions import Definition, definition, differences, read, said, write


def tool(**more: Any) -> Definition:
    """A tool's definition."""
    return definition({"name": "search", "inputSchema": {"type": "object"}, **more})


def test_pins_are_read_as_they_were_written(tmp_path: Path) -> None:
    """Definitions and digests come back, whatever their order."""
    found = {"search": tool(description="Söker."), "b": definition({"name": "b", "inputSchema": {}})}
    write(tmp_path / "pins.json", found)
    assert read(tmp_path / "pins.json") == found
    assert read(tmp_path / "none.json") is None
    write(tmp_path / "again.json", dict(reversed(found.items())))
    assert (tmp_path / "again.json").read_bytes() == (tmp_path / "pins.json").read_bytes()


@pytest.mark.parametrize(
    "spoil",
    [
        lambda data: data["tools"]["search"]["definition"].update(description="Other."),
        lambda data: data["tools"]["search"].update(digest="0" * 64),
        lambda data: data["tools"].update(other=data["tools"].pop("search")),
        lambda data: data.update(format="other/1"),
        lambda data: data.update(tools=[]),
        lambda data: data["tools"]["search"].pop("definition"),
    ],
)
def test_pins_that_were_changed_by_hand_are_refused(spoil: Any, tmp_path: Path) -> None:
    """A pin whose definition isn't the one of its digest is none."""
    path = tmp_path / "pins.json"
    write(path, {"search": tool()})
    data = json.loads(path.read_text("utf-8"))
    spoil(data)
    path.write_text(json.dumps(data), "utf-8")
    with pytest.raises(ConfigError):
        read(path)


@pytest.mark.parametrize("text", ["", "{", "[]", "null", '{"format": 1}', "[" * 100_000])
def test_a_file_that_is_none_is_refused(text: str, tmp_path: Path) -> None:
    """Anything may stand in a file."""
    (tmp_path / "pins.json").write_text(text, "utf-8")
    with pytest.raises(ConfigError, match="no file of pins"):
        read(tmp_path / "pins.json")


def test_what_a_model_decides_by_is_in_the_digest() -> None:
    """Name, description, schemas and claims count; icons and metadata don't."""
    plain = tool()
    for more in (
        {"description": "x"},
        {"title": "x"},
        {"annotations": {"readOnlyHint": True}},
        {"outputSchema": {"type": "object"}},
        {"inputSchema": {"type": "object", "title": "x"}},
    ):
        assert tool(**more).digest != plain.digest, more
    assert tool(_meta={"a": 1}, icons=[]).digest == plain.digest


def test_the_difference_is_shown() -> None:
    """By tool and by place, with what was and what is; texts of a server are shown as JSON."""
    before = {"search": tool(description="Find."), "gone": definition({"name": "gone", "inputSchema": {}})}
    after = {"search": tool(description="Find\x1b[2J"), "new": definition({"name": "new", "inputSchema": {}})}
    found = differences(before, after)
    assert set(found) == {"gone", "new", "search"}
    assert found["search"] == {"/description": ["Find.", "Find\x1b[2J"]}
    text = said(found)
    assert '"search" changed (/description was "Find.", is "Find\\u001b[2J")' in text
    assert '"gone" is gone' in text
    assert '"new" is new' in text
    assert differences(before, before) == {}
    assert differences({"search": tool(inputSchema={"n": 1})}, {"search": tool(inputSchema={"n": True})})


@pytest.mark.parametrize(
    "data",
    [
        {"inputSchema": {"type": 7}},
        {"inputSchema": {"$ref": "https://evil.example/schema"}},
        {"inputSchema": {"properties": {"a": {"$ref": "file:///etc/passwd"}}}},
        {"outputSchema": []},
        {"description": "x" * 300_000},
        {"inputSchema": {"const": 2**60}},
    ],
)
def test_a_definition_that_cannot_be_used_is_refused(data: dict[str, Any]) -> None:
    """No schema that is none, none that fetches, none that is too large."""
    with pytest.raises(ConfigError):
        tool(**data)
