"""What every store promises (`addendum.ports.Store`), held against each backend.

A backend joins by an entry in `BACKENDS`: a function that takes an empty folder and a clock and returns a function
that opens its data once more, as another process would.
"""

from __future__ import annotations

import hashlib
import json
import threading
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest

from addendum.canon import canonical, sha256
from addendum.errors import (
    JournalMoved,
    LeaseLost,
    NotFound,
    NotJson,
    RunBusy,
    StoreCorrupt,
    StoreUnavailable,
    UsageError,
)
from addendum.ports import Beside, Clock, Lease, RunHeader, Store
from addendum.records.stored import Entry
from addendum.store.sqlite import SqliteStore
from addendum.testing.memory_store import MemoryStore


@dataclass(slots=True)
class Hands:
    """A clock whose hands the test moves."""

    wall: float = 1_800_000_000.0
    ticks: float = 1_000.0

    def now(self) -> float:
        return self.wall

    def monotonic(self) -> float:
        return self.ticks

    def random(self) -> float:
        return 0.5

    def token(self) -> str:
        return "0" * 32

    def pass_by(self, seconds: float) -> None:
        self.wall += seconds
        self.ticks += seconds


Opener = Callable[[], Store]


def _memory(_folder: Path, clock: Clock) -> Opener:
    first = MemoryStore(clock=clock)
    return first.another


def _sqlite(folder: Path, clock: Clock) -> Opener:
    return lambda: SqliteStore(folder / "store.db", clock=clock)


BACKENDS: dict[str, Callable[[Path, Clock], Opener]] = {"memory": _memory, "sqlite": _sqlite}

HEADER = RunHeader("r-1", "hello", "2026-01-01T00:00:00Z")
NOTE = Entry("note", {"text": "hi"})


@dataclass(slots=True)
class Data:
    """One backend's data, which `open` opens once more."""

    opener: Opener
    clock: Hands
    opened: list[Store] = field(default_factory=list)

    def open(self) -> Store:
        store = self.opener()
        self.opened.append(store)
        return store


@pytest.fixture(params=BACKENDS)
def data(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Data]:
    clock = Hands()
    made = Data(BACKENDS[request.param](tmp_path, clock), clock)
    yield made
    for store in made.opened:
        store.close()


@pytest.fixture
def store(data: Data) -> Store:
    opened = data.open()
    opened.create(HEADER)
    return opened


def _bodies(store: Store, run: str = "r-1") -> list[Any]:
    return [stored.body for stored in store.entries(run)]


# --- runs ---------------------------------------------------------------------------------------------------------


def test_a_run_is_created_empty_and_found_again(store: Store, data: Data) -> None:
    """A created run has its header and an empty journal, in every store on the same data."""
    other = data.open()

    assert HEADER == store.header("r-1") == other.header("r-1")
    assert other.head("r-1") == (0, "")
    assert list(other.entries("r-1")) == []


def test_runs_are_listed_oldest_first(store: Store) -> None:
    """Runs come in the order in which they were created, not in that of their names."""
    store.create(RunHeader("r-0", "later", "2026-01-02T00:00:00Z"))

    assert [header.run for header in store.runs()] == ["r-1", "r-0"]


def test_a_name_is_taken_once(store: Store) -> None:
    """A second run of one name is refused and the first one stays as it is."""
    with pytest.raises(UsageError, match="r-1"):
        store.create(RunHeader("r-1", "other", "2027-01-01T00:00:00Z"))

    assert store.runs() == [HEADER]


@pytest.mark.parametrize("run", ["", "\ud800"])
def test_a_run_needs_a_name_of_valid_text(store: Store, run: str) -> None:
    """A run without a name, or with one that no database can keep, is refused as a usage error."""
    with pytest.raises(UsageError):
        store.create(RunHeader(run, "x", "2026-01-01T00:00:00Z"))


