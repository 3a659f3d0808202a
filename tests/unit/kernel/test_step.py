"""The loop exposed: K is complete and explicit, every schedule of a frontier agrees, and hidden state is noticed."""

from __future__ import annotations

import itertools
import json
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import pytest

from addendum.errors import UsageError
from addendum.kernel.step import State, Step, read, settled, step
from addendum.ports import Limits, Returned, Sandbox
from addendum.runs.prepare import script
from addendum.sandbox.embedded import EmbeddedSandbox
from addendum.script.program import compile_program

WIDE = """async def orchestrate(ctx, args):
    async def one(n):
        first = await ctx.run("a", {"n": n})
        return (await ctx.run("b", {"n": first["n"]}))["n"]
    return await ctx.parallel([one(n) for n in range(3)])
"""
SHARED = """async def orchestrate(ctx, args):
    seen = []
    async def one(n):
        await ctx.run("a", {"n": n})
        seen.append(n)
        return await ctx.run("b", {"before": len(seen)})
    return await ctx.parallel([one(n) for n in range(2)])
"""


@pytest.fixture(scope="module")
def sandbox() -> Iterator[Sandbox]:
    opened = EmbeddedSandbox()
    yield opened
    opened.close()


def select(sandbox: Sandbox, state: State) -> Step:
    """Run a K that went through JSON, as another process would."""
    state = read(json.loads(json.dumps(state.to_json())))
    program = compile_program(state.source)
    opened = lambda: sandbox.open(script(program), state.args, limits=Limits(), nonce="5e5510115e551011")  # noqa: E731
    return step(state, program, opened)


def drive(sandbox: Sandbox, source: str, pick: Callable[[Sequence[Any]], Sequence[Any]]) -> tuple[Step, list[Any]]:
    """Settle what `pick` takes of each frontier, until the end."""
    state, made = State(source, {}), list[Any]()
    while True:
        found = select(sandbox, state)
        if found.end is not None:
            return found, made
        for call in pick(found.pending):
            made.append((call["identity"], call["capability"], call["digest"]))
            found.state.trace.append(settled(call, result=call["payload"]))
        state = found.state


@pytest.mark.parametrize("name", ["format", "source", "args", "trace"])
def test_a_k_without_one_of_its_fields_is_an_error(name: str) -> None:
    """Nothing of K is guessed."""
    whole = State(WIDE, {}).to_json()
    del whole[name]
    with pytest.raises(UsageError):
        read(whole)


@pytest.mark.parametrize("name", ["identity", "capability", "digest", "result"])
def test_a_settled_call_without_one_of_its_fields_is_an_error(name: str) -> None:
    """Nor of a settled call."""
    entry = {"identity": "orchestrate/a#0", "capability": "a", "digest": "d", "result": 1}
    del entry[name]
    with pytest.raises(UsageError):
        read({**State(WIDE, {}).to_json(), "trace": [entry]})


def test_a_failure_without_a_code_is_an_error() -> None:
    """A failure says which one it was."""
    entry = {"identity": "orchestrate/a#0", "capability": "a", "digest": "d", "failure": {}}
    with pytest.raises(UsageError):
        read({**State(WIDE, {}).to_json(), "trace": [entry]})


def test_serial_batched_and_any_other_schedule_agree(sandbox: Sandbox) -> None:
    """One call at a time, whole frontiers, and every order of a frontier: the same calls and the same result."""
    ways: list[Callable[[Sequence[Any]], Sequence[Any]]] = [
        lambda calls: calls[:1],
        lambda calls: calls,
        lambda calls: calls[-1:],
    ]
    for order in itertools.permutations(range(3)):
        ways.append(lambda calls, order=order: [calls[i] for i in order if i < len(calls)])  # type: ignore[misc]
    ends = [drive(sandbox, WIDE, pick) for pick in ways]
    assert {json.dumps(end.end.value) for end, _ in ends if isinstance(end.end, Returned)} == {"[0, 1, 2]"}
    assert len({frozenset(made) for _, made in ends}) == 1


def test_state_that_branches_share_is_noticed(sandbox: Sandbox) -> None:
    """In another order than it was made in, a trace asks for another payload: an error, not another result."""
    end, _ = drive(sandbox, SHARED, lambda calls: calls[:1])
    trace = end.state.trace
    firsts = [entry for entry in trace if entry["capability"] == "a"]
    others = [entry for entry in trace if entry["capability"] == "b"]
    with pytest.raises(UsageError):
        select(sandbox, State(SHARED, {}, [*reversed(firsts), *others]))
