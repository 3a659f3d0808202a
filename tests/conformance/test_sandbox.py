"""What every sandbox does (ports.Sandbox, ports.Session): the same turns, events and ends on each backend."""

from __future__ import annotations

import gc
import random
import threading
from collections.abc import Iterator
from contextlib import closing
from typing import Any

import pytest
from tests.sandboxes import CONFINED, backend

from addendum.errors import LimitExceeded, ProtocolViolation, UsageError
from addendum.ports import (
    Answer,
    BatchSession,
    EarlySession,
    Event,
    FanOut,
    Handed,
    Issued,
    Known,
    Limits,
    Preparing,
    RaceEnded,
    Raised,
    Returned,
    Said,
    Sandbox,
    Script,
    Served,
    Session,
    Turn,
)
from addendum.records.outcome import Failure, Outcome, Success
from addendum.sandbox.embedded import EmbeddedSandbox
from addendum.testing.driving import by_hand, drive, echo, issued
from addendum.testing.process_sandbox import ProcessSandbox


@pytest.fixture(scope="module", params=[*CONFINED, "process"])
def sandbox(request: pytest.FixtureRequest) -> Iterator[Sandbox]:
    with backend(request.param) as opened:
        yield opened


# --- one strand ---------------------------------------------------------------------------------------------------

HELPER = by_hand("""
async def shot(ctx, n):
    _wf_p = _wf_at[0]
    return await ctx.run(_wf_p, "shot/image.generate#0", "image.generate", {"n": n})

async def orchestrate(ctx, args):
    _wf_p = _wf_at[0]
    plan = await ctx.run(_wf_p, "orchestrate/storyboard.plan#0", "storyboard.plan", {"brief": args["brief"]})
    ctx.log("planned")
    shots = []
    _wf_i0 = -1
    for n in range(2):
        _wf_i0 += 1; _wf_q0 = _wf_p + f"orchestrate/for.0[{_wf_i0}] > "
        shots.append(await _wf_call(_wf_q0, "orchestrate/for.0/shot()#0", shot(ctx, n)))
    ctx.phase("done")
    twice = [await _wf_call(_wf_p, "orchestrate/shot()#0", shot(ctx, i)) for i in [7, 8]]
    return {"plan": plan, "shots": shots, "twice": twice}
""")


def test_calls_of_one_strand_come_one_by_one_with_their_paths(sandbox: Sandbox) -> None:
    """Loop and call frames are in the path, a frame that is entered again is numbered."""
    events, end = drive(sandbox, HELPER, {"brief": "é \U0001f600"})
    assert issued(events) == [
        "orchestrate/storyboard.plan#0",
        "orchestrate/for.0[0] > orchestrate/for.0/shot()#0 > shot/image.generate#0",
        "orchestrate/for.0[1] > orchestrate/for.0/shot()#0 > shot/image.generate#0",
        "orchestrate/shot()#0 > shot/image.generate#0",
        "orchestrate/shot()#0:1 > shot/image.generate#0",
    ]
    assert events[0] == Issued(1, "orchestrate/storyboard.plan#0", "storyboard.plan", {"brief": "é \U0001f600"})
    assert events[1] == Said("log", "planned")
    assert events[4] == Said("phase", "done")
    assert isinstance(end, Returned)
    assert end.value == {
        "plan": {"got": {"brief": "é \U0001f600"}},
        "shots": [{"got": {"n": 0}}, {"got": {"n": 1}}],
        "twice": [{"got": {"n": 7}}, {"got": {"n": 8}}],
    }


def test_a_site_that_is_called_again_under_one_path_is_numbered(sandbox: Sandbox) -> None:
    """A comprehension has no frame: its calls are told apart by their occurrence."""
    script = by_hand("""
async def orchestrate(ctx, args):
    _wf_p = _wf_at[0]
    return [await ctx.run(_wf_p, "orchestrate/a.b#0", "a.b", {"n": n}) for n in range(3)]
""")
    events, _ = drive(sandbox, script)
    assert issued(events) == ["orchestrate/a.b#0", "orchestrate/a.b#0:1", "orchestrate/a.b#0:2"]


def test_a_call_in_a_lambda_or_of_a_stored_coroutine_takes_the_path_of_the_moment(sandbox: Sandbox) -> None:
    """A prefix of None stands for the path of whatever frame awaits the call."""
    script = by_hand("""
async def twice(ctx, fn):
    _wf_p = _wf_at[0]
    one = await _wf_call(_wf_p, "twice/fn()#0", fn())
    return [one, await _wf_call(_wf_p, "twice/fn()#1", fn())]

async def orchestrate(ctx, args):
    _wf_p = _wf_at[0]
    later = ctx.run(None, "orchestrate/a.b#0", "a.b", {})
    call = lambda: ctx.run(None, "orchestrate/a.c#0", "a.c", {})
    both = await _wf_call(_wf_p, "orchestrate/twice()#0", twice(ctx, call))
    await _wf_call(_wf_p, "orchestrate/await#0", later)
""")
    events, _ = drive(sandbox, script)
    assert issued(events) == [
        "orchestrate/twice()#0 > twice/fn()#0 > orchestrate/a.c#0",
        "orchestrate/twice()#0 > twice/fn()#1 > orchestrate/a.c#0",
        "orchestrate/await#0 > orchestrate/a.b#0",
    ]


def test_the_recorded_reads_are_calls(sandbox: Sandbox) -> None:
    """now, random, uuid and sleep go to the host like calls, with payloads that say what is asked."""
    script = by_hand("""
async def orchestrate(ctx, args):
    _wf_p = _wf_at[0]
    await ctx.sleep(_wf_p, "orchestrate/ctx.sleep#0", 2.5)
    return [await ctx.now(_wf_p, "orchestrate/ctx.now#0"), await ctx.random(_wf_p, "orchestrate/ctx.random#0"),
            await ctx.uuid(_wf_p, "orchestrate/ctx.uuid#0")]
""")
    replies = {"ctx.sleep": None, "ctx.now": "2026-01-01T00:00:00Z", "ctx.random": 0.25, "ctx.uuid": "u"}
    events, end = drive(sandbox, script, answer=lambda call: Success(replies[call.capability]))
    assert [(event.capability, event.payload) for event in events if isinstance(event, Issued)] == [
        ("ctx.sleep", {"seconds": 2.5}),
        ("ctx.now", {}),
        ("ctx.random", {}),
        ("ctx.uuid", {}),
    ]
    assert end == Returned(["2026-01-01T00:00:00Z", 0.25, "u"])


def test_a_payload_is_copied_when_the_call_is_made(sandbox: Sandbox) -> None:
    """What the script does to its dict afterwards changes no call."""
    script = by_hand("""
async def orchestrate(ctx, args):
    _wf_p = _wf_at[0]
    x = {"list": [1, (2, 3)], "float": 1.5, "none": None, "true": True}
    a = ctx.run(None, "orchestrate/a.b#0", "a.b", x)
    async def change():
        x["list"].append(4)
    out = await ctx.parallel(_wf_p, "orchestrate/parallel#0", [a, change()])
    return x
""")
    events, end = drive(sandbox, script, answer=lambda call: Success(None))
    assert [event.payload for event in events if isinstance(event, Issued)] == [
        {"list": [1, [2, 3]], "float": 1.5, "none": None, "true": True}
    ]
    assert isinstance(end, Returned)


