"""The long search: episodes by number, the same ones each time, and what they reached.

    cd tests/property && nice python -m adversary.search equal 0 3000

An episode is a run that fails now and then, and one or more revisions of it, each held against the oracle.
`test_search` takes a few of each mode and says what they must reach; whoever changes the matching takes some thousands.
"""

from __future__ import annotations

import random
import sys
import threading
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from itertools import count
from typing import Any

from addendum.broker.reconcile import unresolved
from addendum.kernel.policy import Allowances
from addendum.records.history import History
from adversary import oracle
from adversary.edits import (
    CHANGING,
    PRESERVING,
    Edit,
    edit_branches,
    edited,
    inline,
    move_function,
    retry_by_helper,
    serve_through,
    swap_items,
    unwrap,
    wrap_if,
)
from adversary.programs import CAPABILITIES, WORDS, Model, Text, make, write
from adversary.reshaping import REPAIRING, RESHAPING
from adversary.world import Faults, Step, World


@dataclass(frozen=True)
class Mode:
    """Which edits are made, how many at once and in how many revisions, and how many words payloads are made of."""

    edits: tuple[Edit, ...]
    least: int = 1
    most: int = 3
    revisions: int = 1
    words: tuple[str, ...] = WORDS
    capabilities: tuple[str, ...] = CAPABILITIES
    relocations: tuple[str, ...] = ("verified", "verified", "strict")
    rough: bool = False
    """Whether revisions are killed, cancelled, refused and allowed what was refused, and made again (`rough`)."""


RARE: tuple[Edit, ...] = (serve_through, wrap_if, unwrap, inline, move_function, edit_branches, swap_items)
"""Edits that few scripts have room for."""
EVERYTHING = PRESERVING + CHANGING + RESHAPING
HANDED: tuple[Edit, ...] = (retry_by_helper, edit_branches)
"""Edits that change what awaits a call, or which function a branch runs."""
MODES = {
    "preserving": Mode(PRESERVING),
    "mixed": Mode(PRESERVING + CHANGING),
    "changing": Mode(CHANGING, least=3),
    "equal": Mode(PRESERVING + CHANGING, words=("a",), capabilities=("p.make", "s.act"), relocations=("verified",)),
    "same": Mode(CHANGING, words=("a",), capabilities=("p.make",), relocations=("verified",)),
    "rare": Mode(CHANGING + 8 * RARE, revisions=2, words=("a", "b"), capabilities=("p.make", "r.read")),
    "reshape": Mode(RESHAPING, most=2, revisions=2, words=("a", "b")),
    "reshaped": Mode(
        PRESERVING + CHANGING + 3 * RESHAPING, revisions=2, words=("a",), capabilities=("p.make", "s.act")
    ),
    "rough": Mode(EVERYTHING, most=2, revisions=4, words=("a", "b"), rough=True),
    "rougher": Mode(
        EVERYTHING, most=2, revisions=4, words=("a",), capabilities=("p.make",), relocations=("verified",), rough=True
    ),
    "handed": Mode(PRESERVING + CHANGING + 8 * HANDED, revisions=2, words=("a", "b"), capabilities=("p.make", "s.act")),
    "repaired": Mode(
        PRESERVING + CHANGING + RESHAPING + 12 * REPAIRING,
        most=2,
        revisions=2,
        words=("a", "b"),
        capabilities=("p.make", "s.act", "r.read"),
    ),
    "again": Mode(PRESERVING + CHANGING, most=2, revisions=3, words=("a", "b"), capabilities=("p.make", "s.act")),
}


@dataclass
class Episode:
    """What happened: the texts, what each step did, the edits of each, and what the oracle finds wrong."""

    seed: int
    relocation: str = "verified"
    texts: list[Text] = field(default_factory=list)
    steps: list[Step] = field(default_factory=list)
    edits: list[list[str]] = field(default_factory=list)
    wrong: list[str] = field(default_factory=list)
    involved: bool = False
    """The script has more helpers of helpers than the checker follows, which is its named limit (R03)."""

    @property
    def reached(self) -> Counter[str]:
        """Count what the episode reached: each edit that was made, how its revision ended, what a claim did."""
        found: Counter[str] = Counter({"too involved": int(self.involved)})
        for names, step in zip(self.edits, self.steps[1:], strict=True):
            found.update({f"edit {name}" for name in names})
            if step.result is None:
                found["killed"] += 1
                continue
            found[f"end {step.result.status} {step.result.stop or ''}".strip()] += 1
            found.update({f"stop {kind}" for kind in step.result.counterexamples})
            found["rebound"] += step.result.rebound > 0
            found["replayed"] += step.result.replayed > 0
            found["sent"] += bool(step.sent)
            found["orphans"] += step.result.orphans > 0
            plan = step.plan.plan if step.plan else None
            found["expected"] += plan is not None and bool(plan.verdict.expected)
            found["late"] += plan is not None and bool(plan.late)
        return +found


