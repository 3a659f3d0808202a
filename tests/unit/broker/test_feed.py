"""What travels ahead of a script: chunks of settled calls, as many as fit, each of them once."""

from __future__ import annotations

from typing import Any

from addendum.broker.feed import CHUNK, CHUNK_BYTES, FIRST, Feed, main_strand
from addendum.broker.journal import REMEMBERED, Journal, stow
from addendum.canon import Digest, canonical
from addendum.ports import RunHeader
from addendum.records.entries import Settled
from addendum.records.outcome import Success
from addendum.records.stored import Entry
from addendum.testing.memory_store import MemoryStore


def journal(results: list[Any]) -> Journal:
    """Return a journal that holds these results, as another process finds it."""
    store = MemoryStore()
    store.create(RunHeader("r", "", "2026-01-01T00:00:00+00:00"))
    for number, value in enumerate(results):
        blobs: dict[Digest, bytes] = {}
        settled = Settled(
            identity=f"orchestrate/for.0[{number}] > orchestrate/for.0/a.b#0",
            capability="a.b",
            fingerprint="f",
            digest=f"{number:064x}",
            outcome=Success(value),
            result=stow(canonical(value), value, blobs),
            revision=1,
            drive=1,
        )
        store.append("r", [Entry("record", settled.body())], blobs=blobs)
    found = Journal(store, "r")
    found.read()
    return found


def feed(results: list[Any]) -> Feed:
    """Return a feed of such a journal."""
    found = journal(results)
    return Feed(found, main_strand(found.history.prefix.values()))


def test_a_chunk_has_so_many_calls_at_most() -> None:
    ahead = feed(list(range(3 * CHUNK + 3)))
    sizes = [FIRST]
    assert [known.outcome for known in ahead.chunk()] == [Success(number) for number in range(FIRST)]
    while chunk := ahead.chunk():
        sizes.append(len(chunk))
    assert sizes[:-1] == [min(FIRST << number, CHUNK) for number in range(len(sizes) - 1)]
    assert sum(sizes) == 3 * CHUNK + 3
    assert ahead.chunk() == ()


def test_a_chunk_has_so_many_bytes_at_most_but_always_one_call() -> None:
    large, small = "x" * (CHUNK_BYTES * 2 // 3), "y"
    ahead = feed([small, large, large, "z" * (2 * CHUNK_BYTES), small])
    assert [len(ahead.chunk()) for _ in range(5)] == [2, 1, 1, 1, 0]


def test_nothing_more_travels_before_the_last_of_a_chunk_was_used() -> None:
    ahead = feed(list(range(FIRST + 1)))
    ahead.chunk()
    assert ahead.after(ahead.records[FIRST - 2].seq) == ()
    assert len(ahead.after(ahead.records[FIRST - 1].seq)) == 1


def test_what_was_handed_over_by_itself_does_not_travel_too() -> None:
    ahead = feed(list(range(FIRST + 3)))
    ahead.chunk()
    handed = ahead.records[FIRST]
    assert [known.outcome for known in ahead.after(handed.seq)] == [Success(FIRST + 1), Success(FIRST + 2)]


def test_what_is_fetched_is_what_travels_with_the_next_answer() -> None:
    """The same chunk, in time; nothing of it is lost if another one is asked for."""
    count = FIRST + 5
    for fetched in (False, True):
        ahead = feed(list(range(count)))
        ahead.chunk()
        if fetched:
            ahead.fetch()
            ahead.fetch()
        assert ahead.next_record is ahead.records[FIRST]
        found = ahead.after(ahead.records[FIRST].seq)
        assert [known.outcome for known in found] == [Success(number) for number in range(FIRST + 1, count)]
        assert (ahead.next_record, ahead.chunk()) == (None, ())
    ahead = feed(list(range(count)))
    ahead.chunk()
    ahead.fetch()
    found = ahead.after(ahead.records[FIRST + 2].seq)
    assert [known.outcome for known in found] == [Success(number) for number in range(FIRST + 3, count)]


def test_a_journal_has_its_room_back_for_what_was_handed_over() -> None:
    found = journal(["x" * 1000] * 20)
    for _ in range(3):
        for record in found.history.records.values():
            assert found.outcome(record) == Success("x" * 1000)
        for record in found.history.records.values():
            assert found.spend(record) == (Success("x" * 1000), 1002)
    assert found._room == REMEMBERED
