"""Where a run ended, in the lines of the user's script: the failing call and the chain of helpers that led to it."""

from __future__ import annotations

from typing import Any

from addendum import identity as ids
from addendum.script.program import Program


def locate(program: Program, where: dict[str, Any]) -> None:
    """Add `trace` to what is known of an ending: for a call with an identity, its frames, outermost first.

    They are read off the identity, not off a traceback: that way they are the same on every backend, also when a script
    caught the error and raised it again elsewhere. Without an identity, the interpreter's own frames stand in.
    """
    identity = where.get("identity")
    if not identity:
        where["trace"] = [
            {"line": line, "function": function, "expression": _line(program, line)}
            for line, function in where.get("frames", [])
        ]
        return
    trace = []
    for frame in (*ids.parse(identity).path, ids.parse(identity).site):
        position = program.positions.get(frame.position)
        if position is not None and position.kind != "loop":
            trace.append({"line": position.line, "function": position.function, "expression": position.expression})
    where["trace"] = trace


def _line(program: Program, line: int) -> str:
    lines = program.source.splitlines()
    return lines[line - 1].strip()[:120] if 0 < line <= len(lines) else ""
