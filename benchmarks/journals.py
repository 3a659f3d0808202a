"""Long journals without the hours: a real run's first calls, and the rest written after their pattern.

A journal of 100,000 calls takes minutes to earn, with two synced commits for each. Here a run is stopped after its
first calls, and the entries of the others are appended through the store, as the broker would have written them. A
replay checks every one of them (identity, digest, order), and the benchmark fails if it dispatches anything but the
next call.
"""

from __future__ import annotations

import threading
from collections.abc import Iterator
from typing import Any

from addendum import App, canon
from addendum.ports import Store
from addendum.records.stored import Entry, Stored

LOOP = """
async def orchestrate(ctx, args):
    for i in range({count}):
        await ctx.run("bench.step", {{"i": i}})
    return await ctx.run("bench.step", {{"i": -1}})
"""
BATCHES = """
async def one(ctx, i):
    return await ctx.run("bench.step", {{"i": i}})

async def orchestrate(ctx, args):
    for b in range({batches}):
        await ctx.parallel([one(ctx, b * 100 + i) for i in range(100)])
    return await ctx.run("bench.step", {{"i": -1}})
"""
WIDTH = {"loop": 1, "batches": 100}
"""How many calls are in flight at once: those of the first batch are real."""
AT_ONCE = 50
"""Batches in one transaction."""


def write(app: App, store: Store, shape: str, count: int, run: str, stop: threading.Event) -> None:
    """Write a run whose next call is number -1. `stop` is set by the capability's first dispatch."""
    width = WIDTH[shape]
    source = LOOP.format(count=count) if shape == "loop" else BATCHES.format(batches=count // width)
    result = app.run(source, run=run, stop=stop)
    if result.committed != width:
        raise SystemExit(f"The journal's beginning has {result.committed} calls: {result.status} {result.message}")
    first = {entry.kind: entry for entry in store.entries(run) if entry.kind in ("attempt", "record")}
    seq, _ = store.head(run)
    number = width
    while number < count:
        entries: list[Entry] = []
        for _ in range(min(AT_ONCE * 100 // width, (count - number) // width)):
            entries += _batch(first, run, shape, number, width, seq + len(entries))
            number += width
        store.append(run, entries)
        seq += len(entries)


def _batch(first: dict[str, Stored], run: str, shape: str, number: int, width: int, seq: int) -> Iterator[Entry]:
    calls = range(number, number + width)
    attempt, record = dict(first["attempt"].body), dict(first["record"].body)
    said: list[dict[str, Any]] = []
    for i in calls:
        payload = {"i": i}
        data = canon.canonical(payload)
        at = {"identity": _identity(shape, i), "digest": canon.payload_digest(data)}
        key = canon.sha256("\n".join((run, at["identity"], at["digest"], str(i + 1))).encode())
        said.append(at)
        yield Entry(
            "attempt", {**attempt, **at, "number": i + 1, "key": key, "payload": {"size": len(data), "value": payload}}
        )
    for place, (i, at) in enumerate(zip(calls, said, strict=True)):
        value = {"i": i, "ok": True}
        result = {"size": len(canon.canonical(value)), "value": value}
        yield Entry("record", {**record, **at, "attempt": seq + 1 + place, "result": result})


def _identity(shape: str, i: int) -> str:
    if shape == "loop":
        return f"orchestrate/for.0[{i}] > orchestrate/for.0/bench.step#0"
    batch, branch = divmod(i, 100)
    return f"orchestrate/for.0[{batch}] > orchestrate/for.0/parallel#0[{branch}] > one/bench.step#0"
