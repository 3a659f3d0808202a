"""What a session may say of a call: the host binds it to the candidate's own positions (DESIGN section 3).

A backend checks its guest's messages too, and knows more of it. This is the last place before an effect, and the same
for every backend: a call that isn't written in the source, a capability that isn't the site's, an identity that was
used before, or that isn't written as identities are, stops the run.
"""

from __future__ import annotations

from typing import Never

from addendum import identity as ids
from addendum.errors import ProtocolViolation
from addendum.identity import JOIN
from addendum.ports import Issued, Served
from addendum.script.program import Program


def check(event: Issued | Served, program: Program) -> None:
    """Raise `ProtocolViolation` unless a call's site is one of the program's, and calls what it says."""
    parts: tuple[object, ...] = (event.identity, event.capability, event.take)
    if [type(part) for part in parts] != [str, str, int] or event.take < 1:
        refuse(f"a call is malformed: {event.identity!r}")
    position = event.identity.rpartition(JOIN)[2].partition(":")[0]
    site = program.positions.get(position)
    if site is None:
        refuse(f"no call is written at {event.identity!r}")
    called = "ctx.race" if site.kind == "fanout" and site.name == "race" else site.capability
    if called is None or called != event.capability:
        refuse(f"{event.capability!r} is called at the place of {site.name!r}: {event.identity!r}")


def check_path(identity: str, program: Program) -> None:
    """Raise `ProtocolViolation` unless an identity is written as identities are, out of the program's positions."""
    try:
        parsed = ids.parse(identity)
    except ValueError:
        refuse(f"it isn't an identity: {identity!r}")
    if str(parsed) != identity:
        refuse(f"it writes an identity in another way: {identity!r}")
    for frame in parsed.path:
        position = program.positions.get(frame.position)
        kind = "fanout" if frame.kind == "branch" else frame.kind
        numbered = kind != "loop" or (isinstance(frame.branch, int) and not frame.entry)
        if position is None or position.kind == "site" or position.kind != kind or not numbered:
            refuse(f"it names a frame that the script doesn't have: {frame}")
    if parsed.site.branch is not None:
        refuse(f"it calls where no call is written: {identity!r}")


def refuse(what: str) -> Never:
    """Raise: the sandbox said what it may not say."""
    raise ProtocolViolation(
        f"The sandbox sent what it may not send: {what[:500]}.",
        hint="Don't trust this script: it got past the checker, or the sandbox is broken.",
    )
