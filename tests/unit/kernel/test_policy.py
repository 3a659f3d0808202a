"""Policies: named, kept, and changed only by what is named."""

from __future__ import annotations

import pytest

from addendum.errors import ConfigError
from addendum.kernel.policy import CHOICES, Allowances, Policy


def test_every_choice_can_be_made_and_is_written_back() -> None:
    """What `to_json` says, `override` takes."""
    for name, choices in CHOICES.items():
        for choice in choices:
            changed = Policy().override({name: choice})
            assert changed.to_json() == {**Policy().to_json(), name: choice}
            assert Policy().override(changed.to_json()) == changed


@pytest.mark.parametrize("changes", [{"ledgers": "warn"}, {"ledger": "never"}, {"ledger": None}, {"ledger": ["off"]}])
def test_what_is_no_policy_is_refused_with_the_ones_there_are(changes: dict[str, object]) -> None:
    """A typo is no opt-out."""
    with pytest.raises(ConfigError) as caught:
        Policy().override(changes)
    assert caught.value.hint.startswith(("There are", "It is one of"))


def test_a_supersede_is_allowed_for_all_or_for_the_named() -> None:
    """Never implied."""
    assert not Allowances().may_supersede("a")
    assert Allowances(supersede=True).may_supersede("a")
    named = Allowances(supersede=frozenset({"a"}))
    assert named.may_supersede("a")
    assert not named.may_supersede("b")
