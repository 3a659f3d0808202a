"""Canonical JSON: exactly RFC 8785's bytes, and a clear refusal of everything that JSON can't say."""

from __future__ import annotations

import math
from typing import Any

import pytest
import rfc8785
from hypothesis import given
from hypothesis import strategies as st

from addendum import canon
from addendum.errors import NotJson

TEXTS = st.text(st.characters(exclude_categories=("Cs",)), max_size=8)
LEAVES = st.none() | st.booleans() | st.integers(-canon.MAX_INT, canon.MAX_INT) | TEXTS
NUMBERS = st.floats(allow_nan=False, allow_infinity=False)
WHOLE = st.floats(-1e22, 1e22).map(lambda number: float(round(number)))


def values(leaves: st.SearchStrategy[Any]) -> st.SearchStrategy[Any]:
    """Return JSON values of such leaves, tuples among them."""
    return st.recursive(
        leaves,
        lambda inner: st.lists(inner, max_size=4) | st.tuples(inner, inner) | st.dictionaries(TEXTS, inner, max_size=4),
        max_leaves=12,
    )


@given(values(LEAVES | NUMBERS))
def test_the_bytes_are_those_of_the_library_whichever_encoder_writes_them(value: Any) -> None:
    assert canon.canonical(value) == rfc8785.dumps(value)


WORDS = st.sampled_from(["a", "payload", "result", "b"])


@given(
    st.dictionaries(WORDS, LEAVES | NUMBERS | WORDS.map('"{}":null'.format), max_size=4),
    WORDS,
    values(LEAVES | NUMBERS),
)
def test_bytes_around_a_value_are_those_of_the_whole(record: dict[str, Any], key: str, value: Any) -> None:
    """Or they are left to be worked out, where a number isn't written as the standard library writes it."""
    data = canon.around({**record, key: value}, key, canon.canonical(value))
    others = [each for name, each in record.items() if name != key]
    if data is None:
        assert any(isinstance(each, float) for each in others)
    else:
        assert data == canon.canonical({**record, key: value})


@pytest.mark.parametrize("other", [[], {}, canon.MAX_INT + 1, "\ud800", 1.0, b""])
def test_what_is_no_plain_leaf_is_not_written_around_a_value(other: Any) -> None:
    assert canon.around({"a": other, "payload": 1}, "payload", b"1") is None


FRACTIONS = st.floats(1e-5, 1e17) | st.decimals(-(10**6), 10**6, places=3).map(float)
EDGES = [1e-4, math.nextafter(1e-4, 0), 1e15, math.nextafter(1e15, 0), 999999999999999.5, 0.1, 1e21, 5e-324, -0.0, 1.0]


@given(st.sampled_from(EDGES) | FRACTIONS, st.sampled_from([1, -1]))
def test_a_number_is_written_as_the_library_writes_it_with_an_exponent_or_without(number: float, sign: int) -> None:
    assert canon.canonical([sign * number]) == rfc8785.dumps([sign * number])


@given(st.dictionaries(st.text(st.sampled_from("a\ue000\U0001f600\ud7ff"), max_size=2), st.none(), max_size=6))
def test_keys_stand_in_the_order_of_their_utf_16_code_units(value: dict[str, None]) -> None:
    assert canon.canonical(value) == rfc8785.dumps(value)


@given(values(LEAVES))
def test_what_was_written_is_what_is_read_again(value: Any) -> None:
    data = canon.canonical(value)
    assert canon.canonical(canon.parse(data)) == data


@given(values(LEAVES | NUMBERS | WHOLE))
def test_canonical_json_is_read_back_as_what_was_written(value: Any) -> None:
    data = canon.canonical(value)
    read = canon.loads(data)
    assert canon.canonical(read) == data
    assert canon.canonical(canon.plain(value)) == data
    assert canon.doubles(read) is read
    assert canon.loads(data.decode()) == read


@given(WHOLE)
def test_a_whole_float_is_the_same_float_when_it_is_read_back(value: float) -> None:
    read = canon.loads(canon.canonical(value))
    assert read == value
    assert type(read) is (int if abs(value) <= canon.MAX_INT else float)


def test_only_an_integer_that_canonical_json_has_of_a_float_becomes_one() -> None:
    most, beyond = canon.MAX_INT, 10**21
    assert [type(each) for each in canon.doubles([most, -most, most + 1, -most - 1])] == [int, int, float, float]
    assert canon.doubles({"a": ({"b": beyond - 1},)}) == {"a": [{"b": 1e21}]}
    for value in ([beyond, -beyond, 10**400], {"a": [1, "9" * 20, True, None, 1.5e300]}):
        assert canon.doubles(value) is value
    with pytest.raises(ValueError, match="delimiter"):
        canon.loads(b"[1")


def test_an_integer_that_somebody_gives_stays_refused() -> None:
    for given_ in (canon.parse("1500000000000000000"), 2**53, [-(2**53)]):
        with pytest.raises(NotJson, match=r"beyond 2\^53"):
            canon.canonical(given_)


@given(values(LEAVES | NUMBERS))
def test_a_copy_is_equal_and_shares_nothing_that_can_be_changed(value: Any) -> None:
    copied = canon.freeze(value)
    assert canon.canonical(copied) == canon.canonical(value)
    if isinstance(value, dict | list) and value:
        before = canon.canonical(copied)
        value.clear()
        assert canon.canonical(copied) == before


class Text(str):
    """A kind of text that isn't `str` itself."""


@pytest.mark.parametrize(
    ("value", "where"),
    [
        ({"a": [1, float("nan")]}, "/a/1"),
        ([float("-inf")], "/0"),
        ({"a": {"b": 2**53}}, "/a/b"),
        ([10**400], "/0"),
        ({"a": {1: "x"}}, "/a"),
        ({"a": b"x"}, "/a"),
        ([{1}], "/0"),
        ({"\ud800": 1}, ""),
        (["\udfff"], "/0"),
        ([Text("x")], "/0"),
        ({Text("x"): 1}, ""),
    ],
)
def test_what_json_cannot_say_is_refused_with_its_place(value: object, where: str) -> None:
    with pytest.raises(NotJson) as refused:
        canon.canonical(value)
    assert refused.value.facts["where"] == where


def test_the_first_part_that_is_no_json_is_the_one_that_is_named() -> None:
    with pytest.raises(NotJson, match="/b/0"):
        canon.canonical({"a": "fine", "b": [object(), float("nan")], "c": {1}})


def test_a_value_may_nest_as_deep_as_the_limit_and_no_deeper() -> None:
    value: Any = 1
    for _ in range(canon.MAX_DEPTH):
        value = [value]
    assert canon.canonical(value)
    with pytest.raises(NotJson, match="nests too deep"):
        canon.canonical([value])


def test_a_value_that_is_too_large_says_how_large_it_is() -> None:
    with pytest.raises(NotJson) as refused:
        canon.canonical("x" * 100, max_bytes=50)
    assert (refused.value.facts["size"], refused.value.facts["limit"]) == (102, 50)
