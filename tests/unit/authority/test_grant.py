"""The grant: one shape for every limit, read strictly, met with a ceiling; free text is no part of it."""

from __future__ import annotations

import tomllib
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from addendum.authority.approval import Approval, needed
from addendum.authority.catalog import Capability, Catalog
from addendum.authority.ceiling import meet
from addendum.authority.grant import Grant, Limit, from_json
from addendum.authority.objections import objections
from addendum.authority.saturation import Saturation
from addendum.errors import ConfigError

FULL = """
worst_case = "at_run_time"
principal = "team-media"
expires = 2027-01-01T00:00:00Z
forbid_together = [["private_read", "untrusted_content", "open_world_write"]]
additive = "refuse"
influence = "L1"
about = "for the media team"
limits = [
  {meter = "cost_usd", max = "0.5", scope = "principal"},
  {meter = "bytes_out", max = 65536, per = "P1D", scope = "principal"},
  {meter = "agents", max = 3},
  {meter = "journal_records", max = 100},
]
[[approval]]
when = "above_cost"
usd = "0.10"
[[approval]]
when = "nth"
capability = "file.delete"
n = 2
[capabilities."file.delete"]
where = {"/path" = {enum = ["a", "b"]}}
limits = [{meter = "distinct:/path", max = 1}, {meter = "calls", max = 9, per = "lifetime", scope = "principal"}]
"""


def test_every_part_is_read_and_written_back() -> None:
    """What a file says is what the grant says, and to_json is a file that says the same."""
    grant = from_json(tomllib.loads(FULL))
    assert grant.limits[1] == Limit("bytes_out", 65536, 86400.0, None, True)
    assert grant.capabilities["file.delete"][0] == Limit("distinct:/path", 1, "run", "file.delete")
    assert grant.approvals == (Approval("above_cost", None, 100_000_000), Approval("nth", "file.delete", n=2))
    assert from_json(grant.to_json()) == grant


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ('limits = [{meter = "lies", max = 1}]', "meter"),
        ('limits = [{meter = "calls", max = -1}]', "max"),
        ('limits = [{meter = "calls", max = true}]', "max"),
        ('limits = [{meter = "tokens", max = 1, per = "hour"}]', "per time"),
        ('limits = [{meter = "calls", max = 1, per = "P0D"}]', "per"),
        ('limits = [{meter = "calls", max = 1, per = "lifetime"}]', "lifetime"),
        ('limits = [{meter = "calls", max = 1, scope = "principal"}]', "no principal"),
        ('limits = [{meter = "calls", max = 1, scope = "planet"}]', "scope"),
        ('limits = [{meter = "distinct:/x", max = 1}]', "distinct"),
        ('limits = [{meter = "calls", max = 1, when = 2}]', "when"),
        ('expires = "tomorrow"', "expires"),
        ("expires = 2027-01-01T00:00:00", "expires"),
        ('[[approval]]\nwhen = "sometimes"', "when"),
        ('[[approval]]\nwhen = "nth"', "keys"),
        ('forbid_together = ["a"]', "forbid_together"),
        ('influence = "L9"', "influence"),
        ('principal = "a b"', "principal"),
        ("surprise = 1", "surprise"),
    ],
)
def test_what_is_wrong_is_named(text: str, said: str) -> None:
    """Each malformed grant is a ConfigError that names the place and says what can be written."""
    with pytest.raises(ConfigError) as caught:
        from_json(tomllib.loads(text))
    assert said in caught.value.message
    assert caught.value.hint


TEXTS = st.text(max_size=30)


@given(about=TEXTS, described=TEXTS)
def test_free_text_is_no_input_of_the_authority(about: str, described: str) -> None:
    """Whatever stands in the texts of a grant and a catalog, the authority's digests stay as they are."""
    grant, catalog = from_json(tomllib.loads(FULL)), Catalog([Capability(name="file.delete", effect="irreversible")])
    other = from_json({**grant.to_json(), "about": about})
    told = Catalog([Capability(name="file.delete", effect="irreversible", about=described)])
    assert other.digest == grant.digest
    assert told.digest == catalog.digest


@pytest.mark.parametrize(
    "change",
    [
        {"principal": "other"},
        {"expires": "2028-01-01T00:00:00Z"},
        {"influence": "L2"},
        {"worst_case": "refuse"},
        {"approval": []},
        {"forbid_together": []},
        {"additive": "allow"},
    ],
)
def test_everything_else_is_part_of_the_digest(change: dict[str, Any]) -> None:
    """A change of what the grant allows changes its digest."""
    grant = from_json(tomllib.loads(FULL))
    assert from_json({**grant.to_json(), **change}).digest != grant.digest


# --- the ceiling ------------------------------------------------------------------------------------------------


def _grant(**data: Any) -> Grant:
    return from_json({"capabilities": {"a": {}}, **data})


