"""What the analysis of a script costs, as ratios within one run: a machine's speed cancels out.

    python benchmarks/analysis.py [--json] [--check] [--save] [--rounds N]

With `--check` the exit code is 1 if a ratio is above its limit; with `--save` benchmarks/results-analysis.md is
written. What each line means is in README.md.
"""

from __future__ import annotations

import argparse
import ast
import json
import os
import statistics
import sys
import tempfile
import time
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any, Final

import machine

from addendum import App, CapabilityError
from addendum.broker.journal import Journal
from addendum.canon import digest
from addendum.errors import UsageError
from addendum.gate.judge import judge, static
from addendum.kernel.policy import Allowances, Policy
from addendum.ports import Answer, Issued, Known, Limits, Sandbox, Script, Served
from addendum.records.outcome import Success
from addendum.runs.prepare import Scene, scene
from addendum.sandbox.acceptance import descendants
from addendum.sandbox.embedded import EmbeddedSandbox
from addendum.script import bounds, checker, compiles, program, scope, source
from addendum.store.sqlite import SqliteStore
from addendum.testing.memory_store import MemoryStore

HERE: Final = Path(__file__).resolve().parent
CORPUS: Final = HERE.parent / "tests" / "corpus" / "scripts"
ROUNDS: Final = 15
SITES: Final = 1600
"""The most one-line calls that the limits on a source's size and lines allow, about."""


@dataclass(frozen=True, slots=True)
class Figure:
    """One line of the table. `value` is a ratio, or a time in `unit`; `limit` is what it may be at most."""

    name: str
    value: float
    unit: str = ""
    limit: float | None = None
    more: str = ""

    @property
    def holds(self) -> bool:
        """Whether the value is within its limit."""
        return self.limit is None or self.value <= self.limit


def least(rounds: int, *jobs: Callable[[], object], clock: Callable[[], float] = time.process_time) -> list[float]:
    """Return the least seconds of each job, the jobs in turns, so that a busy moment meets all.

    By default they are seconds of this process's own work, which other work on the machine hardly changes.
    """
    found = [float("inf")] * len(jobs)
    for _ in range(rounds):
        for at, job in enumerate(jobs):
            started = clock()
            job()
            found[at] = min(found[at], clock() - started)
    return found


def p90(values: Sequence[float]) -> float:
    return sorted(values)[int(0.9 * len(values))]


# --- check and program ----------------------------------------------------------------------------------------------


def analysed(rounds: int) -> list[Figure]:
    """Compare check and program with `ast.parse` of the same text, over the scripts of the corpus."""
    turns, apart = [], []
    parts: dict[str, list[float]] = {}
    for path in sorted(CORPUS.glob("*.py")):
        text = path.read_text(encoding="utf-8")
        parse, examine = partial(ast.parse, text), partial(checker.examine, text)
        parsed, whole = least(rounds, parse, examine)
        turns.append(whole / parsed)
        (parsed,) = least(rounds, parse)
        (whole,) = least(rounds, examine)
        apart.append(whole / parsed)
        for name, seconds in _parts(text, rounds).items():
            parts.setdefault(name, []).append(seconds / parsed)
    shown = ", ".join(f"{name} {statistics.median(values):.2f}" for name, values in parts.items())
    return [
        Figure("check and program / ast.parse, in turns, median script", statistics.median(turns), limit=6.0),
        Figure("the same, 90th percentile", p90(turns)),
        Figure("the same, each in a loop of its own, median script", statistics.median(apart), more=shown),
    ]


def _parts(text: str, rounds: int) -> dict[str, float]:
    """Return the least seconds of each part, each on what the one before it has just made."""
    found = dict.fromkeys(("read", "names", "bounds", "rules", "program"), float("inf"))
    for _ in range(rounds):
        marks = [time.process_time()]
        read = source.read(text)
        assert isinstance(read, source.Source)
        marks.append(time.process_time())
        names = scope.analyse(read.tree)
        compiles.certain(names, text)
        marks.append(time.process_time())
        bounded = bounds.analyse(names)
        marks.append(time.process_time())
        checker.report(read, names, bounded, None)
        marks.append(time.process_time())
        with suppress(UsageError):  # one script of the corpus is refused
            program.build(text, names, bounded)
        marks.append(time.process_time())
        for name, begin, end in zip(found, marks, marks[1:], strict=False):
            found[name] = min(found[name], end - begin)
    return found


# --- gate and plan --------------------------------------------------------------------------------------------------


