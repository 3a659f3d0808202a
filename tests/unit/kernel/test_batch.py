"""Which results may be handed over in one turn: direct branches of one barrier, in the order of hand-over."""

from __future__ import annotations

import pytest

from addendum.kernel.batch import MOST_BYTES, Batches, batches
from addendum.kernel.calls import Call
from addendum.records.history import Record
from addendum.script.program import compile_program

FAN = "orchestrate/parallel#0[{}] > one/art.make#0"


def ready(*identities: str, places: tuple[int, ...] = (), ok: bool = True) -> list[tuple[Call, Record]]:
    """Return calls with records whose places in the order are `places`, or 10, 20, 30 and so on."""
    found = []
    for n, identity in enumerate(identities):
        capability = identity.rsplit("/", 1)[-1].partition("#")[0]
        capability = "ctx.race" if capability == "race" else capability
        seq = places[n] if places else 10 * n + 10
        record = Record(seq, identity, identity, capability, "f", "digest", ok, 0, 1, 1, 0, 1)
        found.append((Call(n, identity, capability, {}, b"{}", "digest"), record))
    return found


def together(calls: list[tuple[Call, Record]], line: tuple[int, ...] = (), size: int = 100) -> list[int]:
    """Return the places of those that may go with the first."""
    (call, record), *rest = calls
    return [other.order for _, other in Batches(line, lambda record: size).after(call, record, rest)]


def test_direct_branches_of_a_barrier_go_together() -> None:
    """Whatever functions and loops of the branch they stand in, and failures too; the first is in no list."""
    others = [FAN.format(1), "orchestrate/parallel#0[7] > one/for.0[3] > one/for.0/two()#0:1 > two/ctx.now#0:2"]
    assert together(ready(FAN.format(0), *others)) == [20, 30]
    assert together(ready(FAN.format(0), *others, ok=False)) == [20, 30]
    deep = "run()#0 > run/parallel#0:2[1] > one/for.0[12] > one/pipeline#1:3[{}] > two/art.make#0:1"
    assert together(ready(deep.format(0), deep.format(1))) == [20]


@pytest.mark.parametrize(
    "other",
    [
        "orchestrate/art.make#0",
        "orchestrate/parallel#1[1] > one/art.make#0",
        "orchestrate/parallel#0:1[1] > one/art.make#0",
        "orchestrate/if.0/parallel#0[1] > one/art.make#0",
        "orchestrate/pipeline#0[1] > one/art.make#0",
        "orchestrate/parallel#0[1] > one/parallel#0[0] > two/art.make#0",
        "orchestrate/parallel#0[1] > one/race#0[0] > two/art.make#0",
        "orchestrate/parallel#0[1] > one/race#0:1[0] > two/art.make#0",
        'orchestrate/parallel#0[1] > one/dag#0["x"] > two/art.make#0',
        "orchestrate/parallel#0[1] > one/race#0",
    ],
)
def test_another_strand_ends_a_batch(other: str) -> None:
    """One of another barrier or of its main strand, of a fan-out in a branch, or one that decides a race."""
    assert together(ready(FAN.format(0), FAN.format(1), other, FAN.format(2))) == [20]


@pytest.mark.parametrize(
    "identity",
    [
        "orchestrate/art.make#{}",
        "orchestrate/race#0[{}] > one/art.make#0",
        'orchestrate/dag#0["{}"] > one/art.make#0',
        'orchestrate/dag#0["/parallel#0[1] > {}"] > one/art.make#0',
        'orchestrate/dag#0["x"] > one/parallel#0[{}] > two/art.make#0',
        "orchestrate/parallel#0[{}] > one/race#0",
        "orchestrate/parallel()#0 > parallel/art.make#{}",
        "parallel#0[{}]",
    ],
)
def test_what_is_no_direct_branch_of_a_barrier_goes_alone(identity: str) -> None:
    """A main strand, the branches of a race and of a dag, whatever its names look like, and what decides a race."""
    assert together(ready(identity.format(0), identity.format(1))) == []


def test_nothing_that_was_recorded_may_stand_between() -> None:
    """A strand may go on to a call of which that is the record: its turn would come first."""
    calls = ready(*(FAN.format(n) for n in range(4)))
    line = (10, 20, 30, 40)
    assert together(calls, line) == [20, 30, 40]
    assert together(calls, (*line, 50)) == [20, 30, 40]
    assert together(calls, (5, *line)) == [20, 30, 40]
    assert together(calls, (10, 20, 21, 30, 40)) == [20]
    assert together(calls, (10, 15, 20, 30, 40)) == []
    assert together(calls, ()) == [20, 30, 40]  # none of them was there before: their places are new


def test_a_batch_has_about_a_megabyte() -> None:
    """Nothing is added to one that has more; a big result goes as the last of one, or alone."""
    calls = ready(*(FAN.format(n) for n in range(9)))
    assert together(calls, size=MOST_BYTES + 1) == []
    assert together(calls, size=MOST_BYTES) == [20]
    assert together(calls, size=MOST_BYTES // 2) == [20, 30]
    assert len(together(calls, size=MOST_BYTES // 4)) == 4
    assert len(together(calls, size=0)) == 8


LAMBDAS = """
async def orchestrate(ctx, args):
    return await ctx.parallel([lambda: ctx.parallel([lambda: ctx.run("art.make", {})])])
"""
HELPERS = """
async def one(ctx, n):
    return await ctx.parallel([ctx.run("art.make", {"n": n})])

async def orchestrate(ctx, args):
    return await ctx.parallel([one(ctx, n) for n in range(3)])
"""
NONE = """
async def orchestrate(ctx, args):
    return await ctx.run("art.make", {})
"""


@pytest.mark.parametrize(("source", "some"), [(LAMBDAS, True), (HELPERS, False), (NONE, False)])
def test_a_source_whose_branches_may_start_a_fan_out_has_none(source: str, some: bool) -> None:
    """It is a guess: functions with a fan-out are counted, and what a branch really does is seen when it does it."""
    program = compile_program(source)
    records = [record for _, record in ready(*(FAN.format(n) for n in range(3)), places=(30, 10, 20))]
    found = batches(program, records, lambda record: 0)
    assert (found is not None) is some
    if found is not None:
        assert found.line == (10, 20, 30)