@pytest.mark.parametrize(
    "ask",
    [
        lambda store: store.header("no"),
        lambda store: store.append("no", [NOTE]),
        lambda store: store.append("no", [NOTE], lease=Lease("no", "t")),
        lambda store: store.acquire("no"),
        lambda store: store.head("no"),
        lambda store: store.entries("no"),
        lambda store: store.entries("no", upto=3),
        lambda store: store.entries("no", after=3, upto=3),
    ],
    ids=["header", "append", "append by lease", "acquire", "head", "entries", "a stretch", "an empty stretch"],
)
def test_an_unknown_run_is_not_found(store: Store, ask: Callable[[Store], object]) -> None:
    """Whatever is asked of a run that isn't there is `NotFound`, and makes none."""
    with pytest.raises(NotFound, match="no"):
        ask(store)

    assert store.runs() == [HEADER]


# --- journal ------------------------------------------------------------------------------------------------------


def test_entries_count_from_one_without_a_gap(store: Store) -> None:
    """`seq` starts at 1 and goes on over several appends; the head is the last entry's."""
    first = store.append("r-1", [Entry("a", {"n": 1}), Entry("b", {"n": 2})])
    second = store.append("r-1", [Entry("c", {"n": 3})])

    assert [stored.seq for stored in first + second] == [1, 2, 3]
    assert (3, second[0].chain) == store.head("r-1")


def test_what_append_returns_is_what_is_read(store: Store, data: Data) -> None:
    """The entries that `append` returned are those that any store reads, values and all."""
    body = {"float": 1.5, "whole": 2.0, "list": (1, 2), "text": "ß\u2028\x00𝄞", "deep": {"none": None, "yes": True}}
    returned = store.append("r-1", [Entry("kind with ü", body)])

    assert returned == list(store.entries("r-1")) == list(data.open().entries("r-1"))
    assert json.loads(json.dumps(body)) == returned[0].body


def test_the_chain_is_the_documented_one(store: Store) -> None:
    """Each chain value is SHA-256 over the previous one, the kind and the canonical body, joined by newlines."""
    bodies = [{"b": 1, "a": [1.0, "é"]}, {}]
    stored = store.append("r-1", [Entry("x", body) for body in bodies])

    previous = ""
    for entry, body in zip(stored, bodies, strict=True):
        previous = hashlib.sha256(previous.encode() + b"\nx\n" + canonical(body)).hexdigest()
        assert previous == entry.chain


def test_runs_have_chains_of_their_own(store: Store) -> None:
    """Entries of one run neither count nor chain in another."""
    store.create(RunHeader("r-2", "two", "2026-01-02T00:00:00Z"))
    one = store.append("r-1", [NOTE])
    store.append("r-2", [Entry("other", {})])
    two = store.append("r-2", [NOTE])

    assert (one[0].seq, two[0].seq) == (1, 2)
    assert one[0].chain != two[0].chain
    assert [body["text"] for body in _bodies(store)] == ["hi"]


def test_appending_nothing_changes_nothing(store: Store) -> None:
    """An append without entries returns none and leaves the head where it was."""
    store.append("r-1", [NOTE])
    before = store.head("r-1")

    assert store.append("r-1", []) == []
    assert before == store.head("r-1")


def test_a_body_is_kept_as_it_was_when_appended(store: Store) -> None:
    """What a caller does later with its body, or with one that it was given, changes no journal."""
    body = {"list": [1]}
    returned = store.append("r-1", [Entry("note", body)])
    body["list"].append(2)
    returned[0].body["list"].append(3)

    assert _bodies(store) == [{"list": [1]}]


@pytest.mark.parametrize("bad", [float("nan"), b"bytes", {1: 2}, {1, 2}, 2**60, "\ud800"])
def test_what_is_no_json_leaves_nothing_behind(store: Store, bad: object) -> None:
    """One body that JSON can't say refuses the whole append, the good entries before it and the blobs too."""
    with pytest.raises(NotJson):
        store.append("r-1", [NOTE, Entry("note", {"bad": bad})], blobs={sha256(b"x"): b"x"})

    assert store.head("r-1") == (0, "")
    with pytest.raises(StoreCorrupt):
        store.blob(sha256(b"x"))


