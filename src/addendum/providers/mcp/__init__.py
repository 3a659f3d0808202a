"""Tools of an MCP server as capabilities: each tool of the server NAME becomes `NAME.tool`.

    [capability."tracker"]
    kind = "mcp"
    command = ["tracker-server", "--stdio"]
    secrets = { TRACKER_TOKEN = "tracker" }

What a server says of its tools is kept in a file of pins beside the services file, by digest, once a person has looked
at it (`addendum catalog pin`). The catalog comes from there: no server is started to check or to plan. A server that
offers anything else than what is pinned isn't called.

A tool's annotations (`readOnlyHint` and the like) are the server's claims about itself. They decide nothing unless the
operator accepts them for that tool; until then a tool is a `side_effect`.
"""

from __future__ import annotations

import importlib.util
from pathlib import Path
from typing import TYPE_CHECKING, Literal
from urllib.parse import urlsplit

from pydantic import BaseModel, ConfigDict, Field, model_validator

from addendum.errors import ConfigError
from addendum.providers import service
from addendum.providers.service import Service, Tools, Usd
from addendum.records.entries import Effect

if TYPE_CHECKING:
    from addendum.providers.mcp.client import Client

KIND = "mcp"


class Tool(BaseModel):
    """What the operator says of one tool. What is left out is as for the server."""

    model_config = ConfigDict(frozen=True, extra="forbid", strict=True)

    name: str = Field(
        default="", description="What it is called behind the prefix; made from the tool's name if empty."
    )
    effect: Effect | None = Field(default=None, description="Its effect class.")
    accept_hints: bool = Field(
        default=False,
        description="Whether the server's annotations are believed for this tool, where `effect` is not set.",
    )
    price_usd: Usd | None = Field(default=None, description="What a call costs.")
    most_usd: Usd | None = Field(default=None, description="The most that a call may cost.")
    timeout: float | None = Field(default=None, gt=0, le=86_400, description="Seconds for a call.")
    retries: int | None = Field(
        default=None, ge=0, le=20, description="Tries beyond the first, where nothing was done."
    )


class Spec(service.Spec):
    """An MCP server: a command that speaks over stdio, or an address that speaks streamable HTTP."""

    kind: Literal["mcp"] = Field(description="A server of the Model Context Protocol.")
    command: list[str] = Field(
        default_factory=list, description="The program and its arguments, for stdio. Its environment is empty."
    )
    url: str = Field(default="", description="The address, for streamable HTTP.")
    folder: str = Field(default="", description="Where the program runs; the services file's folder if empty.")
    environment: dict[str, str] = Field(default_factory=dict, description="Variables of the program, as they are.")
    secrets: dict[str, str] = Field(
        default_factory=dict, description="Variables of the program that are secrets: name to handle."
    )
    secret: str = Field(default="", description="The handle of a bearer token, for HTTP.")
    headers: dict[str, str] = Field(default_factory=dict, description="HTTP headers that are secrets: name to handle.")
    pins: str = Field(default="", description="The file of pins; `NAME.pins.json` beside the services file if empty.")
    tools: list[str] = Field(default_factory=list, description="The tools that are wanted; all of them if empty.")
    tool: dict[str, Tool] = Field(default_factory=dict, description="More on single tools, by the server's names.")
    start_timeout: float = Field(default=30.0, gt=0, le=600, description="Seconds for the server to be ready.")
    max_payload: int = Field(default=256 * 1024, gt=0, le=16 * 1024**2, description="Bytes of a call's arguments.")
    max_result: int = Field(default=4 * 1024**2, gt=0, le=64 * 1024**2, description="Bytes of a call's result.")

    def handles(self) -> tuple[str, ...]:
        """Return the handles of its secrets."""
        return (*super().handles(), *self.secrets.values(), *self.headers.values())

    @model_validator(mode="after")
    def _one_way(self) -> Spec:
        if bool(self.command) == bool(self.url):
            raise ValueError("a server has a command or a url, one of the two")
        if self.url and (self.environment or self.secrets or self.folder):
            raise ValueError("environment, secrets and folder are for a command")
        if self.command and (self.headers or self.secret):
            raise ValueError("secret and headers are for a url")
        if set(self.environment) & set(self.secrets):
            raise ValueError("a variable can't be in environment and in secrets")
        if self.url:
            _check(self.url)
        return self

    def pins_file(self, name: str, folder: Path) -> Path:
        """Return where the definitions of its tools are pinned."""
        return folder / (self.pins or f"{name}.pins.json")


def _check(url: str) -> None:
    """Refuse an address that is none."""
    parts = urlsplit(url)
    if parts.scheme not in ("http", "https") or not parts.hostname or parts.username or parts.password:
        raise ValueError("the url is no https://HOST/PATH; secrets aren't part of it")


def open(name: str, spec: Spec, tools: Tools) -> Service:
    """Return the service, with what is pinned of its tools. The server is started by the first call.

    Raises `ConfigError` when nothing is pinned yet, and when the SDK isn't installed."""
    if not _installed():
        service.extra("mcp", "mcp", KIND)
    from addendum.providers.mcp.definitions import read
    from addendum.providers.mcp.pinned import Pinned

    path = spec.pins_file(name, tools.folder)
    pinned = read(path)
    if pinned is None:
        raise ConfigError(
            f"The tools of {name} aren't pinned: there is no {path}.",
            hint=f"Look at them, and pin them, with `addendum catalog pin {name} --provider FILE`.",
        )
    return Pinned(name, spec, tools, pinned)


def _installed() -> bool:
    """Whether the SDK is there. It isn't imported for that: a catalog needs none of it, and it takes a second."""
    try:
        return importlib.util.find_spec("mcp") is not None
    except (ImportError, ValueError):
        return False


def probe(name: str, spec: Spec, tools: Tools) -> Client:
    """Return the client of a server without pins, so that its tools can be looked at. Raises `ConfigError`."""
    service.extra("mcp", "mcp", KIND)
    from addendum.providers.mcp.client import Client

    return Client(name, spec, tools, {})


__all__ = ["KIND", "Spec", "Tool", "open", "probe"]
