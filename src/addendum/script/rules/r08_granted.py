"""Each capability that the script calls is granted.

## What it does
Compares the capability names in the source with the grant of the run, if there is one to compare with.

## Why is this bad?
The call would be denied when it is reached, after others were paid for.

## Use instead
A capability that is granted, or ask whoever grants the run.
"""

from __future__ import annotations

from collections.abc import Iterator

from addendum.script.report import Violation
from addendum.script.rules.subject import Subject

ID = "R08"
TITLE = "Only granted capabilities are called"


def check(subject: Subject) -> Iterator[Violation]:
    """Yield each call of a capability that isn't granted; nothing without a grant."""
    if subject.granted is None:
        return
    known = ", ".join(sorted(subject.granted)) or "none"
    for call in subject.bounds.calls_per_run:
        method = subject.scope.ctx_call(call)
        if method is not None and method.capability is not None and method.capability not in subject.granted:
            yield subject.violation(
                ID,
                call.args[0],
                f"The capability `{method.capability}` is not granted.",
                f"Use a granted one ({known[:200]}), or have it granted.",
            )
