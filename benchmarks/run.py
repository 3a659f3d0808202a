"""Run the benchmarks: Addendum beside DBOS and beside the floor of this disk, in turns; print one table.

    python benchmarks/run.py                 about three minutes; `make bench` sets up what it needs
    python benchmarks/run.py --full          more rounds, and 100,000 records as a fan-out too
    python benchmarks/run.py --save          write benchmarks/results.md as well

Nothing here passes or fails: other work on the machine changes every figure. What each line means is in README.md.
"""

from __future__ import annotations

import argparse
import json
import os
import shutil
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import machine

HERE = Path(__file__).resolve().parent
SCRATCH = HERE.parent / "build" / "bench"
SIDES = {"addendum": HERE / "addendum_side.py", "dbos": HERE / "dbos_side.py"}
LONGEST = 300.0
"""Seconds that one process may take."""
ENOUGH = (60.0, 130.0)
"""Seconds after which no further round is begun, and no further repetition of the long ones, unless all are asked for:
on a slow disk or a busy machine fewer have to do."""


@dataclass(slots=True)
class Bench:
    """What is measured on: each side's interpreter, the folder for stores, and the figures found so far."""

    pythons: dict[str, str]
    scratch: Path
    full: bool = False
    started: float = field(default_factory=time.monotonic)
    found: dict[str, list[float]] = field(default_factory=dict)

    def note(self, name: str, values: Sequence[float]) -> None:
        self.found.setdefault(name, []).extend(values)

    def enough(self, seconds: float) -> bool:
        """Whether it has taken long enough for what comes next to be left out."""
        return not self.full and time.monotonic() - self.started > seconds

    @contextmanager
    def folder(self) -> Iterator[Path]:
        """Give a folder of its own to some jobs, and delete it after them."""
        path = Path(tempfile.mkdtemp(prefix="addendum-bench-", dir=self.scratch))
        try:
            yield path
        finally:
            shutil.rmtree(path, ignore_errors=True)

    def job(self, side: str, folder: Path, name: str, **more: Any) -> dict[str, Any]:
        """Run one job in a process of its own; return what it printed, and when it was started."""
        say(f"{side}: {name}")
        command = [self.pythons[side], str(SIDES[side]), str(folder), json.dumps({"job": name, **more})]
        started = time.time()
        done = subprocess.run(command, cwd=folder, capture_output=True, text=True, timeout=LONGEST, check=False)
        if name == "crash" and done.returncode == 9:
            return {}
        lines = done.stdout.strip().splitlines()
        if done.returncode or not lines:
            raise SystemExit(f"{side}: {name} ended with {done.returncode}:\n{done.stderr.strip()[-2000:]}")
        found: dict[str, Any] = json.loads(lines[-1])
        return {**found, "started": started}


def say(text: str) -> None:
    print(f"  {text}", file=sys.stderr, flush=True)


# --- measuring ----------------------------------------------------------------------------------------------------


def one_round(bench: Bench, sides: Sequence[str]) -> None:
    """Measure what both sides can do, once each, in turns."""
    for side in sides:
        with bench.folder() as folder:
            found = bench.job(side, folder, "calls", count=1000, slices=5)
            bench.note(f"{side} call", found["call"])
            bench.note(f"{side} floor", found["floor"])
            bench.note(f"{side} ratio", [a / b for a, b in zip(found["call"], found["floor"], strict=True)])
            if "apart" in found:
                bench.note(f"{side} apart", found["apart"])
                apart = [a / b for a, b in zip(found["call"], found["apart"], strict=True)]
                bench.note(f"{side} apart ratio", apart)
            if "awaited" in found:
                bench.note(f"{side} awaited", found["awaited"])
            bench.note(f"{side} memory 1000", [found["memory"]])
    with bench.folder() as folder:
        found = bench.job("addendum", folder, "bare", count=1000, slices=5)
        bench.note("parts", found["parts"])
        bench.note("driver", found["driver"])
    for side in sides:
        with bench.folder() as folder:
            bench.note(f"{side} fan", bench.job(side, folder, "wide", width=100, times=5)["seconds"])
    for side in sides:
        with bench.folder() as folder:
            crashed = folder / "0"
            crashed.mkdir()
            bench.job(side, crashed, "crash", count=1000)
            for number in range(1, 4):
                shutil.copytree(crashed, folder / str(number))
                os.sync()  # a journal that a process died over is on the disk
                found = bench.job(side, folder / str(number), "recover", count=1000)
                if found["ran"] != 1:
                    raise SystemExit(f"{side} ran {found['ran']} calls in its recovery; 1 was new")
                bench.note(f"{side} replay", [found["seconds"]])
    for side in sides:
        with bench.folder() as folder:
            found = bench.job(side, folder, "first")
            bench.note(f"{side} start", [found["first"] - found["started"]])
            bench.note(f"{side} memory 1", [found["memory"]])