@pytest.mark.parametrize(
    ("after", "upto", "expected"),
    [
        (0, None, [1, 2, 3, 4, 5]),
        (2, None, [3, 4, 5]),
        (0, 2, [1, 2]),
        (2, 4, [3, 4]),
        (3, 3, []),
        (4, 2, []),
        (4, 99, [5]),
        (5, 99, []),
        (99, None, []),
        (-3, 1, [1]),
        (0, 0, []),
    ],
)
def test_a_stretch_of_entries(store: Store, after: int, upto: int | None, expected: list[int]) -> None:
    """`after` is exclusive and `upto` inclusive; ends beyond the journal are no error."""
    store.append("r-1", [Entry("n", {"n": n}) for n in range(5)])

    assert expected == [stored.seq for stored in store.entries("r-1", after=after, upto=upto)]


def test_reading_and_appending_at_once(store: Store, data: Data) -> None:
    """A reader sees the journal as it was when it asked, and holds up no writer in between."""
    other = data.open()
    store.append("r-1", [Entry("n", {"n": n, "pad": "x" * 300_000}) for n in range(8)])

    seen = []
    for stored in store.entries("r-1"):
        seen.append(stored.seq)
        store.append("r-1", [NOTE])
        other.append("r-1", [NOTE])

    assert list(range(1, 9)) == seen
    assert store.head("r-1")[0] == 24


def test_two_stores_write_one_journal(store: Store, data: Data) -> None:
    """Stores on the same data append in turns; neither trusts a head that it remembers."""
    other = data.open()
    for n in range(3):
        store.append("r-1", [Entry("n", {"by": "one", "n": n})])
        other.append("r-1", [Entry("n", {"by": "two", "n": n})])

    stored = list(store.entries("r-1"))
    assert [entry.body["by"] for entry in stored] == ["one", "two"] * 3
    assert _verified(store) == stored[-1].chain


@pytest.mark.parametrize("several", [1, 2])
def test_threads_take_turns(store: Store, several: int) -> None:
    """Appends from many threads are whole, and the chain verifies."""
    start = threading.Barrier(6)

    def work(name: int) -> None:
        start.wait()
        for n in range(10):
            store.append("r-1", [Entry("n", {"by": name, "n": n})] * several)

    with ThreadPoolExecutor(6) as pool:
        list(pool.map(work, range(6)))

    bodies = _bodies(store)
    assert len(bodies) == 60 * several
    assert all(bodies[::several] == bodies[n::several] for n in range(several))
    assert sorted((body["by"], body["n"]) for body in bodies[::several]) == [
        (name, n) for name in range(6) for n in range(10)
    ]
    assert _verified(store) == store.head("r-1")[1]


def _verified(store: Store, run: str = "r-1") -> str:
    """Return the chain's last value, recomputed."""
    previous = ""
    for expected, stored in enumerate(store.entries(run), 1):
        assert expected == stored.seq
        text = f"{previous}\n{stored.kind}\n".encode() + canonical(stored.body)
        previous = hashlib.sha256(text).hexdigest()
        assert previous == stored.chain
    return previous


# --- blobs --------------------------------------------------------------------------------------------------------


def test_blobs_go_in_with_their_entries(store: Store, data: Data) -> None:
    """A blob is read back by its digest, in every store; an empty one and a large one too."""
    blobs = {sha256(each): each for each in (b"", b"\x00\xff", b"x" * 3_000_000)}
    store.append("r-1", [NOTE], blobs=blobs)

    assert blobs == {digest: data.open().blob(digest) for digest in blobs}


def test_a_blob_may_come_again(store: Store) -> None:
    """The same blob with another entry, or of another run, is no error."""
    blobs = {sha256(b"same"): b"same"}
    store.append("r-1", [NOTE], blobs=blobs)
    store.append("r-1", [NOTE], blobs=blobs)

    assert store.blob(sha256(b"same")) == b"same"


def test_a_missing_blob_is_corruption(store: Store) -> None:
    """A blob that a journal speaks of and that isn't there can't be what was written."""
    with pytest.raises(StoreCorrupt, match="missing"):
        store.blob("0" * 64)


def test_a_blob_under_a_wrong_digest_is_refused(store: Store) -> None:
    """A blob that could never be read again isn't written, nor is what came with it."""
    with pytest.raises(UsageError):
        store.append("r-1", [NOTE], blobs={sha256(b"one"): b"two"})

    assert store.head("r-1") == (0, "")


