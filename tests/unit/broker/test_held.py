"""Entries of a principal's journal: their bytes, written in one piece, are the canonical ones of their bodies."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from addendum.authority.book import Hold
from addendum.broker.held import hold_entry, hold_from, settle_entry
from addendum.canon import MAX_INT, canonical, digest
from addendum.errors import NotJson
from addendum.ports import RunHeader
from addendum.records.stored import Entry
from addendum.testing.memory_store import MemoryStore

AMOUNTS = st.integers(0, 3) | st.integers(0, MAX_INT)
NAMES = st.sampled_from(["mail.send", 'a"b', "a\\b", "a\x00\x1f\x7fb", "é", "\U0001f600", ""]) | st.text(max_size=8)
TARGETS = st.dictionaries(NAMES, st.integers().map(str).map(digest), max_size=3)
KEYS = st.tuples(NAMES, AMOUNTS)
HOLDS = st.builds(
    Hold,
    capability=NAMES,
    cost=AMOUNTS,
    bytes_out=AMOUNTS,
    bytes_in=AMOUNTS,
    tokens=AMOUNTS,
    seconds=st.just(0.0) | st.integers(0, 10**6).map(lambda micros: micros / 1_000_000),
    agentic=st.booleans(),
    tokens_in=st.just(0),
    targets=TARGETS,
)


@given(KEYS, HOLDS, st.floats(0, 10**10))
def test_a_holds_bytes_are_those_of_its_body(key: tuple[str, int], hold: Hold, at: float) -> None:
    """Whatever its names and amounts, with values at pointers or without; and the hold is read back from it."""
    entry = hold_entry(key, hold, at)
    assert entry.data in (None, canonical(dict(entry.body)))
    assert hold_from(entry.body) == hold


@given(KEYS, AMOUNTS, AMOUNTS, AMOUNTS, AMOUNTS)
def test_a_settlements_bytes_are_those_of_its_body(
    key: tuple[str, int], cost: int, tokens: int, back: int, micros: int
) -> None:
    """Amounts that are nothing stand in neither."""
    entry = settle_entry(key, cost, tokens, back, micros)
    assert entry.data in (None, canonical(dict(entry.body)))
    amounts = {"cost": cost, "tokens": tokens, "bytes_in": back, "micros": micros}
    said = {name: amount for name, amount in amounts.items() if amount}
    assert entry.body == {"run": key[0], "attempt": key[1], **said}


def test_the_usual_entries_are_written_in_one_piece() -> None:
    """ASCII names, whole numbers, values at pointers: nothing is left to the store."""
    hold = Hold("mail.send", 10, 20, 30, 40, targets={"distinct:/to": digest("a")})
    assert hold_entry(("r-1", 1), hold, 1.5).data is not None
    assert settle_entry(("r-1", 1), 1, 2, 3, 4).data is not None


@pytest.mark.parametrize(
    "entry", [hold_entry(("r", 1), Hold("a.b", MAX_INT + 1, 0), 0.0), settle_entry(("r", 1), MAX_INT + 1, 0, 0, 0)]
)
def test_an_amount_that_json_cannot_say_is_refused(entry: Entry) -> None:
    """As in any other entry: by the store, before anything is written."""
    store = MemoryStore()
    store.create(RunHeader("r", "", "2026-01-01T00:00:00Z"))
    with pytest.raises(NotJson):
        store.append("r", [entry])
    assert store.head("r") == (0, "")
