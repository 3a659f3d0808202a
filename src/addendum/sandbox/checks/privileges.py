"""What the worker's process may do, as the kernel sees it."""

from __future__ import annotations

from pathlib import Path

from addendum.sandbox.acceptance import Bench, Check, Outcome, status

READ = "found = dict(l.split(':', 1) for l in open('/proc/self/status').read().splitlines())"


def _facts(bench: Bench) -> dict[str, str]:
    """Return the status of the worker's process: seen from inside where there is a /proc, else from outside."""
    if not bench.monty:
        found = bench.python(READ)
        if isinstance(found, dict):
            return {str(name): str(value).strip() for name, value in found.items()}
    for pid in bench.inside():
        return status(pid)
    return {}


def _field(bench: Bench, name: str, good: str, means: str) -> Outcome:
    facts = _facts(bench)
    if name not in facts:
        return "not_applicable", "the worker's process can't be looked at here"
    if facts[name] == good:
        return "passed", f"{name} is {good}"
    if bench.monty and not getattr(bench.sandbox, "confined", False):
        return "not_applicable", f"{name} is {facts[name]}: {bench.sandbox.describe()}; the interpreter is the boundary"
    return "failed", f"{name} is {facts[name]}, not {good}: {means}"


def user(bench: Bench) -> Outcome:
    """Being root, inside."""
    if not bench.monty:
        found = bench.python("import os\nfound = [os.getuid(), os.geteuid(), os.getgid(), os.getegid()]")
        if not isinstance(found, list):
            return "failed", f"{found!r}"
        return ("failed", f"user and group are {found}") if 0 in found else ("passed", f"user and group are {found}")
    for pid in bench.inside():
        try:
            inside = int(Path("/proc", str(pid), "uid_map").read_text().split()[0])
        except (OSError, IndexError, ValueError):
            break
        own = status(pid).get("Uid", "").split()
        if inside:
            return "passed", f"the user is {inside} in a namespace of its own"
        if own and own[0] != "0":
            return "passed", f"the user is {own[0]}"
        return "not_applicable", f"the host is root, and so is the worker: {bench.sandbox.describe()}"
    return "not_applicable", "the worker's process can't be looked at here"


def capabilities(bench: Bench) -> Outcome:
    """Capabilities of the kernel, in any of the four sets."""
    for name in ("CapEff", "CapPrm", "CapInh", "CapAmb"):
        verdict, detail = _field(bench, name, "0" * 16, "a capability is left")
        if verdict != "passed":
            return verdict, detail
    return "passed", "there are none"


def no_new_privileges(bench: Bench) -> Outcome:
    """Gaining privileges by a set-user-id program."""
    return _field(bench, "NoNewPrivs", "1", "a set-user-id program would give its privileges")


def seccomp(bench: Bench) -> Outcome:
    """Calling what the kernel should not be asked for."""
    return _field(bench, "Seccomp", "2", "no filter is in force")


def fork(bench: Bench) -> Outcome:
    """Starting processes without end."""
    if bench.monty:
        end = bench.run("async def orchestrate(ctx, args):\n    import subprocess\n")
        return ("passed", "Monty has no processes") if getattr(end, "type", "") else ("failed", f"{end!r}")
    found = bench.python(
        "import os\nfound = 0\n"
        "try:\n"
        "    while found < 200:\n"
        "        if os.fork() == 0:\n"
        "            os.read(guest['_wf_host'].__closure__[0].cell_contents.read_fd, 1)\n"
        "            os._exit(0)\n"
        "        found += 1\n"
        "except OSError:\n    pass\n"
    )
    if not isinstance(found, int) or found >= 100:
        return "failed", f"{found!r} processes could be started"
    return "passed", f"it was refused after {found}"


def first_process(bench: Bench) -> Outcome:
    """Reaching into the process that ends the sandbox when the host is gone."""
    if bench.monty:
        end = bench.run("async def orchestrate(ctx, args):\n    open('/proc/1/mem', 'r+b')\n")
        return ("passed", "Monty has no files") if getattr(end, "type", "") else ("failed", f"{end!r}")
    found = bench.python(
        "import os\nfound = {}\n"
        "for path, flags in (('mem', os.O_RDWR), ('environ', 0), ('maps', 0)):\n"
        "    try:\n        os.open('/proc/1/' + path, flags)\n        found[path] = 'opened'\n"
        "    except OSError as error:\n        found[path] = type(error).__name__\n"
        "try:\n    os.kill(1, 9)\nexcept OSError:\n    pass\n"
    )
    if not isinstance(found, dict) or "opened" in found.values():
        return "failed", f"{found!r}"
    return "passed", f"{found!r}, and killing it has no effect"


CHECKS = tuple(
    Check(name, (run.__doc__ or "").strip(), run)
    for name, run in (
        ("privileges.user", user),
        ("privileges.capabilities", capabilities),
        ("privileges.no_new", no_new_privileges),
        ("privileges.seccomp", seccomp),
        ("privileges.fork_bomb", fork),
        ("privileges.first_process", first_process),
    )
)
