"""The fold of a run's journal: the committed prefix P, and all that is open (DESIGN sections 1 and 4).

`History` is grown by `take(entry)`, one entry at a time, by whoever drives the run and by whoever looks at it:
there is one fold, and every view is derived from it. It holds no results: a record knows its `seq`, and the
result is read from the store when it is handed over, so that 100,000 records are cheap.
"""

from __future__ import annotations

import sys
from collections import Counter, deque
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any, Final, NamedTuple

from addendum.canon import Digest, Json, doubles
from addendum.identity import place
from addendum.records import entries
from addendum.records.entries import READS, Attempt, Draft, Ref, Revision
from addendum.records.stored import Stored

REMEMBERED: Final = 20_000
"""How many dispatches are remembered for limits in a time window."""


@dataclass(slots=True, eq=False)
class Record:
    """A settled call in the prefix.

    `identity` is where it stands now (None: a revision left it without one), in the terms of the source of revision
    `revision`; `origin` and `source` are those of its own commit. `superseded` is the revision in which a new version
    took its identity, 0 if none did. Results are in the store, under `seq`.
    """

    seq: int
    identity: str | None
    origin: str
    capability: str
    fingerprint: str
    digest: Digest
    ok: bool
    cost: int
    revision: int
    source: int
    attempt: int
    drive: int
    superseded: int = 0
    before: tuple[int, str | None, int] | None = None
    """The last revision that moved it or kept it in other terms, and where it stood until then (identity, revision)."""
    late: int = 0
    """The seq of the rebind by which it came in late (see `order`), 0 if it didn't."""
    given_up: int = 0
    """The revision that dropped it, 0 if none did or a call has it again. Until then it stays, but stops nothing."""
    returned: int = 0
    """The revision in which a call had it again after that, 0 if it never was given up."""

    def leave(self, revision: int) -> None:
        """Remember where it stood before a revision, whatever that revision does to it."""
        if self.before is None or self.before[0] != revision:
            self.before = (revision, self.identity, self.revision)

    @property
    def order(self) -> int:
        """Where it stands in the order of hand-over: by its own seq; one that was only claimed when nothing else could
        go on comes when it was claimed, so that a replay hands it over then, too."""
        return self.late or self.seq

    @property
    def call(self) -> tuple[str, Digest]:
        """Capability and digest: two calls are *equal* when these are (DESIGN section 3)."""
        return (self.capability, self.digest)

    @property
    def is_read(self) -> bool:
        """A recorded read or a race's winner: it costs nothing and stops nothing."""
        return self.capability in READS


@dataclass(slots=True)
class Totals:
    """What one capability used up in all attempts of a run. Money in nano-dollars, times in seconds, sizes in bytes."""

    calls: int = 0
    succeeded: int = 0
    cost: int = 0
    tokens: int = 0
    bytes_out: int = 0
    bytes_in: int = 0
    seconds: float = 0.0


class Dispatch(NamedTuple):
    """That a call was sent: when, of what, what it may cost at most, and how large its payload is."""

    at: float
    capability: str
    cost: int
    bytes_out: int


@dataclass(slots=True)
class Permit:
    """A person's word for a number of calls (`addendum.authority.permit`), and what is left: calls, exact payloads
    by digest, nano-dollars (no sum: None)."""

    seq: int
    body: Mapping[str, Any]
    left: int
    digests: Counter[Digest]
    cost: int | None

    def use(self, digest: Digest, cost: int) -> None:
        """A call with this payload was sent, and may cost so much."""
        self.left -= 1
        self.digests[digest] -= 1
        if self.cost is not None:
            self.cost -= cost


@dataclass(frozen=True, slots=True)
class Ended:
    """How a drive ended."""

    seq: int
    drive: int
    status: str
    body: Mapping[str, Any]


