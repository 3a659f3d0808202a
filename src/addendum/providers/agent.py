"""`agent.run`: an external coding agent, or any command, at work on a commit in a folder of its own.

The command sees a worktree of one commit, an empty environment but for what is named, and (with `confine`) nothing else
of the machine and no network. It has a time limit; nothing that it started is alive afterwards. Its result is what it
said, how it ended, and the diff; what becomes of the diff is the caller's business.

A job runs in a process of its own and keeps its result in a folder named by the idempotency key. So a host that is
killed loses nothing that was paid for: a lookup waits for a job that still runs, and finds the result of one that has
ended. Only a job that died with the machine stays unresolved.
"""

from __future__ import annotations

import asyncio
import contextlib
import fcntl
import hashlib
import json
import os
import shutil
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Annotated, Any, Final, Literal, cast

from pydantic import Field, model_validator

from addendum.authority.catalog import Capability
from addendum.canon import Json
from addendum.credentials import Secret
from addendum.errors import CapabilityError, ConfigError, StoreError, UnknownOutcome
from addendum.ports import Artifacts, Reply, Request
from addendum.providers import service, worktree
from addendum.providers.agentjob import LOCK, LONGEST_PATH, MOST_FILES, PATCH, RESULT, Job
from addendum.providers.service import Tools

TASK: Final = "{task}"
LONGEST_TASK: Final = 100_000
BASE: Final = r"^[A-Za-z0-9_][A-Za-z0-9_./-]{0,199}$"
VARIABLE: Final = r"^[A-Za-z_][A-Za-z0-9_]{0,99}$"
LETTER: Final = 6
"""The most bytes of a letter as JSON."""
MARGIN: Final = 300.0
"""Seconds beyond the command's own for the worktree before it and the diff after it."""
WAITED: Final = 25.0
"""Seconds that `lookup` waits for a job that still runs."""
KEPT_DAYS: Final = 30
FOLDER: Final = "agents"


class Spec(service.Spec):
    """A command at work in a worktree."""

    kind: Literal["agent"] = Field(description="Which kind of service it is.")
    command: list[Annotated[str, Field(min_length=1, max_length=4096, pattern=r"^[^\x00]*$")]] = Field(
        min_length=1, max_length=100, description="The command; `{task}` stands for the task, else it is its stdin."
    )
    repository: str = Field(default=".", min_length=1, description="The git repository, relative to this file.")
    base: str = Field(default="HEAD", pattern=BASE, description="The commit, branch or tag that it works on.")
    any_base: bool = Field(default=False, description="Whether a script may name another commit.")
    environment: dict[Annotated[str, Field(pattern=VARIABLE)], Annotated[str, Field(max_length=4096)]] = Field(
        default={}, max_length=100, description="All that its environment has; `{home}` is an empty folder."
    )
    secrets: dict[Annotated[str, Field(pattern=VARIABLE)], Annotated[str, Field(max_length=64)]] = Field(
        default={}, max_length=20, description="Further variables, each with the handle of a secret."
    )
    timeout: float = Field(default=1800.0, gt=0, le=86_400, description="Seconds for the command.")
    confine: bool = Field(default=False, description="Run it in bubblewrap: no network, nothing else of this machine.")
    shown: list[Annotated[str, Field(pattern=r"^/[^\x00]+$")]] = Field(
        default=[], max_length=50, description="Paths of this machine that a confined command sees, read-only."
    )
    memory: int = Field(default=4 * 1024**3, gt=0, description="Bytes of memory of a confined process.")
    processes: int = Field(default=256, gt=0, le=100_000, description="Processes of a confined command.")
    max_output: int = Field(
        default=32 * 1024, ge=0, le=1024 * 1024, description="Characters of stdout and stderr each: their end."
    )
    max_diff: int = Field(
        default=256 * 1024, ge=0, le=1024 * 1024, description="Characters of the diff; all of it is an artifact then."
    )

    @model_validator(mode="after")
    def _consistent(self) -> Spec:
        if self.effect in ("read", "idempotent"):
            raise ValueError("an agent has side effects: it costs, and nobody knows what it does")
        twice = set(self.environment) & set(self.secrets)
        if twice:
            raise ValueError(f"{sorted(twice)[0]} is a variable and a secret")
        if self.shown and not self.confine:
            raise ValueError("shown is for a confined command; any other sees this machine")
        return self

    def handles(self) -> tuple[str, ...]:
        """Return the handles of secrets that it names."""
        return tuple(self.secrets.values())


