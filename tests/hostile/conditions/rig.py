"""What the tests of hostile conditions share: a catalog, a provider that misbehaves as it is told, stores that fail
when they are told to, and a context around them with the production parts."""

from __future__ import annotations

import asyncio
import inspect
import threading
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from addendum.authority.catalog import Capability, Catalog
from addendum.authority.grant import Grant, everything, from_json
from addendum.authority.money import nano
from addendum.canon import Digest, Json
from addendum.errors import StoreError, StoreUnavailable
from addendum.ports import Beside, Clock, Lease, Reply, Request, RunHeader, Sandbox, Store, Usage
from addendum.records.history import History, fold
from addendum.records.stored import Entry, Stored
from addendum.runs.context import Context
from addendum.runs.query import certified
from addendum.testing.clock import ManualClock

OBJECT: dict[str, Json] = {"type": "object"}
NUMBERED: dict[str, Json] = {"type": "object", "properties": {"n": {"type": "integer"}}, "required": ["n"]}


class Opaque:
    """Nothing that JSON can say; its text is the same in every process, as names of tests have to be."""

    def __repr__(self) -> str:
        return "an object"


OPAQUE = Opaque()


def _capability(name: str, effect: Any, usd: str, **more: Any) -> Capability:
    more = {"input": OBJECT, "output": NUMBERED, "timeout": 60.0, **more}
    return Capability(name=name, effect=effect, price=nano(usd), **more)


CAPABILITIES = (
    _capability("text.read", "read", "0.005"),
    _capability("note.put", "idempotent", "0.001"),
    _capability("art.make", "paid", "0.02"),
    _capability("mail.send", "irreversible", "0"),
    _capability("ask.person", "read", "0", waits=True, output={}),
)
CATALOG = Catalog(CAPABILITIES)


def catalog(**changes: Mapping[str, Any]) -> Catalog:
    """Return the catalog with some capabilities changed: `art_make={"timeout": 1}`."""
    from dataclasses import replace

    return Catalog(replace(each, **changes.get(each.name.replace(".", "_"), {})) for each in CAPABILITIES)


Behaviour = Callable[[Request, int], Any]


@dataclass
class Work:
    """A provider. `behave(request, n)` says what the n-th dispatch of a capability does: what it returns is the reply
    (a `Reply`, or a value), what it raises is raised, what it awaits is awaited; without it a dispatch answers
    `{"n": n}`. `requests` are all dispatches, `peak` the most at one time."""

    behave: Behaviour | None = None
    requests: list[Request] = field(default_factory=list)
    count: Counter[str] = field(default_factory=Counter)
    flying: int = 0
    peak: int = 0
    known: dict[str, Any] = field(default_factory=dict)
    """What `lookup` answers, by idempotency key."""

    async def dispatch(self, request: Request) -> Reply:
        self.requests.append(request)
        self.count[request.capability] += 1
        n = self.count[request.capability]
        self.flying += 1
        self.peak = max(self.peak, self.flying)
        try:
            await asyncio.sleep(0)
            found = {"n": n} if self.behave is None else self.behave(request, n)
            if inspect.isawaitable(found):
                found = await found
            return found if isinstance(found, Reply) else Reply({"n": n} if found is None else found)
        finally:
            self.flying -= 1

    async def lookup(self, capability: str, key: str) -> Reply | None:
        found = self.known.get(key)
        if isinstance(found, BaseException):
            raise found
        return found

    def asked(self, capability: str) -> list[Json]:
        """The payloads of a capability's dispatches, in order."""
        return [request.payload for request in self.requests if request.capability == capability]

    @property
    def twice(self) -> list[tuple[str, str]]:
        """The calls (identity, payload) of side-effecting capabilities that were dispatched more than once."""
        seen = Counter(
            (request.identity, repr(request.payload))
            for request in self.requests
            if CATALOG[request.capability].side_effecting
        )
        return [call for call, times in seen.items() if times > 1]


class Raw:
    """A provider whose `dispatch` is a function: no `Reply` is made of what it returns."""

    def __init__(self, function: Callable[[Request], Any]) -> None:
        self.function = function
        self.requests: list[Request] = []

    async def dispatch(self, request: Request) -> Reply:
        self.requests.append(request)
        found = self.function(request)
        return await found if inspect.isawaitable(found) else found

    async def lookup(self, capability: str, key: str) -> Reply | None:
        return None


