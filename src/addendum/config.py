"""Settings: from `addendum.toml` in the current folder, then the environment, then the command line."""

from __future__ import annotations

import getpass
import os
import tomllib
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Literal

from pydantic import BaseModel, ConfigDict, Field, ValidationError

from addendum.errors import ConfigError
from addendum.ports import Limits

FILE = "addendum.toml"
PREFIX = "ADDENDUM_"


def _operator() -> str:
    try:
        return getpass.getuser()
    except (KeyError, OSError):
        return "operator"


class Settings(BaseModel):
    """What a person sets for this machine or folder. `store` is a path, `backoff` and the times are seconds, sizes are
    bytes; `grant`, `ceiling` and `catalog` are
    paths to TOML files, `log` is the path of a file that is written."""

    model_config = ConfigDict(frozen=True, extra="forbid", strict=True)

    store: str = Field(default=".addendum/store.db", description="Where runs are kept.")
    sandbox: str = Field(default="monty", description="Where scripts run: monty, bwrap, docker or podman.")
    image: str = Field(default="", description="The container's image, by digest; the one of `sandbox build` if empty.")
    warm: int = Field(default=1, ge=0, description="Workers that are started ahead (bwrap, docker, podman).")
    provider: str = Field(default="demo", description="Who does the work of capabilities.")
    grant: str = Field(default="", description="The grant of a new run; everything without limits if empty.")
    ceiling: str = Field(default="", description="What no run's grant may go beyond; no ceiling if empty.")
    catalog: str = Field(default="", description="What capabilities are, over what the provider says of them.")
    backoff: float = Field(default=0.5, ge=0, description="Pause before a first retry.")
    turn_seconds: float = Field(default=10.0, gt=0, description="Computing time of a script between two answers.")
    total_seconds: float = Field(default=120.0, gt=0, description="Computing time of a script in all.")
    memory: int = Field(default=512 * 1024 * 1024, gt=0, description="Memory of a script.")
    operator: str = Field(default_factory=_operator, description="Who acts, for the record.")
    telemetry: Literal["auto", "on", "content", "off"] = Field(
        default="auto",
        description="Spans and metrics by OpenTelemetry: auto (where the process has set it up), on, content (with "
        "payloads, results and prompts) or off.",
    )
    log: str = Field(default="", description="Where each event is written as a line of JSON: a file, or - for stderr.")
    log_level: Literal["debug", "info", "warning", "error"] = Field(
        default="info", description="Which events are written there."
    )

    def limits(self) -> Limits:
        """Return the sandbox's limits."""
        return Limits(turn_seconds=self.turn_seconds, total_seconds=self.total_seconds, memory=self.memory)


def load(
    folder: Path | None = None, environment: Mapping[str, str] | None = None, overrides: Mapping[str, Any] | None = None
) -> Settings:
    """Read the settings: `addendum.toml` in a folder, `ADDENDUM_NAME` in the environment, then what is given.

    Raises `ConfigError` that names the setting and where it came from.
    """
    folder = folder or Path.cwd()
    environment = os.environ if environment is None else environment
    found: dict[str, Any] = {}
    path = folder / FILE
    if path.exists():
        try:
            found.update(tomllib.loads(path.read_text("utf-8")))
        except (OSError, UnicodeDecodeError, tomllib.TOMLDecodeError) as error:
            raise ConfigError(f"{path} can't be read: {error}.", hint="It is a TOML file of settings.") from None
    source = {name: str(path) for name in found}
    for name, field in Settings.model_fields.items():
        text = environment.get(PREFIX + name.upper())
        if text is not None:
            found[name] = _number(text, field.annotation)
            source[name] = f"the environment ({PREFIX}{name.upper()})"
    for name, value in (overrides or {}).items():
        if value is not None:
            found[name] = value
            source[name] = "the command line"
    try:
        return Settings(**found)
    except ValidationError as error:
        first = error.errors()[0]
        name = str(first["loc"][0]) if first["loc"] else "settings"
        where = source.get(name, "a file")
        unknown = first["type"] == "extra_forbidden"
        raise ConfigError(
            f"There is no setting {name} ({where})."
            if unknown
            else f"The setting {name} from {where} is wrong: {first['msg']}.",
            hint=f"The settings are {', '.join(Settings.model_fields)}.",
        ) from None


def _number(text: str, kind: Any) -> Any:
    try:
        return kind(text) if kind in (int, float) else text
    except ValueError:
        return text