def test_equal_parts_of_an_answer_are_separate_values(sandbox: Sandbox) -> None:
    """One host object at two places of an answer must not become one object of the script."""
    script = by_hand("""
async def orchestrate(ctx, args):
    _wf_p = _wf_at[0]
    r = await ctx.run(_wf_p, "orchestrate/a.b#0", "a.b", {})
    r["x"].append(1)
    args["x"].append(1)
    return [r, args]
""")
    shared: list[object] = []
    _, end = drive(
        sandbox,
        script,
        {"x": shared, "y": shared},
        answer=lambda call: Success({"x": shared, "y": shared}),  # type: ignore[dict-item]
    )
    assert end == Returned([{"x": [1], "y": []}, {"x": [1], "y": []}])


def test_take_is_reported_and_checked(sandbox: Sandbox) -> None:
    """A take is a whole number from 1."""
    script = by_hand("""
async def orchestrate(ctx, args):
    _wf_p = _wf_at[0]
    await ctx.run(_wf_p, "orchestrate/a.b#0", "a.b", {}, take=2)
    found = []
    for take in [0, -1, True, 1.0, "2"]:
        try:
            await ctx.run(_wf_p, "orchestrate/a.b#1", "a.b", {}, take=take)
        except (TypeError, ValueError) as e:
            e = _wf_cap(e)
            found.append(str(e))
    return found
""")
    events, end = drive(sandbox, script)
    assert [event.take for event in events if isinstance(event, Issued)] == [2]
    assert end == Returned(
        [
            "take counts from 1.",
            "take counts from 1.",
            "take is a whole number, not a bool.",
            "take is a whole number, not a float.",
            "take is a whole number, not a str.",
        ]
    )


BUILD = "is no JSON value (at /x/0). Build it from dicts, lists, text, numbers, booleans and None."


@pytest.mark.parametrize(
    ("value", "kind", "message"),
    [
        ("{1, 2}", "TypeError", f"a set {BUILD}"),
        ("b'x'", "TypeError", f"a bytes {BUILD}"),
        ("(lambda: 1)", "TypeError", f"a function {BUILD}"),
        ("CapabilityError('a', 'b')", "TypeError", f"a CapabilityError {BUILD}"),
        ("range(3)", "TypeError", f"a range {BUILD}"),
        ("{1: 2}", "TypeError", "the key 1 is a int, not text (at /x/0). Write str(key)."),
        ("float('nan')", "ValueError", "nan is no JSON number (at /x/0). Send null or a string."),
        ("float('-inf')", "ValueError", "-inf is no JSON number (at /x/0). Send null or a string."),
        ("2 ** 53", "ValueError", "the integer is beyond 2^53 (at /x/0). Send it as a string."),
        ("-10 ** 30", "ValueError", "the integer is beyond 2^53 (at /x/0). Send it as a string."),
        ("cyclic", "ValueError", f"it nests deeper than 64 levels (at {('/x' + '/0' * 63)[:80]}). Flatten it."),
    ],
)
def test_what_json_cannot_say_is_an_error_at_the_call(sandbox: Sandbox, value: str, kind: str, message: str) -> None:
    """Payloads and results that JSON can't say raise in the script, with the place; nothing is converted."""
    script = by_hand(f"""
cyclic = []
async def orchestrate(ctx, args):
    _wf_p = _wf_at[0]
    cyclic.append(cyclic)
    bad = {{"x": [{value}]}}
    if args:
        return bad
    await ctx.run(_wf_p, "orchestrate/a.b#0", "a.b", bad)
""")
    _, end = drive(sandbox, script, False)
    assert end == Raised(kind, f"The payload of a.b can't be sent as JSON: {message}", frames=((9, "orchestrate"),))
    _, end = drive(sandbox, script, True)
    assert end == Raised(kind, f"The result can't be sent as JSON: {message}")


# --- failures -----------------------------------------------------------------------------------------------------


def failing(*names: str, code: str = "refused") -> object:
    def answer(call: Issued) -> Outcome:
        if call.capability in names:
            return Failure(code, f"no {call.capability}", False, call.identity)
        return echo(call)

    return answer


CATCH = by_hand("""
async def orchestrate(ctx, args):
    _wf_p = _wf_at[0]
    saved = None
    try:
        await ctx.run(_wf_p, "orchestrate/try.0/a.b#0", "a.b", {})
    except _wf_err as e:
        e = _wf_cap(e)
        saved = e
        kinds = [isinstance(e, CapabilityError), isinstance(e, Exception), isinstance(e, (ValueError, CapabilityError)),
                 isinstance(e, (ValueError, KeyError)), isinstance(e, ValueError)]
        facts = [e.code, e.message, e.retryable, str(e), repr(e)] + kinds
    await ctx.run(_wf_p, "orchestrate/a.c#0", "a.c", {})
    if args == "again":
        raise _wf_exc(saved)
    if args == "own":
        raise _wf_exc(CapabilityError("refused", "no"))
    if args == "from":
        raise _wf_exc(ValueError("x")) from _wf_exc(saved)
    return facts
""")


def test_a_failure_can_be_caught_and_read(sandbox: Sandbox) -> None:
    """A caught failure has code, message, retryable and a text; it is an Exception, too."""
    _, end = drive(sandbox, CATCH, answer=failing("a.b"))  # type: ignore[arg-type]
    assert end == Returned(
        [
            "refused",
            "no a.b",
            False,
            "refused: no a.b",
            "CapabilityError('refused', 'no a.b')",
            True,
            True,
            True,
            False,
            False,
        ]
    )


def test_a_failure_that_is_saved_and_raised_later_still_names_its_call(sandbox: Sandbox) -> None:
    """The failing call's identity travels with the error, hidden from the script."""
    _, end = drive(sandbox, CATCH, "again", answer=failing("a.b"))  # type: ignore[arg-type]
    assert end == Raised(
        "CapabilityError", "no a.b", code="refused", identity="orchestrate/try.0/a.b#0", frames=((15, "orchestrate"),)
    )


def test_an_error_of_the_script_itself_names_no_call(sandbox: Sandbox) -> None:
    """A script may raise a CapabilityError of its own, and any named exception."""
    _, end = drive(sandbox, CATCH, "own", answer=failing("a.b"))  # type: ignore[arg-type]
    assert end == Raised("CapabilityError", "no", code="refused", identity="", frames=((17, "orchestrate"),))
    _, end = drive(sandbox, CATCH, "from", answer=failing("a.b"))  # type: ignore[arg-type]
    assert end == Raised("ValueError", "x", frames=((19, "orchestrate"),))


