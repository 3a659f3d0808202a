"""CPython in a container of Docker or Podman, by their commands: no network, read-only root, no capabilities.

A container is for one script. Its first process is guest/supervisor.py, which ends (and so everything in the container)
when standard input is closed: also when the host was killed, whatever the script does. The engine then removes the
container (`--rm`). A host that was killed before its container had started leaves one; the next start removes it.
"""

from __future__ import annotations

import json
import os
import secrets
import threading
from typing import Final, Literal

from addendum.canon import Json
from addendum.errors import ConfigError
from addendum.ports import Limits, Script
from addendum.sandbox import seccomp
from addendum.sandbox.allowlist import profile
from addendum.sandbox.engine import Engine, Image, Program
from addendum.sandbox.image import find
from addendum.sandbox.keeper import OneProcess
from addendum.sandbox.prelude import guest
from addendum.sandbox.process import PYTHON, Launch, ProcessSession, Workers, worker

CPU_SECONDS: Final = 3600
"""What the kernel lets a worker compute, even if the host is gone."""
PROCESSES: Final = 16
WORKSPACE: Final = 16 * 1024 * 1024
"""Bytes of /workspace, the only place that isn't read-only. It is in memory, and goes with the container."""
PROXIES: Final = ("HTTP_PROXY", "HTTPS_PROXY", "FTP_PROXY", "NO_PROXY", "ALL_PROXY")
"""Variables, in upper and lower case, that a client would set from its own settings, with credentials in them."""
ITS_OWN: Final[dict[str, tuple[str, ...]]] = {
    "docker": ("--dns", "127.0.0.1"),  # else it would show the host's name servers
    # Podman alone would copy the host's table of names and its proxies, and mount /tmp, /var/tmp and /run writable.
    "podman": ("--no-hosts", "--http-proxy=false", "--read-only-tmpfs=false"),
}
HEADROOM: Final = 256 * 1024 * 1024
FILES: Final[dict[str, str]] = {"docker": ",nr_inodes=1024", "podman": ""}
"""A limit on the number of files in /workspace; Podman has none, there the container's memory is the limit."""
PATIENCE: Final = 10.0
"""Seconds that a container gets to end by itself, on a busy machine."""


class ContainerSandbox:
    """CPython, one container a script, `spares` of them started ahead.

    `image` is a digest; the image that `addendum sandbox build` made if it is empty. `memory` is the most that a script
    may be given in bytes: its container gets `HEADROOM` on top, for the interpreter and /workspace."""

    interpreter: Literal["monty", "cpython"] = "cpython"

    def __init__(
        self,
        program: Program = "docker",
        *,
        image: str = "",
        memory: int = 512 * 1024 * 1024,
        spares: int = 1,
        path: str | None = None,
    ) -> None:
        self.name: str = program
        self._program: Program = program
        self._image = image
        self._memory = memory
        self._spares = spares
        self._path = path
        self._workers: Workers | None = None
        self._found: tuple[Engine, Image] | None = None
        self._lock = threading.Lock()
        self._process = OneProcess()

    def describe(self) -> str:
        """Return one line for a person: what confines the script."""
        _, image = self._look()
        return f"CPython {image.version} in a container of {self.name}, image {image.identity[:19]}"

    def open(self, script: Script, args: Json, *, limits: Limits, nonce: str) -> ProcessSession:
        """Take a container. Raises `SandboxMissing` if the program, its service or the image isn't there, or if it
        can't confine."""
        if limits.memory > self._memory:
            raise ConfigError(
                f"A script may use {limits.memory:,} bytes of memory, its container is made for {self._memory:,}.",
                hint="Lower the one or raise the other.",
            )
        return ProcessSession(self._start(), script, args, limits, nonce)

    def close(self) -> None:
        """End the containers that wait. In a fork's child there are none to end."""
        if self._process.elsewhere:
            return
        with self._lock:
            workers, self._workers = self._workers, None
        if workers is not None:
            workers.close()

    def _look(self) -> tuple[Engine, Image]:
        if self._found is None:
            engine = Engine.find(self._program, self._path)
            self._found = engine, find(engine, self._image)
        return self._found

    def _start(self) -> Workers:
        self._process.use()
        with self._lock:
            if self._workers is None:
                engine, image = self._look()
                engine.sweep()
                self._workers = Workers(self.name, lambda: launch(engine, image, self._memory + HEADROOM), self._spares)
            return self._workers


def launch(engine: Engine, image: Image, memory: int) -> Launch:
    """Return how a container is started. It runs the image by its digest."""
    name = f"addendum-{secrets.token_hex(8)}"
    read = _profile(engine)
    code = seccomp.program(engine.machine)
    assert code is not None, "an engine's machine has a profile, and so a filter"
    filters = json.dumps({engine.machine: code.hex()})
    return Launch(
        (
            engine.path,
            *options(engine.name, name, memory, engine.label(), f"/dev/fd/{read}"),
            *("--entrypoint", image.python, image.identity),
            *(*PYTHON, guest("supervisor"), *worker(), filters, name),
        ),
        engine.environment(),
        descriptors=(read,),
        reap=lambda: engine.remove(name),  # killing the client doesn't end the container
        patience=PATIENCE,
        look=lambda: engine.process(name),
        explain=lambda: explain(engine, image, memory),
    )


def explain(engine: Engine, image: Image, memory: int) -> None:
    """Run a container that does nothing. Raises `SandboxMissing` with the engine's words if it doesn't start."""
    read = _profile(engine)
    try:
        name = f"addendum-{secrets.token_hex(8)}"
        run = options(engine.name, name, memory, engine.label(), f"/dev/fd/{read}")
        engine.ask(*run, "--entrypoint", image.python, image.identity, "-S", "-c", "", descriptors=(read,))
    finally:
        os.close(read)


def _profile(engine: Engine) -> int:
    """Return the seccomp profile as the end of a pipe: no file is left, and the client needn't see this process's."""
    read, write = os.pipe()
    os.write(write, profile(engine.machine))
    os.close(write)
    return read


def options(program: Program, name: str, memory: int, label: str, seccomp_file: str) -> tuple[str, ...]:
    """Return what a container is run with: everything that confines it, spelled out, whatever the defaults are."""
    empty = [f"{variable}=" for upper in PROXIES for variable in (upper, upper.lower())]
    return (
        *("run", "--interactive", "--rm", "--pull", "never", "--name", name, "--label", label, "--log-driver", "none"),
        *("--network", "none", "--read-only", "--cap-drop", "ALL", "--security-opt", "no-new-privileges"),
        *("--security-opt", f"seccomp={seccomp_file}"),
        *("--user", "65534:65534", "--workdir", "/", "--hostname", "sandbox", "--ipc", "none"),
        *("--memory", str(memory), "--memory-swap", str(memory), "--cpus", "1", "--pids-limit", str(PROCESSES)),
        *(
            "--ulimit",
            "core=0",
            "--ulimit",
            "nofile=64",
            "--ulimit",
            f"cpu={CPU_SECONDS}",
            "--ulimit",
            "nproc=4096",
            "--ulimit",
            "msgqueue=0",
        ),
        *("--tmpfs", f"/workspace:rw,noexec,nosuid,nodev,size={WORKSPACE}{FILES[program]},mode=1777"),
        *ITS_OWN[program],
        *("--env", "PYTHONHASHSEED=0", "--env", "HOME=/workspace"),
        *(part for variable in empty for part in ("--env", variable)),
    )
