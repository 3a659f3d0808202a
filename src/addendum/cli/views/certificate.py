"""A certificate: the chain's head, what it covers, the frozen sites, and where the store says otherwise."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from rich.console import Group, RenderableType
from rich.text import Text

from addendum.authority.money import usd
from addendum.cli.printable import line
from addendum.cli.views.words import count, pairs, table


def certificate(data: Mapping[str, Any], verified: bool) -> Group:
    """Return a certificate (`Certificate.to_json` with the run's name) for a person."""
    parts: list[RenderableType] = [
        pairs(
            [
                ("run", data["run"]),
                ("head", data["head"] or "(nothing)"),
                (
                    "covers",
                    _covered(data),
                ),
            ]
        ),
        Text(),
    ]
    if data["sites"]:
        listed = table("record", "capability", "payload", "result", "identity", right=("record",), fold=("identity",))
        for site in data["sites"]:
            listed.add_row(
                str(site["seq"]),
                site["capability"],
                site["digest"][:12],
                (site["result"] or "")[:12],
                line(site["identity"]),
            )
        parts += [listed, Text()]
    for difference in data["differences"]:
        parts.append(Text(f"entry {difference['seq']}: {line(difference['what'])}", style="red"))
    parts.append(_verdict(data, verified))
    return Group(*parts)


def _covered(data: Mapping[str, Any]) -> str:
    entries = "1 entry" if data["entries"] == 1 else f"{data['entries']} entries"
    return f"{entries}, {count(data['records'], 'record')}, ${usd(data['cost'])}"


def _verdict(data: Mapping[str, Any], verified: bool) -> Text:
    if data["differences"]:
        found = count(len(data["differences"]), "difference")
        return Text(f"{found}: the store isn't what was written.", style="bold red")
    if not verified:
        return Text("Verify it with --verify.", style="dim")
    return Text("Verified: the store is what was written.", style="green")
