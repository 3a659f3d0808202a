"""What a session may say of a call: the host binds it to the candidate's own positions (DESIGN section 3).

A backend checks its guest's messages too, and knows more of it. This is the last place before an effect, and the same
for every backend: a call that isn't written in the source, a capability that isn't the site's, an identity that was
used before, or that isn't written as identities are, stops the run.
"""

from __future__ import annotations

import json
from typing import Final, Never

from addendum import identity as ids
from addendum.errors import ProtocolViolation
from addendum.identity import JOIN
from addendum.ports import Issued, Served
from addendum.script.program import Program

MOST: Final = 4096
"""How many frames are remembered: a loop has a new one in each iteration."""


class Binding:
    """One program's calls. Frames that were found good are remembered, so that a check is a look-up mostly."""

    __slots__ = ("_good", "_positions")

    def __init__(self, program: Program) -> None:
        self._positions = program.positions
        self._good: set[str] = set()

    def check(self, event: Issued | Served) -> None:
        """Raise `ProtocolViolation` unless a call's site is one of the program's, and calls what it says."""
        identity, capability, take = event.identity, event.capability, event.take
        if type(identity) is not str or type(capability) is not str or type(take) is not int or take < 1:
            refuse(f"a call is malformed: {identity!r}")
        site = self._positions.get(ids.site(identity))
        if site is None:
            refuse(f"no call is written at {identity!r}")
        called = "ctx.race" if site.kind == "fanout" and site.name == "race" else site.capability
        if called is None or called != capability:
            refuse(f"{capability!r} is called at the place of {site.name!r}: {identity!r}")

    def check_path(self, identity: str) -> None:
        """Raise `ProtocolViolation` unless an identity is written as identities are, out of the program's positions."""
        path, join, site = identity.rpartition(JOIN)
        if join:
            try:
                frames = ids.parts(path)
            except ValueError:
                refuse(f"it isn't an identity: {identity!r}")
            for frame in frames:
                if frame not in self._good:
                    self._check_frame(frame)
        position, numbered, entry = site.partition(":")
        if position not in self._positions or (numbered and (entry == "0" or not ids.numeral(entry))):
            refuse(f"it calls where no call is written: {identity!r}")

    def _check_frame(self, frame: str) -> None:
        head, numbered, branch = frame.partition("[")
        text, again, entry = head.partition(":")
        position = self._positions.get(text)
        kind = position.kind if position is not None else None
        if (
            (kind != "loop" and kind != "fanout" and (kind != "call" or numbered))
            or (again and (kind == "loop" or entry == "0" or not ids.numeral(entry)))
            or (kind != "call" and not _is_branch(branch, named=kind == "fanout"))
        ):
            refuse(f"it names a frame that the script doesn't have: {frame}")
        if len(self._good) >= MOST:
            self._good.clear()
        self._good.add(frame)


def _is_branch(text: str, *, named: bool) -> bool:
    """Whether a text is, up to the end of its frame, an iteration's or a branch's number, or the name of a branch."""
    number = text[:-1]
    if text[-1:] != "]":
        return False
    if ids.numeral(number):
        return True
    if not named or number[:1] != '"':
        return False
    try:
        return json.dumps(json.loads(number)) == number
    except ValueError:
        return False


def refuse(what: str) -> Never:
    """Raise: the sandbox said what it may not say."""
    raise ProtocolViolation(
        f"The sandbox sent what it may not send: {what[:500]}.",
        hint="Don't trust this script: it got past the checker, or the sandbox is broken.",
    )
