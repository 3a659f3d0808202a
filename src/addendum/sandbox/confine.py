"""Bubblewrap: what of it is there, its command line, and Monty's launcher.

Nothing is left behind on disk, not even when the host is killed: a generated file lives in memory (memfd) and is
named through the host's /proc entry.
"""

from __future__ import annotations

import os
import shlex
import shutil
import subprocess
import sys
import sysconfig
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from functools import lru_cache
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Final

from addendum.errors import SandboxCrashed, SandboxMissing
from addendum.sandbox import seccomp

BASE: Final = (
    "--unshare-all",
    "--unshare-user",
    "--uid",
    "65534",
    "--gid",
    "65534",
    "--hostname",
    "sandbox",
    "--die-with-parent",
    "--new-session",
    "--clearenv",
    "--cap-drop",
    "ALL",
    "--chdir",
    "/",
)
"""What every sandbox under bubblewrap gets. It is started with an empty environment too: `--clearenv` alone leaves the
host's one readable in /proc/1/environ."""
PROBE_SECONDS: Final = 20.0
KILLED: Final = 128
"""What an exit code is above, or below zero, where a signal ended the program, or the one that it started."""
MISSING: Final = "Install bubblewrap (Debian: `apt install bubblewrap`), or choose another backend."


@lru_cache(maxsize=1)
def bubblewrap() -> tuple[str | None, str]:
    """Return the path of a bubblewrap that works here, or None and why not. Asked once per process.

    One that is killed, or doesn't end in time, says neither: a script would run without it where there is one. Raises
    `SandboxCrashed` if that happens again."""
    path = shutil.which("bwrap", path="/usr/local/bin:/usr/bin:/bin")
    if path is None or not sys.platform.startswith("linux"):
        return None, "bubblewrap isn't installed"
    for _ in range(2):
        try:
            ran = _probe(path)
        except subprocess.TimeoutExpired:
            continue
        except OSError as error:
            return None, f"bubblewrap doesn't start ({error})"
        if ran.returncode == 0:
            return path, ""
        if 0 < ran.returncode < KILLED:
            said = ran.stderr.decode("utf-8", "replace").strip()[:200]
            return None, f"bubblewrap can't make a namespace here ({said})"
    raise SandboxCrashed(
        "Bubblewrap was asked whether it can confine a script here, and was killed or gave no answer.",
        hint="Run it again; the machine may have been out of memory, or very busy.",
    )


def _probe(path: str) -> subprocess.CompletedProcess[bytes]:
    true = shutil.which("true", path="/usr/bin:/bin") or "/bin/true"
    return subprocess.run(
        [path, *BASE, *binds(libraries(true)), "--ro-bind", os.path.realpath(true), "/probe", "/probe"],
        env={},
        stdin=subprocess.DEVNULL,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.PIPE,
        timeout=PROBE_SECONDS,
        check=False,
        start_new_session=True,  # ^C in a terminal goes to every process there: it says nothing of bubblewrap
    )


@lru_cache(maxsize=64)
def libraries(binary: str, loader: str | None = None) -> tuple[str, ...]:
    """Return the shared libraries that a binary needs, its loader among them; none for a static one.

    A library names no loader itself: `loader` is that of the program which loads it."""
    loader = loader or find_loader(Path(binary))
    if loader is None:
        return ()
    ran = subprocess.run(
        [loader, "--list", binary],
        env={},
        capture_output=True,
        text=True,
        timeout=PROBE_SECONDS,
        check=False,
        start_new_session=True,  # as above
    )
    found = [loader]
    for line in ran.stdout.splitlines():
        _, arrow, rest = line.partition(" => ")
        path = rest.split(" (")[0].strip()
        if arrow and path.startswith("/"):
            found.append(path)
    return tuple(dict.fromkeys(found))


def find_loader(binary: Path) -> str | None:
    """Return the loader that an ELF binary names (its PT_INTERP), None if it names none."""
    with binary.open("rb") as file:
        data = file.read(4096)
    if data[:4] != b"\x7fELF" or data[4] != 2:
        return None
    start = int.from_bytes(data[32:40], "little")
    size = int.from_bytes(data[54:56], "little")
    count = int.from_bytes(data[56:58], "little")
    for n in range(count):
        header = data[start + n * size : start + (n + 1) * size]
        if int.from_bytes(header[:4], "little") == 3:
            offset = int.from_bytes(header[8:16], "little")
            return data[offset:].split(b"\0", 1)[0].decode("ascii")
    return None


