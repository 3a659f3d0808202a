"""What a server says of its tools, pinned: read, compared, written. No server is needed for any of it."""

from __future__ import annotations

import json
import os
import tempfile
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any, Final

import jsonschema

from addendum.canon import Digest, Json, digest
from addendum.errors import ConfigError, NotJson

FORMAT: Final = "addendum-mcp-pins/1"
MANY: Final = 1000
"""Tools of one server."""
LARGE: Final = 256 * 1024
"""Bytes of one definition, as JSON."""
KEPT: Final = ("name", "title", "description", "inputSchema", "outputSchema", "annotations", "execution")
"""What belongs to a definition: all that a model or a person may decide by. Icons and `_meta` don't."""
SHOWN: Final = 20


@dataclass(frozen=True)
class Definition:
    """One tool as its server defines it. `data` are the keys of `KEPT` that it has, as the protocol spells them."""

    name: str
    data: Mapping[str, Json]

    @cached_property
    def digest(self) -> Digest:
        """The SHA-256 of its canonical JSON."""
        return digest(dict(self.data))

    @property
    def hints(self) -> Mapping[str, bool]:
        """What the server claims of the tool, of the four facts of the protocol."""
        found: Any = self.data.get("annotations") or {}
        names = ("readOnlyHint", "destructiveHint", "idempotentHint", "openWorldHint")
        return {name: found[name] for name in names if isinstance(found.get(name), bool)}


def definition(data: Mapping[str, Any]) -> Definition:
    """Return a definition from what a server sent. Raises `ConfigError` for one that can't be used."""
    name = str(data["name"])
    kept = {key: data[key] for key in KEPT if data.get(key) is not None}
    found = Definition(name, kept)
    try:
        size = len(json.dumps(kept))
        _ = found.digest
    except (NotJson, ValueError, RecursionError) as error:
        raise ConfigError(f"The tool {name[:100]!r} has a definition that is no plain JSON: {error}.") from None
    if size > LARGE:
        raise ConfigError(
            f"The tool {name[:100]!r} has a definition of {size:,} bytes.", hint=f"{LARGE:,} is the limit."
        )
    for key in ("inputSchema", "outputSchema"):
        if key in kept:
            _schema(name, key, kept[key])
    return found


def _schema(name: str, key: str, schema: object) -> None:
    """Refuse what is no schema, and what refers to anything outside of it: nothing is fetched for a server."""
    if not isinstance(schema, Mapping):
        raise ConfigError(f"The {key} of the tool {name[:100]!r} is no JSON Schema.", hint="Leave the tool out.")
    kind = jsonschema.validators.validator_for(schema, default=jsonschema.Draft202012Validator)
    try:
        kind.check_schema(dict(schema))
    except (jsonschema.SchemaError, RecursionError) as error:
        reason = getattr(error, "message", "it nests too deep")
        raise ConfigError(f"The {key} of the tool {name[:100]!r} is no JSON Schema: {reason[:200]}.") from None
    for reference in _references(schema):
        if not reference.startswith("#"):
            raise ConfigError(
                f"The {key} of the tool {name[:100]!r} refers to {reference[:100]!r}, which isn't in it.",
                hint="Leave the tool out: nothing is fetched for a schema.",
            )


def _references(value: object) -> Iterator[str]:
    if isinstance(value, Mapping):
        for key, each in value.items():
            if key in ("$ref", "$dynamicRef") and isinstance(each, str):
                yield each
            else:
                yield from _references(each)
    elif isinstance(value, list | tuple):
        for each in value:
            yield from _references(each)


# --- pins ---------------------------------------------------------------------------------------------------------


def read(path: Path) -> dict[str, Definition] | None:
    """Return the pinned definitions by tool, None if there is no such file. Raises `ConfigError` for one that was
    changed by hand: a pin is what a person looked at."""
    try:
        text = path.read_text("utf-8")
    except FileNotFoundError:
        return None
    except (OSError, UnicodeDecodeError) as error:
        raise ConfigError(f"The pins {path} can't be read: {error}.", hint="Pin the tools again.") from None
    try:
        data = json.loads(text)
        if data["format"] != FORMAT:
            raise KeyError("format")
        found = {name: (definition(pin["definition"]), pin["digest"]) for name, pin in data["tools"].items()}
    except (ValueError, KeyError, TypeError, AttributeError, RecursionError):
        raise ConfigError(
            f"{path} is no file of pins.", hint="Write it with `addendum catalog pin`, not by hand."
        ) from None
    for name, (pinned, expected) in found.items():
        if pinned.digest != expected or pinned.name != name:
            raise ConfigError(
                f"In {path}, the definition of {name!r} isn't the one that was pinned.",
                hint="Look at the server's tools again, and pin them, with `addendum catalog pin`.",
            )
    return {name: pinned for name, (pinned, _) in found.items()}


def write(path: Path, found: Mapping[str, Definition]) -> None:
    """Write pins, all of them or none. Raises `ConfigError`."""
    data = {
        "format": FORMAT,
        "tools": {name: {"digest": found[name].digest, "definition": dict(found[name].data)} for name in sorted(found)},
    }
    text = json.dumps(data, ensure_ascii=False, indent=2, sort_keys=True) + "\n"
    try:
        handle, name = tempfile.mkstemp(dir=path.parent, prefix=f".{path.name}.")
        with os.fdopen(handle, "w", encoding="utf-8") as file:
            file.write(text)
        os.chmod(name, 0o644)
        os.replace(name, path)
    except OSError as error:
        raise ConfigError(f"The pins {path} can't be written: {error.strerror}.", hint="Name another file.") from None


def differences(pinned: Mapping[str, Definition], now: Mapping[str, Definition]) -> dict[str, dict[str, list[Json]]]:
    """Return what differs, by tool: by JSON pointer what was and what is, null for nothing. A tool that came or went
    has the one pointer ""."""
    found: dict[str, dict[str, list[Json]]] = {}
    for name in sorted({*pinned, *now}):
        before = dict(pinned[name].data) if name in pinned else None
        after = dict(now[name].data) if name in now else None
        if before is None or after is None:
            found[name] = {"": [before, after]}
        elif pinned[name].digest != now[name].digest:
            found[name] = dict(_differ(before, after, ""))
    return found


def _differ(before: Json, after: Json, at: str) -> Iterator[tuple[str, list[Json]]]:
    if isinstance(before, dict) and isinstance(after, dict):
        for key in sorted({*before, *after}):
            token = key.replace("~", "~0").replace("/", "~1")
            yield from _differ(before.get(key), after.get(key), f"{at}/{token}")
    elif before != after or type(before) is not type(after):
        yield at, [before, after]


def said(found: Mapping[str, Mapping[str, list[Json]]]) -> str:
    """Say what differs in a sentence. What a server wrote is shown as JSON, cut."""
    parts = []
    for name, changed in found.items():
        if "" in changed:
            parts.append(f"{json.dumps(name)} {'is new' if changed[''][0] is None else 'is gone'}")
            continue
        pairs = [f"{at} was {_short(was)}, is {_short(now)}" for at, (was, now) in list(changed.items())[:3]]
        parts.append(f"{json.dumps(name)} changed ({'; '.join(pairs)})")
    more = f", and {len(parts) - SHOWN} more" if len(parts) > SHOWN else ""
    return ", ".join(parts[:SHOWN]) + more


def _short(value: Json) -> str:
    text = json.dumps(value)
    return text if len(text) <= 80 else text[:79] + "…"
