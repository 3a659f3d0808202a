"""What authority costs: a durable call under a grant, as a ratio to the same call without one.

    python benchmarks/authority.py [--json] [--check] [--save] [--rounds N] [--scratch FOLDER]

Everything is measured in one process, in turns: each round makes a short run of every kind, so that a busy moment meets
all of them and the machine's speed cancels out. `--check` ends with exit code 1 if a ratio is above its limit, `--save`
writes results-authority.md.
"""

from __future__ import annotations

import argparse
import gc
import json
import shutil
import statistics
import sys
import tempfile
import time
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

import machine

from addendum import App
from addendum.authority.book import Hold
from addendum.broker.principal import Ledger
from addendum.records.stored import Entry
from addendum.store.sqlite import SqliteStore

HERE: Final = Path(__file__).resolve().parent
CALLS: Final = 200
ENTRIES: Final = 10_000
SCRIPT: Final = f"""
async def orchestrate(ctx, args):
    for i in range({CALLS}):
        await ctx.run("bench.step", {{"i": i}})
    return {CALLS}
"""
MANY: Final = 10**12
LIMITS: Final[Mapping[str, Any]] = {
    "capabilities": {
        "bench.step": {
            "limits": [
                {"meter": "calls", "max": MANY},
                {"meter": "cost_usd", "max": "1000"},
                {"meter": "bytes_out", "max": MANY},
                {"meter": "bytes_in", "max": MANY},
                {"meter": "distinct:/i", "max": MANY},
                {"meter": "calls", "max": MANY, "per": "minute"},
            ]
        }
    },
    "limits": [
        {"meter": "calls", "max": MANY},
        {"meter": "cost_usd", "max": "1000"},
        {"meter": "bytes_out", "max": MANY},
        {"meter": "bytes_in", "max": MANY},
        {"meter": "in_flight", "max": 1000},
        {"meter": "journal_bytes", "max": MANY},
        {"meter": "journal_records", "max": MANY},
        {"meter": "bytes_out", "max": MANY, "per": "hour"},
    ],
}
PRINCIPAL: Final[Mapping[str, Any]] = {
    **LIMITS,
    "limits": [
        {"meter": "calls", "max": MANY, "scope": "principal"},
        {"meter": "cost_usd", "max": "1000000", "scope": "principal"},
        {"meter": "bytes_out", "max": MANY, "scope": "principal", "per": "day"},
        {"meter": "calls", "max": MANY, "scope": "principal", "per": "day"},
    ],
}
KINDS: Final[Mapping[str, Mapping[str, Any] | None]] = {
    "no grant": None,
    "fourteen limits": LIMITS,
    "a principal's accounts": {**PRINCIPAL, "principal": "few"},
    f"the same, {ENTRIES:,} entries in its window": {**PRINCIPAL, "principal": "many"},
}
MOST: Final = 1.2
"""The most that a call under a grant may take, in calls without one."""


@dataclass(slots=True)
class Measured:
    """Seconds a call by kind: on the clock, and of this process's processors."""

    wall: dict[str, list[float]] = field(default_factory=lambda: {name: [] for name in KINDS})
    cpu: dict[str, list[float]] = field(default_factory=lambda: {name: [] for name in KINDS})
    opening: list[float] = field(default_factory=list)
    """Seconds to open the long accounts."""

    def ratios(self, times: Mapping[str, list[float]], name: str) -> list[float]:
        """Return a kind's times in those of the run without a grant beside it."""
        return [mine / plain for mine, plain in zip(times[name], times["no grant"], strict=True)]


