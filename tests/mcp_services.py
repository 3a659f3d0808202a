"""What a service of the kind `mcp` is given, with a secret to look for."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

from addendum.artifacts import FileArtifacts
from addendum.credentials import Credentials
from addendum.providers.service import Tools

CANARY = "canary-value-1234"


def given(folder: Path) -> Tools:
    """What wiring gives to a service."""
    credentials = Credentials({"key": "env:KEY"}, folder, {"KEY": CANARY})

    def model(choice: object) -> Any:
        raise AssertionError("no model is asked")

    return Tools(
        secret=credentials.get,
        artifacts=FileArtifacts(folder / "artifacts"),
        folder=folder,
        model=model,
        loop=asyncio.get_running_loop,
    )
