"""Looking at runs: the same fold, shown. Nothing here writes."""

from __future__ import annotations

from addendum.ports import Store
from addendum.records.certificate import certificate


def certified(store: Store, run: str) -> str:
    """Recompute a run's certificate from the store: "ok" or "differences"."""
    return "ok" if not certificate(store.entries(run), store.blob).differences else "differences"
