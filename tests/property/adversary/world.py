"""A run under the test's control: a provider that writes everything down, a schedule, failures, crashes."""

from __future__ import annotations

import asyncio
import hashlib
import json
import queue
import random
import threading
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

from addendum.authority.catalog import Capability, Catalog
from addendum.authority.grant import Grant, everything
from addendum.broker.dispatch import Answered, Dispatcher
from addendum.canon import Digest
from addendum.errors import CapabilityError, UnknownOutcome
from addendum.kernel.policy import Allowances
from addendum.plan import to_json
from addendum.ports import Beside, Lease, Reply, Request, RunHeader, Sandbox
from addendum.records.certificate import certificate
from addendum.records.history import History, fold
from addendum.records.stored import Entry, Stored
from addendum.runs.context import Context
from addendum.runs.operate import reconcile, set_grant
from addendum.runs.result import StepResult
from addendum.runs.revise import UNCHANGED, Drawn, plan, revise
from addendum.runs.start import resume, start
from addendum.testing.memory_store import MemoryStore
from adversary.inprocess import InProcess
from adversary.programs import Text

RUN = "generated"
CENT = 10_000_000


def _capability(name: str, effect: Any, **more: Any) -> Capability:
    return Capability(name=name, effect=effect, price=CENT, input={"type": "object"}, about=name, **more)


CATALOG = Catalog(
    (
        _capability("r.read", "read", retries=0),
        _capability("p.make", "paid", retries=0),
        _capability("s.act", "side_effect", retries=0),
        _capability("m.send", "irreversible", retries=0),
        _capability("i.put", "idempotent", retries=0),
    )
)


class Killed(BaseException):
    """The host dies here."""


# --- time, the provider, the schedule -----------------------------------------------------------------------------


@dataclass
class Hands:
    """A clock that goes on when somebody waits."""

    seconds: float = 0.0
    drawn: int = 0

    def now(self) -> float:
        return 1_800_000_000.0 + self.seconds

    def monotonic(self) -> float:
        return self.seconds

    def random(self) -> float:
        return int(self.token()[:8], 16) / 2**32

    def token(self) -> str:
        self.drawn += 1
        return hashlib.sha256(str(self.drawn).encode()).hexdigest()[:32]


@dataclass(frozen=True)
class Sent:
    """One dispatch: how often one of this run was made before it, and in which attempt of the test."""

    n: int
    step: int
    capability: str
    payload: str
    identity: str
    key: str
    attempt: int


@dataclass
class Faults:
    """What goes wrong. `fails`, `busy` (may be tried again) and `unknown` are by number of dispatch; `crash` by number
    of the named point."""

    fails: Mapping[int, str] = field(default_factory=dict)
    busy: frozenset[int] = frozenset()
    unknown: frozenset[int] = frozenset()
    crash: tuple[str, int] | None = None
    where: Callable[[Request], str] | None = None


