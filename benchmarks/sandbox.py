"""What sandboxes cost, as ratios within one run: a machine's speed cancels out.

    python benchmarks/sandbox.py [--json] [--check] [BACKEND...]

Backends that aren't here are left out and named. Times are medians in milliseconds; with `--check` the exit code is 1
if a ratio is above its limit. Interleaved: each round measures every backend once, so that a busy moment meets all.
"""

from __future__ import annotations

import gc
import json
import statistics
import sys
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

from addendum.errors import SandboxError
from addendum.ports import Limits, Sandbox
from addendum.sandbox.acceptance import descendants
from addendum.sandbox.bwrap import BwrapSandbox
from addendum.sandbox.container import ContainerSandbox
from addendum.sandbox.embedded import EmbeddedSandbox
from addendum.testing.driving import by_hand, drive

CALL: Final = by_hand(
    'async def orchestrate(ctx, args):\n    return await ctx.run("", "orchestrate/a.b#0", "a.b", args)\n'
)
ROUNDS: Final = 15
SHORT: Final = 200
WARM_SECONDS: Final = 20.0
WARM: Final = {"bwrap": 0.5, "docker": 1.0, "podman": 1.5}
"""Seconds from starting a worker to when it waits for its script, on a busy machine."""
OPEN: Final[dict[str, Callable[[int], Any]]] = {
    "embedded": lambda spares: EmbeddedSandbox(),
    "bwrap": lambda spares: BwrapSandbox(spares=spares),
    "docker": lambda spares: ContainerSandbox("docker", spares=spares),
    "podman": lambda spares: ContainerSandbox("podman", spares=spares),
}
LIMITS: Final = (
    ("embedded / bwrap, cold", "embedded warm", "bwrap cold", 0.2),
    ("bwrap warm / embedded", "bwrap warm", "embedded warm", 1.5),
    ("docker warm / bwrap, cold", "docker warm", "bwrap cold", 3.0),
    ("podman warm / bwrap, cold", "podman warm", "bwrap cold", 3.0),
)


@dataclass(slots=True)
class Measured:
    """Samples by name, in milliseconds."""

    samples: dict[str, list[float]] = field(default_factory=dict)

    def note(self, name: str, seconds: float) -> None:
        """Add one sample."""
        self.samples.setdefault(name, []).append(seconds * 1000)

    def median(self, name: str) -> float | None:
        """Return the median of a name's samples, None if there are none."""
        found = self.samples.get(name)
        return statistics.median(found) if found else None


def first_call(sandbox: Sandbox) -> float:
    """Return the seconds from opening a session to its first call."""
    started = time.perf_counter()
    session = sandbox.open(CALL, {}, limits=Limits(), nonce="n")
    try:
        turn = session.advance(None)
        took = time.perf_counter() - started
    finally:
        session.close()
    assert turn.events
    return took


def settle(sandbox: Any) -> None:
    """Wait until the workers that are started ahead wait for their scripts."""
    workers = getattr(sandbox, "_workers", None)
    deadline = time.monotonic() + WARM_SECONDS
    while workers is not None and not workers.idle() and time.monotonic() < deadline:
        time.sleep(0.005)
    if workers is not None:
        time.sleep(WARM[sandbox.name])


def starts(names: list[str]) -> Measured:
    """Measure start and first call: with a worker that is started for it, and with one that waits."""
    measured = Measured()
    cold = {name: OPEN[name](0) for name in names if name != "embedded"}
    warm = {name: OPEN[name](1) for name in names}
    try:
        for sandbox in (*cold.values(), *warm.values()):
            first_call(sandbox)
        gc.disable()
        for _ in range(ROUNDS):
            for sandbox in warm.values():
                settle(sandbox)
            for name, sandbox in warm.items():
                measured.note(f"{name} warm", first_call(sandbox))
                settle(sandbox)
            for name, sandbox in cold.items():
                measured.note(f"{name} cold", first_call(sandbox))
        gc.enable()
    finally:
        for sandbox in (*cold.values(), *warm.values()):
            sandbox.close()
    return measured


def throughput(name: str) -> float:
    """Return short runs per second, one after another: open, one call, result, closed."""
    sandbox = OPEN[name](2)
    try:
        drive(sandbox, CALL, {})
        count = SHORT if name in ("embedded", "bwrap") else SHORT // 10
        started = time.perf_counter()
        for n in range(count):
            drive(sandbox, CALL, {"n": n})
        return count / (time.perf_counter() - started)
    finally:
        sandbox.close()


def memory(name: str) -> float | None:
    """Return the private memory of one worker that waits for an answer, in MiB; None if it can't be seen."""
    sandbox = OPEN[name](0)
    try:
        session = sandbox.open(CALL, {}, limits=Limits(), nonce="n")
        session.advance(None)
        try:
            pid = session.pid
            if pid is None:
                return None
            return sum(_private(one) for one in (pid, *descendants(pid))) / 1024
        finally:
            session.close()
    finally:
        sandbox.close()


def _private(pid: int) -> int:
    try:
        lines = Path("/proc", str(pid), "smaps_rollup").read_text().splitlines()
    except OSError:
        return 0
    return sum(int(line.split()[1]) for line in lines if line.startswith(("Private_Clean", "Private_Dirty")))


def available(name: str) -> str:
    """Return why a backend isn't here, "" if it is."""
    sandbox = OPEN[name](0)
    try:
        drive(sandbox, CALL, {})
    except SandboxError as error:
        return str(error)
    finally:
        sandbox.close()
    return ""


def measure(names: list[str]) -> dict[str, Any]:
    """Measure some backends, and compare."""
    missing = {name: why for name in names if (why := available(name))}
    here = [name for name in names if name not in missing]
    measured = starts(here)
    ratios = []
    for label, above, below, most in LIMITS:
        one, two = measured.median(above), measured.median(below)
        if one is not None and two is not None:
            ratios.append({"ratio": label, "value": round(one / two, 3), "limit": most, "holds": one / two <= most})
    return {
        "start_and_first_call_ms": {name: round(measured.median(name) or 0.0, 2) for name in measured.samples},
        "ratios": ratios,
        "short_runs_per_second": {name: round(throughput(name), 1) for name in here},
        "worker_mib": {name: None if (size := memory(name)) is None else round(size, 1) for name in here},
        "missing": missing,
    }


def main(arguments: list[str]) -> int:
    """Print what was measured."""
    names = [one for one in arguments if not one.startswith("--")] or list(OPEN)
    found = measure(names)
    if "--json" in arguments:
        print(json.dumps(found, indent=2))
    else:
        for title, values in found.items():
            print(title)
            for item in values if isinstance(values, list) else values.items():
                print("  ", *(item.values() if isinstance(item, dict) else item))
    over = [ratio for ratio in found["ratios"] if not ratio["holds"]]
    return 1 if over and "--check" in arguments else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
