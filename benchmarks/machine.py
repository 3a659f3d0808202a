"""What a measurement was taken on, in words."""

from __future__ import annotations

import os
import platform
import sqlite3
from pathlib import Path


def describe() -> dict[str, str]:
    """Return processor, cores, memory, system and versions; how busy the machine is as this is asked."""
    return {
        "processor": _field("/proc/cpuinfo", "model name") or platform.machine(),
        "cores": str(os.cpu_count()),
        "memory": _memory(),
        "system": f"{platform.system()} {platform.release()}",
        "python": platform.python_version(),
        "sqlite": sqlite3.sqlite_version,
        "load": " ".join(f"{value:.1f}" for value in os.getloadavg()),
    }


def resident(*, peak: bool = False) -> float:
    """Return this process's resident memory in MB, now or at its highest."""
    text = _field("/proc/self/status", "VmHWM" if peak else "VmRSS")
    return int(text.split()[0]) * 1024 / 1e6 if text else 0.0


def _memory() -> str:
    text = _field("/proc/meminfo", "MemTotal")
    return f"{int(text.split()[0]) * 1024 / 1e9:.0f} GB" if text else "unknown"


def _field(path: str, name: str) -> str:
    try:
        lines = Path(path).read_text(encoding="utf-8").splitlines()
    except OSError:
        return ""
    return next((line.partition(":")[2].strip() for line in lines if line.partition(":")[0].strip() == name), "")
