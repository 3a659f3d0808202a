"""The worst case is an upper bound on every run, and exact where the calls don't depend on data."""

from __future__ import annotations

from random import Random
from typing import Any

from hypothesis import given
from hypothesis import strategies as st
from programs import count, generate
from wild import wild

from addendum.script.checker import check

SEEDS = st.integers(min_value=0, max_value=2**32)


def _args(random: Random) -> dict[str, Any]:
    return {
        "items": list(range(60)),
        "many": list(range(random.choice([0, 1, 5, 60]))),
        "n": random.choice([0, 1, 2, 50, 99]),
        "flag": random.random() < 0.5,
        "a": list(range(random.randrange(6))),
    }


@given(seed=SEEDS)
def test_no_run_makes_more_calls_than_the_worst_case(seed: int) -> None:
    """Whatever the arguments, the results and the failures are, each capability is called at most that often."""
    program = generate(Random(seed), exact=False)
    report = check(program.source)
    assert all(violation.rule == "R02" for violation in report.errors), [str(v) for v in report.errors]
    for attempt in range(4):
        random = Random(seed * 10 + attempt)
        calls = count(program.source, _args(random), seed + attempt, failing=0.2 if attempt else 0.0)
        for capability, worst in report.facts.worst_case.items():
            assert worst is not None
            assert calls[capability] <= worst, (capability, program.source)


@given(seed=SEEDS)
def test_the_worst_case_is_exact_where_nothing_depends_on_data(seed: int) -> None:
    """Without conditions, every run makes exactly as many calls."""
    program = generate(Random(seed), exact=True)
    report = check(program.source)
    assert report.ok, [str(violation) for violation in report.errors]
    calls = count(program.source, _args(Random(seed)), seed)
    assert dict(report.facts.worst_case) == {name: calls[name] for name in report.facts.worst_case}, program.source


@given(seed=SEEDS)
def test_what_is_accepted_of_wild_programs_keeps_its_worst_case(seed: int) -> None:
    """Aliases, closures, shared state and lists that grow: most have no bound, and the others keep theirs."""
    source = wild(Random(seed))
    report = check(source)
    if {"R03", "R05"} & {violation.rule for violation in report.errors}:
        return
    for attempt in range(3):
        random = Random(seed * 10 + attempt)
        args = {**_args(random), "n": random.choice([-5, 0, 1, 2, 99]), "q": list(range(random.choice([0, 3, 40])))}
        calls = count(source, args, seed + attempt, failing=0.2 if attempt else 0.0)
        for capability, worst in report.facts.worst_case.items():
            assert worst is not None
            assert calls[capability] <= worst, (capability, source)