def test_an_uncaught_failure_shows_the_way_from_orchestrate_to_the_call(sandbox: Sandbox) -> None:
    """Frames are lines of the user's source, without the guest's own."""
    _, end = drive(sandbox, HELPER, {"brief": "x"}, answer=failing("image.generate"))  # type: ignore[arg-type]
    assert end == Raised(
        "CapabilityError",
        "no image.generate",
        code="refused",
        identity="orchestrate/for.0[0] > orchestrate/for.0/shot()#0 > shot/image.generate#0",
        frames=((14, "orchestrate"), (4, "shot")),
    )


@pytest.mark.parametrize(
    ("statement", "kind", "message"),
    [
        ("raise TimeoutError('mine')", "TimeoutError", "mine"),
        ("raise MemoryError('mine')", "MemoryError", "mine"),
        ("raise RuntimeError('suspension limit')", "RuntimeError", "suspension limit"),
        ("raise KeyError('k')", "KeyError", "k"),
        ("return {}['k']", "KeyError", "k"),
        ("return [][0]", "IndexError", "list index out of range"),
        ("return 1 / 0", "ZeroDivisionError", "division by zero"),
        ("assert 1 == 2", "AssertionError", ""),
        ("assert 1 == 2, 'no'", "AssertionError", "no"),
        ("return nothing", "NameError", "name 'nothing' is not defined"),
    ],
)
def test_errors_of_the_script_are_its_own(sandbox: Sandbox, statement: str, kind: str, message: str) -> None:
    """An exception of the script is never taken for a limit of the sandbox."""
    script = by_hand(f"async def orchestrate(ctx, args):\n    _wf_p = _wf_at[0]\n    {statement}\n")
    _, end = drive(sandbox, script)
    assert end == Raised(kind, message, frames=((3, "orchestrate"),))


AGAIN = """
def inner(n):
    return {{}}["x"] if n else 1 / n

async def helper(ctx, n):
    _wf_p = _wf_at[0]
    {body}

async def orchestrate(ctx, args):
    _wf_p = _wf_at[0]
    rows = await ctx.parallel(_wf_p, "orchestrate/parallel#0", [helper(ctx, 1)])
    return rows
"""


@pytest.mark.parametrize(
    ("body", "frames"),
    [
        ("return inner(n)", ((11, "orchestrate"), (7, "helper"), (3, "inner"))),
        ("try:\n        return inner(n)\n    except KeyError:\n        raise", ((14, "orchestrate"), (7, "helper"))),
        (
            "try:\n        return inner(n)\n    except KeyError as e:\n        e = _wf_cap(e)\n        raise",
            ((15, "orchestrate"), (7, "helper")),
        ),
        (
            "try:\n        return inner(n)\n    except KeyError as e:\n        raise _wf_exc(e)",
            ((14, "orchestrate"), (10, "helper")),
        ),
        (
            "try:\n        return inner(n)\n    except KeyError:\n        n = 2\n        raise KeyError('x')",
            ((15, "orchestrate"), (11, "helper")),
        ),
        (
            "try:\n        return inner(n)\n    except KeyError:\n        n = 2\n        return inner(n)",
            ((15, "orchestrate"), (7, "helper")),
        ),
        (
            "try:\n        return inner(n)\n    except KeyError:\n        n = inner(n)\n        return 1",
            ((15, "orchestrate"), (7, "helper")),
        ),
        (
            "try:\n        return inner(n)\n    except ValueError:\n        raise",
            ((14, "orchestrate"), (7, "helper")),
        ),
        (
            "try:\n        return inner(n)\n    except KeyError:\n        if n:\n            raise KeyError('x')\n"
            "        n = 3\n        n = 4\n    return n",
            ((18, "orchestrate"), (7, "helper")),
        ),
        (
            "try:\n        return inner(n)\n    except KeyError:\n        for i in range(2):\n"
            "            if i: raise KeyError('x')\n    except ValueError:\n        n = 4\n    return n",
            ((18, "orchestrate"), (11, "helper")),
        ),
        ("try:\n        return inner(n)\n    finally:\n        n = 2", ((14, "orchestrate"), (7, "helper"))),
        (
            "for i in range(2):\n        try:\n            return inner(n)\n        except KeyError:\n"
            "            if i:\n                raise",
            ((16, "orchestrate"), (8, "helper")),
        ),
        (
            "try:\n        try:\n            return inner(n)\n        except ValueError:\n            n = 2\n"
            "    except IndexError:\n        n = 3",
            ((17, "orchestrate"), (7, "helper")),
        ),
    ],
)
def test_an_error_that_passes_a_try_comes_from_there(
    sandbox: Sandbox, body: str, frames: tuple[tuple[int, str], ...]
) -> None:
    """A bare `raise`, handlers for other errors and a `finally`: the same place on every backend."""
    _, end = drive(sandbox, by_hand(AGAIN.format(body=body)))
    assert end == Raised("KeyError", "x", frames=frames)


# --- fan-outs -----------------------------------------------------------------------------------------------------

PARALLEL = by_hand("""
async def gen(ctx, n):
    _wf_p = _wf_at[0]
    a = await ctx.run(_wf_p, "gen/a.b#0", "a.b", {"n": n})
    if n == 1:
        raise _wf_exc(ValueError("one"))
    b = await ctx.run(_wf_p, "gen/a.c#0", "a.c", {"n": n})
    return [a, b]

async def orchestrate(ctx, args):
    _wf_p = _wf_at[0]
    rows = await ctx.parallel(_wf_p, "orchestrate/parallel#0", [gen(ctx, n) for n in range(3)], return_errors=args)
    return [isinstance(r, ValueError) or (isinstance(r, CapabilityError) and r.code) or r for r in rows]
""")


def test_parallel_starts_all_branches_and_is_a_barrier(sandbox: Sandbox) -> None:
    """All branches are asked before the first answer; the first error by position is raised when all have ended."""
    session = sandbox.open(PARALLEL, False, limits=Limits(), nonce="n")
    turn = session.advance(None)
    assert turn.events[0] == FanOut("orchestrate/parallel#0", "parallel", 3)
    first, second, third = turn.events[1:]
    assert isinstance(first, Issued)
    assert isinstance(second, Issued)
    assert isinstance(third, Issued)
    assert [first.identity, second.identity, third.identity] == [
        f"orchestrate/parallel#0[{n}] > gen/a.b#0" for n in range(3)
    ]
    turn = session.advance(Answer(third.call, Failure("refused", "x", False, third.identity)))
    assert turn.events == ()
    assert turn.end is None
    turn = session.advance(Answer(second.call, Success(2)))
    assert turn.events == ()
    assert turn.end is None
    turn = session.advance(Answer(first.call, Success(1)))
    (last,) = turn.events
    assert isinstance(last, Issued)
    assert last.identity == "orchestrate/parallel#0[0] > gen/a.c#0"
    turn = session.advance(Answer(last.call, Success(1)))
    assert turn.end == Raised("ValueError", "one", frames=((12, "orchestrate"), (6, "gen")))


def test_parallel_with_return_errors_puts_the_exceptions_in_place(sandbox: Sandbox) -> None:
    """Each failed branch has its exception, whatever its type."""

    def answer(call: Issued) -> Outcome:
        return (
            Failure("refused", "x", False, call.identity)
            if call.identity.startswith("orchestrate/parallel#0[2]")
            else Success(1)
        )

    _, end = drive(sandbox, PARALLEL, True, answer=answer)
    assert end == Returned([[1, 1], True, "refused"])