class Faulty:
    """A store that fails the n-th time that one of `on` is called, and from then on if `lasting`, as a backend's funnel
    would: nothing was written. "entry" is each entry as it is read. `calls` are the names of what was called."""

    READS = ("entries", "entry", "blob", "head")
    WRITES = ("append", "begin", "acquire", "release", "renew", "create")

    def __init__(
        self,
        store: Store,
        on: Sequence[str] = (),
        n: int = 0,
        error: type[StoreError] = StoreUnavailable,
        lasting: bool = True,
    ) -> None:
        self.store = store
        self.on = tuple(on)
        self.n = n
        self.error = error
        self.lasting = lasting
        self.calls: list[str] = []
        self.failed = 0

    def _meet(self, name: str) -> None:
        self.calls.append(name)
        if name not in self.on or not self.n:
            return
        times = sum(1 for call in self.calls if call in self.on)
        if times == self.n or (self.lasting and times > self.n):
            self.failed += 1
            raise self.error(f"the store failed at {name} ({times})", hint="Look at the disk.")

    def create(self, header: RunHeader) -> None:
        self._meet("create")
        self.store.create(header)

    def begin(
        self,
        header: RunHeader,
        entries: Sequence[Entry],
        *,
        blobs: Mapping[Digest, bytes] | None = None,
        beside: Beside | None = None,
    ) -> tuple[Lease, list[Stored]]:
        self._meet("begin")
        return self.store.begin(header, entries, blobs=blobs, beside=beside)

    def header(self, run: str) -> RunHeader:
        return self.store.header(run)

    def runs(self) -> list[RunHeader]:
        return self.store.runs()

    def acquire(self, run: str) -> Lease:
        self._meet("acquire")
        return self.store.acquire(run)

    def renew(self, lease: Lease) -> None:
        self._meet("renew")
        self.store.renew(lease)

    def release(self, lease: Lease) -> None:
        self._meet("release")
        self.store.release(lease)

    def driven(self, run: str) -> bool:
        return self.store.driven(run)

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
        self._meet("append")
        return self.store.append(run, entries, blobs=blobs, lease=lease, beside=beside, last=last)

    def entries(self, run: str, *, after: int = 0, upto: int | None = None) -> Iterator[Stored]:
        self._meet("entries")
        return self._each(self.store.entries(run, after=after, upto=upto))

    def _each(self, found: Iterator[Stored]) -> Iterator[Stored]:
        for entry in found:
            self._meet("entry")
            yield entry

    def head(self, run: str) -> tuple[int, Digest]:
        self._meet("head")
        return self.store.head(run)

    def blob(self, digest: Digest) -> bytes:
        self._meet("blob")
        return self.store.blob(digest)

    def close(self) -> None:
        self.store.close()


class Heard:
    """An observer that keeps what it hears, and sets `events` others wait for."""

    def __init__(self) -> None:
        self.events: list[Mapping[str, Json]] = []
        self._waits: list[tuple[Callable[[Mapping[str, Json]], bool], threading.Event]] = []

    def __call__(self, event: Mapping[str, Json]) -> None:
        self.events.append(event)
        for test, flag in self._waits:
            if test(event):
                flag.set()

    def flag(self, test: Callable[[Mapping[str, Json]], bool]) -> threading.Event:
        """Return an event that is set once something is heard for which a test holds."""
        flag = threading.Event()
        self._waits.append((test, flag))
        return flag

    def of(self, kind: str) -> list[Mapping[str, Json]]:
        """Return what was heard of a kind."""
        return [event for event in self.events if event["event"] == kind]


def context(
    store: Store,
    provider: Any,
    sandbox: Sandbox,
    *,
    clock: Clock | None = None,
    grant: Any = None,
    capabilities: Catalog = CATALOG,
    **more: Any,
) -> Context:
    """Put the production parts around a provider. `grant` is JSON as in a grant's file."""
    return Context(
        store=store,
        sandbox=sandbox,
        provider=provider,
        catalog=capabilities,
        clock=clock or ManualClock(),
        grant=granted(grant, capabilities),
        backoff=0.0,
        **more,
    )


def granted(value: Any, capabilities: Catalog = CATALOG) -> Grant:
    """Read a grant; one that names only limits grants everything under them."""
    if value is None:
        return everything(capabilities)
    found = from_json({"worst_case": "at_run_time", **value})
    return Grant({**everything(capabilities).capabilities, **found.capabilities}, found.limits, found.worst_case)


async def until(flag: threading.Event) -> None:
    """Wait on an event loop for what another thread sets."""
    while not flag.is_set():  # noqa: ASYNC110
        await asyncio.sleep(0.001)


def history(store: Store, run: str = "r") -> History:
    """Fold a run's journal."""
    return fold(store.entries(run))


def kinds(store: Store, run: str = "r") -> list[str]:
    """Return the kinds of a journal's entries, in order."""
    return [entry.kind for entry in store.entries(run)]


def sound(store: Store, run: str = "r") -> bool:
    """Whether a run's certificate can be recomputed."""
    return certified(store, run) == "ok"


def cost(dollars: str) -> Usage:
    """Return a usage of so many dollars."""
    return Usage(cost=nano(dollars))
