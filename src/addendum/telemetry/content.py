"""What a run asked and got, for those who want it in spans, and the traces that a run's earlier drives had."""

from __future__ import annotations

import contextlib
import hashlib
import json
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from addendum.canon import Json
from addendum.errors import AddendumError
from addendum.ports import Store
from addendum.records import entries

LONGEST: Final = 8192
"""Characters of a payload or result that a span carries."""


class Content:
    """Reads payloads and results from a store of its own, in the telemetry's thread. Secrets were taken out of a store
    before anything got into it."""

    def __init__(self, open: Callable[[], Store]) -> None:
        self._open = open
        self._store: Store | None = None

    def of(self, run: str, seq: int, key: str) -> str:
        """Return what stands under a key (`payload`, `result`) of an entry as JSON text; "" if it can't be had."""
        if self._store is None:
            self._store = self._open()
        try:
            for stored in self._store.entries(run, after=seq - 1, upto=seq):
                found = stored.body.get(key)
                return "" if found is None else _text(self._value(entries.ref(found)))
        except (AddendumError, KeyError, TypeError):
            return ""
        return ""

    def attempt(self, run: str, seq: int) -> int:
        """Return the seq of the attempt that a record is the outcome of; 0 if it has none, or it can't be had."""
        if self._store is None:
            self._store = self._open()
        try:
            for stored in self._store.entries(run, after=seq - 1, upto=seq):
                return int(stored.body.get("attempt", 0))
        except (AddendumError, TypeError, ValueError):
            return 0
        return 0

    def close(self) -> None:
        """Close the store."""
        if self._store is not None:
            self._store.close()

    def _value(self, ref: entries.Ref) -> Json:
        if ref.blob is None or self._store is None:
            return ref.value
        found: Json = json.loads(self._store.blob(ref.blob))
        return found


def _text(value: Any) -> str:
    text = json.dumps(value, ensure_ascii=False)
    return text if len(text) <= LONGEST else text[:LONGEST] + "…"


@dataclass(slots=True)
class Traces:
    """Which trace a run's last drive was in, as a W3C `traceparent` in a file of `folder`, so that the next one links
    to it. Nothing depends on it: what can't be read or written isn't there."""

    folder: Path | None = None

    def get(self, run: str) -> str:
        """Return what was remembered, "" if nothing was."""
        if self.folder is None:
            return ""
        with contextlib.suppress(OSError, UnicodeDecodeError):
            return self._path(run).read_text("ascii")
        return ""

    def put(self, run: str, traceparent: str) -> None:
        """Remember it."""
        if self.folder is None:
            return
        with contextlib.suppress(OSError):
            self.folder.mkdir(mode=0o700, parents=True, exist_ok=True)
            self._path(run).write_text(traceparent, "ascii")

    def _path(self, run: str) -> Path:
        assert self.folder is not None
        return self.folder / hashlib.sha256(run.encode("utf-8", "replace")).hexdigest()[:32]