def test_every_order_of_answers_gives_the_same_calls_and_result(sandbox: Sandbox) -> None:
    """Branches don't see each other's timing."""
    seen = set()
    for seed in range(8):
        choose = random.Random(seed)
        events, end = drive(sandbox, PARALLEL, True, pick=lambda waiting, c=choose: c.randrange(len(waiting)))  # type: ignore[misc]
        seen.add((tuple(sorted(issued(events))), str(end)))
    assert len(seen) == 1


def test_empty_fan_outs_end_at_once(sandbox: Sandbox) -> None:
    """Nothing to do is a result; a race of nothing is an error."""
    script = by_hand("""
async def orchestrate(ctx, args):
    _wf_p = _wf_at[0]
    out = [await ctx.parallel(_wf_p, "orchestrate/parallel#0", []),
           await ctx.pipeline(_wf_p, "orchestrate/pipeline#0", []), await ctx.dag(_wf_p, "orchestrate/dag#0", {})]
    try:
        await ctx.race(_wf_p, "orchestrate/try.0/race#0", [])
    except ValueError as e:
        e = _wf_cap(e)
        out.append(str(e))
    return out
""")
    events, end = drive(sandbox, script)
    assert end == Returned([[], [], {}, "ctx.race needs at least one branch."])
    assert events == [
        FanOut("orchestrate/parallel#0", "parallel", 0),
        FanOut("orchestrate/pipeline#0", "pipeline", 0),
        FanOut("orchestrate/dag#0", "dag", ()),
    ]


def test_a_fan_out_that_is_entered_again_is_numbered(sandbox: Sandbox) -> None:
    """Fan-outs nest, and the second entry under one path has its number."""
    script = by_hand("""
async def row(ctx, n):
    _wf_p = _wf_at[0]
    cells = [ctx.run(None, "row/a.b#0", "a.b", {"n": n, "i": i}) for i in range(2)]
    return await ctx.parallel(_wf_p, "row/parallel#0", cells)

async def orchestrate(ctx, args):
    _wf_p = _wf_at[0]
    return [await ctx.parallel(_wf_p, "orchestrate/parallel#0", [row(ctx, n) for n in range(2)]) for i in range(2)]
""")
    events, _ = drive(sandbox, script)
    assert issued(events)[:4] == [
        f"orchestrate/parallel#0[{n}] > row/parallel#0[{i}] > row/a.b#0" for n in range(2) for i in range(2)
    ]
    assert issued(events)[4:] == [
        f"orchestrate/parallel#0:1[{n}] > row/parallel#0[{i}] > row/a.b#0" for n in range(2) for i in range(2)
    ]


PIPELINE = by_hand("""
async def draw(value, item, index):
    _wf_p = _wf_at[0]
    return [value, await ctx0[0].run(_wf_p, "draw/a.b#0", "a.b", {"i": index})]

ctx0 = []
async def orchestrate(ctx, args):
    _wf_p = _wf_at[0]
    ctx0.append(ctx)
    return await ctx.pipeline(_wf_p, "orchestrate/pipeline#0", ["x", "y"], draw, draw,
        lambda v, item, i: ctx.run(None, "orchestrate/a.c#0", "a.c", {"v": v, "item": item}), return_errors=args)
""")


def test_a_pipeline_has_no_barrier_between_its_stages(sandbox: Sandbox) -> None:
    """One item may be at its last stage while another is at its first; a stage that is used twice is numbered."""
    events, end = drive(
        sandbox, PIPELINE, False, answer=lambda call: Success(call.call), pick=lambda waiting: len(waiting) - 1
    )
    assert issued(events) == [
        "orchestrate/pipeline#0[0] > draw/a.b#0",
        "orchestrate/pipeline#0[1] > draw/a.b#0",
        "orchestrate/pipeline#0[1] > draw/a.b#0:1",
        "orchestrate/pipeline#0[1] > orchestrate/a.c#0",
        "orchestrate/pipeline#0[0] > draw/a.b#0:1",
        "orchestrate/pipeline#0[0] > orchestrate/a.c#0",
    ]
    assert events[4] == Issued(
        4, "orchestrate/pipeline#0[1] > orchestrate/a.c#0", "a.c", {"v": [["y", 2], 3], "item": "y"}
    )
    assert end == Returned([6, 4])


def test_a_failed_item_of_a_pipeline_skips_its_later_stages(sandbox: Sandbox) -> None:
    """The other items go on, then the error is raised."""
    _, end = drive(
        sandbox,
        PIPELINE,
        False,
        answer=lambda call: Failure("timeout", "t", True, call.identity) if call.call == 1 else Success(1),
    )
    assert isinstance(end, Raised)
    assert (end.code, end.identity) == ("timeout", "orchestrate/pipeline#0[0] > draw/a.b#0")


DAG = by_hand("""
async def orchestrate(ctx, args):
    _wf_p = _wf_at[0]
    async def a():
        _wf_p = _wf_at[0]
        return await ctx.run(_wf_p, "orchestrate.a/a.a#0", "a.a", {})
    async def b(x):
        _wf_p = _wf_at[0]
        return [x, await ctx.run(_wf_p, "orchestrate.b/a.b#0", "a.b", {})]
    async def c(x, y):
        return [x, y]
    nodes = {"last": (c, ["\u00e9 > \\"", "a"]), "\u00e9 > \\"": (b, ["a"]), "a": (a, [])}
    out = await ctx.dag(_wf_p, "orchestrate/dag#0", nodes, return_errors=args)
    return {k: v.code if isinstance(v, CapabilityError) else v for k, v in out.items()}
""")


def test_a_dag_runs_a_node_when_its_dependencies_are_done(sandbox: Sandbox) -> None:
    """Results of the dependencies are positional arguments; branches are named; the result is in the nodes' order."""
    events, end = drive(sandbox, DAG, False, answer=lambda call: Success(call.call))
    assert events[0] == FanOut("orchestrate/dag#0", "dag", ("last", 'é > "', "a"))
    assert issued(events) == [
        'orchestrate/dag#0["a"] > orchestrate.a/a.a#0',
        'orchestrate/dag#0["\\u00e9 > \\""] > orchestrate.b/a.b#0',
    ]
    assert end == Returned({"last": [[1, 2], 1], 'é > "': [1, 2], "a": 1})
    assert list(end.value) == ["last", 'é > "', "a"]  # type: ignore[call-overload]


def test_what_depends_on_a_failed_node_is_skipped(sandbox: Sandbox) -> None:
    """With return_errors the dict has the error and a `skipped` for each dependent; else the error is raised."""
    _, end = drive(sandbox, DAG, True, answer=failing("a.a"))  # type: ignore[arg-type]
    assert end == Returned({"last": "skipped", 'é > "': "skipped", "a": "refused"})
    _, end = drive(sandbox, DAG, False, answer=failing("a.a"))  # type: ignore[arg-type]
    assert end == Raised(
        "CapabilityError",
        "no a.a",
        code="refused",
        identity='orchestrate/dag#0["a"] > orchestrate.a/a.a#0',
        frames=((13, "orchestrate"), (6, "a")),
    )


