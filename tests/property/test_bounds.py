"""The worst case is an upper bound on every run, and exact where the calls don't depend on data."""

from __future__ import annotations

import itertools
import re
import textwrap
from pathlib import Path
from random import Random
from typing import Any

import pytest
from everyday import everyday
from hypothesis import given
from hypothesis import strategies as st
from mixed import mixed
from programs import count, generate
from tangled import tangled
from wild import wild
from windows import windows

from addendum.script.checker import check
from addendum.script.report import Report

_PART = re.compile(r"^## ([^\n]*)\n```python\n(.*?)```", re.DOTALL | re.MULTILINE)
_HERE = Path(__file__).parent
REACHED = _PART.findall((_HERE / "reached.md").read_text(encoding="utf-8"))
ENDLESS = _PART.findall((_HERE / "endless.md").read_text(encoding="utf-8"))
_AROUND = """async def s(value, item, index):
    return value


async def s0():
    return 1


async def orchestrate(ctx, args):
"""
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
        _run_within(report, program.source, _args(random), seed + attempt, failing=0.2 if attempt else 0.0)


@given(seed=SEEDS)
def test_the_worst_case_is_exact_where_nothing_depends_on_data(seed: int) -> None:
    """Without conditions, every run makes exactly as many calls."""
    program = generate(Random(seed), exact=True)
    report = check(program.source)
    assert report.ok, [str(violation) for violation in report.errors]
    calls = count(program.source, _args(Random(seed)), seed)
    assert dict(report.facts.worst_case) == {name: calls[name] for name in report.facts.worst_case}, program.source


def _run_within(report: Report, source: str, args: Any, seed: int, *, failing: float) -> None:
    """Run a script: it makes no more calls than its worst case says."""
    calls = count(source, args, seed, failing=failing)
    for capability, worst in report.facts.worst_case.items():
        assert worst is not None
        assert calls[capability] <= worst, (capability, source)


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
        _run_within(report, source, args, seed + attempt, failing=0.2 if attempt else 0.0)


@given(seed=SEEDS)
def test_no_branch_or_loop_over_mixed_values_is_overlooked(seed: int) -> None:
    """Texts, numbers, None and containers in each other: what a run reaches, and how often, is in the worst case."""
    for one in range(seed * 4, seed * 4 + 4):  # many are refused, and most runs ask for little
        _nothing_overlooked(mixed(Random(one)), one)


def _nothing_overlooked(source: str, seed: int) -> None:
    report = check(source)
    if {"R00", "R03", "R05"} & {violation.rule for violation in report.errors}:
        return
    for attempt in range(4):
        random = Random(seed * 10 + attempt)
        args = {
            "t": random.choice(["", "a", "bbb"]),
            "m": random.choice([0, 1, 3, 0.5, -0.5]),
            "l": random.choice([[], [1], ["aa", None, 2]]),
            "k": random.choice(["a", "bb", 0]),
            "n": random.choice([0, 1, -1]),
            "flag": random.random() < 0.5,
        }
        for capability, made in count(source, args, seed + attempt).items():
            worst = report.facts.worst_case[capability]
            assert worst is not None
            assert made <= worst, (capability, source)


@given(seed=SEEDS)
def test_what_changes_in_the_middle_is_counted(seed: int) -> None:
    """What a test, a statement that fails, a walk or a branch changes while it runs is in the worst case."""
    for one in range(seed * 4, seed * 4 + 4):
        source = tangled(Random(one))
        report = check(source)
        if {"R00", "R03", "R05"} & {violation.rule for violation in report.errors}:
            continue
        for attempt in range(3):
            random = Random(one * 10 + attempt)
            args = {
                "n": random.choice([0, 1, 2, 5]),
                "flag": random.random() < 0.5,
                "l": [[1, 2]] * random.randrange(4),
            }
            args["q"] = random.choice([[1], [[1]], {}])
            _run_within(report, source, args, one + attempt, failing=0.2 if attempt else 0.0)


@given(seed=SEEDS)
def test_what_python_has_for_every_day_is_counted(seed: int) -> None:
    """Closures, defaults, `finally`, `match`, walrus, views, strides, unpacking: as many calls as counted, or fewer."""
    for one in range(seed * 4, seed * 4 + 4):
        source = everyday(Random(one))
        report = check(source)
        if {"R00", "R03", "R05", "R10"} & {violation.rule for violation in report.errors}:
            continue
        for attempt in range(3):
            random = Random(one * 10 + attempt)
            flags = {"f": random.random() < 0.5, "g": random.random() < 0.5}
            items = [random.randrange(4) for _ in range(random.choice([0, 1, 3, 9]))]
            args = {"n": random.choice([-5, 0, 1, 2, 9]), "l": items, **flags}
            _run_within(report, source, args, one + attempt, failing=0.25 if attempt == 2 else 0.0)


@given(seed=SEEDS)
def test_parts_of_lists_are_no_longer_than_they_are_taken_for(seed: int) -> None:
    """Windows, rests, strides and pairs, whichever of them a run walks: as many calls as counted, or fewer."""
    for one in range(seed * 4, seed * 4 + 4):
        source = windows(Random(one))
        report = check(source)
        if {"R03", "R05"} & {violation.rule for violation in report.errors}:
            continue
        for attempt in range(3):
            random = Random(one * 10 + attempt)
            args = {"f": [random.random() < 0.5 for _ in range(9)], "l": [0] * random.choice([0, 3, 9])}
            _run_within(report, source, args, one + attempt, failing=0.15 if attempt == 2 else 0.0)


@pytest.mark.parametrize("body", [pytest.param(body, id=title) for title, body in REACHED])
def test_what_is_reached_is_counted(body: str) -> None:
    """What a script does with texts, floats and mixed containers is in its worst case, whatever the data."""
    source = _AROUND + textwrap.indent(body, "    ") + "    return 1\n"
    report = check(source)
    assert report.ok, [str(violation) for violation in report.errors]
    worst = report.facts.worst_case["a.b"]
    assert worst is not None
    for flag, number, share in itertools.product([False, True], [0, 1, 2, 3, 0.5, 1.5], [0.5, 3, -0.25]):
        args = {"flag": flag, "n": number, "f": share, "k": "a", "e": "", "d": {}, "t": "xx"}
        args |= {"big": list(range(200)), "l": [[1, 2, 3], [1], [2]]}
        assert count(source, args, 1)["a.b"] <= worst


@pytest.mark.parametrize("body", [pytest.param(body, id=title) for title, body in ENDLESS])
def test_what_has_no_bound_is_refused(body: str) -> None:
    """A loop that may go on for ever, or as long as the data has it, however its bound looks."""
    report = check(_AROUND + textwrap.indent(body, "    ") + "    return 1\n")
    assert {"R03", "R05"} & {violation.rule for violation in report.errors}
