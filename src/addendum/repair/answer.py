"""What a model answered, read strictly: a script, the moves that it declares, drops that it proposes, a short reason.

Anything malformed is a finding, never an exception: the model gets it back like any other counterexample.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Final

from addendum import identity as ids
from addendum.canon import Json
from addendum.repair.findings import Finding
from addendum.script.source import DEFAULT_LIMITS

MOVES: Final = 200
REASON: Final = 1000
"""Characters of a reason that are kept."""
KEPT: Final = 128 * 1024
"""Bytes of a script that are kept whatever it is; more than any that could be admitted."""

_PAIR: Final[dict[str, Json]] = {
    "type": "object",
    "properties": {"old": {"type": "string"}, "new": {"type": "string"}},
    "required": ["old", "new"],
    "additionalProperties": False,
}
SCHEMA: Final[Mapping[str, Json]] = {
    "type": "object",
    "title": "Candidate",
    "properties": {
        "script": {"type": "string", "description": "The whole script, Python source, nothing around it."},
        "moves": {
            "type": "array",
            "items": _PAIR,
            "description": "Committed calls that stand elsewhere now: old and new place, as the brief writes places.",
        },
        "drops": {
            "type": "array",
            "items": {"type": "string"},
            "description": "Places of committed calls that the script gives up; only an operator can allow them.",
        },
        "reason": {"type": "string", "description": "One or two sentences: what was wrong and what is different."},
    },
    "required": ["script", "moves", "drops", "reason"],
    "additionalProperties": False,
}


@dataclass(frozen=True, slots=True)
class Candidate:
    """A model's answer. `moves` are places, old to new; `drops` are places or identities."""

    script: str
    moves: Mapping[str, str] = field(default_factory=dict)
    drops: tuple[str, ...] = ()
    reason: str = ""


def read(value: Json) -> tuple[Candidate, list[Finding]]:
    """Return what a model answered, and what is wrong with its form. A candidate with findings is never judged on."""
    if not isinstance(value, dict):
        return Candidate(""), [_finding("not_an_object", f"The answer is a {_kind(value)}, not an object.")]
    found: list[Finding] = []
    script = value.get("script")
    if not isinstance(script, str):
        found.append(_finding("no_script", f"`script` is a {_kind(script)}, not a text."))
        script = ""
    elif not script.strip():
        found.append(_finding("empty", "`script` is empty."))
    elif (size := len(script.encode("utf-8", "replace"))) > DEFAULT_LIMITS.max_bytes:
        found.append(
            _finding("too_large", f"The script has {size:,} bytes; at most {DEFAULT_LIMITS.max_bytes:,} are read.")
        )
    moves, wrong = _moves(value.get("moves"))
    found += wrong
    drops = value.get("drops") or []
    if not isinstance(drops, list | tuple) or not all(isinstance(each, str) for each in drops):
        found.append(_finding("drops", "`drops` is no list of texts."))
        drops = []
    reason = value.get("reason")
    said = reason[:REASON] if isinstance(reason, str) else ""
    return Candidate(script, moves, tuple(dict.fromkeys(str(each) for each in drops))[:MOVES], said), found


def too_large(size: int, most: int) -> Finding:
    """Return the finding for an answer with more bytes than are taken."""
    return _finding("too_large", f"The answer has {size:,} bytes of JSON; at most {most:,} are taken.")


def kept(script: str) -> bytes:
    """Return the bytes of a script that are kept: of one that is much too large, its beginning."""
    return script.encode("utf-8", "replace")[:KEPT].decode("utf-8", "ignore").encode("utf-8")


def _moves(value: Any) -> tuple[dict[str, str], list[Finding]]:
    found: dict[str, str] = {}
    wrong: list[Finding] = []
    pairs: list[tuple[Any, Any]] = []
    match value:
        case None:
            return found, wrong
        case dict():
            pairs = list(value.items())
        case list() | tuple() if all(isinstance(each, dict) for each in value):
            pairs = [(each.get("old", each.get("from")), each.get("new", each.get("to"))) for each in value]
        case _:
            return found, [_finding("moves", "`moves` is no list of objects with `old` and `new`.")]
    if len(pairs) > MOVES:
        return found, [_finding("moves", f"`moves` names {len(pairs)} moves; at most {MOVES} are read.")]
    for old, new in pairs:
        if not isinstance(old, str) or not isinstance(new, str):
            wrong.append(_finding("moves", "A move has two texts, `old` and `new`."))
        elif not _is_place(old) or not _is_place(new):
            wrong.append(
                _finding("moves", f"The move from {old[:200]!r} to {new[:200]!r} doesn't name places.", _PLACES)
            )
        elif found.get(old, new) != new:
            wrong.append(_finding("moves", f"The place {old!r} is moved to two places.", "Name each old place once."))
        elif old not in found and new in found.values():
            wrong.append(_finding("moves", f"Two places are moved to {new!r}.", "Name each new place once."))
        else:
            found[old] = new
    return found, wrong


_PLACES: Final = "Write a place as the brief does: function, blocks and call, with the frames that lead there."


def _is_place(text: str) -> bool:
    try:
        return ids.place(text) == text
    except ValueError:
        return False


def _finding(kind: str, message: str, way_out: str = "") -> Finding:
    return Finding(
        guard="answer",
        kind=kind,
        message=message,
        way_out=way_out or "Answer with one object: the whole script as text, moves, drops and a reason.",
    )


def _kind(value: object) -> str:
    names = {dict: "object", list: "list", tuple: "list", str: "text", bool: "boolean", type(None): "null"}
    return names.get(type(value), "number")
