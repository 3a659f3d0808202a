"""Entries that every call writes: their bytes, put together here, are the canonical ones of their bodies."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from addendum.canon import MAX_INT, Json, canonical, sha256
from addendum.errors import NotJson
from addendum.ports import RunHeader
from addendum.records.entries import Attempt, Ref, Settled, attempt
from addendum.records.outcome import Failure, Success
from addendum.testing.memory_store import MemoryStore

AMOUNTS = st.integers(0, 3) | st.integers(0, MAX_INT)
COUNTS = st.integers(0, 10**6)
NAMES = st.sampled_from(
    ["mail.send", 'a"b', "a\\b", "a\x00\x1f\x7fb", "é", "\U0001f600", "", "payload", '"payload":null', '"result":null']
) | st.text(max_size=8)
DIGESTS = st.text(max_size=3).map(lambda text: sha256(text.encode())) | st.sampled_from(['"', "\\", "é"])
"""Those of a damaged journal, which are copied from it, may be any text."""
VALUES = st.recursive(
    st.none()
    | st.booleans()
    | st.integers(-MAX_INT, MAX_INT)
    | st.floats(allow_nan=False, allow_infinity=False)
    | NAMES,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(NAMES, inner, max_size=3),
    max_leaves=6,
)
INLINE = VALUES.map(lambda value: Ref(len(canonical(value)), value, None, canonical(value)))
REFS = INLINE | DIGESTS.map(lambda blob: Ref(9999, None, blob))
ATTEMPTS = st.builds(
    Attempt,
    seq=st.just(0),
    number=COUNTS,
    identity=NAMES,
    capability=NAMES,
    effect=st.sampled_from(["read", "idempotent", "paid", "side_effect", "irreversible"]),
    fingerprint=DIGESTS | st.just(""),
    digest=DIGESTS,
    take=AMOUNTS,
    key=DIGESTS,
    payload=REFS,
    revision=COUNTS,
    drive=COUNTS,
    hold=AMOUNTS,
    at=st.integers(0, 10**13).map(lambda ms: ms / 1000),
    waits=st.booleans(),
    supersedes=st.none() | COUNTS,
    principal=NAMES,
    approval=COUNTS,
)
SETTLED = st.builds(
    Settled,
    identity=NAMES,
    capability=NAMES,
    fingerprint=DIGESTS | st.just(""),
    digest=DIGESTS,
    outcome=st.just(Success(None)),
    result=REFS,
    revision=COUNTS,
    drive=COUNTS,
    attempt=COUNTS,
    cost=AMOUNTS,
    tokens=AMOUNTS,
    seconds=st.just(0.0) | st.floats(0, 10**6),
    supersedes=st.none() | COUNTS,
    by=NAMES,
)


@given(ATTEMPTS)
def test_an_attempts_bytes_are_those_of_its_body(made: Attempt) -> None:
    """Whatever its names, amounts and payload; and the attempt is read back from it."""
    entry = made.entry()
    assert (entry.kind, entry.body) == ("attempt", made.body())
    assert entry.data == canonical(dict(entry.body))
    assert attempt(0, entry.body) == made


@given(SETTLED)
def test_a_records_bytes_are_those_of_its_body(made: Settled) -> None:
    """Whatever its names, amounts and result."""
    entry = made.entry()
    assert (entry.kind, entry.body) == ("record", made.body())
    assert entry.data == canonical(dict(entry.body))


@given(ATTEMPTS, SETTLED, VALUES)
def test_what_has_no_bytes_of_its_own_is_left_to_the_store(made: Attempt, settled: Settled, value: Json) -> None:
    """A value whose bytes aren't there, a record without one, a failure."""
    failed = settled._replace(outcome=Failure("refused", "no", True))
    left = made._replace(payload=Ref(1, value))
    assert left.entry() == ("attempt", left.body(), None)
    for each in (
        settled._replace(result=Ref(1, value)),
        settled._replace(result=None),
        failed,
        failed._replace(result=None),
    ):
        assert each.entry() == ("record", each.body(), None)


CALL = Attempt(
    number=1, identity="a", capability="a.b", effect="read", fingerprint="", digest="d", take=1, key="k",
    payload=Ref(1, 1, None, b"1"), revision=1, drive=1, hold=1, at=1.0,
)  # fmt: skip
RECORD = Settled(
    identity="a", capability="a.b", fingerprint="", digest="d", outcome=Success(1), result=Ref(1, 1, None, b"1"),
    revision=1, drive=1,
)  # fmt: skip


def test_the_usual_entries_are_written_in_one_piece() -> None:
    """A value whose bytes are known, or a blob: nothing is left to the store."""
    for made in (CALL, CALL._replace(payload=Ref(9, None, "b")), RECORD, RECORD._replace(result=Ref(9, None, "b"))):
        assert made.entry().data is not None


@pytest.mark.parametrize(
    "made",
    [
        CALL._replace(hold=MAX_INT + 1),
        CALL._replace(take=-MAX_INT - 1),
        CALL._replace(at=1e13),
        CALL._replace(identity="\ud800"),
        CALL._replace(fingerprint="\ud800"),
        CALL._replace(payload=Ref(1, 2**60)),
        RECORD._replace(cost=MAX_INT + 1),
        RECORD._replace(tokens=MAX_INT + 1),
        RECORD._replace(seconds=1e13),
        RECORD._replace(by="\ud800"),
        RECORD._replace(result=Ref(1, 2**60)),
    ],
)
def test_what_json_does_not_have_is_left_to_the_store(made: Attempt | Settled) -> None:
    """Which refuses it: a number that is too large, text that is none."""
    store = MemoryStore()
    store.create(RunHeader("r", "", ""))
    assert made.entry().data is None
    with pytest.raises(NotJson):
        store.append("r", [made.entry()])
