"""catalog pin: what the tools of MCP servers are, looked at once by a person."""

from __future__ import annotations

from typing import Annotated, Any

import typer

from addendum.cli import opening, options
from addendum.cli.output import Output, dumps
from addendum.cli.printable import line


def pin(
    names: Annotated[
        list[str] | None,
        typer.Argument(metavar="SERVER", help="MCP servers of the services file; all if left out.", show_default=False),
    ] = None,
    yes: Annotated[
        bool, typer.Option("--yes", "-y", help="Don't ask: pin what the servers offer now.", show_default=False)
    ] = False,
    provider: options.Provider = None,
    json: options.Json = False,
) -> int:
    """Look at what MCP servers offer, beside what is pinned of it, and pin it once it is confirmed.

    The servers are started, and none of their tools is called. Exit code 0: pinned, or nothing differs; 3: something
    differs and isn't pinned. What a server says of its tools is shown as its claim, and believed only where the
    services file says so.
    """
    from addendum import wiring

    output = Output(json)
    seen = wiring.look_at_tools(opening.settings(provider=provider), tuple(names or ()))
    data = [each.to_json() for each in seen]
    written: dict[str, bool] = {}
    for each, item in zip(seen, data, strict=True):
        written[each.name] = not each.same and (yes or _confirmed(output, item))
        if written[each.name]:
            each.pin()
    if json:
        output.value([{**item, "written": written[item["server"]]} for item in data])
    else:
        for item in data:
            if item["same"] or yes or not output.interactive:  # else it was shown when it was asked about
                _show(output, item)
            output.show(_verdict(item, written[item["server"]]))
    return 0 if all(each.same or written[each.name] for each in seen) else 3


def _confirmed(output: Output, item: dict[str, Any]) -> bool:
    if not output.interactive:
        return False
    _show(output, item)
    return typer.confirm(f"Pin the tools of {item['server']} as they are now?", err=True)


def _verdict(item: dict[str, Any], written: bool) -> str:
    name, path = item["server"], item["pins"]
    if written:
        return f"{name}: pinned in {path}."
    if item["same"]:
        return f"{name}: as pinned in {path}."
    return f"{name}: not pinned. Nothing is sent to it until `addendum catalog pin {name} --yes`."


def _show(output: Output, item: dict[str, Any]) -> None:
    from addendum.cli.views.words import table

    listed = table("tool", "capability", "effect", "claims", "says", fold=("says",))
    for tool in item["tools"]:
        claims = ", ".join(f"{name} {'yes' if holds else 'no'}" for name, holds in tool["claims"].items()) or "-"
        believed = " (believed)" if tool["believed"] and tool["claims"] else ""
        said = line(tool["about"], 200)
        listed.add_row(line(tool["tool"]), tool["capability"], tool["effect"], claims + believed, said)
    output.show(listed)
    for tool, changed in item["differences"].items():
        if item["pinned"] or "" not in changed:
            for pointer, (before, after) in changed.items():
                said = f"{_said(before)} -> {_said(after)}"
                output.show(f"  changed  {line(tool)} {line(pointer)}: {said}")


def _said(value: Any) -> str:
    text = line(dumps(value, indent=None))
    return text if len(text) <= 200 else text[:199] + "…"
