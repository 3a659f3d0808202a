"""DBOS on SQLite: the same work as addendum_side.py, in a process with DBOS's own environment.

    python dbos_side.py FOLDER '{"job": "calls", ...}'     prints one line of JSON

DBOS is used as its documentation shows: a workflow, with a step for each call; settings are its defaults. Its blocking
form is the faster one for one call after another; its asynchronous form, which our scripts have, too, is the only one
that fans out.
"""

from __future__ import annotations

import asyncio
import json
import os
import sys
import time
from pathlib import Path
from typing import Any

from dbos import DBOS, SetWorkflowID
from floor import Floor
from machine import resident

SEEN: dict[str, float] = {}


def mark(i: int, last: int, crash: bool) -> dict[str, Any]:
    """Be the work of a step; note when the first and the last one came, and die in the last one if told so."""
    SEEN.setdefault("first", time.time())
    SEEN["ran"] = SEEN.get("ran", 0) + 1
    if i == last:
        SEEN["reached"] = time.time()
        if crash:
            os._exit(9)
    return {"i": i, "ok": True}


@DBOS.step()
def step(i: int, last: int, crash: bool) -> dict[str, Any]:
    return mark(i, last, crash)


@DBOS.step()
async def branch(i: int) -> dict[str, Any]:
    return mark(i, -1, False)


@DBOS.workflow()
def sequence(count: int, crash: bool) -> int:
    SEEN["entered"] = time.time()
    for i in range(count):
        step(i, count - 1, crash and "recovering" not in SEEN)
    return count


@DBOS.workflow()
async def awaited(count: int) -> int:
    for i in range(count):
        await branch(i)
    return count


@DBOS.workflow()
async def fan(width: int) -> float:
    started = time.perf_counter()
    await asyncio.gather(*(branch(i) for i in range(width)))
    return time.perf_counter() - started


def calls(folder: Path, count: int, slices: int) -> dict[str, Any]:
    """Measure calls in a row, in both forms, in slices that take turns with the floor."""
    sequence(20, False)
    asyncio.run(awaited(20))
    floor = Floor(folder)
    found: dict[str, Any] = {"floor": [], "call": [], "awaited": [], "memory": 0.0}
    each = count // slices
    for _ in range(slices):
        found["floor"].append(floor.seconds(each) / each)
        started = time.perf_counter()
        sequence(each, False)
        found["call"].append((time.perf_counter() - started) / each)
        started = time.perf_counter()
        asyncio.run(awaited(each))
        found["awaited"].append((time.perf_counter() - started) / each)
    found["memory"] = resident()
    return found


def wide(folder: Path, width: int, times: int) -> dict[str, Any]:
    """Measure fan-outs, from inside the workflow."""
    asyncio.run(fan(5))
    return {"seconds": [asyncio.run(fan(width)) for _ in range(times)]}


def crash(folder: Path, count: int) -> dict[str, Any]:
    """Commit calls, and die in the one after."""
    with SetWorkflowID("crashed"):
        sequence(count + 1, True)
    raise AssertionError("it lives")


def recover(folder: Path, count: int) -> dict[str, Any]:
    """Wait for the recovery that `DBOS.launch` has begun."""
    DBOS.retrieve_workflow("crashed").get_result(polling_interval_sec=0.01)
    return {"seconds": SEEN["reached"] - SEEN["entered"], "ran": SEEN["ran"]}


def first(folder: Path) -> dict[str, Any]:
    """Make one call."""
    sequence(1, False)
    return {"first": SEEN["first"], "memory": resident()}


JOBS = {"calls": calls, "wide": wide, "crash": crash, "recover": recover, "first": first}


def main() -> None:
    folder, job = Path(sys.argv[1]), json.loads(sys.argv[2])
    name = job.pop("job")
    if name == "recover":
        SEEN["recovering"] = 1
    DBOS(
        config={
            "name": "benchmark",
            "system_database_url": f"sqlite:///{folder}/dbos.db",
            "application_version": "1",
            "executor_id": "local",
            "log_level": "CRITICAL",
        }
    )
    DBOS.launch()
    print(json.dumps(JOBS[name](folder, **job)), flush=True)
    os._exit(0)  # its threads would hold the process for a while


if __name__ == "__main__":
    main()
