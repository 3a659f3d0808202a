"""Whatever is done to them, in whatever order, the memory store and the SQLite store answer the same."""

from __future__ import annotations

import shutil
import tempfile
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path

import pytest
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, rule

from addendum.canon import sha256
from addendum.errors import AddendumError, RunBusy
from addendum.ports import Beside, Lease, RunHeader, Store
from addendum.records.stored import Entry, Stored
from addendum.store.sqlite import SqliteStore
from addendum.testing.memory_store import MemoryStore

RUNS = st.sampled_from(["r-1", "r-2"])
WHO = st.integers(0, 1)
BODIES = st.dictionaries(
    st.text(max_size=3),
    st.recursive(
        st.none() | st.booleans() | st.integers(-(2**53), 2**53) | st.floats() | st.text(max_size=5),
        lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=2), inner, max_size=3),
        max_leaves=6,
    ),
    max_size=3,
)
ENTRIES = st.lists(st.builds(Entry, st.sampled_from(["record", "note"]), BODIES, st.none()), max_size=4)


@dataclass(slots=True)
class Hands:
    """A clock whose hands the test moves."""

    wall: float = 1_800_000_000.0
    ticks: float = 0.0

    def now(self) -> float:
        return self.wall

    def monotonic(self) -> float:
        return self.ticks

    def random(self) -> float:
        return 0.5

    def token(self) -> str:
        return "0" * 32


class Stores(RuleBasedStateMachine):
    """Two stores of each kind on the same data, as two processes have them; every step is done to both kinds."""

    def __init__(self) -> None:
        super().__init__()
        self.clock = Hands()
        self.folder = Path(tempfile.mkdtemp(prefix="addendum-"))
        memory = MemoryStore(clock=self.clock)
        self.memory: list[Store] = [memory, memory.another()]
        self.sqlite: list[Store] = [SqliteStore(self.folder / "s.db", clock=self.clock) for _ in range(2)]
        self.leases: dict[tuple[int, str], tuple[Lease, Lease]] = {}

    def teardown(self) -> None:
        for store in self.memory + self.sqlite:
            store.close()
        shutil.rmtree(self.folder)

    def same(self, who: int, ask: Callable[[Store, int], object]) -> tuple[object, object]:
        """Ask both kinds (0: memory, 1: SQLite); they answer the same, or fail the same way."""
        answers = [
            _answer(lambda n=n, kind=kind: ask(kind[who], n)) for n, kind in enumerate((self.memory, self.sqlite))
        ]
        if not isinstance(answers[0], Lease) or not isinstance(answers[1], Lease):
            assert answers[0] == answers[1]
        return answers[0], answers[1]

    @rule(who=WHO, run=RUNS)
    def create(self, who: int, run: str) -> None:
        self.same(who, lambda store, _: store.create(RunHeader(run, "n", "t")))

    @rule(who=WHO, run=RUNS, entries=ENTRIES, at=st.none() | st.integers(0, 2))
    def begin(self, who: int, run: str, entries: list[Entry], at: int | None) -> None:
        header, beside = RunHeader(run, "n", "t"), Beside("r-1" if run == "r-2" else "r-2", entries[:1], at)
        memory, sqlite = self.same(who, lambda store, _: _begun(store, header, entries, beside))
        if isinstance(memory, Begun) and isinstance(sqlite, Begun):
            self.leases[who, run] = memory.lease, sqlite.lease

    @rule(
        who=WHO,
        run=RUNS,
        entries=ENTRIES,
        fenced=st.booleans(),
        last=st.booleans(),
        data=st.binary(max_size=3),
        true=st.booleans(),
    )
    def append(
        self, who: int, run: str, entries: list[Entry], fenced: bool, last: bool, data: bytes, true: bool
    ) -> None:
        leases = self.leases.get((who, run)) if fenced else None
        blobs = {sha256(data) if true else "0" * 64: data}
        self.same(
            who,
            lambda store, n: store.append(run, entries, blobs=blobs, lease=leases[n] if leases else None, last=last),
        )
        self.same(1 - who, lambda store, _: _answer(lambda: store.driven(run)))
        self.same(1 - who, lambda store, _: _answer(lambda: store.blob(sha256(data))))

    @rule(who=WHO, run=RUNS)
    def acquire(self, who: int, run: str) -> None:
        memory, sqlite = self.same(who, lambda store, _: store.acquire(run))
        if isinstance(memory, Lease) and isinstance(sqlite, Lease):
            self.leases[who, run] = memory, sqlite

    @rule(who=WHO, run=RUNS, release=st.booleans())
    def renew_or_release(self, who: int, run: str, release: bool) -> None:
        leases = self.leases.get((who, run))
        if leases:
            self.same(who, lambda store, n: (store.release if release else store.renew)(leases[n]))

    @rule(seconds=st.sampled_from([30, 60, -60, 3600]), ticks=st.booleans())
    def pass_by(self, seconds: int, ticks: bool) -> None:
        self.clock.wall += seconds
        if ticks:
            self.clock.ticks += seconds

    @rule(who=WHO, run=RUNS, after=st.integers(-1, 9), upto=st.none() | st.integers(0, 9))
    def read(self, who: int, run: str, after: int, upto: int | None) -> None:
        self.same(who, lambda store, _: list(store.entries(run, after=after, upto=upto)))
        self.same(who, lambda store, _: store.head(run))
        self.same(who, lambda store, _: store.runs())


@dataclass(frozen=True, slots=True)
class Begun:
    """What `begin` returned. Leases are never equal."""

    stored: list[Stored]
    lease: Lease = field(compare=False)


def _begun(store: Store, header: RunHeader, entries: list[Entry], beside: Beside) -> Begun:
    lease, stored = store.begin(header, entries, beside=beside)
    return Begun(stored, lease)


def _answer(ask: Callable[[], object]) -> object:
    """Return the answer, or what a caller learns of the error."""
    try:
        return ask()
    except AddendumError as error:
        return type(error), error.facts if isinstance(error, RunBusy) else None


TestStores = pytest.mark.slow(Stores.TestCase)
