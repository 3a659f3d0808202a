"""Scripts in CPython, one worker process each: what all such backends share. Which process it is, and what confines
it, is the backend's `Launch`.
"""

from __future__ import annotations

import os
import signal
import subprocess
import threading
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Final

from addendum.canon import Json, dumps
from addendum.errors import SandboxCrashed, UsageError
from addendum.ports import Answer, End, Known, Limits, Script, Turn
from addendum.sandbox.claims import Claims, over
from addendum.sandbox.keeper import Keeper
from addendum.sandbox.paths import refuse
from addendum.sandbox.prelude import guest, prelude
from addendum.sandbox.wire import Late, Wire

PYTHON: Final = ("-s", "-P", "-S", "-B", "-W", "ignore", "-c")
"""How the interpreter is started, before the worker's text. Not `-I`: that would ignore PYTHONHASHSEED, and the order
of a set would differ from run to run."""


START_SECONDS: Final = 30.0
"""How long a worker may take to take its script, on a slow machine."""
EOF_SECONDS: Final = 0.25
"""How long a worker gets to end by itself."""
WALL_FACTOR: Final = 2.0
"""Wall time that a turn may take, as a multiple of its computing time: the machine has other work to do."""
LIMITS: Final = {
    "turn_seconds": "The script computed for more than {0.turn_seconds:g} seconds at once{1}.",
    "total_seconds": "The script computed for more than {0.total_seconds:g} seconds{1}.",
    "memory": "The script used more than {0.memory:,} bytes of memory{1}.",
    "message": "The script sent more than {0.message:,} characters at once{1}.",
}


def worker() -> tuple[str, str]:
    """Return the worker's text and its argument, which stand behind `PYTHON`."""
    return guest("worker"), prelude("cpython")


@dataclass(frozen=True, slots=True)
class Launch:
    """How a worker is started: its command, its whole environment, descriptors that it inherits, how many seconds it
    gets to end by itself (`patience`), and what to do after it had to be killed (`reap`), so that nothing of it is left
    behind. `look` finds the worker's process, where it is no descendant of the one that was started; `explain`
    raises `SandboxMissing` if it finds out why a worker died before it took its script."""

    command: tuple[str, ...]
    environment: tuple[tuple[str, str], ...] = ()
    descriptors: tuple[int, ...] = ()
    processes: int | None = None
    reap: Callable[[], None] | None = None
    patience: float = EOF_SECONDS
    look: Callable[[], int | None] | None = None
    explain: Callable[[], None] | None = None


class Worker:
    """A started process that waits for its script."""

    def __init__(self, launch: Launch) -> None:
        self.launch = launch
        self._starter = os.getpid()
        self.process = subprocess.Popen(
            launch.command,
            env=dict(launch.environment),
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            pass_fds=launch.descriptors,
            start_new_session=True,
            bufsize=0,
        )
        for descriptor in launch.descriptors:
            os.close(descriptor)

    def wire(self, largest: int) -> Wire:
        """Return the host's end of the worker's pipes."""
        assert self.process.stdin is not None
        assert self.process.stdout is not None
        return Wire(os.dup(self.process.stdout.fileno()), os.dup(self.process.stdin.fileno()), largest=largest)

    @property
    def pid(self) -> int | None:
        """The process that was started; the script's own may be a descendant of it. None if it can't be seen."""
        return self.process.pid if self.launch.look is None else self.launch.look()

    def end(self) -> None:
        """End the process and all that it started, and wait until it is gone. It is nothing to a fork's child."""
        if self._starter != os.getpid():
            return
        for pipe in (self.process.stdin, self.process.stdout):
            if pipe is not None:
                pipe.close()
        try:
            # A worker that waits ends by itself when its pipe is closed, and what it was started by reaps it.
            self.process.wait(self.launch.patience)
        except subprocess.TimeoutExpired:
            try:
                os.killpg(self.process.pid, signal.SIGKILL)
            except ProcessLookupError:
                pass  # it is gone meanwhile
            self.process.wait()
            if self.launch.reap is not None:
                self.launch.reap()


class Workers:
    """Starts workers, and keeps some started ahead: a script then needn't wait for the interpreter."""

    def __init__(self, name: str, launch: Callable[[], Launch], spares: int) -> None:
        self._launch = launch
        self._spares = spares
        self._keeper = Keeper(name)
        self._lock = threading.Lock()
        self._ready: list[Worker] = []
        self._closed = False

    def take(self) -> Worker:
        """Return a worker; the next ones are started when it has its script."""
        while True:
            with self._lock:
                worker = self._ready.pop(0) if self._ready else None
            if worker is None:
                return self._keeper.run(self._start)
            if worker.process.poll() is None:
                return worker
            worker.end()

    def refill(self) -> None:
        """Start what is missing, without waiting for it."""
        if self._spares:
            self._keeper.later(self._fill)

    def idle(self) -> bool:
        """Say whether all that are started ahead were started."""
        with self._lock:
            return len(self._ready) >= self._spares

    def close(self) -> None:
        """End the workers that wait."""
        with self._lock:
            self._closed = True
            ready, self._ready = self._ready, []
        for worker in ready:
            worker.end()
        self._keeper.close()

    def _start(self) -> Worker:
        try:
            return Worker(self._launch())
        except OSError as error:
            raise SandboxCrashed(f"The sandbox's worker doesn't start: {error}.", hint="Run it again.") from None

    def _fill(self) -> None:
        while not self._closed and len(self._ready) < self._spares:
            worker = self._start()
            with self._lock:
                if not self._closed:
                    self._ready.append(worker)
                    continue
            worker.end()