@pytest.mark.parametrize(
    ("nodes", "message"),
    [
        ('{"a": (f, ["b"])}', "ctx.dag: 'a' needs 'b', which is no node."),
        ('{"a": (f, ["b"]), "b": (f, ["a"]), "c": (f, [])}', "ctx.dag: there is a cycle among ['a', 'b']."),
    ],
)
def test_a_dag_that_cannot_run_is_an_error(sandbox: Sandbox, nodes: str, message: str) -> None:
    """Unknown dependencies and cycles are found before anything starts."""
    script = by_hand(f"""
async def orchestrate(ctx, args):
    _wf_p = _wf_at[0]
    async def f():
        return 1
    return await ctx.dag(_wf_p, "orchestrate/dag#0", {nodes})
""")
    events, end = drive(sandbox, script)
    assert (events, end) == ([], Raised("ValueError", message, frames=((6, "orchestrate"),)))


# --- races --------------------------------------------------------------------------------------------------------

RACE = by_hand("""
async def leg(ctx, n):
    _wf_p = _wf_at[0]
    r = await ctx.run(_wf_p, "leg/a.b#0", "a.b", {"n": n})
    rows = await ctx.parallel(_wf_p, "leg/parallel#0", [ctx.run(None, "leg/a.c#0", "a.c", {"n": n})])
    return [n, r, rows]

async def orchestrate(ctx, args):
    _wf_p = _wf_at[0]
    best = await ctx.race(_wf_p, "orchestrate/race#0", [leg(ctx, n) for n in range(3)])
    after = await ctx.run(_wf_p, "orchestrate/a.d#0", "a.d", {"best": best})
    return [best[0], after]
""")


def test_the_first_branch_to_succeed_wins_when_the_host_agrees(sandbox: Sandbox) -> None:
    """The winner is a call to the host; after it the losers' calls wait no more and answering one is an error."""
    session = sandbox.open(RACE, None, limits=Limits(), nonce="n")
    turn = session.advance(None)
    assert turn.events[0] == FanOut("orchestrate/race#0", "race", 3)
    turn = session.advance(Answer(2, Success("x")))
    assert turn.events[0] == FanOut("orchestrate/race#0[1] > leg/parallel#0", "parallel", 1)
    turn = session.advance(Answer(4, Success("y")))
    assert turn.events == (Issued(5, "orchestrate/race#0", "ctx.race", {"winner": 1}),)
    turn = session.advance(Answer(5, Success({"winner": 1})))
    assert turn.events == (
        RaceEnded("orchestrate/race#0", 1),
        Issued(6, "orchestrate/a.d#0", "a.d", {"best": [1, "x", ["y"]]}),
    )
    with pytest.raises(UsageError):
        session.advance(Answer(1, Success("late")))
    turn = session.advance(Answer(6, Success("z")))
    assert turn.end == Returned([1, "z"])


def test_a_race_waits_for_the_winner_that_the_host_knows(sandbox: Sandbox) -> None:
    """A replay picks the recorded winner, whoever came first this time."""

    def answer(call: Issued) -> Outcome:
        return Success({"winner": 2}) if call.capability == "ctx.race" else echo(call)

    events, end = drive(sandbox, RACE, answer=answer)
    assert RaceEnded("orchestrate/race#0", 2) in events
    assert isinstance(end, Returned)
    assert end.value[0] == 2  # type: ignore[index]


@pytest.mark.parametrize("wanted", [7, 2])
def test_a_winner_that_cannot_win_is_replaced_by_the_first(sandbox: Sandbox, wanted: int) -> None:
    """A branch that doesn't exist (or fails) can't be waited for."""

    def answer(call: Issued) -> Outcome:
        if call.capability == "ctx.race":
            return Success({"winner": wanted})
        if call.payload == {"n": 2}:
            return Failure("refused", "no", False, call.identity)
        return echo(call)

    events, end = drive(sandbox, RACE, answer=answer)
    assert RaceEnded("orchestrate/race#0", 0) in events
    assert isinstance(end, Returned)


def test_a_race_that_everybody_loses_raises_the_first_error_by_position(sandbox: Sandbox) -> None:
    """No winner, no control record."""
    events, end = drive(sandbox, RACE, answer=failing("a.b"), pick=lambda waiting: len(waiting) - 1)  # type: ignore[arg-type]
    assert isinstance(end, Raised)
    assert end.identity == "orchestrate/race#0[0] > leg/a.b#0"
    assert not [event for event in events if isinstance(event, RaceEnded)]


def test_a_branch_that_needs_no_call_wins_in_the_first_turn(sandbox: Sandbox) -> None:
    """The other branches are started, too; any exception loses."""
    script = by_hand("""
async def orchestrate(ctx, args):
    _wf_p = _wf_at[0]
    async def bad():
        return {}["x"]
    async def good():
        return "good"
    return await ctx.race(_wf_p, "orchestrate/race#0", [ctx.run(None, "orchestrate/a.b#0", "a.b", {}), bad(), good()])
""")
    session = sandbox.open(script, None, limits=Limits(), nonce="n")
    turn = session.advance(None)
    assert sorted(issued(turn.events)) == ["orchestrate/race#0", "orchestrate/race#0[0] > orchestrate/a.b#0"]
    race = next(event for event in turn.events if isinstance(event, Issued) and event.capability == "ctx.race")
    assert race.payload == {"winner": 2}
    turn = session.advance(Answer(race.call, Success({"winner": 2})))
    assert turn.end == Returned("good")


# --- known answers ------------------------------------------------------------------------------------------------

LOOP = by_hand("""
async def orchestrate(ctx, args):
    _wf_p = _wf_at[0]
    out = []
    _wf_i0 = -1
    for n in range(args):
        _wf_i0 += 1; _wf_q0 = _wf_p + f"orchestrate/for.0[{_wf_i0}] > "
        x = {"n": n}
        try:
            out.append(await ctx.run(_wf_q0, "orchestrate/for.0/a.b#0", "a.b", x, take=2))
        except _wf_err as e:
            e = _wf_cap(e)
            out.append(e.code)
        x["n"] = -1
    out.append(await ctx.now(_wf_p, "orchestrate/ctx.now#0"))
    return out
""")


def known(n: int, outcome: Outcome) -> Known:
    return Known(f"orchestrate/for.0[{n}] > orchestrate/for.0/a.b#0", outcome)


