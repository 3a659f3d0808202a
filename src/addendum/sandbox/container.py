"""CPython in a container of Docker or Podman, by their commands: no network, read-only root, no capabilities."""

from __future__ import annotations

import os
import secrets
import shutil
import subprocess
import threading
from typing import Final, Literal

from addendum.canon import Json
from addendum.errors import ConfigError, SandboxMissing
from addendum.ports import Limits, Script
from addendum.sandbox.prelude import guest
from addendum.sandbox.process import PYTHON, Launch, ProcessSession, Workers

IMAGE: Final = "python:3.11-slim"
"""Any image with a Python of this minor version or later as `python3` will do; nothing else of it is used."""
COMMAND_SECONDS: Final = 30.0
CPU_SECONDS: Final = 3600
"""What the kernel lets a worker compute, even if the host is gone."""


class ContainerSandbox:
    """CPython, one container a script, `spares` of them started ahead.

    `memory` is what a container gets in bytes; a session's own limit has to be below it."""

    interpreter: Literal["monty", "cpython"] = "cpython"

    def __init__(
        self,
        program: Literal["docker", "podman"] = "docker",
        *,
        image: str = IMAGE,
        memory: int = 1024 * 1024 * 1024,
        spares: int = 1,
        path: str | None = None,
    ) -> None:
        self.name = program
        self._image = image
        self._memory = memory
        self._spares = spares
        self._path = path
        self._workers: Workers | None = None
        self._lock = threading.Lock()

    def describe(self) -> str:
        """Return one line for a person: what confines the script."""
        return f"CPython of the image {self._image} in a container of {self.name}"

    def open(self, script: Script, args: Json, *, limits: Limits, nonce: str) -> ProcessSession:
        """Take a container. Raises `SandboxMissing` if the program, its service or the image isn't there."""
        if limits.memory > self._memory:
            raise ConfigError(
                f"A script may use {limits.memory:,} bytes of memory, its container has {self._memory:,}.",
                hint="Lower the one or raise the other.",
            )
        return ProcessSession(self._start(), script, args, limits, nonce)

    def close(self) -> None:
        """End the containers that wait."""
        with self._lock:
            workers, self._workers = self._workers, None
        if workers is not None:
            workers.close()

    def _start(self) -> Workers:
        with self._lock:
            if self._workers is None:
                program = shutil.which(self.name, path=self._path)
                if program is None:
                    raise SandboxMissing(
                        f"The program `{self.name}` isn't there.", hint="Install it, or choose another backend."
                    )
                self._ask((program, "version"), f"{self.name} doesn't answer", "Start its service.")
                self._ask(
                    (program, "image", "inspect", self._image),
                    f"The image {self._image} isn't there",
                    f"Get it: `{self.name} pull {self._image}`.",
                )
                self._workers = Workers(self.name, lambda: self._launch(program), self._spares)
            return self._workers

    def _ask(self, command: tuple[str, ...], failed: str, hint: str) -> None:
        try:
            ran = subprocess.run(
                command, stdin=subprocess.DEVNULL, capture_output=True, timeout=COMMAND_SECONDS, check=False
            )
        except (OSError, subprocess.TimeoutExpired) as error:
            raise SandboxMissing(f"{failed}: {error}.", hint=hint) from None
        if ran.returncode:
            said = ran.stderr.decode("utf-8", "replace").strip()[:300]
            raise SandboxMissing(f"{failed}: {said}.", hint=hint)

    def _launch(self, program: str) -> Launch:
        name = f"addendum-{secrets.token_hex(8)}"

        def reap() -> None:
            # Killing the client doesn't end the container.
            subprocess.run((program, "rm", "--force", name), capture_output=True, timeout=COMMAND_SECONDS, check=False)

        # The client needs its own settings (where its service is); none of them reaches the container.
        client = tuple(
            (key, value) for key, value in os.environ.items() if key.startswith(("DOCKER_", "XDG_", "CONTAINER"))
        )
        environment = (*client, ("PATH", os.defpath), ("HOME", os.path.expanduser("~")))
        return Launch(
            (program, *options(name, self._memory), self._image, *PYTHON, guest("worker")), environment, reap=reap
        )


def options(name: str, memory: int) -> tuple[str, ...]:
    """Return what a container is run with: everything that confines it, spelled out, whatever the defaults are."""
    return (
        *("run", "--interactive", "--rm", "--pull", "never", "--name", name, "--log-driver", "none"),
        *("--network", "none", "--read-only", "--cap-drop", "ALL", "--security-opt", "no-new-privileges"),
        *("--user", "65534:65534", "--workdir", "/", "--hostname", "sandbox", "--ipc", "none"),
        *("--memory", str(memory), "--memory-swap", str(memory), "--cpus", "1", "--pids-limit", "16"),
        *("--ulimit", "core=0", "--ulimit", "nofile=64", "--ulimit", f"cpu={CPU_SECONDS}"),
        *("--env", "PYTHONHASHSEED=0", "--entrypoint", "python3"),
    )