class Ledgered:
    """The provider. What it was asked to do is done from the moment it was asked, whatever the host gets to know."""

    def __init__(self) -> None:
        self.sent: list[Sent] = []
        self.done: Counter[str] = Counter()
        self.keys: set[str] = set()
        self.step = 0
        self.faults = Faults()
        self.inflight: Counter[str] = Counter()
        self.peak: Counter[str] = Counter()
        self.point: Callable[[str], None] = lambda name: None
        self.waits: list[int] = []
        """How many dispatches there were at each wait for an answer."""
        self.together = 0
        """The number of the wait at which all that is in flight answers at once, from 1; 0 for none."""

    def take(self, request: Request) -> Sent:
        """Note a dispatch."""
        assert request.key not in self.keys, f"an idempotency key was used twice: {request.identity}"
        self.keys.add(request.key)
        text = json.dumps(request.payload, sort_keys=True)
        sent = Sent(len(self.sent), self.step, request.capability, text, request.identity, request.key, request.attempt)
        self.sent.append(sent)
        for name in (request.capability, ""):
            self.inflight[name] += 1
            self.peak[name] = max(self.peak[name], self.inflight[name])
        return sent

    def answer(self, sent: Sent, request: Request) -> Reply:
        """Return what a dispatch comes to, or raise."""
        for name in (request.capability, ""):
            self.inflight[name] -= 1
        if sent.n in self.faults.unknown:
            raise UnknownOutcome("it may have happened")
        if sent.n in self.faults.busy:
            raise CapabilityError("busy", "later", retryable=True)
        code = self.faults.fails.get(sent.n) or (self.faults.where(request) if self.faults.where else "")
        if code:
            raise CapabilityError(code, f"dispatch {sent.n} fails")
        pure = request.capability in ("r.read", "i.put")
        seed = sent.payload if pure else f"{sent.n}"
        digest = hashlib.sha256(f"{request.capability} {seed}".encode()).hexdigest()
        return Reply({"t": digest[: 4 + int(digest[0], 16) % 2]})

    async def dispatch(self, request: Request) -> Reply:
        """Answer a call, for the real dispatcher."""
        sent = self.take(request)
        await asyncio.sleep(0)
        return self.answer(sent, request)

    async def lookup(self, capability: str, key: str) -> Reply | None:
        """It can't say."""
        return None


class Answers(queue.SimpleQueue):  # type: ignore[type-arg]
    """The queue of answers: whoever waits for one gets the next of the schedule."""


class Scheduled(Dispatcher):
    """Answers calls in the thread that asks, in the order and in the batches that a seed says."""

    def __init__(self, provider: Ledgered, hands: Hands, chance: random.Random | None) -> None:
        self.provider = provider  # type: ignore[assignment]
        self.ledgered = provider
        self.hands = hands
        self.chance = chance
        self.flying: list[tuple[Request, Sent]] = []
        self.batch = 0
        self.answers = self  # type: ignore[assignment]

    def send(self, requests: Sequence[tuple[Request, float]]) -> None:
        """Take calls."""
        for request, _ in requests:
            self.flying.append((request, self.ledgered.take(request)))
        self.ledgered.point("sent")

    def get(self, timeout: float | None = None) -> Answered:
        """Return the next answer; time passes while there is none."""
        self.ledgered.point("answered")
        if not self.flying:
            self.hands.seconds += timeout or 0.0
            raise queue.Empty
        self.batch = self.chance.randint(1, 3) if self.chance else 1
        self.ledgered.waits.append(len(self.ledgered.sent))
        if len(self.ledgered.waits) == self.ledgered.together:
            self.batch = len(self.flying)
        return self._next()

    def empty(self) -> bool:
        """Whether no other answer came together with the one before."""
        return self.batch <= 0 or not self.flying

    def get_nowait(self) -> Answered:
        """Return another answer that came together with the one before."""
        if self.empty():
            raise queue.Empty
        return self._next()

    def wake(self) -> None:
        """Nobody sleeps."""

    def lookup(self, capability: str, key: str, timeout: float = 30.0) -> Reply | None:
        """It can't say."""
        return None

    def close(self) -> None:
        """Calls in flight are abandoned."""
        for request, _ in self.flying:
            for name in (request.capability, ""):
                self.ledgered.inflight[name] -= 1
        self.flying.clear()

    def _next(self) -> Answered:
        self.batch -= 1
        request, sent = self.flying.pop(self.chance.randrange(len(self.flying)) if self.chance else 0)
        try:
            return Answered(request.attempt, 0.0, self.ledgered.answer(sent, request))
        except CapabilityError as error:
            return Answered(request.attempt, 0.0, None, error)
        except UnknownOutcome as lost:
            return Answered(request.attempt, 0.0, None, None, str(lost))


