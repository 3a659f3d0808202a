"""The default backend: Monty, an interpreter without a host surface, in a worker process of its own; that worker under
bubblewrap where there is one.

Only Monty's synchronous API is used: the asynchronous one aborts the host at its exit (pydantic-monty 1.4.0).
"""

from __future__ import annotations

import json
import os
import threading
import weakref
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from datetime import UTC, datetime
from functools import partial
from typing import ClassVar, Final, Literal, NoReturn

from pydantic_monty import (
    FunctionSnapshot,
    FutureSnapshot,
    Monty,
    MontyComplete,
    MontyCrashedError,
    MontyError,
    MontyRuntimeError,
    MontySession,
    MontySyntaxError,
    NameLookupSnapshot,
    OSPolicy,
    ResourceLimits,
)

from addendum.canon import Json, dumps
from addendum.errors import LimitExceeded, SandboxCrashed, SandboxMissing, UsageError
from addendum.ports import Answer, End, Known, Limits, Script, Turn
from addendum.sandbox.ahead import Ahead
from addendum.sandbox.away import Away
from addendum.sandbox.claims import Claims, over
from addendum.sandbox.confine import MontyLauncher, bubblewrap
from addendum.sandbox.keeper import Keeper, OneProcess, closed
from addendum.sandbox.paths import refuse
from addendum.sandbox.prelude import prelude

SCRIPT: Final = "<python-input-1>"
"""Monty's name for the second text of a session; the first is the prelude."""
POLICY: Final[OSPolicy] = {
    "datetime": datetime(2000, 1, 1, tzinfo=UTC),
    "timezone": "utc",
    "sleep": "zero",
    "process_time": "zero",
    "random_start": {"seed": 0},
}
"""No clock, no entropy, no waiting: the same for every run."""
MAX_TURN: Final = 600.0
"""The longest turn in seconds that the pool waits for, whatever a session's limits say."""

_Snapshot = FunctionSnapshot | FutureSnapshot | NameLookupSnapshot | MontyComplete


def _wf_host() -> None:
    """Stand for the guest's `_wf_host`: Monty makes a host function of it, and calls arrive as snapshots."""


