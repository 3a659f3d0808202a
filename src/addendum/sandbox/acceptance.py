"""The acceptance checks of `addendum sandbox verify`: what a backend has to withstand, tried against it.

The checks run code that no checker would let pass. They look from inside (what code in the worker can reach) and from
outside (what the kernel says about the worker's process).
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final, Literal, Protocol, TypeAlias

from addendum.canon import Json
from addendum.errors import SandboxError
from addendum.ports import End, Event, Limits, Returned, Sandbox, Script, Session

Verdict: TypeAlias = Literal["passed", "failed", "not_applicable"]
NONCE: Final = "acceptance"
POSITIONS: Final = frozenset({"orchestrate/a.b#0"})
QUICK: Final = Limits(turn_seconds=1.0, total_seconds=5.0, memory=64 * 2**20)

GUEST: Final = """
async def orchestrate(ctx, args):
    builtins = ctx.log.__globals__["__builtins__"]
    space = {"__builtins__": builtins, "guest": ctx.log.__globals__}
    builtins["exec"](args, space)
    return space["found"]
"""
"""Runs any code in a CPython worker, with everything that the interpreter has."""


class Subject(Sandbox, Protocol):
    """A backend as the checks need it."""

    interpreter: Literal["monty", "cpython"]

    def describe(self) -> str:
        """Return what confines the script."""


@dataclass(frozen=True, slots=True)
class Finding:
    """What a check found: what was tried, how it ended, and what was seen or why it doesn't apply."""

    check: str
    tried: str
    verdict: Verdict
    detail: str


Outcome: TypeAlias = tuple[Verdict, str]


@dataclass(frozen=True, slots=True)
class Check:
    """One attempt. `run` returns the verdict and what was seen."""

    name: str
    tried: str
    run: Callable[[Bench], Outcome]


@dataclass(frozen=True, slots=True)
class Bench:
    """A backend under test, and a place with what it must not reach."""

    sandbox: Subject
    secret: Path
    """A file of the host that only the host may read."""
    token: str
    """What stands in it."""
    events: list[Event] = field(default_factory=list)

    @property
    def monty(self) -> bool:
        """Whether the guest is Monty: there, code can't even name what CPython's can."""
        return self.sandbox.interpreter == "monty"

    def open(self, text: str, args: Json = None, *, limits: Limits = QUICK) -> Session:
        """Prepare a session of an annotated text."""
        lines = tuple(range(1, text.count("\n") + 2))
        script = Script(annotated=text, line_map=lines, positions=POSITIONS)
        return self.sandbox.open(script, args, limits=limits, nonce=NONCE)

    def run(self, text: str, args: Json = None, *, limits: Limits = QUICK) -> End | SandboxError:
        """Run a text that makes no call to its end; return the end, or the error that ended the session."""
        session = self.open(text, args, limits=limits)
        try:
            turn = session.advance(None)
        except SandboxError as error:
            return error
        finally:
            session.close()
        self.events.extend(turn.events)
        assert turn.end is not None, "the text made a call"
        return turn.end

    def python(self, code: str, *, limits: Limits = QUICK) -> object:
        """Run code in a CPython worker; return its `found`, or how it ended otherwise."""
        end = self.run(GUEST, code, limits=limits)
        return end.value if isinstance(end, Returned) else end

    def inside(self) -> Iterator[int]:
        """Yield the process of a waiting session's script while the session is open. Nothing if it can't be seen."""
        session = self.open(
            "async def orchestrate(ctx, args):\n    await ctx.run('', 'orchestrate/a.b#0', 'a.b', {})\n"
        )
        try:
            session.advance(None)
            pid = getattr(session, "pid", None)
            if isinstance(pid, int):
                yield innermost(pid)
        finally:
            session.close()


def innermost(pid: int) -> int:
    """Return the last process of a chain of single children: a launcher's, and its launcher's."""
    while children := descendants(pid):
        pid = children[-1]
    return pid


def descendants(pid: int) -> list[int]:
    """Return the processes under one, parents before children."""
    parents: dict[int, list[int]] = {}
    for entry in os.listdir("/proc") if os.path.isdir("/proc") else ():
        if entry.isdigit():
            try:
                stat = Path("/proc", entry, "stat").read_text()
            except OSError:
                continue  # it ended meanwhile
            parents.setdefault(int(stat.rpartition(")")[2].split()[1]), []).append(int(entry))
    found: list[int] = []
    todo = [pid]
    while todo:
        children = parents.get(todo.pop(0), [])
        found += children
        todo += children
    return found


def status(pid: int) -> dict[str, str]:
    """Return what the kernel says about a process, by field; empty if it may not be looked at."""
    try:
        lines = Path("/proc", str(pid), "status").read_text().splitlines()
    except OSError:
        return {}
    return {name: value.strip() for name, _, value in (line.partition(":") for line in lines)}


def verify(sandbox: Subject, checks: tuple[Check, ...], directory: Path) -> list[Finding]:
    """Run checks against a backend and return what they found, in their order. `directory` is the host's own, private
    and empty; a file with a secret is made in it. An exception in a check is a failure of the check."""
    token = os.urandom(16).hex()
    secret = directory / "secret"
    secret.write_text(token)
    secret.chmod(0o600)
    bench = Bench(sandbox, secret, token)
    findings: list[Finding] = []
    for check in checks:
        try:
            verdict, detail = check.run(bench)
        except Exception as error:  # noqa: BLE001 - a check that breaks must not hide the others
            verdict, detail = "failed", f"the check itself broke: {type(error).__name__}: {error}"
        findings.append(Finding(check.name, check.tried, verdict, detail[:500]))
    secret.unlink()
    return findings
