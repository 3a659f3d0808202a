"""The state of the bound analysis at one place of the source: variables, heap, and the cost so far.

The cost counts, per call site and per capability, how often it was reached at most on any path to here; it is
a vector, since the worst case of one capability and of another may lie on different paths. Coroutines that
were made are counted in it too, by their `Coro`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import Any

from addendum.script.bounds.values import Count, Obj, Share, V, join, join_obj, times

Cost = dict[Any, Count]
Key = tuple[int, str]
Part = tuple[int, int]
"""A loop, and a slice of something in it (`values.Share`)."""


class State:
    """Mutable; but a `cost` that was handed out is never changed, so copies share it. `dead`: no path comes here.
    `shared` is what the parts of lists cost over all iterations of the loops that they are parts for: one way through
    an iteration takes one, another way another, so that they don't stand for each other as the ways' own costs do.
    `partial` are variables that only some of the paths to here have bound. `late` is what is still to be paid if the
    loop is left here: coroutines of earlier iterations, which those that come to their end pay for.
    """

    __slots__ = ("_cost", "_own", "dead", "heap", "late", "partial", "shared", "vars")

    def __init__(self, variables: dict[Key, V], heap: dict[int, Obj], cost: Cost) -> None:
        self.vars = variables
        self.heap = heap
        self._cost = cost
        self._own = False  # whether nobody else has this cost
        self.shared: dict[Part, Cost] = {}
        self.late: Cost = {}
        self.partial: frozenset[Key] = frozenset()
        self.dead = False

    @property
    def cost(self) -> Cost:
        """How often what was called, at most, on the way here. Not to be changed."""
        self._own = False
        return self._cost

    @cost.setter
    def cost(self, cost: Cost) -> None:
        self._cost, self._own = cost, False

    def copy(self) -> State:
        """A state that changes on its own."""
        new = State(self.vars.copy(), self.heap.copy(), self.cost)
        new.shared = self.shared
        new.partial = self.partial
        new.late = self.late
        new.dead = self.dead
        return new

    def become(self, other: State) -> None:
        """Take over another state's content."""
        self.vars, self.heap, self.cost, self.dead = other.vars, other.heap, other.cost, other.dead
        self.shared = other.shared
        self.partial = other.partial
        self.late = other.late

    def absorb(self, other: State) -> None:
        """Join another state into this one, which may be dead."""
        if other.dead or other is self:
            return
        if self.dead:
            fresh = other.copy()
            self.become(fresh)
            return
        mine = self.vars
        if mine.keys() != other.vars.keys():
            self.partial |= mine.keys() ^ other.vars.keys()
        self.partial |= other.partial
        for key, value in [item for item in other.vars.items() if mine.get(item[0]) is not item[1]]:
            old = mine.get(key)
            mine[key] = value if old is None else join(old, value)
        heap = self.heap
        for ident, obj in [item for item in other.heap.items() if heap.get(item[0]) is not item[1]]:
            known = heap.get(ident)
            heap[ident] = obj if known is None else join_obj(known, obj)
        if self.cost is not other.cost:
            self.cost = peak(self.cost, other.cost)
        self.late = peak(self.late, other.late)
        if self.shared is not other.shared:
            self.shared = {
                part: peak(self.shared.get(part, {}), other.shared.get(part, {}))
                for part in self.shared.keys() | other.shared.keys()
            }

    def forget(self, keys: Iterable[Key]) -> None:
        """Drop variables that nothing can name any more."""
        keys = list(keys)
        for key in keys:
            self.vars.pop(key, None)
        if self.partial:
            self.partial = self.partial.difference(keys)

    def spend(self, key: Any, count: Count = 1) -> None:
        """Add to the cost."""
        if not self._own:
            self._cost, self._own = self._cost.copy(), True
        self._cost[key] = self._cost.get(key, 0) + count

    def divide(self, share: Share, each: Mapping[Any, Count]) -> None:
        """Add what each element of a part of a list costs: once for each in all parts together."""
        part = (share.loop, share.part)
        self.shared = {**self.shared, part: plus(self.shared.get(part, {}), each, share.total)}

    def charge(self, more: Mapping[Any, Count], factor: Count = 1) -> None:
        """Add a cost vector, `factor` times."""
        if more and factor:
            self.cost = plus(self.cost, more, factor)


def nowhere() -> State:
    """The state at a place that no path comes to."""
    state = State({}, {}, {})
    state.dead = True
    return state


def peak(a: Cost, b: Cost) -> Cost:
    """The pointwise maximum."""
    if a is b or not b:
        return a
    if not a:
        return b
    out = a.copy()
    for key, count in b.items():
        if count > out.get(key, 0):
            out[key] = count
    return out


def plus(a: Cost, b: Mapping[Any, Count], factor: Count = 1) -> Cost:
    """The pointwise sum of `a` and `factor` times `b`."""
    if not b or not factor:
        return a
    out = a.copy()
    for key, count in b.items():
        out[key] = out.get(key, 0) + times(factor, count)
    return out


def least(a: Cost, b: Cost) -> Cost:
    """The pointwise minimum."""
    return {key: min(count, b.get(key, 0)) for key, count in a.items() if b.get(key, 0)}


def visit(value: V, seen: Callable[[int], None]) -> None:
    """Call `seen` with every heap object that a value refers to, coroutines' and defaults' arguments included."""
    for ref in value.refs:
        seen(ref)
    if value.seq is not None:
        for ref in value.seq.live | value.seq.read:
            seen(ref)
        visit(value.seq.elem, seen)
        for item in value.seq.items or ():
            visit(item, seen)
    for coro in value.coros:
        for _, inner in coro.params:
            visit(inner, seen)
    for closure in value.funcs:
        for _, inner in closure.defaults:
            visit(inner, seen)