def episode(seed: int, mode: Mode) -> Episode:
    """Make an episode."""
    chance = random.Random(seed)
    model = make(seed, words=mode.words, capabilities=mode.capabilities)
    found = Episode(seed, chance.choice(mode.relocations), [write(model)])
    fails = {chance.randint(1, 8): "provider_error"} if chance.random() < 0.8 else {}
    if chance.random() < 0.3:
        fails[chance.randint(0, 8)] = "refused"
    world = World()
    found.steps.append(world.run(found.texts[0], schedule=seed, faults=Faults(fails=fails)))
    if not world.exists:
        first = found.steps[0].result
        message = first.message if first else ""
        found.involved = "can't be followed" in message
        if not found.involved:
            found.wrong.append(f"a script of the language isn't admitted: {message}")
        return found
    if mode.rough:
        _roughly(found, world, model, mode, chance)
        return found
    for number in range(mode.revisions):
        model, names = edited(model, chance, mode.edits, chance.randint(mode.least, mode.most))
        text = write(model)
        before = world.history
        at = len(world.provider.sent) + chance.randint(0, 3)
        faults = Faults(fails={at: "provider_error"} if mode.revisions > 1 and chance.random() < 0.4 else {})
        policy = {"relocation": found.relocation}
        step = world.revise(text, schedule=seed + number + 1, policy=policy, faults=faults)
        found.texts.append(text)
        found.edits.append(names)
        found.steps.append(step)
        found.wrong += oracle.check(world, step, before)
        if step.result is None or step.result.status not in ("completed", "failed"):
            break
        again = world.resume(schedule=seed + number + 2, policy=policy)
        if step.result.status == "completed":
            found.wrong += replayed(step, again)
    return found


def _roughly(found: Episode, world: World, model: Model, mode: Mode, chance: random.Random) -> None:
    """Revise again and again, with all that can come in between."""
    policy = {"relocation": found.relocation}

    def take(step: Step, before: History, names: list[str], drops: frozenset[int] = frozenset()) -> Step:
        found.steps.append(step)
        found.edits.append(names)
        found.wrong += oracle.check(world, step, before, drops)
        return step

    for _ in range(mode.revisions):
        draft, names = edited(model, chance, mode.edits, chance.randint(mode.least, mode.most))
        text = write(draft)
        found.texts.append(text)
        allowed = Allowances(supersede=chance.random() < 0.25, retry=chance.choice(["open"] * 6 + ["all", "none"]))
        before = world.history
        step, drops = take(_disturbed(world, text, chance, policy, allowed), before, names), frozenset[int]()
        if step.result is not None and step.result.status == "not_admitted" and chance.random() < 0.6:
            drops = _refused(step)
            places = tuple(sorted({at for seq in drops if (at := before.records[seq].identity) is not None}))
            if places:
                step = world.revise(text, schedule=1, policy=policy, allowances=replace(allowed, drops=places))
                take(step, before, ["dropped"], drops)
        if step.result is not None and step.result.status == "not_admitted":
            continue
        model = draft
        if unresolved(world.history):
            world.reconcile(abandon=chance.random() < 0.5, result={"t": "known"})
        if step.result is None or step.result.status != "completed":
            if chance.random() < 0.3:
                continue
            before = world.history
            step = take(world.resume(schedule=2, policy=policy), before, ["resumed"], drops)
        if step.result is not None and step.result.status == "completed":
            found.wrong += replayed(step, world.resume(schedule=3, policy=policy))


def _disturbed(world: World, text: Text, chance: random.Random, policy: dict[str, object], allowed: Allowances) -> Step:
    """Revise, and let something come in between: a failure, a kill, a cancellation."""
    roll, at, stop = chance.random(), len(world.provider.sent) + chance.randint(0, 3), threading.Event()
    faults = Faults()
    if roll < 0.3:
        faults = Faults(fails={at: "provider_error"})
    elif roll < 0.5:
        points = (
            "before attempt",
            "after attempt",
            "sent",
            "before record",
            "after record",
            "after rebind",
            "after revision",
        )
        faults = Faults(crash=(chance.choice(points), chance.randint(1, 3)))
    elif roll < 0.6:
        faults = Faults(unknown=frozenset({at}))
    elif roll < 0.75:
        world.watch, world.stop = _stopping(stop, chance.randint(1, 12)), stop
    step = world.revise(text, schedule=chance.randrange(1000), policy=policy, faults=faults, allowances=allowed)
    world.watch = world.stop = None
    return step


def _stopping(stop: threading.Event, after: int) -> Callable[[dict[str, Any]], None]:
    seen = count()

    def watch(event: dict[str, Any]) -> None:
        if next(seen) == after:
            stop.set()

    return watch


def _refused(step: Step) -> frozenset[int]:
    """Return the records that a revision has to give up, if that is all that stops it."""
    plan = step.plan.plan if step.plan is not None else None
    if plan is None:
        return frozenset()
    found = plan.verdict.counterexamples
    if any(each.kind == "ambiguous" for each in found):
        return frozenset()
    return frozenset(seq for each in found for seq in each.seqs)


def replayed(step: Step, again: Step) -> list[str]:
    """A run that was completed is replayed as it was, and sends nothing."""
    assert step.result is not None
    assert again.result is not None
    wrong = []
    if again.result.status != "completed" or again.sent:
        wrong.append(f"a replay is {again.result.status}, and sends {len(again.sent)}: {again.result.message}")
    elif again.handed != step.handed or again.result.result != step.result.result:
        wrong.append("a replay hands over otherwise")
    return wrong


def main(name: str, first: int, last: int, show: int = 5) -> int:
    """Search, and print what was reached and what is wrong."""
    reached: Counter[str] = Counter()
    wrong: list[tuple[int, str, list[list[str]], str]] = []
    for seed in range(first, last):
        found = episode(seed, MODES[name])
        reached.update(found.reached)
        wrong += [(seed, found.relocation, found.edits, text) for text in found.wrong[:1]]
    for what, times in sorted(reached.items()):
        print(f"{times:6} {what}")
    print(f"{name}: {len(wrong)} of {last - first} episodes are wrong")
    for line in wrong[:show]:
        print("  ", *line)
    return len(wrong)


if __name__ == "__main__":
    sys.exit(bool(main(sys.argv[1], int(sys.argv[2]), int(sys.argv[3]), *map(int, sys.argv[4:]))))