# --- leases -------------------------------------------------------------------------------------------------------


def test_one_driver_at_a_time(store: Store, data: Data) -> None:
    """While a lease is held, nobody else gets one, not even the same process; the error names the holder."""
    store.acquire("r-1")

    for contender in (store, data.open()):
        with pytest.raises(RunBusy, match="process") as caught:
            contender.acquire("r-1")
        assert {"run", "pid", "host", "since"} <= caught.value.facts.keys()
        assert caught.value.facts["since"] == "2027-01-15T08:00:00Z"


def test_who_only_looks_at_a_run_is_in_nobodys_way(store: Store, data: Data) -> None:
    """Asking whether a run is driven takes nothing and writes nothing."""
    other = data.open()
    assert store.driven("r-1") is False
    lease = store.acquire("r-1")
    assert (store.driven("r-1"), other.driven("r-1")) == (True, True)
    store.append("r-1", [NOTE], lease=lease)
    store.release(lease)
    assert other.driven("r-1") is False
    with pytest.raises(NotFound):
        store.driven("no such run")


def test_a_lease_that_was_given_back_can_be_taken(store: Store, data: Data) -> None:
    """After a release the next one drives, and the former lease is of no use any more."""
    former = store.acquire("r-1")
    store.release(former)
    lease = data.open().acquire("r-1")

    assert lease.token != former.token
    with pytest.raises(LeaseLost):
        store.append("r-1", [NOTE], lease=former)
    with pytest.raises(LeaseLost):
        store.renew(former)


def test_runs_are_driven_independently(store: Store) -> None:
    """A lease of one run says nothing about another, and doesn't write to it."""
    store.create(RunHeader("r-2", "two", "2026-01-02T00:00:00Z"))
    lease = store.acquire("r-1")
    other = store.acquire("r-2")

    assert lease != other
    with pytest.raises(LeaseLost):
        store.append("r-2", [NOTE], lease=lease)


def test_a_lease_ends_a_minute_after_its_last_renewal(store: Store, data: Data) -> None:
    """A holder that doesn't renew is given up after 60 seconds, not before."""
    other = data.open()
    lease = store.acquire("r-1")
    data.clock.pass_by(59)
    store.renew(lease)
    data.clock.pass_by(59.9)
    with pytest.raises(RunBusy):
        other.acquire("r-1")
    data.clock.pass_by(0.1)

    assert lease.token != other.acquire("r-1").token


def test_a_driver_that_lost_its_lease_writes_nothing(store: Store, data: Data) -> None:
    """The token fences: entries and blobs of the former driver are refused, and the error names the new one."""
    other = data.open()
    former = store.acquire("r-1")
    data.clock.pass_by(60)
    lease = other.acquire("r-1")

    with pytest.raises(LeaseLost, match="took over"):
        store.append("r-1", [NOTE], blobs={sha256(b"x"): b"x"}, lease=former)
    with pytest.raises(LeaseLost):
        store.renew(former)
    store.release(former)
    other.renew(lease)
    other.append("r-1", [NOTE], lease=lease)
    assert store.head("r-1")[0] == 1
    with pytest.raises(StoreCorrupt):
        store.blob(sha256(b"x"))


@pytest.mark.parametrize("entries", [[NOTE], [NOTE, NOTE]], ids=["one", "two"])
def test_a_driver_that_wrote_last_and_lost_its_lease_writes_nothing(
    store: Store, data: Data, entries: list[Entry]
) -> None:
    """Where its journal ends it knows, and nobody wrote there since; whose the journal is, it may not."""
    former = store.acquire("r-1")
    store.append("r-1", entries, lease=former)
    store.create(RunHeader("r-2", "two", "2026-01-02T00:00:00Z"))
    store.append("r-2", entries, lease=store.acquire("r-2"))
    with pytest.raises(LeaseLost):
        store.append("r-2", entries, lease=former)
    data.clock.pass_by(60)
    lease = data.open().acquire("r-1")

    for lost in (former, Lease("r-1", ""), Lease("r-2", lease.token)):
        with pytest.raises(LeaseLost):
            store.append("r-1", entries, lease=lost)
        with pytest.raises(LeaseLost):
            store.append("r-1", entries, lease=lost, beside=Beside("r-1", own=len(entries)))
    assert store.head("r-1")[0] == len(entries) == store.head("r-2")[0]
    with pytest.raises(JournalMoved):
        store.append("r-1", entries, lease=lease, beside=Beside("r-1", own=len(entries) - 1))
    store.release(lease)
    with pytest.raises(LeaseLost):
        store.append("r-1", entries, lease=lease)
    assert store.append("r-1", entries)[0].seq == len(entries) + 1
    assert _verified(store) == store.head("r-1")[1]


