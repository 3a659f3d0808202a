"""The hash chain: vectors that never change, since old journals are verified for ever."""

from __future__ import annotations

import hashlib

import pytest

from addendum.canon import canonical
from addendum.records.certificate import certificate
from addendum.records.chain import START, chain
from addendum.records.stored import Stored


def test_the_chain_of_a_known_journal() -> None:
    """Two entries have the values that were computed by hand once."""
    first = chain(START, "run", b'{"source":"x"}')
    second = chain(first, "record", b"{}")

    assert hashlib.sha256(b'\nrun\n{"source":"x"}').hexdigest() == first
    assert first == "6d02339afc0e7518e81feae1f4693f07d115fdd9553ff5d4972a0237595ba60f"
    assert second == "0c851d976f5eaa949b0f8687d222d539ce2d617bd80c8579ad6675eb30ed03fd"


def test_no_two_entries_share_a_value() -> None:
    """Moving text between kind and body changes the value: the last newline ends the kind."""
    assert chain(START, "a\nb", b"{}") != chain(START, "a", b"b\n{}"[:1] + b"{}")
    assert chain(START, "a", b"{}") != chain("0" * 64, "a", b"{}")


@pytest.mark.parametrize("number", [10**30, 2**53 + 1])
def test_an_integer_that_nobody_can_have_written_is_a_difference(number: int) -> None:
    """Canonical JSON has no integer beyond 2^53 but those that floats make; another one was put there by hand."""
    body = {"by": "ada", "n": number}
    link = chain(START, "cancel", canonical({"by": "ada", "n": 7}))
    found = certificate([Stored(1, "cancel", body, link)], lambda digest: b"")
    assert [(each.seq, each.what) for each in found.differences] == [(1, "the cancel isn't what was written")]
