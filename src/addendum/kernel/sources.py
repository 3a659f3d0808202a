"""The programs of a run's revisions, and how a candidate compares with each of them (DESIGN section 5)."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from enum import Enum

from addendum import identity as ids
from addendum.identity import Identity
from addendum.records.history import History
from addendum.script.program import Position, Program


class Fate(Enum):
    """What became of a position of an older source in the candidate."""

    SAME = "same"
    CHANGED = "changed"
    GONE = "gone"


@dataclass(slots=True)
class Sources:
    """The candidate, beside the program of every revision that a record may refer to.

    `load` returns the text of a revision's source by its digest. Programs are compiled when they are first asked for.
    """

    history: History
    candidate: Program
    load: Callable[[str], str]
    compile: Callable[[str], Program]
    candidate_args: str = ""
    _programs: dict[str, Program] = field(default_factory=dict)
    _fates: dict[tuple[str, str], Fate] = field(default_factory=dict)
    _renames: dict[str, dict[str, str]] = field(default_factory=dict)
    _latest: dict[tuple[int, tuple[str, ...]], int] = field(default_factory=dict)
    _orders: dict[str, dict[str, int]] = field(default_factory=dict)
    _by_fingerprint: dict[str, list[Position]] | None = None

    def program(self, revision: int) -> Program:
        """Return the program of a revision."""
        source = self.history.revisions[revision].source
        return self.by_digest(source)

    def by_digest(self, source: str) -> Program:
        """Return the program of a source by the source's digest."""
        if source == self.candidate.revision:
            return self.candidate
        found = self._programs.get(source)
        if found is None:
            found = self._programs[source] = self.compile(self.load(source))
        return found

    def order(self, program: Program) -> dict[str, int]:
        """Return a program's positions, numbered in the order of its text."""
        found = self._orders.get(program.revision)
        if found is None:
            found = self._orders[program.revision] = {at: number for number, at in enumerate(program.positions)}
        return found

    def same(self, revision: int) -> bool:
        """Whether a revision's source and args are the candidate's: then identities are exact."""
        there = self.history.revisions[revision]
        return there.source == self.candidate.revision and there.args_digest == self.candidate_args

    def fate(self, revision: int, position: str) -> Fate:
        """Compare one position of a revision's source with the candidate's of that name."""
        source = self.history.revisions[revision].source
        if source == self.candidate.revision:
            return Fate.SAME
        key = (source, position)
        found = self._fates.get(key)
        if found is None:
            found = self._fates[key] = self._compare(self.by_digest(source), position)
        return found

    def _compare(self, old: Program, position: str) -> Fate:
        now = self.candidate.positions.get(position)
        if now is None:
            return Fate.GONE
        before = old.positions.get(position)
        return Fate.SAME if before is not None and alike(before, now) else Fate.CHANGED

    def fates(self, revision: int, positions: tuple[str, ...]) -> Fate:
        """Return the worst fate of several positions: gone, else changed, else the same."""
        if self.history.revisions[revision].source == self.candidate.revision:
            return Fate.SAME
        worst = Fate.SAME
        for position in positions:
            fate = self.fate(revision, position)
            if fate is Fate.GONE:
                return fate
            if fate is Fate.CHANGED:
                worst = fate
        return worst

    def renamed(self, revision: int, place: str) -> str:
        """Return a place of a revision's source in the names of the candidate.

        A function that is equal to a vanished one but for its name counts as that one (DESIGN section 5, rule 2).
        """
        source = self.history.revisions[revision].source
        if source == self.candidate.revision:
            return place
        names = self._renames.get(source)
        if names is None:
            names = self._renames[source] = renames(self.by_digest(source), self.candidate)
        if not names:
            return place
        return ids.JOIN.join(rename(part, names) for part in place.split(ids.JOIN))

    def latest(self, revision: int, positions: tuple[str, ...], last: int) -> int:
        """Return the latest revision, up to `last`, in whose source positions are written as in that of `revision`, and
        in all between: what stood there then stood there in each of them."""
        if revision >= last:
            return revision
        key = (revision, positions)
        found = self._latest.get(key)
        if found is None:
            old = self.program(revision).positions
            found = revision
            for number in range(revision + 1, last + 1):
                if number not in self.history.revisions or not written_alike(positions, old, self.program(number)):
                    break
                found = number
            self._latest[key] = found
        return found

    def has_place(self, revision: int, place: str) -> bool:
        """Whether a revision's source has every position of a place (in the names of the candidate)."""
        return has_place(self.program(revision), place, self._back(revision), self.candidate)

    def had_written(self, revision: int, place: str) -> bool:
        """Whether a revision's source has every position of a place, and none of its calls is written otherwise."""
        program, back = self.program(revision), self._back(revision)
        if not has_place(program, place, back, self.candidate):
            return False
        for part in place.split(ids.JOIN):
            before, now = program.positions.get(part), self.at(part)
            if before is None and rename(part, back).rpartition("/")[2] == part.rpartition("/")[2]:
                before = program.positions.get(rename(part, back))
            if before is None or now is None or now.kind == "fanout":
                continue  # a use of a function that was renamed, or a fan-out with other branches
            if before.fingerprint != now.fingerprint:
                return False
        return True

    def _back(self, revision: int) -> dict[str, str]:
        self.renamed(revision, "")
        names = self._renames.get(self.history.revisions[revision].source, {})
        return {new: old for old, new in names.items()}

    def is_new(self, revision: int, function: str) -> bool:
        """Whether a function of the candidate is none that a revision's source had, by this name or another."""
        return function not in self.program(revision).functions and function not in self._back(revision)

    def uses(self, function: str) -> list[Position]:
        """Return the candidate's awaited calls of what has the name of a function."""
        name = _called(function)
        return [other for other in self.candidate.positions.values() if other.kind == "call" and other.name == name]

    def with_fingerprint(self, fingerprint: str) -> list[Position]:
        """Return the candidate's positions that have a fingerprint."""
        if self._by_fingerprint is None:
            self._by_fingerprint = {}
            for position in self.candidate.positions.values():
                if position.fingerprint is not None:
                    self._by_fingerprint.setdefault(position.fingerprint, []).append(position)
        return self._by_fingerprint.get(fingerprint, [])

    def at(self, position: str) -> Position | None:
        """Return the candidate's position of a name."""
        return self.candidate.positions.get(position)


