"""The catalog as a person writes it: read strictly, merged over a provider's, linted, and named by a digest."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from addendum.authority.approval import APPROVE
from addendum.authority.catalog import Capability, Catalog, changes
from addendum.authority.catalogfile import lint, merged
from addendum.errors import ConfigError, NotFound
from addendum.runs.given import catalog as read
from addendum.testing import demo

GOOD = """
[capability."image.generate"]
version = "2"
effect = "paid"
price_usd = "0.02"
most_usd = "0.04"
agentic = true
input = "in.json"
output = {type = "string", maxLength = 9}
max = {tokens = 40, bytes_out = 4096, bytes_in = 100, seconds = 12}
retries = 1
labels = ["dear"]
saturation = {class = "quota", n = 3, key = "session"}
recovery = {provider_key = true, lookup = true}
"""


def written(folder: Path, text: str) -> Path:
    (folder / "in.json").write_text('{"type": "object"}', "utf-8")
    path = folder / "catalog.toml"
    path.write_text(text, "utf-8")
    return path


def test_every_key_is_read(tmp_path: Path) -> None:
    """What a file says of a capability is what the catalog has, in place of what the provider said."""
    provided = Catalog([Capability(name="image.generate", effect="read"), Capability(name="other", effect="read")])
    found = merged(provided, read(written(tmp_path, GOOD)))
    image = found["image.generate"]
    assert (image.version, image.effect, image.price, image.reserve) == ("2", "paid", 20_000_000, 40_000_000)
    assert (image.most_tokens, image.max_payload, image.max_result, image.timeout) == (40, 4096, 100, 12.0)
    assert image.facts == {
        "read_only": False,
        "destructive": False,
        "idempotent": False,
        "open_world": True,
        "agentic": True,
    }
    assert (image.input, image.lookup, image.provider_key) == ({"type": "object"}, True, True)
    assert {"dear", "agentic", "untrusted_content", "open_world_write"} <= image.kinds
    assert set(found) == {"image.generate", "other"}


@pytest.mark.parametrize(
    ("old", "new", "said"),
    [
        ('effect = "paid"', 'effect = "cheap"', "cheap"),
        ("agentic = true", "agentic = 1", "agentic"),
        ("tokens = 40", 'tokens = "many"', "tokens"),
        ('input = "in.json"', 'input = "out.json"', "input"),
        ("n = 3, ", "", "needs 'n'"),
        ('class = "quota"', 'class = "magic"', "magic"),
        ("retries = 1", "retrise = 1", "retrise"),
        ('most_usd = "0.04"', 'most_usd = "0.01"', "0.01"),
    ],
)
def test_what_is_wrong_is_named(tmp_path: Path, old: str, new: str, said: str) -> None:
    """Each malformed catalog is a ConfigError with what is wrong."""
    with pytest.raises(ConfigError) as caught:
        read(written(tmp_path, GOOD.replace(old, new)))
    assert said in caught.value.message


def test_a_file_that_is_not_there(tmp_path: Path) -> None:
    """It is not found, not an empty catalog."""
    with pytest.raises(NotFound):
        read(tmp_path / "none.toml")


def test_lint_tells_what_cannot_be_from_what_is_open(tmp_path: Path) -> None:
    """A quota per session claims nothing; a read that destroys is a contradiction; a schema without sizes is open."""
    remarks = list(lint(read(written(tmp_path, GOOD))))
    assert any(remark.error and "session" in remark.message for remark in remarks)
    assert any(not remark.error and "no size" in remark.message for remark in remarks)
    wrong = Capability(name="x", effect="read", destructive=True, output={"type": "null"}, input={"type": "null"})
    assert [remark.error for remark in lint({"x": wrong})] == [True]


def test_lint_has_nothing_to_say_of_what_nobody_wrote() -> None:
    """A person's answer is always there as it is; described otherwise, it is somebody's to mend."""
    own = replace(APPROVE, input={"type": "object"})
    assert list(lint({APPROVE.name: APPROVE})) == []
    assert list(lint({APPROVE.name: demo.CATALOG[APPROVE.name]})) == []
    assert [remark.message.split()[1] for remark in lint({APPROVE.name: own})] == ["payloads", "results"]


def test_a_digest_names_a_catalog_and_changes_are_told_by_field() -> None:
    """Any fact, price or schema is part of it; a text is not."""
    first = Catalog([Capability(name="a", effect="paid", price=1), Capability(name="b", effect="read")])
    other = Catalog([Capability(name="a", effect="paid", price=2, model="new", about="told otherwise")])
    before = [first[name].to_json() for name in first]
    assert first.digest != other.digest
    assert changes(before, other, ["a", "b", "c"]) == {
        "a": {"model": ["", "new"], "most": [1, 2], "price": [1, 2]},
        "b": {"gone": [False, True]},
    }


def test_how_the_host_waits_is_no_change_of_what_a_capability_does() -> None:
    """A longer timeout, other retries and a lookup stop no run; another version does."""
    before = Capability(name="image.generate", effect="paid")
    patient = replace(before, timeout=60.0, retries=5, lookup=True)

    assert changes([before.to_json()], Catalog([patient]), ["image.generate"]) == {}
    assert set(
        changes([before.to_json()], Catalog([replace(patient, version="2")]), ["image.generate"])["image.generate"]
    ) == {"version"}
