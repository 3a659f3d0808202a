"""A plan as a table: what is replayed, rebound and superseded, and the frontier of new calls with their prices."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from typing import Any

from rich.console import Group, RenderableType
from rich.text import Text

from addendum.authority.money import nano, usd
from addendum.cli.printable import line, printable
from addendum.cli.views.words import count, pairs, state, table
from addendum.records.history import Record

FLOWS = 3
"""How many flows from a result to a decision are listed."""
REPLAYED = 12
"""How many replayed calls are listed, and how many that weren't reached."""
STARTS = "makes it the run's all the same, and asks what became of the call, which it reaches unchanged"


def plan(data: Mapping[str, Any], records: Mapping[int, Record], worst: str = "") -> Group:
    """Return a plan (`addendum.plan.to_json`) for a person. `records` are the run's; `worst` says the worst case."""
    details = data["details"]
    parts: list[RenderableType] = [_heading(data), Text()]
    if rows := list(_rows(data, records)):
        listed = table("plan", "capability", "costs", "identity", right=("costs",), fold=("identity",))
        for row in rows:
            listed.add_row(*row)
        parts += [listed, Text()]
    parts += [Group(example(found, _diverging(details, found)), Text()) for found in details["counterexamples"]]
    parts.append(_summary(data, worst))
    return Group(*parts)


def _heading(data: Mapping[str, Any]) -> Text:
    text = Text("Plan: ")
    text.append_text(state(data["status"], "accepted" if data["status"] == "planned" else data["status"]))
    if data["stop"]:
        text.append(f" ({data['stop']})")
    if data["status"] == "planned":
        new = f"{count(data['frontier'], 'new call')} for at most ${data['price_usd']}"
        text.append(f", {count(data['replayed'], 'call')} replayed, {new if data['frontier'] else 'no new call'}")
    return text


def _rows(data: Mapping[str, Any], records: Mapping[int, Record]) -> Iterable[tuple[Text | str, ...]]:
    details = data["details"]
    moves = {move["seq"]: move for move in details["moves"]}
    replayed = details["replayed"]
    for item in replayed[:REPLAYED]:
        record, move = records.get(item["seq"]), moves.get(item["seq"])
        capability = record.capability if record is not None else ""
        failed = record is not None and not record.ok
        paid = f"paid ${usd(record.cost)}" if record is not None and record.ok else "failed" if failed else ""
        where = Text(line(item["identity"]))
        if move is not None:
            where.append(f"\nwas {line(move['from'])}", style="dim")
        yield state("rebound" if move else "replayed"), capability, Text(paid, style="dim"), where
    if len(replayed) > REPLAYED:
        yield Text("replayed", style="cyan"), "", "", Text(f"and {len(replayed) - REPLAYED} more", style="dim")
    for move in details["moves"]:
        if move["proof"] == "expression":
            where = Text(f"expected at {line(move['to'])}").append(f"\nwas {line(move['from'])}", style="dim")
            yield (
                state("rebound", "expected"),
                move["capability"],
                Text(f"paid ${move['cost_usd']}", style="dim"),
                where,
            )
    for call in details["frontier"]:
        yield _new(call)
    # A call that stands in the way is no orphan, and what wasn't reached says nothing when the plan stops there.
    named = {at for found in details["counterexamples"] for at in found["identities"]}
    for name in ("orphans", "possible_orphans") if data["status"] == "planned" else ("orphans",):
        listed = [record for record in details[name] if record["identity"] not in named]
        shown = listed if name == "orphans" else listed[:REPLAYED]
        for record in shown:
            word = "orphan" if name == "orphans" else "perhaps orphan"
            yield (
                state("orphaned", word),
                record["capability"],
                Text(f"paid ${record['cost_usd']}", style="dim"),
                line(record["identity"]),
            )
        if len(listed) > len(shown):
            yield state("orphaned", "perhaps orphan"), "", "", Text(f"and {len(listed) - REPLAYED} more", style="dim")


def _new(call: Mapping[str, Any]) -> tuple[Text | str, ...]:
    where = Text(line(call["identity"]))
    where.append(f"\n{line(json.dumps(call['payload'], ensure_ascii=False), 120)}", style="dim")
    if call["finding"] is not None:
        where.append(f"\n{call['finding']['kind']}: paid for before at {line(call['finding']['of'])}", style="yellow")
    word = "new" if call["supersedes"] is None else "superseded"
    return state(word, "new version" if word != "new" else ""), call["capability"], f"${call['price_usd']}", where