def test_known_answers_are_served_without_a_turn_and_reported_in_order(sandbox: Sandbox) -> None:
    """The main strand goes through what is known, and waits at the first call that isn't."""
    session = sandbox.open(LOOP, 4, limits=Limits(), nonce="n")
    turn = session.advance(None, [known(0, Success({"x": 0})), known(1, Failure("refused", "no", False))])
    assert turn.events == (
        Served("orchestrate/for.0[0] > orchestrate/for.0/a.b#0", "a.b", {"n": 0}, 2),
        Served("orchestrate/for.0[1] > orchestrate/for.0/a.b#0", "a.b", {"n": 1}, 2),
        Issued(1, "orchestrate/for.0[2] > orchestrate/for.0/a.b#0", "a.b", {"n": 2}, 2),
    )
    turn = session.advance(
        Answer(1, Success({"x": 2})), [known(3, Success({"x": 3})), Known("orchestrate/ctx.now#0", Success("t"))]
    )
    assert turn.events == (
        Served("orchestrate/for.0[3] > orchestrate/for.0/a.b#0", "a.b", {"n": 3}, 2),
        Served("orchestrate/ctx.now#0", "ctx.now", {}),
    )
    assert turn.end == Returned([{"x": 0}, "refused", {"x": 2}, {"x": 3}, "t"])


def test_known_answers_that_are_not_asked_for_stay_known(sandbox: Sandbox) -> None:
    """They may be asked for in a later turn."""
    session = sandbox.open(LOOP, 2, limits=Limits(), nonce="n")
    turn = session.advance(None, [known(1, Success(1)), known(9, Success(9))])
    assert issued(turn.events) == ["orchestrate/for.0[0] > orchestrate/for.0/a.b#0"]
    turn = session.advance(Answer(1, Failure("refused", "no", False)), [])
    assert [type(event) for event in turn.events] == [Served, Issued]
    turn = session.advance(Answer(2, Success("t")))
    assert turn.end == Returned(["refused", 1, "t"])


def test_served_calls_are_reported_before_a_failed_end(sandbox: Sandbox) -> None:
    """A script that ends in an error right after a served call reports both."""
    script = by_hand("""
async def orchestrate(ctx, args):
    _wf_p = _wf_at[0]
    await ctx.run(_wf_p, "orchestrate/a.b#0", "a.b", {})
    raise _wf_exc(ValueError("after"))
""")
    session = sandbox.open(script, None, limits=Limits(), nonce="n")
    turn = session.advance(None, [Known("orchestrate/a.b#0", Success(1))])
    assert turn.events == (Served("orchestrate/a.b#0", "a.b", {}),)
    assert turn.end == Raised("ValueError", "after", frames=((5, "orchestrate"),))


def test_sessions_do_not_see_each_other(sandbox: Sandbox) -> None:
    """A worker may be used again, a session's state never."""
    script = by_hand("""
seen = []
async def orchestrate(ctx, args):
    _wf_p = _wf_at[0]
    seen.append(args)
    await ctx.run(_wf_p, "orchestrate/a.b#0", "a.b", {})
    return seen
""")
    for n in range(3):
        assert drive(sandbox, script, n)[1] == Returned([n])
    sessions = [sandbox.open(script, n, limits=Limits(), nonce=str(n)) for n in range(3)]
    calls = [session.advance(None) for session in sessions]
    assert all(turn.end is None for turn in calls)
    assert [session.advance(Answer(1, Success(0))).end for session in reversed(sessions)] == [
        Returned([2]),
        Returned([1]),
        Returned([0]),
    ]


# --- batches ------------------------------------------------------------------------------------------------------

BRANCHES = by_hand("""
async def gen(ctx, n, seen):
    _wf_p = _wf_at[0]
    try:
        a = await ctx.run(_wf_p, "gen/try.0/a.b#0", "a.b", {"n": n})
    except _wf_err as e:
        e = _wf_cap(e)
        a = e.code
    seen.append(n)
    ctx.log(f"{n} after {len(seen)}")
    if n == 1:
        return [a]
    if n == 2:
        raise _wf_exc(ValueError("two"))
    if n == 3:
        a = await _wf_call(_wf_p, "gen/inner()#0", inner(ctx, seen))
    b = await ctx.run(_wf_p, "gen/a.c#0", "a.c", {"n": n, "seen": list(seen)})
    return [a, b]

async def inner(ctx, seen):
    _wf_p = _wf_at[0]
    a = await ctx.random(_wf_p, "inner/ctx.random#0")
    seen.append(a)
    return a

async def orchestrate(ctx, args):
    _wf_p = _wf_at[0]
    seen = []
    rows = await ctx.parallel(
        _wf_p, "orchestrate/parallel#0", [gen(ctx, n, seen) for n in range(5)], return_errors=True)
    last = await ctx.run(_wf_p, "orchestrate/a.d#0", "a.d", {})
    return [rows[:2], str(rows[2]), rows[3:], last, seen]
""")


def reply(call: int) -> Outcome:
    """Answer the fifth branch with a failure, and the others with a number."""
    return Failure("refused", "no", False) if call == 5 else Success(call / 10)


@pytest.mark.parametrize("order", [(1, 2, 3, 4, 5), (5, 1, 2, 3, 4), (2, 5, 1, 4, 3)], ids=str)
def test_a_batch_is_told_apart_into_what_each_answer_led_to(sandbox: Sandbox, order: tuple[int, ...]) -> None:
    """Answers arrive in the order in which they were given, and between two of them stands what the first one led to:
    what a session says that is given one at a time, and is quiet in between."""
    with closing(opened(sandbox, BRANCHES)) as session:
        session.advance(None)
        alone = [session.advance(Answer(call, reply(call))).events for call in order]
        after = session.advance(Answer(6, Success(0.5)))
    assert all(alone)
    with closing(opened(sandbox, BRANCHES)) as session:
        session.advance(None)
        turn = session.advance_all([Answer(call, reply(call)) for call in order])
        assert session.advance(Answer(6, Success(0.5))) == after
    together: list[Event] = []
    for call, events in zip(order, alone, strict=True):
        together += [Handed(call), *events]
    assert list(turn.events) == together


def opened(sandbox: Sandbox, script: Script) -> Any:
    """Open a session that takes batches."""
    session = sandbox.open(script, True, limits=Limits(), nonce="n")
    assert isinstance(session, BatchSession)
    return session


def test_branches_that_say_nothing_arrive_all_the_same(sandbox: Sandbox) -> None:
    """A strand that ends without a word is marked, too, in its order, and so is the one that ends the barrier."""
    script = by_hand("""
async def orchestrate(ctx, args):
    _wf_p = _wf_at[0]
    rows = await ctx.parallel(
        _wf_p, "orchestrate/parallel#0", [ctx.run(None, "orchestrate/a.b#0", "a.b", {"n": n}) for n in range(4)])
    await ctx.run(_wf_p, "orchestrate/a.c#0", "a.c", {"rows": rows})
    return "done"
""")
    with closing(opened(sandbox, script)) as session:
        session.advance(None)
        turn = session.advance_all([Answer(4, Success(4)), Answer(2, Success(2))])
        assert turn == Turn((Handed(4), Handed(2)))
        turn = session.advance_all([Answer(1, Success(1)), Answer(3, Success(3))])
        assert turn == Turn(
            (Handed(1), Handed(3), Issued(5, "orchestrate/a.c#0", "a.c", {"rows": [1, 2, 3, 4]})),
        )
        assert session.advance_all([Answer(5, Success(5))]) == Turn((), Returned("done"))


