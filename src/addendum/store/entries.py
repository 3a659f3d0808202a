"""What goes into a journal and comes out of it: checks and conversions that every backend shares.

JSON that may take long to read, entries and answers, is read with `pydantic_core.from_json`: it makes the same of what
`addendum.canon` writes as the standard library's decoder, in about a third of the time.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import Any, NamedTuple

from pydantic_core import from_json

from addendum.canon import MAX_DEPTH, Digest, canonical, sha256
from addendum.errors import JournalMoved, NotFound, StoreCorrupt, UsageError
from addendum.ports import RunHeader
from addendum.records.chain import chain
from addendum.records.stored import ENVELOPE, Entry, Stored


class Prepared(NamedTuple):
    """An entry that is fit to be kept: its body as canonical JSON, in text and bytes, and as it is read from that."""

    kind: str
    text: str
    data: bytes
    body: dict[str, Any]


def prepare(entries: Iterable[Entry], *, back: bool = True) -> list[Prepared]:
    """Return entries as they will be kept. Raises `NotJson`; done before anything is begun. Without `back` nobody wants
    their bodies back, and they are empty."""
    prepared: list[Prepared] = []
    for kind, body, data in entries:
        if data is None:
            data = canonical(dict(body), max_depth=MAX_DEPTH + ENVELOPE)
        prepared.append(Prepared(kind, data.decode(), data, from_json(data) if back else {}))
    return prepared


def seal(prepared: Iterable[Prepared], seq: int, head: Digest) -> list[Stored]:
    """Give entries their places after the head of a journal, equal to what `unseal` will make of them."""
    sealed = []
    for kind, _, data, body in prepared:
        seq += 1
        head = chain(head, kind, data)
        sealed.append(Stored(seq, kind, body, head))
    return sealed


def unseal(row: tuple[int, str, str, str], run: str, where: str) -> Stored:
    """Read an entry back. Raises `StoreCorrupt` if its body isn't a JSON object."""
    seq, kind, link, text = row
    try:
        body = from_json(text)
    except (ValueError, TypeError) as error:
        raise damaged(run, where, f"entry {seq} is no JSON ({error})") from error
    if type(body) is not dict:
        raise damaged(run, where, f"entry {seq} is no JSON object")
    return Stored(seq, kind, body, link)


def unseal_all(rows: Iterable[tuple[int, str, str, str]], after: int, run: str, where: str) -> Iterator[Stored]:
    """Read entries back, one at a time, that follow on the one with the seq `after`. Raises `StoreCorrupt` at the first
    that is missing or isn't what was written."""
    for row in rows:
        seq, kind, link, text = row
        after += 1
        if seq != after:
            raise damaged(run, where, f"entry {after} is missing")
        try:
            body = from_json(text)
        except (ValueError, TypeError):
            body = None
        # A long journal is read here, so only what is wrong takes the longer way, which says what.
        yield Stored(seq, kind, body, link) if type(body) is dict else unseal(row, run, where)


def check_header(header: RunHeader) -> None:
    """Raise `UsageError` for a run that can't be named."""
    hint = "Use text that is valid Unicode, not empty."
    if not header.run or _broken(header.run):
        raise UsageError(f"{header.run!r} can't be the name of a run.", hint=hint)
    if _broken(header.name):
        raise UsageError(f"{header.name!r} can't be the label of a run.", hint=hint)


def _broken(text: str) -> bool:
    return any("\ud800" <= letter <= "\udfff" for letter in text)


def check_blobs(blobs: Mapping[Digest, bytes]) -> None:
    """Raise `UsageError` for a blob under another digest than its own: it could never be read again."""
    for digest, data in blobs.items():
        if sha256(data) != digest:
            raise UsageError(
                f"A blob of {len(data):,} bytes was given under {digest!r}, which isn't its digest.",
                hint="Name each blob by the SHA-256 of its bytes.",
                digest=digest,
            )


def check_blob(data: bytes | None, digest: Digest, where: str) -> bytes:
    """Return a blob that was read. Raises `StoreCorrupt` if it is missing or isn't what its digest says."""
    if data is not None and sha256(data) == digest:
        return data
    what = "is missing" if data is None else "has other bytes than were written"
    raise StoreCorrupt(
        f"The blob {digest} {what} in the store {where}.",
        hint="Keep the store as it is for a closer look, and restore it from a backup.",
        store=where,
        digest=digest,
    )


def damaged(run: str, where: str, what: str) -> StoreCorrupt:
    """Return the error for a journal that can't be what was written."""
    return StoreCorrupt(
        f"The journal of the run {run} in the store {where} is damaged: {what}.",
        hint="Keep the store as it is for a closer look, and restore it from a backup.",
        store=where,
        run=run,
    )


def unknown(run: str, where: str) -> NotFound:
    """Return the error for a run that isn't in the store."""
    return NotFound(
        f"There is no run {run!r} in the store {where}.", hint="`addendum runs` shows the runs.", run=run, store=where
    )


def moved(run: str, where: str) -> JournalMoved:
    """Return the error for a journal that somebody else wrote to first."""
    return JournalMoved(
        f"The journal {run} in the store {where} has changed since it was looked at.", hint="Look again.", run=run
    )


def taken(run: str, where: str) -> UsageError:
    """Return the error for a name that another run has."""
    return UsageError(
        f"There is a run {run!r} in the store {where} already.", hint="Give the new run another name.", run=run
    )
