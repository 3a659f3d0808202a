"""The host's side of the protocol under messages that nobody wrote: whatever arrives, the host ends with a turn or with
a typed stop, and every event that it believed is bound to the script's own positions, the nonce and the capability."""

from __future__ import annotations

import json
import os
import time
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from addendum.errors import LimitExceeded, ProtocolViolation, SandboxCrashed
from addendum.ports import FanOut, Issued, Known, Limits, RaceEnded, Said, Script, Served
from addendum.records.outcome import Success
from addendum.sandbox.claims import Claims
from addendum.sandbox.wire import VERSION, Late, Wire

POSITIONS = frozenset(
    {
        "orchestrate/a.b#0",
        "orchestrate/for.0",
        "orchestrate/for.0/mail.send#0",
        "orchestrate/parallel#0",
        "orchestrate/race#0",
        "orchestrate/dag#0",
        "orchestrate/gen()#0",
        "gen/a.b#0",
        "orchestrate/ctx.now#0",
    }
)
SCRIPT = Script(annotated="", line_map=(1,), positions=POSITIONS)
NONCE = "5e5510"
LIMITS = Limits(calls=20, output=200, message=200)

NUMBERS = st.one_of(st.integers(-2, 5), st.sampled_from([True, False, 2**63, -1.0, 1e400, 1.0]))
PATHS = st.lists(
    st.sampled_from(
        [
            "orchestrate/for.0[0] > ",
            "orchestrate/for.0[01] > ",
            "orchestrate/gen()#0 > ",
            "orchestrate/gen()#0:1 > ",
            "orchestrate/parallel#0[0] > ",
            "orchestrate/parallel#0[9] > ",
            "orchestrate/race#0[1] > ",
            'orchestrate/dag#0["x"] > ',
            "nowhere/x.y#0 > ",
            " > ",
            "\\x00",
        ]
    ),
    max_size=3,
).map("".join)
SITES = st.sampled_from([*sorted(POSITIONS), "orchestrate/shell.run#0", "orchestrate/a.b#1", "", "a" * 20_000])
IDENTITIES = st.one_of(st.tuples(PATHS, SITES, st.sampled_from(["", ":1", ":0", ":x", "[0]"])).map("".join), st.text())
NAMES = st.sampled_from(["a.b", "mail.send", "shell.run", "ctx.now", "ctx.race", "parallel", "race", "dag", "log", ""])
TEXTS = st.one_of(
    st.sampled_from(["{}", '{"winner": 0}', "[", "NaN", "1e999", "null", '"' + "x" * 300 + '"', "[" * 5000, "{} {}"]),
    st.text(max_size=20),
)
ANYTHING = st.recursive(
    st.one_of(st.none(), NUMBERS, st.text(max_size=8), IDENTITIES, NAMES, TEXTS),
    lambda inner: st.one_of(st.lists(inner, max_size=4), st.dictionaries(st.text(max_size=4), inner, max_size=3)),
    max_leaves=6,
)
SERVED = st.one_of(
    st.just([]),
    st.lists(st.one_of(st.tuples(IDENTITIES, NAMES, TEXTS, NUMBERS).map(list), ANYTHING), max_size=2),
    ANYTHING,
)
GOOD = st.sampled_from(
    [
        [NONCE, "call", "orchestrate/a.b#0", "a.b", "{}", 1, []],
        [NONCE, "call", "orchestrate/for.0[0] > orchestrate/for.0/mail.send#0", "mail.send", "{}", 1, []],
        [NONCE, "fan", "orchestrate/race#0", "race", 2, None, []],
        [NONCE, "fan", "orchestrate/parallel#0", "parallel", 2, None, []],
        [NONCE, "call", "orchestrate/race#0", "ctx.race", '{"winner": 0}', 1, []],
        [NONCE, "won", "orchestrate/race#0", 1, None, None, []],
        [NONCE, "say", "log", "x", None, None, []],
        [NONCE, "say", "log", "x", None, None, [["orchestrate/ctx.now#0", "ctx.now", "{}", 1]]],
        [NONCE, "end", None, None, None, None, []],
    ]
)
KINDS = st.sampled_from(["call", "fan", "won", "say", "end", "shell", "", "__class__"])
NEAR = st.tuples(
    st.sampled_from([NONCE, NONCE, NONCE, "forged", None]),
    KINDS,
    st.one_of(IDENTITIES, NAMES, ANYTHING),
    st.one_of(NAMES, TEXTS, NUMBERS, ANYTHING),
    st.one_of(TEXTS, NUMBERS, ANYTHING),
    st.one_of(NUMBERS, ANYTHING),
    SERVED,
).map(list)


