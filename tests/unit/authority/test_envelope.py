"""The worst case before anything starts: by calls of the source, sizes of schemas, and what was used already."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from addendum.authority.catalog import Capability, Catalog
from addendum.authority.envelope import excesses, new_work, smallest
from addendum.authority.grant import from_json
from addendum.authority.sizes import largest
from addendum.canon import canonical

TEXT = {"type": "string", "maxLength": 10}
PATHS = {
    "type": "object",
    "properties": {"path": {"enum": ["a", "b"]}},
    "required": ["path"],
    "additionalProperties": False,
}
DELETE = Capability(
    name="file.delete", effect="irreversible", price=10, most=20, input=PATHS, output=TEXT, most_tokens=5, agentic=True
)
CATALOG = Catalog([DELETE, Capability(name="open.ended", effect="paid")])


@pytest.mark.parametrize(
    ("meter", "calls", "worst"),
    [
        ("calls", 3, 3),
        ("cost_usd", 3, 60),
        ("tokens", 3, 15),
        ("bytes_out", 3, 3 * 13),
        ("bytes_in", 3, 3 * 62),
        ("agents", 3, 3),
        ("journal_bytes", 3, 3 * (13 + 62)),
        ("journal_records", 3, 6),
        ("distinct:/path", 3, 2),
        ("distinct:/path", None, 2),
    ],
)
def test_the_worst_case_of_each_meter(meter: str, calls: int | None, worst: int) -> None:
    """At the worst case a grant is enough, one less is not, and the smallest grant that would do is the first."""

    def granted(most: int) -> Any:
        amount: Any = f"{most / 1e9:.9f}" if meter == "cost_usd" else most
        return from_json({"capabilities": {"file.delete": {"limits": [{"meter": meter, "max": amount}]}}})

    assert excesses({"file.delete": calls}, CATALOG, granted(worst)) == ()
    found = excesses({"file.delete": calls}, CATALOG, granted(worst - 1))
    assert [excess.worst for excess in found] == [worst]
    assert smallest(granted(worst - 1), found) == granted(worst)


def test_what_has_no_bound_is_named() -> None:
    """Calls without a bound, and tokens that nobody declared a maximum of, fit no limit; no number would do."""
    grant = from_json({"capabilities": {"open.ended": {"limits": [{"meter": "tokens", "max": 99}]}}})
    found = excesses({"open.ended": 2}, CATALOG, grant)
    assert "open.ended declares no maximum of tokens" in str(found[0])
    assert smallest(grant, found) is None
    grant = from_json({"capabilities": {"open.ended": {}}, "limits": [{"meter": "calls", "max": 9}]})
    assert "open.ended has no bound" in str(excesses({"open.ended": None}, CATALOG, grant)[0])


def test_a_schema_without_sizes_counts_as_the_most_that_is_taken() -> None:
    """An open string may be a whole payload: a cap on bytes needs a maxLength, or a limit per call."""
    limits = [{"meter": "bytes_out", "max": 1000}]
    grant = from_json({"capabilities": {"open.ended": {"limits": limits}}})
    assert excesses({"open.ended": 1}, CATALOG, grant)[0].worst == 1024 * 1024
    limits.append({"meter": "bytes_out", "max": 1000, "per": "call"})
    assert excesses({"open.ended": 1}, CATALOG, from_json({"capabilities": {"open.ended": {"limits": limits}}})) == ()


def test_new_work_is_the_box_without_what_is_replayed() -> None:
    """Three of six are committed: three more are new, whatever the six cost before."""
    assert new_work({"a": 6, "b": None, "c": 1}, {"a": 3, "c": 2}) == {"a": 3, "b": None, "c": 0}


SCHEMAS = st.recursive(
    st.one_of(
        st.just({"type": "boolean"}),
        st.just({"type": "integer"}),
        st.builds(lambda n: {"type": "string", "maxLength": n}, st.integers(0, 5)),
        st.just({"enum": ["é", 1, None]}),
    ),
    lambda inner: st.one_of(
        st.builds(lambda items, n: {"type": "array", "items": items, "maxItems": n}, inner, st.integers(0, 3)),
        st.builds(
            lambda below: {"type": "object", "properties": below, "additionalProperties": False},
            st.dictionaries(st.text(max_size=3), inner, max_size=3),
        ),
    ),
    max_leaves=6,
)


@given(SCHEMAS, st.data())
def test_no_value_is_larger_than_its_schema_says(schema: Any, data: st.DataObject) -> None:
    """Whatever fits a schema has at most the bytes that the schema gives it."""
    value = data.draw(_values(schema))
    size = largest(schema)
    assert size is not None
    assert len(canonical(value)) <= size


def _values(schema: Any) -> st.SearchStrategy[Any]:
    if "enum" in schema:
        return st.sampled_from(schema["enum"])
    match schema["type"]:
        case "boolean":
            return st.booleans()
        case "integer":
            return st.integers(-(2**53) + 1, 2**53 - 1)
        case "string":
            return st.text(max_size=schema["maxLength"])
        case "array":
            return st.lists(_values(schema["items"]), max_size=schema["maxItems"])
        case _:
            return st.fixed_dictionaries({}, optional={k: _values(v) for k, v in schema["properties"].items()})
