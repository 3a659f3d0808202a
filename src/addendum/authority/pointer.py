"""JSON pointers (RFC 6901): which value of a payload a limit looks at. Arithmetic only."""

from __future__ import annotations

from collections.abc import Iterable

from addendum.canon import Json


def tokens(pointer: str) -> list[str]:
    """Return the steps of a JSON pointer."""
    return [token.replace("~1", "/").replace("~0", "~") for token in pointer.split("/")[1:]]


def at(value: Json, pointer: str) -> Json:
    """Return what stands at a JSON pointer, None for nothing."""
    return within(value, tokens(pointer))


def within(value: Json, path: Iterable[str]) -> Json:
    """Return what stands at a JSON pointer that was taken apart, None for nothing."""
    for token in path:
        if isinstance(value, dict):
            value = value.get(token)
        elif isinstance(value, list | tuple) and token.isdigit() and int(token) < len(value):
            value = value[int(token)]
        else:
            return None
    return value
