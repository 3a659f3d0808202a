"""Values cross the boundary unchanged, on both interpreters."""

from __future__ import annotations

import json
from collections.abc import Iterator

import pytest
from hypothesis import given
from hypothesis import strategies as st

from addendum.canon import MAX_INT
from addendum.ports import Issued, Returned, Sandbox
from addendum.records.outcome import Success
from addendum.sandbox.embedded import EmbeddedSandbox
from addendum.testing.driving import by_hand, drive
from addendum.testing.process_sandbox import ProcessSandbox

TEXT = st.text(st.characters(exclude_categories=("Cs",)))
VALUES = st.recursive(
    st.none()
    | st.booleans()
    | st.integers(-MAX_INT, MAX_INT)
    | st.floats(allow_nan=False, allow_infinity=False)
    | TEXT,
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(TEXT, inner, max_size=4),
    max_leaves=12,
)
SCRIPT = by_hand("""
async def orchestrate(ctx, args):
    _wf_p = _wf_at[0]
    out = []
    for value in args:
        out.append(await ctx.run(_wf_p, "orchestrate/a.b#0", "a.b", value))
    return out
""")
ASKING = by_hand("""
async def orchestrate(ctx, args):
    _wf_p = _wf_at[0]
    found = await ctx.run(_wf_p, "orchestrate/a.b#0", "a.b", {})
    kinds = [type(each).__name__ for each in (found, found["a"], found["a"][1])]
    await ctx.run(_wf_p, "orchestrate/a.b#1", "a.b", kinds)
""")


@pytest.fixture(scope="module", params=["embedded", "process"])
def sandbox(request: pytest.FixtureRequest) -> Iterator[Sandbox]:
    backend: Sandbox = EmbeddedSandbox() if request.param == "embedded" else ProcessSandbox(spares=2)
    yield backend
    backend.close()


@given(values=st.lists(VALUES, min_size=1, max_size=8))
def test_a_value_comes_back_as_it_was_sent(sandbox: Sandbox, values: list[object]) -> None:
    """As an argument, a payload, an answer and a result: the same JSON text, 1 is not 1.0 and 0.0 not -0.0."""
    events, end = drive(sandbox, SCRIPT, values, answer=lambda call: Success(call.payload))  # type: ignore[arg-type]
    sent = [event.payload for event in events if isinstance(event, Issued)]
    assert json.dumps(sent) == json.dumps(values)
    assert isinstance(end, Returned)
    assert json.dumps(end.value) == json.dumps(values)


def test_a_tuple_of_an_answer_is_a_list(sandbox: Sandbox) -> None:
    """As it is once it was stored, whether the answer travels as text or not."""
    _, end = drive(sandbox, SCRIPT, [None], answer=lambda call: Success({"a": (1, ("b",))}))
    assert isinstance(end, Returned)
    assert end.value == [{"a": [1, ["b"]]}]
    events, _ = drive(sandbox, ASKING, answer=lambda call: Success({"a": (1, ("b",))}))
    assert [event.payload for event in events if isinstance(event, Issued)] == [{}, ["dict", "list", "list"]]
