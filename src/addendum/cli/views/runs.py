"""Runs in a list, one run, and its attempts."""

from __future__ import annotations

import datetime
import json
from collections.abc import Sequence
from typing import Any

from rich.console import Group, RenderableType
from rich.text import Text

from addendum.authority.catalog import WRITE
from addendum.authority.money import usd
from addendum.cli.printable import line, printable
from addendum.cli.views import drafts
from addendum.cli.views.result import place, shown, why
from addendum.cli.views.words import advice, count, pairs, state, table
from addendum.runs.query import AttemptView, CallView, RunView, Summary


def listing(found: Sequence[Summary], more: int) -> RenderableType:
    """Return a list of runs."""
    if not found:
        return Text("There is no run here yet. Start one with: addendum run SCRIPT")
    listed = table(
        "run", "script", "state", "revision", "committed", "cost", "started", right=("revision", "committed", "cost")
    )
    for run in found:
        listed.add_row(
            run.run,
            line(run.name, 40),
            state(run.status).append(f" ({run.stop})" if run.stop else "", style="default"),
            str(run.revision),
            str(run.committed),
            f"${usd(run.cost)}",
            run.created_at.replace("T", " ").removesuffix("+00:00"),
        )
    return Group(listed, Text(f"{more} more with --all", style="dim")) if more > 0 else listed


def run(found: RunView, value: Any, every: bool) -> Group:
    """Return one run: its state, its calls, its result, and what to do next."""
    summary = found.summary
    head = Text("Run ").append(summary.run, style="bold").append(": ")
    head.append_text(state(summary.status))
    for reason in (summary.stop, found.error):
        head.append(f" ({printable(reason)})" if reason else "")
    calls = [call for call in found.calls if every or call.state != "retried"]
    parts: list[RenderableType] = [head, pairs(_facts(found)), Text()]
    if calls:
        parts += [_calls(calls), Text()]
    if hidden := len(found.calls) - len(calls):
        parts += [
            Text(f"{count(hidden, 'failure')} that {'was' if hidden == 1 else 'were'} tried again: --all", style="dim"),
            Text(),
        ]
    if found.drafts:
        parts += [drafts.listing([draft.to_json() for draft in found.drafts]), Text()]
    if summary.status == "completed":
        parts += [Text("result", style="dim"), Text(shown(value, summary.run)), Text()]
    parts.append(advice(found.advice))
    return Group(*parts)


def _facts(found: RunView) -> list[tuple[str, str | Text]]:
    summary = found.summary
    sent = sum(totals["calls"] for name, totals in found.totals.items() if name != WRITE)
    return [
        ("request", line(found.request, 400)),
        ("script", _script(summary)),
        ("started", summary.created_at.replace("T", " ").replace("+00:00", " UTC")),
        (
            "calls",
            f"{summary.committed} committed, {sent} sent, {found.replayed} replayed, "
            f"the run was driven {count(found.drives, 'time')}",
        ),
        ("money", f"${usd(summary.cost)}"),
        ("why", why(found.error, found.message)),
        ("at", place(found.where)),
    ]


def _script(summary: Summary) -> str:
    """Say which script it is. The name is that of the first revision: later ones come from anywhere."""
    if summary.revision > 1:
        return f"revision {summary.revision}" + (f" of a run that began as {summary.name}" if summary.name else "")
    return f"{summary.name or '(no name)'}, revision {summary.revision}"


def _calls(calls: Sequence[CallView]) -> RenderableType:
    listed = table(
        "state", "capability", "cost", "replayed", "identity", right=("cost", "replayed"), fold=("identity",)
    )
    for call in calls:
        where = Text(line(call.identity))
        if call.rebound_from:
            where.append(f"\nwas {line(call.rebound_from)}", style="dim")
        if call.failure is not None:
            where.append(f"\n{call.failure['code']}: {line(str(call.failure['message']), 160)}", style="red")
        word = f"failed, {'open' if call.open else 'handled'}" if call.state == "failed" else call.state
        listed.add_row(state(call.state, word), call.capability, f"${usd(call.cost)}", str(call.replays), where)
    return listed


def attempts(found: Sequence[AttemptView]) -> RenderableType:
    """Return a list of attempts."""
    if not found:
        return Text("Nothing was sent, or everything that was sent has a result.")
    listed = table(
        "number",
        "state",
        "capability",
        "sent",
        "identity and payload",
        right=("number",),
        fold=("identity and payload",),
    )
    for item in found:
        where = Text(line(item.identity))
        where.append(f"\n{line(json.dumps(item.payload, ensure_ascii=False), 200)}", style="dim")
        where.append(f"\nkey {item.key}", style="dim")
        if item.failure is not None:
            where.append(f"\n{item.failure['code']}: {line(str(item.failure['message']), 160)}", style="red")
        if item.by:
            where.append(f"\nclosed by {line(item.by)}{f': {line(item.reason)}' if item.reason else ''}", style="dim")
        sent = datetime.datetime.fromtimestamp(item.at, datetime.UTC).strftime("%Y-%m-%d %H:%M:%S")
        listed.add_row(str(item.number), state(item.state), item.capability, sent, where)
    return listed
