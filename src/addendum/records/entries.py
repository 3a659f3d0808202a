"""The entries of a run's journal as values, and how they are written (DESIGN section 4).

One journal per run, append-only, in order of `seq`. Every view of a run (what is committed, what is unresolved,
what it cost, how it ended) is a fold over these entries (`addendum.records.history`); nothing else is stored.
Times are integers (`at_ms` since 1970, `micros` of duration): a body without floats is canonical at the speed of C.

| kind | says |
| --- | --- |
| `revision` | a source with its args became the run's current one, with its declared moves and drops |
| `grant` | the authority from here on |
| `revoke` | the authority ended: nothing more is sent until there is another grant |
| `delegate` | a share of the authority is a child run's from here on, until it is back |
| `return` | that child ended or its grant was revoked: what it used, the rest is back |
| `freeze` | a provider reported more than its declared maximum: nothing more of that capability is sent |
| `catalog` | an operator accepted a catalog that isn't the one of the last drive |
| `drive` | a process begins to drive the run |
| `attempt` | a call is about to be sent: durable before it is |
| `retry` | that attempt failed for certain and the host tries again |
| `record` | a call is settled: result or failure, what it cost |
| `rebind` | a record has another identity from here on |
| `abandon` | an unresolved attempt was declared void, by whom and why |
| `ask` | a rule of the grant asks a person before a call is sent |
| `allow` | a person answered that, for this payload and once |
| `permit` | a person allowed a counted aggregate of calls, used up one by one |
| `answer` | a person answered an open approval while another process drove the run |
| `sleep` | a strand sleeps, and until when |
| `cancel` | an operator asked for the end of the run |
| `request` | what a person wants a script for, with its args: a run that has no script yet |
| `draft` | a model is about to be asked for a script: durable before it is, with what it may cost at most |
| `drafted` | what came of that: the candidate, the verdict on it, what it cost |
| `end` | a drive ended, and how |
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Final, Literal, NamedTuple, TypeAlias

from addendum.canon import Digest, Json, around, canonical, digest, doubles, sha256
from addendum.records.outcome import Failure, Outcome, Success
from addendum.records.stored import Entry

Body: TypeAlias = Mapping[str, Any]
Proof: TypeAlias = Literal["trace", "expression", "declared", "same_place"]
Effect: TypeAlias = Literal["read", "idempotent", "paid", "side_effect", "irreversible"]
Purpose: TypeAlias = Literal["author", "repair"]
DraftVerdict: TypeAlias = Literal["accepted", "rejected", "failed", "unknown", "lost"]
"""`failed`: the model said no; `unknown`: it was asked and didn't answer; `lost`: the process that asked it is gone."""
Status: TypeAlias = Literal["completed", "failed", "stopped", "paused", "waiting", "cancelled"]

INLINE: Final = 4096
"""Values up to this many bytes of JSON stand in the entry itself; larger ones are a blob, by reference."""

SIDE_EFFECTING: Final = frozenset({"paid", "side_effect", "irreversible"})
"""Every effect class but `read` and `idempotent` (DESIGN section 4)."""

READS: Final = ("ctx.now", "ctx.random", "ctx.uuid", "ctx.sleep", "ctx.race")
"""Capabilities of the context itself: recorded reads, and the winner of a race. They cost nothing."""


@dataclass(frozen=True, slots=True)
class Ref:
    """A JSON value, inline or as a reference to a blob of its canonical bytes. `size` is in bytes."""

    size: int
    value: Json = None
    blob: Digest | None = None
    data: bytes | None = field(default=None, compare=False, repr=False)
    """The canonical bytes of an inline value, if whoever made the reference has them."""

    def body(self) -> dict[str, Json]:
        """Return the reference as it stands in an entry."""
        return {"size": self.size, "value": self.value} if self.blob is None else {"size": self.size, "blob": self.blob}

    def encoded(self) -> bytes | None:
        """Return the canonical bytes of `body`, None if that would take encoding the value."""
        if self.blob is not None:
            return canonical(self.body())
        return b'{"size":%d,"value":%b}' % (self.size, self.data) if self.data is not None else None


def ref(body: Body) -> Ref:
    """Read a reference from an entry."""
    return Ref(body["size"], doubles(body.get("value")), body.get("blob"))