@dataclass(slots=True)
class History:
    """Everything that follows from a run's journal up to `seq`."""

    seq: int = 0
    chain: Digest = ""
    revisions: dict[int, Revision] = field(default_factory=dict)
    records: dict[int, Record] = field(default_factory=dict)
    prefix: dict[str, Record] = field(default_factory=dict)
    answers: dict[int, Mapping[str, Any]] = field(default_factory=dict)
    """Answers of people to open attempts that no record holds yet, by the attempt's seq."""
    attempted: int = 0
    drives: int = 0
    driving: bool = False
    revision: int = 0
    grant: Mapping[str, Json] | None = None
    policy: Mapping[str, Json] = field(default_factory=dict)
    cancelled: int = 0
    """The last cancellation's seq."""
    open_failures: set[int] = field(default_factory=set)
    replacing: dict[str, int] = field(default_factory=dict)
    """Results whose new version failed so far: the seq of each, by the identity that the failure has now."""
    totals: dict[str, Totals] = field(default_factory=dict)
    recent: deque[Dispatch] = field(default_factory=lambda: deque(maxlen=REMEMBERED))
    """The last dispatches, for limits in a time window."""
    revoked: int = 0
    """The seq at which the grant was revoked; 0 if it stands."""
    frozen: dict[str, Mapping[str, Any]] = field(default_factory=dict)
    """Capabilities that reported more than their declared maximum, with what they reported; a new grant frees them."""
    asks: dict[int, Mapping[str, Any]] = field(default_factory=dict)
    """Questions of the grant's rules that nobody has answered, by seq."""
    last_asks: dict[str, Mapping[str, Any]] = field(default_factory=dict)
    """The last question about each identity."""
    allowed: dict[tuple[str, str, Digest], Mapping[str, Any]] = field(default_factory=dict)
    """What a person said about a call (identity, capability, digest), until it is used."""
    permits: dict[int, Permit] = field(default_factory=dict)
    """A person's words for counted aggregates of calls, by seq."""
    catalog: Digest = ""
    """The catalog of the last drive, or the one that an operator accepted since."""
    seconds: float = 0.0
    computed: float = 0.0
    """Seconds that the script computed in all drives that ended."""
    logged: int = 0
    """Bytes of text that the script logged, in the drive in which it logged the most."""
    parent: str = ""
    """The run whose grant this one's came out of."""
    children: dict[str, tuple[Mapping[str, Any], Mapping[str, Any] | None]] = field(default_factory=dict)
    """What was given to children, by run, and what they used of it once the rest is back."""
    delegated: int = 0
    """The seq of the last of either."""
    rebinds: int = 0
    sleeps: dict[str, Mapping[str, Any]] = field(default_factory=dict)
    """Sleeps that have begun and aren't over, by identity."""
    ended: Ended | None = None
    request: Ref | None = None
    """What a person wanted a script for, as text."""
    request_args: Ref | None = None
    """The args of a run that began with a request, until its first revision has them."""
    drafts: dict[int, Draft] = field(default_factory=dict)
    """Models that were asked for a script and have no answer in the journal, by seq."""
    drafted: dict[int, Draft] = field(default_factory=dict)
    """Every draft, by seq."""
    last_draft: tuple[int, Mapping[str, Any]] | None = None
    """The last `drafted` entry since the run's last revision: its seq and body."""
    pending: int = 0
    """The seq of the `drafted` entry whose accepted candidate nobody has applied; 0 if there is none, or if the run
    went on since."""
    _again: dict[tuple[str, str, Digest], int] = field(default_factory=dict)
    """Calls whose last try failed for certain under a permit, with its seq."""
    _attempts: dict[int, Attempt] = field(default_factory=dict)
    _sent: dict[int, Mapping[str, Any]] = field(default_factory=dict)
    """Bodies of attempts that nobody has asked for: most have an end before anybody does."""

    @property
    def attempts(self) -> dict[int, Attempt]:
        """Attempts without an end, by seq: in flight, waiting for a person, or unresolved."""
        if self._sent:
            self._attempts.update((seq, entries.attempt(seq, body)) for seq, body in self._sent.items())
            self._sent.clear()
        return self._attempts

    def take(self, stored: Stored) -> None:
        """Fold one more entry in. Entries must come in order of `seq`."""
        handler = _FOLD.get(stored.kind)
        if handler is not None:
            handler(self, stored.seq, stored.body)
        self.seq = stored.seq
        self.chain = stored.chain

    def take_all(self, stored: Iterable[Stored]) -> History:
        """Fold entries in, and return the history itself."""
        for entry in stored:
            self.take(entry)
        return self

    def held_by(self, attempt: int) -> tuple[str, int] | None:
        """Return the principal in whose accounts an open attempt is held as well, and its number; by its seq."""
        body = self._sent.get(attempt)
        if body is not None:
            return (body["principal"], body["number"]) if "principal" in body else None
        found = self._attempts.get(attempt) or self.drafts.get(attempt)
        return (found.principal, found.number) if found is not None and found.principal else None

    @property
    def current(self) -> Revision:
        """The run's current revision."""
        return self.revisions[self.revision]

    @property
    def committed(self) -> int:
        """How many identities have a result."""
        return sum(1 for record in self.prefix.values() if record.ok and not record.is_read)

    def usage(self, capability: str) -> Totals:
        """Return the totals of one capability, for adding to them."""
        found = self.totals.get(capability)
        if found is None:
            found = self.totals[capability] = Totals()
        return found

    def bind(self, record: Record, identity: str, revision: int) -> None:
        """Let a record stand at an identity; whichever stood there is left without one."""
        if record.identity is not None and self.prefix.get(record.identity) is record:
            del self.prefix[record.identity]
        there = self.prefix.get(identity)
        if there is not None and there is not record:
            there.leave(revision)
            there.identity = None
        record.leave(revision)
        self.prefix[identity] = record
        record.identity = identity
        record.revision = revision
        if record.given_up:
            record.given_up, record.returned = 0, revision

    # --- the fold, one method a kind ---------------------------------------------------------------------------

    def _revision(self, seq: int, body: Mapping[str, Any]) -> None:
        found = entries.revision(body)
        self.revisions[found.number] = found
        self.revision = found.number
        self.request = found.request or self.request
        self.request_args = self.last_draft = None
        self.pending = 0
        for record in self.records.values() if found.drops else ():
            if record.identity is not None and (
                record.identity in found.drops or place(record.identity) in found.drops
            ):
                record.given_up = found.number

    def _grant(self, seq: int, body: Mapping[str, Any]) -> None:
        self.grant = doubles(body["grant"])
        self.parent = body.get("parent", "")
        self.revoked = 0
        self.frozen.clear()

    def _revoke(self, seq: int, body: Mapping[str, Any]) -> None:
        self.revoked = seq
        self.permits.clear()

    def _delegate(self, seq: int, body: Mapping[str, Any]) -> None:
        self.children[body["child"]] = (doubles(body), None)
        self.delegated = seq

    def _return(self, seq: int, body: Mapping[str, Any]) -> None:
        given = self.children.get(body["child"])
        if given is not None:
            self.children[body["child"]] = (given[0], body)
            self.delegated = seq

    def _ask(self, seq: int, body: Mapping[str, Any]) -> None:
        body = doubles(body)
        # Another payload at the same place: whatever was asked or said about the old one is over.
        for other in [key for key, ask in self.asks.items() if ask["identity"] == body["identity"]]:
            del self.asks[other]
        for call in [call for call in self.allowed if call[0] == body["identity"]]:
            del self.allowed[call]
        self.asks[seq] = body
        self.last_asks[body["identity"]] = body

    def _allow(self, seq: int, body: Mapping[str, Any]) -> None:
        asked = self.asks.pop(body["ask"], None)  # the first word counts
        if asked is not None:
            self.allowed[asked["identity"], asked["capability"], asked["digest"]] = body

    def _freeze(self, seq: int, body: Mapping[str, Any]) -> None:
        self.frozen[body["capability"]] = body

    def _catalog(self, seq: int, body: Mapping[str, Any]) -> None:
        self.catalog = body["catalog"]

    def _drive(self, seq: int, body: Mapping[str, Any]) -> None:
        self.drives = body["drive"]
        self.policy = body["policy"]
        self.catalog = body.get("catalog", "")
        self.driving = True
        self.pending = 0

    def _attempt(self, seq: int, body: Mapping[str, Any]) -> None:
        self._sent[seq] = body
        self.attempted = body["number"]
        capability, size = sys.intern(body["capability"]), body["payload"]["size"]
        usage = self.totals.get(capability) or self.usage(capability)
        usage.calls += 1
        usage.bytes_out += size
        if "approval" in body:
            self._approved(body)
        self.recent.append(Dispatch(body["at_ms"] / 1000, capability, body["hold"], size))

    def _approved(self, body: Mapping[str, Any]) -> None:
        """Use up a person's word. The host's own next try after a certain failure belongs to the same call."""
        call = (body["identity"], body["capability"], body["digest"])
        self.allowed.pop(call, None)
        for seq in [seq for seq, ask in self.asks.items() if ask["identity"] == body["identity"]]:
            del self.asks[seq]
        permit = self.permits.get(body["approval"])
        if permit is not None and self._again.pop(call, 0) != permit.seq:
            permit.use(body["digest"], body["hold"])

    def _permit(self, seq: int, body: Mapping[str, Any]) -> None:
        self.permits[seq] = Permit(
            seq, doubles(body), body["count"], Counter(body.get("digests", {})), body.get("cost")
        )

    def _retry(self, seq: int, body: Mapping[str, Any]) -> None:
        found = self.attempts.pop(body["attempt"])
        if found.approval in self.permits:
            self._again[found.identity, found.capability, found.digest] = found.approval
        usage = self.usage(found.capability)
        usage.cost += body["cost"]
        usage.seconds += body.get("micros", 0) / 1_000_000

    def _supersedes(self, attempt: int) -> int | None:
        """Return which result an open attempt is to replace, by the attempt's seq; None if it replaces none."""
        body = self._sent.get(attempt)
        if body is not None:
            return body.get("supersedes")
        found = self._attempts.get(attempt)
        return found.supersedes if found is not None else None

    def _over(self, attempt: int) -> None:
        """Note that an attempt has its end, by its seq."""
        if self._sent.pop(attempt, None) is None:
            self._attempts.pop(attempt, None)
        if self.answers:
            self.answers.pop(attempt, None)

    def _record(self, seq: int, body: Mapping[str, Any]) -> None:
        attempt, identity, revision, ok = body["attempt"], body["identity"], body["revision"], "failure" not in body
        replaced = body.get("supersedes") if ok else self._supersedes(attempt)
        self._over(attempt)
        capability = sys.intern(body["capability"])
        self.records[seq] = record = Record(
            seq,
            identity,
            identity,
            capability,
            sys.intern(body["fingerprint"]),
            body["digest"],
            ok,
            body["cost"],
            revision,
            revision,
            attempt,
            body["drive"],
        )
        there = self.prefix.get(identity)
        if there is not None:
            there.leave(revision)
            there.identity = None
            self.open_failures.discard(there.seq)
        if replaced is not None and ok:
            self.records[replaced].superseded = revision
        if replaced is not None and not ok:
            self.replacing[identity] = replaced
        elif self.replacing:
            self.replacing.pop(identity, None)
        self.prefix[identity] = record
        if capability in READS:
            self.sleeps.pop(identity, None)
            return
        usage = self.totals.get(capability) or self.usage(capability)
        usage.succeeded += ok
        usage.cost += record.cost
        usage.tokens += body.get("tokens", 0)
        usage.seconds += body.get("micros", 0) / 1_000_000
        result = body.get("result")
        if result is not None:
            usage.bytes_in += result["size"]

    def _rebind(self, seq: int, body: Mapping[str, Any]) -> None:
        record = self.records[body["record"]]
        self.bind(record, body["identity"], body["revision"])
        if body.get("late"):
            record.late = seq
        self.rebinds += 1

    def _sleep(self, seq: int, body: Mapping[str, Any]) -> None:
        self.sleeps[body["identity"]] = body

    def _abandon(self, seq: int, body: Mapping[str, Any]) -> None:
        self._over(body["attempt"])

    def _answer(self, seq: int, body: Mapping[str, Any]) -> None:
        # The first answer counts: answering twice has no effect.
        if body["attempt"] in self.attempts:
            self.answers.setdefault(body["attempt"], doubles(body))

    def _cancel(self, seq: int, body: Mapping[str, Any]) -> None:
        self.cancelled = seq

    def _request(self, seq: int, body: Mapping[str, Any]) -> None:
        self.request = entries.ref(body["text"])
        if "args" in body:
            self.request_args = entries.ref(body["args"])

    def _draft(self, seq: int, body: Mapping[str, Any]) -> None:
        found = entries.draft(seq, body)
        self.drafts[seq] = self.drafted[seq] = found
        self.attempted = found.number
        usage = self.usage(sys.intern(found.capability))
        usage.calls += 1
        usage.bytes_out += found.prompt.size
        if found.approval:
            for call in [call for call in self.allowed if call[1] == found.capability]:
                del self.allowed[call]
        self.recent.append(Dispatch(found.at, found.capability, found.hold, found.prompt.size))

    def _drafted(self, seq: int, body: Mapping[str, Any]) -> None:
        found = self.drafts.pop(body["attempt"], None)
        if found is None:
            return  # the first word counts
        usage = self.usage(found.capability)
        usage.succeeded += "result" in body
        usage.cost += body["cost"]
        usage.tokens += body["tokens"]
        usage.bytes_in += body["result"]["size"] if "result" in body else 0
        usage.seconds += body["micros"] / 1_000_000
        self.last_draft = (seq, body)
        self.pending = seq if body["verdict"] == "accepted" else 0

    def _end(self, seq: int, body: Mapping[str, Any]) -> None:
        self.ended = Ended(seq, body["drive"], body["status"], doubles(body))
        self.driving = False
        self.seconds += body.get("micros", 0) / 1_000_000
        self.computed += body.get("script_micros", 0) / 1_000_000
        self.logged = max(self.logged, body.get("log_bytes", 0))
        if body["status"] in ("failed", "completed"):
            self.open_failures = set(body["open"])


_FOLD = {
    "revision": History._revision,
    "grant": History._grant,
    "revoke": History._revoke,
    "delegate": History._delegate,
    "return": History._return,
    "ask": History._ask,
    "allow": History._allow,
    "permit": History._permit,
    "freeze": History._freeze,
    "catalog": History._catalog,
    "drive": History._drive,
    "attempt": History._attempt,
    "retry": History._retry,
    "record": History._record,
    "rebind": History._rebind,
    "abandon": History._abandon,
    "answer": History._answer,
    "cancel": History._cancel,
    "sleep": History._sleep,
    "request": History._request,
    "draft": History._draft,
    "drafted": History._drafted,
    "end": History._end,
}


def fold(stored: Iterable[Stored]) -> History:
    """Return the history of a whole journal."""
    return History().take_all(stored)