def test_a_late_driver_goes_on_if_nobody_took_over(store: Store, data: Data) -> None:
    """A lease that ran out and that nobody took is still the run's."""
    lease = store.acquire("r-1")
    data.clock.pass_by(3600)

    assert store.append("r-1", [NOTE], lease=lease)[0].seq == 1
    store.renew(lease)


def test_an_operator_writes_beside_the_driver(store: Store, data: Data) -> None:
    """An append without a lease goes in between the driver's, and takes nothing from it."""
    lease = store.acquire("r-1")
    store.append("r-1", [NOTE], lease=lease)
    data.open().append("r-1", [Entry("cancel", {})])
    last = store.append("r-1", [NOTE], lease=lease)

    assert last[0].seq == 3
    assert [stored.kind for stored in store.entries("r-1")] == ["note", "cancel", "note"]


def test_a_wall_clock_that_jumps_takes_no_run_away(store: Store, data: Data) -> None:
    """Within one boot, idle time is not told by a clock that somebody can set."""
    store.acquire("r-1")
    for jump in (86_400.0, -172_800.0):
        data.clock.wall += jump
        with pytest.raises(RunBusy):
            data.open().acquire("r-1")

    data.clock.ticks += 60
    data.open().acquire("r-1")


def test_a_stamp_from_the_future_counts_from_when_it_is_seen(store: Store, data: Data) -> None:
    """A clock that was set back neither ends a lease nor keeps it for ever."""
    store.acquire("r-1")
    data.clock.pass_by(-100_000)
    with pytest.raises(RunBusy):
        data.open().acquire("r-1")
    data.clock.pass_by(59)
    with pytest.raises(RunBusy):
        data.open().acquire("r-1")
    data.clock.pass_by(1)

    data.open().acquire("r-1")


def test_releasing_is_always_allowed(store: Store) -> None:
    """Giving back what one never had, or had before, changes nothing and raises nothing."""
    lease = store.acquire("r-1")
    for other in (Lease("r-1", "0" * 32), Lease("no", lease.token), lease, lease):
        store.release(other)

    store.acquire("r-1")


# --- a driver's first and last entries ------------------------------------------------------------------------------


def test_a_run_begins_with_its_first_entries_and_a_driver(data: Data) -> None:
    """Another process finds the whole of it: the header, the entries with their blobs, and somebody who drives."""
    store, other = data.open(), data.open()
    lease, stored = store.begin(HEADER, [NOTE, NOTE], blobs={sha256(b"b"): b"b"})

    assert [(entry.seq, entry.kind, entry.body) for entry in stored] == [(n, "note", {"text": "hi"}) for n in (1, 2)]
    assert (other.header("r-1"), list(other.entries("r-1")), other.blob(sha256(b"b"))) == (HEADER, stored, b"b")
    assert other.driven("r-1")
    with pytest.raises(RunBusy):
        other.acquire("r-1")
    assert [entry.seq for entry in store.append("r-1", [NOTE], lease=lease)] == [3]
    assert _verified(other) == store.head("r-1")[1]