@dataclass(frozen=True, slots=True, kw_only=True)
class Revision:
    """A source and its args. `number` counts from 1; `source` is the SHA-256 of its UTF-8 bytes, a blob."""

    number: int
    source: Digest
    args: Ref
    args_digest: Digest
    moves: Mapping[str, str] = field(default_factory=dict)
    drops: tuple[str, ...] = ()
    request: Ref | None = None
    """What a person wanted of the script, as text; None if nobody said."""
    name: str = ""
    """What a later revision's script is called, as a rule its file; the first one has the run's name."""

    def body(self) -> dict[str, Json]:
        """Return the entry's body."""
        body: dict[str, Json] = {
            "number": self.number,
            "source": self.source,
            "args": self.args.body(),
            "args_digest": self.args_digest,
            "moves": dict(self.moves),
            "drops": list(self.drops),
        }
        if self.request is not None:
            body["request"] = self.request.body()
        if self.name:
            body["name"] = self.name
        return body


def revision(body: Body) -> Revision:
    """Read a `revision` entry."""
    return Revision(
        number=body["number"],
        source=body["source"],
        args=ref(body["args"]),
        args_digest=body["args_digest"],
        moves=dict(body["moves"]),
        drops=tuple(body["drops"]),
        request=ref(body["request"]) if "request" in body else None,
        name=body.get("name", ""),
    )


class Attempt(NamedTuple):
    """A call that is about to be sent. `number` counts the run's attempts and is never used again; `key` is the
    idempotency key derived from run, identity, digest and number. `waits`: a person answers it.

    A tuple, as one is made for every call: a frozen dataclass of so many fields takes four times as long."""

    number: int
    identity: str
    capability: str
    effect: Effect
    fingerprint: str
    digest: Digest
    take: int
    key: str
    payload: Ref
    revision: int
    drive: int
    hold: int
    at: float
    waits: bool = False
    supersedes: int | None = None
    principal: str = ""
    """Whose accounts it is held in as well."""
    approval: int = 0
    """The seq of the question that a person said yes to, 0 if none was asked."""
    seq: int = 0
    """Its own seq, 0 until it is written."""

    @property
    def side_effecting(self) -> bool:
        """Whether sending it again may do something twice."""
        return self.effect in SIDE_EFFECTING

    def body(self) -> dict[str, Json]:
        """Return the entry's body."""
        body: dict[str, Json] = {
            "number": self.number,
            "identity": self.identity,
            "capability": self.capability,
            "effect": self.effect,
            "fingerprint": self.fingerprint,
            "digest": self.digest,
            "take": self.take,
            "key": self.key,
            "payload": self.payload.body(),
            "revision": self.revision,
            "drive": self.drive,
            "hold": self.hold,
            "at_ms": round(self.at * 1000),
        }
        if self.waits:
            body["waits"] = True
        if self.supersedes is not None:
            body["supersedes"] = self.supersedes
        if self.principal:
            body["principal"] = self.principal
        if self.approval:
            body["approval"] = self.approval
        return body

    def entry(self) -> Entry:
        """Return the entry, with its canonical bytes if the payload's are there."""
        body = self.body()
        return Entry("attempt", body, _around(body, "payload", self.payload))


