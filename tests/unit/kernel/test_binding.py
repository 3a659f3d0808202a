"""A session's calls are bound to the program's positions."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from addendum import identity as ids
from addendum.errors import ProtocolViolation
from addendum.kernel.binding import MOST, Binding
from addendum.ports import Issued
from addendum.script.program import compile_program

PROGRAM = compile_program("""
async def one(ctx, i):
    return await ctx.run("art.make", {"i": i})

async def orchestrate(ctx, args):
    for i in range(3):
        await one(ctx, i)
    now = await ctx.now()
    won = await ctx.race([one(ctx, 1), one(ctx, 2)])
    return await ctx.dag({"a > b[0]": (lambda: one(ctx, 3), [])})
""")
GOOD = [
    ("orchestrate/for.0[2] > orchestrate/for.0/one()#0 > one/art.make#0", "art.make"),
    ("orchestrate/for.0[2] > orchestrate/for.0/one()#0 > one/art.make#0:12", "art.make"),
    ("orchestrate/ctx.now#0", "ctx.now"),
    ("orchestrate/race#0", "ctx.race"),
    ("orchestrate/race#0[1] > one/art.make#0", "art.make"),
    ('orchestrate/dag#0["a > b[0]"] > one/art.make#0', "art.make"),
]
BAD = [
    ("one/art.make#0", "mail.send"),
    ("one/art.make#1", "art.make"),
    ("orchestrate/race#0", "art.make"),
    ("orchestrate/dag#0", "ctx.race"),
    ("orchestrate/for.0/one()#0", "one"),
    ("orchestrate/for.0[1] > orchestrate/for.0", "art.make"),
    ("", ""),
]
ASTRAY = [
    "orchestrate/for.0 > one/art.make#0",
    "orchestrate/for.0[01] > one/art.make#0",
    "orchestrate/for.0:1[1] > one/art.make#0",
    "orchestrate/for.1[0] > one/art.make#0",
    "orchestrate/for.0/one()#0[1] > one/art.make#0",
    "orchestrate/ctx.now#0 > one/art.make#0",
    "orchestrate/race#0 > one/art.make#0",
    'orchestrate/dag#0["\\u0061"] > one/art.make#0',
    " > one/art.make#0",
    "one/art.make#0:0",
    "one/art.make#0:01",
    "one/art.make#0[1]",
    "one/art.make#0 > ",
    f"orchestrate/for.0[{'1' * 5000}] > one/art.make#0",
    f"orchestrate/for.0[1] > orchestrate/for.0/one()#0:{'1' * 5000} > one/art.make#0",
    f"one/art.make#0:{'1' * 5000}",
]


@pytest.mark.parametrize(("identity", "capability"), GOOD)
def test_a_call_that_is_written_in_the_source_is_bound(identity: str, capability: str) -> None:
    """Sites, recorded reads, races; loops, call frames, branches by number and by name."""
    binding = Binding(PROGRAM)
    for _ in range(2):
        binding.check(Issued(1, identity, capability, {}))
        binding.check_path(identity)


@pytest.mark.parametrize(("identity", "capability"), BAD)
def test_a_call_that_is_not_written_there_is_refused(identity: str, capability: str) -> None:
    """The capability is the site's, or there is no call."""
    with pytest.raises(ProtocolViolation):
        Binding(PROGRAM).check(Issued(1, identity, capability, {}))


@pytest.mark.parametrize("identity", ASTRAY)
def test_a_path_that_is_written_otherwise_or_leads_nowhere_is_refused(identity: str) -> None:
    """One identity has one text, and every frame of it is one of the program's."""
    with pytest.raises(ProtocolViolation):
        Binding(PROGRAM).check_path(identity)


FRAMES = st.tuples(
    st.sampled_from([*PROGRAM.positions, "orchestrate/for.1", "one", ""]),
    st.sampled_from(["", "", "", ":1", ":12", ":0", ":01", ":", ":x", ":\u0661"]),
    st.sampled_from(["", "", "[0]", "[12]", "[01]", '["a"]', '["a > b[0]"]', '["\\u0061"]', "[-1]", "[", "[]", "[1]x"])
    | st.text(max_size=3).map("[{}]".format),
).map("".join)
BOUND = Binding(PROGRAM)
"""One for all examples: what it remembers of one must not let another in."""


def well_written(identity: str) -> bool:
    """Whether an identity is one of the program's, by its parts."""
    try:
        parsed = ids.parse(identity)
    except ValueError:
        return False
    kinds = {"loop": "loop", "call": "call", "branch": "fanout"}
    for frame in parsed.path:
        position = PROGRAM.positions.get(frame.position)
        if position is None or position.kind != kinds.get(frame.kind):
            return False
        if frame.kind == "loop" and (type(frame.branch) is not int or frame.entry):
            return False
    return str(parsed) == identity and parsed.site.branch is None and parsed.site.position in PROGRAM.positions


@given(st.lists(FRAMES, min_size=1, max_size=4).map(ids.JOIN.join) | st.sampled_from(GOOD).map(lambda good: good[0]))
def test_a_path_is_good_when_its_parts_are(identity: str) -> None:
    """Reading it frame by frame comes to what parsing all of it would."""
    try:
        BOUND.check_path(identity)
        found = True
    except ProtocolViolation:
        found = False
    assert found == well_written(identity)


def test_a_loop_may_have_more_iterations_than_frames_are_remembered() -> None:
    """What was forgotten is looked at again."""
    binding = Binding(PROGRAM)
    for number in [*range(MOST + 2), 0]:
        binding.check_path(f"orchestrate/for.0[{number}] > orchestrate/for.0/one()#0 > one/art.make#0")
    with pytest.raises(ProtocolViolation):
        binding.check_path("orchestrate/for.0[01] > one/art.make#0")