class EmbeddedSandbox:
    """Monty. `confined` says whether its workers run under bubblewrap (known from the first session on)."""

    name = "embedded"
    interpreter: Literal["monty", "cpython"] = "monty"
    _process: ClassVar = OneProcess(
        "Monty", hint="Fork before the first script is run, start processes by `spawn`, or choose the backend `bwrap`."
    )
    """Of Monty's library, whose threads are all sandboxes'."""

    def __init__(
        self,
        *,
        require_confined: bool = False,
        max_workers: int = 32,
        wait_seconds: float = 60.0,
        look: Callable[[], tuple[str | None, str]] = bubblewrap,
    ) -> None:
        self._require = require_confined
        self._look = look
        self._max_workers = max_workers
        self._wait = wait_seconds
        self._lock = threading.Lock()
        self._keeper = Keeper(self.name)
        # One for each script that computes, and one for the session that is made ahead: no script waits for a thread.
        self._threads = ThreadPoolExecutor(max_workers + 1, f"addendum-{self.name}-aside")
        self._ahead = Ahead(self._threads, self._made_ready, self.give_back)
        self._free = threading.Semaphore(max_workers)
        """The workers that no session has: who waits for one waits here, where the end of the sandbox wakes it."""
        self._pool: Monty | None = None
        self._out: dict[int, MontySession] = {}
        """The sessions that were taken of the pool."""
        self._launcher: MontyLauncher | None = None
        self._closed = False
        _SANDBOXES[id(self)] = self

    @property
    def confined(self) -> bool:
        """Whether the kernel confines the workers, too."""
        return self._start()[1].confined

    def describe(self) -> str:
        """Return one line for a person: what confines the script."""
        launcher = self._start()[1]
        worker = "under bubblewrap" if launcher.confined else f"not confined: {launcher.why}"
        return f"Monty {launcher.version}, worker {worker}"

    def prepare(self, limits: Limits) -> None:
        """Have a worker ready for the next `open` with these limits; see `ports.Preparing`."""
        if limits.turn_seconds <= MAX_TURN and not self._process.elsewhere:
            self._process.use()
            self._ahead.prepare(_limits(limits))

    def open(self, script: Script, args: Json, *, limits: Limits, nonce: str) -> EmbeddedSession:
        """Take a worker and prepare it. Raises `SandboxMissing`, `SandboxCrashed` if no worker gets free in time."""
        if limits.turn_seconds > MAX_TURN:
            raise UsageError(f"A turn can take {MAX_TURN:g} seconds at most.", hint="Lower `turn_seconds`.")
        self._process.use()
        inside = _limits(limits)
        session = self._ahead.take(inside)
        if session is not None:
            return EmbeddedSession(self, session, script, args, limits, nonce, ready=True)
        return EmbeddedSession(self, self._checkout(inside, self._wait), script, args, limits, nonce)

    def give_back(self, session: MontySession) -> None:
        """Let another script have a session's worker, or a new one in its place."""
        self._out.pop(id(session), None)
        try:
            session.__exit__(None, None, None)
        finally:
            self._free.release()

    def _made_ready(self, limits: ResourceLimits) -> MontySession:
        """Take a worker if one is free, and run in it what comes before any script."""
        session = self._checkout(limits, 0.0)
        try:
            session.feed_run(prelude("monty"), print_callback=_drop)
        except BaseException:
            self.give_back(session)
            raise
        return session

    def _checkout(self, limits: ResourceLimits, seconds: float) -> MontySession:
        """Take a worker that gets free within so many seconds."""
        if not self._free.acquire(timeout=seconds):
            raise SandboxCrashed(f"No worker was free within {seconds:g} seconds.", hint="Run fewer scripts at once.")
        try:
            pool, _ = self._start()
            checkout = pool.checkout(
                limits=limits, assert_message_annotations=False, os_policy=POLICY, print_flush_interval=1.0
            )
            session = self._keeper.run(checkout.__enter__)
            self._out[id(session)] = session
            return session
        except BaseException as error:
            self._free.release()
            if isinstance(error, MontyError | OSError):
                raise SandboxMissing(f"Monty's worker doesn't start: {error}.", hint=self._hint()) from None
            raise

    def away(self, go_on: Callable[[], _Snapshot]) -> Away[_Snapshot]:
        """Let a script go on in another thread, and return when it does."""
        try:
            return Away(self._threads, go_on)
        except RuntimeError:
            raise closed() from None

    def close(self) -> None:
        """End the workers. In a fork's child there are none to end."""
        if self._process.elsewhere:
            return
        with self._lock:
            self._closed = True
        self._ahead.close()
        self._free.release(self._max_workers)
        with self._lock:
            pool, self._pool = self._pool, None
            launcher, self._launcher = self._launcher, None
        if pool is not None:
            pool.__exit__(None, None, None)
        self._keeper.close()
        if launcher is not None:
            launcher.close()  # last: a worker that is just being started reads its launcher yet
        self._threads.shutdown(wait=False)

    def _forked(self) -> None:
        """Keep what is Monty's for ever in a fork's child. Its pool and its sessions end their workers when they are
        collected, which are the parent's: it would wait for them in vain."""
        import ctypes  # only here: no other process needs it

        for each in (self._pool, *self._out.values()):
            ctypes.pythonapi.Py_IncRef(ctypes.py_object(each))

    def _hint(self) -> str:
        return "Run `addendum sandbox verify` to see what is missing."

    def _start(self) -> tuple[Monty, MontyLauncher]:
        self._process.use()
        with self._lock:
            if self._closed:
                raise SandboxMissing("The sandbox was closed.", hint="Make a new one.")
            if self._pool is None or self._launcher is None:
                launcher = MontyLauncher.find(require_confined=self._require, look=self._look)
                pool = Monty(
                    binary_path=launcher.path,
                    min_processes=1,
                    max_processes=self._max_workers,
                    checkout_timeout=self._wait,
                    request_timeout=MAX_TURN + 1,
                )
                try:
                    self._keeper.run(pool.__enter__)
                except (MontyError, OSError) as error:
                    launcher.close()
                    raise SandboxMissing(f"Monty's worker doesn't start: {error}.", hint=self._hint()) from None
                self._pool, self._launcher = pool, launcher
            return self._pool, self._launcher