@st.composite
def spoiled(draw: st.DrawFn) -> Any:
    """Return a good message with one part replaced, dropped, or added."""
    message = list(draw(GOOD))
    at = draw(st.integers(0, len(message) - 1))
    match draw(st.integers(0, 2)):
        case 0:
            message[at] = draw(ANYTHING)
        case 1:
            del message[at]
        case _:
            message.insert(at, draw(ANYTHING))
    return message


MESSAGES = st.lists(st.one_of(GOOD, GOOD, NEAR, spoiled(), st.lists(ANYTHING, max_size=8)), max_size=8)


def bound(claims: Claims) -> None:
    """Check what was believed against what may be believed."""
    calls = []
    for event in claims.drain():
        match event:
            case Issued(_, identity, capability, _, take) | Served(identity, capability, _, take):
                calls.append(identity)
                last = identity.rpartition(" > ")[2].partition(":")[0]
                assert last in POSITIONS
                name = last.rpartition("/")[2].rpartition("#")[0]
                assert capability == ("ctx.race" if name == "race" else name)
                assert type(take) is int
                assert take >= 1
            case FanOut(frame, method, branches):
                assert frame.rpartition(" > ")[2].partition(":")[0] in POSITIONS
                assert method in ("parallel", "race", "dag")
                assert isinstance(branches, tuple) == (method == "dag")
            case RaceEnded(frame, winner):
                assert frame.endswith("orchestrate/race#0") or ":" in frame
                assert type(winner) is int
            case Said(kind, _):
                assert kind in ("log", "phase")
    assert len(calls) == len(set(calls))


@given(MESSAGES)
def test_no_message_gets_past_the_book(messages: list[Any]) -> None:
    """What is malformed, forged, foreign or out of order ends the session; what was believed before is bound."""
    claims = Claims(SCRIPT, LIMITS, NONCE)
    claims.table([Known("orchestrate/ctx.now#0", Success("t"))])
    try:
        for message in messages:
            claims.hear(message)
            assert message[0] == NONCE
    except (ProtocolViolation, LimitExceeded):
        pass
    bound(claims)


FRAMES = st.one_of(
    st.fixed_dictionaries(
        {"v": st.sampled_from([VERSION, VERSION, VERSION, 2, "1", None]), "s": NUMBERS},
        optional={"say": ANYTHING, "wait": ANYTHING, "end": ANYTHING, "over": ANYTHING, "ready": ANYTHING},
    ),
    ANYTHING,
)


@st.composite
def stream(draw: st.DrawFn) -> bytes:
    """Return what a worker writes: frames in order, frames that aren't, and bytes."""
    out = b""
    for number in range(draw(st.integers(0, 5))):
        frame = draw(st.one_of(st.just({"v": VERSION, "s": number, "say": [1]}), FRAMES))
        data = json.dumps(frame).encode()
        length = draw(st.one_of(st.just(len(data)), st.just(len(data)), st.integers(0, 2**32 - 1)))
        out += length.to_bytes(4, "big") + data
    return out + draw(st.one_of(st.just(b""), st.binary(max_size=40)))


@given(stream())
def test_no_stream_of_bytes_does_more_than_end_the_session(data: bytes) -> None:
    """Each frame has its version and its number, or the session is over; nothing is read beyond its size."""
    read, write = os.pipe()
    back, out = os.pipe()
    os.write(write, data)
    os.close(write)
    wire = Wire(read, out, largest=4000)
    try:
        number = 0
        while True:
            kind, said, frame = wire.receive(time.monotonic() + 10)
            assert (frame["v"], frame["s"]) == (VERSION, number)
            assert frame[kind] == said
            number += 1
    except (ProtocolViolation, SandboxCrashed):
        pass
    except Late:
        pytest.fail("the pipe is closed: nobody is late")
    finally:
        wire.close()
        os.close(back)
