"""The things one can swap, as Protocols: what each promises, and nothing of how.

Every backend of a port, and every double of it in `addendum.testing`, passes the port's suite in
tests/conformance before anybody may use it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final, Literal, NamedTuple, Protocol, TypeAlias, runtime_checkable

from addendum.canon import Digest, Json
from addendum.records.outcome import Outcome
from addendum.records.stored import Entry, Stored

# --- store ------------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class RunHeader:
    """What is known of a run without reading its journal. `created_at` is ISO text, UTC."""

    run: str
    name: str
    created_at: str


@dataclass(frozen=True, slots=True)
class Lease:
    """The right to drive a run, held by one process at a time. `token` fences: an append by a lease that another
    process took over is refused."""

    run: str
    token: str


LEDGER: Final = "@"
"""Journals whose names begin with this are the store's own accounts, and no runs."""


class Beside(NamedTuple):
    """Entries for another journal, in the same transaction as an append. With `at`, only if that journal's last entry
    has this seq: whoever decided by what is in it decides again when somebody else was first. `own` says the same of
    the journal that is appended to. Without entries only the places are compared."""

    run: str
    entries: Sequence[Entry] = ()
    at: int | None = None
    own: int | None = None


class Store(Protocol):
    """A durable, only-growing journal for each run, and content-addressed blobs.

    All methods are synchronous and may be called from any thread, one at a time. Every failure of the backend leaves
    as `StoreUnavailable` (nothing was written) or `StoreCorrupt` (what was read can't be what was written).
    """

    def create(self, header: RunHeader) -> None:
        """Create an empty run. Raises `UsageError` if the name is taken."""

    def begin(
        self,
        header: RunHeader,
        entries: Sequence[Entry],
        *,
        blobs: Mapping[Digest, bytes] | None = None,
        beside: Beside | None = None,
    ) -> tuple[Lease, list[Stored]]:
        """Create a run with its first entries, and take the right to drive it: all in one transaction, so that there is
        no run without them, and none that nobody drives yet. Raises what `create` and `append` raise."""

    def header(self, run: str) -> RunHeader:
        """Return a run's header. Raises `NotFound`."""

    def runs(self) -> list[RunHeader]:
        """Return all runs, oldest first; journals whose names begin with `@` (`LEDGER`) are none."""

    def acquire(self, run: str) -> Lease:
        """Take the right to drive a run. Raises `RunBusy` while a live process holds it (naming it).

        A dead holder's lease ends by itself: at once if the holder was a process of this machine that is gone,
        else when it was not renewed for a minute."""

    def renew(self, lease: Lease) -> None:
        """Say that the holder lives. Raises `LeaseLost` if another one took over."""

    def release(self, lease: Lease) -> None:
        """Give the lease back. Never raises for a lease that is lost already."""

    def driven(self, run: str) -> bool:
        """Say whether a live process holds the right to drive a run. Writes nothing: who only looks at a run is in
        nobody's way. Raises `NotFound`."""

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
        """Append entries and put blobs in one transaction, durable on return; all of it or nothing.

        With a lease, raises `LeaseLost` if it is no longer the run's; if they are its `last` ones, it is given back in
        the same transaction. Without one, the entries are an operator's (an answer, a cancellation) and go in between
        the driver's. Raises `NotFound` for an unknown run, and `JournalMoved` when a journal has other entries than
        were looked at.
        """

    def entries(self, run: str, *, after: int = 0, upto: int | None = None) -> Iterator[Stored]:
        """Yield a run's entries with `after < seq <= upto` in order of `seq`, without loading all of them at once."""

    def head(self, run: str) -> tuple[int, Digest]:
        """Return the last entry's `seq` and `chain`; (0, "") for an empty journal. Cheap: asked while waiting."""

    def blob(self, digest: Digest) -> bytes:
        """Return a blob. Raises `StoreCorrupt` if it is missing or its bytes have another digest."""

    def close(self) -> None:
        """Let go of the backend. A closed store raises `StoreUnavailable`."""


# --- sandbox ----------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True, kw_only=True)
class Limits:
    """What a script may use up in its sandbox, per session. Times in seconds, sizes in bytes."""

    turn_seconds: float = 10.0
    """Computing time between two answers of the host."""
    total_seconds: float = 120.0
    """Computing time in all."""
    memory: int = 512 * 1024 * 1024
    calls: int = 1_000_000
    """How many calls, logs and fan-outs a script may announce."""
    message: int = 8 * 1024 * 1024
    """The largest single message of the sandbox."""
    output: int = 1024 * 1024
    """All text that a script logs."""


