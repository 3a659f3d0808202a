"""How a step came out, for a person: what happened, what it cost, why it ended, and what to do next."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

from rich.console import Group, RenderableType
from rich.text import Text

from addendum.cli.printable import printable
from addendum.cli.views.words import advice, count, pairs, state
from addendum.runs.advice import Advice, named

LINES = 40
"""How many lines of a result are shown."""


def result(data: Mapping[str, Any], steps: tuple[Advice, ...]) -> Group:
    """Return a step's result (`StepResult.to_json`) for a person."""
    parts: list[RenderableType] = [Text(), _heading(data), pairs(_facts(data))]
    if data["status"] == "completed":
        parts += [Text("result", style="dim"), Text(shown(data["result"], data["run"]))]
    if steps:
        parts += [Text(), advice(steps)]
    return Group(*parts)


def _heading(data: Mapping[str, Any]) -> Text:
    text = Text("Run ")
    text.append(data["run"] or "(none)", style="bold")
    text.append(": ")
    text.append_text(state(data["status"]))
    for key in ("stop", "error"):
        if data[key]:
            text.append(f" ({printable(str(data[key]))})")
    return text


def _facts(data: Mapping[str, Any]) -> list[tuple[str, str | Text]]:
    sent = f"{data['dispatched']} sent, {data['executed']} succeeded, {data['replayed']} replayed"
    more = [
        count(data[key], noun)
        for key, noun in (
            ("rebound", "rebound call"),
            ("superseded", "superseded call"),
            ("orphans", "orphan"),
            ("repeats", "repeat"),
        )
        if data[key]
    ]
    where = data["details"].get("where", {})
    frames = where.get("frames") or []
    place = f"line {frames[-1][0]}, in {frames[-1][1]}" if frames else ""
    hint = named(data["hint"], data["run"]) if data["status"] in ("stopped", "not_admitted") else ""
    return [
        ("calls", ", ".join([sent, *more])),
        ("money", f"${data['cost_usd']} in this step, ${data['total_cost_usd']} in all"),
        ("why", named(data["message"], data["run"])),
        ("at", " ".join(part for part in (str(where.get("identity") or ""), f"({place})" if place else "") if part)),
        ("way out", hint),
        ("orphans", "\n".join(data["details"].get("orphans", []))),
        ("unsaved", _unsaved(data)),
    ]


def _unsaved(data: Mapping[str, Any]) -> Text | str:
    """Results that were paid for and couldn't be made durable: the only place where they are, so all of them."""
    found = data["details"].get("unsaved") or []
    if not found:
        return ""
    text = Text(
        "These results were paid for and are not in the store; write them back with `addendum reconcile`:", style="red"
    )
    for item in found:
        text.append(f"\n{item['identity']}: {printable(json.dumps(item['result'], ensure_ascii=False))}")
    return text


def shown(value: Any, run: str) -> str:
    """Return a result as JSON text, cut after some lines."""
    lines = printable(json.dumps(value, ensure_ascii=False, indent=2)).splitlines()
    if len(lines) > LINES:
        lines = [*lines[:LINES], f"… {len(lines) - LINES} more lines: addendum show {run} --result"]
    return "\n".join(f"  {line}" for line in lines)
