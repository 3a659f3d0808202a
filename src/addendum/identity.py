"""The execution index of a call: ι = (site, path, occurrence) (DESIGN section 3).

Its text form is what is stored, compared and shown. Outermost frame first:

    orchestrate/parallel#0[2] > gen/for.0[3] > gen/pic()#0 > pic/image.generate#0:1
    └ branch frame            │ └ loop frame │ └ call frame │ └ site            └ occurrence
                              └ joined by " > "

A *position* is a place in the source, written the same way for sites and frames: the qualified name of the
function, the enclosing statement blocks that contain a call (`for.0`, `while.1`, `if.0.1`, `if.0.else`,
`try.0`, `try.0.except.1`, `match.0.case.2` …) and a last part: `capability#ordinal` for a site,
`function()#ordinal` for a call frame, `method#ordinal` for a fan-out; a loop's position ends with its block.

Numbers: a loop frame has its iteration in brackets, a branch frame its branch (an index, or a JSON string for
a name), a frame or a site that was entered before under the same path a `:n` behind its ordinal. Each is decimal,
in the one way to write it, with 16 digits at most: no loop comes to a longer one, and Python refuses to read one of
thousands of digits. The *static path* is the text without these numbers.
"""

from __future__ import annotations

import json
import re
from dataclasses import dataclass
from functools import lru_cache
from typing import Final, Literal

JOIN: Final = " > "

FrameKind = Literal["call", "loop", "branch", "site"]

_POSITIVE: Final = "[1-9][0-9]{0,15}"
_NUMBER: Final = f"(?:0|{_POSITIVE})"
_NAME: Final = r'"(?:[^"\\]|\\.)*"'
_PART = re.compile(rf'([^\[\]:"\s]+)(?::({_POSITIVE}))?(?:\[({_NUMBER}|{_NAME})\])?')


@dataclass(frozen=True, slots=True)
class Frame:
    """One step of a path, or the site at its end.

    `position` is the place in the source; `entry` counts how often it was entered under the same outer path;
    `branch` is a loop's iteration or a fan-out's branch, None for a call frame and a site.
    """

    position: str
    entry: int = 0
    branch: int | str | None = None

    def __str__(self) -> str:
        text = self.position if not self.entry else f"{self.position}:{self.entry}"
        if self.branch is None:
            return text
        return f"{text}[{self.branch if isinstance(self.branch, int) else json.dumps(self.branch)}]"

    @property
    def kind(self) -> FrameKind:
        """What the frame is; the last part of its position says it."""
        last = self.position.rsplit("/", 1)[-1]
        if "#" not in last:
            return "loop"
        if self.branch is not None:
            return "branch"
        return "call" if last.split("#", 1)[0].endswith("()") or last.startswith("await#") else "site"


@dataclass(frozen=True, slots=True)
class Identity:
    """A call's identity in parts: the frames of its path, outermost first, and its site."""

    path: tuple[Frame, ...]
    site: Frame

    @property
    def occurrence(self) -> int:
        """The zero-based counter for what site and path leave open."""
        return self.site.entry

    @property
    def place(self) -> str:
        """Site and static path: the text without the numbers."""
        return JOIN.join([*(frame.position for frame in self.path), self.site.position])

    @property
    def positions(self) -> tuple[str, ...]:
        """Every position that the identity rests on, outermost first; the last is the site."""
        return (*(frame.position for frame in self.path), self.site.position)

    @property
    def strand(self) -> tuple[Frame, ...]:
        """The branch frames of the path: which concurrent strand makes the call."""
        return tuple(
            frame for frame in self.path if frame.branch is not None and "#" in frame.position.rsplit("/", 1)[-1]
        )

    def __str__(self) -> str:
        return JOIN.join([*(str(frame) for frame in self.path), str(self.site)])


@lru_cache(maxsize=4096)
def frame(text: str) -> Frame:
    """Return the frame that a text says; a name in it may be written in other ways too. Raises `ValueError` for any
    other text."""
    found = _PART.fullmatch(text)
    if not found:
        raise ValueError(f"not a frame of an identity: {text!r}")
    position, entry, branch = found.groups()
    number = None
    if branch is not None:
        number = json.loads(branch) if branch[0] == '"' else int(branch)
    return Frame(position, int(entry or 0), number)


_SPLIT = re.compile(r'((?:[^">]|"(?:[^"\\]|\\.)*"|>(?! ))+?)(?: > |$)')


def parts(text: str) -> list[str]:
    """Split an identity's text into the texts of its frames; names in quotes may hold anything."""
    if '"' not in text:
        return text.split(JOIN)
    found = _SPLIT.findall(text)
    if JOIN.join(found) != text:
        raise ValueError(f"not an identity: {text!r}")
    return found


def parse(text: str) -> Identity:
    """Return the identity that a text says. Raises `ValueError` for any other text."""
    *path, site = parts(text)
    return Identity(tuple(frame(part) for part in path), frame(site))


_is_number = re.compile(_NUMBER).fullmatch
_is_positive = re.compile(_POSITIVE).fullmatch


def numeral(text: str) -> bool:
    """Whether a text is a number as identities write them."""
    return _is_number(text) is not None


def positive(text: str) -> bool:
    """Whether a text is such a number from 1 on, as those behind an ordinal are."""
    return _is_positive(text) is not None


def site_position(text: str) -> str:
    """Return the position of an identity's site: no name that stands in quotes comes after it."""
    return text.rpartition(JOIN)[2].partition(":")[0]


_BRANCH = re.compile(r"#\d+(?::\d+)?\[")
_LIST = re.compile(r"(.*/(?:parallel|pipeline)#\d+(?::\d+)?)\[\d+\] > (?!.*#\d+(?::\d+)?\[)")


def on_main_strand(text: str) -> bool:
    """Whether an identity's text has no branch in its path."""
    return _BRANCH.search(text) is None


def fan_out(text: str) -> str | None:
    """Return the text of the `parallel` or `pipeline` that an identity's innermost branch is one of. None if that is a
    dag's or a race's, or if a dag's name, which may look like anything, is in the path."""
    found = None if '"' in text else _LIST.match(text)
    return found[1] if found else None


def place(text: str) -> str:
    """Return site and static path of an identity's text."""
    return parse(text).place
