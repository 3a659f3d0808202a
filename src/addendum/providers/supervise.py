"""Running one program to its end, with nothing of it left over: its whole process group and whatever left the group.

For a process that does nothing else. On Linux it becomes the parent of every orphan below it (PR_SET_CHILD_SUBREAPER),
so that a program that daemonises is found, and the program dies with it (PR_SET_PDEATHSIG).
"""

from __future__ import annotations

import ctypes
import os
import resource
import shutil
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import IO, Any, Final

_PDEATHSIG: Final = 1
_SUBREAPER: Final = 36
PATHS: Final = "/usr/local/bin:/usr/bin:/bin"
TICK: Final = 0.2
GRACE: Final = 10.0
"""Seconds for what was killed to be gone."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Ended:
    """How a program ended: its exit code or minus the signal, the last bytes of what it said, whether there was more
    of it, and whether it was ended from outside: it took too long, or somebody wanted it to."""

    code: int
    stdout: bytes
    stderr: bytes
    cut: bool = False
    timed_out: bool = False
    stopped: bool = False


class NotStarted(Exception):
    """A program couldn't be started: nothing was done."""


def run(
    argv: Sequence[str],
    *,
    folder: Path,
    environment: Mapping[str, str],
    given: bytes,
    seconds: float,
    output: int,
    stop: Callable[[], bool],
    inherited: Sequence[int] = (),
) -> Ended:
    """Run a program. `output` are the bytes that are kept of each stream; `stop` is asked while it runs; it has the
    descriptors `inherited`. Raises `NotStarted`."""
    found = _found(argv[0], folder, environment.get("PATH", PATHS))
    prepare = _prepared()
    try:
        process = subprocess.Popen(
            [found, *argv[1:]],
            cwd=folder,
            env=dict(environment),
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            start_new_session=True,
            pass_fds=inherited,
            preexec_fn=prepare,  # this process has no other thread yet
        )
    except (OSError, ValueError, subprocess.SubprocessError) as error:
        raise NotStarted(f"{argv[0]} can't be started: {getattr(error, 'strerror', None) or error}") from None
    timed_out = stopped = False
    try:
        streams = _Streams(process, given, output)
        until = time.monotonic() + seconds
        while not timed_out and not stopped:
            try:
                process.wait(min(TICK, max(0.01, until - time.monotonic())))
                break
            except subprocess.TimeoutExpired:
                timed_out, stopped = time.monotonic() >= until, stop()
    finally:
        _end(process)
    streams.join()
    return Ended(
        code=process.returncode,
        stdout=bytes(streams.kept[0]),
        stderr=bytes(streams.kept[1]),
        cut=streams.cut,
        timed_out=timed_out,
        stopped=stopped,
    )


def _found(name: str, folder: Path, paths: str) -> str:
    path = str(folder / name) if "/" in name else shutil.which(name, path=paths)
    if path is None or not os.access(path, os.X_OK):
        raise NotStarted(f"there is no program {name}")
    return path


def _prepared() -> Any:
    """Return what a new process does before it becomes the program; look everything up before there is a second one."""
    libc = ctypes.CDLL(None, use_errno=True) if sys.platform.startswith("linux") else None
    if libc is not None:
        libc.prctl(_SUBREAPER, 1, 0, 0, 0)
    parent = os.getpid()

    def prepare() -> None:
        resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
        if libc is not None:
            libc.prctl(_PDEATHSIG, signal.SIGKILL, 0, 0, 0)
            if os.getppid() != parent:
                os._exit(127)

    return prepare


def _end(process: subprocess.Popen[bytes]) -> None:
    """Kill the program's group, and every process that it left to us, until there is none."""
    try:
        os.killpg(process.pid, signal.SIGKILL)
    except (ProcessLookupError, PermissionError):
        pass  # nobody of the group is left
    process.wait()
    until = time.monotonic() + GRACE
    while time.monotonic() < until:
        left = _children()
        if not left:
            return
        for pid in left:
            try:
                os.kill(pid, signal.SIGKILL)
                os.waitpid(pid, 0)
            except (ProcessLookupError, ChildProcessError, PermissionError):
                continue


def _children() -> list[int]:
    """Return the processes whose parent is this one, as far as the system tells."""
    found: list[int] = []
    own = os.getpid()
    try:
        names = [name for name in os.listdir("/proc") if name.isdigit()]
    except OSError:
        return found
    for name in names:
        try:
            stat = Path(f"/proc/{name}/stat").read_text("utf-8", "replace")
        except OSError:
            continue
        if int(stat.rpartition(")")[2].split()[1]) == own:
            found.append(int(name))
    return found


class _Streams:
    """Feeds a program and reads what it says, keeping the end of it."""

    def __init__(self, process: subprocess.Popen[bytes], given: bytes, most: int) -> None:
        assert process.stdin is not None
        assert process.stdout is not None
        assert process.stderr is not None
        self.kept = (bytearray(), bytearray())
        self.cut = False
        self._most = most
        self._pipes: tuple[IO[bytes], ...] = (process.stdin, process.stdout, process.stderr)
        self._threads = [
            threading.Thread(target=self._feed, args=(process.stdin, given), daemon=True),
            threading.Thread(target=self._read, args=(process.stdout, self.kept[0]), daemon=True),
            threading.Thread(target=self._read, args=(process.stderr, self.kept[1]), daemon=True),
        ]
        for thread in self._threads:
            thread.start()

    def join(self) -> None:
        """Wait for the ends of the pipes: whoever held them is gone."""
        for thread in self._threads:
            thread.join(GRACE)
        for pipe in self._pipes:
            try:
                pipe.close()
            except OSError:
                continue  # nobody read the rest of what was fed

    def _feed(self, pipe: IO[bytes], data: bytes) -> None:
        try:
            pipe.write(data)
            pipe.close()
        except (OSError, ValueError):
            return

    def _read(self, pipe: IO[bytes], kept: bytearray) -> None:
        while piece := os.read(pipe.fileno(), 65536):
            kept += piece
            if len(kept) > self._most:
                self.cut = True
                del kept[: len(kept) - self._most]
