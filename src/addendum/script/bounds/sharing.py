"""Loops over parts of lists: what their bodies cost is counted once for all parts together."""

from __future__ import annotations

from collections.abc import Callable

from addendum.script.bounds.machine import Machine
from addendum.script.bounds.state import State
from addendum.script.bounds.values import Share, V


def sharing(machine: Machine, st: State, share: Share | None) -> Callable[[bool, State], None]:
    """Prepare for a loop over a part of a list whose parts an outer loop walks, see `Seq.share`.

    What is returned is called after the loop: it counts the loop's cost by the outer loop's total instead of by
    this loop's own bound, on the ways out by an error too.
    """
    if share is None:
        return lambda applies, back: None
    before, outer, scratch = st.cost, machine.handlers, st.copy()
    if outer:
        machine.handlers = [*outer, scratch]

    def finish(applies: bool, back: State) -> None:
        machine.handlers = outer
        # What this loop's own parts cost is a sum over it, which no element has a share of.
        if applies and all(loop in machine.active for loop, _ in back.shared):
            st.cost = scratch.cost = before
            st.divide(share, back.cost)
            scratch.shared = st.shared
        if outer:
            outer[-1].absorb(scratch)

    return finish


def shared_length(machine: Machine, value: V, st: State) -> Share | None:
    """The share of a loop's total that walking a value takes, see `Seq.share`."""
    if value.top or (value.seq is not None and value.refs) or len(value.refs) > 1:
        return None
    share = None
    if value.seq is not None:
        share = value.seq.share
    elif value.refs:
        share = st.heap[next(iter(value.refs))].share
    return share if share is not None and share.loop in machine.active else None