class Mortal(MemoryStore):
    """A store whose process dies at a named point: the n-th time that entries of a kind are about to be, or have just
    been, written. A dead process writes nothing more, and hears of no answer, whatever its `finally` blocks try."""

    def __init__(self, **more: Any) -> None:
        super().__init__(**more)
        self.points: Counter[str] = Counter()
        self.crash: tuple[str, int] | None = None
        self.dead = False

    def append(
        self,
        run: str,
        entries: Sequence[Entry],
        *,
        blobs: Mapping[Digest, bytes] | None = None,
        lease: Lease | None = None,
        beside: Beside | None = None,
        last: bool = False,
    ) -> list[Stored]:
        with self._around(entries):
            return super().append(run, entries, blobs=blobs, lease=lease, beside=beside, last=last)

    def begin(self, header: RunHeader, entries: Sequence[Entry], **more: Any) -> tuple[Lease, list[Stored]]:
        lease: Lease | None = None
        try:
            with self._around(entries):
                lease, stored = super().begin(header, entries, **more)
            return lease, stored
        except Killed:
            if lease is not None:
                self.release(lease)  # nobody has it: the lease of a dead process is nobody's
            raise

    @contextmanager
    def _around(self, entries: Sequence[Entry]) -> Iterator[None]:
        kinds = sorted({entry.kind for entry in entries})
        for kind in kinds:
            self.point(f"before {kind}")
        yield
        for kind in kinds:
            self.point(f"after {kind}")

    def point(self, name: str) -> None:
        """Die here, if it is time."""
        if self.dead:
            raise Killed(name)
        self.points[name] += 1
        if self.crash == (name, self.points[name]):
            self.crash, self.dead = None, True
            raise Killed(name)


# --- a run --------------------------------------------------------------------------------------------------------


@dataclass
class Step:
    """What one step of a test did."""

    text: Text
    how: str
    result: StepResult | None
    plan: Drawn | None = None
    sent: list[Sent] = field(default_factory=list)
    events: list[dict[str, Any]] = field(default_factory=list)
    crashed: bool = False
    disturbed: frozenset[str] = frozenset()
    """The stops that it was made to come to: `cancelled`, and `unresolved` where an outcome stays unknown."""

    @property
    def handed(self) -> list[tuple[int, str]]:
        """The records that were handed over, in order: seq and the identity of the call."""
        return [(e["seq"], e["identity"]) for e in self.events if e["event"] in ("replayed", "handed_over")]

    @property
    def served(self) -> list[tuple[int, str]]:
        """Those of earlier attempts."""
        return [(e["seq"], e["identity"]) for e in self.events if e["event"] == "replayed"]

    @property
    def logs(self) -> list[str]:
        """The log lines that were shown as new."""
        return [e["text"] for e in self.events if e["event"] == "log" and not e.get("replayed")]


