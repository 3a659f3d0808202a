"""CPython in bubblewrap: no network, no writable place, nothing of the host but the interpreter, no other process."""

from __future__ import annotations

import os
import sys
import sysconfig
import threading
from functools import lru_cache
from pathlib import Path
from typing import Literal

from addendum.canon import Json
from addendum.errors import SandboxMissing
from addendum.ports import Limits, Script
from addendum.sandbox import seccomp
from addendum.sandbox.confine import BASE, MISSING, binds, bubblewrap, libraries, memory_file
from addendum.sandbox.keeper import OneProcess
from addendum.sandbox.process import PYTHON, Launch, ProcessSession, Workers, worker


class BwrapSandbox:
    """CPython, one process a script, `spares` of them started ahead."""

    name = "bwrap"
    interpreter: Literal["monty", "cpython"] = "cpython"

    def __init__(self, *, spares: int = 1) -> None:
        self._spares = spares
        self._workers: Workers | None = None
        self._lock = threading.Lock()
        self._process = OneProcess()

    def describe(self) -> str:
        """Return one line for a person: what confines the script."""
        return f"CPython {sys.version.split()[0]} under bubblewrap, with a seccomp filter"

    def open(self, script: Script, args: Json, *, limits: Limits, nonce: str) -> ProcessSession:
        """Take a worker. Raises `SandboxMissing` without a working bubblewrap or a seccomp filter."""
        return ProcessSession(self._start(), script, args, limits, nonce)

    def close(self) -> None:
        """End the workers that wait. In a fork's child there are none to end."""
        if self._process.elsewhere:
            return
        with self._lock:
            workers, self._workers = self._workers, None
        if workers is not None:
            workers.close()

    def _start(self) -> Workers:
        self._process.use()
        with self._lock:
            if self._workers is None:
                path, why = bubblewrap()
                if path is None:
                    raise SandboxMissing(f"The backend `bwrap` can't confine a script: {why}.", hint=MISSING)
                program = seccomp.program()
                if program is None:
                    raise SandboxMissing(
                        f"The backend `bwrap` has no seccomp filter for this machine ({os.uname().machine}).",
                        hint="Choose another backend.",
                    )
                self._workers = Workers(self.name, lambda: _launch(path, program), self._spares)
            return self._workers


def _launch(path: str, program: bytes) -> Launch:
    descriptor, _ = memory_file("addendum-seccomp", program)
    return Launch(
        (path, *BASE, "--seccomp", str(descriptor), *_interpreter(), "/python/bin/python3", *PYTHON, *worker()),
        descriptors=(descriptor,),
        processes=16,
    )


@lru_cache(maxsize=1)
def _interpreter() -> tuple[str, ...]:
    """Return the options that show this interpreter, its standard library and what they load, and nothing else.

    Paths of the host don't show, but for those of shared libraries."""
    binary = os.path.realpath(getattr(sys, "_base_executable", None) or sys.executable)
    library = Path(sysconfig.get_path("stdlib", vars={"base": sys.base_prefix, "installed_base": sys.base_prefix}))
    inside = f"/python/{library.parent.name}/{library.name}"
    needed = dict.fromkeys(libraries(binary))
    for module in sorted((library / "lib-dynload").glob("*.so")):
        if module.name.partition(".")[0] in ("math", "resource", "_json", "select", "_struct"):
            needed.update(dict.fromkeys(libraries(str(module))))
    options = [*binds(list(needed)), "--ro-bind", binary, "/python/bin/python3", "--ro-bind", str(library), inside]
    for hidden in ("site-packages", "dist-packages", "test"):
        if (library / hidden).is_dir():
            options += ["--tmpfs", f"{inside}/{hidden}", "--remount-ro", f"{inside}/{hidden}"]
    return (*options, "--setenv", "PYTHONHASHSEED", "0", "--remount-ro", "/")
