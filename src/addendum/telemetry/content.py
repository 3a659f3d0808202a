"""What a run asked and got, for those who want it in spans, and the traces that a run's earlier drives had."""

from __future__ import annotations

import contextlib
import hashlib
import json
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from addendum import canon
from addendum.errors import AddendumError
from addendum.ports import Store
from addendum.records import entries
from addendum.records.stored import Stored

LONGEST: Final = 8192
"""Characters of a payload, a result or a message that a span carries."""


class Content:
    """Reads payloads and results from a store of its own, in the telemetry's thread. Secrets were taken out of a store
    before anything got into it."""

    def __init__(self, open: Callable[[], Store]) -> None:
        self._open = open
        self._store: Store | None = None

    def of(self, run: str, seq: int, key: str) -> str:
        """Return what stands under a key (`payload`, `result`) of an entry as JSON text; "" if it can't be had."""
        found = self._value(self._entry(run, seq), key)
        return "" if found is None else _cut(json.dumps(found, ensure_ascii=False))

    def attempt(self, run: str, seq: int) -> int:
        """Return the seq of the attempt that a record is the outcome of; 0 if it has none, or it can't be had."""
        found = self._entry(run, seq)
        return 0 if found is None else int(found.body.get("attempt", 0))

    def prompt(self, run: str, draft: int) -> str:
        """Return the messages of a draft as the GenAI conventions write them; "" if they can't be had."""
        found = self._value(self._entry(run, draft), "payload")
        messages = found.get("messages", ()) if isinstance(found, dict) else ()
        return _messages([(str(each["role"]), str(each["text"])) for each in messages])

    def answer(self, run: str, draft: int) -> str:
        """Return what a model answered to a draft, in the same form; "" if it can't be had."""
        with contextlib.suppress(AddendumError):
            for stored in self._opened().entries(run, after=draft):
                if stored.kind == "drafted" and stored.body.get("attempt") == draft:
                    found = self._value(stored, "result")
                    return "" if found is None else _messages([("assistant", json.dumps(found, ensure_ascii=False))])
        return ""

    def close(self) -> None:
        """Close the store."""
        if self._store is not None:
            self._store.close()

    def _opened(self) -> Store:
        if self._store is None:
            self._store = self._open()
        return self._store

    def _entry(self, run: str, seq: int) -> Stored | None:
        with contextlib.suppress(AddendumError):
            return next(iter(self._opened().entries(run, after=seq - 1, upto=seq)), None)
        return None

    def _value(self, stored: Stored | None, key: str) -> Any:
        body = None if stored is None else stored.body.get(key)
        if body is None:
            return None
        ref = entries.ref(body)
        if ref.blob is None:
            return ref.value
        with contextlib.suppress(AddendumError):
            return canon.loads(self._opened().blob(ref.blob))
        return None


def _cut(text: str) -> str:
    return text if len(text) <= LONGEST else text[:LONGEST] + "…"


def _messages(messages: list[tuple[str, str]]) -> str:
    found = [{"role": role, "parts": [{"type": "text", "content": _cut(text)}]} for role, text in messages]
    return json.dumps(found, ensure_ascii=False) if found else ""


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
