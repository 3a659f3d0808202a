"""Which failures are handled: those after which the strand, or one that waited for it, has made another call."""

from __future__ import annotations

import pytest

from addendum import identity as ids
from addendum.kernel.calls import Call, Handled, follows

MAIN = "orchestrate/text.read#0"
AFTER = "orchestrate/mail.send#0"
FIRST = "orchestrate/parallel#0[0] > one/art.make#0"
SECOND = "orchestrate/parallel#0[1] > one/art.make#0"
AGAIN = "orchestrate/parallel#0[0] > one/mail.send#0"
OTHER = "orchestrate/parallel#1[1] > one/art.make#0"
REENTERED = "orchestrate/parallel#0:1[1] > one/art.make#0"
INNER = "orchestrate/parallel#0[0] > one/race#0[2] > two/art.make#0"
NAMED = 'orchestrate/dag#0["a > b[0]"] > one/art.make#0'


def strand(identity: str) -> tuple[ids.Frame, ...]:
    """Return the strand of a call."""
    return ids.parse(identity).strand


@pytest.mark.parametrize(
    ("earlier", "later", "shown"),
    [
        (MAIN, AFTER, True),
        (FIRST, AGAIN, True),
        (FIRST, SECOND, False),
        (SECOND, FIRST, False),
        (FIRST, AFTER, True),
        (FIRST, OTHER, True),
        (FIRST, REENTERED, True),
        (INNER, AGAIN, True),
        (INNER, SECOND, False),
        (FIRST, INNER, True),
        (MAIN, FIRST, True),
        (NAMED, AFTER, True),
        (NAMED, NAMED, True),
    ],
)
def test_a_later_call_shows_that_an_earlier_strand_has_gone_on(earlier: str, later: str, shown: bool) -> None:
    """Siblings don't wait for each other; whoever stands behind the barrier did."""
    assert follows(strand(earlier), strand(later)) is shown


def call(identity: str, capability: str = "art.make") -> Call:
    """Return a call at an identity."""
    return Call(1, identity, capability, {}, b"{}", "digest")


def test_a_failure_is_open_until_its_strand_goes_on() -> None:
    """A sibling's call handles nothing; the barrier's successor handles all of its branches."""
    handled = Handled()
    handled.handed(5, ids.parse(FIRST))
    handled.handed(7, ids.parse(SECOND))
    handled.called(call(AGAIN))
    assert handled.open == [7]
    handled.called(call(AFTER))
    assert handled.open == []


def test_a_recorded_read_handles_no_failure() -> None:
    """The clock is no sign that a script took notice."""
    handled = Handled()
    handled.handed(5, ids.parse(MAIN))
    handled.called(call("orchestrate/ctx.now#0", "ctx.now"))
    assert handled.open == [5]
