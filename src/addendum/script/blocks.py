"""Positions: the numbers of blocks, loops and places of one function (DESIGN section 3, "site").

Only what counts takes a number, so a statement, an arm, a handler or a case without a call moves nothing.
"""

from __future__ import annotations

import re
from collections import Counter
from typing import Final

from addendum.script.sites import Block, Body, Item, Loop, Place

_LOOPS: Final = ("", ".test")
_ODD: Final = re.compile(r"[^\w.\-<>~]")


def number(body: Body) -> None:
    """Set the position of every place and loop of a function, in place."""
    _number(body, body.items, body.qualname, None, False)


def _number(body: Body, items: list[Item], path: str, loop: Loop | None, tested: bool) -> None:
    labels: Counter[str] = Counter()
    kinds: Counter[str] = Counter()
    for item in items:
        if isinstance(item, Block):
            _block(body, item, f"{path}/{item.kind}.{kinds[item.kind]}", loop)
            kinds[item.kind] += 1
            continue
        item.block, item.loop, item.tested = path, loop, tested
        if item.kind != "passed":
            label = safe(item.label)
            item.position = f"{path}/{label}#{labels[label]}"
            labels[label] += 1


def _block(body: Body, block: Block, path: str, outer: Loop | None) -> None:
    loop: Loop | None = None
    if block.kind in ("for", "while") and any(part.suffix in _LOOPS for part in block.parts):
        tested = block.parts[0].suffix == ".test"
        loop = block.loop = Loop(block.node, len(body.loops), outer, path, tested)  # type: ignore[arg-type]
        body.loops.append(loop)
    for part in block.parts:
        inner = loop if loop is not None and part.suffix in _LOOPS else outer
        _number(body, part.items, path + part.suffix, inner, part.suffix == ".test")


def safe(label: str) -> str:
    """Return a label that an identity's text can hold; a capability's odd characters are escaped as `%XX`."""
    plain = label.removesuffix("()")
    if not _ODD.search(plain):
        return label
    escaped = _ODD.sub(lambda odd: odd[0] if odd[0] == "?" else f"%{ord(odd[0]):02X}", plain)
    return escaped + label[len(plain) :]


def places(items: list[Item]) -> list[Place]:
    """Return every place below some items, in source order."""
    found: list[Place] = []
    for item in items:
        if isinstance(item, Place):
            found.append(item)
        else:
            for part in item.parts:
                found += places(part.items)
    return found
