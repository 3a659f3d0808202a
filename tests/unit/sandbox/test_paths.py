"""Path texts are checked frame by frame against the positions of the script and what was announced."""

from __future__ import annotations

import pytest

from addendum.errors import LimitExceeded, ProtocolViolation
from addendum.sandbox.paths import Paths

POSITIONS = frozenset(
    {
        "orchestrate/for.0",
        "orchestrate/for.0/gen()#0",
        "orchestrate/await#0",
        "orchestrate/parallel#0",
        "orchestrate/dag#0",
        "orchestrate/race#0",
        "gen/a.b#0",
        "gen/ctx.now#0",
    }
)


@pytest.fixture
def paths() -> Paths:
    paths = Paths(POSITIONS)
    paths.announce("orchestrate/parallel#0", 2)
    paths.announce("orchestrate/parallel#0:1", 1)
    paths.announce("orchestrate/for.0[3] > orchestrate/dag#0", ("a > b", 'q"'))
    paths.announce("orchestrate/race#0", 2)
    return paths


@pytest.mark.parametrize(
    ("identity", "name", "main"),
    [
        ("gen/a.b#0", "a.b", True),
        ("gen/a.b#0:12", "a.b", True),
        ("gen/ctx.now#0", "ctx.now", True),
        ("orchestrate/for.0[2] > orchestrate/for.0/gen()#0:1 > gen/a.b#0", "a.b", True),
        ("orchestrate/await#0 > gen/a.b#0", "a.b", True),
        ("orchestrate/parallel#0[1] > gen/a.b#0", "a.b", False),
        ("orchestrate/parallel#0:1[0] > orchestrate/for.0[0] > gen/a.b#0", "a.b", False),
        ('orchestrate/for.0[3] > orchestrate/dag#0["a > b"] > gen/a.b#0', "a.b", False),
        ('orchestrate/for.0[3] > orchestrate/dag#0["q\\""] > orchestrate/await#0 > gen/a.b#0', "a.b", False),
        ("orchestrate/race#0", "race", True),
    ],
)
def test_a_path_of_the_script_is_good(paths: Paths, identity: str, name: str, main: bool) -> None:
    """The site's name and whether the main strand calls are read off it, also the second time."""
    assert paths.site(identity) == (name, main)
    assert paths.site(identity) == (name, main)


@pytest.mark.parametrize(
    "identity",
    [
        "",
        "gen/a.c#0",
        "gen/a.b#0:",
        "gen/a.b#0:-1",
        "gen/a.b#0:0",
        "gen/a.b#0:01",
        f"gen/a.b#0:{'1' * 5000}",
        f"orchestrate/for.0[{'1' * 5000}] > gen/a.b#0",
        f"orchestrate/parallel#0[{'1' * 5000}] > gen/a.b#0",
        " > orchestrate/await#0 > gen/a.b#0",
        "orchestrate/await#0:0 > gen/a.b#0",
        "orchestrate/for.0[01] > gen/a.b#0",
        'orchestrate/for.0[3] > orchestrate/dag#0["\\u0061 > b"] > gen/a.b#0',
        "gen/a.b#0:١",
        "gen/a.b#0[1]",
        " > gen/a.b#0",
        "gen/a.b#0 > gen/a.b#0[0]",
        "orchestrate/for.0",
        "orchestrate/for.0[0]",
        "orchestrate/for.0/gen()#0",
        "orchestrate/for.0 > gen/a.b#0",
        "orchestrate/for.0:1[0] > gen/a.b#0",
        'orchestrate/for.0["x"] > gen/a.b#0',
        "orchestrate/for.0/gen()#0[1] > gen/a.b#0",
        "orchestrate/parallel#0 > gen/a.b#0",
        "orchestrate/parallel#0[2] > gen/a.b#0",
        "orchestrate/parallel#0:2[0] > gen/a.b#0",
        'orchestrate/parallel#0["0"] > gen/a.b#0',
        'orchestrate/dag#0["a > b"] > gen/a.b#0',
        'orchestrate/for.0[3] > orchestrate/dag#0["c"] > gen/a.b#0',
        'orchestrate/for.0[3] > orchestrate/dag#0["a > gen/a.b#0',
    ],
)
def test_any_other_text_is_a_violation(paths: Paths, identity: str) -> None:
    """Unknown places, numbers that are none, branches that were never announced."""
    with pytest.raises(ProtocolViolation):
        paths.site(identity)


def test_a_loser_of_a_race_has_no_path_any_more(paths: Paths) -> None:
    """What was good before the race ended isn't afterwards."""
    assert paths.site("orchestrate/race#0[0] > gen/a.b#0") == ("a.b", False)
    paths.won("orchestrate/race#0", 1)
    assert paths.site("orchestrate/race#0[1] > gen/a.b#0") == ("a.b", False)
    with pytest.raises(ProtocolViolation):
        paths.site("orchestrate/race#0[0] > gen/a.b#0")
    with pytest.raises(ProtocolViolation):
        paths.won("orchestrate/race#0", 0)


def test_a_fan_out_is_announced_once(paths: Paths) -> None:
    """The second announcement of one frame is a violation."""
    with pytest.raises(ProtocolViolation):
        paths.announce("orchestrate/parallel#0", 5)


def test_an_endless_path_is_over_a_limit(paths: Paths) -> None:
    """A recursion can't make the host keep texts without end; some hundred frames are fine."""
    frame = "orchestrate/for.0/gen()#0 > "
    assert paths.site(frame * 500 + "gen/a.b#0") == ("a.b", True)
    with pytest.raises(LimitExceeded):
        paths.site(frame * 1000 + "gen/a.b#0")
