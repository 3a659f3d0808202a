"""The capabilities that exist: tools, routes, validators, executables and the confinement, by their digests.

A contract is for one snapshot. Whoever runs it takes another one and compares: what isn't the same is refused, never
worked around.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

from addendum import canon
from addendum.authority.catalog import Catalog
from addendum.canon import Digest, Json
from addendum.errors import ConfigError
from addendum.work.codes import Finding
from addendum.work.proposal import Policy

MAX_FILE: Final = 4_000_000
_CHUNK: Final = 1 << 20


@dataclass(frozen=True, slots=True)
class Snapshot:
    """What exists, as JSON, with its digest."""

    value: Mapping[str, Any]
    files: Mapping[str, bytes] = field(default_factory=dict)
    """The validators' files by name: they are kept with a contract, and these copies are what runs."""

    @property
    def digest(self) -> Digest:
        """The SHA-256 of everything in it."""
        return canon.digest(dict(self.value))

    def version(self, name: str) -> str | None:
        """Return a capability's version, None if there is no such capability."""
        found = self.value["capabilities"].get(name)
        return None if found is None else str(found["version"])


def take(policy: Policy, folder: Path, catalog: Catalog, profile: Mapping[str, Json], runner: str) -> Snapshot:
    """Look at what exists here. `folder` is the policy's. Raises `ConfigError` for a missing file or program."""
    files = {name: _file(folder, name) for each in policy.validators.values() for name in each.files}
    capabilities: dict[str, Json] = {name: catalog[name].to_json() for name in catalog}
    for name, tool in policy.tools.items():
        if name in capabilities:
            raise ConfigError(f"The policy declares {name!r}, which a provider has.", hint="Rename it in the policy.")
        if not tool.executable or os.path.exists(tool.executable):  # a tool that isn't installed doesn't exist here
            capabilities[name] = tool.to_json()
    programs = [each.argv[0] for each in policy.validators.values()]
    programs += [route.argv[0] for route in policy.routes.values() if route.argv]
    programs += [tool.executable for name, tool in policy.tools.items() if name in capabilities and tool.executable]
    value: dict[str, Json] = {
        "capabilities": capabilities,
        "routes": {name: route.to_json() for name, route in policy.routes.items()},
        "validators": {
            name: {**each.to_json(), "sha256": {file: canon.sha256(files[file]) for file in each.files}}
            for name, each in policy.validators.items()
        },
        "executables": dict(_executables(programs)),
        "confinement": dict(profile),
        "confines": policy.confines.to_json(),
        "runner": runner,
    }
    return Snapshot(value, files)


def _file(folder: Path, name: str) -> bytes:
    path = folder / name
    if os.path.isabs(name) or ".." in Path(name).parts:
        raise ConfigError(f"The policy names {name!r}.", hint="Name a file in the policy's own folder.")
    try:
        data = path.read_bytes()
    except OSError as error:
        raise ConfigError(f"The policy's file {name} can't be read: {error.strerror}.", hint="Put it back.") from None
    if len(data) > MAX_FILE:
        raise ConfigError(f"The policy's file {name} has {len(data):,} bytes.", hint=f"At most {MAX_FILE:,}.")
    return data


def _executables(programs: Iterable[str]) -> Iterator[tuple[str, Json]]:
    for program in sorted(set(programs)):
        if not program.startswith("/"):
            raise ConfigError(f"The policy runs {program!r}.", hint="Write the program's full path.")
        if program.startswith("/policy/"):
            continue  # one of the validator's own files, which has its digest there
        real = os.path.realpath(program)
        try:
            yield program, {"realpath": real, "sha256": _digest(real)}
        except OSError as error:
            raise ConfigError(
                f"The program {program} of the policy can't be read: {error.strerror}.", hint="Install it."
            ) from None


def _digest(path: str) -> Digest:
    import hashlib

    found = hashlib.sha256()
    with open(path, "rb") as file:
        while piece := file.read(_CHUNK):
            found.update(piece)
    return found.hexdigest()


def differences(admitted: Mapping[str, Any], now: Mapping[str, Any]) -> list[Finding]:
    """Return what is no longer as it was admitted, field by field."""
    return [
        Finding(
            "snapshot.mismatch",
            where,
            f"{where} isn't what it was when the plan was admitted.",
            {"admitted": _short(before), "now": _short(after)},
        )
        for where, before, after in _walk("", admitted, now)
    ]


def _walk(where: str, before: Any, after: Any) -> Iterator[tuple[str, Any, Any]]:
    if isinstance(before, Mapping) and isinstance(after, Mapping):
        for key in sorted({*before, *after}):
            yield from _walk(f"{where}/{key}", before.get(key), after.get(key))
    elif before != after:
        yield where, before, after


def _short(value: Any) -> Json:
    text = canon.dumps(value)
    return text if len(text) <= 200 else f"{text[:200]}…"