def long_ones(bench: Bench) -> None:
    """Measure what only this side is asked: many branches, long journals, large results."""
    with bench.folder() as folder:
        bench.note("branches", bench.job("addendum", folder, "wide", width=1000, times=3)["seconds"])
    shapes = {"loop": (1000, 10_000, 100_000), "batches": (1000, 10_000, *([100_000] if bench.full else []))}
    for number in range(3):
        if number and bench.enough(ENOUGH[1]):
            break
        for shape, counts in shapes.items():
            for count in counts[: None if bench.full or number == 0 else 2]:
                runs = max(1, 3000 // count)
                with bench.folder() as folder:
                    bench.job("addendum", folder, "journal", shape=shape, count=count, runs=runs)
                    found = bench.job("addendum", folder, "replay", shape=shape, runs=runs)
                bench.note(f"{shape} {count}", [seconds / count for seconds in found["seconds"]])
                bench.note(f"{shape} {count} memory", [found["memory"]])
    with bench.folder() as folder:
        found = bench.job("addendum", folder, "large", count=100, times=3)
        for name in ("with", "without", "large"):
            bench.note(f"results {name}", found[name])
        bench.note("results memory", [found["peak"]])


# --- the table ----------------------------------------------------------------------------------------------------


def spread(values: Sequence[float], scale: float, form: str) -> str:
    """Return median, least and most, in a unit."""
    low, middle, high = (format(scale * f, form) for f in (min(values), statistics.median(values), max(values)))
    return f"{middle} [{low} to {high}]"


def table(bench: Bench) -> list[tuple[str, str, str, str]]:
    """Return (what, Addendum, DBOS, how they compare) for each line."""
    found, rows = bench.found, []
    peer = "dbos call" in found

    def median(name: str) -> float:
        return statistics.median(found[name])

    def both(what: str, name: str, scale: float, form: str, more: str = "") -> None:
        ours, theirs = f"addendum {name}", f"dbos {name}"
        compared = f"{median(theirs) / median(ours):.1f} times" if peer else ""
        rows.append(
            (
                what,
                spread(found[ours], scale, form),
                spread(found[theirs], scale, form) if peer else "–",
                ", ".join(text for text in (compared, more) if text),
            )
        )

    def ours(what: str, name: str, scale: float, form: str, more: str = "") -> None:
        rows.append((what, spread(found[name], scale, form), "", more))

    both("one call after another, ms a call", "call", 1e3, ".2f")
    if peer:
        times = f"{median('dbos awaited') / median('addendum call'):.1f} times"
        rows.append(("the same, DBOS in its asynchronous form", "", spread(found["dbos awaited"], 1e3, ".2f"), times))
    rows.append(
        (
            "the same, in floors (two synced commits beside it)",
            spread(found["addendum ratio"], 1, ".1f"),
            spread(found["dbos ratio"], 1, ".1f") if peer else "–",
            f"floor {spread(found['addendum floor'], 1e3, '.2f')} ms",
        )
    )
    rows.append(
        (
            "the same, in floors whose commits come as far apart as a call's",
            spread(found["addendum apart ratio"], 1, ".1f"),
            "",
            f"floor {spread(found['addendum apart'], 1e3, '.2f')} ms",
        )
    )
    ours("two commits, a turn of Monty and a provider's thread alone, in floors", "parts", 1, ".1f")
    ours("a call without disk and worker: the driver and a provider's thread, in floors", "driver", 1, ".1f")
    both("fan-out, 100 wide, ms", "fan", 1e3, ".0f")
    both("from resume to the first new call behind 1,000, ms", "replay", 1e3, ".0f")
    both("process start to first call, s", "start", 1, ".2f")
    both("memory at the first call, MB", "memory 1", 1, ".0f")
    both("memory after 1,000 calls, MB", "memory 1000", 1, ".0f")
    ours("a run with 1,000 branches, s", "branches", 1, ".2f")
    for shape, words in (("loop", "in a loop"), ("batches", "in fan-outs of 100")):
        counts = sorted(
            int(name.split()[1]) for name in found if name.startswith(shape) and not name.endswith("memory")
        )
        for count in counts:
            slower = f"{median(f'{shape} {count}') / median(f'{shape} 1000'):.2f} times that of 1,000; "
            ours(
                f"replay of {count:,} records {words}, µs a record",
                f"{shape} {count}",
                1e6,
                ".0f",
                ("" if count == 1000 else slower) + f"peak memory {median(f'{shape} {count} memory'):.0f} MB",
            )
    ours("a small call, ms", "results without", 1e3, ".2f")
    ours("a small call beside results of 4 MB, ms", "results with", 1e3, ".2f")
    ours(
        "a call with a result of 4 MB, ms",
        "results large",
        1e3,
        ".0f",
        f"peak memory {median('results memory'):.0f} MB",
    )
    return rows


def page(rows: list[tuple[str, str, str, str]], facts: dict[str, str], remarks: list[str]) -> str:
    """Return the table and the machine's description as Markdown."""
    lines = ["| what | Addendum | DBOS (SQLite) | compared |", "| --- | --- | --- | --- |"]
    lines += [f"| {' | '.join(row)} |" for row in rows]
    lines += ["", *remarks, "", "Machine: " + "; ".join(f"{name} {value}" for name, value in facts.items()) + "."]
    return "\n".join(lines) + "\n"


def main() -> None:
    parser = argparse.ArgumentParser(description="Run the benchmarks of Addendum.")
    parser.add_argument("--rounds", type=int, help="how often each side is measured (default 3; 7 with --full)")
    parser.add_argument("--full", action="store_true", help="more rounds, and longer journals")
    parser.add_argument("--peer", default="", help="the Python that has DBOS; without it the floor alone is compared")
    parser.add_argument("--scratch", type=Path, default=SCRATCH, help="where stores are put: a real disk, not memory")
    parser.add_argument("--save", action="store_true", help="write results.md")
    asked = parser.parse_args()

    # Not resolved: an environment's Python is a link, and its place says which environment.
    peer = os.path.abspath(asked.peer) if asked.peer else ""
    bench = Bench({"addendum": sys.executable, "dbos": peer}, asked.scratch.resolve(), asked.full)
    remarks = ["Median [least to most]."]
    bench.scratch.mkdir(parents=True, exist_ok=True)
    version = peer_version(peer)
    sides = ["addendum"]
    if version:
        sides.append("dbos")
        remarks.append(f"DBOS {version}.")
    else:
        remarks.append("DBOS isn't installed here, so that only the floor is compared.")
    facts = machine.describe()
    for number in range(asked.rounds or (7 if asked.full else 3)):
        if number and not asked.rounds and bench.enough(ENOUGH[0]):
            break
        say(f"round {number + 1}")
        one_round(bench, sides if number % 2 == 0 else sides[::-1])
        rounds = number + 1
    long_ones(bench)
    remarks.append(f"Rounds: {rounds}.")
    facts["load after"] = machine.describe()["load"]
    text = page(table(bench), facts, remarks)
    print(text)
    if asked.save:
        (HERE / "results.md").write_text("# Results\n\nWritten by `run.py --save`.\n\n" + text, encoding="utf-8")


def peer_version(python: str) -> str:
    """Return the version of DBOS that an interpreter has, "" if it has none."""
    code = "import importlib.metadata as m, dbos; print(m.version('dbos'))"
    try:
        done = subprocess.run([python, "-c", code], capture_output=True, text=True, timeout=60, check=False)
    except OSError:
        return ""
    return done.stdout.strip() if done.returncode == 0 else ""


if __name__ == "__main__":
    main()
