"""Equal records are sorted on demand, and a record that is equal to no other costs a place in a table."""

from __future__ import annotations

import tracemalloc

from addendum import identity as ids
from addendum.kernel.equals import Equals, Index
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


FAN = "orchestrate/for.0[{}] > orchestrate/for.0/parallel#0[{}] > pic/p.make#0"


def walked() -> Equals:
    """Return six equal records of one way: two iterations of a fan-out of three branches, the last one first."""
    equals = Equals()
    for seq, (turn, branch) in enumerate([(1, 2), (0, 0), (0, 1), (0, 2), (1, 0), (1, 1)]):
        at = FAN.format(turn, branch)
        each = Record(seq, at, at, "p.make", "", "a", True, 0, 1, 1, seq, 1)
        equals.add(each, left=True)
    for each in reversed(equals.strays()):
        assert each.identity is not None
        equals.walk(each, "way", lambda record: "place", ids.parse(each.identity))
    return equals


def test_records_of_a_way_fall_into_those_that_share_the_same_numbers_with_a_call() -> None:
    """From outside and from inside: a call with one frame more in front shares its branch from inside."""
    way = walked().ways["way"]
    groups, shared = way.like(ids.parse(FAN.format(1, 0)))
    assert sorted(map(sorted, groups)) == [[0, 5], [1], [4]]
    assert shared == {0, 1, 4, 5}
    groups, shared = way.like(ids.parse("orchestrate/one()#0 > one/parallel#0[2] > pic/p.make#0"))
    assert (groups, shared) == ([[3, 0]], {0, 3}) or (groups, shared) == ([[0, 3]], {0, 3})
    assert way.near([7]) == set()
    assert way.near([2]) == {0, 3}


def test_a_way_has_what_is_left_in_order() -> None:
    """What a call has leaves it, and so does what a new version left without identity, which is on none then."""
    equals = walked()
    way = equals.ways["way"]
    assert list(way.left) == [0, 1, 2, 3, 4, 5]
    equals.take(equals.every[2])
    equals.every[4].identity = None
    assert equals.strays() == [equals.every[4]]
    assert list(way.left) == [0, 1, 3, 5]
    assert way.one is equals.every[0]
    assert equals.taken == [equals.every[2]]
