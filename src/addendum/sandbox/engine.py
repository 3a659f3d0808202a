"""Docker and Podman by their commands: what both are asked, and what one that can't confine lacks."""

from __future__ import annotations

import json
import os
import platform
import shutil
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final, Literal, TypeAlias

from addendum.errors import SandboxMissing
from addendum.sandbox.allowlist import MACHINES

Program: TypeAlias = Literal["docker", "podman"]
SECONDS: Final = 60.0
OWNER: Final = "addendum.owner"
"""Label of a container: the process that started it."""
CLIENT: Final = ("DOCKER_", "CONTAINER", "XDG_", "TMPDIR")
"""Variables that a client needs to find its service. None of them reaches a container."""
INSTALL: Final = {
    "docker": "Install it (Debian: `apt install docker.io`) and start its service, or choose another backend.",
    "podman": "Install it (Debian: `apt install podman`), or choose another backend.",
}
ANSWER: Final = {
    "docker": "Start its service (`dockerd`, or `systemctl start docker`), be in its group, or set DOCKER_HOST.",
    "podman": "Run `podman info` to see why.",
}
SWITCH_ON: Final = {
    "seccomp": "a kernel and an engine with seccomp",
    "memory": "the memory controller of cgroups",
    "pids": "the pids controller of cgroups",
    "cpu": "the cpu controller of cgroups",
}


@dataclass(frozen=True, slots=True)
class Image:
    """An image that is here. `identity` is its digest, `python` the interpreter's path inside."""

    identity: str
    python: str
    version: str


@dataclass(frozen=True, slots=True)
class Engine:
    """A container engine: its program's path and what it says about itself."""

    name: Program
    path: str
    machine: str

    @classmethod
    def find(cls, name: Program, path: str | None = None) -> Engine:
        """Find an engine that can confine. Raises `SandboxMissing` that says what to install or to switch on."""
        program = shutil.which(name, path=path)
        if program is None:
            raise SandboxMissing(f"The program `{name}` isn't there.", hint=INSTALL[name])
        said = cls(name, program, platform.machine()).ask("info", "--format", "{{json .}}")
        try:
            info = json.loads(said)
        except ValueError:
            info = None
        if not isinstance(info, dict) or info.get("ServerErrors"):
            why = "; ".join(info.get("ServerErrors", ())) if isinstance(info, dict) else said.decode("utf-8", "replace")
            raise SandboxMissing(f"{name} doesn't answer: {why.strip()[:300]}.", hint=ANSWER[name])
        machine, lacking = _confines(name, info)
        if lacking:
            raise SandboxMissing(
                f"{name} can't confine a script here: it lacks {', '.join(lacking)}.",
                hint=f"Switch on {', '.join(SWITCH_ON.get(part, part) for part in lacking)}.",
            )
        if machine not in MACHINES:
            raise SandboxMissing(
                f"The backend `{name}` has no seccomp profile for its machine ({machine}).",
                hint="Choose another backend.",
            )
        return cls(name, program, machine)

    def environment(self) -> tuple[tuple[str, str], ...]:
        """Return what the client's own process gets."""
        kept = tuple((key, value) for key, value in os.environ.items() if key.startswith(CLIENT))
        return (*kept, ("PATH", os.defpath), ("HOME", os.path.expanduser("~")))

    def ask(self, *arguments: str, stdin: bytes = b"", descriptors: tuple[int, ...] = ()) -> bytes:
        """Run one command and return what it prints. Raises `SandboxMissing` with what it said."""
        try:
            ran = subprocess.run(
                (self.path, *arguments),
                env=dict(self.environment()),
                input=stdin,
                capture_output=True,
                pass_fds=descriptors,
                timeout=SECONDS,
                check=False,
                start_new_session=True,  # ^C in a terminal is this process's to handle
            )
        except (OSError, subprocess.TimeoutExpired) as error:
            raise SandboxMissing(f"{self.name} doesn't answer: {error}.", hint=ANSWER[self.name]) from None
        if ran.returncode:
            said = ran.stderr.decode("utf-8", "replace").strip()[:300].rstrip(".?! ")
            raise SandboxMissing(f"`{self.name} {arguments[0]}` failed: {said}.", hint=ANSWER[self.name])
        return ran.stdout

    def image(self, reference: str) -> dict[str, Any] | None:
        """Return what is known of an image, None if it isn't here."""
        try:
            found = json.loads(self.ask("image", "inspect", reference))
        except (SandboxMissing, ValueError):
            return None
        return found[0] if isinstance(found, list) and found and isinstance(found[0], dict) else None

    def remove(self, name: str) -> None:
        """Remove a container, whatever it does. One that is gone already is fine."""
        try:
            self.ask("rm", "--force", name)
        except SandboxMissing:
            return  # it went meanwhile, or the service did

    def process(self, name: str) -> int | None:
        """Return the container's first process as this machine sees it, None if it isn't one of this machine's."""
        try:
            pid = int(self.ask("inspect", "--format", "{{.State.Pid}}", name))
            command = Path("/proc", str(pid), "cmdline").read_bytes()
        except (SandboxMissing, OSError, ValueError):
            return None
        return pid if pid and name.encode() in command.split(b"\0") else None

    def sweep(self) -> None:
        """Remove the containers of hosts of this machine that are gone: killed before their containers had started."""
        form = '{{.ID}} {{.Label "' + OWNER + '"}}' if self.name == "docker" else "{{.ID}} {{.Labels}}"
        listed = self.ask("ps", "--all", "--filter", f"label={OWNER}", "--format", form)
        for line in listed.decode("utf-8", "replace").splitlines():
            container, _, said = line.partition(" ")
            owner = _owner(said)
            if owner is not None and not _lives(*owner):
                self.remove(container)

    @staticmethod
    def label(pid: int = 0) -> str:
        """Return the label that says who started a container: this process, or another one that lives."""
        pid = pid or os.getpid()
        return f"{OWNER}={platform.node()}/{pid}/{_began(pid)}"


