"""JSON values, their canonical bytes (RFC 8785) and digests.

A payload's digest decides whether a committed result is served (DESIGN section 3), so this module never
converts silently: what JSON can't say is `NotJson`, with the place. A tuple is a JSON array. `1` and `1.0`
are the same JSON number, as are `0` and `-0.0`; text is compared by code points, without normalisation.
"""

from __future__ import annotations

import hashlib
import json
import math
from collections.abc import Callable, Iterable, Mapping
from typing import Any, Final, Never, TypeAlias

import rfc8785

from addendum.errors import NotJson

Json: TypeAlias = "None | bool | int | float | str | list[Json] | tuple[Json, ...] | dict[str, Json]"
Digest: TypeAlias = str
"""SHA-256 as 64 lower-case hexadecimal digits."""

MAX_DEPTH: Final = 64
"""How deep lists and objects may nest in a payload or a result."""
MAX_INT: Final = 2**53 - 1
"""The largest integer that every JSON reader keeps exactly (RFC 7493)."""
LEAVES: Final = frozenset({str, int, float, bool, type(None)})
"""The types of a JSON value that has none inside."""
_WHOLE: Final = 10**21
"""From here on canonical JSON writes a float with an exponent."""

_encoder: Final = json.JSONEncoder(ensure_ascii=False, sort_keys=True, separators=(",", ":"), check_circular=False)
_writer: Final = json.JSONEncoder(ensure_ascii=False, separators=(",", ":"), check_circular=False)


def _encode_by(encoder: json.JSONEncoder) -> Callable[[object], str]:
    """Return an encoder's function. `encode` makes a new one in C for each call; here it is made once, where the
    interpreter has it."""
    make = getattr(json.encoder, "c_make_encoder", None)
    if make is None:
        return encoder.encode
    text = json.encoder.encode_basestring
    inner = make(None, encoder.default, text, None, ":", ",", encoder.sort_keys, False, True)
    return lambda value: "".join(inner(value, 0))


_encode: Final = _encode_by(_encoder)
_write: Final = _encode_by(_writer)


def canonical(value: object, *, max_bytes: int | None = None, max_depth: int = MAX_DEPTH) -> bytes:
    """Return the RFC 8785 canonical bytes of a JSON value.

    Raises `NotJson` for NaN and infinities, keys that aren't text, bytes, sets and other objects, integers
    beyond ±(2^53 - 1), lone surrogates, more than `max_depth` levels, and more than `max_bytes` bytes.
    """
    try:
        if _exact((value,), max_depth):
            data = _encode(value).encode("utf-8")
        else:
            _explain(value, "", max_depth)
            data = rfc8785.dumps(value)  # type: ignore[arg-type]
    except UnicodeEncodeError:
        _explain(value, "", max_depth)
        raise
    if max_bytes is not None and len(data) > max_bytes:
        raise NotJson(
            f"The value is {len(data):,} bytes of JSON; the limit is {max_bytes:,}.",
            hint="Send a reference to large data instead of the data.",
            size=len(data),
            limit=max_bytes,
        )
    return data


def around(record: Mapping[str, Json], key: str, data: bytes) -> bytes | None:
    """Return the canonical bytes of an own record whose value under `key`, a plain word, has the canonical bytes
    `data`: these take the place of a null, so that the value isn't encoded again. None if the record has more beside it
    than leaves that the standard library's encoder writes as `canonical` does, which has to be asked then.

    No other text in it looks like that key and its null: within a text, a quote is escaped.
    """
    rest = {**record, key: None}
    if not _exact(rest.values(), 0):
        return None
    try:
        text = _encode(rest).encode("utf-8")
    except UnicodeEncodeError:
        return None
    name = f'"{key}":'.encode()
    return text.replace(name + b"null", name + data, 1)


def _exact(items: Iterable[Any], left: int) -> bool:
    """Whether all items are JSON of at most `left` levels, but for lone surrogates, and the standard library's encoder
    writes exactly RFC 8785's bytes for them, in C. A property test holds it against the library's.

    It does for keys whose UTF-16 order is their code point order, and for floats that both write without an exponent
    and with a fraction: the digits are the same, the shortest that give the number.
    """
    for item in items:
        kind = type(item)
        if kind is str:
            continue
        if kind is int:
            if not -MAX_INT <= item <= MAX_INT:
                return False
        elif kind is dict:
            if left <= 0:
                return False
            for key in item:
                if type(key) is not str or not (key.isascii() or max(key) <= "\ud7ff"):
                    return False
            if not _exact(item.values(), left - 1):
                return False
        elif kind is list or kind is tuple:
            if left <= 0 or not _exact(item, left - 1):
                return False
        elif kind is float:
            if not (1e-4 <= item < 1e15 or -1e15 < item <= -1e-4) or item % 1 == 0:
                return False
        elif item is not None and kind is not bool:
            return False
    return True


