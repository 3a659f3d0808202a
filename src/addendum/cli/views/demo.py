"""The demonstration as a newcomer reads it: a heading for each act, then what is seen."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from rich.console import Group, RenderableType
from rich.text import Text

from addendum.authority.money import usd
from addendum.cli.printable import printable
from addendum.cli.views.plan import plan
from addendum.cli.views.result import shown, why
from addendum.cli.views.words import count, table
from addendum.records.history import Record


def _act(number: int, title: str) -> Text:
    return Text(f"\n{number}. {title}\n", style="bold")


def _code(source: str) -> Text:
    return Text("\n".join(f"    {line}" for line in source.rstrip("\n").splitlines()), style="dim")


def opening(source: str) -> Group:
    """Return what is to be run, and with what."""
    return Group(
        Text("Nothing here leaves this machine: the provider is a local one that fails the fourth image."),
        _act(1, "A model wrote this script. It passes the checker and is run:"),
        _code(source),
        Text(),
    )


def failed(data: Mapping[str, Any]) -> Group:
    """Return how the first attempt ended."""
    return Group(
        Text(),
        Text(f"The run {data['status']}: {printable(why(data['error'], str(data['message'])))}.", style="red"),
        Text(
            f"{count(data['committed'], 'call')} succeeded, cost ${data['total_cost_usd']}, and are committed: "
            "result and price are in the store."
        ),
    )


def rewritten(source: str) -> Group:
    """Return the rewrite."""
    return Group(
        _act(2, "The model rewrites it, and moves the committed call into a helper:"),
        _code(source),
    )


def planned(data: Mapping[str, Any], records: Mapping[int, Record]) -> Group:
    """Return the plan."""
    return Group(
        _act(3, "The plan. The new script is replayed over what is committed; nothing is sent:"),
        plan(data["details"]["plan"], records),
        Text(
            "\nRebound: the call moved, and its record moves with it. The replay has proven that they belong together."
        ),
    )


def applying() -> Group:
    """Return the heading of the last act."""
    return Group(_act(4, "The plan is applied:"))


def ended(data: Mapping[str, Any], money: Mapping[str, Any], certificate: Mapping[str, Any]) -> Group:
    """Return the result, the bill, and the certificate."""
    bill = table("", "calls sent", "paid", right=("calls sent", "paid"))
    for label, key in (
        ("first run", "first"),
        ("revision", "revision"),
        ("together", "together"),
        ("with a full rerun instead", "with_full_rerun"),
    ):
        style = "bold green" if key == "together" else "dim" if key == "with_full_rerun" else ""
        bill.add_row(
            Text(label, style=style),
            Text(str(money[key]["calls"]), style=style),
            Text(f"${money[key]['cost_usd']}", style=style),
        )
    parts: list[RenderableType] = [
        Text(),
        Text(f"The run {data['status']}. Its result:", style="green" if data["status"] == "completed" else "red"),
        Text(shown(data["result"], data["run"])),
        _act(5, "What it cost, beside a full rerun:"),
        bill,
        Text(
            f"\n{count(data['replayed'], 'call')} replayed, {data['dispatched']} paid for: "
            f"${money['saved']['cost_usd']} and {count(money['saved']['calls'], 'call')} saved, no image made twice."
        ),
        _certificate(certificate),
    ]
    return Group(*parts)


def _certificate(found: Mapping[str, Any]) -> Text:
    text = Text("\nCertificate ")
    text.append(str(found["head"])[:16], style="bold")
    text.append(f" over {found['entries']} journal entries and {found['records']} records (${usd(found['cost'])}): ")
    good = not found["differences"]
    return text.append("verified" if good else "differences", style="green" if good else "bold red")
