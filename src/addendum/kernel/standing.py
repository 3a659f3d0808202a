"""Where the records stand: what one record and the candidate, as far as it was seen, say of each other.

Nothing here asks who has a record: that is `addendum.kernel.claims`, which adds it to this. A record stood in a source
that it is kept in the terms of; the candidate may have its place as it was, otherwise, elsewhere, or not at all.

Nothing is vacated for a moment only: a position that is gone stays gone, another digest that stands at an identity
stays there. So what was found vacated is remembered.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from itertools import islice
from typing import Literal, TypeAlias

from addendum import identity as ids
from addendum.identity import Identity
from addendum.kernel.calls import Call
from addendum.kernel.equals import EqualKey
from addendum.kernel.expression import declared, expected, reaches
from addendum.kernel.likeness import order
from addendum.kernel.sources import Fate, Sources, beyond
from addendum.records.history import Record

Relocation: TypeAlias = Literal["strict", "declared", "verified"]


@dataclass(slots=True, kw_only=True)
class Standing:
    """The candidate beside the older sources, and what it was seen to do."""

    sources: Sources
    relocation: Relocation
    moves: dict[str, str] = field(default_factory=dict)
    revision: int = 0
    """The number of the candidate's revision, 0 while it has none (a plan)."""
    made: dict[str, EqualKey] = field(default_factory=dict)
    """Every identity that the candidate has called so far, with what it asked for."""
    beyond: bool = False
    """Whether something was handed over that this revision paid for, or read from the clock or by chance: what the
    candidate calls from then on, no shadow reached, and rule 3 comes first."""
    widths: dict[str, int | tuple[str, ...]] = field(default_factory=dict)
    _parsed: dict[str, Identity] = field(default_factory=dict)
    _vacant: set[int] = field(default_factory=set)
    """What was found vacated: it stays so."""
    _expected: dict[int, Identity | None] = field(default_factory=dict)
    """Where records are expected (rule 3), by seq."""
    _kept: dict[int, Identity | None] = field(default_factory=dict)
    """The same, and where else a record is kept for a call that nothing promises (`expected` with `edited`)."""
    _sites: dict[str, list[str]] | None = None
    """Every identity of `made` by its last frame, once somebody asked."""
    _branches: dict[str, str] | None = None
    """What each branch runs, by the text up to the branch, once somebody asked."""
    _places: dict[str, Identity] = field(default_factory=dict)
    """One identity of `made` for each place, of the first `_placed` of them."""
    _placed: int = 0
    _looked: dict[str, tuple[bool, int]] = field(default_factory=dict)
    """Whether an expected identity was reached, by that many of the calls of its last frame."""

    def see_width(self, frame: str, branches: int | tuple[str, ...]) -> None:
        """Note how wide a fan-out really is."""
        self.widths[frame] = branches

    def fate(self, record: Record) -> Fate:
        """What became of a record's site and frames in the candidate."""
        identity, revision = self.at(record)
        if identity is None:
            return Fate.GONE
        if self.sources.history.revisions[revision].source == self.sources.candidate.revision:
            return Fate.SAME
        return self.sources.fates(revision, self.parts(identity).positions)

    def vacated(self, record: Record) -> bool:
        """Whether no call of the candidate can stand at a record's own identity with its payload any more."""
        if record.identity is None:
            return not record.superseded or record.superseded == self.revision
        if record.seq in self._vacant:
            return True
        asked = self.made.get(record.identity)
        if asked is not None:
            gone = asked != record.call
        else:
            identity = self.parts(record.identity)
            gone = (
                self.fate(record) is not Fate.SAME
                or beyond(identity, self.sources.candidate, self.widths)
                or self._in_another(identity)
            )
        if gone:
            self._vacant.add(record.seq)
        return gone

    def _in_another(self, identity: Identity) -> bool:
        """Whether a branch on the way to an identity was seen to run something else: it runs one function, or one call
        that is handed to the fan-out itself."""
        if self._branches is None:
            self._branches = {}
            for at in self.made:
                self._branches.update(self._entered(self.parts(at)))
        known = self._branches
        return any(known.get(branch, what) != what for branch, what in self._entered(identity))

    def _entered(self, identity: Identity) -> Iterator[tuple[str, str]]:
        """Yield each branch on the way to an identity, but those of a pipeline, which run all its stages, and what it
        runs."""
        frames = (*identity.path, identity.site)
        for number, frame in enumerate(identity.path):
            if frame.kind != "branch" or (position := self.sources.at(frame.position)) is None:
                continue
            inner = self.sources.at(frames[number + 1].position)
            if position.name != "pipeline" and inner is not None:
                branch = ids.JOIN.join([str(outer) for outer in frames[: number + 1]])
                yield branch, inner.text if inner.kind == "site" and inner.handed else inner.function

    def given_up(self, record: Record) -> bool:
        """Whether a record was given up before the candidate, and makes nothing ambiguous, whoever has it now."""
        return bool(record.given_up or (self.revision and record.returned == self.revision))

    def at(self, record: Record) -> tuple[str | None, int]:
        """Return where a record stands, and the revision in whose terms that is. One that has no identity, as the
        candidate put another record there, stands where it stood: a plan says so, too."""
        return (record.identity, record.revision) if record.identity is not None else self.stood(record)

    def stood(self, record: Record) -> tuple[str | None, int]:
        """Return where a record stood before the candidate, and the revision in whose terms that is."""
        if self.revision and record.before is not None and record.before[0] == self.revision:
            return record.before[1:]
        return record.identity, record.revision

    def terms(self, record: Record) -> int:
        """Return the last revision before the candidate in whose terms a record's identity is, its source if none.

        A record is kept in the terms of the source that wrote its call last; those that left it as it was had it too.
        """
        identity, revision = self.at(record)
        return record.source if identity is None else self._lasted(revision, self.parts(identity))

    def _lasted(self, revision: int, identity: Identity) -> int:
        """Return the last revision before the candidate up to which an identity's text was as in that of `revision`."""
        last = self.revision - 1 if self.revision else self.sources.history.revision
        return revision if revision >= last else self.sources.latest(revision, identity.positions, last)

    def expected(self, record: Record) -> str | None:
        """Where a record's call is still to come although its own identity is vacated (rule 3), None if unknown."""
        identity = self.parts(self.at(record)[0] or record.origin)
        if self.relocation == "declared":
            return declared(self.sources, self.moves, identity.place)
        there = self._expectation(record, identity)
        # What was made already isn't still to come: another record, or another payload, stands there.
        return None if there is None or self._reached(there) else str(there)

    def foreseen(self, record: Record, call: Call, *, numbers: bool = True) -> bool:
        """Whether a call stands where a record's was expected (rule 3). Without `numbers`: whether at that place."""
        identity, revision = self.stood(record)
        if identity is None:
            return False
        parts = self.parts(identity)
        there = expected(self.sources, self._lasted(revision, parts), parts)
        return there is not None and reaches(call.parts, there, numbers=numbers)

    def _expectation(self, record: Record, identity: Identity) -> Identity | None:
        if record.seq not in self._expected:
            self._expected[record.seq] = expected(self.sources, self.terms(record), identity)
        return self._expected[record.seq]

    def _reached(self, there: Identity) -> bool:
        """Whether a call was made where one is expected. Each call is compared once: what was made stays made."""
        text = str(there)
        if text in self.made:
            return True
        if self._sites is None:
            self._sites = {}
            for at in self.made:
                self._sites.setdefault(at.rpartition(ids.JOIN)[2], []).append(at)
        made = self._sites.get(str(there.site), [])
        found, looked = self._looked.get(text, (False, 0))
        if not found and looked < len(made):
            found = any(reaches(self.parts(at), there) for at in made[looked:])
            self._looked[text] = (found, len(made))
        return found

    def elsewhere(self, record: Record, call: Call) -> bool:
        """Whether a vacated record may belong to a call at another place."""
        free = self.free(record, call)
        return free if free is not None else not self.held(record, call)

    def free(self, record: Record, call: Call) -> bool | None:
        """Say of all records of one place and source at once whether they may belong to a call at another place, None
        if that depends on which of them are `held`."""
        if record.is_read:
            return True
        # One that was left without identity is judged by where it was made: nothing need be gone there.
        fate = self.fate(record)
        if self.at(record)[0] is None:
            fate = self.sources.fates(record.source, self.parts(record.origin).positions)
        if self.had(record, call.place) and fate is Fate.SAME and not self._came_from(record, call):
            return False
        return True if self.awaited(record, call) is None else None

    def _came_from(self, record: Record, call: Call) -> bool:
        """Whether a record that was moved by an earlier revision was made at the place of a call: it comes back."""
        made = self.sources.renamed(record.source, self.parts(record.origin).place)
        return made == call.place != self.place(record)

    def held(self, record: Record, call: Call) -> bool:
        """Whether a record is expected at another place than a call's, where its own call is still to come.

        What is written otherwise where it stood is expected nowhere: should it ask for the same all the same, it is a
        twin of the call that took its record (rule 4d).
        """
        there = self.awaited(record, call)
        if there is None or self._reached(there):
            return False
        if order(there, call.parts, self.sources.order(self.sources.candidate)) >= 0:
            return True
        # Its place is as it was: other calls of it have the record, should a loop around come there again.
        return self.fate(record) is Fate.SAME and self._again(there, call.parts)

    def all_held(self, record: Record, call: Call) -> bool:
        """Whether all records of one place are `held`, said of one of them: no call was made where they are expected,
        and that comes behind the call's whatever the numbers. False if that can't be told at once."""
        there = self.awaited(record, call)
        if there is None or any(reaches(made, there, numbers=False) for made in self._made_at()):
            return False
        if (*there.path, there.site)[0].position == (*call.parts.path, call.parts.site)[0].position:
            return False
        return order(there, call.parts, self.sources.order(self.sources.candidate)) >= 0

    def _made_at(self) -> Iterable[Identity]:
        """Return one identity of each place at which a call was made."""
        for at in islice(self.made, self._placed, None):
            self._places.setdefault(ids.place(at), self.parts(at))
        self._placed = len(self.made)
        return self._places.values()

    def _again(self, passed: Identity, now: Identity) -> bool:
        """Whether a place that a call is behind may be come to again: in another iteration of a loop around both, or
        when a function around both is entered once more."""
        for mine, other in zip(now.path, passed.path, strict=False):
            if mine != other:
                return False
            position = self.sources.at(mine.position)
            bound = None if position is None else position.bound
            number = mine.branch if mine.kind == "loop" else mine.entry
            last = bound is not None and isinstance(number, int) and number + 1 >= bound
            if mine.kind != "branch" and not last:
                return True
        return False

    def awaited(self, record: Record, call: Call) -> Identity | None:
        """Where a record is expected, if that is at another place than a call's."""
        at = self.at(record)[0]
        if self.relocation == "declared" or at is None:
            return None
        if record.seq not in self._kept:
            there = self._expectation(record, identity := self.parts(at))
            self._kept[record.seq] = there or expected(self.sources, self.terms(record), identity, edited=True)
        there = self._kept[record.seq]
        return None if there is None or reaches(call.parts, there, numbers=False) else there

    def had(self, record: Record, place: str) -> bool:
        """Whether the source of a record's own commit had a place."""
        return self.sources.has_place(record.source, place)

    def had_it(self, record: Record, call: Call) -> bool:
        """Whether the source of a record's own commit had a call where one stands now, written like it."""
        return self.sources.had_written(record.source, call.place)

    def is_declared(self, record: Record, call: Call) -> bool:
        """Whether the revision lets a record's place move to a call's: under `declared` it has to say so."""
        if self.relocation != "declared":
            return True
        old = self.parts(self.at(record)[0] or record.origin).place
        return self.moves.get(old) == call.place

    def place(self, record: Record) -> str:
        """Return a record's place, in the names of the candidate."""
        identity = self.at(record)[0]
        if identity is not None:
            return self.sources.renamed(self.terms(record), self.parts(identity).place)
        return self.sources.renamed(record.source, self.parts(record.origin).place)

    def parts(self, identity: str) -> Identity:
        """Return an identity's parts."""
        found = self._parsed.get(identity)
        if found is None:
            found = self._parsed[identity] = ids.parse(identity)
        return found
