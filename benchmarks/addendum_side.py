"""Addendum's side: each job is one process, and prints one line of JSON.

python addendum_side.py FOLDER '{"job": "calls", ...}'
"""

from __future__ import annotations

import json
import os
import sys
import threading
import time
from pathlib import Path
from typing import Any

import journals
from floor import Floor
from machine import resident
from parts import Here, Parts

from addendum import App
from addendum.ports import Sandbox, Store
from addendum.store.sqlite import SqliteStore
from addendum.testing.memory_store import MemoryStore

SEQUENCE = """
async def orchestrate(ctx, args):
    for i in range({count}):
        await ctx.run("bench.step", {{"i": i}})
    return {count}
"""
FAN = """
async def one(ctx, i):
    return await ctx.run("bench.step", {{"i": i}})

async def orchestrate(ctx, args):
    return len(await ctx.parallel([one(ctx, i) for i in range({width})]))
"""
LARGE = """
async def orchestrate(ctx, args):
    for i in range({count}):
        if i % 20 == 10:
            await ctx.run("bench.large", {{"i": i}})
        await ctx.run("bench.step", {{"i": i}})
    return {count}
"""

SIZE = 4 * 1024 * 1024 - 64
"""Bytes of text in a large result: as much as the limit of a result leaves room for."""


class Bench:
    """An App with the benchmark's capabilities, and what was seen of their dispatches."""

    def __init__(self, folder: Path, *, store: Store | None = None, sandbox: Sandbox | None = None) -> None:
        self.store = SqliteStore(folder / "store.db") if store is None else store
        self.app = App(store=self.store, sandbox=sandbox)
        self.times: list[float] = []
        self.last = -2
        self.crash = False
        self.stop = threading.Event()
        self.reached = 0.0

        @self.app.capability("bench.step", effect="read")
        async def step(i: int) -> dict[str, Any]:
            self.times.append(time.perf_counter())
            if i == self.last:
                self.reached = time.perf_counter()
                if self.crash:
                    os._exit(9)
                self.stop.set()
            return {"i": i, "ok": True}

        @self.app.capability("bench.large", effect="read")
        async def large(i: int) -> dict[str, Any]:
            return {"text": "x" * SIZE}

    def warm(self) -> None:
        """Run a script and resume it, so that nothing is loaded or started in what is measured."""
        self.run(SEQUENCE.format(count=20), run="warm")
        self.app.resume("warm")

    def run(self, source: str, **more: Any) -> None:
        result = self.app.run(source, **more)
        if result.status != "completed":
            raise SystemExit(f"{result.status}: {result.message} {result.hint}")

    def to_next_call(self, run: str, last: int) -> float:
        """Resume a run and return the seconds until it dispatches call `last`."""
        self.last, self.stop, self.times = last, threading.Event(), []
        started = time.perf_counter()
        self.app.resume(run, stop=self.stop)
        if len(self.times) != 1:
            raise SystemExit(f"{len(self.times)} calls were dispatched, not the one that was new")
        return self.reached - started


def calls(folder: Path, count: int, slices: int) -> dict[str, Any]:
    """Measure calls in a row, in slices that take turns with the floor: its commits one after another, and as far apart
    as those of the calls before."""
    bench, floor = Bench(folder), Floor(folder)
    bench.warm()
    found: dict[str, Any] = {"floor": [], "apart": [], "call": [], "memory": 0.0}
    each = count // slices
    for _ in range(slices):
        found["floor"].append(floor.seconds(each) / each)
        started = time.perf_counter()
        bench.run(SEQUENCE.format(count=each))
        found["call"].append((time.perf_counter() - started) / each)
        between = max(0.0, found["call"][-1] - found["floor"][-1]) / 2
        found["apart"].append(floor.seconds(each, between) / each)
    found["memory"] = resident()
    return found


def bare(folder: Path, count: int, slices: int) -> dict[str, Any]:
    """Measure the parts of a call without anything between them, and the driver without them, in turns with the
    floor."""
    each = count // slices
    floor, found = Floor(folder), {"parts": [], "driver": []}
    bench, source = Bench(folder, store=MemoryStore(), sandbox=Here(each)), SEQUENCE.format(count=each)
    bench.run(source)
    with Parts(floor) as parts:
        parts.seconds(each)
        for _ in range(slices):
            least = floor.seconds(each)
            found["parts"].append(parts.seconds(each) / least)
            started = time.perf_counter()
            bench.run(source)
            found["driver"].append((time.perf_counter() - started) / least)
    return found


def wide(folder: Path, width: int, times: int) -> dict[str, Any]:
    """Measure fan-outs: whole runs, from admission to the written end."""
    bench = Bench(folder)
    bench.warm()
    found = []
    for _ in range(times):
        started = time.perf_counter()
        bench.run(FAN.format(width=width))
        found.append(time.perf_counter() - started)
    return {"seconds": found, "memory": resident()}


def crash(folder: Path, count: int) -> dict[str, Any]:
    """Commit calls, and die in the one after."""
    bench = Bench(folder)
    bench.crash, bench.last = True, count
    bench.run(SEQUENCE.format(count=count + 1), run="crashed")
    raise AssertionError("it lives")


def recover(folder: Path, count: int) -> dict[str, Any]:
    """Resume what a crash left, until its next call is dispatched."""
    bench = Bench(folder)
    bench.warm()
    return {"seconds": bench.to_next_call("crashed", count), "ran": len(bench.times)}


def first(folder: Path) -> dict[str, Any]:
    """Make one call; the driver knows when the process was started."""
    bench = Bench(folder)
    seen = []

    @bench.app.capability("bench.first", effect="read")
    async def note() -> None:
        seen.append(time.time())

    bench.run('async def orchestrate(ctx, args):\n    return await ctx.run("bench.first", {})\n')
    return {"first": seen[0], "memory": resident()}


def journal(folder: Path, shape: str, count: int, runs: int) -> dict[str, Any]:
    """Write long journals, for others to replay."""
    bench = Bench(folder)
    for number in range(runs):
        bench.last, bench.stop = 0, threading.Event()
        journals.write(bench.app, bench.store, shape, count, f"{shape}-{number}", bench.stop)
    return {}


def replay(folder: Path, shape: str, runs: int) -> dict[str, Any]:
    """Measure replays of long journals, until their next call."""
    bench = Bench(folder)
    bench.warm()
    seconds = [bench.to_next_call(f"{shape}-{number}", -1) for number in range(runs)]
    return {"seconds": seconds, "memory": resident(peak=True)}


def large(folder: Path, count: int, times: int) -> dict[str, Any]:
    """Measure small calls with and without results of 4 MB between them, and those results themselves."""
    bench = Bench(folder)
    bench.warm()
    found: dict[str, Any] = {"without": [], "with": [], "large": [], "peak": 0.0}
    for _ in range(times):
        for name, source in (("without", SEQUENCE), ("with", LARGE)):
            bench.times = []
            bench.run(source.format(count=count))
            gaps = [b - a for a, b in zip(bench.times, bench.times[1:], strict=False)]
            if name == "with":
                found["large"] += gaps[9::20]
                del gaps[9::20]
            found[name] += gaps
    found["peak"] = resident(peak=True)
    return found


JOBS = {
    "calls": calls,
    "bare": bare,
    "wide": wide,
    "crash": crash,
    "recover": recover,
    "first": first,
    "journal": journal,
    "replay": replay,
    "large": large,
}


def main() -> None:
    folder, job = Path(sys.argv[1]), json.loads(sys.argv[2])
    print(json.dumps(JOBS[job.pop("job")](folder, **job)), flush=True)


if __name__ == "__main__":
    main()
