"""A commit's files in a folder of their own, and what became of them.

Git's own commands are used, with nobody's configuration, and with a git directory that lies outside of the folder: what
a program writes into the folder (its `.git` too) configures nothing that runs here. The program gets a small repository
of its own there, with that one commit and no remote.
"""

from __future__ import annotations

import os
import re
import selectors
import shutil
import stat
import subprocess
import tempfile
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from addendum.errors import CapabilityError

PATHS: Final = "/usr/local/bin:/usr/bin:/bin"
SECONDS: Final = 600.0
"""For one command of git."""
TICK: Final = 0.2
COMMIT: Final = re.compile(r"[0-9a-f]{40}(?:[0-9a-f]{24})?")
_STATUS: Final = {b"A": "added", b"M": "modified", b"D": "deleted", b"T": "modified"}
# Nothing of the repository's attributes, no hook and no helper is a program that runs.
_OPTIONS: Final = (
    *("-c", "core.hooksPath=/dev/null", "-c", "core.fsmonitor=false", "-c", "core.autocrlf=false"),
    *(
        "-c",
        "protocol.allow=never",
        "-c",
        "protocol.file.allow=always",
        "-c",
        "gc.auto=0",
        "-c",
        "core.quotePath=false",
    ),
)


@dataclass(frozen=True, slots=True)
class Changes:
    """What differs from the commit: paths with `added`, `modified` or `deleted`, the patch, and whether it was cut."""

    files: tuple[tuple[str, str], ...]
    patch: bytes
    cut: bool


def program() -> str | None:
    """Return the path of git, None where there is none."""
    return shutil.which("git", path=PATHS)


@dataclass(frozen=True, slots=True)
class Worktree:
    """`folder` has the files; `store` is the git directory outside of it. `stop` is asked while git runs."""

    folder: Path
    store: Path
    stop: Callable[[], bool] = lambda: False

    def make(self, repository: Path, base: str) -> str:
        """Put the files of a repository's commit there and return the commit's id. Raises `CapabilityError`."""
        self.folder.mkdir(mode=0o700)
        named = f"{base}^{{commit}}"
        found = self._git(
            "-C", str(repository), "rev-parse", "--verify", "--quiet", "--end-of-options", named, check=False
        )
        commit = found.decode("ascii", "replace").strip()
        if not COMMIT.fullmatch(commit):
            raise CapabilityError("invalid_input", f"the repository has no commit {base!r}; nothing was done")
        self._git("init", "--quiet", "--bare", "--initial-branch=base", str(self.store))
        upload = "git -c uploadpack.allowAnySHA1InWant=true upload-pack"
        told = self._git("-C", str(repository), "rev-parse", "--path-format=absolute", "--git-common-dir")
        self._take(self.store, Path(os.fsdecode(told.rstrip(b"\n"))), commit, upload)
        self._own("read-tree", commit)
        self._own("checkout-index", "--all", "--force", "--quiet")
        inside = self.folder / ".git"
        self._git("init", "--quiet", "--initial-branch=work", str(self.folder))
        self._take(inside, self.store, commit, upload)
        for arguments in (
            ("config", "user.name", "agent"),
            ("config", "user.email", "agent@localhost"),
            ("reset", "--quiet", "--mixed", commit),
        ):
            self._git("-C", str(self.folder), *arguments)
        (inside / "FETCH_HEAD").unlink(missing_ok=True)
        return commit

    def changes(self, commit: str, most: int) -> Changes:
        """Return what differs, with a patch of at most `most` bytes. Ignored files don't count, nor do repositories
        within. Nothing in the folder is run. Raises `CapabilityError`."""
        self._only_files()
        self._own("read-tree", commit)
        named = self._own("ls-files", "-z", "--modified", "--deleted")
        new = self._own("ls-files", "-z", "--others", "--exclude-standard")
        paths = {path for path in (named + new).split(b"\0") if path and not path.endswith(b"/")}
        self._own(
            "update-index", "--add", "--remove", "-z", "--stdin", given=b"".join(p + b"\0" for p in sorted(paths))
        )
        common = ("diff-index", "--cached", "--no-renames", "--no-ext-diff", "--no-textconv", "--ignore-submodules=all")
        listed = self._own(*common, "--name-status", "-z", commit).split(b"\0")
        files = tuple(
            (path.decode("utf-8", "replace"), _STATUS.get(status[:1], "modified"))
            for status, path in zip(listed[::2], listed[1::2], strict=False)
        )
        patch = self._own(*common, "--patch", "--binary", "--no-color", commit, most=most + 1)
        return Changes(files, patch[:most], len(patch) > most)

    def _only_files(self) -> None:
        """Remove pipes, sockets and devices: no commit can hold them, and git waits for who writes into a pipe that is
        called `.gitignore`. Raises `CapabilityError`, also for a folder that was put in another one's place."""
        try:
            if not stat.S_ISDIR(os.lstat(self.folder).st_mode):
                raise NotADirectoryError
            for _, _, files, descriptor in os.fwalk(self.folder):
                for name in files:
                    mode = os.stat(name, dir_fd=descriptor, follow_symlinks=False).st_mode
                    if not (stat.S_ISREG(mode) or stat.S_ISLNK(mode)):
                        os.unlink(name, dir_fd=descriptor)
        except (OSError, RecursionError) as error:
            raise CapabilityError("provider_error", f"its folder can't be read ({type(error).__name__})") from None

    def _take(self, store: Path, source: Path, commit: str, upload: str) -> None:
        self._git(
            *(f"--git-dir={store}", "fetch", "--quiet", "--depth=1", "--no-tags", "--no-write-fetch-head"),
            *(f"--upload-pack={upload}", source.absolute().as_uri(), commit),
        )

    def _own(self, *arguments: str, given: bytes = b"", most: int = 64 * 1024 * 1024) -> bytes:
        return self._git(f"--git-dir={self.store}", f"--work-tree={self.folder}", *arguments, given=given, most=most)

    def _git(self, *arguments: str, given: bytes = b"", most: int = 64 * 1024 * 1024, check: bool = True) -> bytes:
        path = program()
        if path is None:
            raise CapabilityError("provider_error", "git isn't installed; nothing was done")
        ran = _run((path, *_OPTIONS, *arguments), given, most, self.stop)
        if check and ran.code and len(ran.said) < most:
            name = next(each for each in arguments if not each.startswith("-"))
            raise CapabilityError("provider_error", f"git {name} failed: {ran.complained}")
        return ran.said