def open(name: str, spec: Spec, tools: Tools) -> Service:
    """Open the service. Raises `ConfigError`: without git, for a repository that is none, for a missing secret."""
    repository = (tools.folder / spec.repository).absolute()
    if worktree.program() is None:
        raise ConfigError(f"{name} needs git, which isn't installed.", hint="Install git (Debian: `apt install git`).")
    if not repository.is_dir():
        raise ConfigError(
            f"{name} has no repository: {spec.repository} is no folder.", hint="Name a git repository, by its folder."
        )
    if not tools.agent:
        raise ConfigError(f"{name} can't be run here.", hint="Open it from a services file.")
    secrets = {variable: tools.secret(handle) for variable, handle in spec.secrets.items()}
    kept = tools.kept.absolute() / FOLDER
    _forget(kept)
    return Service(name, spec, repository, secrets, tools.artifacts, kept, tools.agent)


@dataclass(slots=True)
class Service:
    """The service of one specification. `kept` has a folder for each job, `child` is the command that does one."""

    name: str
    spec: Spec
    repository: Path
    secrets: Mapping[str, Secret]
    artifacts: Artifacts
    kept: Path
    child: Sequence[str]
    _running: set[asyncio.subprocess.Process] = field(default_factory=set)

    @property
    def capabilities(self) -> Sequence[Capability]:
        """The one capability."""
        spec = self.spec
        return [
            service.offer(
                self.name,
                spec.model_copy(update={"timeout": min(spec.timeout + MARGIN, 86_400.0 + MARGIN)}),
                effect="side_effect",
                input=schema(spec),
                output=output(spec),
                about="Let an agent work on a commit and return its diff.",
                lookup=True,
                agentic=True,
                max_payload=LETTER * LONGEST_TASK + 64 * 1024,
                max_result=LETTER * (2 * spec.max_output + spec.max_diff + MOST_FILES * LONGEST_PATH),
            )
        ]

    async def dispatch(self, request: Request) -> Reply:
        """Do one job, or take the result of the same one. Raises `CapabilityError` and `UnknownOutcome`."""
        payload = cast("dict[str, Any]", request.payload)
        folder = self._folder(request.key)
        job = self._job(folder, payload["task"], payload.get("base", self.spec.base))
        self.kept.mkdir(mode=0o700, parents=True, exist_ok=True)
        try:
            folder.mkdir(mode=0o700)
        except FileExistsError:
            found = await self._found(folder)
            if found is None:
                raise UnknownOutcome("an agent with this key was started before, and nobody knows its end") from None
            return found
        code = await self._performed(job)
        if code and not (folder / LOCK).exists():
            shutil.rmtree(folder, ignore_errors=True)
            raise CapabilityError("provider_error", f"the agent's process didn't begin (exit code {code})", True)
        try:
            found = await asyncio.to_thread(self._read, folder, failures=True)
        except StoreError as error:
            # The result is kept in the folder: a lookup finds it once there is room for its patch.
            raise UnknownOutcome(f"the agent has ended, and its patch can't be kept: {error}") from None
        if found is None:
            raise UnknownOutcome("the agent's process ended without a result")
        return found

    async def lookup(self, capability: str, key: str) -> Reply | None:
        """Return the result of an earlier job; one that still runs is waited for a little."""
        return await self._found(self._folder(key))

    async def close(self) -> None:
        """End what still runs: all of it at once, since there is little time."""
        running = tuple(self._running)
        for process in running:
            _told_to_end(process)
        for process in running:
            await process.wait()

    def _folder(self, key: str) -> Path:
        return self.kept / hashlib.sha256(key.encode("utf-8", "surrogatepass")).hexdigest()[:40]

    def _job(self, folder: Path, task: str, base: str) -> Job:
        spec = self.spec
        placed = any(TASK in part for part in spec.command)
        if placed and ("\0" in task or (TASK in spec.command and task.startswith("-"))):
            # A model's text that begins with a dash would be an option of the command.
            raise CapabilityError("invalid_input", "the task begins with a dash, or has a NUL in it")
        revealed = {variable: secret.reveal() for variable, secret in self.secrets.items()}
        return Job(
            folder=str(folder),
            repository=str(self.repository),
            base=base,
            argv=tuple(part.replace(TASK, task) for part in spec.command),
            given="" if placed else task,
            environment={**spec.environment, **revealed},
            secrets={secret.handle: revealed[variable] for variable, secret in self.secrets.items()},
            seconds=spec.timeout,
            output=spec.max_output,
            diff=spec.max_diff,
            confine=spec.confine,
            shown=tuple(spec.shown),
            memory=spec.memory,
            processes=spec.processes,
        )

    async def _performed(self, job: Job) -> int:
        """Have a process of its own do a job, wait for it, and return its exit code. Cancelled, it is told to end."""
        # Not our environment: the agent could read it of its parent. Started in a session of its own: ^C isn't for it.
        environment = {name: os.environ[name] for name in ("PATH", "PYTHONPATH", "LANG") if name in os.environ}
        process = await asyncio.create_subprocess_exec(
            *self.child,
            stdin=asyncio.subprocess.PIPE,
            stdout=asyncio.subprocess.DEVNULL,
            stderr=asyncio.subprocess.DEVNULL,
            env=environment,
            cwd="/",
            start_new_session=True,
        )
        self._running.add(process)
        try:
            await process.communicate(job.written())
        except asyncio.CancelledError:
            _told_to_end(process)
            raise
        finally:
            if process.returncode is not None:
                self._running.discard(process)
        return process.returncode or 0

    async def _found(self, folder: Path) -> Reply | None:
        """Return the result of a job that ended; None if there is none, or it doesn't end in a while."""
        until = time.monotonic() + WAITED
        while (found := await asyncio.to_thread(self._read, folder)) is None and _at_work(folder):
            if time.monotonic() >= until:
                break
            await asyncio.sleep(0.2)
        return found or await asyncio.to_thread(self._read, folder)

    def _read(self, folder: Path, *, failures: bool = False) -> Reply | None:
        """Return a job's result, None if it has none (yet). With `failures`, raises `CapabilityError` for one."""
        try:
            found: dict[str, Any] = json.loads((folder / RESULT).read_bytes())
        except (OSError, ValueError):
            return None
        if "error" in found:
            if failures:
                error = found["error"]
                cost = self.spec.price_usd if error.get("begun") else None
                raise CapabilityError(str(error["code"]), str(error["message"]), cost_usd=cost or "0")
            return None
        if "diff" in found["cut"]:
            found["patch"] = self.artifacts.put((folder / PATCH).read_bytes(), "text/x-diff")
        return Reply(found)


