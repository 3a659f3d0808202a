"""A driver's journal: its fold is the store's, whoever else writes in between."""

from __future__ import annotations

import pytest

from addendum import canon
from addendum.broker.journal import Journal, stow
from addendum.canon import Digest
from addendum.errors import StoreCorrupt
from addendum.ports import RunHeader
from addendum.records.entries import INLINE, Ref, Settled
from addendum.records.outcome import Failure, Success
from addendum.records.stored import Entry
from addendum.testing.memory_store import MemoryStore


@pytest.fixture
def store() -> MemoryStore:
    found = MemoryStore()
    found.create(RunHeader("r", "", "2026-01-01T00:00:00+00:00"))
    return found


def record(identity: str, outcome: Success | Failure, result: Ref | None) -> Entry:
    """Return a record's entry."""
    settled = Settled(
        identity=identity, capability="art.make", fingerprint="f", digest="d", outcome=outcome, result=result,
        revision=1, drive=1,
    )  # fmt: skip
    return Entry("record", settled.body())


def test_a_small_value_is_inline_and_a_large_one_a_blob(store: MemoryStore) -> None:
    """Both are read back as they were."""
    blobs: dict[Digest, bytes] = {}
    for value in ({"a": 1}, {"a": "x" * INLINE}):
        ref = stow(canon.canonical(value), value, blobs)
        assert (ref.blob is None) == (ref.size <= INLINE)
        journal = Journal(store, "r")
        journal.append(blobs=blobs)
        assert journal.value(ref) == value


def test_a_whole_float_beyond_2_53_is_one_again_inline_and_as_a_blob(store: MemoryStore) -> None:
    """Canonical JSON writes it as an integer, which nobody could write again."""
    blobs: dict[Digest, bytes] = {}
    for at, value in enumerate(([1.5e18], [1e20, "x" * INLINE]), 1):
        ref = stow(canon.canonical(value), value, blobs)
        Journal(store, "r").append(record(str(at), Success(value), ref), blobs=blobs)
        journal = Journal(store, "r")
        found = journal.outcome(journal.read().records[at])
        assert repr(found) == repr(Success(value))
        assert canon.canonical(journal.value(ref)) == canon.canonical(value)


def test_what_an_operator_puts_in_between_is_folded_in_before_the_own(store: MemoryStore) -> None:
    """Nothing is skipped, nothing twice."""
    journal = Journal(store, "r", store.acquire("r"))
    journal.read()
    assert not journal.news()
    store.append("r", [Entry("cancel", {"by": "someone"})])
    (stored,) = journal.append(record("a", Success(1), Ref(1, 1)))
    assert (stored.seq, journal.history.seq, journal.cancelled) == (2, 2, True)
    assert not journal.news()
    store.append("r", [Entry("cancel", {"by": "someone"})])
    assert journal.news()
    assert journal.history.seq == 3


def test_a_cancellation_that_was_there_before_is_not_meant_for_this_driver(store: MemoryStore) -> None:
    """Whoever resumes wants to go on."""
    store.append("r", [Entry("cancel", {"by": "someone"})])
    journal = Journal(store, "r", store.acquire("r"))
    journal.read()
    assert not journal.cancelled


def test_outcomes_are_read_again_when_they_are_no_longer_remembered(store: MemoryStore) -> None:
    """Results and failures, from the store."""
    first = Journal(store, "r")
    first.append(record("a", Success({"n": 1}), Ref(7, {"n": 1})), record("b", Failure("refused", "no"), None))
    journal = Journal(store, "r")
    journal.read()
    assert journal.spend(journal.history.records[1]) == (Success({"n": 1}), 7)
    assert journal.spend(journal.history.records[2]) == (Failure("refused", "no", False, "b"), 0)
    assert journal.outcome(journal.history.records[1]) == Success({"n": 1})
    assert journal.outcome(journal.history.records[2]) == Failure("refused", "no", False, "b")


def test_a_blob_that_is_no_json_is_a_typed_error(store: MemoryStore) -> None:
    """The store kept what it was given."""
    data = b"no json"
    store.append("r", [], blobs={canon.sha256(data): data})
    with pytest.raises(StoreCorrupt):
        Journal(store, "r").value(Ref(7, None, canon.sha256(data)))