def _confines(name: Program, info: dict[str, Any]) -> tuple[str, list[str]]:
    """Return an engine's machine, and what it lacks to confine: of a limit that it lacks it would only warn."""
    if name == "docker":
        has = {
            "seccomp": any("seccomp" in str(option) for option in info.get("SecurityOptions") or ()),
            "memory": info.get("MemoryLimit", True),
            "pids": info.get("PidsLimit", True),
            "cpu": info.get("CpuCfsQuota", True),
        }
        machine = info.get("Architecture", platform.machine())
    else:
        host = info.get("host", {})
        controllers = host.get("cgroupControllers") or ()
        has = {part: part in controllers for part in ("memory", "pids", "cpu")}
        has["seccomp"] = bool(host.get("security", {}).get("seccompEnabled"))
        machine = {"amd64": "x86_64", "arm64": "aarch64"}.get(host.get("arch", ""), platform.machine())
    return str(machine), [part for part, there in has.items() if not there]


def _owner(label: str) -> tuple[int, str] | None:
    """Return (process, its start) of a label of this machine."""
    said = label.partition(f"{OWNER}:")[2] or label
    node, _, rest = said.strip("]").split(" ")[0].partition("/")
    pid, _, began = rest.partition("/")
    return (int(pid), began) if node == platform.node() and pid.isdigit() else None


def _began(pid: int) -> str:
    """Return what tells a process from a later one with its number; "" where that can't be seen."""
    try:
        return Path("/proc", str(pid), "stat").read_text().rpartition(")")[2].split()[19]
    except OSError:
        return ""


def _lives(pid: int, began: str) -> bool:
    if not sys.platform.startswith("linux"):
        try:
            os.kill(pid, 0)
        except ProcessLookupError:
            return False
        except OSError:
            return True
        return True
    return bool(began) and _began(pid) == began