@pytest.mark.parametrize(
    ("beside", "header", "entries", "blobs", "error"),
    [
        (None, RunHeader("there", "", "t"), [NOTE], {}, UsageError),
        (None, RunHeader("", "", "t"), [NOTE], {}, UsageError),
        (None, HEADER, [Entry("note", {"x": object()})], {}, NotJson),
        (None, HEADER, [NOTE], {"0" * 64: b"b"}, UsageError),
        (Beside("there", [NOTE], 0), HEADER, [NOTE], {}, JournalMoved),
        (Beside("there", [NOTE], 1, own=1), HEADER, [NOTE], {}, JournalMoved),
        (Beside("no", [NOTE]), HEADER, [NOTE], {}, NotFound),
    ],
    ids=["name taken", "no name", "no JSON", "blob of another name", "beside", "own", "beside nothing"],
)
def test_a_run_that_can_not_begin_is_not_there(
    data: Data, beside: Beside | None, header: RunHeader, entries: list[Entry], blobs: dict[str, bytes], error: type
) -> None:
    """All of it or nothing, also of what goes beside it; and the name is free."""
    store = data.open()
    store.create(RunHeader("there", "", "t"))
    store.append("there", [NOTE])
    with pytest.raises(error):
        store.begin(header, entries, blobs={sha256(b"kept?"): b"kept?", **blobs}, beside=beside)

    assert [each.run for each in store.runs()] == ["there"]
    assert (store.head("there")[0], store.driven("there")) == (1, False)
    with pytest.raises(StoreCorrupt):
        store.blob(sha256(b"kept?"))
    lease, stored = store.begin(HEADER, [NOTE], beside=Beside("there", [NOTE], 1, own=0))
    assert (len(stored), store.head("there")[0]) == (1, 2)
    store.append("r-1", [NOTE], lease=lease)


def test_of_two_that_begin_one_run_one_does(data: Data) -> None:
    """The other one is told that the name is taken, and has no part in it."""
    with ThreadPoolExecutor(8) as threads:
        begun = list(threads.map(lambda store: _begun(store), [data.open() for _ in range(8)]))

    (one,) = [lease for lease in begun if lease is not None]
    store = data.open()
    assert store.head("r-1")[0] == 1
    store.append("r-1", [NOTE], lease=one)


def _begun(store: Store) -> Lease | None:
    try:
        return store.begin(HEADER, [NOTE])[0]
    except UsageError:
        return None


def test_the_last_entries_give_the_lease_back(data: Data) -> None:
    """Once they are there, nobody drives the run; the former driver writes nothing more."""
    store, other = data.open(), data.open()
    lease, _ = store.begin(HEADER, [NOTE])
    assert [entry.seq for entry in store.append("r-1", [NOTE], lease=lease, last=True)] == [2]

    assert not other.driven("r-1")
    next_one = other.acquire("r-1")
    with pytest.raises(LeaseLost):
        store.append("r-1", [NOTE], lease=lease)
    store.release(lease)
    store.close()  # it has nothing left to give back
    assert [entry.seq for entry in other.append("r-1", [NOTE], lease=next_one)] == [3]


def test_last_entries_that_are_refused_leave_the_lease(data: Data) -> None:
    """The driver still has it, and can write what can be written."""
    store, other = data.open(), data.open()
    lease, _ = store.begin(HEADER, [NOTE])
    with pytest.raises(JournalMoved):
        store.append("r-1", [NOTE], lease=lease, beside=Beside("r-1", own=0), last=True)

    assert other.driven("r-1")
    store.append("r-1", [NOTE], lease=lease, blobs={sha256(b"b"): b"b"}, last=True)
    assert not other.driven("r-1")


def test_a_former_drivers_last_entries_take_nothing_from_the_next_one(data: Data) -> None:
    """Neither the journal nor its lease: it is told that it was lost."""
    store, other = data.open(), data.open()
    former, _ = store.begin(HEADER, [NOTE])
    data.clock.pass_by(61)
    lease = other.acquire("r-1")
    with pytest.raises(LeaseLost):
        store.append("r-1", [NOTE], lease=former, last=True)
    store.append("r-1", [NOTE], last=True)  # an operator's: there is no lease to give back

    assert [entry.seq for entry in other.append("r-1", [NOTE], lease=lease)] == [3]