def binds(paths: Sequence[str]) -> list[str]:
    """Return the options that show files or directories, read-only, at their own places."""
    options: list[str] = []
    for path in dict.fromkeys(paths):
        options += ["--ro-bind", os.path.realpath(path), path]
    return options


def memory_file(name: str, content: bytes) -> tuple[int, str]:
    """Return a file in memory as descriptor and path. The path is good for as long as the descriptor is open."""
    descriptor = os.memfd_create(name, os.MFD_CLOEXEC)
    with os.fdopen(os.dup(descriptor), "wb") as file:
        file.write(content)
    os.fchmod(descriptor, 0o500)
    os.lseek(descriptor, 0, os.SEEK_SET)
    return descriptor, f"/proc/{os.getpid()}/fd/{descriptor}"


@dataclass(frozen=True, slots=True)
class MontyLauncher:
    """What Monty's pool starts as its worker."""

    path: str
    confined: bool
    why: str
    version: str
    descriptors: tuple[int, ...] = field(default=())

    @classmethod
    def find(cls, *, require_confined: bool, look: Callable[[], tuple[str | None, str]] = bubblewrap) -> MontyLauncher:
        """Find Monty's binary and what can confine it (`look` says). Raises `SandboxMissing`."""
        binary = monty_binary()
        try:
            release = version("pydantic-monty")
        except PackageNotFoundError:
            release = "unknown"
        bwrap, why = look()
        if bwrap is None:
            if require_confined:
                raise SandboxMissing(f"Monty's worker can't be confined: {why}.", hint=MISSING)
            return cls(binary, False, why, release)
        program = seccomp.program()
        files: list[int] = []
        load = ""
        if program is not None:
            descriptor, path = memory_file("addendum-seccomp", program)
            files.append(descriptor)
            load = f" 9<{path}"
        command = [
            bwrap,
            *BASE,
            *(("--seccomp", "9") if program is not None else ()),
            *binds(libraries(binary)),
            *("--ro-bind", binary, "/monty", "--remount-ro", "/", "/monty"),
        ]
        script = (
            f"{shebang()}\ntrap '' INT\n"  # ^C in a terminal goes to every process there: it is the host's to handle
            "exec 2>/dev/null\n"  # before it looks for anything of the host's, which may be gone
            f'ulimit -c 0\nulimit -n 64\nexec /usr/bin/env -i {shlex.join(command)} "$@"{load}\n'
        )
        descriptor, path = memory_file("addendum-monty", script.encode())
        return cls(path, True, "", release, (*files, descriptor))

    def close(self) -> None:
        """Let go of the launcher's files."""
        for descriptor in self.descriptors:
            os.close(descriptor)


def shebang() -> str:
    """Return a launcher's first line. The shell reads the launcher by its name, which is gone if the host is killed
    just then: it gets something to do before, so that it can't say so on the host's terminal. That takes an `env`
    that splits its words (coreutils 8.30); with another one, the shell begins with the launcher."""
    env = os.path.realpath("/usr/bin/env")
    if os.path.basename(env) not in ("env", "coreutils"):
        return "#!/bin/sh"
    return "#!/usr/bin/env -S /bin/sh -c 'exec 2>/dev/null; . \"$0\"'"


def monty_binary() -> str:
    """Return the path of the `monty` program that comes with pydantic-monty-runtime. Raises `SandboxMissing`.

    `PATH` and `MONTY_BIN` are not looked at: what runs the scripts is what was installed."""
    for scheme in dict.fromkeys((sysconfig.get_default_scheme(), sysconfig.get_preferred_scheme("user"))):
        path = Path(sysconfig.get_path("scripts", scheme)) / "monty"
        if path.is_file():
            return str(path)
    raise SandboxMissing("Monty's program is missing.", hint="Install it: `pip install pydantic-monty-runtime`.")