def _told_to_end(process: asyncio.subprocess.Process) -> None:
    with contextlib.suppress(ProcessLookupError):
        process.terminate()


def _at_work(folder: Path) -> bool:
    """Whether a job's process lives."""
    try:
        descriptor = os.open(folder / LOCK, os.O_RDONLY | os.O_CLOEXEC)
    except OSError:
        return False
    try:
        fcntl.flock(descriptor, fcntl.LOCK_SH | fcntl.LOCK_NB)
        return False
    except OSError:
        return True
    finally:
        os.close(descriptor)


def _forget(kept: Path) -> None:
    """Remove the folders of jobs that ended long ago: their results are in the runs' journals, or nobody wants them."""
    oldest = time.time() - KEPT_DAYS * 86_400
    try:
        for folder in kept.iterdir():
            if folder.stat().st_mtime < oldest and not _at_work(folder):
                shutil.rmtree(folder, ignore_errors=True)
    except OSError:
        return  # nothing was kept yet


# --- payload and result -----------------------------------------------------------------------------------------


def schema(spec: Spec) -> dict[str, Json]:
    """Return the schema of a payload."""
    properties: dict[str, Json] = {"task": {"type": "string", "minLength": 1, "maxLength": LONGEST_TASK}}
    if spec.any_base:
        properties["base"] = {"type": "string", "pattern": BASE, "maxLength": 200}
    return {"type": "object", "properties": properties, "required": ["task"], "additionalProperties": False}


def output(spec: Spec) -> dict[str, Json]:
    """Return the schema of a result."""
    changed: dict[str, Json] = {
        "type": "object",
        "properties": {
            "path": {"type": "string", "maxLength": LONGEST_PATH},
            "status": {"enum": ["added", "modified", "deleted"]},
        },
        "required": ["path", "status"],
        "additionalProperties": False,
    }
    patch: dict[str, Json] = {
        "type": "object",
        "properties": {
            "artifact": {"type": "string", "maxLength": 71},
            "media_type": {"type": "string", "maxLength": 100},
            "bytes": {"type": "integer", "minimum": 0},
        },
        "required": ["artifact"],
        "additionalProperties": False,
    }
    return {
        "type": "object",
        "properties": {
            "exit_code": {"type": "integer"},
            "stdout": {"type": "string", "maxLength": spec.max_output},
            "stderr": {"type": "string", "maxLength": spec.max_output},
            "base": {"type": "string", "maxLength": 64},
            "changed": {"type": "array", "maxItems": MOST_FILES, "items": changed},
            "diff": {"type": "string", "maxLength": spec.max_diff},
            "cut": {"type": "array", "maxItems": 3, "items": {"enum": ["changed", "diff", "output"]}},
            "patch": patch,
        },
        "required": ["exit_code", "stdout", "stderr", "base", "changed", "diff", "cut"],
        "additionalProperties": False,
    }
