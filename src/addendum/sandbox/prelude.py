"""The guest's own code, as text: one body behind a head for each interpreter."""

from __future__ import annotations

from functools import lru_cache
from importlib.resources import files
from typing import Literal


@lru_cache(maxsize=4)
def guest(name: Literal["head_monty", "head_cpython", "body", "worker"]) -> str:
    """Return the text of one of the guest's files. They import nothing of this package."""
    return (files("addendum.sandbox") / "guest" / f"{name}.py").read_text("utf-8")


def prelude(interpreter: Literal["monty", "cpython"]) -> str:
    """Return what is run in front of a script."""
    return guest("head_monty" if interpreter == "monty" else "head_cpython") + guest("body")
