"""Comparing what was seen with what was expected, key by key, and saying the first difference in a person's words."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True, slots=True)
class Mismatch:
    """One key of one step that differs. `because` is what the step itself said."""

    step: int
    action: str
    key: str
    expected: Any
    seen: Any
    because: str = ""

    def __str__(self) -> str:
        because = f" ({self.because})" if self.because else ""
        return f"step {self.step} ({self.action}): {self.key} is {self.seen!r}, expected {self.expected!r}{because}"

    def to_json(self) -> dict[str, Any]:
        """Return the mismatch as JSON."""
        return {
            "step": self.step,
            "action": self.action,
            "key": self.key,
            "expected": self.expected,
            "seen": self.seen,
            "because": self.because,
        }


def compare(step: int, action: str, expect: Mapping[str, Any], seen: Mapping[str, Any]) -> list[Mismatch]:
    """Compare the keys that are expected, and only those. `1`, `1.0` and `true` are three different things."""
    because = str(seen.get("message") or "")
    return [
        Mismatch(step, action, key, wanted, seen.get(key), because)
        for key, wanted in expect.items()
        if key not in seen or not same(wanted, seen[key])
    ]


def same(left: Any, right: Any) -> bool:
    """Whether two JSON values are the same; numbers by value, but a boolean is no number."""
    if isinstance(left, bool) or isinstance(right, bool):
        return left is right
    if isinstance(left, dict) and isinstance(right, dict):
        return left.keys() == right.keys() and all(same(left[key], right[key]) for key in left)
    if isinstance(left, list | tuple) and isinstance(right, list | tuple):
        return len(left) == len(right) and all(same(a, b) for a, b in zip(left, right, strict=True))
    return bool(left == right) and isinstance(left, str) == isinstance(right, str)
