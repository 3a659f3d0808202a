"""From a pinned definition to a capability: its name, its effect, its schemas within bounds."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import replace
from typing import Any, Final

from addendum.authority.catalog import Capability
from addendum.errors import ConfigError
from addendum.providers import service
from addendum.providers.mcp import Spec, Tool
from addendum.providers.mcp.definitions import Definition
from addendum.providers.mcp.results import OUTPUT
from addendum.providers.mcp.schemas import bounded, checked
from addendum.records.entries import Effect

_ODD: Final = re.compile(r"[^A-Za-z0-9_-]+")
_NOTHING: Final = Tool()


def capabilities(name: str, spec: Spec, pinned: Mapping[str, Definition]) -> dict[str, tuple[Capability, str]]:
    """Return the capabilities by name, each with its tool's own name. Raises `ConfigError` for names that collide, and
    for what the services file says of tools that aren't there."""
    wanted = set(spec.tools) or set(pinned)
    for each in (*spec.tools, *spec.tool):
        if each not in pinned:
            raise ConfigError(
                f"{name} has no tool {each!r} that is pinned.",
                hint=f"There are {', '.join(sorted(pinned)) or 'none'}; look again with `addendum catalog pin {name} "
                "--provider FILE`.",
            )
    found: dict[str, tuple[Capability, str]] = {}
    for tool in sorted(wanted):
        called = f"{name}.{spec.tool.get(tool, _NOTHING).name or plain(tool)}"
        if called in found:
            raise ConfigError(
                f"The tools {found[called][1]!r} and {tool!r} of {name} would both be {called}.",
                hint=f'Give one of them a name: [capability."{name}".tool."{tool}"] name = "…".',
            )
        found[called] = (capability(called, spec, pinned[tool]), tool)
    return found


def plain(tool: str) -> str:
    """Return a tool's name as a part of a capability's: what has no place there becomes `_`.

    >>> plain("files/read:v2")
    'files_read_v2'
    """
    parts = [_ODD.sub("_", part) for part in tool.split(".") if part]
    return ".".join(parts)[:80] or "_"


def capability(called: str, spec: Spec, pinned: Definition) -> Capability:
    """Return a tool as a capability. Its version holds the pin's digest: another definition is another capability."""
    own = spec.tool.get(pinned.name, _NOTHING)
    said = {key: value for key, value in own.model_dump(exclude={"name", "accept_hints"}).items() if value is not None}
    hints = pinned.hints if own.accept_hints else {}
    specific = spec.model_copy(update={**said, "version": f"{spec.version}+{pinned.digest[:12]}", "about": ""})
    if own.effect is None and own.accept_hints:
        specific = specific.model_copy(update={"effect": claimed(hints)})
    output: Any = pinned.data.get("outputSchema", OUTPUT)
    source: Any = pinned.data.get("inputSchema", {"type": "object"})
    made = service.offer(
        called,
        specific,
        effect="side_effect",
        input=bounded(source, spec.max_payload),
        output=checked(output),
        about=about(pinned),
    )
    return replace(
        made,
        max_payload=spec.max_payload,
        max_result=spec.max_result,
        read_only=hints.get("readOnlyHint"),
        destructive=hints.get("destructiveHint"),
        idempotent=hints.get("idempotentHint"),
        open_world=hints.get("openWorldHint"),
    )


def claimed(hints: Mapping[str, bool]) -> Effect:
    """Return the effect class that a server's claims come to, with the protocol's defaults for what it doesn't say."""
    if hints.get("readOnlyHint", False):
        return "read"
    if hints.get("idempotentHint", False):
        return "idempotent"
    return "irreversible" if hints.get("destructiveHint", True) else "side_effect"


def about(pinned: Definition) -> str:
    """Return the server's own words on a tool, in one line, cut: they are data."""
    text = str(pinned.data.get("description") or pinned.data.get("title") or "")[:4000]
    line = " ".join("".join(letter if letter.isprintable() else " " for letter in text).split())
    return line if len(line) <= 500 else line[:499] + "…"
