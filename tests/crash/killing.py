"""Programs that are killed at named points, and a process that forks one for each: started once, a kill costs little.

    python killing.py        reads one order a line on stdin, answers each with one line on stdout

A point is a pair: its name and which time. The names follow the life of a call:

    drive      ── before/after each append: the run's beginning, the drive, attempts, records, rebinds, the end
    dispatch   ── the provider has the request and didn't begin
    answer     ── the provider has done its work, and the answer didn't leave
    hand over  ── the result is durable, and the script didn't get it
"""

from __future__ import annotations

import json
import os
import signal
import sys
from collections import Counter
from collections.abc import Mapping, Sequence
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from rig import CATALOG, Work, context

from addendum.errors import CapabilityError
from addendum.kernel.policy import Allowances
from addendum.ports import Request
from addendum.runs.context import Context
from addendum.runs.operate import approve
from addendum.runs.result import StepResult
from addendum.runs.revise import revise
from addendum.runs.start import resume, start
from addendum.sandbox.embedded import EmbeddedSandbox
from addendum.store.sqlite import SqliteStore
from addendum.testing.clock import ManualClock

SEQUENCE = """
async def orchestrate(ctx, args):
    found = []
    for i in range(3):
        found.append(await ctx.run("art.make", {"i": i}))
    found.append(await ctx.run("mail.send", {"found": found}))
    return found
"""
FAN_OUT = """
async def chain(ctx, i):
    text = await ctx.run("text.read", {"i": i})
    return await ctx.run("art.make", {"i": i, "text": text})

async def orchestrate(ctx, args):
    found = await ctx.parallel([chain(ctx, i) for i in range(3)])
    return await ctx.run("mail.send", {"found": found})
"""
RETRY = """
async def orchestrate(ctx, args):
    first = await ctx.run("art.make", {"flaky": 1})
    try:
        await ctx.run("art.make", {"refused": 1})
    except CapabilityError as e:
        return [first, e.code, await ctx.run("mail.send", {"because": e.code})]
"""
APPROVAL = """
async def orchestrate(ctx, args):
    made = await ctx.run("art.make", {"i": 1})
    said = await ctx.run("ask.person", {"question": "Send it?", "made": made})
    if said["approved"]:
        return await ctx.run("mail.send", {"made": made})
    return None
"""
READS = """
async def orchestrate(ctx, args):
    now = await ctx.now()
    lot = await ctx.random()
    name = await ctx.uuid()
    await ctx.sleep(5)
    return [now, lot, name, await ctx.run("art.make", {"now": now, "lot": lot, "name": name})]
"""
RACE = """
async def one(ctx, i):
    made = await ctx.run("art.make", {"i": i})
    return await ctx.run("note.put", {"made": made})

async def orchestrate(ctx, args):
    won = await ctx.race([one(ctx, i) for i in range(2)])
    return [won, await ctx.run("mail.send", {"won": won})]
"""
BEFORE = """
async def orchestrate(ctx, args):
    a = await ctx.run("art.make", {"prompt": "a"})
    b = await ctx.run("art.make", {"prompt": "b"})
    return await ctx.run("mail.send", {"fail": True, "a": a, "b": b})
"""
SUPERSEDED = BEFORE.replace('"prompt": "b"', '"prompt": "better"').replace('"fail": True, ', "")
MOVED = """
async def make(ctx, prompt):
    return await ctx.run("art.make", {"prompt": prompt})

async def orchestrate(ctx, args):
    a = await make(ctx, "a")
    b = await make(ctx, "b")
    c = await make(ctx, "c")
    return await ctx.run("mail.send", {"a": a, "b": b, "c": c})
"""
PROGRAMS: Mapping[str, Sequence[tuple[str, str]]] = {
    "sequence": [("start", SEQUENCE)],
    "fan-out": [("start", FAN_OUT)],
    "retry": [("start", RETRY)],
    "approval": [("start", APPROVAL), ("approve", ""), ("resume", "")],
    "recorded reads and a sleep": [("start", READS)],
    "race": [("start", RACE)],
    "supersede": [("start", BEFORE), ("supersede", SUPERSEDED)],
    "rebind": [("start", BEFORE), ("revise", MOVED)],
}
"""Each program as its steps: what is done, with which source."""


def answer(request: Request) -> Any:
    """Return what a call answers: it depends on its payload alone, so that a wrong record would show."""
    if request.capability == "art.make":
        return {"n": 1, "of": request.payload}
    return {"n": len(json.dumps(request.payload))}


def fails(request: Request, n: int) -> CapabilityError | None:
    """Return how a call fails, None if it doesn't. `n` counts the dispatches of its payload."""
    payload: Any = request.payload
    if "flaky" in payload and n == 1:
        return CapabilityError("rate_limited", "once more", retryable=True)
    if "refused" in payload or "fail" in payload:
        return CapabilityError("refused", "no")
    return None


