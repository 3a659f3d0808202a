"""Equal records are sorted on demand, and a record that is equal to no other costs a place in a table."""

from __future__ import annotations

import tracemalloc

from addendum.kernel.equals import Index
from addendum.records.history import Record


def record(seq: int, digest: str, capability: str = "p.make", ok: bool = True) -> Record:
    """Return a record."""
    at = f"orchestrate/{capability}#{seq}"
    return Record(seq, at, at, capability, "", digest, ok, 0, 1, 1, seq, 1)


def test_equal_are_those_of_one_capability_and_digest() -> None:
    """One digest may be asked of two capabilities."""
    index = Index({})
    for seq, (digest, capability) in enumerate([("a", "p.make"), ("a", "s.act"), ("a", "p.make"), ("b", "p.make")]):
        index.add(record(seq, digest, capability))
    found = {key: index.get(key) for key in [("p.make", "a"), ("s.act", "a"), ("p.make", "b"), ("s.act", "b")]}
    seqs = {key: [each.seq for each in equals.every] if equals else None for key, equals in found.items()}
    assert seqs == {("p.make", "a"): [0, 2], ("s.act", "a"): [1], ("p.make", "b"): [3], ("s.act", "b"): None}
    assert index.get(("p.make", "c")) is None


def test_what_a_call_has_is_not_left() -> None:
    """Whether it was claimed before its equals were asked for, or after."""
    claimed: dict[int, object] = {0: "a call"}
    index = Index(claimed)
    records = [record(seq, "a") for seq in range(3)]
    for each in records:
        index.add(each)
    equals = index.get(("p.make", "a"))
    assert equals is not None
    assert list(equals.left) == [1, 2]
    index.take(records[1])
    assert list(equals.left) == [2]
    assert len(equals.every) == 3


def test_a_record_alone_costs_no_containers() -> None:
    """Ten thousand records that are equal to no other: well under two hundred bytes each."""
    records = [record(seq, f"{seq}") for seq in range(10_000)]
    tracemalloc.start()
    index = Index({})
    for each in records:
        index.add(each)
    for each in records:
        index.get(each.call)
    size, _ = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert size / len(records) < 200
