"""A call that the script waits for, and which other strand's calls come after a failure (DESIGN sections 3 and 4)."""

from __future__ import annotations

from dataclasses import dataclass, field

from addendum import identity as ids
from addendum.canon import Digest, Json
from addendum.identity import Frame, Identity
from addendum.records.entries import READS


@dataclass(slots=True, eq=False)
class Call:
    """One pending call: `number` in its session, its identity (text and parts), and what it asks for.

    `data` are the payload's canonical bytes; `digest` covers them and `take`. `refused` says why the payload can't be
    sent at all, if it can't.
    """

    number: int
    identity: str
    capability: str
    payload: Json
    data: bytes
    digest: Digest
    take: int = 1
    refused: str = ""
    _parts: Identity | None = field(default=None, repr=False)

    @property
    def call(self) -> tuple[str, Digest]:
        """Capability and digest: two calls are *equal* when these are."""
        return self.capability, self.digest

    @property
    def parts(self) -> Identity:
        """The identity's parts, parsed when first asked for."""
        if self._parts is None:
            self._parts = ids.parse(self.identity)
        return self._parts

    @property
    def place(self) -> str:
        """Site and static path."""
        return self.parts.place

    @property
    def site_position(self) -> str:
        """The position of its site."""
        return ids.site_position(self.identity)

    def forget(self) -> None:
        """Let go of what it asked for, once it is answered: the matching goes by identity and digest."""
        self.payload, self.data, self._parts = None, b"", None

    @property
    def is_read(self) -> bool:
        """A recorded read or a race's winner."""
        return self.capability in READS


def follows(earlier: tuple[Frame, ...], later: tuple[Frame, ...]) -> bool:
    """Whether a call of strand `later` shows that strand `earlier`, or one that waited for it, has gone on.

    Strands are given by their branch frames. Siblings of one fan-out don't wait for each other; a call in another
    fan-out of a common ancestor shows that the ancestor's barrier is behind it.
    """
    for mine, other in zip(earlier, later, strict=False):
        if mine == other:
            continue
        return (mine.position, mine.entry) != (other.position, other.entry)
    return True


@dataclass(slots=True)
class Handled:
    """Which failures of this attempt are *handled*, decided anew as the script goes on (DESIGN section 4)."""

    waiting: dict[int, tuple[Frame, ...]] = field(default_factory=dict)
    """Failures that were handed over and after which nothing more was asked so far: seq to strand."""

    def handed(self, seq: int, identity: Identity) -> None:
        """A failure was handed over."""
        self.waiting[seq] = identity.strand

    def called(self, call: Call) -> None:
        """A call was made: the failures it follows are handled."""
        if not self.waiting or call.is_read:
            return
        strand = call.parts.strand
        for seq in [seq for seq, other in self.waiting.items() if follows(other, strand)]:
            del self.waiting[seq]

    @property
    def open(self) -> list[int]:
        """The failures that would be open if the run ended in an error now."""
        return sorted(self.waiting)


def raced(call: Call, waiting: list[Call]) -> bool:
    """Whether a race that a call is in may be won by another branch, which waits for new work: nobody knows."""
    prefix = ""
    for frame in call.parts.path:
        at = f"{prefix}{frame}"
        if frame.kind == "branch" and frame.position.rpartition("/")[2].startswith("race#"):
            race = at.rpartition("[")[0] + "["
            if any(
                other.identity.startswith(race) and not other.identity.startswith(f"{at}{ids.JOIN}")
                for other in waiting
            ):
                return True
        prefix = f"{at}{ids.JOIN}"
    return False