class ProcessSession:
    """One script in one worker."""

    def __init__(self, workers: Workers, script: Script, args: Json, limits: Limits, nonce: str) -> None:
        self._workers = workers  # its keeper's thread has to live for as long as the worker
        taken = workers.take()
        self._worker: Worker | None = taken
        self._wire = taken.wire(2 * limits.message + 65536)
        self._script = script
        self._args = args
        self._limits = limits
        self._nonce = nonce
        self._claims = Claims(script, limits, nonce)
        self._started = False

    def advance(self, answer: Answer | None, ahead: Sequence[Known] = ()) -> Turn:
        """Run to quiescence; see `ports.Session`."""
        return self._advance(() if answer is None else (answer,), ahead)

    def advance_all(self, answers: Sequence[Answer], ahead: Sequence[Known] = ()) -> Turn:
        """Hand a batch of outcomes over; see `ports.BatchSession`."""
        if not answers:
            raise UsageError("The script waits for an answer.", hint="Hand one over.")
        return self._advance(answers, ahead)

    def _advance(self, answers: Sequence[Answer], ahead: Sequence[Known]) -> Turn:
        if self._worker is None:
            raise UsageError("This session is over.", hint="Open a new one.")
        if bool(answers) != self._started:
            raise UsageError("A session starts without an answer and goes on with one.", hint="Hand one over.")
        message = self._hand(answers, ahead) if answers else self._begin(ahead)
        first = not self._started
        self._started = True
        try:
            end = self._turn(message)
            if first:
                self._workers.refill()  # not earlier: the next worker's start would make this script wait
            turn = Turn(self._claims.drain(), end)
            if end is None and not self._claims.waiting:
                refuse("the script waits for nothing")
        except BaseException:
            self.close()
            raise
        if end is not None:
            self.close()
        return turn

    @property
    def pid(self) -> int | None:
        """The process to look at, for checks from outside; None when the session is over."""
        return None if self._worker is None else self._worker.pid

    def close(self) -> None:
        """End the worker, wherever its script is."""
        worker, self._worker = self._worker, None
        if worker is not None:
            self._wire.close()
            worker.end()

    def __del__(self) -> None:
        if getattr(self, "_worker", None) is not None:
            self.close()  # the host forgot it: its descriptors would keep the worker waiting for ever

    def _begin(self, ahead: Sequence[Known]) -> dict[str, Json]:
        assert self._worker is not None
        limits = self._limits
        return {
            "start": {
                "nonce": self._nonce,
                "script": self._script.annotated,
                "args": dumps(self._args),
                "known": self._claims.table(ahead),
                "limits": {
                    "turn_seconds": limits.turn_seconds,
                    "total_seconds": limits.total_seconds,
                    "memory": limits.memory,
                    "message": limits.message,
                    "processes": self._worker.launch.processes,
                },
            }
        }

    def _hand(self, answers: Sequence[Answer], ahead: Sequence[Known]) -> dict[str, Json]:
        told = self._claims.answers(answers, ahead)
        return {"answers": [[answer.call, each] for answer, each in zip(answers, told, strict=True)]}

    def _turn(self, message: dict[str, Json]) -> End | None:
        try:
            if "start" in message:
                self._start(message)
            else:
                self._wire.send(message, START_SECONDS)
            return self._listen(time.monotonic() + WALL_FACTOR * self._limits.turn_seconds + 1.0)
        except Late:
            over("turn_seconds", LIMITS["turn_seconds"].format(self._limits, "; its worker was ended"))

    def _start(self, message: dict[str, Json]) -> None:
        try:
            self._wire.send(message, START_SECONDS)
            if self._wire.receive(time.monotonic() + START_SECONDS)[0] != "ready":
                refuse("it is out of order")
        except SandboxCrashed:
            if self._worker is not None and self._worker.launch.explain is not None:
                self._worker.launch.explain()
            raise

    def _listen(self, deadline: float) -> End | None:
        while True:
            kind, said, frame = self._wire.receive(deadline)
            if kind == "say":
                if not isinstance(said, list):
                    refuse("a message is malformed")
                self._claims.hear(said)
            elif kind == "wait":
                return None
            elif kind == "end":
                return self._end(said)
            elif kind == "ready":
                refuse("it is out of order")
            else:
                self._over(said, frame.get("line"))

    def _end(self, said: object) -> End:
        if isinstance(said, str) and self._claims.ended:
            return self._claims.returned(said)
        if not isinstance(said, list) or len(said) != 4:
            refuse("an end is malformed")
        kind, message, lines, failure = said
        if not isinstance(kind, str) or not isinstance(message, str) or not isinstance(lines, list):
            refuse("an end is malformed")
        frames: list[tuple[int, str]] = []
        for line in lines:
            if not isinstance(line, list) or len(line) != 2 or type(line[0]) is not int or type(line[1]) is not str:
                refuse("an end is malformed")
            frames.append((line[0], line[1]))
        return self._claims.raised(kind, message, frames, failure if isinstance(failure, list) else ())

    def _over(self, limit: object, line: object) -> None:
        if not isinstance(limit, str) or limit not in LIMITS:
            refuse("it is over an unknown limit")
        known = self._script.line_map
        place = f" (line {known[line - 1]})" if type(line) is int and 1 <= line <= len(known) else ""
        over(limit, LIMITS[limit].format(self._limits, place))
