"""The runs that a run's grant came out of, as far as they matter to it: is its share still its own, is there authority.

Each is looked at before every reservation, which costs a look at the end of its journal; what another process wrote
there counts from the next reservation on.
"""

from __future__ import annotations

from dataclasses import dataclass, field

from addendum.authority.grant import Limit, from_json
from addendum.ports import Store
from addendum.records.stored import Stored


@dataclass(slots=True)
class Elder:
    """One of them: `child` is the run beneath it."""

    run: str
    child: str
    parent: str = ""
    seq: int = 0
    revoked: bool = False
    given: bool = False
    expires: float | None = None

    def read(self, store: Store) -> None:
        """Fold in what was written there since."""
        if store.head(self.run)[0] == self.seq:
            return
        for stored in store.entries(self.run, after=self.seq):
            self._take(stored)

    def _take(self, stored: Stored) -> None:
        self.seq = stored.seq
        match stored.kind:
            case "grant":
                self.revoked, self.parent = False, stored.body.get("parent", "")
                self.expires = from_json(stored.body["grant"]).expires
            case "revoke":
                self.revoked = True
            case "delegate" | "return":
                if stored.body["child"] == self.child:
                    self.given = stored.kind == "delegate"
            case _:
                pass

    def bar(self, now: float) -> Limit | None:
        """Return what bars the run beneath it."""
        if self.revoked:
            return Limit("parent_revoked", 0, "run", self.run)
        if not self.given:
            return Limit("returned", 0, "run", self.run)
        if self.expires is not None and now >= self.expires:
            return Limit("parent_expires", self.expires, "run", self.run)
        return None


@dataclass(slots=True)
class Lineage:
    """A run's parent, the parent of that one, and so on."""

    store: Store
    run: str
    parent: str
    elders: list[Elder] = field(default_factory=list)

    def bar(self, now: float) -> Limit | None:
        """Return what bars the run, from the nearest to the farthest. Raises `StoreError`."""
        child, above, index = self.run, self.parent, 0
        while above:
            if index == len(self.elders):
                self.elders.append(Elder(above, child))
            elder = self.elders[index]
            elder.read(self.store)
            found = elder.bar(now)
            if found is not None:
                return found
            child, above, index = above, elder.parent, index + 1
        return None
