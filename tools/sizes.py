"""Keep modules, functions and classes small.

A limit on the largest file is what few code bases have and all would need: one file grows past the others, a few
lines at a time. The limits are those of CONTRIBUTING; an exception is an entry with a reason in sizes.toml, and one
that is no longer needed is an error, so that the list only shrinks.

Exit code 0: all within their limits; 1: not.
"""

from __future__ import annotations

import ast
import sys
import tomllib
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from statistics import median, quantiles
from typing import Final

ROOT: Final = Path(__file__).resolve().parent.parent
SOURCE: Final = ROOT / "src" / "addendum"
LIMITS: Final = {"module": 600, "function": 60, "class": 400}


@dataclass(frozen=True, slots=True)
class Item:
    """A module, function or class; `name` is how sizes.toml names it: `path` or `path:qualified.name`."""

    kind: str
    name: str
    lines: int


def items(path: Path) -> Iterator[Item]:
    """Yield the module at `path`, its classes and its functions, nested ones too."""
    text = path.read_text(encoding="utf-8")
    name = path.relative_to(ROOT).as_posix()
    yield Item("module", name, len(text.splitlines()))
    yield from _inside(ast.parse(text, name), f"{name}:")


def _inside(node: ast.AST, prefix: str) -> Iterator[Item]:
    for child in ast.iter_child_nodes(node):
        if isinstance(child, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef):
            kind = "class" if isinstance(child, ast.ClassDef) else "function"
            yield Item(kind, prefix + child.name, (child.end_lineno or child.lineno) - child.lineno + 1)
            yield from _inside(child, f"{prefix}{child.name}.")
        else:
            yield from _inside(child, prefix)


def summary(kind: str, sizes: list[int]) -> str:
    """Return one line on all items of a kind."""
    if len(sizes) < 2:
        return f"{kind:9}{len(sizes):6}"
    p90 = quantiles(sizes, n=10)[-1]
    return f"{kind:9}{len(sizes):6}   median {median(sizes):5.0f}   p90 {p90:5.0f}   largest {max(sizes):5}"


def main() -> int:
    """Print what is too large, what exception is stale, and the medians."""
    exceptions: dict[str, dict[str, object]] = tomllib.loads(
        (ROOT / "tools" / "sizes.toml").read_text(encoding="utf-8")
    )
    measured = [item for path in sorted(SOURCE.rglob("*.py")) for item in items(path)]
    faults = []
    needed = set()
    for item in measured:
        limit = LIMITS[item.kind]
        if item.lines > limit and item.name in exceptions:
            needed.add(item.name)
            limit = int(str(exceptions[item.name]["limit"]))
        if item.lines > limit:
            faults.append(f"{item.name}: the {item.kind} has {item.lines} lines, the limit is {limit}")
    faults += [f"sizes.toml: {name} needs no exception; remove it" for name in exceptions if name not in needed]
    faults += [f"sizes.toml: {name} has no reason" for name, entry in exceptions.items() if not entry.get("reason")]
    for kind in LIMITS:
        print(summary(kind, [item.lines for item in measured if item.kind == kind]))
    for fault in faults:
        print(fault, file=sys.stderr)
    return 1 if faults else 0


if __name__ == "__main__":
    sys.exit(main())