def alike(before: Position, now: Position) -> bool:
    """Whether a position is written as it was, and awaited as it was: with a lambda or a container around it, its calls
    come another way."""
    return before.fingerprint == now.fingerprint and before.handed == now.handed


def written_alike(positions: tuple[str, ...], old: Mapping[str, Position], program: Program) -> bool:
    """Whether a program has all of some positions, written as they were."""
    now = program.positions
    return old is now or all(at in old and at in now and alike(old[at], now[at]) for at in positions)


def renames(old: Program, new: Program) -> dict[str, str]:
    """Return the functions that were only renamed: old qualified name to new one."""
    gone = [name for name in old.functions if name not in new.functions]
    come = [name for name in new.functions if name not in old.functions]
    found: dict[str, str] = {}
    for name in gone:
        twins = [other for other in come if new.functions[other] == old.functions[name]]
        peers = [other for other in gone if old.functions[other] == old.functions[name]]
        if len(twins) == 1 and len(peers) == 1:
            found[name] = twins[0]
    return found


def rename(part: str, names: dict[str, str]) -> str:
    """Rename the function in which a position stands, and the one that a call frame calls."""
    function, slash, rest = part.partition("/")
    head = names.get(function, function)
    if rest and rest.endswith(")", 0, rest.rfind("#")) if "#" in rest else False:
        block, _, last = rest.rpartition("/")
        callee, _, ordinal = last.partition("()#")
        for old, new in names.items():
            if _called(old) == callee:
                last = f"{_called(new)}()#{ordinal}"
                break
        rest = f"{block}/{last}" if block else last
    return head + slash + rest


def _called(function: str) -> str:
    """Return the name by which a function is called, given its qualified one."""
    return function.rsplit(".", 1)[-1].split("~", 1)[0]


def has_place(program: Program, place: str, back: dict[str, str], now: Program) -> bool:
    """Whether a program has every position of a place, awaited as in `now`, given the names to translate back to."""
    for part in place.split(ids.JOIN):
        before = program.positions.get(part) or (program.positions.get(rename(part, back)) if back else None)
        there = now.positions.get(part)
        if before is None or (there is not None and there.handed != before.handed):
            return False
    return True


def entered_often(identity: Identity, program: Program) -> frozenset[int]:
    """Return the frames (by number, the site's is the last) whose entry count says nothing about bounds.

    A pipeline's branch enters the functions of all its stages on one path, and one function may be several stages: up
    to the next frame that counts for itself, entries are those of all stages.
    """
    found: list[int] = []
    piped = False
    for number, frame in enumerate((*identity.path, identity.site)):
        position = program.positions.get(frame.position)
        if piped and frame.kind != "loop":
            found.append(number)
            piped = False
        if frame.kind == "branch" and position is not None and position.name == "pipeline":
            piped = True
    return frozenset(found)


def capacity(identity: Identity, program: Program) -> int | None:
    """Return how many calls a program can make at the place of an identity at most, None if no bound follows."""
    product = 1
    shared = entered_often(identity, program)
    for number, frame in enumerate((*identity.path, identity.site)):
        position = program.positions.get(frame.position)
        if position is None or position.bound is None or number in shared:
            return None
        product *= position.bound
    return product


def within(identity: Identity, program: Program) -> bool:
    """Whether every number of an identity lies within a program's bounds; an unknown bound bounds nothing."""
    shared = entered_often(identity, program)
    for number, frame in enumerate((*identity.path, identity.site)):
        position = program.positions.get(frame.position)
        bound = position.bound if position is not None else None
        if bound is None:
            continue
        if frame.kind in ("loop", "branch"):
            if isinstance(frame.branch, int) and frame.branch >= bound:
                return False
        elif frame.entry >= bound and number not in shared:
            return False
    return True


def beyond(identity: Identity, program: Program, widths: Mapping[str, int | tuple[str, ...]]) -> bool:
    """Whether an identity lies beyond a program's bounds, or beyond the actual width of a fan-out (by its frame)."""
    prefix = ""
    shared = entered_often(identity, program)
    for number, frame in enumerate(identity.path):
        position = program.positions.get(frame.position)
        bound = position.bound if position is not None else None
        if frame.kind == "loop":
            if bound is not None and isinstance(frame.branch, int) and frame.branch >= bound:
                return True
        elif frame.kind == "branch":
            head = f"{prefix}{frame.position}" + (f":{frame.entry}" if frame.entry else "")
            width = widths.get(head)
            if isinstance(width, tuple):
                if frame.branch not in width:
                    return True
            elif isinstance(frame.branch, int):
                known = width if width is not None else bound
                if known is not None and frame.branch >= known:
                    return True
        elif bound is not None and frame.entry >= bound and number not in shared:
            return True
        prefix = f"{prefix}{frame}{ids.JOIN}"
    last = program.positions.get(identity.site.position)
    if last is None or last.bound is None or len(identity.path) in shared:
        return False
    return identity.site.entry >= last.bound
