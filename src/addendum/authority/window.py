"""A sliding window of one limit: how much was taken in the last so many seconds. Cheap however many entries it has."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field


@dataclass(slots=True)
class Window:
    """What was taken within `seconds`. `full` is a time until which nobody may rely on what is known: there were more
    entries than are remembered."""

    seconds: float
    entries: deque[tuple[float, int | float]] = field(default_factory=deque)
    level: int | float = 0
    full: float | None = None

    @classmethod
    def of(cls, seconds: float, at: Iterable[float], amounts: Sequence[int | float]) -> Window:
        """Return the window over what was taken, in the order of its times."""
        return cls(seconds, deque(zip(at, amounts, strict=True)), sum(amounts))

    def add(self, at: float, amount: int | float) -> None:
        """Note that an amount was taken."""
        self.entries.append((at, amount))
        self.level += amount

    def take(self, now: float, amount: int | float) -> None:
        """Take an amount now. What is over is forgotten here too, since nobody asks a window that is far from full."""
        entries = self.entries
        if entries and (entries[-1][0] > now or entries[0][0] <= now - self.seconds):
            self._slide(now)
        entries.append((now, amount))
        self.level += amount

    def undo(self, amount: int | float) -> None:
        """Take the newest entry of this amount back: it was never sent."""
        for index in range(len(self.entries) - 1, -1, -1):
            if self.entries[index][1] == amount:
                del self.entries[index]
                self.level -= amount
                return

    def room(self, asks: int | float, most: int | float, now: float) -> float | None:
        """Return when there is room for an amount, None if there is now. `asks` has to be at most `most`."""
        self._slide(now)
        if self.full is not None and self.full > now:
            return self.full
        if self.level + asks <= most:
            return None
        left = self.level
        for at, amount in self.entries:
            left -= amount
            if left + asks <= most:
                return at + self.seconds
        return now + self.seconds

    def _slide(self, now: float) -> None:
        """Forget what is over. A clock that was set back refills nothing: what seems to be still to come is now."""
        ahead: list[int | float] = []
        while self.entries and self.entries[-1][0] > now:
            ahead.append(self.entries.pop()[1])
        self.entries.extend((now, amount) for amount in reversed(ahead))
        while self.entries and self.entries[0][0] <= now - self.seconds:
            self.level -= self.entries.popleft()[1]
