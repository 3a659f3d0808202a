"""Check that what runs inside a sandbox imports the standard library only.

The guest's files aren't modules of the package: they are run by path, or joined and read as text, where nothing of
addendum is installed. So import-linter doesn't see them.

Exit code 0: they do; 1: not.
"""

from __future__ import annotations

import ast
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Final

ROOT: Final = Path(__file__).resolve().parent.parent
GUEST: Final = ROOT / "src" / "addendum" / "sandbox" / "guest"


def imported(tree: ast.Module) -> Iterator[tuple[int, str]]:
    """Yield (line, top-level name) of every import, wherever it stands; a relative one as "."."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            yield from ((node.lineno, alias.name.partition(".")[0]) for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            yield node.lineno, (node.module or "").partition(".")[0] if not node.level else "."


def main() -> int:
    """Print each import of something else."""
    paths = sorted(GUEST.rglob("*.py"))
    found = [
        f"{path.relative_to(ROOT)}:{line}: a guest can't import {name}"
        for path in paths
        for line, name in imported(ast.parse(path.read_text(encoding="utf-8"), str(path)))
        if name not in sys.stdlib_module_names
    ]
    print(f"{len(paths)} guest files, {len(found)} faults")
    for sentence in found:
        print(sentence, file=sys.stderr)
    return 1 if found or not paths else 0


if __name__ == "__main__":
    sys.exit(main())
