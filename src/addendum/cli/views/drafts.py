"""What models were asked for in a run: drafts with their verdicts, counterexamples, and how a loop came out."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from rich.console import Group, RenderableType
from rich.text import Text

from addendum.cli.printable import line, printable
from addendum.cli.views.words import count, pairs, state, table
from addendum.runs.advice import named

FACTS = ("place", "call", "committed", "now", "payload_committed", "payload_now", "expression", "limit")
"""Details of a counterexample that are shown, in this order."""


def listing(found: Sequence[Mapping[str, Any]]) -> RenderableType:
    """Return drafts in a list: who was asked, what came of it, what it cost."""
    listed = table("draft", "verdict", "model", "cost", "why", right=("draft", "cost"), fold=("why",))
    for draft in found:
        held = (
            f"${draft['hold_usd']} held" if draft["state"] in ("in_flight", "lost") and draft["script"] is None else ""
        )
        cost = f"${draft['cost_usd']}" if draft["cost_usd"] != "0.00" or not held else held
        listed.add_row(str(draft["number"]), state(draft["state"]), line(draft["model"], 40), cost, _why(draft))
    return listed


def _why(draft: Mapping[str, Any]) -> str:
    if draft["failure"] is not None:
        return line(f"{draft['failure']['code']}: {draft['failure']['message']}", 200)
    if draft["state"] == "lost":
        return "the process that asked is gone: the next `addendum repair` counts it as spent in full"
    found = draft["counterexamples"]
    if found:
        more = f" ({len(found) - 1} more)" if len(found) > 1 else ""
        return line(f"{found[0]['guard']}: {found[0]['message']}", 200) + more
    return line(draft["note"] or draft["reason"] or "", 200)


def at_length(found: Iterable[Mapping[str, Any]]) -> RenderableType:
    """Return drafts one by one, with every counterexample."""
    parts: list[RenderableType] = []
    for draft in found:
        head = Text(f"Draft {draft['number']}: ", style="bold").append_text(state(draft["state"]))
        parts += [head, pairs(_facts(draft)), Text()]
        for each in draft["counterexamples"]:
            parts += [finding(each), Text()]
    return Group(*parts) if parts else Text("No model was asked for a script of this run.")


def _facts(draft: Mapping[str, Any]) -> list[tuple[str, str | Text]]:
    held = "" if draft["state"] not in ("in_flight", "lost") else f", ${draft['hold_usd']} held"
    return [
        ("asked", f"{line(draft['model'])}, to {'mend' if draft['purpose'] == 'repair' else 'write'} the script"),
        ("money", f"${draft['cost_usd']}{held}, {draft['tokens']} tokens"),
        ("reason", line(draft["reason"] or "", 400)),
        ("moves", "\n".join(f"{line(old)} = {line(new)}" for old, new in draft["moves"].items())),
        ("why", _why(draft) if draft["failure"] is not None or draft["note"] or draft["state"] == "lost" else ""),
    ]


def finding(found: Mapping[str, Any]) -> RenderableType:
    """Return one counterexample."""
    head = Text(f"{found['guard']}: {found['kind'].replace('_', ' ')}", style="bold red")
    head.append(f"  {line(found['message'])}", style="default")
    facts = found["facts"]
    shown = [(f"  {name.replace('_', ' ')}", _fact(facts[name])) for name in FACTS if facts.get(name)]
    at = [("  line", str(found["line"]))] if found["line"] else []
    return Group(head, pairs([*at, *shown, ("  way out", printable(found["way_out"]))]))


def _fact(value: Any) -> str:
    if isinstance(value, dict) and set(value) == {"line", "expression"}:
        return f"line {value['line']}: {line(value['expression'])}" if value["line"] else line(value["expression"])
    return line(value if isinstance(value, str) else json.dumps(value, ensure_ascii=False), 400)


def outcome(data: Mapping[str, Any]) -> RenderableType:
    """Return how a loop came out (`Outcome.to_json`), without its plan."""
    what = "The script" if data["purpose"] == "author" else "The repair"
    head = Text(f"{what} of ").append(data["run"], style="bold").append(": ")
    head.append_text(state(data["status"]))
    parts: list[RenderableType] = [head]
    for number, tried in enumerate(data["attempts"], 1):
        parts.append(_tried(number, tried))
    times = count(len(data["attempts"]), "draft")
    facts: list[tuple[str, str | Text]] = [
        ("money", f"${data['cost_usd']} for {times}, ${data['total_cost_usd']} in all for the run"),
        ("lost", _lost(data["lost"])),
        ("reason", line(data["reason"] or "", 400)),
        ("why", printable(data["message"])),
        ("way out", printable(named(data["hint"], data["run"])) if not data["candidate"] else ""),
    ]
    return Group(*parts, pairs(facts))


def _lost(number: int) -> str:
    return f"{count(number, 'draft')} of a process that is gone: counted as spent in full" if number else ""


def _tried(number: int, tried: Mapping[str, Any]) -> RenderableType:
    head = Text(f"  {number}. ").append_text(state(tried["verdict"]))
    head.append(f"  ${tried['cost_usd']}", style="dim")
    found = tried["counterexamples"]
    if tried["failure"] is not None:
        head.append(f"  {line(tried['failure']['code'] + ': ' + tried['failure']['message'], 200)}")
    if tried["note"]:
        head.append(f"  {line(tried['note'], 200)}")
    return Group(head, *(_short(each) for each in found))


def _short(found: Mapping[str, Any]) -> Text:
    at = f", line {found['line']}" if found["line"] else ""
    text = Text(f"     {found['guard']} ({found['kind']}{at})  ", style="red")
    return text.append(line(found["message"], 400), style="default")