def listing(count: int, tail: str = "") -> str:
    """Return a script with so many sites, each with a payload of its own."""
    calls = "".join(f'    await ctx.run("b.s", {{"i": {n}}})\n' for n in range(count))
    return f"async def orchestrate(ctx, args):\n{calls}    return {count}\n{tail}"


class Committed:
    """Runs that stopped at a call, so that the calls before it are committed and frozen."""

    def __init__(self) -> None:
        self.store = MemoryStore()
        self.app = App(store=self.store)
        self.last = -1

        @self.app.capability("b.s", effect="read")
        async def step(i: int) -> dict[str, Any]:
            if i == self.last:
                raise CapabilityError("over", "The last one.")
            return {"i": i}

    def run(self, text: str, last: int) -> str:
        """Run a script until call `last` fails; return the run's identifier."""
        self.last = last
        return self.app.run(text).run

    def scene(self, run: str, candidate: str) -> Scene:
        """Return a candidate before the run's history."""
        journal = Journal(self.store, run)
        journal.read()
        return scene(journal, program.compile_program(candidate), digest(None), Policy(), Allowances())


def gated(rounds: int) -> list[Figure]:
    """Compare the gate over 200 frozen sites with the gate over one, for one and the same candidate; and 5,000."""
    runs = Committed()
    text = listing(201)
    candidate = listing(201, "# changed\n")
    one, many = (runs.scene(runs.run(text, last), candidate) for last in (1, 200))
    other = listing(201).replace('{"i": ', '{"i": 0 + ')
    one_changed, many_changed = (runs.scene(ready.journal.run, other) for ready in (one, many))

    def gate(ready: Scene) -> Callable[[], object]:
        def run() -> int:
            claims = ready.claims(0)
            found = static(claims, ready.allowances)
            return len(found) + len(judge(claims, False, ready.allowances).counterexamples)

        return run

    def read(ready: Scene, text: str) -> Callable[[], object]:
        alone = gate(ready)
        return lambda: (checker.examine(text), alone())

    seconds = least(
        rounds, read(one, candidate), read(many, candidate), read(one_changed, other), read(many_changed, other)
    )
    plans = least(
        max(3, rounds // 3),
        lambda: runs.app.plan(one.journal.run, candidate),
        lambda: runs.app.plan(many.journal.run, candidate),
        clock=time.perf_counter,
    )
    full = runs.run(listing(SITES), SITES - 1)
    most = runs.scene(full, listing(SITES, "# changed\n"))
    alone = least(rounds, gate(many), gate(most))
    (wide,) = [runs.run(_looped(), 5000)]
    (looped,) = least(3, lambda: runs.app.plan(wide, _looped() + "# changed\n"), clock=time.perf_counter)
    checks = least(
        3,
        lambda: checker.examine(listing(100)),
        lambda: checker.examine(listing(SITES)),
        lambda: checker.examine(listing(5000), limits=source.Limits(max_bytes=10**6, max_lines=10**4)),
    )
    (plan,) = least(3, lambda: runs.app.plan(full, listing(SITES, "# changed\n")), clock=time.perf_counter)
    return [
        Figure("candidate of 201 sites read and gated, 200 frozen sites / one", seconds[1] / seconds[0], limit=20.0),
        Figure("the same, all 200 written otherwise", seconds[3] / seconds[2], limit=20.0),
        Figure("the same candidate planned, 200 frozen sites / one", plans[1] / plans[0], limit=20.0),
        Figure("gate alone, a site of 1,599 / a site of 200", alone[1] / 1599 / (alone[0] / 200), limit=2.0),
        Figure("check and program of 1,600 sites", checks[1] * 1e3, "ms", 1000.0),
        Figure("the same, a site / a site of 100", checks[1] / (SITES) / (checks[0] / 100)),
        Figure("check and program of 5,000 sites, limits lifted", checks[2] * 1e3, "ms"),
        Figure("the same, a site / a site of 100", checks[2] / 5000 / (checks[0] / 100)),
        Figure("plan over 1,599 frozen sites", plan * 1e3, "ms"),
        Figure("plan over 5,000 frozen identities of 10 sites", looped * 1e3, "ms"),
    ]


def _looped() -> str:
    calls = "".join(f'        await ctx.run("b.s", {{"i": i + {n}}})\n' for n in range(10))
    return (
        f"async def orchestrate(ctx, args):\n    for i in range(0, 5000, 10):\n{calls}"
        '    await ctx.run("b.s", {"i": 5000})\n'
    )


# --- what the annotation adds ---------------------------------------------------------------------------------------

SHAPES: Final[dict[str, tuple[str, dict[str, str]]]] = {
    "1,000 calls in a loop": (
        """async def orchestrate(ctx, args):
    done = 0
    for i in range(1000):
        found = await ctx.run("a.b", {"i": i})
        done += found["got"]["i"]
    return done
""",
        {},
    ),
    "500 times a helper with two calls": (
        """async def once(ctx, i):
    first = await ctx.run("a.b", {"i": i})
    return await ctx.run("c.d", {"i": first["got"]["i"]})


async def orchestrate(ctx, args):
    done = 0
    for i in range(500):
        found = await once(ctx, i)
        done += found["got"]["i"]
    return done
""",
        {},
    ),
    "1,000 calls, each below six helpers and two loops": (
        "async def h1(ctx, i):\n    return await ctx.run('a.b', {'i': i})\n".replace("'", '"')
        + "".join(f"async def h{n}(ctx, i):\n    return await h{n - 1}(ctx, i)\n" for n in range(2, 7))
        + """async def orchestrate(ctx, args):
    done = 0
    for i in range(20):
        for j in range(50):
            found = await h6(ctx, i * j)
            done += found["got"]["i"]
    return done
""",
        {},
    ),
    "1,000 calls in fan-outs of 10 in fan-outs of 10": (
        """async def leaf(ctx, i, j):
    found = await ctx.run("a.b", {"i": i, "j": j})
    return found["got"]["j"]


async def branch(ctx, i):
    found = await ctx.parallel([leaf(ctx, i, j) for j in range(10)])
    return sum(found)


async def orchestrate(ctx, args):
    done = 0
    for _ in range(10):
        found = await ctx.parallel([branch(ctx, i) for i in range(10)])
        done += sum(found)
    return done
""",
        {"a.b": "branch/parallel#0[0] > "},
    ),
}
"""Scripts with 1,000 calls each, and for calls in branches a path that marks them as such."""


def bare(found: program.Program, prefixes: dict[str, str]) -> str:
    """Return a script in which every call has a constant position and path, and nothing keeps a path."""
    lines = found.source.split("\n")
    for place in found.positions.values():
        at = place.line - 1
        if place.kind == "site":
            opened = f'ctx.run("{prefixes.get(place.name, "")}", "{place.text}", '
            lines[at] = lines[at].replace(f'ctx.run("{place.name}"', f'{opened}"{place.name}"')
        elif place.kind == "fanout":
            lines[at] = lines[at].replace(f"ctx.{place.name}(", f'ctx.{place.name}("", "{place.text}", ')
    return "\n".join(lines)


def replay(sandbox: Sandbox, script: Script, known: Sequence[Known]) -> tuple[float, list[str]]:
    """Replay a script as the broker does, without it; return the processor's seconds and the calls' identities."""
    made: list[str] = []
    session = sandbox.open(script, {}, limits=Limits(), nonce="0" * 16)
    started = _spent()
    turn, waiting = session.advance(None, known), list[Issued]()
    while True:
        for event in turn.events:
            if isinstance(event, Issued | Served):
                made.append(event.identity)
            if isinstance(event, Issued):
                waiting.append(event)
        if turn.end is not None:
            break
        call = waiting.pop(0)
        turn = session.advance(Answer(call.call, _answer(call.payload)))
    return _spent() - started, made


def _spent() -> float:
    """Return the seconds of processor time of this process and of all that it started: sandboxes' workers."""
    total = time.process_time()
    for one in descendants(os.getpid()):
        for thread in Path("/proc", str(one), "task").glob("*/schedstat"):
            total += int(thread.read_text().split()[0]) / 1e9
    return total


def _answer(payload: Any) -> Success:
    return Success({"got": payload})


def annotated(rounds: int, folder: Path) -> list[Figure]:
    """Compare each shape's replay with that of the bare text, in turns; a whole replay is what is asked for."""
    figures, sandbox = [], EmbeddedSandbox()
    try:
        for number, (name, (text, prefixes)) in enumerate(SHAPES.items()):
            found = program.compile_program(text)
            scripts = [
                Script(
                    annotated=written,
                    line_map=tuple(range(1, written.count("\n") + 2)),
                    positions=frozenset(found.positions),
                    source=text,
                )
                for written in (found.annotated, bare(found, prefixes))
            ]
            main = "parallel" not in text
            known = [_known(sandbox, script) if main else [] for script in scripts]
            least_of = [float("inf"), float("inf")]
            for _ in range(rounds):
                for at, script in enumerate(scripts):
                    seconds, made = replay(sandbox, script, known[at])
                    assert len(set(made)) == 1000
                    least_of[at] = min(least_of[at], seconds)
            added = least_of[0] - least_of[1]
            whole = _whole(folder, number, text, max(3, rounds // 3))
            more = (
                f"{added * 1e3:.1f} µs a call; {added / least_of[0]:.0%} of the sandbox's own part,"
                f" {least_of[0] / whole:.0%} of the replay"
            )
            figures.append(
                Figure(f"annotation, share of a replay: {name}", max(0.0, added / whole), limit=0.2, more=more)
            )
    finally:
        sandbox.close()
    return figures


def _known(sandbox: Sandbox, script: Script) -> list[Known]:
    """Return the settled calls of the main strand of a script."""
    session = sandbox.open(script, {}, limits=Limits(), nonce="0" * 16)
    found: list[Known] = []
    turn = session.advance(None)
    while turn.end is None:
        (call,) = [event for event in turn.events if isinstance(event, Issued)]
        found.append(Known(call.identity, _answer(call.payload)))
        turn = session.advance(Answer(call.call, found[-1].outcome))
    session.close()
    return found


def _whole(folder: Path, number: int, text: str, rounds: int) -> float:
    """Return the seconds of a whole replay of a shape, from the call of `resume` to the first call that is new."""
    reached = [0.0]
    store = SqliteStore(folder / f"share{number}.db")
    app = App(store=store)

    async def echo(**payload: Any) -> dict[str, Any]:
        return {"got": payload}

    async def last(**payload: Any) -> dict[str, Any]:
        reached[0] = _spent()
        raise CapabilityError("over", "Not today.")

    for name in ("a.b", "c.d"):
        app.capability(name, effect="read", input={"type": "object"})(echo)
    app.capability("z.last", effect="read", input={"type": "object"})(last)
    run = app.run(text.replace("    return done\n", '    await ctx.run("z.last", {})\n    return done\n')).run
    least_of = float("inf")
    for _ in range(rounds):
        started = _spent()
        result = app.resume(run)
        assert result.replayed == 1000
        least_of = min(least_of, reached[0] - started)
    app.close()
    return least_of


# --- the table ------------------------------------------------------------------------------------------------------


def table(figures: Sequence[Figure]) -> str:
    """Return the figures as a Markdown table."""
    lines = ["| what | value | at most | |", "| --- | --- | --- | --- |"]
    for figure in figures:
        share = figure.name.startswith("annotation")
        value = f"{figure.value:.0%}" if share else f"{figure.value:.2f}" if not figure.unit else f"{figure.value:.0f}"
        limit = "" if figure.limit is None else f"{figure.limit:.0%}" if share else f"{figure.limit:g}"
        lines.append(f"| {figure.name} | {value} {figure.unit}".rstrip() + f" | {limit} | {figure.more} |")
    return "\n".join(lines) + "\n"


def main(arguments: list[str]) -> int:
    """Print what was measured."""
    parser = argparse.ArgumentParser(description="Measure the analysis of scripts.")
    parser.add_argument("--json", action="store_true")
    parser.add_argument("--check", action="store_true", help="exit with 1 if a ratio is above its limit")
    parser.add_argument("--save", action="store_true", help="write results-analysis.md")
    parser.add_argument("--rounds", type=int, default=ROUNDS)
    asked = parser.parse_args(arguments)
    facts = machine.describe()
    with tempfile.TemporaryDirectory(prefix="addendum-bench-") as name:
        figures = [*analysed(asked.rounds), *gated(asked.rounds), *annotated(asked.rounds, Path(name))]
    text = table(figures) + "\nMachine: " + "; ".join(f"{name} {value}" for name, value in facts.items()) + ".\n"
    if asked.json:
        print(json.dumps([{**_fields(figure), "holds": figure.holds} for figure in figures], indent=2))
    else:
        print(text)
    if asked.save:
        page = "# Results: the analysis of scripts\n\nWritten by `analysis.py --save`.\n\n" + text
        (HERE / "results-analysis.md").write_text(page, encoding="utf-8")
    return 1 if asked.check and not all(figure.holds for figure in figures) else 0


def _fields(figure: Figure) -> dict[str, Any]:
    return {name: getattr(figure, name) for name in ("name", "value", "unit", "limit", "more")}


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
