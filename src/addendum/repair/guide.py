"""The authoring guide: how a workflow script is written, made from the rules' pages and a catalog (AUTHORING).

It is what a model gets and what `addendum guide` prints; the fixed part is `guide.md` beside this module.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping
from importlib import resources
from typing import Any, Final

from addendum.authority.catalog import Capability
from addendum.authority.money import usd
from addendum.errors import FAILURE_CODES
from addendum.repair.brief import Offer, Rule
from addendum.repair.text import plain
from addendum.script import manual
from addendum.script.source import DEFAULT_LIMITS

EFFECTS: Final[Mapping[str, str]] = {
    "read": "read-only",
    "idempotent": "idempotent",
    "paid": "paid artifact",
    "side_effect": "side effect",
    "irreversible": "irreversible side effect",
}
_TYPES: Final = {
    "string": "str",
    "integer": "int",
    "number": "number",
    "boolean": "bool",
    "null": "null",
    "object": "object",
    "array": "list",
}
DEPTH: Final = 4


def guide(catalog: Iterable[Capability]) -> str:
    """Return the guide as Markdown."""
    return compose([offer(each) for each in catalog], rules())


def compose(offers: Iterable[Offer], found: Iterable[Rule]) -> str:
    """Put the guide together."""
    text = resources.files("addendum.repair").joinpath("guide.md").read_text("utf-8")
    codes = ", ".join(f'"{code}"' for code in FAILURE_CODES)
    parts = {
        "codes": codes,
        "rules": "\n".join(f"- {rule.name} {_titled(rule)}" for rule in found),
        "bytes": f"{DEFAULT_LIMITS.max_bytes // 1024} KiB",
        "lines": f"{DEFAULT_LIMITS.max_lines:,}",
        "capabilities": table(offers),  # last: what a catalog says isn't looked through for marks
    }
    for name, part in parts.items():
        text = text.replace("{{" + name + "}}", part)
    return text


def _titled(rule: Rule) -> str:
    said = rule.text.lower().startswith(rule.title.lower())
    return rule.text if said else f"{rule.title}. {rule.text}"


def offer(capability: Capability) -> Offer:
    """Return a capability as a model is told of it."""
    return Offer(
        name=capability.name,
        effect=capability.effect,
        about=capability.about,
        input=capability.input,
        output=capability.output,
        price=capability.price,
        most=capability.reserve,
        waits=capability.waits,
    )


def rules() -> tuple[Rule, ...]:
    """Return the checker's rules in short: from each page what it asks for, and what to use instead."""
    return tuple(Rule(name=page.rule, title=page.title, text=_short(page.text)) for page in manual.pages())


def table(offers: Iterable[Offer]) -> str:
    """Return capabilities as a table of Markdown. What a catalog says is data: it can't leave its cell."""
    rows = ["| name | payload | result | effect | what it does |", "| --- | --- | --- | --- | --- |"]
    rows += [f"| {' | '.join(cell(each) for each in _row(found))} |" for found in offers]
    return "\n".join(rows)


def cell(text: str) -> str:
    """Return a text for a cell: one line, no bars."""
    return " ".join(plain(text).split()).replace("|", "\\|")


def _row(found: Offer) -> tuple[str, ...]:
    effect = EFFECTS.get(found.effect, found.effect)
    price = "" if not found.most else f", ${usd(found.price)}"
    most = "" if found.most == found.price else f" (at most ${usd(found.most)})"
    waits = "; waits for a person" if found.waits else ""
    return (found.name, shape(found.input), shape(found.output), f"{effect}{price}{most}{waits}", found.about)


def shape(schema: Mapping[str, Any], depth: int = DEPTH) -> str:
    """Return what a JSON Schema describes in few words: `{"prompt": str, "seed": int (optional)}`."""
    if not schema:
        return "not described"
    return _shape(schema, depth) or "any JSON"


def _shape(schema: Any, depth: int) -> str:
    if not isinstance(schema, Mapping) or depth < 0:
        return ""
    if "const" in schema:
        return json.dumps(schema["const"], ensure_ascii=False)
    if isinstance(schema.get("enum"), list):
        return " or ".join(json.dumps(each, ensure_ascii=False) for each in schema["enum"])
    for name in ("anyOf", "oneOf"):
        if isinstance(schema.get(name), list):
            return " or ".join(dict.fromkeys(_shape(each, depth - 1) or "any JSON" for each in schema[name]))
    kinds = schema.get("type")
    return " or ".join(
        _kind(kind, schema, depth) for kind in (kinds if isinstance(kinds, list) else [kinds]) if isinstance(kind, str)
    )


def _kind(kind: str, schema: Mapping[str, Any], depth: int) -> str:
    match kind:
        case "object" if isinstance(schema.get("properties"), Mapping) and schema["properties"] and depth:
            return "{" + ", ".join(_fields(schema, depth)) + "}"
        case "array" if items := _shape(schema.get("items"), depth - 1):
            return f"[{items}]"
        case _:
            return _TYPES.get(kind, kind)


def _fields(schema: Mapping[str, Any], depth: int) -> Iterator[str]:
    required = schema.get("required")
    for name, below in schema["properties"].items():
        optional = "" if isinstance(required, list) and name in required else " (optional)"
        yield f"{json.dumps(name, ensure_ascii=False)}: {_shape(below, depth - 1) or 'any JSON'}{optional}"


def _short(text: str) -> str:
    """Return a page's first paragraph, and what it says to use instead."""
    first = text.partition("\n\n")[0]
    _, _, rest = text.partition("\n## Use instead\n")
    instead = rest.partition("\n\n# Examples")[0].partition("\n# ")[0].partition("\n## ")[0]
    return " ".join(f"{first} {instead}".split())