def test_what_lies_outside_the_ceiling_is_rejected_by_name() -> None:
    """More than the ceiling is a typed finding for each thing, and nothing is narrowed."""
    ceiling = _grant(limits=[{"meter": "calls", "max": 5}])
    found = meet(from_json({"capabilities": {"a": {}, "b": {}}, "limits": [{"meter": "calls", "max": 6}]}), ceiling)
    assert isinstance(found, tuple)
    assert [each.what for each in found] == ["capabilities.b", "calls"]


def test_what_a_grant_does_not_mention_is_the_ceilings() -> None:
    """The meet has the limits, narrowings, rules and the end of both."""
    ceiling = from_json(
        {
            "capabilities": {"a": {"where": {"type": "object"}}},
            "limits": [{"meter": "calls", "max": 5}],
            "expires": "2027-01-01T00:00:00Z",
            "approval": [{"when": "irreversible"}],
            "influence": "L1",
        }
    )
    found = meet(_grant(limits=[{"meter": "tokens", "max": 9}]), ceiling)
    assert isinstance(found, Grant)
    assert {str(limit) for limit in found.limits} == {
        "the whole run: tokens <= 9 per run",
        "the whole run: calls <= 5 per run",
    }
    assert (found.expires, found.influence) == (ceiling.expires, "L1")
    assert found.approvals == ceiling.approvals
    assert found.where == ceiling.where


@given(st.integers(0, 9), st.integers(0, 9), st.integers(0, 9))
def test_the_meet_is_never_above_either(asked: int, own: int, above: int) -> None:
    """Whatever two grants say, their meet allows no more than the ceiling, and meeting again changes nothing."""
    grant = from_json(
        {
            "capabilities": {"a": {"limits": [{"meter": "calls", "max": own}]}},
            "limits": [{"meter": "calls", "max": asked}],
        }
    )
    ceiling = _grant(limits=[{"meter": "calls", "max": above}])
    found = meet(grant, ceiling)
    assert isinstance(found, tuple) is (asked > above)
    if isinstance(found, Grant):
        assert all(limit.most <= above for limit in found.limits)
        assert meet(found, ceiling) == found


# --- combinations and channels without a bound -----------------------------------------------------------------


PRIVATE = Capability(name="mail.read", effect="read", open_world=False)
WEB = Capability(name="web.fetch", effect="read", open_world=True)
SEND = Capability(name="mail.send", effect="irreversible")


def test_a_forbidden_combination_is_an_objection() -> None:
    """Private reads, untrusted content and a way out, together, are refused where the grant forbids them together."""
    catalog = Catalog([PRIVATE, WEB, SEND])
    together = [["private_read", "untrusted_content", "open_world_write"]]
    whole = from_json(
        {"capabilities": {"mail.read": {}, "web.fetch": {}, "mail.send": {}}, "forbid_together": together}
    )
    (found,) = objections(whole, catalog)
    assert (found.code, found.names) == ("forbid_together", ("mail.read", "mail.send", "web.fetch"))
    assert not list(objections(from_json({"capabilities": {"mail.read": {}}, "forbid_together": together}), catalog))


@pytest.mark.parametrize(
    ("entry", "claim", "admitted"),
    [
        ({}, None, False),
        ({"limits": [{"meter": "calls", "max": 3}]}, None, True),
        ({"limits": [{"meter": "calls", "max": 3, "per": "hour"}]}, None, False),
        ({}, Saturation("absorbing"), False),
        ({}, Saturation("absorbing", evidence="e"), True),
        ({}, Saturation("quota", n=3, key="session", evidence="e"), False),
        ({}, Saturation("idempotent", domain="/to", evidence="e"), False),
        ({"where": {"/to": {"enum": ["x"]}}}, Saturation("idempotent", domain="/to", evidence="e"), True),
    ],
)
def test_a_channel_without_a_bound_is_refused_where_the_grant_says_so(
    entry: dict[str, Any], claim: Saturation | None, admitted: bool
) -> None:
    """A meter bounds a channel, and so does a claim that was probed over a finite domain; a rate alone does not."""
    catalog = Catalog([Capability(name="mail.send", effect="irreversible", saturation=claim)])
    grant = from_json({"capabilities": {"mail.send": entry}, "additive": "refuse"})
    assert (not list(objections(grant, catalog))) is admitted


def test_rules_of_approval_say_which_call_they_are_about() -> None:
    """Each kind of rule applies to its calls and no others."""
    rules = from_json(tomllib.loads(FULL)).approvals
    delete = Capability(name="file.delete", effect="irreversible")
    dear = Capability(name="video.make", effect="paid", price=100_000_001)
    assert needed(rules, delete, 0) is None
    assert needed(rules, delete, 1) == rules[1]
    assert needed(rules, dear, 0) == rules[0]
    assert needed((Approval("irreversible"),), delete, 0) is not None
    assert needed((Approval("always", "other"),), delete, 0) is None
