"""Whether a path text that a guest sends can be one of this script's: every frame a position of the whitelist, every
branch one of a fan-out that was announced, no branch of a race that it lost (DESIGN section 3: nothing that the
sandbox says is trusted but what is bound to the host's own positions)."""

from __future__ import annotations

from typing import Final, Never

from addendum.errors import LimitExceeded, ProtocolViolation
from addendum.identity import JOIN, Frame, numeral, parse, parts, positive

MAX_IDENTITY: Final = 16 * 1024
"""The longest identity text: some hundreds of nested calls."""
FAN_OUTS: Final = frozenset({"parallel", "pipeline", "dag", "race"})


class Paths:
    """The paths of one session. Texts that were found good are remembered, so that a check is a look-up mostly."""

    __slots__ = ("_calls", "_fans", "_good", "_positions", "_sites", "_winners")

    def __init__(self, positions: frozenset[str]) -> None:
        self._positions = positions
        self._calls = frozenset(position for position in positions if _is_call(position))
        self._sites = {position: name for position in positions - self._calls if (name := _called(position))}
        self._good: dict[str, bool] = {"": True}
        self._fans: dict[str, frozenset[int | str] | range] = {}
        self._winners: dict[str, int] = {}

    def site(self, identity: str) -> tuple[str, bool]:
        """Return what an identity's site calls, and whether the main strand makes the call.

        Raises `ProtocolViolation` for a text that can't be an identity of this script."""
        if len(identity) > MAX_IDENTITY:
            raise LimitExceeded(
                "The script nests its calls too deeply.",
                hint="Bound the recursion.",
                limit="nesting",
                size=len(identity),
            )
        path, join, last = identity.rpartition(JOIN)
        if join and not path:
            refuse(f"it isn't an identity: {identity!r}")
        name = self._sites.get(last) or self._again(last)
        main = self._good.get(path)
        return name, self._path(path) if main is None else main

    def _again(self, site: str) -> str:
        """Return what a site calls that has a number behind it: it was entered before."""
        position, mark, entry = site.partition(":")
        if position not in self._positions:
            refuse(f"it names a place that the script doesn't have: {site!r}")
        if mark and not positive(entry):
            refuse(f"it isn't an identity: {site!r}")
        name = self._sites.get(position)
        if name is None:
            refuse(f"it calls where no call is written: {site!r}")
        return name

    def announce(self, frame: str, branches: int | tuple[str, ...]) -> None:
        """Note a fan-out and its branches."""
        if frame in self._fans:
            refuse(f"it announced a fan-out twice: {frame!r}")
        self._fans[frame] = range(branches) if isinstance(branches, int) else frozenset(branches)

    def won(self, frame: str, winner: int) -> None:
        """Note a race's winner: from now on no other branch of it is a path."""
        if frame not in self._fans or frame in self._winners or winner not in self._fans[frame]:
            refuse(f"it ended a race that isn't on: {frame!r}")
        self._winners[frame] = winner
        inside = f"{frame}["
        for path in [path for path in self._good if path.startswith(inside)]:
            del self._good[path]

    def _path(self, text: str) -> bool:
        """Check a path; return whether it is the main strand's (no branch in it)."""
        if text.startswith(JOIN):
            refuse(f"it isn't a path: {text!r}")
        good, calls = self._good, self._calls
        outer, last = _split(text)
        unknown = [(text, last)]
        while (main := good.get(outer)) is None:
            path = outer
            outer, last = _split(path)
            unknown.append((path, last))
        for path, last in reversed(unknown):
            if last not in calls:
                main = self._frame(path, last) and main
            good[path] = main
        return main

    def _frame(self, path: str, text: str) -> bool:
        """Check the last frame of a path; return whether it is no branch."""
        position, _, number = text[:-1].partition("[")
        if text[-1:] == "]" and numeral(number) and position in self._positions:
            # Loops and branches, by far the most frequent new frames, without the parser.
            if "#" not in position:
                return True
            fan, branch = path[: -len(text)] + position, int(number)
            if branch in self._fans.get(fan, ()) and self._winners.get(fan) in (None, branch):
                return False
            refuse(f"it isn't a frame of a path: {text!r}")
        try:
            frame = parse(text).site
        except ValueError:
            refuse(f"it isn't a path: {path!r}")
        if str(frame) != text:
            refuse(f"it writes a path in another way: {text!r}")
        if frame.position not in self._positions:
            refuse(f"it names a place that the script doesn't have: {text!r}")
        name, mark, _ = frame.position.rpartition("/")[2].rpartition("#")
        if not mark:
            good = type(frame.branch) is int and not frame.entry
        elif name in FAN_OUTS:
            good = self._branch(path, frame)
        else:
            good = frame.branch is None
        if not good:
            refuse(f"it isn't a frame of a path: {text!r}")
        return not mark or name not in FAN_OUTS

    def _branch(self, path: str, frame: Frame) -> bool:
        if frame.branch is None:
            return False
        fan = path[: -len(str(frame))] + str(Frame(frame.position, frame.entry))
        winner = self._winners.get(fan)
        return frame.branch in self._fans.get(fan, ()) and winner in (None, frame.branch)


def _called(position: str) -> str:
    """Return what the last part of a position says, "" for a loop's."""
    return position.rpartition("/")[2].rpartition("#")[0]


def _is_call(position: str) -> bool:
    """Whether a position is that of a call frame, so that its text alone is a frame, entered for the first time."""
    name = _called(position)
    return name == "await" or name.endswith("()")


def _split(path: str) -> tuple[str, str]:
    if '"' not in path:
        outer, _, last = path.rpartition(JOIN)
        return outer, last
    try:
        *outside, last = parts(path)
    except ValueError:
        refuse(f"it isn't a path: {path!r}")
    return JOIN.join(outside), last


def refuse(what: str) -> Never:
    """Raise: the guest said what it may not say."""
    raise ProtocolViolation(
        f"The sandbox sent a message that it may not send: {what[:500]}.",
        hint="Don't trust this script: it got past the checker, or the sandbox is broken.",
    )
