"""What a guest says about the answers of a batch, checked against what it was given."""

from __future__ import annotations

import pytest

from addendum.canon import Json
from addendum.errors import ProtocolViolation
from addendum.ports import Answer, Handed, Limits
from addendum.records.outcome import Success
from addendum.sandbox.claims import Claims
from addendum.testing.driving import by_hand

SCRIPT = by_hand("", "orchestrate/parallel#0", "orchestrate/a.b#0")
AT = "orchestrate/parallel#0[{}] > orchestrate/a.b#0"


@pytest.fixture
def claims() -> Claims:
    """A session's book in which three branches wait, two of them for answers that are on their way."""
    found = Claims(SCRIPT, Limits(), "n")
    found.hear(("n", "fan", "orchestrate/parallel#0", "parallel", 3, None, ""))
    for branch in range(3):
        found.hear(("n", "call", AT.format(branch), "a.b", "{}", 1, ""))
    found.drain()
    told = found.answers([Answer(3, Success("c")), Answer(1, Success("a"))], ())
    assert told == ['+[1,"c"]', '![1,"a"]']
    return found


def arrived(*branches: int) -> str:
    """Return what a guest says of answers that arrived."""
    return "\n".join(f"{AT.format(branch)}\n\n0\n" for branch in branches)


def test_one_answer_alone_is_a_list_of_its_own(claims: Claims) -> None:
    """With a list where the host has a tuple, and nothing that it goes on to change."""
    inner: list[Json] = [1]
    (told,) = claims.answers([Answer(2, Success({"a": ("x", inner)}))], ())
    inner.append(2)
    assert told == [1, {"a": ["x", [1]]}]


def test_every_answer_arrives_once(claims: Claims) -> None:
    """With the last message at the latest, in whatever order the guest says; the kernel looks at that."""
    claims.hear(("n", "say", "log", "x", None, None, arrived(0)))
    claims.hear(("n", "handed", None, None, None, None, arrived(2)))
    assert [event.call for event in claims.drain() if isinstance(event, Handed)] == [1, 3]
    with pytest.raises(ProtocolViolation, match="wasn't given"):
        claims.hear(("n", "handed", None, None, None, None, arrived(2)))


def test_an_answer_that_does_not_arrive_is_a_violation(claims: Claims) -> None:
    """A turn isn't over before each was taken by its call."""
    claims.hear(("n", "handed", None, None, None, None, arrived(2)))
    with pytest.raises(ProtocolViolation, match="never said so"):
        claims.drain()


@pytest.mark.parametrize("said", [arrived(1), arrived(2, 2), arrived(9), AT.format(0), arrived(0) + "\n", "\n\n\n"])
def test_what_was_not_given_does_not_arrive(claims: Claims, said: str) -> None:
    """A call that still waits, one twice, one of nowhere, and lines that are no such thing."""
    with pytest.raises(ProtocolViolation):
        claims.hear(("n", "handed", None, None, None, None, said))
