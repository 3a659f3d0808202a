"""The certificate: a hash chain over everything in a run's journal, recomputed from the store (DESIGN section 4).

It covers every entry in order of sequence numbers: records, rebinds, superseded and unbound ones too, attempts and how
each drive ended. Verification recomputes it from the entries' bodies and lists where the store says otherwise.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any, Final

from addendum import canon
from addendum.canon import Digest
from addendum.errors import NotJson, StoreError
from addendum.records import artifacts, entries
from addendum.records.chain import START, chain
from addendum.records.history import History
from addendum.records.stored import ENVELOPE, Stored

STATEMENT: Final = "https://in-toto.io/Statement/v1"
PREDICATE: Final = "urn:addendum:certificate:v1"


@dataclass(frozen=True, slots=True)
class Difference:
    """One place where the store isn't what was written: the entry's `seq`, and what is wrong with it."""

    seq: int
    what: str

    def to_json(self) -> dict[str, Any]:
        """Return the difference as JSON."""
        return {"seq": self.seq, "what": self.what}


@dataclass(slots=True)
class Certificate:
    """`head` is the chain's value at the last of `entries` entries. `sites` are the frozen sites: for each committed
    identity its record, capability, digest and result. `artifacts` are the files that results refer to, each once, with
    the first record that does. `differences` is empty when the store is what was written."""

    head: Digest = START
    entries: int = 0
    records: int = 0
    cost: int = 0
    sites: list[dict[str, Any]] = field(default_factory=list)
    artifacts: dict[str, dict[str, Any]] = field(default_factory=dict)
    differences: list[Difference] = field(default_factory=list)

    @property
    def verdict(self) -> str:
        """`ok` or `differences`."""
        return "differences" if self.differences else "ok"

    def to_json(self) -> dict[str, Any]:
        """Return the certificate as JSON."""
        return {
            "verdict": self.verdict,
            "head": self.head,
            "entries": self.entries,
            "records": self.records,
            "cost": self.cost,
            "sites": self.sites,
            **({"artifacts": list(self.artifacts.values())} if self.artifacts else {}),
            "differences": [difference.to_json() for difference in self.differences],
        }


def statement(run: str, found: Certificate) -> dict[str, Any]:
    """Return a certificate as an in-toto statement about the run's journal, by the chain's value at its end, and about
    the files that its results refer to."""
    files = [{"name": each, "digest": {"sha256": artifacts.digest_of(each)}} for each in found.artifacts]
    return {
        "_type": STATEMENT,
        "subject": [{"name": run, "digest": {"sha256": found.head}}, *files],
        "predicateType": PREDICATE,
        "predicate": found.to_json(),
    }


def certificate(stored: Iterable[Stored], blob: Callable[[Digest], bytes], *, sites: bool = True) -> Certificate:
    """Recompute a run's certificate. `blob` reads a blob and raises a `StoreError` if it isn't what its digest says.

    Raises `StoreError` when the entries themselves can't be read.
    """
    found = Certificate()
    history = History()
    digests: dict[int, Digest] = {}
    results: dict[int, Digest] = {}
    for entry in stored:
        found.entries += 1
        if entry.seq != found.entries:
            found.differences.append(Difference(entry.seq, f"entry {found.entries} is missing"))
            found.entries = entry.seq
        if _linked(found.head, entry) != entry.chain:
            found.differences.append(Difference(entry.seq, f"the {entry.kind} isn't what was written"))
        found.head = entry.chain
        _contents(found, entry, blob, digests, results)
        _fold(found, history, entry)
    found.records = len(history.records)
    found.cost = sum(totals.cost for totals in history.totals.values())
    if sites:
        found.sites = [
            {
                "identity": record.identity,
                "seq": record.seq,
                "capability": record.capability,
                "fingerprint": record.fingerprint,
                "digest": record.digest,
                "result": results.get(record.seq),
            }
            for record in history.prefix.values()
            if record.ok
        ]
    return found


def _linked(head: Digest, entry: Stored) -> Digest | None:
    """Return the chain's value at an entry, None for a body that nobody can have written."""
    try:
        data = canon.canonical(canon.doubles(entry.body), max_depth=canon.MAX_DEPTH + ENVELOPE)
    except NotJson:
        return None
    return chain(head, entry.kind, data)


def _fold(found: Certificate, history: History, entry: Stored) -> None:
    try:
        history.take(entry)
    except (KeyError, TypeError, ValueError, AttributeError) as error:
        found.differences.append(
            Difference(entry.seq, f"the {entry.kind} doesn't follow from what stands before it ({error!r})")
        )


def _contents(
    found: Certificate,
    entry: Stored,
    blob: Callable[[Digest], bytes],
    digests: dict[int, Digest],
    results: dict[int, Digest],
) -> None:
    """Check what an entry refers to: blobs by their digests, a payload by the call's."""
    body: Mapping[str, Any] = entry.body
    try:
        if entry.kind == "attempt":
            digest = canon.payload_digest(_data(body["payload"], blob), body["take"])
            digests[entry.seq] = body["digest"]
            if digest != body["digest"]:
                found.differences.append(Difference(entry.seq, "the attempt's payload has another digest"))
        elif entry.kind == "record":
            if "result" in body:
                data = _data(body["result"], blob)
                results[entry.seq] = canon.sha256(data)
                if artifacts.MARK in data:
                    for each in artifacts.named(canon.loads(data)):
                        found.artifacts.setdefault(str(each["artifact"]), {**each, "seq": entry.seq})
            sent = digests.pop(body["attempt"], None)
            if sent is not None and sent != body["digest"]:
                found.differences.append(Difference(entry.seq, "the record's digest isn't its attempt's"))
        elif entry.kind == "revision":
            blob(body["source"])
        elif entry.kind == "draft":
            _data(body["payload"], blob)
        elif entry.kind == "drafted":
            for part in ("result", "findings"):
                if part in body:
                    _data(body[part], blob)
            if "candidate" in body:
                blob(body["candidate"])
    except (NotJson, StoreError) as error:
        found.differences.append(Difference(entry.seq, error.message))
    except (KeyError, TypeError, ValueError) as error:
        found.differences.append(Difference(entry.seq, f"the {entry.kind} can't be read ({error!r})"))


def _data(body: Mapping[str, Any], blob: Callable[[Digest], bytes]) -> bytes:
    ref = entries.ref(body)
    return canon.canonical(ref.value) if ref.blob is None else blob(ref.blob)
