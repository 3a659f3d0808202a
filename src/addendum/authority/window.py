"""A sliding window of one limit: how much was taken in the last so many seconds. Cheap however many entries it has.

A clock that is set back, or forth and back again, refills nothing. What is taken counts from the latest time that was
known until then, so that entries are in the order of their times, and it leaves when the clock itself is so many
seconds further. What has left isn't known any more: should the clock be set back to before that, nobody may rely on
the window until it has caught up.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from math import inf


@dataclass(slots=True)
class Window:
    """What was taken within `seconds`. `gone` is the time up to which what was taken isn't known, or not any more."""

    seconds: float
    entries: deque[tuple[float, int | float]] = field(default_factory=deque)
    level: int | float = 0
    gone: float = -inf

    @classmethod
    def of(cls, seconds: float, at: Iterable[float], amounts: Sequence[int | float]) -> Window:
        """Return the window over what was taken, in the order of its times."""
        return cls(seconds, deque(zip(at, amounts, strict=True)), sum(amounts))

    def add(self, at: float, amount: int | float) -> None:
        """Note that an amount was taken."""
        entries = self.entries
        entries.append((at if not entries or entries[-1][0] <= at else entries[-1][0], amount))
        self.level += amount

    def take(self, now: float, amount: int | float) -> None:
        """Take an amount now. What is over is forgotten here too, since nobody asks a window that is far from full."""
        if self.entries and self.entries[0][0] <= now - self.seconds:
            self.slide(now)
        self.add(now, amount)

    def undo(self, at: float, amount: int | float) -> None:
        """Take back what was taken at a time: the first entry of this amount from then on, if it isn't over."""
        place = None
        for index in range(len(self.entries) - 1, -1, -1):
            found = self.entries[index]
            if found[0] < at:
                break
            if found[1] == amount:
                place = index
        if place is not None:
            del self.entries[place]
            self.level -= amount

    def move(self, before: float, at: float, amount: int | float) -> None:
        """What was taken counts from a later time: it was held up before it could leave."""
        entries = self.entries
        if entries and entries[-1] == (before, amount):
            entries[-1] = (at, amount)  # the usual one: nothing was taken since
            return
        self.undo(before, amount)
        self.add(at, amount)

    def knows(self, now: float) -> bool:
        """Whether all is known that counts now."""
        return self.gone <= now - self.seconds

    def room(self, asks: int | float, most: int | float, now: float) -> float | None:
        """Return when there is room for an amount, None if there is now. `asks` has to be at most `most`."""
        self.slide(now)
        if not self.knows(now):
            return self.gone + self.seconds
        if self.level + asks <= most:
            return None
        left = self.level
        for at, amount in self.entries:
            left -= amount
            if left + asks <= most:
                return at + self.seconds
        return now + self.seconds

    def slide(self, now: float) -> None:
        """Forget what is over."""
        entries = self.entries
        while entries and entries[0][0] <= now - self.seconds:
            at, amount = entries.popleft()
            self.level -= amount
            if at > self.gone:
                self.gone = at
