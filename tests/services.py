"""What tests of services share: the tools that a service is given, requests, a services file for a local server."""

from __future__ import annotations

import asyncio
import importlib
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import jsonschema

from addendum import wiring
from addendum.credentials import Credentials
from addendum.ports import Reply, Request
from addendum.providers.service import Service, Tools
from addendum.providers.threads import LoopThread
from addendum.testing.memory_artifacts import MemoryArtifacts

CANARY = "sk-canary-5f2d1c7e9b"
"""The key of every local server: wherever it is found, it leaked."""
LOCATION = {"local": "env:LOCAL_KEY"}


def tools(artifacts: MemoryArtifacts | None = None, folder: Path = Path("."), **environ: str) -> Tools:
    """Return tools with one secret, `local`, and hosted models."""
    credentials = Credentials(LOCATION, folder, {"LOCAL_KEY": CANARY, **environ})
    return Tools(
        secret=credentials.later,
        artifacts=artifacts if artifacts is not None else MemoryArtifacts(),
        folder=folder,
        model=lambda choice: wiring.open_model(choice, credentials, folder),
        loop=LoopThread().loop,
        backoff=0.0,
    )


def opened(kind: str, name: str, given: Tools | None = None, **spec: Any) -> Service:
    """Open a service of a kind, as a services file would."""
    module = importlib.import_module(f"addendum.providers.{kind}")
    found: Service = module.open(name, module.Spec(kind=kind, **spec), given or tools())
    return found


def request(name: str, payload: Any, key: str = "0123456789abcdef-1") -> Request:
    """Return a dispatch."""
    return Request(capability=name, payload=payload, key=key, run="r", identity="i", attempt=1)


def ask(service: Service, payload: Any, key: str = "0123456789abcdef-1") -> Reply:
    """Dispatch a payload that fits the service's schema, and return the reply, which does, too."""
    (capability,) = service.capabilities
    jsonschema.validate(payload, dict(capability.input))

    async def one() -> Reply:
        try:
            return await service.dispatch(request(capability.name, payload, key))
        finally:
            await service.close()

    reply = asyncio.run(one())
    jsonschema.validate(reply.value, dict(capability.output))
    return reply


def services_toml(url: str, tables: Mapping[str, Mapping[str, Any]]) -> str:
    """Return a services file: each capability with its kind's keys, all of them at one address with one key."""
    lines = ["[secret]", 'local = "env:LOCAL_KEY"']
    for name, table in tables.items():
        lines.append(f'[capability."{name}"]')
        for key, value in {"url": url, "secret": "local", **table}.items():
            lines.append(f"{key} = {toml(value)}")
    return "\n".join(lines) + "\n"


def toml(value: Any) -> str:
    """Return a value as TOML."""
    match value:
        case bool():
            return "true" if value else "false"
        case dict():
            return "{" + ", ".join(f'"{key}" = {toml(item)}' for key, item in value.items()) + "}"
        case list():
            return "[" + ", ".join(toml(item) for item in value) + "]"
        case str():
            return '"' + value.replace("\\", "\\\\").replace('"', '\\"').replace("\n", "\\n") + '"'
        case _:
            return str(value)
