"""How a step came out, for a person: what happened, what it cost, why it ended, and what to do next."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping
from typing import Any

from rich.console import Group, RenderableType
from rich.text import Text

from addendum.cli.printable import printable
from addendum.cli.views.words import advice, count, pairs, state
from addendum.runs.advice import Advice, named

WIDTH = 88
"""Columns up to which a value of a result stands on one line."""
LINES = 40
"""How many lines of a result are shown."""
_COMMAND = re.compile(r"`(addendum(?: [a-z]+)+)")


def result(data: Mapping[str, Any], steps: tuple[Advice, ...]) -> Group:
    """Return a step's result (`StepResult.to_json`) for a person."""
    parts: list[RenderableType] = [Text(), _heading(data), pairs(_facts(data, steps))]
    if data["status"] == "completed":
        parts += [Text("result", style="dim"), Text(shown(data["result"], data["run"]))]
    if steps:
        parts += [Text(), advice(steps)]
    return Group(*parts)


def _heading(data: Mapping[str, Any]) -> Text:
    if not data["run"]:
        return Text("The script is not admitted, and no run was made.", style="red")
    text = Text("Run ")
    text.append(data["run"], style="bold")
    text.append(": ")
    text.append_text(state(data["status"]))
    for key in ("stop", "error"):
        if data[key]:
            text.append(f" ({printable(str(data[key]))})")
    return text


def _facts(data: Mapping[str, Any], steps: tuple[Advice, ...]) -> list[tuple[str, str | Text]]:
    if data["status"] == "not_admitted":
        return [
            ("why", named(data["message"], data["run"])),
            ("way out", hint(data)),
            ("", "Nothing was sent or changed." if data["run"] else ""),
        ]
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
    return [
        ("calls", ", ".join([sent, *more])),
        ("money", f"${data['cost_usd']} in this step, ${data['total_cost_usd']} in all"),
        ("why", why(data["error"], named(data["message"], data["run"]))),
        ("at", place(where)),
        (
            "way out",
            hint(data) if _ended(data) and not _advised(data["hint"], steps) else "",
        ),
        ("orphans", "\n".join(data["details"].get("orphans", []))),
        ("unsaved", _unsaved(data)),
    ]


def _ended(data: Mapping[str, Any]) -> bool:
    """Whether it came to an end that somebody has to mend."""
    return data["status"] in ("stopped", "failed")


def _advised(said: str, steps: tuple[Advice, ...]) -> bool:
    """Whether the commands that a hint names stand among the steps, so that it says nothing more."""
    named_by = _COMMAND.findall(said)
    return bool(named_by) and all(any(step.command.startswith(each) for step in steps) for each in named_by)


def why(error: str | None, message: str) -> str:
    """Return why a step ended, with the name of the script's error: a bare message of a `KeyError` says little."""
    return message if not error or message.startswith(error) else f"{error}: {message}"


def hint(data: Mapping[str, Any]) -> str:
    """Return the way out of how a step ended."""
    return named(data["hint"], data["run"])


def place(where: Mapping[str, Any]) -> str:
    """Return where a script ended: the failed call's identity, and the line of the source."""
    frames = where.get("frames") or []
    line = f"line {frames[-1][0]}, in {frames[-1][1]}" if frames else ""
    identity = str(where.get("identity") or "")
    return f"{identity} ({line})" if identity and line else identity or line


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
    lines = list(_pretty(value, WIDTH))
    if len(lines) > LINES:
        lines = [*lines[:LINES], f"… {len(lines) - LINES} more lines: addendum show {run} --result"]
    return "\n".join(f"  {line}" for line in lines)


def _pretty(value: Any, width: int) -> Iterator[str]:
    """Yield JSON text, with what is short enough on one line."""
    compact = printable(json.dumps(value, ensure_ascii=False))
    if len(compact) <= width or not isinstance(value, dict | list) or not value:
        yield compact
        return
    opened, closed = ("{", "}") if isinstance(value, dict) else ("[", "]")
    yield opened
    items = list(value.items()) if isinstance(value, dict) else [(None, item) for item in value]
    for index, (key, item) in enumerate(items):
        head = f"{printable(json.dumps(key, ensure_ascii=False))}: " if key is not None else ""
        lines = list(_pretty(item, width - len(head) - 2))
        lines[0] = head + lines[0]
        lines[-1] += "," if index < len(items) - 1 else ""
        yield from (f"  {line}" for line in lines)
    yield closed
