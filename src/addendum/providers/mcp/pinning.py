"""Looking at what servers offer beside what is pinned of it, and pinning it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from addendum.canon import Json
from addendum.errors import ConfigError
from addendum.providers.mcp import Spec, probe
from addendum.providers.mcp.capabilities import capabilities
from addendum.providers.mcp.definitions import Definition, differences, read, write
from addendum.providers.service import Tools


@dataclass(frozen=True, slots=True)
class Seen:
    """One server: what is pinned of its tools (None: nothing that can be used), and what it says of them now."""

    name: str
    spec: Spec
    path: Path
    pinned: Mapping[str, Definition] | None
    now: Mapping[str, Definition]

    @property
    def differences(self) -> dict[str, dict[str, list[Json]]]:
        """What differs, by tool; see `definitions.differences`."""
        return differences(self.pinned or {}, self.now)

    @property
    def same(self) -> bool:
        """Whether the pins are what the server says."""
        return self.pinned is not None and not self.differences

    def pin(self) -> None:
        """Write the pins. Raises `ConfigError`, for tools that can't be capabilities too."""
        capabilities(self.name, self.spec, self.now)
        write(self.path, self.now)

    def to_json(self) -> dict[str, Any]:
        """Return it as JSON: per tool its capability, digest, what the server claims, and whether that is believed."""
        made = capabilities(self.name, self.spec, self.now)
        tools = [
            {
                "tool": tool,
                "capability": called,
                "effect": capability.effect,
                "digest": self.now[tool].digest,
                "claims": dict(self.now[tool].hints),
                "believed": tool in self.spec.tool and self.spec.tool[tool].accept_hints,
                "about": capability.about,
            }
            for called, (capability, tool) in made.items()
        ]
        return {
            "server": self.name,
            "pins": str(self.path),
            "pinned": self.pinned is not None,
            "same": self.same,
            "differences": self.differences,
            "tools": tools,
        }


async def look(name: str, spec: Spec, tools: Tools) -> Seen:
    """Ask one server for its tools. Starts it, calls none of its tools, and closes it. Raises `ConfigError`."""
    path = spec.pins_file(name, tools.folder)
    try:
        pinned = read(path)
    except ConfigError:
        pinned = None  # not usable: everything is new
    client = probe(name, spec, tools)
    try:
        now = await client.definitions()
    finally:
        await client.close()
    missing = [tool for tool in spec.tools if tool not in now]
    if missing:
        raise ConfigError(f"{name} has no tool {missing[0]!r}.", hint=f"It has {', '.join(sorted(now)) or 'none'}.")
    return Seen(name, spec, path, pinned, now)
