"""Sums of a principal's accounts: what its journal came to at some entry, in a journal beside it.

A sum is derived and can be left out: accounts are what their journal says. It is used only while the entry that it goes
up to is still the one that it was made from, by its chain; `addendum meters NAME --verify` makes it anew from all of
them. What was sent since the sum before stands in it too, so that a window reads only as many sums as it is long: each
says what the latest time before it was, which isn't that of its neighbour when the clock was set back in between.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

from addendum.authority.book import Hold
from addendum.broker.held import Key, hold_body, hold_from
from addendum.canon import Digest
from addendum.errors import NotFound
from addendum.ports import Store
from addendum.records.history import Dispatch, Totals
from addendum.records.stored import Entry

EVERY: Final = 500
"""Entries after which a sum is made."""


@dataclass(frozen=True, slots=True)
class Sum:
    """What accounts came to at entry `upto`: totals by capability, open holds, whether they were revoked."""

    upto: int
    totals: Mapping[str, Totals]
    open: Mapping[Key, Hold]
    revoked: bool

    def body(self) -> dict[str, Any]:
        """Return it as it stands in an entry."""
        return {
            "upto": self.upto,
            "totals": {name: _numbers(each) for name, each in self.totals.items()},
            "open": [{"run": run, "attempt": number, **hold_body(hold)} for (run, number), hold in self.open.items()],
            "revoked": self.revoked,
        }


class Sums:
    """The sums of one journal. `upto` is the entry that the last one goes up to, 0 without any."""

    def __init__(self, store: Store, ledger: str) -> None:
        self.store = store
        self.ledger = ledger
        self.name = f"{ledger}/sums"
        self.upto = 0
        self._last = 0
        self._latest = 0
        """The latest time of all that was sent up to the last sum, in milliseconds."""

    def read(self, since: float | None, values: bool) -> tuple[Sum | None, list[Dispatch], list[Hold]]:
        """Return the last sum that can be used, what was sent before it from a time on, and, if `values` are asked for,
        all holds with values at pointers."""
        try:
            body = self._entry(self.store.head(self.name)[0])
        except NotFound:
            return None, [], []
        if body is None or self._chain(body["upto"]) != body["chain"]:
            return None, [], []
        last, parts = self.store.head(self.name)[0], [body]
        while parts[-1]["before"] and (values or since is None or _reaches(parts[-1], since)):
            older = self._entry(parts[-1]["before"])
            if older is None:
                return None, [], []
            parts.append(older)
        self.upto, self._last = body["upto"], last
        self._latest = max(parts[-1].get("earlier_ms", 0), *map(_latest, parts), 0)
        opened = {(each["run"], each["attempt"]): hold_from(each) for each in body["open"]}
        totals = {name: _totals(each) for name, each in body["totals"].items()}
        parts.reverse()
        sent = [dispatch for part in parts for dispatch in _sent(part)]
        pointed = [hold for part in parts for hold in _pointed(part)] if values else []
        return Sum(body["upto"], totals, opened, body["revoked"]), sent, pointed

    def write(self, found: Sum, sent: Sequence[tuple[Dispatch, Hold]]) -> None:
        """Write a sum, with what was sent since the one before."""
        columns = _columns(sent)
        before = {"before": self._last, "earlier_ms": self._latest}
        body = {**found.body(), "chain": self._chain(found.upto), **before, **columns}
        try:
            (stored,) = self.store.append(self.name, [Entry("sum", body)])
        except NotFound:
            return  # accounts that an older program made
        self.upto, self._last = found.upto, stored.seq
        self._latest = max(self._latest, _latest(columns))

    def _entry(self, seq: int) -> Mapping[str, Any] | None:
        return (
            next((each.body for each in self.store.entries(self.name, after=seq - 1, upto=seq)), None) if seq else None
        )

    def _chain(self, seq: int) -> str:
        return next((each.chain for each in self.store.entries(self.ledger, after=seq - 1, upto=seq)), "")


def _columns(sent: Sequence[tuple[Dispatch, Hold]]) -> dict[str, Any]:
    """Return what was sent as it stands in a sum: a list for each thing that is said of a dispatch, as four long ones
    are read several times as fast as many short ones. `targets` are the values at pointers by meter, "" for none."""
    names = sorted({dispatch.capability for dispatch, _ in sent})
    index = {name: number for number, name in enumerate(names)}
    meters = sorted({meter for _, hold in sent for meter in hold.targets})
    return {
        "names": names,
        "at_ms": [round(dispatch.at * 1000) for dispatch, _ in sent],
        "of": [index[dispatch.capability] for dispatch, _ in sent],
        "cost": [dispatch.cost for dispatch, _ in sent],
        "bytes_out": [dispatch.bytes_out for dispatch, _ in sent],
        "targets": {meter: [hold.targets.get(meter, "") for _, hold in sent] for meter in meters},
    }


def _sent(part: Mapping[str, Any]) -> Iterable[Dispatch]:
    """Return the dispatches of a part. Sums that an older program wrote have a row for each in place of the lists."""
    names = part["names"]
    if "sent" in part:
        return [Dispatch(row[0] / 1000, names[row[1]], row[2], row[3]) for row in part["sent"]]
    at = [moment / 1000 for moment in part["at_ms"]]
    return map(Dispatch, at, map(names.__getitem__, part["of"]), part["cost"], part["bytes_out"])


def _pointed(part: Mapping[str, Any]) -> Iterable[Hold]:
    """Return the holds of a part that have values at pointers."""
    names = part["names"]
    if "sent" in part:
        return [Hold(names[row[1]], row[2], row[3], targets=row[4]) for row in part["sent"] if len(row) > 4]
    found: list[dict[str, Digest]] = [{} for _ in part["of"]]
    for meter, values in part["targets"].items():
        for targets, value in zip(found, values, strict=True):
            if value:
                targets[meter] = value
    columns = zip(part["of"], part["cost"], part["bytes_out"], found, strict=True)
    return [Hold(names[of], cost, out, targets=targets) for of, cost, out, targets in columns if targets]


def _reaches(part: Mapping[str, Any], since: float) -> bool:
    """Whether something was sent before a part that is younger than a time. Sums that an older program wrote don't say
    it: those before them have to be read."""
    return "earlier_ms" not in part or part["earlier_ms"] / 1000 > since


def _latest(part: Mapping[str, Any]) -> int:
    """Return the latest time in a part, in milliseconds; 0 for none."""
    return max((row[0] for row in part["sent"]) if "sent" in part else part["at_ms"], default=0)


def _numbers(totals: Totals) -> list[int]:
    micros = round(totals.seconds * 1_000_000)
    return [totals.calls, totals.cost, totals.tokens, totals.bytes_out, totals.bytes_in, micros]


def _totals(numbers: Iterable[int]) -> Totals:
    calls, cost, tokens, out, back, micros = numbers
    return Totals(calls=calls, cost=cost, tokens=tokens, bytes_out=out, bytes_in=back, seconds=micros / 1_000_000)
