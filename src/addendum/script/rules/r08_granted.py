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
from dataclasses import replace
from difflib import get_close_matches

from addendum.script.report import Violation
from addendum.script.rules.subject import Subject

ID = "R08"
TITLE = "Only granted capabilities are called"


def check(subject: Subject) -> Iterator[Violation]:
    """Yield each call of a capability that isn't granted; nothing without a grant."""
    if subject.granted is None:
        return
    for call in subject.bounds.calls_per_run:
        method = subject.scope.ctx_call(call)
        if method is not None and method.capability is not None and method.capability not in subject.granted:
            what = f"The capability `{method.capability}` is not granted."
            found = subject.violation(ID, call.args[0], what, _instead(method.capability, subject.granted))
            yield replace(found, capability=method.capability)


def _instead(name: str, granted: frozenset[str]) -> str:
    """Name the granted capability that was probably meant, else all of them as far as a sentence holds them."""
    close = get_close_matches(name, granted, n=1, cutoff=0.75)
    if close:
        return f"Write `{close[0]}`, if that is meant, or have it granted."
    names = sorted(granted)
    some = ", ".join(names[:12]) + (f" and {len(names) - 12} more" if len(names) > 12 else "")
    return f"Use a granted one ({some or 'there are none'}), or have it granted."
