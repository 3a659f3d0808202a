"""Reading what a person passes."""

from __future__ import annotations

from pathlib import Path

import pytest

from addendum.authority.grant import Limit
from addendum.cli import inputs
from addendum.errors import AddendumError, ConfigError, NotFound, NotJson, UsageError


@pytest.fixture
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """An empty current folder."""
    monkeypatch.chdir(tmp_path)
    return tmp_path


@pytest.mark.parametrize("text", ['{"a": 1}', " [1]", '"x"', "1", "null", "true"])
def test_json_itself_is_taken(here: Path, text: str) -> None:
    """Any JSON value, when no file has that name."""
    import json

    assert inputs.args(text, "default") == json.loads(text)


def test_a_file_wins_over_a_number_of_its_name(here: Path) -> None:
    """`1` is a file if there is one; `@1` is one in any case."""
    (here / "1").write_text("[2]", "utf-8")
    assert inputs.args("1", None) == [2]
    assert inputs.args("@1", None) == [2]
    with pytest.raises(NotFound):
        inputs.args("@2", None)


@pytest.mark.parametrize("text", ['{"a": NaN}', '{"a": 1, "a": 2}', '{"a": 1'])
def test_what_json_cannot_say_is_refused(here: Path, text: str) -> None:
    """NaN, a key that stands twice, and half an object."""
    with pytest.raises(NotJson):
        inputs.args(text, None)


def test_a_text_that_no_file_can_be_named_is_json(here: Path) -> None:
    """A long number is one, and anything else that is long is no JSON."""
    assert inputs.args("1" * 3000, None) == int("1" * 3000)
    for text in ("x" * 5000, "1" * 5000):
        with pytest.raises(NotJson, match=r"^The args: This is not JSON"):
            inputs.args(text, None)


@pytest.mark.parametrize("text", ["", "# what a run may do\n", "{}"])
def test_a_grant_that_is_empty_grants_nothing(here: Path, text: str) -> None:
    """A full disk leaves such a file, and one without capabilities grants all of them."""
    (here / "grant.toml").write_text(text, "utf-8")
    with pytest.raises(ConfigError, match="nothing says what it grants"):
        inputs.grant("grant.toml", {"a.b": 1})
    (here / "grant.toml").write_text('approval = [{capability = "a.b", when = "always"}]\n', "utf-8")
    assert set(inputs.grant("grant.toml", {"a.b": 1}).capabilities) == {"a.b"}


def test_a_script_is_called_as_its_file(here: Path) -> None:
    """A name that is no text gets its replacement character: it goes into the journal."""
    assert inputs.label("folder/é.py") == "é.py"
    assert inputs.label("-") == ""
    assert inputs.label("s\udcff.py") == "s\ufffd.py"


def test_a_file_that_is_no_json_is_named(here: Path) -> None:
    """The error says which file it is."""
    (here / "a.json").write_text("{", "utf-8")
    with pytest.raises(NotJson, match=r"a\.json"):
        inputs.args("a.json", None)


def test_files_that_cannot_be_read_are_usage_errors(here: Path) -> None:
    """A folder, a missing file, bytes that are no text, a name that no file can have."""
    (here / "binary").write_bytes(b"\xff\xfe")
    for name in (".", "missing", "binary", "a\0b"):
        with pytest.raises(UsageError):
            inputs.script(name)


def test_a_byte_order_mark_is_no_part_of_a_script(here: Path) -> None:
    """Editors of other systems put one there."""
    (here / "s.py").write_bytes(b"\xef\xbb\xbfasync def")
    assert inputs.script("s.py") == "async def"


def test_policies_are_checked_here() -> None:
    """A name or a value that there isn't, twice the same name, and two ways that disagree."""
    assert inputs.policies(["orphans=stop"], "strict") == {"orphans": "stop", "relocation": "strict"}
    for given, relocation in (
        (["orphans"], None),
        (["orphans=stop", "orphans=warn"], None),
        (["relocation=strict"], "verified"),
        (["nothing=1"], None),
        (None, "loose"),
    ):
        with pytest.raises(UsageError):
            inputs.policies(given, relocation)


def test_supersede_is_changed_or_identities() -> None:
    """`changed` allows all; an identity allows itself; anything else is a mistake, not an identity that never comes."""
    assert inputs.allowances(["changed"], "open").supersede is True
    assert inputs.allowances(None, "open").supersede is False
    identity = "orchestrate/for.0[1] > orchestrate/for.0/image.generate#0"
    assert inputs.allowances([identity], "all").supersede == frozenset({identity})
    for supersede, retry in ((["an image"], "open"), (None, "some")):
        with pytest.raises(UsageError):
            inputs.allowances(supersede, retry)


def test_a_grant_is_toml_or_json_and_names_what_is_known(here: Path) -> None:
    """A typo in a capability's name would grant nothing, so it is an error."""
    known = {"image.generate": None}
    (here / "g.toml").write_text('[capabilities."image.generate"]\nlimits = [{meter = "calls", max = 2}]\n', "utf-8")
    (here / "g.json").write_text(
        '{"capabilities": {"image.generate": {"limits": [{"meter": "calls", "max": 2}]}}}', "utf-8"
    )
    expected = {"image.generate": (Limit("calls", 2, "run", "image.generate"),)}
    assert inputs.grant("g.toml", known).capabilities == inputs.grant("g.json", known).capabilities == expected
    with pytest.raises(ConfigError, match=r"image\.generate"):
        inputs.grant("g.toml", {"text.generate": None})
    (here / "bad.toml").write_text("= 1", "utf-8")
    with pytest.raises(AddendumError, match=r"bad\.toml"):
        inputs.grant("bad.toml", known)