def attempt(seq: int, body: Body) -> Attempt:
    """Read an `attempt` entry."""
    return Attempt(
        seq=seq,
        number=body["number"],
        identity=body["identity"],
        capability=body["capability"],
        effect=body["effect"],
        fingerprint=body["fingerprint"],
        digest=body["digest"],
        take=body["take"],
        key=body["key"],
        payload=ref(body["payload"]),
        revision=body["revision"],
        drive=body["drive"],
        hold=body["hold"],
        at=body["at_ms"] / 1000,
        waits=body.get("waits", False),
        supersedes=body.get("supersedes"),
        principal=body.get("principal", ""),
        approval=body.get("approval", 0),
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class Draft:
    """A model is about to be asked for a script. `number` counts with the attempts; `attempt` counts from 1 within one
    loop; `hold` (nano-dollars) and `tokens` are the most that it may take; `revision` is the one that it mends, 0 for
    none; `prompt` is all that the model is told."""

    seq: int = 0
    number: int
    purpose: Purpose
    attempt: int
    model: str
    capability: str
    prompt: Ref
    revision: int
    hold: int
    tokens: int
    at: float
    principal: str = ""
    approval: int = 0

    def body(self) -> dict[str, Json]:
        """Return the entry's body."""
        body: dict[str, Json] = {
            "number": self.number,
            "purpose": self.purpose,
            "attempt": self.attempt,
            "model": self.model,
            "capability": self.capability,
            "payload": self.prompt.body(),
            "revision": self.revision,
            "hold": self.hold,
            "tokens": self.tokens,
            "at_ms": round(self.at * 1000),
        }
        if self.principal:
            body["principal"] = self.principal
        if self.approval:
            body["approval"] = self.approval
        return body


def draft_key(run: str, number: int, prompt: Ref) -> Digest:
    """Return the idempotency key of a draft: as of a call, from run, what is asked, and a number that is used once."""
    asked = prompt.blob or digest(prompt.value)
    return sha256("\n".join((run, "draft", asked, str(number))).encode())


def draft(seq: int, body: Body) -> Draft:
    """Read a `draft` entry."""
    return Draft(
        seq=seq,
        number=body["number"],
        purpose=body["purpose"],
        attempt=body["attempt"],
        model=body["model"],
        capability=body["capability"],
        prompt=ref(body["payload"]),
        revision=body["revision"],
        hold=body["hold"],
        tokens=body["tokens"],
        at=body["at_ms"] / 1000,
        principal=body.get("principal", ""),
        approval=body.get("approval", 0),
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class Drafted:
    """What came of a draft, whose seq `attempt` is. `candidate` is the digest of the script's UTF-8 bytes, a blob;
    `answer` is what the model said; `findings` are the counterexamples to it. `seconds` is the model's time."""

    attempt: int
    verdict: DraftVerdict
    cost: int = 0
    tokens: int = 0
    seconds: float = 0.0
    model: str = ""
    candidate: Digest | None = None
    answer: Ref | None = None
    findings: Ref | None = None
    moves: Mapping[str, str] = field(default_factory=dict)
    drops: tuple[str, ...] = ()
    failure: Failure | None = None
    note: str = ""

    def body(self) -> dict[str, Json]:
        """Return the entry's body."""
        body: dict[str, Json] = {
            "attempt": self.attempt,
            "verdict": self.verdict,
            "cost": self.cost,
            "tokens": self.tokens,
            "micros": round(self.seconds * 1_000_000),
        }
        if self.model:
            body["model"] = self.model
        if self.candidate is not None:
            body["candidate"] = self.candidate
            body["moves"] = dict(self.moves)
            body["drops"] = list(self.drops)
        if self.answer is not None:
            body["result"] = self.answer.body()
        if self.findings is not None:
            body["findings"] = self.findings.body()
        if self.failure is not None:
            body["failure"] = {
                "code": self.failure.code,
                "message": self.failure.message,
                "retryable": self.failure.retryable,
            }
        if self.note:
            body["note"] = self.note
        return body


class Settled(NamedTuple):
    """A record about to be written: a call's outcome. `attempt` is the seq of its attempt, 0 for a recorded read and
    for a call that was refused before it was sent; `cost` in nano-dollars; `seconds` is the provider's time."""

    identity: str
    capability: str
    fingerprint: str
    digest: Digest
    outcome: Success | Failure
    result: Ref | None
    revision: int
    drive: int
    attempt: int = 0
    cost: int = 0
    tokens: int = 0
    seconds: float = 0.0
    supersedes: int | None = None
    by: str = ""

    def body(self) -> dict[str, Json]:
        """Return the entry's body."""
        body: dict[str, Json] = {
            "identity": self.identity,
            "capability": self.capability,
            "fingerprint": self.fingerprint,
            "digest": self.digest,
            "revision": self.revision,
            "drive": self.drive,
            "attempt": self.attempt,
            "cost": self.cost,
        }
        if isinstance(self.outcome, Failure):
            body["failure"] = {
                "code": self.outcome.code,
                "message": self.outcome.message,
                "retryable": self.outcome.retryable,
            }
        if self.result is not None:
            body["result"] = self.result.body()
        if self.tokens:
            body["tokens"] = self.tokens
        if self.seconds:
            body["micros"] = round(self.seconds * 1_000_000)
        if self.supersedes is not None:
            body["supersedes"] = self.supersedes
        if self.by:
            body["by"] = self.by
        return body

    def entry(self) -> Entry:
        """Return the entry, with its canonical bytes if there is a result whose are there."""
        body = self.body()
        return Entry("record", body, _around(body, "result", self.result))


def _around(body: Body, key: str, value: Ref | None) -> bytes | None:
    """Return the canonical bytes of an entry's body around those of a value, None if the store has to work them out."""
    data = value.encoded() if value is not None else None
    return around(body, key, data) if data is not None else None


def failure(body: Body, identity: str) -> Failure | None:
    """Read the failure of a `record` entry, None if the call succeeded."""
    found = body.get("failure")
    if found is None:
        return None
    return Failure(found["code"], found["message"], found["retryable"], identity)


__all__ = [
    "INLINE",
    "READS",
    "Attempt",
    "Body",
    "Draft",
    "DraftVerdict",
    "Drafted",
    "Effect",
    "Outcome",
    "Proof",
    "Purpose",
    "Ref",
    "Revision",
    "Settled",
    "Status",
    "attempt",
    "draft",
    "failure",
    "ref",
    "revision",
]
