"""What a script can read that isn't the same the next time: clock, entropy, the order of a set."""

from __future__ import annotations

from addendum.ports import Raised
from addendum.sandbox.acceptance import Bench, Check, Outcome


def imports(bench: Bench) -> Outcome:
    """Importing a clock, entropy or the system."""
    modules = ("os", "sys", "socket", "secrets", "uuid", "ctypes", "subprocess", "threading")
    ran = []
    for module in modules if not bench.monty else ("socket", "secrets", "uuid", "ctypes", "subprocess", "threading"):
        end = bench.run(f"async def orchestrate(ctx, args):\n    import {module}\n")
        if not isinstance(end, Raised):
            ran.append(module)
    return ("failed", f"it can import {ran}") if ran else ("passed", "there is none")


def clock(bench: Bench) -> Outcome:
    """Reading the time twice."""
    text = (
        "async def orchestrate(ctx, args):\n"
        "    import time, datetime, random\n"
        "    return [time.time(), time.monotonic(), str(datetime.datetime.now()), random.random()]\n"
    )
    one, two = bench.run(text), bench.run(text)
    if isinstance(one, Raised) and one == two:
        return "passed", f"{one.type}: {one.message}"
    return ("passed" if one == two else "failed"), f"{one!r}, then {two!r}"


def order(bench: Bench) -> Outcome:
    """Going through a set, in two workers."""
    text = "async def orchestrate(ctx, args):\n    return [x for x in {'a', 'b', 'c', 'd', 'e', 'f', 'g'}]\n"
    one, two = bench.run(text), bench.run(text)
    return ("passed" if one == two else "failed"), f"{one!r}, then {two!r}"


CHECKS = tuple(
    Check(name, (run.__doc__ or "").strip(), run)
    for name, run in (("inputs.imports", imports), ("inputs.clock", clock), ("inputs.order", order))
)
