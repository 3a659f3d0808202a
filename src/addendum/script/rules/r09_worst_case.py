"""The worst case of calls is within the grant, or the grant says that the limit at run time decides.

## What it does
Takes the worst case per capability that follows from loop bounds and fan-out widths, and compares it with the
calls that the grant allows.

## Why is this bad?
A script that may need more than it was granted can come to a halt half way, with the first half paid for.

## Use instead
Lower the constants that bound loops and fan-outs, or have more calls granted.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from addendum.script.report import Facts, Violation
from addendum.script.rules.subject import Subject

ID = "R09"
TITLE = "The worst case is within the grant"


def check(subject: Subject) -> Iterator[Violation]:
    """Nothing: the grant isn't known here. Whoever knows it calls `compare`."""
    return iter(())


def compare(facts: Facts, allowed: Mapping[str, int | None]) -> tuple[Violation, ...]:
    """Return a violation for each capability whose worst case is over the calls that are allowed.

    `allowed` has the granted calls by capability; None means that they aren't limited. A capability that isn't in
    it is R08's business. Where no bound follows from the source, R03 or R05 has said so.
    """
    found = []
    for capability, worst in sorted(facts.worst_case.items()):
        limit = allowed.get(capability)
        if worst is None or limit is None or worst <= limit:
            continue
        site = max(
            (site for site in facts.callsites if site.capability == capability),
            key=lambda site: (site.worst_case or 0, -site.line),
        )
        found.append(
            Violation(
                rule=ID,
                line=site.line,
                column=site.column,
                message=f"`{capability}` may be called {worst} times in one run; {limit} are granted.",
                fix="Lower the constants that bound its loops, or have more calls granted.",
                expression=capability,
                capability=capability,
            )
        )
    return tuple(found)
