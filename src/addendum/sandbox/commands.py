"""Any program in bubblewrap: the system's own programs and libraries, what it is shown, and nothing else.

Started as root, bubblewrap is run by a real unprivileged user: a user namespace alone would leave root's limits on
processes without effect. Started with an empty environment, since the first process's is readable inside.
"""

from __future__ import annotations

import os
import signal
import subprocess
import threading
import time
from collections.abc import Mapping
from functools import lru_cache
from pathlib import Path
from typing import IO, Final

from addendum import canon
from addendum.canon import Json
from addendum.errors import SandboxMissing
from addendum.ports import Command, Ran
from addendum.sandbox.confine import BASE, MISSING, bubblewrap

NOBODY: Final = 65534
OPTIONS: Final = (*BASE[: BASE.index("--chdir")], "--disable-userns")
SYSTEM: Final = ("/usr", "/bin", "/sbin", "/lib", "/lib32", "/lib64", "/libx32")
SETTINGS: Final = ("/etc/ld.so.cache", "/etc/ld.so.conf", "/etc/ld.so.conf.d", "/etc/alternatives", "/etc/mime.types")
# dash has no `-u` and calls it `-p`, which is another thing in bash and fails there.
LIMIT: Final = (
    'ulimit -c 0; ulimit -n 512; ulimit -v "$1"; ulimit -f "$2"; ulimit -t "$3"; '
    '(ulimit -p "$4") 2>/dev/null && ulimit -p "$4" || ulimit -u "$4"; shift 4; exec "$@"'
)
GRACE: Final = 10.0
TICK: Final = 0.25


class BwrapConfinement:
    """The `Confinement` port under bubblewrap."""

    def __init__(self) -> None:
        self.owner: int | None = NOBODY if os.geteuid() == 0 else None

    def profile(self) -> Mapping[str, Json]:
        """Return the program, by its bytes, and how it is used."""
        path = _bubblewrap()
        return {
            "name": "bwrap",
            "path": path,
            "sha256": _file_digest(path, os.stat(path).st_mtime_ns),
            "options": list(OPTIONS),
            "system": [place for place in SYSTEM if os.path.lexists(place)],
            "settings": list(SETTINGS),
            "limits": LIMIT,
            "real_user": self.owner is not None,
            "environment": {place: _file_digest(place, os.stat(place).st_mtime_ns) for place in _identity()},
        }

    def run(self, command: Command) -> Ran:
        """Run it; see `ports.Confinement`."""
        path = _bubblewrap()
        started = time.monotonic()
        user = {} if self.owner is None else {"user": self.owner, "group": self.owner, "extra_groups": []}
        status = os.memfd_create("addendum-status", os.MFD_CLOEXEC)
        variables = _variables(command)
        try:
            process = subprocess.Popen(
                [
                    *(path, *OPTIONS, "--json-status-fd", str(status), *_view(command)),
                    *("--args", str(variables), *_limited(command)),
                ],
                env={},
                cwd="/",
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=subprocess.PIPE,
                start_new_session=True,
                pass_fds=(status, variables),
                **user,  # type: ignore[call-overload]
            )
            try:
                over, timed_out = _wait(process, command, pipes := _Pipes(process, command), started)
            except BaseException:
                _kill(process)  # whoever interrupts doesn't want it to go on
                raise
            os.lseek(status, 0, os.SEEK_SET)
            began = b'"exit-code"' in os.read(status, 65536)  # its own word, which nothing inside can write
        finally:
            os.close(status)
            os.close(variables)
        code = process.returncode
        stdout, stderr = pipes.stdout, pipes.stderr
        if not began and not over and not timed_out:
            said = stderr.decode("utf-8", "replace").strip()[:300]
            raise SandboxMissing(f"bubblewrap can't confine a program here: {said}.", hint=MISSING)
        if not over and timed_out:
            over = f"It ran for more than {command.seconds:g} seconds."
        return Ran(
            # bubblewrap tells a signal as a shell does
            code=code if code <= 128 or code > 192 else 128 - code,
            stdout=stdout,
            stderr=stderr,
            seconds=time.monotonic() - started,
            over=over,
            timed_out=timed_out,
        )


