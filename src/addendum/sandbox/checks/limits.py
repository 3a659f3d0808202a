"""What the worker may use up, and that nothing of it is left when it used too much."""

from __future__ import annotations

import time
from dataclasses import replace

from addendum.errors import LimitExceeded, SandboxCrashed
from addendum.ports import Answer, Limits, Raised
from addendum.records.outcome import Success
from addendum.sandbox.acceptance import QUICK, Bench, Check, Outcome, descendants

WORKSPACE = 64 * 2**20
"""The largest workspace in bytes that a backend may give."""
GRACE = 6.0
"""Seconds beyond the limit until the host must have its answer, on a busy machine."""


def _over(bench: Bench, body: str, limit: str, limits: Limits = QUICK) -> Outcome:
    started = time.monotonic()
    end = bench.run(f"async def orchestrate(ctx, args):\n    {body}\n", limits=limits)
    took = time.monotonic() - started
    if not isinstance(end, LimitExceeded) or end.facts.get("limit") != limit:
        return "failed", f"it ended in {end!r}"
    if took > limits.turn_seconds + GRACE:
        return "failed", f"it took {took:.1f} s"
    return "passed", f"{end.message} ({took:.1f} s)"


def memory(bench: Bench) -> Outcome:
    """Filling the memory."""
    return _over(bench, "x = ['x' * 1000 + str(n) for n in range(10**7)]", "memory")


def cpu(bench: Bench) -> Outcome:
    """Computing for ever."""
    return _over(bench, "while True: pass", "turn_seconds")


def swallowing(bench: Bench) -> Outcome:
    """Computing for ever, in a loop that catches what it can."""
    return _over(
        bench, "while True:\n        try:\n            while True: pass\n        except Exception: pass", "turn_seconds"
    )


def wall(bench: Bench) -> Outcome:
    """Sleeping, so that no computing time passes."""
    limits = replace(QUICK, turn_seconds=0.3)
    started = time.monotonic()
    if bench.monty:
        end = bench.run("async def orchestrate(ctx, args):\n    import time\n    time.sleep(3600)\n", limits=limits)
        seen = f"{end!r}"
        good = not isinstance(end, SandboxCrashed)
    else:
        found = bench.python("import time\ntime.sleep(3600)\nfound = 1", limits=limits)
        seen, good = f"{found!r}", isinstance(found, LimitExceeded)
    took = time.monotonic() - started
    return ("passed" if good and took < GRACE else "failed"), f"{seen} ({took:.1f} s)"


def disk(bench: Bench) -> Outcome:
    """Writing a large file, also one that is only in memory."""
    if bench.monty:
        end = bench.run("async def orchestrate(ctx, args):\n    open('/x', 'w').write('x' * 10**6)\n")
        return ("passed" if isinstance(end, Raised) else "failed"), f"{end!r}"
    found = bench.python(
        "import os\nfound = 0\n"
        "def make():\n    return os.memfd_create('x')\n"
        "def at(place):\n    return lambda: os.open(place + '/x', os.O_RDWR | os.O_CREAT)\n"
        "for make in (make, at('/tmp'), at('/'), at('/dev/shm')):\n"
        "    try: found += os.write(make(), b'x' * 2**20)\n"
        "    except OSError: pass\n"
    )
    return ("passed" if found == 0 else "failed"), f"{found!r} bytes were written"


def workspace(bench: Bench) -> Outcome:
    """Filling a place that may be written to, with whole files or with many empty ones."""
    if bench.monty:
        return "not_applicable", "Monty has no files"
    found = bench.python(
        "import os\nfound = [-1, 0]\n"
        "try:\n"
        "    facts = os.statvfs('/workspace')\n"
        "    found[0] = facts.f_blocks * facts.f_frsize\n"
        "    for n in range(10**6):\n"
        "        os.close(os.open('/workspace/%d' % n, os.O_CREAT | os.O_WRONLY))\n"
        "        found[1] += 1\n"
        "except (OSError, NameError):\n    pass\n"
    )
    if isinstance(found, LimitExceeded):
        return "passed", f"the script was ended while it made empty files: {found.message}"
    if found == [-1, 0]:
        return "not_applicable", "there is no place that may be written to"
    good = isinstance(found, list) and isinstance(found[0], int) and 0 < found[0] <= WORKSPACE and found[1] < 10**6
    return ("passed" if good else "failed"), f"{found!r}: its size in bytes, and how many empty files could be made"


def output(bench: Bench) -> Outcome:
    """Logging without end."""
    return _over(bench, "while True: ctx.log('x' * 1000)", "output")


def calls(bench: Bench) -> Outcome:
    """Announcing without end."""
    return _over(bench, "while True: ctx.log('')", "calls", replace(QUICK, calls=1000))


def result(bench: Bench) -> Outcome:
    """Returning more than a message may hold."""
    return _over(bench, "return 'x' * 2 * 10**6", "message", replace(QUICK, message=10**6))


def processes(bench: Bench) -> Outcome:
    """What is left of the worker after it went over a limit."""
    call = "await ctx.run('', 'orchestrate/a.b#0', 'a.b', {})"
    session = bench.open(f"async def orchestrate(ctx, args):\n    {call}\n    while True: pass\n")
    try:
        session.advance(None)
        pid = getattr(session, "pid", None)
        if not isinstance(pid, int):
            return "not_applicable", "the worker's process can't be looked at here"
        tree = [pid, *descendants(pid)]
        session.advance(Answer(1, Success(None)))
    except LimitExceeded:
        pass
    finally:
        session.close()
    left = [] if bench.monty else tree  # Monty's pool goes on with its worker, without the script
    deadline = time.monotonic() + GRACE
    while (left := [one for one in left if _lives(one)]) and time.monotonic() < deadline:
        time.sleep(0.01)  # the kernel ends what is under the first process
    if left:
        return "failed", f"processes are left: {left}"
    again = bench.run("async def orchestrate(ctx, args):\n    return 1\n")
    return "passed", f"nothing; the next script ends in {again!r}"


def _lives(pid: int) -> bool:
    try:
        with open(f"/proc/{pid}/stat") as file:
            return file.read().rpartition(")")[2].split()[0] != "Z"
    except OSError:
        return False


CHECKS = tuple(
    Check(name, (run.__doc__ or "").strip(), run)
    for name, run in (
        ("limits.memory", memory),
        ("limits.cpu", cpu),
        ("limits.swallowing", swallowing),
        ("limits.wall", wall),
        ("limits.disk", disk),
        ("limits.workspace", workspace),
        ("limits.output", output),
        ("limits.calls", calls),
        ("limits.result", result),
        ("limits.tree", processes),
    )
)