@dataclass(frozen=True, slots=True)
class Issued:
    """The script made a call and waits for its answer. `call` numbers the session's calls.

    `identity` is the text that the guest built (checked by the host before anything is believed), `capability` a
    catalog name or `ctx.now`, `ctx.random`, `ctx.uuid`, `ctx.sleep`, `ctx.race`. `payload` is what the script
    passed, not yet checked to be JSON; `take` as declared, 1 when not."""

    call: int
    identity: str
    capability: str
    payload: object
    take: int = 1


@dataclass(frozen=True, slots=True)
class Served:
    """The script made a call that was answered from `ahead` without a turn; the host has to verify it.

    `text` is the JSON that `payload` was parsed from, if the session has it: where it is what was recorded, it needn't
    be written anew."""

    identity: str
    capability: str
    payload: object
    take: int = 1
    text: str | None = field(default=None, compare=False, repr=False)


@dataclass(frozen=True, slots=True)
class FanOut:
    """A fan-out started. `frame` is its identity text without a branch (path > position[:entry]); `branches` its
    width, or the names of a dag's nodes."""

    frame: str
    method: str
    branches: int | tuple[str, ...]


@dataclass(frozen=True, slots=True)
class RaceEnded:
    """A race has its winner: the other branches of `frame` are dead, their calls in flight are never answered."""

    frame: str
    winner: int


@dataclass(frozen=True, slots=True)
class Handed:
    """One outcome of a batch reached its call. What follows, up to the next of them, is what it led to."""

    call: int


@dataclass(frozen=True, slots=True)
class Said:
    """The script logged a text, or named a phase."""

    kind: Literal["log", "phase"]
    text: str


@dataclass(frozen=True, slots=True)
class Returned:
    """The script came to its end with a value (not yet checked to be JSON)."""

    value: object


@dataclass(frozen=True, slots=True)
class Raised:
    """The script ended with an exception that it didn't catch.

    `type` is the exception's class name, `code` and `identity` are set for a `CapabilityError` (identity "" if the
    script raised its own); `frames` are (line in the user's source, function name), outermost first."""

    type: str
    message: str
    code: str | None = None
    identity: str = ""
    frames: tuple[tuple[int, str], ...] = ()


Event: TypeAlias = Issued | Served | FanOut | RaceEnded | Handed | Said
End: TypeAlias = Returned | Raised


@dataclass(frozen=True, slots=True)
class Turn:
    """What the script did until every strand waits for an answer: events in order, and the end if it came."""

    events: tuple[Event, ...]
    end: End | None = None


@dataclass(frozen=True, slots=True)
class Answer:
    """A call's outcome, handed over."""

    call: int
    outcome: Outcome


@dataclass(frozen=True, slots=True)
class Known:
    """A settled call that the main strand is going to make, so that it needn't cross the boundary for it."""

    identity: str
    outcome: Outcome


@dataclass(frozen=True, slots=True, kw_only=True)
class Script:
    """What a sandbox runs: the host's annotation of a source that the checker passed.

    `line_map[n - 1]` is the source line of the annotated text's line n. `positions` are the position texts that
    the annotation contains: the whitelist that every message is bound to."""

    annotated: str
    line_map: tuple[int, ...]
    positions: frozenset[str]
    source: str = ""


class Session(Protocol):
    """One execution of a script, from its start to its end or until the host lets go of it.

    The script runs only inside `advance`. Not thread-safe; one thread at a time, any thread.
    """

    def advance(self, answer: Answer | None, ahead: Sequence[Known] = ()) -> Turn:
        """Start the script (first call, `answer` None) or hand one outcome over, and run it to quiescence.

        `ahead` are settled calls of the main strand in their order; the guest answers them itself as long as the
        main strand (an identity without a branch frame) asks for them, and reports them as `Served`. Those that it
        didn't use stay known. Raises `LimitExceeded`, `SandboxCrashed`, `ProtocolViolation`; after any of them, and
        after a turn with an end, the session is over.
        """

    def close(self) -> None:
        """Let go of the script, wherever it is: it never runs again, nothing of it is left behind."""


