"""An execution that starts again, and again."""

from __future__ import annotations

from typing import Any

from addendum.kernel.claims import Claims
from addendum.kernel.loop import Loop
from addendum.kernel.sources import Sources
from addendum.records.history import History
from addendum.script.program import compile_program

SCRIPT = "async def orchestrate(ctx, args):\n    return 1\n"


def test_an_execution_that_starts_again_twice_tells_nothing_twice() -> None:
    """The second one goes astray before it came as far as the first: the third is silent as far as that."""
    program = compile_program(SCRIPT)
    claims = Claims(
        prefix={},
        records=[],
        sources=Sources(History(), program, lambda digest: SCRIPT, compile_program),
        relocation="verified",
    )
    told: list[dict[str, Any]] = []
    events: list[dict[str, Any]] = [{"event": "log", "text": str(number)} for number in range(4)]
    loop = Loop(claims, told.append)
    for reached in (3, 1):
        for event in events[:reached]:
            loop._tell(event)
        loop = loop.again(Loop(claims, told.append))
    for event in events:
        loop._tell(event)
    assert told == events
