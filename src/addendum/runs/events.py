"""What a run tells those who watch it: the shapes of events, told apart by `event`.

The same dicts reach an observer, an iteration and the service's stream. Money is in nano-dollars (10^-9 US dollars).
`identity` is the call's (DESIGN section 3), `seq` its record's number in the journal, `run` the run's name.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Literal, TypeAlias, TypedDict

from addendum.canon import Json
from addendum.runs.result import StepResult


class Log(TypedDict):
    """The script logged a text, or named a phase."""

    run: str
    event: Literal["log", "phase"]
    text: str


class Began(TypedDict):
    """A drive of the run began: `how` is `run`, `resume` or `revise`, `revision` the source's number. `drive` counts
    from 1."""

    run: str
    event: Literal["began"]
    drive: int
    revision: int
    how: str


class Ended(TypedDict):
    """The drive ended. `status`, `stop` and `error` are those of its result; `dispatched`, `executed` and `replayed`
    count calls, `cost` is what this drive paid."""

    run: str
    event: Literal["ended"]
    drive: int
    status: str
    stop: str | None
    error: str | None
    dispatched: int
    executed: int
    replayed: int
    cost: int


class Planned(TypedDict):
    """A revision was planned, which took so many `seconds`. `replayed` calls would come from the store, `frontier` ones
    would be new, as far as it was seen."""

    run: str
    event: Literal["planned"]
    status: str
    replayed: int
    frontier: int
    seconds: float


# The next two have keys that are keywords of Python.
Dispatched = TypedDict(
    "Dispatched",
    {
        "run": str,
        "event": Literal["dispatched"],
        "identity": str,
        "capability": str,
        "attempt": int,
        "try": int,
        "price": int,
    },
)
"""A call was sent. Its attempt is durable. `price` is what was reserved for it; `try` counts from 1."""

Retry = TypedDict(
    "Retry",
    {
        "run": str,
        "event": Literal["retry"],
        "identity": str,
        "capability": str,
        "code": str,
        "message": str,
        "in": float | None,
    },
)
"""A call failed in a way that may pass: this try is over. It is sent again in so many seconds (`in`); None: not by this
drive, which is about to end and only waits for the calls in flight."""


class Settled(TypedDict):
    """A call has its outcome, and it is durable. `failure` has `code`, `message` and `retryable`; None for a result.
    `tokens` are those that the provider reported."""

    run: str
    event: Literal["settled"]
    identity: str
    capability: str
    seq: int
    ok: bool
    cost: int
    tokens: int
    failure: Mapping[str, Json] | None


class HandedOver(TypedDict):
    """The script got an outcome: `replayed` from an earlier drive, `handed_over` from this one."""

    run: str
    event: Literal["replayed", "handed_over"]
    identity: str
    capability: str
    seq: int
    ok: bool


class Rebound(TypedDict):
    """A record belongs to a call at another identity from here on."""

    run: str
    event: Literal["rebound"]
    identity: str
    capability: str
    seq: int


class Repeat(TypedDict):
    """The ledger found that an equal call was paid for before, at the identity `of`, and its policy lets it pass."""

    run: str
    event: Literal["repeat"]
    finding: str
    identity: str
    capability: str
    of: str


class Asked(TypedDict):
    """A person was asked, and the call waits for the answer."""

    run: str
    event: Literal["asked"]
    identity: str
    capability: str
    payload: Json


class Limited(TypedDict):
    """A call is over a limit of the grant, and isn't sent."""

    run: str
    event: Literal["limit"]
    identity: str
    limit: str


class Unresolved(TypedDict):
    """A call was sent and nobody knows what became of it."""

    run: str
    event: Literal["unresolved"]
    identity: str
    capability: str
    message: str


class Frozen(TypedDict):
    """An alarm: a provider reported more than its declared maximum of a meter. Nothing more of that capability is sent
    until the run gets another grant. `attempt` is the seq of the attempt."""

    run: str
    event: Literal["frozen"]
    capability: str
    attempt: int
    meter: str
    reported: int
    declared: int


class Finished(TypedDict):
    """The last one of an iteration: the drive has ended. `result` is what the blocking method would have returned."""

    run: str
    event: Literal["result"]
    result: StepResult


Event: TypeAlias = (
    Log
    | Began
    | Ended
    | Planned
    | Dispatched
    | Retry
    | Settled
    | HandedOver
    | Rebound
    | Repeat
    | Asked
    | Limited
    | Unresolved
    | Frozen
    | Finished
)


def finished(result: StepResult) -> Mapping[str, Any]:
    """Return the last event of an iteration."""
    return {"run": result.run, "event": "result", "result": result}
