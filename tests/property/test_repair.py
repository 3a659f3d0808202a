"""Over random answers of a model: nothing is executed, money stays within the grant, no grant or policy changes."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.repairing import CHANGED, CUT_OFF, DIVERGING, FILM, MENDED, PLACE, UNBOUNDED, World, answer, granted

from addendum.authority.catalog import WRITE
from addendum.authority.grant import from_json
from addendum.errors import FAILURE_CODES, CapabilityError, Rejected, UnknownOutcome
from addendum.ports import Usage, Written
from addendum.records.certificate import certificate
from addendum.repair.outcome import Outcome
from addendum.runs.query import show
from addendum.sandbox.embedded import EmbeddedSandbox
from addendum.testing.scripted_model import ScriptedModel

MOST = 7_000_000
SCRIPTS = (
    FILM,
    MENDED,
    CHANGED,
    DIVERGING,
    CUT_OFF,
    UNBOUNDED,
    "",
    "x = [",
    MENDED.replace("video.compose", "mail.send"),
    MENDED.replace("    urls = []\n", "    urls = []\n    raise ValueError('no')\n"),
    MENDED.replace('"brief": args["brief"]', '"brief": "other"'),
    "async def orchestrate(ctx, args):\n    return 1\n",
)
PLACES = (PLACE, "orchestrate/storyboard.plan#0", "orchestrate/video.compose#0", "nowhere/x.y#0", "orchestrate/for.0")

values = st.one_of(
    st.sampled_from(SCRIPTS).map(answer),
    st.builds(
        lambda script, moves, drops: answer(script, moves=moves, drops=drops),
        st.sampled_from(SCRIPTS),
        st.lists(
            st.builds(lambda old, new: {"old": old, "new": new}, st.sampled_from(PLACES), st.sampled_from(PLACES)),
            max_size=3,
        ),
        st.lists(st.sampled_from(PLACES), max_size=2),
    ),
    st.recursive(
        st.none() | st.booleans() | st.integers(-9, 9) | st.text(max_size=8),
        lambda below: st.lists(below, max_size=3) | st.dictionaries(st.text(max_size=6), below, max_size=3),
        max_leaves=6,
    ),
)
answers = st.one_of(
    st.builds(
        lambda value, cost, tokens: Written(value, Usage(cost, tokens), "m"),
        values,
        st.one_of(st.none(), st.integers(0, MOST)),
        st.integers(0, 900),
    ),
    st.builds(
        lambda code, retryable, cost: CapabilityError(code, "no", retryable, cost_usd=cost),
        st.sampled_from(FAILURE_CODES),
        st.booleans(),
        st.sampled_from(["0", "0.001", "0.007"]),
    ),
    st.just(UnknownOutcome("gone")),
)


@pytest.fixture(scope="module")
def sandbox() -> Iterator[EmbeddedSandbox]:
    found = EmbeddedSandbox()
    yield found
    found.close()


def attempt(world: World, said: list[Any], attempts: int, policy: dict[str, object]) -> Outcome | None:
    """Have the run mended by a model with these answers, if there is something to mend."""
    by = ScriptedModel(said, most=MOST, most_tokens=1000)
    try:
        return world.repair(by, attempts=attempts, policy=policy, again=True)
    except Rejected:
        return None


@given(
    said=st.lists(answers, min_size=1, max_size=6),
    attempts=st.integers(1, 4),
    loops=st.integers(1, 3),
    budget=st.integers(70, 110),
    relocation=st.sampled_from(["strict", "declared", "verified"]),
)
def test_a_model_executes_nothing_spends_within_the_grant_and_changes_no_authority(
    sandbox: EmbeddedSandbox, said: list[Any], attempts: int, loops: int, budget: int, relocation: str
) -> None:
    """Whatever it says, in however many loops; the journal stays one that is verified."""
    grant = granted(limits=[{"meter": "cost_usd", "max": f"0.{budget:03}"}])
    world = World(sandbox, grant=grant)
    world.failed()
    before = world.history()
    digest = from_json(before.grant or {}).digest

    found = [attempt(world, said, attempts, {"relocation": relocation}) for _ in range(loops)]

    after = world.history()
    assert world.dispatched == 4
    assert (after.revision, after.policy, len(after.records)) == (1, before.policy, len(before.records))
    assert from_json(after.grant or {}).digest == digest
    assert world.kinds().count("grant") == 1
    assert after.drafts == {}
    assert sum(totals.cost for totals in after.totals.values()) <= budget * 1_000_000
    written = after.totals.get(WRITE)
    tried = sum(len(outcome.attempts) for outcome in found if outcome is not None)
    assert (written.calls if written is not None else 0) == tried
    assert (written.cost if written is not None else 0) == sum(outcome.cost for outcome in found if outcome is not None)
    assert len(show(world.store, "r").drafts) == tried
    assert certificate(world.store.entries("r"), world.store.blob).differences == []
    for outcome in found:
        assert outcome is not None
        assert outcome.exit_code in (0, 3, 4)
        assert outcome.accepted == (outcome.status == "accepted")
        assert outcome.candidate in (None, MENDED, SCRIPTS[8])
