"""Source against source, with the lines marked that committed calls stand on."""

from __future__ import annotations

import difflib
from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any, Literal, TypeAlias

from addendum import identity as ids
from addendum.errors import NotFound, UsageError
from addendum.ports import Store
from addendum.records.history import History
from addendum.script.program import compile_program

Side: TypeAlias = Literal["same", "old", "new"]


@dataclass(frozen=True, slots=True)
class Line:
    """One line of a diff. `old` and `new` are line numbers, 0 on the side where it isn't; `frozen` counts the committed
    calls whose site is written on it."""

    side: Side
    old: int
    new: int
    text: str
    frozen: int

    def to_json(self) -> dict[str, Any]:
        """Return the line as JSON."""
        return {
            "side": self.side,
            "old": self.old or None,
            "new": self.new or None,
            "text": self.text,
            "frozen": self.frozen,
        }


@dataclass(frozen=True, slots=True)
class Hunk:
    """A stretch of lines around a change."""

    lines: tuple[Line, ...]

    @property
    def header(self) -> str:
        """The hunk's place, as in a unified diff."""
        old = [line.old for line in self.lines if line.old]
        new = [line.new for line in self.lines if line.new]
        return f"@@ -{_span(old)} +{_span(new)} @@"


@dataclass(frozen=True, slots=True)
class Difference:
    """Two revisions of a run's source."""

    run: str
    old: int
    new: int
    hunks: tuple[Hunk, ...]
    same_args: bool

    def to_json(self) -> dict[str, Any]:
        """Return the difference as JSON."""
        return {
            "run": self.run,
            "from": self.old,
            "to": self.new,
            "same_source": not self.hunks,
            "same_args": self.same_args,
            "hunks": [{"header": hunk.header, "lines": [line.to_json() for line in hunk.lines]} for hunk in self.hunks],
        }


def difference(
    store: Store, run: str, old: int | None = None, new: int | None = None, *, context: int = 3
) -> Difference:
    """Compare two revisions; the last two if none is named. Raises `NotFound`, `UsageError` when there is only one."""
    store.header(run)
    folds = _folds(store, run)
    if not folds:
        raise NotFound(f"The run {run} never started.", hint="`addendum runs` lists what there is.")
    new = max(folds) if new is None else new
    old = new - 1 if old is None else old
    if old == 0 and new == 1:
        raise UsageError(f"The run {run} has one revision only.", hint="There is a difference once it was revised.")
    for number in (old, new):
        if number not in folds:
            raise NotFound(f"The run {run} has no revision {number}.", hint=f"It has 1 to {max(folds)}.")
    before, after = _text(store, folds[old], old), _text(store, folds[new], new)
    marks = (_frozen(folds[old], before), _frozen(folds[new], after))
    hunks = tuple(_hunks(before.splitlines(), after.splitlines(), marks, context))
    revisions = folds[new].revisions
    return Difference(run, old, new, hunks, revisions[old].args_digest == revisions[new].args_digest)


def _folds(store: Store, run: str) -> dict[int, History]:
    """Return, for each revision, the run's history at the end of it: as it stood when the next one began."""
    ends: dict[int, int] = {}
    current = 0
    for stored in store.entries(run):
        if stored.kind == "revision":
            current = int(stored.body["number"])
        if current:
            ends[current] = stored.seq
    return {number: History().take_all(store.entries(run, upto=seq)) for number, seq in ends.items()}


def _text(store: Store, history: History, number: int) -> str:
    return store.blob(history.revisions[number].source).decode("utf-8")


def _frozen(history: History, text: str) -> Mapping[int, int]:
    """Return how many committed calls stand on each line of a source."""
    positions = compile_program(text).positions
    found: Counter[int] = Counter()
    for record in history.prefix.values():
        if record.ok and not record.is_read and record.identity is not None:
            position = positions.get(ids.parse(record.identity).site.position)
            if position is not None:
                found[position.line] += 1
    return found


def _hunks(
    old: list[str], new: list[str], marks: tuple[Mapping[int, int], Mapping[int, int]], context: int
) -> Iterator[Hunk]:
    matcher = difflib.SequenceMatcher(a=old, b=new, autojunk=False)
    for group in matcher.get_grouped_opcodes(context):
        lines: list[Line] = []
        for tag, a, b, c, d in group:
            if tag == "equal":
                for i, j in zip(range(a, b), range(c, d), strict=True):
                    frozen = max(marks[0].get(i + 1, 0), marks[1].get(j + 1, 0))
                    lines.append(Line("same", i + 1, j + 1, old[i], frozen))
                continue
            lines.extend(Line("old", i + 1, 0, old[i], marks[0].get(i + 1, 0)) for i in range(a, b))
            lines.extend(Line("new", 0, j + 1, new[j], marks[1].get(j + 1, 0)) for j in range(c, d))
        yield Hunk(tuple(lines))


def _span(numbers: list[int]) -> str:
    return f"{numbers[0]},{len(numbers)}" if numbers else "0,0"