@dataclass
class Ledger:
    """What reached the provider, in a file that outlives the process: one line a dispatch."""

    path: Path

    def note(self, request: Request, failed: bool) -> int:
        """Note a dispatch; return how many of its payload there were, this one too."""
        line = {
            "key": request.key,
            "identity": request.identity,
            "capability": request.capability,
            "payload": request.payload,
            "failed": failed,
        }
        with self.path.open("a", encoding="utf-8") as file:
            file.write(json.dumps(line) + "\n")
        return 0

    @property
    def lines(self) -> list[dict[str, Any]]:
        """All dispatches so far."""
        return [json.loads(line) for line in self.path.read_text("utf-8").splitlines()] if self.path.exists() else []

    @property
    def paid_twice(self) -> list[str]:
        """Side-effecting calls that were done twice."""
        done = Counter(
            json.dumps([line["capability"], line["payload"]], sort_keys=True)
            for line in self.lines
            if not line["failed"] and CATALOG[line["capability"]].side_effecting
        )
        return [call for call, times in done.items() if times > 1]


def provider(ledger: Ledger, point: Point | None = None) -> Work:
    """Return a provider that keeps its ledger in a file."""

    def behave(request: Request, n: int) -> Any:
        before = sum(1 for line in ledger.lines if line["payload"] == request.payload)
        failure = fails(request, before + 1)
        if point is not None:
            point.reach("dispatch")
        ledger.note(request, failure is not None)
        if point is not None:
            point.reach("answer")
        if failure is not None:
            raise failure
        return answer(request)

    return Work(behave)


@dataclass
class Point:
    """Where the process is killed: a name and which time; it counts all of them."""

    name: str = ""
    time: int = 0

    def __post_init__(self) -> None:
        self.seen: Counter[str] = Counter()

    def reach(self, name: str) -> None:
        """Come by a point."""
        self.seen[name] += 1
        if name == self.name and self.seen[name] == self.time:
            os.kill(os.getpid(), signal.SIGKILL)


class Watched:
    """A store that comes by a point before and after each append, the one that a run begins with too."""

    def __init__(self, store: SqliteStore, point: Point) -> None:
        self._store, self._point = store, point

    def __getattr__(self, name: str) -> Any:
        return getattr(self._store, name)

    def begin(self, *args: Any, **more: Any) -> Any:
        self._point.reach("before append")
        found = self._store.begin(*args, **more)
        self._point.reach("after append")
        return found

    def append(self, *args: Any, **more: Any) -> Any:
        self._point.reach("before append")
        found = self._store.append(*args, **more)
        self._point.reach("after append")
        return found


def do(made: Context, step: tuple[str, str], policy: Mapping[str, object] | None = None) -> StepResult | None:
    """Do one step of a program."""
    match step:
        case ("start", source):
            return start(made, source, {}, policy=policy, run="r")
        case ("resume", _):
            return resume(made, "r", policy=policy)
        case ("approve", _):
            approve(made, "r", approved=True)
            return None
        case ("supersede", source):
            return revise(made, "r", source, policy=policy, allowances=Allowances(supersede=True))
        case (_, source):
            return revise(made, "r", source, policy=policy)


def play(order: Mapping[str, Any]) -> list[dict[str, int]]:
    """Play a program up to its point; if it wasn't killed, return how often each point was passed, after each step."""
    point = Point(*order["point"]) if order["point"] else Point()
    folder = Path(order["folder"])

    def observer(event: Mapping[str, Any]) -> None:
        if event["event"] in ("handed_over", "replayed"):
            point.reach("hand over")

    # Its worker isn't confined: what the script can reach isn't the matter here, and it starts three times as fast.
    unconfined = EmbeddedSandbox(look=lambda: (None, "not looked for"))
    with closing(unconfined) as sandbox, closing(SqliteStore(folder / "store.db")) as store:
        work = provider(Ledger(folder / "ledger"), point)
        made = context(Watched(store, point), work, sandbox, clock=ManualClock(tick=4.0), observer=observer)  # type: ignore[arg-type]
        passed = []
        for step in PROGRAMS[order["program"]]:
            do(made, step)
            passed.append(dict(point.seen))
    return passed


def main() -> None:
    """Fork a process for each order, and say how it ended: {"signal": 9}, or the counts of the points."""
    for line in sys.stdin:
        order = json.loads(line)
        reads, writes = os.pipe()
        child = os.fork()
        if child == 0:
            os.close(reads)
            try:
                os.write(writes, json.dumps(play(order)).encode())
            finally:
                os._exit(0)
        os.close(writes)
        with os.fdopen(reads, "rb") as said:
            text = said.read()
        _, status = os.waitpid(child, 0)
        ended = {"signal": os.WTERMSIG(status)} if os.WIFSIGNALED(status) else json.loads(text or b"null")
        sys.stdout.write(json.dumps(ended) + "\n")
        sys.stdout.flush()


if __name__ == "__main__":
    main()