def test_the_last_of_a_batch_brings_known_answers_along(sandbox: Sandbox) -> None:
    """They are used once the barrier is behind, and a batch may lead to the script's end."""
    script = by_hand("""
async def orchestrate(ctx, args):
    _wf_p = _wf_at[0]
    rows = await ctx.pipeline(_wf_p, "orchestrate/pipeline#0", [1, 2],
        lambda value, item, n: ctx.run(None, "orchestrate/a.b#0", "a.b", {"n": n}))
    return [rows, await ctx.run(_wf_p, "orchestrate/a.c#0", "a.c", {})]
""")
    with closing(opened(sandbox, script)) as session:
        session.advance(None)
        turn = session.advance_all(
            [Answer(1, Success(1)), Answer(2, Success(2))], [Known("orchestrate/a.c#0", Success("c"))]
        )
        assert turn == Turn((Handed(1), Handed(2), Served("orchestrate/a.c#0", "a.c", {})), Returned([[1, 2], "c"]))


def test_a_fan_out_in_a_branch_is_seen_before_the_next_answer_arrives(sandbox: Sandbox) -> None:
    """Whoever gave the batch sees that other strands may have gone on in between."""
    script = by_hand("""
async def gen(ctx, n):
    _wf_p = _wf_at[0]
    await ctx.run(_wf_p, "gen/a.b#0", "a.b", {"n": n})
    return await ctx.parallel(_wf_p, "gen/parallel#0", [ctx.run(None, "gen/a.c#0", "a.c", {"n": n})])

async def orchestrate(ctx, args):
    _wf_p = _wf_at[0]
    return await ctx.parallel(_wf_p, "orchestrate/parallel#0", [gen(ctx, n) for n in range(2)])
""")
    with closing(opened(sandbox, script)) as session:
        session.advance(None)
        turn = session.advance_all([Answer(1, Success(1)), Answer(2, Success(2))])
        inner = "orchestrate/parallel#0[{}] > gen/parallel#0"
        marks = [event for event in turn.events if not isinstance(event, Issued)]
        assert marks == [
            Handed(1),
            FanOut(inner.format(0), "parallel", 1),
            Handed(2),
            FanOut(inner.format(1), "parallel", 1),
        ]


def test_a_batch_that_cannot_be_handed_over_changes_nothing(sandbox: Sandbox) -> None:
    """No answers, none that waits, one call twice: an error of the host, and the session goes on."""
    with closing(opened(sandbox, PARALLEL)) as session:
        for answers in ([], [Answer(1, Success(1))]):
            with pytest.raises(UsageError):
                session.advance_all(answers)  # it hasn't started
        session.advance(None)
        for calls in ((), (1, 9), (9, 1), (1, 2, 1), (9,)):
            with pytest.raises(UsageError):
                session.advance_all([Answer(call, Success(1)) for call in calls])
        turn = session.advance_all([Answer(call, Success(1)) for call in (1, 2, 3)])
        assert [event for event in turn.events if isinstance(event, Handed)] == [Handed(1), Handed(2), Handed(3)]
        turn = session.advance_all([Answer(call, Success(1)) for call in (4, 5)])
        assert turn.end == Returned([[1, 1], True, [1, 1]])
        with pytest.raises(UsageError):
            session.advance_all([Answer(4, Success(1)), Answer(5, Success(1))])


# --- early answers, and sessions that are made ready --------------------------------------------------------------

THREE = by_hand(
    "async def orchestrate(ctx, args):\n"
    '    a = await ctx.run("", "orchestrate/a.b#0", "a.b", {"n": 0})\n'
    '    b = await ctx.run("", "orchestrate/a.b#1", "a.b", {"n": a})\n'
    '    c = await ctx.run("", "orchestrate/a.b#2", "a.b", {"n": b})\n'
    "    return [a, b, c]\n"
)
AHEAD = (Known("orchestrate/a.b#1", Success(20)),)


def early(sandbox: Sandbox) -> Any:
    """Return a session of THREE that takes answers early; None where the backend has none, which then offers no part of
    it: whoever has a session looks for all or nothing."""
    session = sandbox.open(THREE, None, limits=Limits(), nonce="n")
    if isinstance(session, EarlySession):
        return session
    session.close()
    assert not {"send", "receive", "seconds"} & set(dir(session))
    return None


def test_what_is_sent_and_received_is_what_advance_returns(sandbox: Sandbox) -> None:
    """The same turns, in two halves."""
    two = early(sandbox)
    if two is None:
        return
    one = sandbox.open(THREE, None, limits=Limits(), nonce="n")
    with closing(one), closing(two):
        assert one.advance(None) == two.advance(None)
        two.send(Answer(1, Success(10)), AHEAD)
        turn, seconds = two.receive(), two.seconds
        assert turn == one.advance(Answer(1, Success(10)), AHEAD)
        assert seconds >= 0
        two.send(Answer(2, Success(30)))
        assert two.receive() == one.advance(Answer(2, Success(30))) == Turn((), Returned([10, 20, 30]))
        with pytest.raises(UsageError):
            two.advance(None)


def test_while_a_script_computes_it_takes_nothing(sandbox: Sandbox) -> None:
    """Neither a second answer nor a turn; nothing is received that wasn't sent, and an error hands nothing over."""
    computing = early(sandbox)
    if computing is None:
        return
    with closing(computing) as session:
        with pytest.raises(UsageError):
            session.send(Answer(1, Success(10)))
        session.advance(None)
        with pytest.raises(UsageError):
            session.receive()
        with pytest.raises(UsageError):
            session.send(Answer(7, Success(10)))
        session.send(Answer(1, Success(10)))
        with pytest.raises(UsageError):
            session.send(Answer(1, Success(10)))
        with pytest.raises(UsageError):
            session.advance(Answer(1, Success(10)))
        assert session.receive().end is None


def test_a_session_that_was_made_ready_is_as_good_as_any(sandbox: Sandbox) -> None:
    """With its limits or with others, asked for once or twice; and the next one is as good, here and where a backend
    makes nothing ready."""

    def prepare(limits: Limits) -> None:
        if isinstance(sandbox, Preparing):
            sandbox.prepare(limits)

    prepare(Limits())
    prepare(Limits(total_seconds=7.0))
    plain = drive(sandbox, THREE, limits=Limits(total_seconds=8.0))
    assert plain == drive(sandbox, THREE, limits=Limits(total_seconds=7.0)) == drive(sandbox, THREE)
    prepare(Limits())
    assert plain == drive(sandbox, THREE)


# --- limits and claims --------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("body", "limits", "limit"),
    [
        ("while True: pass", Limits(turn_seconds=0.3), "turn_seconds"),
        ("x = 'x' * 10**9", Limits(memory=64 * 2**20), "memory"),
        ("while True: ctx.log('x')", Limits(calls=50), "calls"),
        ("while True: ctx.log('x' * 1000)", Limits(output=10_000), "output"),
        ("return 'x' * 10**6", Limits(message=10**5), "message"),
        ("[await ctx.run(_wf_p, 'orchestrate/a.b#0', 'a.b', {}) for i in range(100)]", Limits(calls=50), "calls"),
    ],
)
def test_a_limit_ends_the_session_and_names_itself(sandbox: Sandbox, body: str, limits: Limits, limit: str) -> None:
    """The sandbox is usable afterwards."""
    script = by_hand(f"async def orchestrate(ctx, args):\n    _wf_p = _wf_at[0]\n    {body}\n", "orchestrate/a.b#0")
    with pytest.raises(LimitExceeded) as caught:
        drive(sandbox, script, limits=limits)
    assert caught.value.facts["limit"] == limit
    assert drive(sandbox, LOOP, 1)[1] == Returned([{"got": {"n": 0}}, {"got": {}}])


