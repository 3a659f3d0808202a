"""Texts of identities: a number in one has one way to be written, and one grammar says so for all who read them."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from addendum import identity as ids
from addendum.identity import Frame

NUMBERS = ["0", "1", "12", "9" * 16]
NONE = ["", "00", "01", "9" * 17, "1" * 5000, "-1", "+1", " 1", "1\n", "1_0", "\u0661", "\u00b2", "x"]


@pytest.mark.parametrize("text", NUMBERS)
def test_numbers(text: str) -> None:
    """Decimal, of 16 digits at most: an iteration, a branch, or how often something was entered before."""
    assert ids.numeral(text)
    assert ids.frame(f"gen/for.0[{text}]") == Frame("gen/for.0", 0, int(text))
    assert ids.positive(text) == (text != "0")
    if text != "0":
        assert ids.frame(f"gen/a.b#0:{text}") == Frame("gen/a.b#0", int(text))


@pytest.mark.parametrize("text", NONE)
def test_what_is_no_number(text: str) -> None:
    """Other ways to write one, other digits, more of them: nobody reads it as one."""
    assert not ids.numeral(text)
    assert not ids.positive(text)
    for frame in (f"gen/for.0[{text}]", f"gen/a.b#0:{text}"):
        with pytest.raises(ValueError, match="not a frame"):
            ids.frame(frame)


def test_nothing_was_entered_zero_times_before() -> None:
    """The first time has no number."""
    with pytest.raises(ValueError, match="not a frame"):
        ids.parse("gen/a.b#0:0")


FRAMES = st.builds(
    Frame,
    position=st.sampled_from(["gen/for.0", "gen/pic()#0", "gen/dag#1", "gen/a.b#0"]),
    entry=st.integers(0, 10**16 - 1),
    branch=st.none() | st.integers(0, 10**16 - 1) | st.text(max_size=4),
)


@given(FRAMES)
def test_a_frame_is_read_back_from_its_text(frame: Frame) -> None:
    """Whatever its numbers, and whatever a branch is called."""
    assert ids.frame(str(frame)) == frame