@runtime_checkable
class BatchSession(Protocol):
    """A session that takes a batch of outcomes in one turn, so that a fan-out need not cross the boundary once a
    branch."""

    def advance_all(self, answers: Sequence[Answer], ahead: Sequence[Known] = ()) -> Turn:
        """Hand outcomes over, one after the other, and run to quiescence. If there are several, a `Handed` event says
        where each arrived.

        It is the same as to hand them over one at a time if each leads its strand to where that waits again, without
        anything else being able to go on. That holds for direct branches of one `parallel` or `pipeline` that decide no
        race and start no fan-out; who gives the answers has to look at the events for it. Raises what `advance` raises,
        and `UsageError`, with nothing handed over, for a call that doesn't wait or that is there twice."""


@runtime_checkable
class EarlySession(Protocol):
    """A session whose script can compute while the host does something else. `seconds` is how long it computed after
    the last `send`, once that is over: received, failed, or given up by `close`."""

    seconds: float

    def send(self, answer: Answer, ahead: Sequence[Known] = ()) -> None:
        """Hand one outcome over as `advance` does, and return while the script runs. Nothing but `receive` and `close`
        may be called next. Raises `UsageError`, with nothing handed over, for a call that doesn't wait."""

    def receive(self) -> Turn:
        """Wait for the script to be quiescent, and return what it did, as `advance` does. Raises what that raises."""


class Sandbox(Protocol):
    """A place where a script can't touch anything."""

    name: str

    def open(self, script: Script, args: Json, *, limits: Limits, nonce: str) -> Session:
        """Prepare a session. Raises `SandboxMissing` when the backend isn't there or can't confine."""

    def close(self) -> None:
        """End idle workers."""


@runtime_checkable
class Preparing(Protocol):
    """A sandbox that gets a session ready while the host is busy with other things."""

    def prepare(self, limits: Limits) -> None:
        """Return at once, and have what doesn't depend on a script ready for the next `open` with these limits. It is
        used once or not at all; what goes wrong is seen by `open`."""


# --- commands ---------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True, kw_only=True)
class Command:
    """A program to run confined. `argv[0]` is a path inside; `shown` and `writable` are (here, inside) pairs of paths,
    mounted in this order, then `covered` ones, read-only again. `environment` is all there is of it. Times in seconds,
    sizes in bytes. `watch` is asked while it runs: a text that isn't empty ends it."""

    argv: tuple[str, ...]
    shown: tuple[tuple[str, str], ...] = ()
    writable: tuple[tuple[str, str], ...] = ()
    covered: tuple[tuple[str, str], ...] = ()
    folder: str = "/"
    environment: tuple[tuple[str, str], ...] = ()
    stdin: bytes = b""
    seconds: float = 60.0
    memory: int = 4 * 1024**3
    processes: int = 128
    file_bytes: int = 64 * 1024**2
    scratch_bytes: int = 256 * 1024**2
    output: int = 256 * 1024
    watch: Callable[[], str] | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Ran:
    """How a command ended. `code` is the exit code, or minus the signal; `over` says why it was ended from outside
    ("" if it ended by itself). `stdout` and `stderr` are cut at the command's limit."""

    code: int
    stdout: bytes
    stderr: bytes
    seconds: float
    over: str = ""
    timed_out: bool = False


class Confinement(Protocol):
    """A place where a program sees only what it is shown: no network, no environment, no process of others. When it has
    returned, nothing that it started is alive."""

    owner: int | None
    """Whose the writable files have to be, as a user id; None for whoever runs this."""

    def profile(self) -> Mapping[str, Json]:
        """Return what confines, for a snapshot: it changes when the confinement does. Raises `SandboxMissing`."""

    def run(self, command: Command) -> Ran:
        """Run a program to its end. Raises `SandboxMissing` when it can't be confined here."""


# --- providers --------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True, kw_only=True)
class Request:
    """One dispatch. `key` is the idempotency key: it never stands for another attempt."""

    capability: str
    payload: Json
    key: str
    run: str
    identity: str
    attempt: int


@dataclass(frozen=True, slots=True)
class Usage:
    """What a provider reports beside a result. Money in nano-dollars (10^-9 US dollars), None when it said nothing
    and the catalog's price counts."""

    cost: int | None = None
    tokens: int = 0


@dataclass(frozen=True, slots=True)
class Reply:
    """A provider's answer: a value (not yet checked to be JSON) and what it reports."""

    value: object
    usage: Usage = field(default_factory=Usage)


