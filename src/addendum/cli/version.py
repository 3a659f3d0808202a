"""The installed version."""

from __future__ import annotations

from importlib import metadata


def version() -> str:
    """Return the version of the installed package; `unknown` when it runs from a folder that isn't installed."""
    try:
        return metadata.version("addendum")
    except metadata.PackageNotFoundError:
        return "unknown"