def _explain(value: object, where: str, left: int) -> None:
    """Raise for the first part of `value` that is no JSON, with its place."""
    kind = type(value)
    if value is None or kind is bool:
        return
    if kind is str:
        _explain_text(value, where)  # type: ignore[arg-type]
    elif kind is int:
        if not -MAX_INT <= value <= MAX_INT:  # type: ignore[operator]
            _refuse(
                f"the integer has {len(str(abs(value)))} digits and is beyond 2^53"  # type: ignore[arg-type]
                if abs(value) < 10**40  # type: ignore[arg-type]
                else "the integer is beyond 2^53",
                where,
                "Send it as a string.",
            )
    elif kind is float:
        if not math.isfinite(value):  # type: ignore[arg-type]
            _refuse(f"{value!r} is no JSON number", where, "Send null or a string.")
    elif kind is dict or kind is list or kind is tuple:
        if left <= 0:
            _refuse("it nests too deep", where[:80], f"Flatten it to {MAX_DEPTH} levels at most.")
        for key, item in value.items() if kind is dict else enumerate(value):  # type: ignore[attr-defined, arg-type]
            if kind is dict:
                if type(key) is not str:
                    _refuse(f"the key {key!r} is a {type(key).__name__}, not text", where, "Write str(key).")
                _explain_text(key, where)
            _explain(item, f"{where}/{key}", left - 1)
    else:
        _refuse(
            f"a {kind.__name__} is no JSON value",
            where,
            "Build it from dicts, lists, text, numbers, booleans and None.",
        )


def _explain_text(value: str, where: str) -> None:
    try:
        value.encode("utf-8")
    except UnicodeEncodeError:
        pass
    else:
        return
    _refuse("the text has a lone surrogate", where, "Send text that is valid Unicode.")


def _refuse(what: str, where: str, hint: str) -> Never:
    raise NotJson(f"This can't be sent as JSON: {what} (at {where or 'the top'}).", where=where, hint=hint)


def sha256(data: bytes) -> Digest:
    """Return the SHA-256 of bytes, as 64 hexadecimal digits."""
    return hashlib.sha256(data).hexdigest()


def digest(value: object) -> Digest:
    """Return the SHA-256 of a value's canonical bytes. Raises `NotJson` as `canonical` does."""
    return sha256(canonical(value))


def payload_digest(data: bytes, take: int = 1) -> Digest:
    """Return a call's digest: its payload's canonical bytes and, from the second on, its `take` (DESIGN section 3).

    No canonical JSON has a NUL byte, so a take can't be forged by a payload.
    """
    return sha256(data if take == 1 else data + b"\x00take=%d" % take)


def parse(text: str | bytes) -> Json:
    """Parse JSON strictly: duplicate keys, NaN and infinities are `NotJson`, as is text that isn't JSON."""

    def pairs(items: list[tuple[str, Json]]) -> dict[str, Json]:
        found: dict[str, Json] = {}
        for key, value in items:
            if key in found:
                raise NotJson(f"The key {key!r} stands twice in one object.", hint="Keep one of them.", key=key)
            found[key] = value
        return found

    def constant(name: str) -> Never:
        raise NotJson(f"{name} is no JSON number.", hint="Use null or a string.")

    try:
        value: Json = json.loads(text, object_pairs_hook=pairs, parse_constant=constant)
    except (ValueError, RecursionError) as error:
        raise NotJson(f"This is not JSON: {error}.", hint="Check it with a JSON tool.") from None
    return value


def loads(data: bytes | str) -> Json:
    """Read canonical JSON back: what `canonical` wrote is equal to what it makes of this. Raises `ValueError` for text
    that is no JSON. What a person or a provider wrote is read with `parse`."""
    read: Json = doubles(json.loads(data))
    return read


def doubles(value: Any) -> Any:
    """Return a value that was read from canonical JSON, with floats where it had floats; the same object, if it is so.

    RFC 8785 writes the float 1.5e18 as 1500000000000000000, which a decoder takes for an integer. No integer beyond
    ±(2^53 - 1) is ever written: each one is such a float, and converting it gives the very one that was written.
    """
    return _doubled(value) if _has_doubles((value,)) else value


def _has_doubles(items: Iterable[Any], least: int = -MAX_INT, most: int = MAX_INT) -> bool:
    for item in items:
        kind = type(item)
        if kind is str:
            continue
        if kind is int:
            if not least <= item <= most and -_WHOLE < item < _WHOLE:
                return True
        elif kind is dict:
            if _has_doubles(item.values()):
                return True
        elif (kind is list or kind is tuple) and _has_doubles(item):
            return True
    return False


def _doubled(value: Any) -> Any:
    kind = type(value)
    if kind is int:
        return value if -MAX_INT <= value <= MAX_INT or not -_WHOLE < value < _WHOLE else float(value)
    if kind is dict:
        return {key: _doubled(item) for key, item in value.items()}
    return [_doubled(item) for item in value] if kind is list or kind is tuple else value


def dumps(value: object) -> str:
    """Return compact JSON text for a value that is known to be JSON (an own record, not a payload)."""
    return _write(value)


def plain(value: object) -> Json:
    """Return a JSON value as it will be read back from the store: a copy, with `1.0` as `1`, and lists for tuples.

    What a script is given must not depend on whether it was stored in between. Raises `NotJson` as `canonical` does.
    """
    return loads(canonical(value))


def freeze(value: Mapping[str, Json] | Json) -> Json:
    """Return a deep copy of a JSON value, so that neither side can change what the other holds."""
    kind = type(value)
    if kind in LEAVES:
        return value  # type: ignore[return-value]
    if kind is dict:
        return {key: item if type(item) in LEAVES else freeze(item) for key, item in value.items()}  # type: ignore[union-attr]
    if kind is list or kind is tuple:
        return [item if type(item) in LEAVES else freeze(item) for item in value]  # type: ignore[union-attr]
    copied: Json = json.loads(json.dumps(value, ensure_ascii=False))
    return copied
