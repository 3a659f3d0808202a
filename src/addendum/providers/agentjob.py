"""One job of an agent, in a process of its own: a worktree, the command in it, and the result in the job's folder.

The process outlives whoever started it, on purpose. An agent costs money, so when its host is killed it goes on to its
end or its time limit, and the result lies there for who asks by the same key. Told to end (SIGTERM), it ends the agent
and says so.

    FOLDER/lock           held while the job is at work
    FOLDER/result.json    written at the end, in one step: a result or an error
    FOLDER/patch          what changed, in full

The worktree lies in a folder of its own for as long as it is needed; the next job removes that of one that was killed
(`scratch`). What the agent said and wrote is redacted before
it is written down.
"""

from __future__ import annotations

import fcntl
import json
import os
import shutil
import signal
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from types import FrameType
from typing import Any, Final

from addendum.credentials import Credentials
from addendum.errors import AddendumError, CapabilityError
from addendum.ports import Command, Confinement
from addendum.providers.scratch import scratch, sweep
from addendum.providers.supervise import Ended, NotStarted, run
from addendum.providers.worktree import Worktree

RESULT: Final = "result.json"
PATCH: Final = "patch"
LOCK: Final = "lock"
STORE: Final = "store"
CAPTURED: Final = 4 * 1024 * 1024
"""Bytes of each stream that are looked at; what of it goes into the result is less."""
LARGEST_PATCH: Final = 64 * 1024 * 1024
MARGIN: Final = 64 * 1024
"""What is dropped where a text was cut before it was redacted: half a secret is found by no search."""
MOST_FILES: Final = 1000
LONGEST_PATH: Final = 4096
HOME: Final = "{home}"
STOPPED: Final = "it was ended from outside"


@dataclass(frozen=True, slots=True, kw_only=True)
class Job:
    """What is to be done. `environment` is all that the command gets; `secrets` are the values in it, by handle, to be
    taken out of what comes back. `seconds` is the command's time, `output` and `diff` are characters in the result.
    `shown` are paths that a confined command sees beside its worktree."""

    folder: str
    repository: str
    base: str
    argv: tuple[str, ...]
    given: str
    environment: Mapping[str, str]
    secrets: Mapping[str, str]
    seconds: float
    output: int
    diff: int
    confine: bool
    shown: tuple[str, ...]
    memory: int
    processes: int

    def written(self) -> bytes:
        """Return it as text, for a pipe: there are secrets in it."""
        return json.dumps({name: getattr(self, name) for name in self.__slots__}).encode("utf-8")

    @classmethod
    def read(cls, data: bytes) -> Job:
        """Read it. Raises `ValueError` for a text that was cut: whoever wrote it died."""
        found: dict[str, Any] = json.loads(data)
        return cls(**{**found, "argv": tuple(found["argv"]), "shown": tuple(found["shown"])})


class _Stop:
    """Whether somebody wants the job to end (SIGTERM). Asked, never raised: an exception could break off a clean-up."""

    def __init__(self) -> None:
        self.wanted = False
        signal.signal(signal.SIGTERM, self._note)

    def __call__(self) -> bool:
        return self.wanted

    def _note(self, number: int, frame: FrameType | None) -> None:
        self.wanted = True


def perform(job: Job, confinement: Callable[[], Confinement]) -> None:
    """Do a job, and write down what became of it."""
    folder = Path(job.folder)
    stop = _Stop()
    lock = os.open(folder / LOCK, os.O_WRONLY | os.O_CREAT | os.O_CLOEXEC, 0o600)
    fcntl.flock(lock, fcntl.LOCK_EX)
    try:
        try:
            sweep()
            with scratch() as (root, held):
                found = _done(job, folder, root, held, confinement, stop)
        except CapabilityError as error:
            found = _failed(error.code, error.message)
        except NotStarted as error:
            found = _failed("provider_error", f"{error}; nothing was done")
        except AddendumError as error:
            found = _failed("provider_error", str(error))
        shutil.rmtree(folder / STORE, ignore_errors=True)
        _put(folder / RESULT, json.dumps(_credentials(job).redact_value(found)).encode("utf-8"))
    finally:
        os.close(lock)