class EmbeddedSession:
    """One script in one of Monty's workers, which ran the prelude already if it is `ready`."""

    def __init__(
        self,
        sandbox: EmbeddedSandbox,
        session: MontySession,
        script: Script,
        args: Json,
        limits: Limits,
        nonce: str,
        *,
        ready: bool = False,
    ) -> None:
        self._ready = ready
        self._sandbox = sandbox  # its keeper's thread has to live for as long as the worker
        self._session: MontySession | None = session
        self._pid = session.worker_pid  # Monty doesn't say it while the worker computes
        self._script = script
        self._args = args
        self._limits = limits
        self._nonce = nonce
        self._claims = Claims(script, limits, nonce)
        self._snapshot: _Snapshot | None = None
        self._held: int | None = None
        self._away: Away[_Snapshot] | None = None
        self.seconds = 0.0
        self._numbers: dict[int, int] = {}

    def advance(self, answer: Answer | None, ahead: Sequence[Known] = ()) -> Turn:
        """Run to quiescence; see `ports.Session`."""
        return self._turn(lambda session: self._go(session, () if answer is None else (answer,), ahead))

    def advance_all(self, answers: Sequence[Answer], ahead: Sequence[Known] = ()) -> Turn:
        """Hand a batch of outcomes over; see `ports.BatchSession`."""
        if not answers:
            raise UsageError("The script waits for an answer.", hint="Hand one over.")
        return self._turn(lambda session: self._go(session, answers, ahead))

    def send(self, answer: Answer, ahead: Sequence[Known] = ()) -> None:
        """Hand one outcome over, and let the script compute; see `ports.EarlySession`."""
        if self._session is None or self._snapshot is None or self._away is not None:
            raise UsageError("The script doesn't wait for an answer.", hint="Hand one over when it does.")
        try:
            self._away = self._sandbox.away(self._reply(self._snapshot, (answer,), ahead))
        except UsageError:
            raise
        except BaseException:
            self.close()
            raise

    def receive(self) -> Turn:
        """Return what the script did since `send`; see `ports.EarlySession`."""
        away = self._away
        if away is None:
            raise UsageError("The script doesn't compute.", hint="Send an answer.")
        self._land()
        return self._turn(lambda _: away.result())

    def _land(self) -> None:
        """Wait for a script that computes by itself."""
        if self._away is not None:
            self._away.wait()
            self.seconds = self._away.seconds
            self._away = None

    def _turn(self, play: Callable[[MontySession], _Snapshot]) -> Turn:
        """Return what the script did in a turn; `play` runs it until it says something."""
        if self._session is None:
            raise UsageError("This session is over.", hint="Open a new one.")
        if self._away is not None:
            raise UsageError("The script computes.", hint="Receive what it does first.")
        try:
            end = self._advance(self._session, play)
            turn = Turn(self._claims.drain(), end)
            if end is None and not self._claims.waiting:
                refuse("the script waits for nothing")
            if end is not None:
                self.close()
        except UsageError:
            raise
        except BaseException:
            self.close()
            raise
        return turn

    @property
    def pid(self) -> int | None:
        """The process to look at, for checks from outside; None when the session is over."""
        return None if self._session is None else self._pid

    def close(self) -> None:
        """Give the worker back; a script that waits in it never runs again. One that computes is waited for: no longer
        than its turn may last."""
        self._land()
        session, self._session, self._snapshot = self._session, None, None
        if session is not None:
            self._sandbox.give_back(session)

    def _advance(self, session: MontySession, play: Callable[[MontySession], _Snapshot]) -> End | None:
        try:
            return self._run(play(session))
        except MontyCrashedError as error:
            self._crashed(error)
        except (MontyRuntimeError, MontySyntaxError) as error:
            return self._raised(error)
        except MontyError as error:
            raise SandboxCrashed(f"The sandbox failed: {error}.", hint="Run it again.") from None

    def _go(self, session: MontySession, answers: Sequence[Answer], ahead: Sequence[Known]) -> _Snapshot:
        if self._snapshot is None:
            if answers:
                raise UsageError("The script has not started.", hint="Start it without an answer.")
            return self._begin(session, ahead)
        if not answers:
            raise UsageError("The script waits for an answer.", hint="Hand one over.")
        return self._reply(self._snapshot, answers, ahead)()

    def _begin(self, session: MontySession, ahead: Sequence[Known]) -> _Snapshot:
        if not self._ready:
            session.feed_run(prelude("monty"), print_callback=_drop)
        self._snapshot = session.feed_start(self._script.annotated, print_callback=_drop)
        while not isinstance(self._snapshot, MontyComplete):
            # The top level holds only constants and functions: whatever it asks for isn't there.
            self._snapshot = self._nothing(self._snapshot)
        return session.feed_start(
            "await _wf_main(orchestrate, _wf_args, _wf_ahead)",
            inputs={
                "_wf_nonce": self._nonce,
                "_wf_args": dumps(self._args),
                "_wf_ahead": self._claims.table(ahead),
            },
            print_callback=_drop,
        )

    def _reply(self, snapshot: _Snapshot, answers: Sequence[Answer], ahead: Sequence[Known]) -> Callable[[], _Snapshot]:
        """Settle calls, and return what lets the script go on with their answers."""
        told = self._claims.answers(answers, ahead)
        if self._held is not None and isinstance(snapshot, FunctionSnapshot):
            held, self._held = self._held, None
            if held != answers[0].call or len(answers) > 1:
                refuse("two strands wait where one can")
            return partial(snapshot.resume, {"return_value": told[0]})
        if not isinstance(snapshot, FutureSnapshot):
            refuse("it is out of order")
        return partial(
            snapshot.resume,
            {
                self._numbers.pop(answer.call): {"return_value": each}
                for answer, each in zip(answers, told, strict=True)
            },
        )

    def _run(self, snapshot: _Snapshot) -> End | None:
        """Run on until every strand waits. Returns the end if it came."""
        while True:
            if isinstance(snapshot, FunctionSnapshot) and snapshot.function_name == "_wf_host":
                number, alone = self._claims.hear(snapshot.args)
                if number is None:
                    snapshot = snapshot.resume({"return_value": None})
                elif alone:
                    # Nothing else can run, so the answer can be this function's value: one turn less.
                    self._held, self._snapshot = number, snapshot
                    return None
                else:
                    self._numbers[number] = snapshot.call_id
                    snapshot = snapshot.resume({"future": ...})
            elif isinstance(snapshot, FutureSnapshot):
                self._snapshot = snapshot
                return None
            elif isinstance(snapshot, MontyComplete):
                return self._claims.returned(snapshot.output)
            else:
                snapshot = self._nothing(snapshot)

    def _nothing(self, snapshot: _Snapshot) -> _Snapshot:
        if isinstance(snapshot, NameLookupSnapshot):
            if snapshot.variable_name == "_wf_host" and snapshot.object_id is None:
                return snapshot.resume(value=_wf_host)
            return snapshot.resume()
        if isinstance(snapshot, FunctionSnapshot):
            if snapshot.is_os_function:
                return snapshot.resume_not_handled()
            return snapshot.resume(
                {"exc_type": "NameError", "message": f"name '{snapshot.function_name}' is not defined"}
            )
        refuse("it is out of order")

    def _raised(self, error: MontyRuntimeError | MontySyntaxError) -> End:
        shown, message = error.display("type-msg"), error.display("msg")
        kind = shown.removesuffix(message).removesuffix(": ")
        if not self._claims.ended:
            # An exception of the script passes the `finally` of _wf_main, one of the limits doesn't.
            self._limit(kind, message)
        lines = [
            (frame.line, frame.function_name or "<module>") for frame in error.traceback() if frame.filename == SCRIPT
        ]
        if kind == "_csv.Error":
            try:
                failure = json.loads(message)
            except ValueError:
                failure = None
            if isinstance(failure, list):
                return self._claims.raised(kind, message, lines, failure)
        return self._claims.raised(kind.rpartition(".")[2], message, lines)

    def _limit(self, kind: str, message: str) -> None:
        if kind == "MemoryError":
            over("memory", f"The script used more than {self._limits.memory:,} bytes of memory.")
        if kind == "TimeoutError" and message.startswith("turn"):
            over("turn_seconds", f"The script computed for more than {self._limits.turn_seconds:g} seconds at once.")
        if kind == "TimeoutError":
            over("total_seconds", f"The script computed for more than {self._limits.total_seconds:g} seconds.")
        if kind == "RuntimeError" and message.startswith("suspension limit"):
            over("calls", f"The script made more than {self._limits.calls:,} calls, fan-outs and log lines.")

    def _crashed(self, error: MontyCrashedError) -> NoReturn:
        if error.timed_out:
            raise LimitExceeded(
                f"The script computed for more than {self._limits.turn_seconds:g} seconds at once; its worker is gone.",
                hint="Make the script smaller, or raise the limit.",
                limit="turn_seconds",
            )
        raise SandboxCrashed("The sandbox's worker died.", hint="Run it again; the run goes on where it was.")


def _limits(limits: Limits) -> ResourceLimits:
    return {
        "max_turn_duration_secs": limits.turn_seconds,
        "max_feed_duration_secs": limits.total_seconds,
        "max_memory": limits.memory,
        "max_recursion_depth": 1000,
        # A call costs up to two (its announcement and its answer), a name look-up and a log line one.
        "max_suspensions": 4 * limits.calls + 100,
        "max_total_sleep_secs": 0.0,
    }


def _drop(stream: str, text: str) -> None:
    """Take what `print` writes; a script shows progress by ctx.log."""


_SANDBOXES: Final[weakref.WeakValueDictionary[int, EmbeddedSandbox]] = weakref.WeakValueDictionary()
"""Those of this process."""


def _in_child() -> None:
    for reference in _SANDBOXES.valuerefs():
        sandbox = reference()
        if sandbox is not None:
            sandbox._forked()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_in_child)