@dataclass(frozen=True, slots=True)
class _Ran:
    code: int
    said: bytes
    complained: str


def _run(argv: Sequence[str], given: bytes, most: int, stop: Callable[[], bool]) -> _Ran:
    """Run git to its end, or until it has said as much as is wanted. Raises `CapabilityError` for one that is ended
    before: it took too long, or nobody waits any more."""
    environment = {
        "PATH": PATHS,
        "HOME": "/nonexistent",
        "LC_ALL": "C",
        "GIT_CONFIG_NOSYSTEM": "1",
        "GIT_CONFIG_GLOBAL": os.devnull,
        "GIT_TERMINAL_PROMPT": "0",
        "GIT_OPTIONAL_LOCKS": "0",
        "GIT_NO_REPLACE_OBJECTS": "1",
        "GIT_ATTR_NOSYSTEM": "1",
    }
    with tempfile.TemporaryFile() as asked, tempfile.TemporaryFile() as complained:
        asked.write(given)
        asked.seek(0)
        with subprocess.Popen(
            argv, env=environment, cwd="/", stdin=asked, stdout=subprocess.PIPE, stderr=complained
        ) as process:
            said = _said(process, most, stop)
        complained.seek(0)
        return _Ran(process.returncode, said, complained.read(2000).decode("utf-8", "replace").strip()[:300])


def _said(process: subprocess.Popen[bytes], most: int, stop: Callable[[], bool]) -> bytes:
    """Return what git says, up to so many bytes, and see it end."""
    assert process.stdout is not None
    said, until = bytearray(), time.monotonic() + SECONDS
    with selectors.DefaultSelector() as selector:
        selector.register(process.stdout, selectors.EVENT_READ)
        while len(said) < most:
            if stop() or time.monotonic() > until:
                process.kill()
                raise CapabilityError("timeout", "git was ended: it took too long, or nobody waits for it any more")
            if selector.select(TICK):
                piece = os.read(process.stdout.fileno(), 1 << 20)
                if not piece:
                    break
                said += piece
    if len(said) >= most:
        process.kill()
    process.wait()
    return bytes(said[:most])