# --- closing ------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "ask",
    [
        lambda store: store.create(RunHeader("r-9", "x", "2026-01-01T00:00:00Z")),
        lambda store: store.begin(RunHeader("r-9", "x", "2026-01-01T00:00:00Z"), [NOTE]),
        lambda store: store.header("r-1"),
        lambda store: store.runs(),
        lambda store: store.acquire("r-1"),
        lambda store: store.renew(Lease("r-1", "t")),
        lambda store: store.release(Lease("r-1", "t")),
        lambda store: store.append("r-1", [NOTE]),
        lambda store: store.entries("r-1"),
        lambda store: store.head("r-1"),
        lambda store: store.blob("0" * 64),
    ],
    ids=["create", "begin", "header", "runs", "acquire", "renew", "release", "append", "entries", "head", "blob"],
)
def test_a_closed_store_says_so(store: Store, ask: Callable[[Store], object]) -> None:
    """Every method of a closed store raises `StoreUnavailable`; closing again is no error."""
    store.close()
    store.close()

    with pytest.raises(StoreUnavailable, match="closed"):
        ask(store)


def test_closing_gives_leases_back(store: Store, data: Data) -> None:
    """A store that is closed drives nothing any more, so another one needn't wait."""
    store.acquire("r-1")
    store.close()

    data.open().acquire("r-1")


def test_what_was_appended_outlives_the_store(store: Store, data: Data) -> None:
    """A closed store's journal goes on in the next one."""
    store.append("r-1", [NOTE])
    store.close()
    again = data.open()
    again.append("r-1", [NOTE])

    assert _verified(again) == again.head("r-1")[1]
    assert again.head("r-1")[0] == 2


# --- a journal beside -------------------------------------------------------------------------------------------------


def test_entries_beside_are_written_in_the_same_transaction(store: Store) -> None:
    """Both journals grow, or neither does; a journal that is the store's own isn't listed as a run."""
    store.create(RunHeader("@books", "", "2026-01-01T00:00:00Z"))
    store.append("r-1", [NOTE], beside=Beside("@books", [NOTE, NOTE], 0))
    assert (store.head("r-1")[0], store.head("@books")[0]) == (1, 2)
    with pytest.raises(NotFound):
        store.append("r-1", [NOTE], beside=Beside("@nowhere", [NOTE]))
    assert store.head("r-1")[0] == 1
    assert [header.run for header in store.runs()] == ["r-1"]


def test_an_append_against_a_journal_that_moved_writes_nothing(store: Store, data: Data) -> None:
    """Whoever looked before another process wrote is told so; without a place it is appended wherever the end is."""
    store.create(RunHeader("@books", "", "2026-01-01T00:00:00Z"))
    data.open().append("@books", [NOTE])
    with pytest.raises(JournalMoved):
        store.append("r-1", [NOTE], beside=Beside("@books", [NOTE], 0))
    assert (store.head("r-1")[0], store.head("@books")[0]) == (0, 1)
    store.append("r-1", [NOTE], beside=Beside("@books", [NOTE]))
    store.append("r-1", [NOTE], beside=Beside("@books", [NOTE], 2))
    assert (store.head("r-1")[0], store.head("@books")[0]) == (2, 3)


def test_two_processes_write_beside_each_other_in_one_chain(store: Store, data: Data) -> None:
    """Whoever wrote last knows where the journal ends; the other one, which thinks that it does, is told or finds out.
    An append that fails makes no difference."""
    store.create(RunHeader("@books", "", "2026-01-01T00:00:00Z"))
    other = data.open()
    other.create(RunHeader("r-2", "", "2026-01-01T00:00:00Z"))
    place = 0
    for turn in range(12):
        mine, run = ((store, "r-1"), (other, "r-2"))[turn // 2 % 2]
        hold = Entry("hold", {"turn": turn})
        if turn % 3 == 2:
            with pytest.raises(JournalMoved):
                mine.append(run, [NOTE], beside=Beside("@books", [hold], place - 1))
            with pytest.raises(NotFound):
                mine.append("r-9", [NOTE], beside=Beside("@books", [hold], place))
        mine.append(run, [NOTE], beside=Beside("@books", [hold], None if turn % 4 == 3 else place))
        place += 1
        if turn == 5:
            other.append("@books", [NOTE, NOTE])
            place += 2
        if turn == 8:
            mine.append(run, [NOTE], beside=Beside("@books", [hold, hold], place))
            place += 2
    assert [store.head(run)[0] for run in ("r-1", "r-2", "@books")] == [7, 6, place]
    assert _verified(data.open(), "@books") == store.head("@books")[1]