def measure(folder: Path, rounds: int) -> Measured:
    store = SqliteStore(folder / "store.db")
    app, found = App(store=store), Measured()

    @app.capability("bench.step", effect="read", price_usd="0.001")
    async def step(i: int) -> dict[str, Any]:
        return {"i": i, "ok": True}

    fill(store, "many")
    for number in range(rounds + 1):
        for name in KINDS if number % 2 else reversed(KINDS):
            gc.collect()
            cpu, wall = time.process_time(), time.perf_counter()
            result = app.run(SCRIPT, grant=KINDS[name])
            if result.status != "completed":
                raise SystemExit(f"{name}: {result.status}: {result.message}")
            if number:  # the first round warms everything
                found.cpu[name].append((time.process_time() - cpu) / CALLS)
                found.wall[name].append((time.perf_counter() - wall) / CALLS)
    for _ in range(5):
        started = time.perf_counter()
        ledger = Ledger(store, "many")
        ledger.read()
        found.opening.append(time.perf_counter() - started)
        if ledger.totals["bench.step"].calls < ENTRIES:
            raise SystemExit("the accounts don't have what was put into them")
    app.close()
    store.close()
    return found


def fill(store: SqliteStore, principal: str) -> None:
    """Put entries of the last hours into a principal's accounts."""
    ledger, now = Ledger(store, principal), time.time()
    ledger.prepare("2026-01-01T00:00:00Z")
    hold = Hold("bench.step", 1_000_000, 10, 100)
    for start in range(0, ENTRIES, 500):
        keys = [((f"old-{number // 100}", number), hold) for number in range(start, start + 500)]
        new = list(ledger.beside(keys, now - 7200 + start / 10).entries)
        for (run, number), _ in keys:
            body = {"run": run, "attempt": number, "cost": 1_000_000, "tokens": 0, "bytes_in": 9, "micros": 1}
            new.append(Entry("settle", body))
        ledger.lost(key for key, _ in keys)  # they are other runs'
        store.append(ledger.name, new)
        ledger.read()
        ledger.rest()


def spread(values: list[float], scale: float, form: str) -> str:
    low, middle, high = (format(scale * f, form) for f in (min(values), statistics.median(values), max(values)))
    return f"{middle} [{low} to {high}]"


def page(found: Measured, rounds: int) -> str:
    """Return the table as Markdown."""
    lines = [
        "| one durable call | ms | ratio | processor ms | ratio |",
        "| --- | --- | --- | --- | --- |",
    ]
    for name in KINDS:
        cells = []
        for times in (found.wall, found.cpu):
            cells += [spread(times[name], 1e3, ".2f"), spread(found.ratios(times, name), 1, ".2f")]
        lines.append(f"| {name} | {' | '.join(cells)} |")
    lines += [
        "",
        f"Opening accounts with more than {ENTRIES:,} dispatches: {spread(found.opening, 1e3, '.0f')} ms.",
        "",
        f"Median [least to most] of {rounds} rounds; each is a run of {CALLS} calls of every kind, in turns.",
        "",
        "Machine: " + "; ".join(f"{name} {value}" for name, value in machine.describe().items()) + ".",
    ]
    return "\n".join(lines) + "\n"


def main() -> int:
    parser = argparse.ArgumentParser(description="Measure what authority costs.")
    parser.add_argument("--rounds", type=int, default=15)
    parser.add_argument("--scratch", type=Path, default=HERE.parent / "build" / "bench")
    parser.add_argument("--json", action="store_true")
    parser.add_argument("--check", action="store_true", help="exit code 1 if a ratio is above its limit")
    parser.add_argument("--save", action="store_true", help="write results-authority.md")
    asked = parser.parse_args()
    asked.scratch.mkdir(parents=True, exist_ok=True)
    folder = Path(tempfile.mkdtemp(prefix="addendum-authority-", dir=asked.scratch))
    try:
        found = measure(folder, asked.rounds)
    finally:
        shutil.rmtree(folder, ignore_errors=True)
    ratios = {name: statistics.median(found.ratios(found.wall, name)) for name in KINDS}
    text = page(found, asked.rounds)
    print(json.dumps({"ratios": ratios, "limit": MOST}) if asked.json else text)
    if asked.save:
        title = "# What authority costs\n\nWritten by `authority.py --save`.\n\n"
        (HERE / "results-authority.md").write_text(title + text, encoding="utf-8")
    above = {name: ratio for name, ratio in ratios.items() if ratio > MOST}
    for name, ratio in above.items():
        print(f"{name}: {ratio:.2f}, above {MOST}", file=sys.stderr)
    return 1 if asked.check and above else 0


if __name__ == "__main__":
    sys.exit(main())