def _summary(data: Mapping[str, Any], worst: str) -> RenderableType:
    details = data["details"]
    planned = data["status"] == "planned"
    return pairs(
        [
            ("saved", f"${data['saved_usd']}, paid before for what is replayed" if data["replayed"] else ""),
            (
                "price",
                f"at most ${data['price_usd']} for the new calls above; more may come behind them"
                if data["frontier"] and planned
                else "",
            ),
            ("behind", _behind(details["possible_orphans"]) if planned else ""),
            ("new work", _new_work(details) if planned else ""),
            ("worst case", worst),
            ("limits", "\n".join(_limit(name, room) for name, room in details["left"].items())),
            ("influence", "\n".join(_influence(details)) if planned else ""),
            ("why", data["message"] or "" if data["stop"] else ""),
            ("way out", data["hint"] or "" if data["stop"] else ""),
            ("revise", STARTS if data["applies"] and not planned else ""),
        ]
    )


def _behind(unreached: list[Mapping[str, Any]]) -> str:
    """Say what becomes of the committed calls that new work stands in front of."""
    if not unreached:
        return ""
    paid = usd(sum(nano(record["cost_usd"]) for record in unreached))
    them = "it" if len(unreached) == 1 else "them"
    return (
        f"{count(len(unreached), 'perhaps orphan')}, ${paid} paid: "
        f"replayed where the script comes to {them} unchanged, and new work is that much less"
    )


def _new_work(details: Mapping[str, Any]) -> str:
    """Say the worst case of what isn't replayed."""
    calls = {name: most for name, most in sorted(details["new_work"].items()) if most != 0}
    if not calls:
        return "none"
    price = "no bound" if details["new_work_usd"] is None else f"at most ${details['new_work_usd']}"
    return f"{price} ({', '.join(f'{name} {_most(most)}' for name, most in calls.items())})"


def _limit(name: str, room: Mapping[str, Any]) -> str:
    """Say how a limit stands: used, and with the worst case of new work; what is above it is marked."""
    money = "$" if isinstance(room["max"], str) else ""
    said = f"{name}: {money}{room['used']} used"
    if "worst" in room and room["worst"] not in (0, "0.00"):
        worst = "no bound" if room["worst"] is None else f"{money}{room['worst']}"
        said += f", {worst} in the worst case" + ("" if room["fits"] else ": may be above it")
    return said


def _influence(details: Mapping[str, Any]) -> Iterable[str]:
    """Say how far results steer the script, and where; the decisions of one result in one line together."""
    found: dict[tuple[int, str], list[str]] = {}
    for flow in details["flows"]:
        found.setdefault((flow["line"], flow["source"] or "a call"), []).append(flow["decides"])
    if not found and details["influence"] != "L0":
        yield f"{details['influence']}: a capability runs a tool loop of its own"
    for (number, source), decides in list(found.items())[:FLOWS]:
        yield f"{details['influence']}: {source} decides {', '.join(decides)} (line {number})"
    if len(found) > FLOWS:
        yield f"and {len(found) - FLOWS} more"


def _most(most: int | None) -> str:
    return "no bound" if most is None else str(most)


def _diverging(details: Mapping[str, Any], found: Mapping[str, Any]) -> Mapping[str, Any] | None:
    if found["kind"] != "divergence":
        return None
    return next((call for call in details["diverging"] if call["identity"] == found["call"]), None)


def example(found: Mapping[str, Any], payloads: Mapping[str, Any] | None = None) -> Group:
    """Return one counterexample: what was committed, what stands there now, what hangs on it, and the way out.

    `payloads` are both payloads of a divergence, `committed` and `now`.
    """
    head = Text(found["kind"].replace("_", " "), style="bold red")
    head.append(f"  {line(found['message'])}", style="default")
    return Group(
        head,
        pairs(
            [
                ("  committed", _code(found["committed"])),
                ("  now", _code(found["now"])),
                (
                    "  paid payload",
                    line(json.dumps(payloads["committed"], ensure_ascii=False), 400) if payloads else "",
                ),
                ("  new payload", line(json.dumps(payloads["now"], ensure_ascii=False), 400) if payloads else ""),
                ("  hangs on it", f"{count(found['records'], 'committed call')}, ${usd(found['cost'])}"),
                ("  way out", printable(found["admitted"])),
            ]
        ),
    )


def _code(place: Mapping[str, Any] | None) -> str:
    return (
        f"line {place['line']}: {line(place['expression'])}"
        if place and place["line"]
        else "gone"
        if place is None
        else ""
    )
