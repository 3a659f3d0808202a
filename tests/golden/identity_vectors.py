"""Recomputes the identity vectors, with nothing but the standard library and the package's source.

    python tests/golden/identity_vectors.py                 check all; exit code 1 and the differences, or 0
    python tests/golden/identity_vectors.py add NAME FILE   write a new vector from a script

A vector is a script with its positions (kind, fingerprint, line and column), the hashes of its functions, and the
SHA-256 of its annotated text. Vectors are kept for ever: a change that breaks one orphans the records of every
run that has such a script.
"""

from __future__ import annotations

import hashlib
import json
import sys
from pathlib import Path
from typing import Any

HERE = Path(__file__).resolve().parent
VECTORS = HERE / "identity"


def compute(source: str) -> dict[str, Any]:
    """Return what a vector holds beside its source."""
    from addendum.script.program import compile_program

    program = compile_program(source)
    compile(program.annotated, "<annotated>", "exec")
    return {
        "positions": {
            text: [position.kind, position.fingerprint, position.line, position.column]
            for text, position in program.positions.items()
        },
        "functions": dict(program.functions),
        "annotated": hashlib.sha256(program.annotated.encode()).hexdigest(),
        "line_map": hashlib.sha256(repr(program.line_map).encode()).hexdigest(),
    }


def vectors() -> dict[str, dict[str, Any]]:
    """Return all vectors by name."""
    return {path.stem: json.loads(path.read_text(encoding="utf-8")) for path in sorted(VECTORS.glob("*.json"))}


def differences(vector: dict[str, Any]) -> list[str]:
    """Return what this Python computes otherwise, a sentence each."""
    found = compute("".join(vector["source"]))
    faults = [f"{key} differ" for key in ("functions", "annotated", "line_map") if found[key] != vector[key]]
    before, now = vector["positions"], found["positions"]
    faults += [f"{text} is missing" for text in before if text not in now]
    faults += [f"{text} is new" for text in now if text not in before]
    faults += [f"{text}: {before[text]} != {now[text]}" for text in now if text in before and before[text] != now[text]]
    if list(before) != list(now):
        faults.append("the order of the positions differs")
    return faults


def add(name: str, file: str) -> None:
    """Write a new vector; an existing one is never written over."""
    with open(file, encoding="utf-8", newline="") as opened:
        source = opened.read()
    vector = {"source": source.splitlines(keepends=True), **compute(source)}
    with open(VECTORS / f"{name}.json", "x", encoding="utf-8") as new:
        new.write(json.dumps(vector, ensure_ascii=False, indent=1) + "\n")


def main(arguments: list[str]) -> int:
    """Check or add; print a line for each difference."""
    sys.path.insert(0, str(HERE.parent.parent / "src"))
    if arguments[:1] == ["add"]:
        add(*arguments[1:])
        return 0
    found = vectors()
    faults = [f"{name}: {fault}" for name, vector in found.items() for fault in differences(vector)]
    print("\n".join([*faults, f"{len(found)} vectors, Python {sys.version.split()[0]}"]))
    return 1 if faults else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
