"""What a session may say of a call: the host binds it to the candidate's own positions (DESIGN section 3).

A backend checks its guest's messages too, and knows more of it. This is the last place before an effect, and the same
for every backend: a call that isn't written in the source, a capability that isn't the site's, an identity that was
used before, or that isn't written as identities are, stops the run.
"""

from __future__ import annotations

from typing import Final, Never

from addendum import identity as ids
from addendum.errors import ProtocolViolation
from addendum.identity import JOIN
from addendum.ports import Issued, Served
from addendum.script.program import Program

FRAMES: Final = {"loop": "loop", "call": "call", "branch": "fanout"}
"""The kind of the position that a frame of a path is at, by the frame's own kind."""
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
        position = self._positions.get(ids.site_position(identity))
        if position is None:
            refuse(f"no call is written at {identity!r}")
        called = "ctx.race" if position.kind == "fanout" and position.name == "race" else position.capability
        if called is None or called != capability:
            refuse(f"{capability!r} is called at the place of {position.name!r}: {identity!r}")

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
        if position not in self._positions or (numbered and not ids.positive(entry)):
            refuse(f"it calls where no call is written: {identity!r}")

    def _check_frame(self, text: str) -> None:
        try:
            frame = ids.frame(text)
        except ValueError:
            refuse(f"it isn't a frame of an identity: {text!r}")
        position, kind = self._positions.get(frame.position), FRAMES.get(frame.kind)
        numbered = kind != "loop" or (isinstance(frame.branch, int) and not frame.entry)
        if str(frame) != text or position is None or position.kind != kind or not numbered:
            refuse(f"it names a frame that the script doesn't have: {text!r}")
        if len(self._good) >= MOST:
            self._good.clear()
        self._good.add(text)


def refuse(what: str) -> Never:
    """Raise: the sandbox said what it may not say."""
    raise ProtocolViolation(
        f"The sandbox sent what it may not send: {what[:500]}.",
        hint="Don't trust this script: it got past the checker, or the sandbox is broken.",
    )