class Provider(Protocol):
    """Whoever does the work of capabilities."""

    async def dispatch(self, request: Request) -> Reply:
        """Do the work. Raises `CapabilityError` for a failure that is certain, `UnknownOutcome` when it can't tell;
        any other exception counts as a `provider_error`."""

    async def lookup(self, capability: str, key: str) -> Reply | None:
        """Return what became of an earlier dispatch, None if the provider can't say. Never has an effect."""


# --- models -----------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Message:
    """One message of a prompt."""

    role: Literal["system", "user", "assistant"]
    text: str


@dataclass(frozen=True, slots=True)
class Picture:
    """An image that a model is shown: its bytes, and their media type, as in `image/png`."""

    data: bytes
    media_type: str


@dataclass(frozen=True, slots=True, kw_only=True)
class ModelChoice:
    """Which model, where, and within what. `model` is `provider:model`; `url` an address that speaks its protocol, ""
    for the provider's own; `secret` a handle, "" for none. `timeout` in seconds; `price` is the most of a call in
    nano-dollars where no price list has the model; `max_input` the largest prompt in bytes of UTF-8, which are at least
    as many as its tokens: an image counts 10 000."""

    model: str
    url: str = ""
    secret: str = ""
    max_tokens: int = 4096
    timeout: float = 120.0
    price: int | None = None
    max_input: int = 100_000


@dataclass(frozen=True, slots=True, kw_only=True)
class Prompt:
    """What a model is asked. `schema` is the JSON Schema of the answer, {} for plain text. `max_tokens` bounds the
    answer, `timeout` is in seconds. `images` are shown with the last message. `key` is an idempotency key, sent where
    it isn't empty. `once`: a failure after which nobody knows whether the work was done is an unknown outcome, not one
    to be tried again."""

    messages: tuple[Message, ...]
    schema: Mapping[str, Json] = field(default_factory=dict)
    max_tokens: int = 4096
    timeout: float = 120.0
    images: tuple[Picture, ...] = ()
    key: str = ""
    once: bool = False


@dataclass(frozen=True, slots=True)
class Written:
    """What a model answered: a value that its schema describes, or a text. `usage` is what it cost and used, `model`
    who answered."""

    value: Json
    usage: Usage
    model: str


class Model(Protocol):
    """A language model. `most` is the most nano-dollars that any `write` may cost, `most_tokens` the most tokens that
    it may use, None when nobody can say."""

    name: str
    most: int
    most_tokens: int | None

    def bound(self, prompt: Prompt) -> Usage:
        """Return the most that asking this may cost and use, within `most` and `most_tokens`: what is reserved for it.
        Tokens are 0 where nobody can say."""

    async def write(self, prompt: Prompt) -> Written:
        """Ask it once. Raises `CapabilityError` and `UnknownOutcome` as a provider does."""

    async def close(self) -> None:
        """Let go of connections."""


# --- what services work with --------------------------------------------------------------------------------------


class Artifacts(Protocol):
    """Files that results refer to, by the SHA-256 of their bytes: `sha256:` and 64 hexadecimal digits.

    Safe to use from several threads and processes. Every failure of the disk leaves as `StoreUnavailable`.
    """

    def ready(self, room: int) -> None:
        """Check that `room` bytes could be kept now: asked before something is paid for that has to be kept."""

    def put(self, data: bytes, media_type: str) -> dict[str, Json]:
        """Keep bytes, durable on return, and return the reference that a result has: `artifact`, `media_type` and
        `bytes` (their number). The same bytes twice are one file."""

    def get(self, reference: str) -> bytes:
        """Return the bytes. Raises `NotFound`, and `StoreCorrupt` when they have another digest."""


# --- clock, observer --------------------------------------------------------------------------------------------


class Clock(Protocol):
    """Time and entropy: the only source of both."""

    def now(self) -> float:
        """Return seconds since 1970, UTC."""

    def monotonic(self) -> float:
        """Return seconds that only grow."""

    def random(self) -> float:
        """Return a float in [0, 1)."""

    def token(self) -> str:
        """Return 32 hexadecimal digits that nobody can guess."""


class Observer(Protocol):
    """Whoever watches a run. What it does can't change the run; an exception in it is dropped."""

    def __call__(self, event: Mapping[str, Json]) -> None:
        """Take one event; see the manual page on events for the shapes."""
