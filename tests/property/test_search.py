"""A deterministic part of the long search (`adversary.search`): nothing is wrong, and everything is reached.

What a generator doesn't reach is not tested, however many examples there are; so each edit, each way to end and each
kind of counterexample has a minimum here.
"""

from __future__ import annotations

from collections import Counter
from functools import lru_cache

import pytest
from adversary.reshaping import REPAIRING
from adversary.search import EVERYTHING, HANDED, MODES, episode

pytestmark = pytest.mark.slow

EPISODES = 60
"""Of each mode. The long search takes thousands: see `adversary.search`."""
LEAST = {
    "end completed": 200,
    "end not_admitted": 80,
    "end failed": 3,
    "end stopped divergence": 5,
    "end stopped repeat": 5,
    "end stopped cancelled": 5,
    "end stopped unresolved": 3,
    "killed": 5,
    "edit dropped": 20,
    "edit resumed": 20,
    "stop ambiguous": 15,
    "stop call_changed": 50,
    "stop capability_changed": 15,
    "stop divergence": 5,
    "stop removed": 25,
    "expected": 6,
    "late": 10,
    "orphans": 6,
    "rebound": 25,
    "replayed": 200,
    "sent": 100,
}
"""How often the sample reaches what an edit can lead to."""


FOUND = [
    ("mixed", 20503),  # a failure that lost its race before it was tried again
    ("reshaped", 401286),  # the same, and the failed call was moved
    ("reshape", 400780),  # what is beyond the new bounds moved behind new work, and was an orphan in the plan
    ("rough", 30),  # a resume dropped again what its revision had dropped, and paid for it again
    ("rough", 55),  # what was dropped is served in a later revision
    ("rough", 500265),  # equal lists changed places, killed half-way, and the ledger warns of a repeat
    ("rough", 500447),  # what a revision dropped stays dropped when it is resumed
    ("rougher", 500396),  # an execution that went astray twice told its observer everything twice
    ("same", 110172),  # as many equal calls as results, in their order, and one that failed is tried again
    ("again", 60839),  # what fan-outs of one function that changed places have had since
    ("rare", 400499),  # one list of equal calls is longer now and the other shorter
    ("again", 600064),  # equal lists changed places, and the second one is shorter
    ("again", 600001),  # a copy of a use has the number of another use, and a helper inside is written otherwise
    ("rougher", 500280),  # one of two equal calls was given up, and new work in front gives the other its number
    ("rougher", 810148),  # a call is given up behind new work, and an equal one, written otherwise, has its number
    ("rougher", 810796),  # what a race's branch claims late, a replay finds at once: the winner was taken anew
    ("equal", 1000738),  # the same, between a plan and its revision
    ("rougher", 810318),  # kept in other words where it stands, behind a new read: no move
    ("rougher", 2000716),  # a branch asks for what another one has, and its own has, too
    ("reshape", 2000924),  # of two ways one is as near by a retry's first try alone, which failed
    ("rough", 2001644),  # a plan expected what had been given up, and the run paid for it
    ("rougher", 2001735),  # what had been given up was served to another call than its own
    ("rougher", 2002006),  # a condition around a loop: what is one more call of it had the next call's result
    ("equal", 20823),  # more helpers of helpers than the checker follows
]
"""Episodes that were wrong, or that the oracle took for wrong."""


@lru_cache(maxsize=1)
def sample() -> tuple[Counter[str], list[str]]:
    """Make the episodes of every mode."""
    reached: Counter[str] = Counter()
    wrong: list[str] = []
    for name, mode in MODES.items():
        for seed in range(EPISODES):
            found = episode(seed, mode)
            reached.update(found.reached)
            wrong += [f"{name} {seed}: {text}" for text in found.wrong]
    return reached, wrong


def test_no_decision_of_the_sample_is_wrong() -> None:
    """No result is served for other work, none is paid for twice, each plan is kept, each replay is the same."""
    reached, wrong = sample()
    assert wrong == []
    assert not reached["too involved"], "the checker follows the scripts of the sample"


@pytest.mark.parametrize(("mode", "seed"), FOUND)
def test_what_the_long_search_found_is_mended(mode: str, seed: int) -> None:
    """Each stays as it was found, so that whoever changes the matching or the oracle sees it again."""
    assert episode(seed, MODES[mode]).wrong == []


@pytest.mark.parametrize("edit", sorted({edit.__name__ for edit in EVERYTHING + HANDED + REPAIRING}))
def test_each_edit_is_made(edit: str) -> None:
    """No edit is only in the list."""
    assert sample()[0][f"edit {edit}"] >= 6


@pytest.mark.parametrize("what", LEAST)
def test_what_an_edit_can_lead_to_is_reached(what: str) -> None:
    """Admitted, refused for each reason, stopped behind its frontier, moved early and late, expected, left over."""
    assert sample()[0][what] >= LEAST[what]