class World:
    """A run, its store and its provider. Each step is a process of its own."""

    def __init__(
        self,
        *,
        sandbox: Sandbox | None = None,
        grant: Grant | None = None,
        catalog: Catalog = CATALOG,
        backoff: float = 0.0,
    ) -> None:
        self.catalog = catalog
        self.backoff = backoff
        self.hands = Hands()
        self.store = Mortal(clock=self.hands)
        self.provider = Ledgered()
        self.sandbox = sandbox or InProcess()
        self.grant = grant or everything(catalog)
        self.steps: list[Step] = []
        self.texts: dict[str, Text] = {}
        self.events: list[dict[str, Any]] = []
        self.chance: random.Random | None = None
        self.watch: Callable[[dict[str, Any]], None] | None = None
        self.stop: threading.Event | None = None

    def observe(self, event: Mapping[str, Any]) -> None:
        """Keep an event."""
        self.events.append(dict(event))
        if self.watch is not None:
            self.watch(dict(event))

    @property
    def context(self) -> Context:
        """The parts, put together."""
        return Context(
            store=self.store,
            sandbox=self.sandbox,
            provider=self.provider,
            catalog=self.catalog,
            clock=self.hands,
            grant=self.grant,
            observer=self.observe,
            dispatcher=lambda provider, loop: Scheduled(self.provider, self.hands, self.chance),
            backoff=self.backoff,
        )

    @property
    def history(self) -> History:
        """The fold of the run's journal."""
        return fold(self.store.entries(RUN))

    @property
    def exists(self) -> bool:
        """Whether the run was created."""
        return any(header.run == RUN for header in self.store.runs())

    def run(self, text: Text, **more: Any) -> Step:
        """Start the run."""
        return self._step(
            text,
            "run",
            lambda policy, allowances: start(
                self.context, text.source, text.args, policy=policy, run=RUN, grant=self.grant, stop=self.stop
            ),
            **more,
        )

    def resume(self, **more: Any) -> Step:
        """Go on with the same source and args."""
        text = self.texts[self.history.current.source, self.history.current.args_digest]
        return self._step(
            text,
            "resume",
            lambda policy, allowances: resume(self.context, RUN, policy=policy, allowances=allowances),
            **more,
        )

    def revise(self, text: Text, **more: Any) -> Step:
        """Plan a revision, keep the plan, and apply it if it is admitted."""
        self._note(text)
        drawn: list[Drawn] = []

        def act(policy: Any, allowances: Allowances) -> StepResult:
            drawn.append(self.plan(text, policy=policy, allowances=allowances))
            return revise(
                self.context, RUN, text.source, args=text.args, policy=policy, allowances=allowances, stop=self.stop
            )

        step = self._step(text, "revise", act, **more)
        step.plan = drawn[0] if drawn else None
        return step

    def plan(self, text: Text, *, policy: Any = None, allowances: Allowances | None = None) -> Drawn:
        """Plan a revision only; nothing may be sent or written by that."""
        before = (len(self.provider.sent), self.store.head(RUN))
        drawn = plan(self.context, RUN, text.source, args=text.args, policy=policy, allowances=allowances)
        assert (len(self.provider.sent), self.store.head(RUN)) == before
        if drawn.plan is not None:
            json.dumps(to_json(drawn.plan))
        return drawn

    def reconcile(self, *, abandon: bool, result: Any = None) -> None:
        """Close what is unresolved."""
        known: dict[str, Any] = {} if abandon else {"result": result}
        reconcile(self.context, RUN, abandon=abandon, reason="a test", **known)

    def set_grant(self, grant: Grant) -> None:
        """Give the run another grant."""
        set_grant(self.context, RUN, grant)

    def certified(self) -> bool:
        """Whether the store is what was written."""
        return not certificate(self.store.entries(RUN), self.store.blob).differences

    def _note(self, text: Text) -> None:
        from addendum import canon

        key = (canon.sha256(text.source.encode()), canon.digest(text.args))
        self.texts[key] = text

    def _step(
        self,
        text: Text,
        how: str,
        act: Callable[[Any, Allowances], StepResult],
        *,
        schedule: int | None = None,
        faults: Faults | None = None,
        policy: Mapping[str, object] | None = None,
        allowances: Allowances | None = None,
    ) -> Step:
        self._note(text)
        self.provider.step += 1
        self.provider.faults = faults or Faults()
        self.store.points.clear()
        self.store.crash = self.provider.faults.crash
        self.provider.point = self.store.point
        self.chance = None if schedule is None else random.Random(schedule)
        self.events = []
        first = len(self.provider.sent)
        disturbed = {"cancelled": self.stop is not None, "unresolved": bool(self.provider.faults.unknown)}
        step = Step(text, how, None, disturbed=frozenset(stop for stop, made in disturbed.items() if made))
        try:
            step.result = act(policy, allowances or Allowances())
        except Killed:
            step.crashed = True
            self.provider.inflight.clear()
        finally:
            self.store.crash, self.store.dead = None, False
        step.sent = self.provider.sent[first:]
        step.events = self.events
        self.steps.append(step)
        return step


__all__ = ["CATALOG", "RUN", "UNCHANGED", "Faults", "Killed", "Sent", "Step", "World"]