def _done(
    job: Job, folder: Path, root: Path, held: int, confinement: Callable[[], Confinement], stop: Callable[[], bool]
) -> dict[str, Any]:
    tree = Worktree(root / "work", folder / STORE, stop)
    confined = confinement() if job.confine else None
    if confined is not None:
        confined.profile()  # found missing before anything is made
    commit = tree.make(Path(job.repository), job.base)
    home = root / "home"
    home.mkdir(mode=0o700)
    if stop():
        return _failed("timeout", STOPPED)
    ended = _alone(job, tree, home, held, stop) if confined is None else _confined(job, tree, confined, stop)
    if ended.stopped:
        return _failed("timeout", STOPPED, begun=True)
    if ended.timed_out:
        return _failed("timeout", f"it ran for more than {job.seconds:g} s and was ended", begun=True)
    credentials = _credentials(job)
    try:
        changes = tree.changes(commit, LARGEST_PATCH)
    except CapabilityError as error:
        return _failed(error.code, f"it has ended, and what it changed can't be told: {error.message}", begun=True)
    patch = credentials.redact_bytes(changes.patch)
    if changes.cut:
        patch = patch[: max(0, len(patch) - MARGIN)]
    text = patch.decode("utf-8", "replace")
    _put(folder / PATCH, patch)
    stdout, stderr = (_told(stream, ended.cut, job.output, credentials) for stream in (ended.stdout, ended.stderr))
    return {
        "exit_code": ended.code,
        "stdout": stdout,
        "stderr": stderr,
        "base": commit,
        "changed": [
            {"path": credentials.redact(path)[:LONGEST_PATH], "status": status}
            for path, status in changes.files[:MOST_FILES]
        ],
        "diff": text[: job.diff],
        "cut": sorted(
            name
            for name, cut in {
                "changed": len(changes.files) > MOST_FILES,
                "diff": changes.cut or len(text) > job.diff or text.encode("utf-8") != patch,
                "output": ended.cut or len(ended.stdout) > job.output or len(ended.stderr) > job.output,
            }.items()
            if cut
        ),
    }


def _alone(job: Job, tree: Worktree, home: Path, held: int, stop: Callable[[], bool]) -> Ended:
    environment = {name: value.replace(HOME, str(home)) for name, value in job.environment.items()}
    return run(
        job.argv,
        folder=tree.folder,
        environment=environment,
        given=job.given.encode("utf-8"),
        seconds=job.seconds,
        output=CAPTURED,
        stop=stop,
        inherited=(held,),
    )


def _confined(job: Job, tree: Worktree, confinement: Confinement, stop: Callable[[], bool]) -> Ended:
    """Run it where it sees the system's programs, the worktree and what is shown, and no network."""
    if confinement.owner is not None:
        _give(tree.folder, confinement.owner)
    ran = confinement.run(
        Command(
            argv=job.argv,
            shown=tuple((path, path) for path in job.shown),
            writable=((str(tree.folder), "/work"),),
            folder="/work",
            environment=tuple((name, value.replace(HOME, "/tmp")) for name, value in job.environment.items()),
            stdin=job.given.encode("utf-8"),
            seconds=job.seconds,
            memory=job.memory,
            processes=job.processes,
            file_bytes=1024**3,
            output=CAPTURED,
            watch=lambda: STOPPED if stop() else "",
        )
    )
    return Ended(
        code=ran.code,
        stdout=ran.stdout,
        stderr=ran.stderr,
        cut=len(ran.stdout) >= CAPTURED or len(ran.stderr) >= CAPTURED,
        timed_out=ran.timed_out,
        stopped=bool(ran.over) and not ran.timed_out,
    )


def _give(folder: Path, owner: int) -> None:
    """Make everything in a folder of our own somebody's. Those above it are passed through."""
    for _, folders, files, descriptor in os.fwalk(folder):
        os.chown(descriptor, owner, owner)
        for name in (*folders, *files):
            os.chown(name, owner, owner, dir_fd=descriptor, follow_symlinks=False)


def _credentials(job: Job) -> Credentials:
    found = Credentials({handle: f"env:{handle}" for handle in job.secrets}, Path(job.folder), job.secrets)
    for handle in job.secrets:
        found.get(handle)
    return found


def _told(stream: bytes, cut: bool, most: int, credentials: Credentials) -> str:
    """Return the end of what was said, without secrets."""
    text = credentials.redact(stream.decode("utf-8", "replace"))
    if cut and len(stream) >= CAPTURED:
        text = text[MARGIN : max(MARGIN, len(text) - MARGIN)]
    return text[-most:]


def _failed(code: str, message: str, *, begun: bool = False) -> dict[str, Any]:
    """Return an error. `begun`: the command ran, so it counts at its price."""
    return {"error": {"code": code, "message": message, "begun": begun}}


def _put(path: Path, data: bytes) -> None:
    """Write a file in one step, durable, for its owner's eyes only."""
    beside = path.with_name(f"{path.name}.new")
    descriptor = os.open(beside, os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_CLOEXEC, 0o600)
    with os.fdopen(descriptor, "wb") as file:
        file.write(data)
        file.flush()
        os.fsync(file.fileno())
    os.replace(beside, path)
    above = os.open(path.parent, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        os.fsync(above)
    finally:
        os.close(above)
