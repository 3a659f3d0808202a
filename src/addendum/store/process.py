"""This process as others can recognise it, and whether another one still lives."""

from __future__ import annotations

import os
import sys
import time
from functools import lru_cache
from pathlib import Path

from addendum.ports import Clock
from addendum.store.leases import Process, Stamp


def current() -> Process:
    """Return this process. What it is stays so, and is looked up once; a fork makes another one, which looks anew."""
    return _current(os.getpid())


@lru_cache(maxsize=1)
def _current(pid: int) -> Process:
    host = _host()
    boot = _line("/proc/sys/kernel/random/boot_id")
    if not boot:
        return Process(machine=_address(host), boot="", host=host, pid=pid, started=started(pid))
    try:
        namespace = str(os.stat("/proc/self/ns/pid").st_ino)
    except OSError:
        namespace = ""
    machine = "/".join((_line("/etc/machine-id") or host, boot, namespace))
    return Process(machine=machine, boot=boot, host=host, pid=pid, started=started(pid))


if hasattr(os, "register_at_fork"):
    # Its pid may be the one that is remembered: in another namespace, or if that one's process has ended.
    os.register_at_fork(after_in_child=_current.cache_clear)


def gone(holder: Process, here: Process) -> bool:
    """Say whether `holder` was a process of this machine and lives no more. False whenever that isn't certain."""
    if sys.platform == "win32" or holder.machine != here.machine:  # there, signal 0 isn't harmless
        return False
    try:
        os.kill(holder.pid, 0)
    except ProcessLookupError:
        return True
    except (OSError, OverflowError):
        pass  # it is there and isn't ours
    now = _stat(holder.pid)
    if now is None:
        return False  # /proc may hide the processes of others
    state, since = now
    return state in "ZX" or (bool(holder.started) and since != holder.started)


def started(pid: int) -> str:
    """Return when a process started, in clock ticks after the boot; "" where that can't be known."""
    found = _stat(pid)
    return found[1] if found else ""


def now(clock: Clock | None) -> Stamp:
    """Return the present moment, by the system's clocks if no other is given."""
    return Stamp(clock.now(), clock.monotonic()) if clock else Stamp(time.time(), time.monotonic())


def _stat(pid: int) -> tuple[str, str] | None:
    """Return a process's state letter and start time from /proc (proc(5): fields 3 and 22)."""
    text = _line(f"/proc/{pid}/stat")
    fields = text[text.rfind(")") + 1 :].split()  # the name before may hold spaces and parentheses
    return (fields[0], fields[19]) if len(fields) > 19 else None


def _line(path: str) -> str:
    try:
        return Path(path).read_text(encoding="utf-8", errors="replace").strip()
    except OSError:
        return ""


def _host() -> str:
    """Return this machine's name, for people."""
    return (os.uname().nodename if hasattr(os, "uname") else os.environ.get("COMPUTERNAME", "")) or "localhost"


def _address(host: str) -> str:
    """Return a name of this machine where no file has one: two machines may share a host name."""
    import uuid  # only here: it is slow to load

    return f"{host}/{uuid.getnode():x}"