def _wait(process: subprocess.Popen[bytes], command: Command, pipes: _Pipes, started: float) -> tuple[str, bool]:
    """Wait for the end, or bring it about; return why, and whether it took too long."""
    over, timed_out = "", False
    deadline = started + command.seconds
    while not over and not timed_out:
        try:
            process.wait(min(TICK, max(0.01, deadline - time.monotonic())))
            break
        except subprocess.TimeoutExpired:
            over = command.watch() if command.watch is not None else ""
            timed_out = time.monotonic() >= deadline
    if over or timed_out:
        _kill(process)
    pipes.join()
    return over, timed_out


class _Pipes:
    """Feeds a process and reads what it says, keeping no more than the limit, whatever it writes."""

    def __init__(self, process: subprocess.Popen[bytes], command: Command) -> None:
        assert process.stdin is not None
        assert process.stdout is not None
        assert process.stderr is not None
        self._limit = command.output
        self._kept = {"stdout": bytearray(), "stderr": bytearray()}
        self._open: tuple[IO[bytes], ...] = (process.stdin, process.stdout, process.stderr)
        self._threads = [
            threading.Thread(target=self._feed, args=(process.stdin, command.stdin), daemon=True),
            threading.Thread(target=self._read, args=(process.stdout, "stdout"), daemon=True),
            threading.Thread(target=self._read, args=(process.stderr, "stderr"), daemon=True),
        ]
        for thread in self._threads:
            thread.start()

    @property
    def stdout(self) -> bytes:
        return bytes(self._kept["stdout"])

    @property
    def stderr(self) -> bytes:
        return bytes(self._kept["stderr"])

    def join(self) -> None:
        """Wait for the ends of the pipes: whoever held them is gone."""
        for thread in self._threads:
            thread.join(GRACE)
        for pipe in self._open:
            try:
                pipe.close()
            except OSError:
                continue  # nobody read the rest of what was fed

    def _feed(self, pipe: IO[bytes], data: bytes) -> None:
        try:
            pipe.write(data)
            pipe.close()
        except OSError:
            return

    def _read(self, pipe: IO[bytes], name: str) -> None:
        kept = self._kept[name]
        while piece := os.read(pipe.fileno(), 65536):
            kept += piece[: max(0, self._limit - len(kept))]


def _kill(process: subprocess.Popen[bytes]) -> None:
    try:
        os.killpg(process.pid, signal.SIGKILL)
    except ProcessLookupError:
        pass  # it ended meanwhile
    process.wait()


def _view(command: Command) -> list[str]:
    """Return the options for what is seen inside. Later ones cover earlier ones."""
    options: list[str] = []
    for place in SYSTEM:
        if os.path.islink(place):
            options += ["--symlink", os.readlink(place), place]
        elif os.path.isdir(place):
            options += ["--ro-bind", place, place]
    for place in SETTINGS:
        options += ["--ro-bind-try", place, place]
    options += ["--proc", "/proc", "--dev", "/dev", "--size", str(command.scratch_bytes), "--tmpfs", "/dev/shm"]
    options += ["--size", str(command.scratch_bytes), "--tmpfs", "/tmp"]
    for here, inside in command.shown:
        options += ["--ro-bind", here, inside]
    for here, inside in command.writable:
        options += ["--bind", here, inside]
    for here, inside in command.covered:
        options += ["--ro-bind", here, inside]
    options += ["--remount-ro", "/dev", "--remount-ro", "/", "--chdir", command.folder]
    return options


def _variables(command: Command) -> int:
    """Return a file in memory with the options for the environment: a command line is for everybody to read."""
    descriptor = os.memfd_create("addendum-variables", os.MFD_CLOEXEC)
    for name, value in command.environment:
        os.write(descriptor, b"".join(os.fsencode(part) + b"\0" for part in ("--setenv", name, value)))
    os.lseek(descriptor, 0, os.SEEK_SET)
    return descriptor


def _limited(command: Command) -> list[str]:
    numbers = (command.memory // 1024, command.file_bytes // 512, int(command.seconds) + 1, command.processes)
    return ["/bin/sh", "-c", LIMIT, "sh", *(str(number) for number in numbers), *command.argv]


def _bubblewrap() -> str:
    path, why = bubblewrap()
    if path is None:
        raise SandboxMissing(f"A command can't be confined: {why}.", hint=MISSING)
    return path


def _identity() -> list[str]:
    """Return the files that say which system this is, and which packages it has: what a program loads is theirs."""
    return [
        place for place in ("/etc/os-release", "/var/lib/dpkg/status", "/lib/apk/db/installed") if os.path.isfile(place)
    ]


@lru_cache(maxsize=8)
def _file_digest(path: str, modified: int) -> str:
    return canon.sha256(Path(path).read_bytes())