@pytest.mark.parametrize(
    "forged",
    [
        "ctx.run('', 'orchestrate/a.c#0', 'a.c', {})",
        "ctx.run('', 'orchestrate/a.b#0', 'a.c', {})",
        "ctx.run('nowhere/for.0[1] > ', 'orchestrate/a.b#0', 'a.b', {})",
        "ctx.run('orchestrate/for.0[x] > ', 'orchestrate/a.b#0', 'a.b', {})",
        "ctx.run('orchestrate/parallel#0[5] > ', 'orchestrate/a.b#0', 'a.b', {})",
        "ctx.run('orchestrate/for.0 > ', 'orchestrate/a.b#0', 'a.b', {})",
        "ctx.run('', 'orchestrate/for.0', 'for', {})",
        "ctx.run('', 'orchestrate/parallel#0', 'parallel', {})",
        "_wf_host(_wf_nonce, 'call', 'orchestrate/a.b#0:x', 'a.b', '{}', 1, '')",
        "_wf_host(_wf_nonce, 'call', 'orchestrate/a.b#0', 'a.b', '{', 1, '')",
        "_wf_host(_wf_nonce, 'call', 'orchestrate/a.b#0', 'a.b', 'NaN', 1, '')",
        "_wf_host(_wf_nonce, 'call', 'orchestrate/a.b#0', 'a.b', '{}', True, '')",
        "_wf_host(_wf_nonce, 'call', 'orchestrate/a.b#0', 'a.b', '{}', 1, 'orchestrate/a.b#0\\na.b\\n1\\n{}')",
        "_wf_host('other', 'call', 'orchestrate/a.b#0', 'a.b', '{}', 1, '')",
        "_wf_host(_wf_nonce, 'won', 'orchestrate/race#0', 0, None, None, '')",
        "_wf_host(_wf_nonce, 'fan', 'orchestrate/parallel#0', 'parallel', True, None, '')",
        "_wf_host(_wf_nonce, 'fan', 'orchestrate/a.b#0', 'a.b', 1, None, '')",
        "_wf_host(_wf_nonce, 'shell', 'rm', None, None, None, '')",
        "_wf_host(_wf_nonce, 'handed', None, None, None, None, [])",
        "_wf_host(_wf_nonce, 'handed', None, None, None, None, 'orchestrate/a.b#0')",
        "_wf_host(_wf_nonce, 'handed', None, None, None, None, 'orchestrate/a.b#0\\n\\n0\\n')",
        "_wf_host()",
    ],
)
def test_a_forged_message_is_a_protocol_violation(sandbox: Sandbox, forged: str) -> None:
    """A script that got past the checker can't call what isn't written in it."""
    if sandbox.name != "embedded":  # CPython: the guest's names are one attribute away
        for name in ("_wf_host", "_wf_nonce"):
            forged = forged.replace(name, f"ctx.log.__globals__['{name}']")
    script = by_hand(
        f"async def orchestrate(ctx, args):\n    await {forged}\n",
        "orchestrate/a.b#0",
        "orchestrate/for.0",
        "orchestrate/parallel#0",
        "orchestrate/race#0",
    )
    with pytest.raises(ProtocolViolation):
        drive(sandbox, script)


def test_a_closed_session_never_runs_again(sandbox: Sandbox) -> None:
    """Closing twice is fine, advancing is an error."""
    session = sandbox.open(LOOP, 1, limits=Limits(), nonce="n")
    session.advance(None)
    session.close()
    session.close()
    with pytest.raises(UsageError):
        session.advance(Answer(1, Success(1)))


def test_a_session_outlives_the_thread_that_opened_it(sandbox: Sandbox) -> None:
    """A session may be opened and advanced from any thread, one at a time."""
    session: list[Session] = []
    turns: list[Turn] = []

    def start() -> None:
        session.append(sandbox.open(LOOP, 1, limits=Limits(), nonce="n"))
        turns.append(session[0].advance(None))

    for step in (start, lambda: turns.append(session[0].advance(Answer(1, Success(5))))):
        thread = threading.Thread(target=step)
        thread.start()
        thread.join()
    assert session[0].advance(Answer(2, Success("t"))).end == Returned([5, "t"])


def test_a_script_may_name_its_functions_like_builtins(sandbox: Sandbox) -> None:
    """What the guest uses itself is out of reach."""
    names = "list dict len type str int float bool tuple enumerate sorted Exception ValueError TypeError RuntimeError"
    own = "".join(f"def {name}(*args):\n    return 7\n" for name in names.split())
    script = by_hand(f"""
{own}
json = 1
csv = 1
asyncio = 1
async def orchestrate(ctx, args):
    _wf_p = _wf_at[0]
    got = await ctx.run(_wf_p, "orchestrate/a.b#0", "a.b", {{"x": [1, 1.5, "a", None, True]}})
    rows = await ctx.parallel(_wf_p, "orchestrate/parallel#0", [ctx.run(None, "orchestrate/a.c#0", "a.c", {{}})])
    best = await ctx.race(_wf_p, "orchestrate/race#0", [ctx.run(None, "orchestrate/a.d#0", "a.d", {{}})])
    node = lambda: ctx.run(None, "orchestrate/a.e#0", "a.e", {{}})
    dag = await ctx.dag(_wf_p, "orchestrate/dag#0", {{"n": (node, [])}})
    try:
        await ctx.run(_wf_p, "orchestrate/try.0/a.f#0", "a.f", {{}})
    except _wf_err as e:
        e = _wf_cap(e)
        got = [e.code, e.retryable, isinstance(e, CapabilityError)]
    return [got, rows, best, dag, len([])]
""")

    def answer(call: Issued) -> Outcome:
        if call.capability == "a.f":
            return Failure("refused", "no", True, call.identity)
        return echo(call) if call.capability == "ctx.race" else Success(1)

    _, end = drive(sandbox, script, answer=answer)
    assert end == Returned([["refused", True, True], [1], 1, {"n": 1}, 7])


def test_a_session_outlives_the_sandbox_object_that_opened_it() -> None:
    """Letting go of the object isn't closing it."""
    backends: list[Sandbox] = [EmbeddedSandbox(), ProcessSandbox()]
    sessions = [backend.open(LOOP, 1, limits=Limits(), nonce="n") for backend in backends]
    for session in sessions:
        session.advance(None)
    backends.clear()
    gc.collect()
    for session in sessions:
        session.advance(Answer(1, Success(5)))
        assert session.advance(Answer(2, Success("t"))).end == Returned([5, "t"])
    sessions[0]._sandbox.close()  # type: ignore[attr-defined] # what is checked afterwards: no process is left
