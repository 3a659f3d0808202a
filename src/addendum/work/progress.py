"""How far a contract is: which tree each slice gets, which slices are done, and what the work comes to.

A slice is done when the newest verdict on it is `accepted`, for the tree that it would get now. Nothing is remembered
beside the journal.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from addendum.work.bench import Admitted, Bench
from addendum.work.codes import Finding
from addendum.work.contract import Slice
from addendum.work.objects import Flat, Item, changed
from addendum.work.paths import shown


@dataclass(frozen=True, slots=True)
class Ready:
    """The tree that a slice gets, or that the work comes to. `union` has the slices that it is made of, if several."""

    tree: str
    union: tuple[str, ...] = ()


class Progress:
    """A contract's journal as progress."""

    def __init__(self, bench: Bench, admitted: Admitted) -> None:
        self._bench = bench
        self._admitted = admitted

    def input(self, slice_: Slice) -> Ready | Finding:
        """Return the tree that a slice gets, or why there is none yet."""
        for name in slice_.after:
            before = self._admitted.contract.slice(name)
            assert before is not None
            found = self.done(before)
            if isinstance(found, Finding):
                text = f"The slice {slice_.name} waits for {name}: {found.message}"
                return Finding("graph.not_eligible", slice_.name, text, {"after": name})
        return self._together(slice_.after)

    def done(self, slice_: Slice) -> str | Finding:
        """Return the tree that a slice was accepted with, or what is missing."""
        ready = self.input(slice_)
        if isinstance(ready, Finding):
            return ready
        gate = self._admitted.journal.state.current(slice_.name)
        if gate is None:
            return Finding("graph.not_eligible", slice_.name, f"{slice_.name} has no verdict.")
        if gate.verdict != "accepted":
            return Finding("graph.not_eligible", slice_.name, f"The newest verdict on {slice_.name} is {gate.verdict}.")
        if gate.input != ready.tree:
            return Finding("graph.not_eligible", slice_.name, f"{slice_.name} was accepted for another tree.")
        return gate.tree

    def final(self) -> Ready | Finding:
        """Return what the whole work comes to, or what is missing."""
        contract = self._admitted.contract
        for each in contract.slices:
            found = self.done(each)
            if isinstance(found, Finding):
                return found
        followed = {name for each in contract.slices for name in each.after}
        return self._together(tuple(sorted(each.name for each in contract.slices if each.name not in followed)))

    def union_accepted(self, ready: Ready) -> bool:
        """Whether a union was judged as a whole, and accepted."""
        if not ready.union:
            return True
        gates = [gate for gate in self._admitted.journal.state.gates if not gate.attempt and gate.tree == ready.tree]
        return bool(gates) and gates[-1].verdict == "accepted"

    def _together(self, names: tuple[str, ...]) -> Ready | Finding:
        trees: dict[str, str] = {}
        for name in names:
            slice_ = self._admitted.contract.slice(name)
            assert slice_ is not None
            found = self.done(slice_)
            if isinstance(found, Finding):
                return found
            trees[name] = found
        if not trees:
            return Ready(self._admitted.contract.base.tree)
        if len(set(trees.values())) == 1:
            return Ready(next(iter(trees.values())))
        flats = {name: self._bench.repository.flat(tree) for name, tree in trees.items()}
        merged = merge(self._admitted.base, flats)
        if isinstance(merged, Finding):
            return merged
        return Ready(self._bench.repository.write(merged, ()), tuple(names))


def merge(base: Flat, flats: Mapping[str, Flat]) -> dict[bytes, Item] | Finding:
    """Return the base with the changes of all; a path that two change in different ways is a conflict. Pure."""
    found: dict[bytes, Item] = dict(base)
    by: dict[bytes, tuple[str, Item | None]] = {}
    for name, flat in flats.items():
        for path, _, after in changed(base, flat):
            other = by.setdefault(path, (name, after))
            if other[1] != after:
                text = f"{other[0]} and {name} changed {shown(path)} in different ways."
                return Finding("graph.merge_conflict", shown(path), text, {"slices": [other[0], name]})
            if after is None:
                found.pop(path, None)
            else:
                found[path] = after
    return dict(sorted(found.items()))
