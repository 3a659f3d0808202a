"""The guest's own code, as text: one body behind a head for each interpreter."""

from __future__ import annotations

import ast
import builtins
from functools import lru_cache
from importlib.resources import files
from typing import Literal


@lru_cache(maxsize=4)
def guest(name: Literal["head_monty", "head_cpython", "body", "worker", "supervisor"]) -> str:
    """Return the text of one of the guest's files. They import nothing of this package."""
    return (files("addendum.sandbox") / "guest" / f"{name}.py").read_text("utf-8")


@lru_cache(maxsize=2)
def prelude(interpreter: Literal["monty", "cpython"]) -> str:
    """Return what is run in front of a script.

    Monty has one namespace for both, and a script may have a function `list` of its own: there the guest uses other
    names for the builtins. On CPython it has its own namespace."""
    if interpreter == "cpython":
        return guest("head_cpython") + guest("body")
    text, names = _apart(guest("head_monty") + guest("body"))
    return "".join(f"_wf_its_{name} = {name}\n" for name in names) + text


def _apart(text: str) -> tuple[str, list[str]]:
    """Return a text with each builtin's name replaced by `_wf_its_<name>`, and the names."""
    lines = text.split("\n")
    found = [
        node
        for node in ast.walk(ast.parse(text))
        if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Load) and hasattr(builtins, node.id)
    ]
    for node in sorted(found, key=lambda node: (node.lineno, node.col_offset), reverse=True):
        line = lines[node.lineno - 1]
        assert line[node.col_offset :].startswith(node.id), f"line {node.lineno}: a builtin in an f-string"
        lines[node.lineno - 1] = f"{line[: node.col_offset]}_wf_its_{line[node.col_offset :]}"
    return "\n".join(lines), sorted({node.id for node in found})
